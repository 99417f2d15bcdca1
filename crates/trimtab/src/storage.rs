//! The data behind tensors: in the processor's memory, on devices, or both.

use crate::buffers;
use crate::error::Error;
use crate::residency::{Copies, Resident, Room};
use crate::tensor::allocate_result;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use trimtab_core::LaunchError;
use trimtab_cpu::Element;

/// The elements several tensors may show. Reading what is in the processor's memory takes one load and no lock.
pub(crate) struct Storage<T> {
    len: usize,
    host: OnceLock<Vec<T>>,
    /// Copies on devices; there is none of most.
    copies: OnceLock<Arc<Copies>>,
    /// Held while elements are fetched, so that they are fetched once.
    fetching: Mutex<()>,
    /// Who gets the elements in the end: [`buffers::give`], which knows no other types than elements.
    give: fn(Vec<T>),
}

impl<T> Drop for Storage<T> {
    fn drop(&mut self) {
        self.host.take().into_iter().for_each(self.give);
    }
}

impl<T: Element> Storage<T> {
    /// Elements in the processor's memory.
    pub(crate) fn new(data: Vec<T>) -> Storage<T> {
        Storage::of(data.len(), OnceLock::from(data), OnceLock::new())
    }

    /// Elements that are on a device only.
    pub(crate) fn on_device(len: usize, resident: &Arc<Resident>) -> Storage<T> {
        let copies = Arc::new(Copies::new(false));
        copies.add(0..len, resident);
        Storage::of(len, OnceLock::new(), OnceLock::from(copies))
    }

    fn of(len: usize, host: OnceLock<Vec<T>>, copies: OnceLock<Arc<Copies>>) -> Storage<T> {
        Storage { len, host, copies, fetching: Mutex::new(()), give: buffers::give }
    }

    /// Elements there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether the elements are in the processor's memory.
    pub(crate) fn is_here(&self) -> bool {
        self.host.get().is_some()
    }

    /// Whether the elements are in the processor's memory and nowhere else.
    pub(crate) fn is_only_here(&self) -> bool {
        self.copies.get().is_none()
    }

    /// Whether the elements are in that memory of a device, and were never anywhere else.
    pub(crate) fn lies_in(&self, resident: &Arc<Resident>) -> bool {
        let copies = self.copies.get().filter(|_| !self.is_here());
        let found = copies.and_then(|copies| copies.anywhere(&(0..self.len)));
        found.is_some_and(|found| Arc::ptr_eq(&found, resident))
    }

    /// Elements that are on a device only, brought by someone else.
    pub(crate) fn receive(&self, bring: impl FnOnce(&mut [T]) -> Result<(), Error>) -> Result<(), Error> {
        let _alone = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        let mut data = allocate_result(self.len)?;
        bring(&mut data)?;
        let _ = self.host.set(data);
        self.copies.get().into_iter().for_each(|copies| copies.came_home());
        Ok(())
    }

    /// The elements, fetched from a device if need be.
    #[inline]
    pub(crate) fn elements(&self) -> Result<&[T], Error> {
        match self.host.get() {
            Some(data) => Ok(data),
            None => self.fetch(),
        }
    }

    #[cold]
    fn fetch(&self) -> Result<&[T], Error> {
        let _alone = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        if self.host.get().is_none() {
            let lost = || LaunchError::Kernel("no device has a copy".to_string());
            let copies = self.copies.get();
            let resident =
                copies.and_then(|copies| copies.anywhere(&(0..self.len))).ok_or_else(|| lost().into());
            let mut data = allocate_result(self.len)?;
            resident.and_then(|resident| resident.fetch(T::erase_mut(&mut data)).map_err(Error::Fetch))?;
            let _ = self.host.set(data);
            copies.into_iter().for_each(|copies| copies.came_home());
        }
        Ok(self.host.get().map_or(&[], Vec::as_slice))
    }

    /// The elements for whoever has them alone. Copies on devices are no longer valid.
    pub(crate) fn for_writing(&mut self) -> Result<&mut [T], Error> {
        self.elements()?;
        self.copies.take();
        Ok(self.host.get_mut().map_or(&mut [], Vec::as_mut_slice))
    }

    /// Whether there is a copy of these elements on a device.
    pub(crate) fn is_on(&self, room: &Arc<Room>, part: &Range<usize>) -> bool {
        self.copies.get().is_some_and(|copies| copies.find(room, part).is_some())
    }

    /// These elements on a device: the copy there is, or a new one that is kept.
    pub(crate) fn there(&self, room: &Arc<Room>, part: Range<usize>) -> Result<Arc<Resident>, Error> {
        if let Some(found) = self.copies.get().and_then(|copies| copies.reuse(room, &part)) {
            return Ok(found);
        }
        let elements = self.elements()?.get(part.clone()).unwrap_or_default();
        let resident = room.hold(T::erase(elements), std::mem::size_of_val(elements) as u64)?;
        let copies = self.copies.get_or_init(|| Arc::new(Copies::new(true)));
        // Whoever came first has the copy; one more does no harm and goes first when room is needed.
        copies.add(part, &resident);
        Ok(resident)
    }
}
