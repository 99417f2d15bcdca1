//! Which runtime a call uses: the innermost `with` of its thread, else the process's own. A forked child makes its own.

use crate::errors::raised;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::atomic::{AtomicPtr, Ordering};
use trimtab::Runtime;

/// The process's own runtime, made at the first call and never freed: calls hold it without counting.
static DEFAULT: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    /// How many runtimes this thread entered: looked at by every call, so apart from them.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Counted without atomics: threads that call at once inside a runtime would wait for each other's counts.
    static ENTERED: RefCell<Vec<Rc<Unlocked<Runtime>>>> = const { RefCell::new(Vec::new()) };
}

/// The runtime of a call.
pub enum Current {
    Default(&'static Runtime),
    Entered(Rc<Unlocked<Runtime>>),
}

impl Deref for Current {
    type Target = Runtime;

    #[inline]
    fn deref(&self) -> &Runtime {
        match self {
            Current::Default(runtime) => runtime,
            Current::Entered(runtime) => runtime,
        }
    }
}

/// The runtime a call on this thread uses.
#[inline]
pub fn runtime(py: Python<'_>) -> PyResult<Current> {
    if DEPTH.get() > 0
        && let Some(entered) = ENTERED.with_borrow(|entered| entered.last().map(Rc::clone))
    {
        return Ok(Current::Entered(entered));
    }
    let known = DEFAULT.load(Ordering::Acquire);
    // SAFETY: what is there was leaked, and is never freed.
    match unsafe { known.as_ref() } {
        Some(runtime) => Ok(Current::Default(runtime)),
        None => make(py).map(Current::Default),
    }
}

#[cold]
fn make(py: Python<'_>) -> PyResult<&'static Runtime> {
    let made = py.detach(Runtime::new).map_err(raised)?;
    tell(py, &made)?;
    let made = Box::into_raw(Box::new(made));
    // No lock: one that was held while the process forked would never be free in the child. Whoever comes second gives up its own.
    match DEFAULT.compare_exchange(std::ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: just leaked, never freed.
        Ok(_) => Ok(unsafe { &*made }),
        Err(first) => {
            // SAFETY: nobody else has seen it; the first was leaked and is never freed.
            let (own, first) = unsafe { (Box::from_raw(made), &*first) };
            py.detach(|| drop(own));
            Ok(first)
        }
    }
}

/// Tells what could not be set up, by Python's `logging`.
pub fn tell(py: Python<'_>, runtime: &Runtime) -> PyResult<()> {
    if runtime.warnings().is_empty() {
        return Ok(());
    }
    let logger = py.import("logging")?.call_method1("getLogger", ("trimtab",))?;
    for warning in runtime.warnings() {
        logger.call_method1("warning", ("%s", warning))?;
    }
    Ok(())
}

/// A value that is let go of without the interpreter's lock: a runtime waits for its threads then, and one of them may be waiting for the
/// lock to call an option of `choose`. A forked child has none of these threads, and what they had locked stays locked: there it is never let
/// go of.
pub struct Unlocked<T: Send> {
    value: ManuallyDrop<T>,
    process: u32,
}

impl<T: Send> Unlocked<T> {
    pub fn new(value: T) -> Unlocked<T> {
        Unlocked { value: ManuallyDrop::new(value), process: std::process::id() }
    }
}

impl<T: Send> Deref for Unlocked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Send> Drop for Unlocked<T> {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        // SAFETY: here and nowhere else, and nobody reads it afterwards.
        let mut value = Some(unsafe { ManuallyDrop::take(&mut self.value) });
        // Where there is no interpreter any more, it is dropped as it is.
        let _ = Python::try_attach(|py| py.detach(|| drop(value.take())));
    }
}

/// From now on calls of this thread use that runtime, until [`leave`].
pub fn enter(runtime: Runtime) {
    ENTERED.with_borrow_mut(|entered| entered.push(Rc::new(Unlocked::new(runtime))));
    DEPTH.set(DEPTH.get() + 1);
}

/// Ends what the last [`enter`] began.
pub fn leave() {
    let left = ENTERED.with_borrow_mut(Vec::pop);
    DEPTH.set(DEPTH.get().saturating_sub(usize::from(left.is_some())));
}

/// In a child that was just forked: the parent's runtimes have lost their threads, and locks that these held stay locked. The child makes
/// one of its own when it needs one, with a segment of wisdom of its own; what was entered is entered again by whoever knows how.
#[pyfunction]
pub fn _forked() {
    // Not dropped: it would wait for threads that are not here.
    DEFAULT.store(std::ptr::null_mut(), Ordering::Release);
    DEPTH.set(0);
    ENTERED.with_borrow_mut(Vec::clear);
}

/// Before the interpreter ends: what was learned and not yet written is written.
#[pyfunction]
pub fn _flush(py: Python<'_>) {
    // SAFETY: what is there was leaked, and is never freed.
    if let Some(runtime) = unsafe { DEFAULT.load(Ordering::Acquire).as_ref() } {
        py.detach(|| runtime.planner().drain());
    }
}
