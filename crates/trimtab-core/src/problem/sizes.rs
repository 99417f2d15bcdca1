//! Sizes counted, merged around an axis, written and hashed: what problems share.

use super::ProblemError;
use crate::DType;
use std::fmt;

/// A sum of products with odd numbers, folded once: independent multiplications.
#[inline]
pub(super) fn mix<const N: usize>(words: &[u64; N]) -> u64 {
    const ODD: [u64; 7] = [
        0x9e37_79b9_7f4a_7c15,
        0xbf58_476d_1ce4_e5b9,
        0x94d0_49bb_1331_11eb,
        0xd6e8_feb8_6659_fd93,
        0xa076_1d64_78bd_642f,
        0xe703_7ed1_a0b4_28db,
        0x8ebc_6af0_9c88_c6e3,
    ];
    let sum = words.iter().zip(ODD).fold(0u64, |sum, (word, odd)| sum.wrapping_add(word.wrapping_mul(odd)));
    sum ^ sum >> 32
}

/// The product of `sizes` if that many elements can be addressed. Sizes beside a zero must be addressable too, so that no
/// product of some of them overflows.
pub(crate) fn element_count(sizes: &[u64], dtype: DType) -> Result<u64, ProblemError> {
    let limit = isize::MAX as u64 / dtype.size();
    let count = sizes.iter().try_fold(1u64, |product, &size| product.checked_mul(size.max(1)));
    let count = count
        .filter(|&count| count <= limit)
        .ok_or_else(|| ProblemError::TooLarge { sizes: sizes.to_vec(), dtype })?;
    Ok(if sizes.contains(&0) { 0 } else { count })
}

/// The product of sizes that were counted before. Saturating: where one is zero, the others may be anything.
#[inline]
pub(super) fn product(sizes: &[u64]) -> u64 {
    sizes.iter().fold(1, |product, &size| product.saturating_mul(size))
}

/// The products of sizes before an axis, along it and behind it. Nothing is one form, so that no kernel multiplies the sizes beside
/// the zero.
pub(super) fn along(shape: &[u64], axis: usize, dtype: DType) -> Result<[u64; 3], ProblemError> {
    let Some(&len) = shape.get(axis) else {
        let reason = "there is no such axis";
        return Err(ProblemError::Axes { axes: vec![axis], shape: shape.to_vec(), reason });
    };
    element_count(shape, dtype)?;
    let (outer, inner) = (element_count(&shape[..axis], dtype)?, element_count(&shape[axis + 1..], dtype)?);
    element_count(&[outer, inner], dtype)?;
    Ok(if outer == 0 || inner == 0 { [0, 1, 1] } else { [outer, len, inner] })
}

/// Sizes as [`along`] gives them, with the axis where it is not the only one, and words behind it.
pub(super) fn write_along(f: &mut fmt::Formatter<'_>, sizes: [u64; 3], words: &[&str]) -> fmt::Result {
    let (sizes, axis) = match sizes {
        [1, len, 1] => (vec![len], None),
        [1, len, inner] => (vec![len, inner], Some("axis0")),
        [outer, len, 1] => (vec![outer, len], Some("axis1")),
        sizes => (sizes.to_vec(), Some("axis1")),
    };
    write_sizes(f, &sizes)?;
    let words: Vec<&str> = axis.into_iter().chain(words.iter().copied()).collect();
    if words.is_empty() { Ok(()) } else { write!(f, ":{}", words.join(",")) }
}

/// Sizes joined by `x`.
pub(super) fn write_sizes(f: &mut fmt::Formatter<'_>, sizes: &[u64]) -> fmt::Result {
    for (index, size) in sizes.iter().enumerate() {
        if index > 0 {
            f.write_str("x")?;
        }
        write!(f, "{size}")?;
    }
    Ok(())
}
