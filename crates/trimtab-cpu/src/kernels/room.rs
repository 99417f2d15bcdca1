//! Room beside the operands that each thread keeps: grown when more is asked for, never allocated on the warm path.

use std::cell::Cell;

/// Elements a thread may ask for: 256 MiB of `f32`. A kernel that needs more declines.
pub(super) const MOST_ROOM: usize = 64 << 20;

thread_local! {
    static KEPT: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

/// Calls `body` with room for so many elements, of whatever was there before.
pub(super) fn with_room<T: bytemuck::Pod>(len: usize, body: impl FnOnce(&mut [T])) {
    // Taken out while in use: a nested use gets room of its own.
    let mut kept = KEPT.try_with(Cell::take).unwrap_or_default();
    let words = len.saturating_mul(size_of::<T>()).div_ceil(size_of::<u64>());
    if kept.len() < words {
        kept.resize(words, 0);
    }
    // Words are aligned for every type of their size or smaller, and a multiple of it.
    let room: &mut [T] = bytemuck::try_cast_slice_mut(&mut kept).unwrap_or_default();
    if let Some(room) = room.get_mut(..len) {
        body(room);
    }
    // A thread at its end has no place to keep it; then it is dropped.
    let _ = KEPT.try_with(|place| place.set(kept));
}
