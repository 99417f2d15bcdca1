//! The data behind tensors: in the processor's memory, on devices, or both.

use crate::buffers;
use crate::error::Error;
use crate::memory::{DeviceBuffer, DeviceMemory, Replicas};
use crate::tensor::allocate_result;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use trimtab_core::{DType, LaunchError};
use trimtab_operands::{Data, Slice, SliceMut};

/// Elements in memory that is not ours: an array of another library, kept alive for as long as this is.
///
/// They are read while something is computed with them, and written by nobody meanwhile; that is the implementor's to see to.
pub trait Foreign: Send + Sync {
    /// The elements as they lie in memory, the same every time.
    fn elements(&self) -> Slice<'_>;
}

/// The elements several tensors may show. Reading what is in the processor's memory takes one load and no lock.
pub(crate) struct Storage {
    dtype: DType,
    len: usize,
    host: OnceLock<Data>,
    /// Somebody else's memory in the place of `host`. Looked at where that is empty, so that our own elements cost no more.
    foreign: Option<Box<dyn Foreign>>,
    /// Copies on devices; there is none of most.
    replicas: OnceLock<Arc<Replicas>>,
    /// Held while elements are fetched, so that they are fetched once.
    fetching: Mutex<()>,
}

impl Drop for Storage {
    fn drop(&mut self) {
        self.host.take().into_iter().for_each(buffers::give);
    }
}

impl Storage {
    /// Elements in the processor's memory.
    pub(crate) fn new(data: Data, dtype: DType) -> Storage {
        let len = data.len();
        let (host, replicas) = (OnceLock::from(data), OnceLock::new());
        Storage { dtype, len, host, foreign: None, replicas, fetching: Mutex::new(()) }
    }

    /// Elements in somebody else's memory.
    pub(crate) fn foreign(foreign: Box<dyn Foreign>, dtype: DType) -> Storage {
        let len = foreign.elements().len();
        let (host, foreign, replicas) = (OnceLock::new(), Some(foreign), OnceLock::new());
        Storage { dtype, len, host, foreign, replicas, fetching: Mutex::new(()) }
    }

    /// Whether they lie in somebody else's memory.
    pub(crate) fn is_foreign(&self) -> bool {
        self.foreign.is_some()
    }

    /// Elements that are on a device only.
    pub(crate) fn on_device(dtype: DType, len: usize, buffer: &Arc<DeviceBuffer>) -> Storage {
        let replicas = Arc::new(Replicas::new(false));
        replicas.add(0..len, buffer);
        let (host, replicas) = (OnceLock::new(), OnceLock::from(replicas));
        Storage { dtype, len, host, foreign: None, replicas, fetching: Mutex::new(()) }
    }

    /// Their type.
    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    /// Elements there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether the elements are in the processor's memory.
    pub(crate) fn is_here(&self) -> bool {
        self.host.get().is_some() || self.foreign.is_some()
    }

    /// Whether the elements are in the processor's memory and nowhere else.
    #[inline]
    pub(crate) fn is_only_here(&self) -> bool {
        self.replicas.get().is_none()
    }

    /// Whether the elements are in that buffer of a device, and were never anywhere else.
    pub(crate) fn lies_in(&self, buffer: &Arc<DeviceBuffer>) -> bool {
        let replicas = self.replicas.get().filter(|_| !self.is_here());
        let found = replicas.and_then(|replicas| replicas.anywhere(&(0..self.len)));
        found.is_some_and(|found| Arc::ptr_eq(&found, buffer))
    }

    /// Elements that are on a device only, brought by someone else.
    pub(crate) fn receive(&self, bring: impl FnOnce(SliceMut<'_>) -> Result<(), Error>) -> Result<(), Error> {
        let _alone = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        self.bring(bring)
    }

    fn bring(&self, bring: impl FnOnce(SliceMut<'_>) -> Result<(), Error>) -> Result<(), Error> {
        let mut data = allocate_result(self.dtype, self.len)?;
        bring(data.slice_mut())?;
        let _ = self.host.set(data);
        self.replicas.get().into_iter().for_each(|replicas| replicas.came_home());
        Ok(())
    }

    /// The elements, fetched from a device if need be.
    #[inline]
    pub(crate) fn elements(&self) -> Result<Slice<'_>, Error> {
        match self.host.get() {
            Some(data) => Ok(data.slice()),
            None => self.fetch(),
        }
    }

    #[cold]
    fn fetch(&self) -> Result<Slice<'_>, Error> {
        if let Some(foreign) = &self.foreign {
            return Ok(foreign.elements());
        }
        let _alone = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        if self.host.get().is_none() {
            let lost = || Error::Launch(LaunchError::Kernel("no device has a copy".to_string()));
            let buffer = self.replicas.get().and_then(|replicas| replicas.anywhere(&(0..self.len)));
            let buffer = buffer.ok_or_else(lost)?;
            self.bring(|out| buffer.download(out).map_err(Error::Fetch))?;
        }
        Ok(self.host.get().map_or(Slice::None, Data::slice))
    }

    /// The elements for whoever has them alone. Copies on devices are no longer valid.
    pub(crate) fn for_writing(&mut self) -> Result<SliceMut<'_>, Error> {
        // What is not ours is copied: nobody else sees the change.
        if let Some(foreign) = self.foreign.take() {
            self.host = OnceLock::from(foreign.elements().to_data());
        }
        self.elements()?;
        self.replicas.take();
        let lost = || Error::Launch(LaunchError::Kernel("no device has a copy".to_string()));
        self.host.get_mut().map(Data::slice_mut).ok_or_else(lost)
    }

    /// Whether there is a copy of these elements on a device.
    pub(crate) fn is_on(&self, memory: &Arc<DeviceMemory>, part: &Range<usize>) -> bool {
        self.replicas.get().is_some_and(|replicas| replicas.find(memory, part).is_some())
    }

    /// These elements on a device: the copy there is, or a new one that is kept.
    pub(crate) fn buffer_on(
        &self,
        memory: &Arc<DeviceMemory>,
        part: Range<usize>,
    ) -> Result<Arc<DeviceBuffer>, Error> {
        if let Some(found) = self.replicas.get().and_then(|replicas| replicas.reuse(memory, &part)) {
            return Ok(found);
        }
        let buffer = memory.upload(self.elements()?.part(part.clone()))?;
        let replicas = self.replicas.get_or_init(|| Arc::new(Replicas::new(true)));
        // Whoever came first has the copy; one more does no harm and goes first when room is needed.
        replicas.add(part, &buffer);
        Ok(buffer)
    }
}
