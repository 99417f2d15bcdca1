//! The threads a library would start by itself, and how it is kept from that while we call it: how many of its threads work is a
//! setting of ours. Other users of the library in this process find the number they had set, before and after.
//!
//! What remains: where the number is the process's (OpenBLAS with threads of its own, BLIS before 1.0), others that compute at the same
//! moment as we do compute with one thread. OpenBLAS's `openblas_set_num_threads_local` does not help: there it sets the same number.

use super::AnyFn;
use super::one_thread::{Count, OneThread};
use std::ffi::c_int;
use std::mem::transmute;
use std::sync::{Mutex, PoisonError};

type Get<I> = unsafe extern "C" fn() -> I;
type Set<I> = unsafe extern "C" fn(I);
/// Sets a number and gives that before.
type Exchange = unsafe extern "C" fn(c_int) -> c_int;

/// Reads and sets a number of threads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Int(Get<c_int>, Set<c_int>),
    /// BLIS's `dim_t`, a 64-bit integer on 64-bit machines.
    Size(Get<isize>, Set<isize>),
}

impl Number {
    /// # Safety
    /// The functions are `int get(void)` and `void set(int)`, and may be called with any number from one on and whatever `get` gave.
    pub(super) unsafe fn int(get: AnyFn, set: AnyFn) -> Number {
        // SAFETY: as the caller promises.
        unsafe { Number::Int(transmute::<AnyFn, Get<c_int>>(get), transmute::<AnyFn, Set<c_int>>(set)) }
    }

    /// # Safety
    /// The same with BLIS's integers.
    pub(super) unsafe fn size(get: AnyFn, set: AnyFn) -> Number {
        // SAFETY: as the caller promises.
        unsafe { Number::Size(transmute::<AnyFn, Get<isize>>(get), transmute::<AnyFn, Set<isize>>(set)) }
    }
}

impl Count for Number {
    #[inline]
    fn get(&self) -> u32 {
        // SAFETY: as promised where it was made. A library that was told nothing yet may say -1, which it takes back.
        unsafe {
            match self {
                Number::Int(get, _) => get().cast_unsigned(),
                Number::Size(get, _) => get() as u32,
            }
        }
    }

    #[inline]
    fn set(&self, threads: u32) {
        // SAFETY: as promised where it was made.
        unsafe {
            match self {
                Number::Int(_, set) => set(threads.cast_signed()),
                Number::Size(_, set) => set(threads.cast_signed() as isize),
            }
        }
    }
}

/// Whose number of threads a library goes by.
#[derive(Clone, Copy, Debug)]
pub(super) enum Threads {
    /// It has no threads, or nobody can say.
    Unknown,
    /// The process's.
    Process(&'static OneThread<Number>),
    /// The calling thread's.
    Caller(Number),
    /// The calling thread's, by MKL's function that gives the number before; zero is the process's.
    Mkl(Exchange),
}

impl Threads {
    /// MKL's.
    ///
    /// # Safety
    /// The function is `int MKL_Set_Num_Threads_Local(int)`.
    pub(super) unsafe fn of_mkl(set: AnyFn) -> Threads {
        // SAFETY: as the caller promises.
        Threads::Mkl(unsafe { transmute::<AnyFn, Exchange>(set) })
    }

    /// The process's, shared by all runtimes that found the library, which is known by the address of its product.
    pub(super) fn of_process(address: usize, number: Number) -> Threads {
        static LIBRARIES: Mutex<Vec<(usize, &'static OneThread<Number>)>> = Mutex::new(Vec::new());
        let mut libraries = LIBRARIES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = libraries.iter().find(|known| known.0 == address) {
            return Threads::Process(known);
        }
        // Libraries are never unloaded, and neither is this.
        let new: &'static OneThread<Number> = Box::leak(Box::new(OneThread::new(number)));
        libraries.push((address, new));
        Threads::Process(new)
    }

    /// One thread for a whole launch, where that can be said for all who take part in it.
    #[inline]
    pub(super) fn for_launch(self) -> Held {
        match self {
            Threads::Process(one_thread) => {
                one_thread.enter();
                Held(Before::Process(one_thread))
            }
            _ => Held(Before::Nothing),
        }
    }

    /// One thread for a call on this thread, where each must say so for itself.
    #[inline]
    pub(super) fn for_call(self) -> Held {
        match self {
            Threads::Unknown | Threads::Process(_) => Held(Before::Nothing),
            Threads::Caller(number) => {
                let before = number.get();
                number.set(1);
                Held(Before::Caller(number, before))
            }
            // SAFETY: MKL's own, as it declares it.
            Threads::Mkl(set) => Held(Before::Mkl(set, unsafe { set(1) })),
        }
    }
}

/// While it lives, the library uses one thread.
pub(crate) struct Held(Before);

enum Before {
    Nothing,
    Process(&'static OneThread<Number>),
    Caller(Number, u32),
    Mkl(Exchange, c_int),
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        match &self.0 {
            Before::Nothing => (),
            Before::Process(one_thread) => one_thread.leave(),
            Before::Caller(number, before) => number.set(*before),
            Before::Mkl(set, before) => {
                // SAFETY: MKL's own, as it declares it; it gave that number itself.
                unsafe { set(*before) };
            }
        }
    }
}
