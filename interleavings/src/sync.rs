//! What the pieces call `crate::sync`, of types whose every order of events is tried.

pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::atomic::{Ordering, fence};
pub(crate) use loom::sync::{Mutex, RwLock};
pub(crate) use loom::thread::{Thread, park, yield_now};

use loom::sync::atomic::AtomicUsize as Touched;
use std::collections::VecDeque;

/// Atomics of which really every order is tried. By themselves loom's are not enough (0.7.2), for two reasons:
///
/// - It remembers one access of a place, the last. A thread that reads before it writes hides that another has read, and the
///   write is never tried before that read. So every access first touches a place that is only ever exchanged, relaxed, which
///   orders nothing else.
/// - It leaves open which comes last of a store and an exchange by different threads, as no machine does, and what was
///   written is read as if it were not. So a store is an exchange whose result is dropped.
macro_rules! atomics {
    ($($name:ident of $type:ty { $($of_numbers:ident)* })*) => {$(
        #[derive(Debug)]
        pub(crate) struct $name {
            touched: Touched,
            value: loom::sync::atomic::$name,
        }

        #[allow(dead_code, reason = "no piece uses all of them")]
        impl $name {
            pub(crate) fn new(value: $type) -> $name {
                $name { touched: Touched::new(0), value: loom::sync::atomic::$name::new(value) }
            }

            fn touch(&self) -> &loom::sync::atomic::$name {
                self.touched.fetch_add(1, Ordering::Relaxed);
                &self.value
            }

            pub(crate) fn load(&self, order: Ordering) -> $type {
                self.touch().load(order)
            }

            pub(crate) fn store(&self, value: $type, order: Ordering) {
                self.swap(value, order);
            }

            pub(crate) fn swap(&self, value: $type, order: Ordering) -> $type {
                self.touch().swap(value, order)
            }

            pub(crate) fn compare_exchange(
                &self,
                now: $type,
                next: $type,
                done: Ordering,
                not: Ordering,
            ) -> Result<$type, $type> {
                self.touch().compare_exchange(now, next, done, not)
            }

            pub(crate) fn compare_exchange_weak(
                &self,
                now: $type,
                next: $type,
                done: Ordering,
                not: Ordering,
            ) -> Result<$type, $type> {
                self.compare_exchange(now, next, done, not)
            }

            $(pub(crate) fn $of_numbers(&self, value: $type, order: Ordering) -> $type {
                self.touch().$of_numbers(value, order)
            })*
        }
    )*};
}
atomics! {
    AtomicBool of bool {}
    AtomicU32 of u32 { fetch_add fetch_sub }
    AtomicU64 of u64 { fetch_add fetch_sub fetch_or }
    AtomicUsize of usize { fetch_add }
}

/// As long as the longest level of a model.
pub(crate) const MAX_PROBES: usize = 4;

/// One lock is enough for one problem.
pub(crate) const PARTS: usize = 1;

/// A helper that polls more often than once before it sleeps only repeats itself.
pub(crate) const SPINS_BEFORE_SLEEP: u32 = 1;

/// The standard library's, by what it promises: who finds a value sees all that was done before it was set.
pub(crate) struct OnceLock<T> {
    is_set: AtomicBool,
    value: std::sync::OnceLock<T>,
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> OnceLock<T> {
        OnceLock { is_set: AtomicBool::new(false), value: std::sync::OnceLock::new() }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.is_set.load(Ordering::Acquire).then(|| self.value.get())?
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        self.value.set(value)?;
        self.is_set.store(true, Ordering::Release);
        Ok(())
    }

    /// For callers that exclude each other.
    pub(crate) fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
        let value = self.value.get_or_init(init);
        self.is_set.store(true, Ordering::Release);
        value
    }
}

/// The ring's queue by what it promises: first in, first out, full at some length. Shorter than asked for, so that it is full in a
/// model too.
pub(crate) struct ArrayQueue<T>(Mutex<VecDeque<T>>);

/// The room of a queue.
const ROOM: usize = 1;

impl<T> ArrayQueue<T> {
    pub(crate) fn new(room: usize) -> ArrayQueue<T> {
        ArrayQueue(Mutex::new(VecDeque::with_capacity(room.min(ROOM))))
    }

    pub(crate) fn push(&self, value: T) -> Result<(), T> {
        match self.0.lock() {
            Ok(mut queue) if queue.len() < ROOM => {
                queue.push_back(value);
                Ok(())
            }
            _ => Err(value),
        }
    }

    pub(crate) fn pop(&self) -> Option<T> {
        self.0.lock().ok()?.pop_front()
    }
}
