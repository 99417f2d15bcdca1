//! Elements as words of their size, for kernels that move them and do not compute: one function for all types of a size.

use trimtab_operands::{Element, Slice, SliceMut, by_dtype};

/// Words of one size and alignment.
pub(super) trait Unit: Copy + Send + Sync + bytemuck::Pod {}
impl Unit for u8 {}
impl Unit for u16 {}
impl Unit for u32 {}
impl Unit for u64 {}
impl Unit for [u32; 2] {}
impl Unit for [u64; 2] {}

/// The same for the words that elements of a type are.
macro_rules! by_unit {
    ($dtype:expr, $unit:ident => $run:expr) => {
        match ($dtype.size(), $dtype.is_complex()) {
            (1, _) => {
                type $unit = u8;
                $run
            }
            (2, _) => {
                type $unit = u16;
                $run
            }
            (4, _) => {
                type $unit = u32;
                $run
            }
            (8, false) => {
                type $unit = u64;
                $run
            }
            (8, true) => {
                type $unit = [u32; 2];
                $run
            }
            _ => {
                type $unit = [u64; 2];
                $run
            }
        }
    };
}

/// Elements as words of their size; none where that is not the size.
pub(super) fn words<U: Unit>(slice: Slice<'_>) -> &[U] {
    bytemuck::try_cast_slice(slice.bytes()).unwrap_or_default()
}

/// The same to be written; none where that is not the size.
///
/// # Safety
/// Every word that is written must be an element of the slice's type: of truth values zero or one.
pub(super) unsafe fn words_mut<U: Unit>(slice: SliceMut<'_>) -> &mut [U] {
    fn cast<T: Element, U: Unit>(slice: &mut [T]) -> &mut [U] {
        if size_of::<T>() != size_of::<U>() || align_of::<T>() < align_of::<U>() {
            return &mut [];
        }
        // SAFETY: as many words of the same size, aligned at least as much; elements have no padding, words no invalid bits. The
        // caller of `words_mut` writes elements only.
        unsafe { std::slice::from_raw_parts_mut(slice.as_mut_ptr().cast::<U>(), slice.len()) }
    }
    by_dtype!(slice.dtype(), T => cast(T::slice_mut(slice).unwrap_or_default()))
}

/// Asks for the memory at a place of a slice ahead of time, where the processor can; a place past the end is not asked for.
#[inline(always)]
pub(super) fn prefetch<U>(slice: &[U], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(place) = slice.get(at) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint about memory that is there; every x86-64 has the instruction.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, at);
}
