//! Memory of devices.

use crate::device::put;
use crate::state::{code, on_device};
use std::ffi::c_void;
use trimtab_ptx::MemoryError;

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
    on_device("cuMemFree_v2", |state, at| told(state.devices[at].memory.free(address)))
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
