//! Counts allocations and bytes in use, so that "does not allocate" and "fits in 200 MB" are measurements.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);
static IN_USE: AtomicU64 = AtomicU64::new(0);
static MOST_IN_USE: AtomicU64 = AtomicU64::new(0);

fn taken(bytes: usize) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    let in_use = IN_USE.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
    MOST_IN_USE.fetch_max(in_use, Ordering::Relaxed);
}

fn given_back(bytes: usize) {
    IN_USE.fetch_sub(bytes as u64, Ordering::Relaxed);
}

/// The system's allocator with a counter.
pub(crate) struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        given_back(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        taken(size);
        given_back(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Allocations so far.
pub(crate) fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Bytes in use now.
pub(crate) fn in_use() -> u64 {
    IN_USE.load(Ordering::Relaxed)
}

/// The most bytes in use at a time since this was last asked.
pub(crate) fn most_in_use() -> u64 {
    MOST_IN_USE.swap(in_use(), Ordering::Relaxed)
}
