//! Memory of a device, and data on its way there and back: through pinned memory, or in place where both have the same.

use crate::api::Address;
use crate::context::Context;
use crate::error::CudaError;
use crate::staging::TransferPath;
use std::sync::Arc;
use trimtab_core::Nanos;

/// Unified memory that every stream may use.
const FOR_ALL: u32 = 1;

/// Memory on the device, given back with this.
#[derive(Debug)]
pub struct Allocation {
    pub(crate) context: Arc<Context>,
    pub(crate) address: Address,
    pub(crate) bytes: u64,
    /// Whether the processor uses the same memory by the same address.
    unified: bool,
}

impl Allocation {
    /// Where it starts.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// How long it is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the processor uses it in place.
    pub fn is_unified(&self) -> bool {
        self.unified
    }
}

impl Context {
    /// Bytes that are free, and all.
    pub fn memory(&self) -> Result<(u64, u64), CudaError> {
        let (mut free, mut total) = (0usize, 0usize);
        // SAFETY: asks for two numbers.
        self.call("cuMemGetInfo", |f| unsafe { (f.memory_info)(&mut free, &mut total) })?;
        Ok((free as u64, total as u64))
    }

    /// Memory; what it holds means nothing. None at all takes a byte, because the driver refuses zero. Where the device says that memory of both
    /// pays it is the processor's, too.
    pub fn allocate(self: &Arc<Context>, bytes: u64) -> Result<Allocation, CudaError> {
        let (mut address, unified) = (0, self.info().unified);
        let size = usize::try_from(bytes.max(1)).unwrap_or(usize::MAX);
        if unified {
            // SAFETY: freed once, when the allocation is dropped.
            self.call("cuMemAllocManaged", |f| unsafe { (f.allocate_unified)(&mut address, size, FOR_ALL) })?;
        } else {
            // SAFETY: the same.
            self.call("cuMemAlloc", |f| unsafe { (f.allocate)(&mut address, size) })?;
        }
        Ok(Allocation { context: Arc::clone(self), address, bytes, unified })
    }

    /// Copies to the first bytes of an allocation; launches made afterwards see it.
    pub fn upload(&self, to: &Allocation, data: &[u8]) -> Result<(), CudaError> {
        self.within("cuMemcpyHtoDAsync", to, data.len())?;
        if to.unified {
            self.settle()?;
            // SAFETY: the processor's memory, too; as long as the data, and nothing of ours runs that could use it.
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to.address as *mut u8, data.len()) };
            return Ok(());
        }
        if self.staging.path() == TransferPath::Pinned
            && let Some(copied) = self.upload_pinned(to.address, data)
        {
            return copied;
        }
        let stream = self.stream();
        // SAFETY: the allocation is as long as the data, and the data is not the caller's again before the copy is over.
        self.call("cuMemcpyHtoDAsync", |f| unsafe {
            (f.copy_in)(to.address, data.as_ptr().cast(), data.len(), stream)
        })?;
        self.settle()
    }

    /// Copies the first bytes of an allocation, after every launch made before.
    pub fn download(&self, from: &Allocation, data: &mut [u8]) -> Result<(), CudaError> {
        self.within("cuMemcpyDtoHAsync", from, data.len())?;
        if from.unified {
            self.settle()?;
            // SAFETY: the processor's memory, too; as long as the data, and nothing of ours runs that could write it.
            unsafe {
                std::ptr::copy_nonoverlapping(from.address as *const u8, data.as_mut_ptr(), data.len())
            };
            return Ok(());
        }
        if self.staging.path() == TransferPath::Pinned
            && let Some(copied) = self.download_pinned(from.address, data)
        {
            return copied;
        }
        let stream = self.stream();
        // SAFETY: the allocation is as long as the data, and the data is not the caller's again before the copy is over.
        self.call("cuMemcpyDtoHAsync", |f| unsafe {
            (f.copy_out)(data.as_mut_ptr().cast(), from.address, data.len(), stream)
        })?;
        self.settle()
    }

    /// Copies between allocations of this device, in order with launches.
    pub fn copy(&self, to: &Allocation, from: &Allocation, bytes: u64) -> Result<(), CudaError> {
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.within("cuMemcpyDtoDAsync", to, size)?;
        self.within("cuMemcpyDtoDAsync", from, size)?;
        // SAFETY: both are that long.
        self.call("cuMemcpyDtoDAsync", |f| unsafe {
            (f.copy_within)(to.address, from.address, size, self.stream())
        })
    }

    /// Sets every byte, in order with launches.
    pub fn fill(&self, to: &Allocation, value: u8) -> Result<(), CudaError> {
        let bytes = usize::try_from(to.bytes).unwrap_or(usize::MAX);
        self.within("cuMemsetD8Async", to, bytes)?;
        // SAFETY: the allocation is that long.
        self.call("cuMemsetD8Async", |f| unsafe { (f.fill)(to.address, value, bytes, self.stream()) })
    }

    /// Until the caller's memory is the caller's again: no limit, because there is no way back before.
    fn settle(&self) -> Result<(), CudaError> {
        self.wait(Nanos::MAX)
    }

    fn within(&self, call: &'static str, allocation: &Allocation, bytes: usize) -> Result<(), CudaError> {
        let ours = std::ptr::eq(Arc::as_ptr(&allocation.context), self);
        if ours && bytes as u64 <= allocation.bytes { Ok(()) } else { Err(self.refuse(call)) }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: allocated by this context and freed once; the driver waits for launches that use it.
        let _ = self.context.call("cuMemFree", |f| unsafe { (f.free)(self.address) });
    }
}
