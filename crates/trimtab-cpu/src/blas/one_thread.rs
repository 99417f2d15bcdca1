//! Keeps a number that belongs to the whole process at one while some of our threads are inside a library, and gives back what others
//! had set when the last of them leaves.
//!
//! Nobody waits for anybody: a caller that enters while another leaves may find the library with more threads for a moment, which costs
//! time and nothing else. What must hold is that what others had set is there again when nobody is inside. The package `interleavings`
//! runs this very file in every order of events that few threads can have.
//!
//! A launch pays 16 ns for it where others had set more than one thread, 7 ns where not (OpenBLAS 0.3.21, whose product of 4 × 4 × 4
//! takes 84 ns).

use crate::sync::{AtomicU32, Ordering, fence};

/// How many threads a library uses, for whoever calls it.
pub(crate) trait Count {
    /// The number now.
    fn get(&self) -> u32;
    /// The number from now on.
    fn set(&self, threads: u32);
}

/// The number of threads of one library.
#[derive(Debug)]
pub(crate) struct OneThread<C> {
    count: C,
    /// How many of our threads are inside.
    inside: AtomicU32,
    /// What others had set, to be given back; zero for nothing.
    theirs: AtomicU32,
}

impl<C: Count> OneThread<C> {
    pub(crate) fn new(count: C) -> OneThread<C> {
        OneThread { count, inside: AtomicU32::new(0), theirs: AtomicU32::new(0) }
    }

    /// The library computes with one thread until who enters [`leave`](OneThread::leave)s.
    #[inline]
    pub(crate) fn enter(&self) {
        self.inside.fetch_add(1, Ordering::SeqCst);
        let threads = self.count.get();
        if threads != 1 {
            self.keep(threads);
        }
    }

    /// In this order: who gives back what is kept sets the number after us.
    fn keep(&self, threads: u32) {
        self.count.set(1);
        self.theirs.store(threads, Ordering::SeqCst);
    }

    /// The last one gives back what others had set, unless they set something else meanwhile.
    #[inline]
    pub(crate) fn leave(&self) {
        if self.inside.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.give_back();
        }
    }

    fn give_back(&self) {
        loop {
            let threads = self.theirs.swap(0, Ordering::SeqCst);
            if threads == 0 || self.count.get() != 1 {
                return;
            }
            self.count.set(threads);
            fence(Ordering::SeqCst);
            if self.inside.load(Ordering::SeqCst) == 0 {
                return;
            }
            // Somebody entered who perhaps saw the number from before: it is kept for them, and they give it back. If they left
            // meanwhile with nothing to give back, it is ours again.
            self.keep(threads);
            if self.inside.load(Ordering::SeqCst) > 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Library(AtomicU32);

    impl Count for Library {
        fn get(&self) -> u32 {
            self.0.load(Ordering::Relaxed)
        }
        fn set(&self, threads: u32) {
            self.0.store(threads, Ordering::Relaxed);
        }
    }

    fn library(threads: u32) -> OneThread<Library> {
        OneThread::new(Library(AtomicU32::new(threads)))
    }

    #[test]
    fn the_last_one_out_gives_back_what_was_there() {
        for threads in [1, 2, 7, u32::MAX] {
            let library = library(threads);
            library.enter();
            library.enter();
            assert_eq!(library.count.get(), 1);
            library.leave();
            assert_eq!(library.count.get(), 1);
            library.leave();
            assert_eq!(library.count.get(), threads);
        }
    }

    #[test]
    fn what_others_set_meanwhile_stays() {
        let library = library(4);
        library.enter();
        library.count.set(3);
        library.leave();
        assert_eq!(library.count.get(), 3);
        // Four is forgotten: one is theirs now.
        library.count.set(1);
        library.enter();
        library.leave();
        assert_eq!(library.count.get(), 1);
        library.enter();
        library.count.set(5);
        library.enter();
        assert_eq!(library.count.get(), 1);
        library.leave();
        library.leave();
        assert_eq!(library.count.get(), 5);
    }

    #[test]
    fn many_threads_leave_what_was_there() {
        let library = library(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        library.enter();
                        library.leave();
                    }
                });
            }
        });
        assert_eq!(library.count.get(), 4);
    }
}
