//! Parts of the space that differ from the best point in one setting: where to look when nothing better is found.
//!
//! The best point often needs the opposite value of a switch whose first trials were bad.

use super::told::{Subspace, Told};
use trimtab_core::RandomNumbers;

/// How many doublings behind the best a part that was never tried is assumed to be.
const UNTRIED: f64 = 0.5;
/// What a part is credited with for being tried only once, in doublings; half as much for four times.
const CREDIT: f64 = 2.0;
/// What luck adds, so that parts alike take turns.
const LUCK: f64 = 0.3;

/// Any other value of any axis of the best point.
pub(super) fn any(told: &Told, numbers: &mut RandomNumbers) -> Option<Subspace> {
    let own = told.space.digits(told.best?.0);
    let values = |axis: usize| told.space.axes()[axis].values.len();
    let axes: Vec<usize> = (0..own.len()).filter(|axis| values(*axis) > 1).collect();
    let axis = *axes.get(numbers.below(axes.len()))?;
    let digit = (usize::from(own[axis]) + 1 + numbers.below(values(axis) - 1)) % values(axis);
    Some((axis, digit as u16))
}

/// The other value that promises most: its best point is near the best of all, or it was hardly tried.
pub(super) fn promising(told: &Told, numbers: &mut RandomNumbers) -> Option<Subspace> {
    let (best_at, best) = told.best?;
    let own = told.space.digits(best_at);
    // Doublings behind the best, and trials.
    let mut parts: Vec<Vec<(f64, f64)>> =
        told.space.axes().iter().map(|axis| vec![(UNTRIED, 0.0); axis.values.len()]).collect();
    for &(at, value) in &told.observed {
        let behind = value - best;
        for (parts, digit) in parts.iter_mut().zip(told.space.digits(at)) {
            let (least, trials) = &mut parts[usize::from(*digit)];
            *least = if *trials == 0.0 { behind } else { least.min(behind) };
            *trials += 1.0;
        }
    }
    for &at in &told.failed {
        for (parts, digit) in parts.iter_mut().zip(told.space.digits(at)) {
            parts[usize::from(*digit)].1 += 1.0;
        }
    }
    let mut chosen: Option<(f64, Subspace)> = None;
    for (axis, parts) in parts.iter().enumerate() {
        for (digit, (behind, trials)) in parts.iter().enumerate() {
            if digit == usize::from(own[axis]) {
                continue;
            }
            let promise = CREDIT / (trials + 1.0).sqrt() - behind + LUCK * numbers.unit();
            if chosen.is_none_or(|(most, _)| promise > most) {
                chosen = Some((promise, (axis, digit as u16)));
            }
        }
    }
    chosen.map(|(_, subspace)| subspace)
}

#[cfg(test)]
mod tests {
    use super::super::{SearchSpace, Seen};
    use super::*;
    use std::sync::Arc;
    use trimtab_core::{Point, Space};

    fn told() -> Told {
        let points = (0..8u32).flat_map(|a| (0..2).map(move |b| Point::new(&[a, b]))).collect();
        Told::new(Arc::new(SearchSpace::new(&Space::new(vec!["a".into(), "b".into()], points))))
    }

    #[test]
    fn it_never_names_a_setting_of_the_best_point() {
        let (mut told, mut numbers) = (told(), RandomNumbers::new(1));
        assert_eq!((any(&told, &mut numbers), promising(&told, &mut numbers)), (None, None));
        told.tell(5, Seen::Time(1.0));
        let own = told.space.digits(5).to_vec();
        for _ in 0..100 {
            for subspace in [any(&told, &mut numbers), promising(&told, &mut numbers)] {
                let (axis, digit) = subspace.unwrap();
                assert_ne!(own[axis], digit);
            }
        }
    }

    #[test]
    fn hopeless_parts_are_left_alone_and_near_ones_are_tried() {
        let (mut told, mut numbers) = (told(), RandomNumbers::new(1));
        // Every value of `a` was tried with b = 0 and is 16 times slower but a = 0; a = 3 is nearly as good.
        for a in 0..8u16 {
            let at = told.space.find(&[a, 0]).unwrap();
            let time = if a == 0 {
                1.0
            } else if a == 3 {
                1.01
            } else {
                16.0
            };
            told.tell(at, Seen::Time(time));
        }
        let chosen: Vec<Subspace> = (0..50).filter_map(|_| promising(&told, &mut numbers)).collect();
        assert!(chosen.iter().all(|subspace| [(0, 3), (1, 1)].contains(subspace)), "{chosen:?}");
        assert!(chosen.contains(&(1, 1)));
    }
}
