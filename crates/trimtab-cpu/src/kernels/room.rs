//! Room beside the operands that each thread keeps: grown when more is asked for, never allocated on the warm path.

use std::cell::Cell;

/// Elements a thread may ask for: 256 MiB of `f32`. A kernel that needs more declines.
pub(super) const MOST_ROOM: usize = 64 << 20;

thread_local! {
    /// What is not in use, that of the outermost use last.
    static KEPT: Cell<Vec<Vec<u64>>> = const { Cell::new(Vec::new()) };
}

/// Calls `body` with room for so many elements, of whatever was there before.
pub(super) fn with_room<T: bytemuck::Pod>(len: usize, body: impl FnOnce(&mut [T])) {
    // Taken out while in use: a nested use gets room of its own, the same at every call.
    let mut all = KEPT.try_with(Cell::take).unwrap_or_default();
    let mut kept = all.pop().unwrap_or_default();
    let _ = KEPT.try_with(|place| place.set(all));
    // Always two words at a time: complex numbers of f64 do not divide an odd number of them, and would get no room at all.
    let words = len.saturating_mul(size_of::<T>()).div_ceil(size_of::<u64>()).next_multiple_of(2);
    if kept.len() < words {
        kept.resize(words, 0);
    }
    // Words are aligned for every type of their size or smaller, and a multiple of it.
    let room: &mut [T] = bytemuck::try_cast_slice_mut(&mut kept).unwrap_or_default();
    if let Some(room) = room.get_mut(..len) {
        body(room);
    }
    // A thread at its end has no place to keep it; then it is dropped.
    let mut all = KEPT.try_with(Cell::take).unwrap_or_default();
    all.push(kept);
    let _ = KEPT.try_with(|place| place.set(all));
}
