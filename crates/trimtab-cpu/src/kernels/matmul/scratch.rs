//! Memory for packing that each thread keeps: grown when a larger block is asked for, never allocated on the warm path.

use super::float::Float;
use std::cell::Cell;

/// Elements a thread may ask for: 32 Mi, 256 MiB of f64. Larger packings are a mistake of the caller.
pub(super) const MAX_ELEMENTS: usize = 32 << 20;

/// One cache line, so that the block starts at one and vector loads do not straddle two.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u64; 8]);

thread_local! {
    static KEPT: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Calls `body` with a block of that many elements, aligned to 64 bytes, of unspecified but valid contents.
pub(super) fn with<T: Float, R>(elements: usize, body: impl FnOnce(&mut [T]) -> R) -> R {
    let lines = elements.min(MAX_ELEMENTS).div_ceil(size_of::<Line>() / size_of::<T>());
    // Taken out while in use: a nested use gets a block of its own instead of a panic.
    let mut block = KEPT.try_with(Cell::take).unwrap_or_default();
    if block.len() < lines {
        block.resize(lines, Line([0; 8]));
    }
    // SAFETY: f32 and f64, the only implementors of `Float`, have no invalid bit patterns, need at most 8-byte
    // alignment, and `Line` has no padding.
    let (_, elements_of_block, _) = unsafe { block.align_to_mut::<T>() };
    let len = elements.min(elements_of_block.len());
    let result = body(&mut elements_of_block[..len]);
    // A thread at its end has no place to keep it; then the block is dropped.
    let _ = KEPT.try_with(|kept| kept.set(block));
    result
}
