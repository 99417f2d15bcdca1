//! Which process this is: a forked child has the memory of its parent, files' memory that both see, and none of its threads.

use std::sync::atomic::{AtomicU32, Ordering};

/// Forks between the process that loaded this code and this one. Memory goes from parent to child only, so that whatever carries the same
/// number was made in this process.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process in which something was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// This one.
    pub(crate) fn this() -> Process {
        count_forks();
        Process(FORKS.load(Ordering::Relaxed))
    }

    /// Whether it is this one. One load: asking the system takes longer than many a kernel.
    #[inline]
    pub(crate) fn is_this(self) -> bool {
        FORKS.load(Ordering::Relaxed) == self.0
    }
}

#[cfg(unix)]
fn count_forks() {
    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    static ASKED: std::sync::Once = std::sync::Once::new();
    ASKED.call_once(|| {
        // SAFETY: the function only adds to a number that lives for ever. Refused, a child is taken for its parent, as it was before.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

#[cfg(not(unix))]
fn count_forks() {}
