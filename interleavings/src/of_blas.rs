//! Models of a library's number of threads: callers of ours enter and leave, and what others had set is there in the end.

use crate::join;
use crate::one_thread::{Count, OneThread};
use crate::sync::{AtomicU32, Ordering};
use loom::sync::Arc;
use loom::thread;

const THEIRS: u32 = 4;

/// A number that a library keeps.
struct Library(Arc<AtomicU32>);

impl Count for Library {
    fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
    fn set(&self, threads: u32) {
        self.0.store(threads, Ordering::Relaxed);
    }
}

/// Threads that call so often each.
fn callers(calls: &'static [usize]) {
    let threads = Arc::new(AtomicU32::new(THEIRS));
    let library = Arc::new(OneThread::new(Library(Arc::clone(&threads))));
    let call = |times: usize, library: &OneThread<Library>| {
        for _ in 0..times {
            library.enter();
            library.leave();
        }
    };
    let others = calls[1..].iter().map(|times| {
        let shared = Arc::clone(&library);
        thread::spawn(move || call(*times, &shared))
    });
    let others: Vec<_> = others.collect();
    call(calls[0], &library);
    others.into_iter().for_each(join);
    assert_eq!(threads.load(Ordering::Relaxed), THEIRS, "what others had set");
}

/// One calls while another calls twice.
pub fn two_callers_of_a_library() {
    callers(&[1, 2]);
}

/// Three call at once.
pub fn three_callers_of_a_library() {
    callers(&[1, 1, 1]);
}
