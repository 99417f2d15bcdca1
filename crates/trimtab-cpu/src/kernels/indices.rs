//! Indices of elements along an axis: negative ones count from the end, and all are looked at before any is used.

use trimtab_core::{DType, LaunchError};
use trimtab_operands::{Element, Slice};

/// A type of indices.
pub(super) trait Index: Element {
    /// The place along an axis of so many elements; in it if [`checked`] found nothing.
    fn place(self, len: usize) -> usize;
}

impl Index for i32 {
    #[inline(always)]
    fn place(self, len: usize) -> usize {
        (i64::from(self) + if self < 0 { len as i64 } else { 0 }) as usize
    }
}

impl Index for i64 {
    #[inline(always)]
    fn place(self, len: usize) -> usize {
        self.wrapping_add(if self < 0 { len as i64 } else { 0 }) as usize
    }
}

/// The same for the type of the indices.
macro_rules! by_index {
    ($index:expr, $type:ident => $run:expr) => {
        match $index {
            trimtab_core::DType::I32 => {
                type $type = i32;
                $run
            }
            _ => {
                type $type = i64;
                $run
            }
        }
    };
}
pub(super) use by_index;

/// Indices, every one of which is in an axis of so many elements, or which of them first is not.
pub(super) fn checked<I: Index>(indices: Slice<'_>, len: u64) -> Result<&[I], LaunchError> {
    let found = indices.dtype();
    let Some(all) = I::slice(indices) else {
        let (dtype, needed) = (found.map_or("nothing", DType::name), indices.len());
        return Err(LaunchError::Operand { operand: "b", dtype, found: indices.len(), needed });
    };
    let len = len as usize;
    // Block by block without a branch, which is a vector at a time.
    let is_wrong = |index: &I| index.place(len) >= len;
    let first =
        all.chunks(1024).position(|block| block.iter().fold(false, |any, index| any | is_wrong(index)));
    let Some(block) = first else { return Ok(all) };
    let at = all[block * 1024..].iter().position(is_wrong).map_or(0, |at| block * 1024 + at);
    Err(out_of_range(all[at].to_i64(), at, len))
}

#[cold]
fn out_of_range(index: i64, at: usize, len: usize) -> LaunchError {
    LaunchError::Data(format!(
        "index {index}, number {at} of the indices, is not in an axis of {len} elements; indices go from -{len} to {}",
        len as i64 - 1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wrong_index_is_told_with_its_place() {
        let mut indices = vec![3i64; 5000];
        assert!(checked::<i64>(Slice::I64(&indices), 4).is_ok());
        indices[4321] = -5;
        indices[4999] = 4;
        let told = checked::<i64>(Slice::I64(&indices), 4).unwrap_err().to_string();
        assert!(told.contains("index -5, number 4321") && told.contains("from -4 to 3"), "{told}");
        for wrong in [i64::MIN, i64::MAX, 4, -5] {
            assert!(checked::<i64>(Slice::I64(&[wrong]), 4).is_err(), "{wrong}");
        }
        for wrong in [i32::MIN, i32::MAX, 4, -5] {
            assert!(checked::<i32>(Slice::I32(&[wrong]), 4).is_err(), "{wrong}");
        }
        assert!(checked::<i32>(Slice::I32(&[0]), 0).is_err());
        assert!(checked::<i32>(Slice::None, 0).is_ok());
    }

    #[test]
    fn negative_indices_count_from_the_end() {
        assert_eq!([-1i64, -4, 0, 3].map(|index| index.place(4)), [3, 0, 0, 3]);
        assert_eq!([-1i32, -4, 0, 3].map(|index| index.place(4)), [3, 0, 0, 3]);
    }
}
