//! What the threads of the pool synchronise with. The package `interleavings` compiles the pool's protocol with types of the same
//! names that try every order of events.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub(crate) use std::thread::{park, yield_now};

/// Polls before an idle helper goes to sleep: about 20 µs. Waking a sleeper costs about as much.
pub(crate) const SPINS_BEFORE_SLEEP: u32 = 4_000;

/// A value that is reached through a pointer, so that each access can be looked at.
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// For reading.
    #[inline]
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// For writing.
    #[inline]
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
