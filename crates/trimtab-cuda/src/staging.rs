//! Pinned memory that data goes through: the device copies it by itself, so that the processor fills one part while the other is on its way.

use crate::api::{Address, Handle};
use crate::context::Context;
use crate::error::CudaError;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use trimtab_core::Nanos;

/// Bytes of a part.
pub(crate) const PART_BYTES: usize = 4 << 20;

/// How long a copy is waited for when the device is given up.
const GRACE: Nanos = Nanos(200_000_000);

/// How data moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferPath {
    /// Through pinned memory of ours.
    Pinned,
    /// From the caller's memory, which the driver copies as it likes.
    Direct,
}

/// A part of pinned memory, and the moment its last copy is over.
#[derive(Debug)]
struct PinnedPart {
    place: *mut u8,
    over: Handle,
    /// Whether a copy was made that nobody waited for.
    under_way: bool,
}

// SAFETY: a place in memory that belongs to nobody else, and a handle.
unsafe impl Send for PinnedPart {}

/// What was made of it.
#[derive(Debug, Default)]
enum Pinned {
    #[default]
    NotYet,
    Parts([PinnedPart; 2]),
    /// There is no such memory to be had.
    Refused,
}

/// The pinned memory of a device.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    made: Mutex<Pinned>,
    /// Whether copying without it was measured to be faster.
    direct: AtomicBool,
}

impl Staging {
    /// What was measured to be faster; pinned memory before anybody measured.
    pub(crate) fn path(&self) -> TransferPath {
        if self.direct.load(Ordering::Relaxed) { TransferPath::Direct } else { TransferPath::Pinned }
    }

    pub(crate) fn prefer(&self, path: TransferPath) {
        self.direct.store(path == TransferPath::Direct, Ordering::Relaxed);
    }

    /// Gives it back, with the context.
    pub(crate) fn release(&self, context: &Context) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Pinned::Parts(parts) = &mut *made {
            parts.iter_mut().for_each(|part| part.release(context));
        }
        *made = Pinned::Refused;
    }
}

impl PinnedPart {
    fn new(context: &Context) -> Result<PinnedPart, CudaError> {
        let mut place: *mut c_void = std::ptr::null_mut();
        // SAFETY: given back once, with the context.
        context.call("cuMemHostAlloc", |f| unsafe { (f.pin)(&mut place, PART_BYTES, 0) })?;
        let mut part = PinnedPart { place: place.cast(), over: 0, under_way: false };
        match context.new_event() {
            Ok(event) => part.over = event,
            Err(error) => {
                part.release(context);
                return Err(error);
            }
        }
        Ok(part)
    }

    fn release(&mut self, context: &Context) {
        if self.over != 0 {
            // Behind a kernel that never ends a copy may still come: rather this memory is lost than written to as somebody else's.
            if self.under_way
                && context.await_event(self.over, GRACE).is_err_and(|error| error.is_not_ready())
            {
                return;
            }
            context.destroy_event(self.over);
        }
        // SAFETY: made by this context, and given back once. What fails costs memory, and there is nobody to tell.
        let _ = context.call("cuMemFreeHost", |f| unsafe { (f.unpin)(self.place.cast()) });
    }

    /// Until it may be written: no limit, because there is no way back before.
    fn settle(&mut self, context: &Context) -> Result<(), CudaError> {
        if self.under_way {
            context.await_event(self.over, Nanos::MAX)?;
            self.under_way = false;
        }
        Ok(())
    }

    fn sent(&mut self, context: &Context) -> Result<(), CudaError> {
        self.under_way = true;
        context.record(self.over)
    }
}

impl Context {
    /// Works with the parts; nothing if there is no such memory.
    fn pinned<R>(&self, work: impl FnOnce(&mut [PinnedPart; 2]) -> R) -> Option<R> {
        let mut made = self.staging.made.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*made, Pinned::NotYet) {
            *made = match (PinnedPart::new(self), PinnedPart::new(self)) {
                (Ok(first), Ok(second)) => Pinned::Parts([first, second]),
                (first, second) => {
                    first.into_iter().chain(second).for_each(|mut part| part.release(self));
                    Pinned::Refused
                }
            };
        }
        match &mut *made {
            Pinned::Parts(parts) => Some(work(parts)),
            _ => None,
        }
    }

    /// The data is the caller's again when this returns; copies may still be under way.
    pub(crate) fn upload_pinned(&self, to: Address, data: &[u8]) -> Option<Result<(), CudaError>> {
        self.pinned(|parts| {
            for (number, chunk) in data.chunks(PART_BYTES).enumerate() {
                let part = &mut parts[number % 2];
                part.settle(self)?;
                // SAFETY: a part is as long as the longest chunk, and no copy of it is under way.
                unsafe { std::ptr::copy_nonoverlapping(chunk.as_ptr(), part.place, chunk.len()) };
                let (at, from) = (to + (number * PART_BYTES) as u64, part.place);
                // SAFETY: the caller's allocation is as long as the data; the part is not written before the copy is over.
                self.call("cuMemcpyHtoDAsync", |f| unsafe {
                    (f.copy_in)(at, from.cast(), chunk.len(), self.stream())
                })?;
                part.sent(self)?;
            }
            Ok(())
        })
    }

    /// One part is read while the device fills the other.
    pub(crate) fn download_pinned(&self, from: Address, data: &mut [u8]) -> Option<Result<(), CudaError>> {
        self.pinned(|parts| {
            let (all, count) = (data.len(), data.len().div_ceil(PART_BYTES));
            let length = |number: usize| PART_BYTES.min(all - number * PART_BYTES);
            let ask = |parts: &mut [PinnedPart; 2], number: usize| {
                let part = &mut parts[number % 2];
                part.settle(self)?;
                let (at, to) = (from + (number * PART_BYTES) as u64, part.place);
                // SAFETY: the caller's allocation is as long as the data, a part as long as the longest chunk; nobody reads it before the copy is over.
                self.call("cuMemcpyDtoHAsync", |f| unsafe {
                    (f.copy_out)(to.cast(), at, length(number), self.stream())
                })?;
                part.sent(self)
            };
            if count > 0 {
                ask(parts, 0)?;
            }
            for number in 0..count {
                if number + 1 < count {
                    ask(parts, number + 1)?;
                }
                let part = &mut parts[number % 2];
                part.settle(self)?;
                let to = data[number * PART_BYTES..].as_mut_ptr();
                // SAFETY: both are at least as long, and the copy into the part is over.
                unsafe { std::ptr::copy_nonoverlapping(part.place, to, length(number)) };
            }
            Ok(())
        })
    }
}
