//! Memory of devices.

use crate::device::put;
use crate::state::{DeviceState, code, on_device};
use std::ffi::{c_uint, c_void};
use trimtab_ptx::MemoryError;

/// Memory of this process that a driver hands out: pinned, or unified.
pub(crate) struct HostMemory {
    words: Box<[u128]>,
    pub bytes: usize,
}

impl HostMemory {
    fn new(bytes: usize) -> HostMemory {
        HostMemory { words: vec![0; bytes.div_ceil(16).max(1)].into_boxed_slice(), bytes }
    }

    pub(crate) fn address(&self) -> u64 {
        self.words.as_ptr().expose_provenance() as u64
    }

    fn contains(&self, place: *const c_void) -> bool {
        let at = place.addr() as u64;
        (self.address()..self.address() + self.bytes as u64).contains(&at)
    }

    fn data(&mut self) -> &mut [u8] {
        let place = self.words.as_mut_ptr().cast::<u8>();
        // SAFETY: words of this, at least as many bytes; who was given the address does not use it during a call of the driver.
        unsafe { std::slice::from_raw_parts_mut(place, self.bytes) }
    }
}

impl DeviceState {
    /// What the processor sees in unified memory becomes what the device sees,
    pub(crate) fn see_host(&mut self) {
        for block in &mut self.unified {
            // It was allocated there, so that it is written.
            let _ = self.memory.write(block.address(), block.data());
        }
    }

    /// and the other way round.
    pub(crate) fn show_host(&mut self) {
        for block in &mut self.unified {
            let _ = self.memory.read(block.address(), block.data());
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocManaged(to: *mut u64, bytes: usize, _flags: c_uint) -> u32 {
    on_device("cuMemAllocManaged", |state, at| {
        if bytes == 0 || !state.unified {
            return code::INVALID_VALUE;
        }
        let block = HostMemory::new(bytes);
        let address = block.address();
        let device = &mut state.devices[at];
        if let Err(error) = device.memory.allocate_at(address, bytes as u64) {
            return told(Err(error));
        }
        device.unified.push(block);
        // SAFETY: the caller's pointer.
        unsafe { put(to, address) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(to: *mut *mut c_void, bytes: usize, _flags: c_uint) -> u32 {
    on_device("cuMemHostAlloc", |state, _| {
        let block = HostMemory::new(bytes);
        let place = block.address() as *mut c_void;
        state.pinned.push(block);
        // SAFETY: the caller's pointer.
        unsafe { put(to, place) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeHost(place: *mut c_void) -> u32 {
    on_device("cuMemFreeHost", |state, _| {
        match state.pinned.iter().position(|block| block.address() == place.addr() as u64) {
            Some(at) => {
                state.pinned.remove(at);
                code::SUCCESS
            }
            None => code::INVALID_VALUE,
        }
    })
}

fn told(result: Result<(), MemoryError>) -> u32 {
    match result {
        Ok(()) => code::SUCCESS,
        Err(MemoryError::Full { .. }) => code::OUT_OF_MEMORY,
        Err(_) => code::INVALID_VALUE,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> u32 {
    on_device("cuMemGetInfo_v2", |state, at| {
        let memory = &state.devices[at].memory;
        // SAFETY: the caller's pointers.
        unsafe {
            put(free, (memory.capacity() - memory.used()) as usize)
                .max(put(total, memory.capacity() as usize))
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(to: *mut u64, bytes: usize) -> u32 {
    on_device("cuMemAlloc_v2", |state, at| {
        if bytes == 0 {
            return code::INVALID_VALUE;
        }
        match state.devices[at].memory.allocate(bytes as u64) {
            // SAFETY: the caller's pointer.
            Ok(address) => unsafe { put(to, address) },
            Err(error) => told(Err(error)),
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFree_v2(address: u64) -> u32 {
    on_device("cuMemFree_v2", |state, at| {
        let device = &mut state.devices[at];
        device.unified.retain(|block| block.address() != address);
        told(device.memory.free(address))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const c_void,
    bytes: usize,
    _stream: usize,
) -> u32 {
    on_device("cuMemcpyHtoDAsync_v2", |state, at| {
        if from.is_null() || bytes == 0 {
            return if bytes == 0 { code::SUCCESS } else { code::INVALID_VALUE };
        }
        // SAFETY: not null, and that long by the caller's word.
        let data = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) };
        if state.pinned.iter().any(|block| block.contains(from)) {
            state.pinned_bytes += bytes as u64;
        }
        told(state.devices[at].memory.write(to, data))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: u64,
    bytes: usize,
    _stream: usize,
) -> u32 {
    on_device("cuMemcpyDtoHAsync_v2", |state, at| {
        if to.is_null() || bytes == 0 {
            return if bytes == 0 { code::SUCCESS } else { code::INVALID_VALUE };
        }
        // SAFETY: not null, and that long by the caller's word.
        let data = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), bytes) };
        if state.pinned.iter().any(|block| block.contains(to)) {
            state.pinned_bytes += bytes as u64;
        }
        told(state.devices[at].memory.read(from, data))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, _stream: usize) -> u32 {
    on_device("cuMemcpyDtoDAsync_v2", |state, at| told(state.devices[at].memory.copy(to, from, bytes as u64)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD8Async(to: u64, value: u8, bytes: usize, _stream: usize) -> u32 {
    on_device("cuMemsetD8Async", |state, at| told(state.devices[at].memory.fill(to, value, bytes as u64)))
}
