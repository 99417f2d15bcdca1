//! One output slice written by several threads, each its own part.

use crate::pool::Pool;
use std::marker::PhantomData;
use std::ops::Range;

/// A slice whose parts are handed to different threads.
#[derive(Debug)]
pub(crate) struct Disjoint<'a, T> {
    start: *mut T,
    len: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: parts are only reachable through `part`, whose caller promises that they do not overlap; moving `&mut T` to
// another thread needs `T: Send`.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Disjoint { start: slice.as_mut_ptr(), len: slice.len(), slice: PhantomData }
    }

    /// The start of the slice, for kernels that write a rectangle of it.
    pub(crate) fn as_mut_ptr(&self) -> *mut T {
        self.start
    }

    /// A part of the slice; a range past the end is cut.
    ///
    /// # Safety
    /// No two parts alive at the same time may overlap.
    #[expect(clippy::mut_from_ref, reason = "disjointness is the caller's promise")]
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        let end = range.end.min(self.len);
        let start = range.start.min(end);
        // SAFETY: the range lies within the slice, and the caller promises that nobody else holds it.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), end - start) }
    }
}

impl Pool {
    /// Splits `out` into chunks and calls `body(first index, chunk)` for each on at most `threads` threads.
    pub(crate) fn for_chunks<T: Send>(
        &self,
        threads: u32,
        out: &mut [T],
        chunk: usize,
        body: impl Fn(usize, &mut [T]) + Sync,
    ) {
        let (len, chunk) = (out.len(), chunk.max(1));
        let parts = Disjoint::new(out);
        self.run(threads, len.div_ceil(chunk), &|task| {
            let start = task * chunk;
            // SAFETY: each task has its own range, and each task runs once.
            let part = unsafe { parts.part(start..start.saturating_add(chunk)) };
            body(start, part);
        });
    }
}
