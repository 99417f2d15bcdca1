//! What elements may be off that others were added to, by what was added.

use crate::operands::Operands;
use trimtab_core::Scatter;

/// By number of the result: the sizes of all that was added there, and more the more there are. One after the other in the element type, n
/// numbers are off by n/2 units of their sizes at most, and by as much where all are equal; whatever the order, this holds.
pub(super) fn slack(p: &Scatter, operands: &Operands) -> Vec<f32> {
    let [data, indices, added] = [0, 1, 2].map(|place| operands.inputs.get(place));
    let (Some(data), Some(indices), Some(added)) = (data, indices, added) else { return vec![] };
    let [len, inner, count] = [p.len, p.inner, p.count].map(|size| size as usize);
    let each = p.dtype.numbers();
    let size = |value: Option<f64>| value.map_or(0.0, f64::abs).min(f64::from(f32::MAX));
    // Of a complex number both parts are measured alike.
    let mut sizes: Vec<(f64, f64)> = (0..data.numbers()).map(|at| (size(data.at(at)), 0.0)).collect();
    for at in 0..p.along_count() as usize {
        let (line, column) = (at / inner / count.max(1), at % inner);
        let nth = if p.each { at } else { at / inner % count.max(1) };
        let index = indices.at(nth).unwrap_or(0.0);
        let index = if index < 0.0 { index + len as f64 } else { index } as usize;
        for part in 0..each {
            if let Some((sum, terms)) = sizes.get_mut(((line * len + index) * inner + column) * each + part) {
                *sum += size(added.at(at * each + part));
                *terms += 1.0;
            }
        }
    }
    sizes.into_iter().map(|(sum, terms)| (sum * (1.0 + terms / 8.0)) as f32).collect()
}
