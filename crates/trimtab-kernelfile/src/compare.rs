//! Whether a result is what was wanted, and where it is not.

use crate::arguments::numbers_of;
use trimtab_core::DType;

/// Says where a result differs; nothing if it does not. An element may be off by the tolerance as a share of itself, or of the mean
/// of all where that is larger.
pub(crate) fn difference(
    name: &str,
    dtype: DType,
    shape: &[usize],
    got: &[u8],
    wanted: &[u8],
    tolerance: f64,
) -> Option<String> {
    if got == wanted {
        return None;
    }
    let (got, wanted) = (numbers_of(dtype, got), numbers_of(dtype, wanted));
    let finite = wanted.iter().filter(|number| number.is_finite());
    let (sum, count) = finite.fold((0.0, 0usize), |(sum, count), number| (sum + number.abs(), count + 1));
    let mean = sum / count.max(1) as f64;
    let allowed = |wanted: f64| tolerance * wanted.abs().max(mean);
    let agrees = |got: f64, wanted: f64| {
        let is_near = wanted.is_finite() && (got - wanted).abs() <= allowed(wanted);
        got == wanted || (got.is_nan() && wanted.is_nan()) || is_near
    };
    let wrong: Vec<usize> = got
        .iter()
        .zip(&wanted)
        .enumerate()
        .filter(|(_, (got, wanted))| !agrees(**got, **wanted))
        .map(|(at, _)| at)
        .collect();
    let first = *wrong.first()?;
    let element = first / dtype.numbers();
    let mut index = vec![0; shape.len()];
    let mut rest = element;
    for (place, size) in index.iter_mut().zip(shape).rev() {
        *place = rest % (*size).max(1);
        rest /= (*size).max(1);
    }
    let many = match wrong.len() {
        1 => "one element differs".to_string(),
        count => format!("{count} of {} differ", got.len()),
    };
    Some(format!(
        "`{name}` differs at {index:?}: got {}, wanted {} (may be off by {:.3e}); {many}",
        got[first],
        wanted[first],
        allowed(wanted[first])
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    #[test]
    fn a_difference_is_told_with_its_place_and_both_numbers() {
        let compare = |got: &[f32], wanted: &[f32], tolerance| {
            difference("out", DType::F32, &[2, 2], &bytes(got), &bytes(wanted), tolerance)
        };
        let wanted = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(compare(&wanted, &wanted, 0.0), None);
        assert_eq!(compare(&[1.0, 2.0, 3.0, 4.00001], &wanted, 1e-4), None);
        let told = compare(&[1.0, 2.0, 9.0, f32::NAN], &wanted, 1e-4).unwrap();
        assert!(
            told.contains("differs at [1, 0]: got 9, wanted 3") && told.contains("2 of 4 differ"),
            "{told}"
        );
        assert_eq!(compare(&[f32::NAN, 0.0, 1.0, 1.0], &[f32::NAN, 1e-9, 1.0, 1.0], 1e-4), None);
        assert!(compare(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 3.0, f32::INFINITY], 1e-2).is_some());
        let whole =
            |numbers: &[i32]| numbers.iter().flat_map(|number| number.to_ne_bytes()).collect::<Vec<u8>>();
        let told = difference("n", DType::I32, &[3], &whole(&[1, 2, 4]), &whole(&[1, 2, 3]), 0.0).unwrap();
        assert!(told.contains("at [2]: got 4, wanted 3") && told.contains("one element"), "{told}");
    }
}
