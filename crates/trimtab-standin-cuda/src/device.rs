//! Devices, contexts, streams and events.

use crate::state::{answer, code, enter, on_device};
use std::ffi::{c_char, c_int, c_uint};

/// Writes an answer.
///
/// # Safety
/// The pointer is null or the caller's.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) -> u32 {
    if to.is_null() {
        return code::INVALID_VALUE;
    }
    // SAFETY: not null, the caller's.
    unsafe { to.write(value) };
    code::SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuInit(_flags: c_uint) -> u32 {
    answer("cuInit", |state| if state.devices.is_empty() { code::NO_DEVICE } else { code::SUCCESS })
}

/// Tables of functions nobody documents. NVRTC asks the driver it finds by its name for one, and calls this without looking whether it is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetExportTable(to: *mut usize, _identity: *const [u8; 16]) -> u32 {
    if !to.is_null() {
        // SAFETY: not null, the caller's.
        unsafe { to.write(0) };
    }
    code::NOT_FOUND
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(to: *mut c_int) -> u32 {
    // SAFETY: the caller's pointer.
    answer("cuDriverGetVersion", |state| unsafe { put(to, state.settings.version as c_int) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(to: *mut c_int) -> u32 {
    // SAFETY: the caller's pointer.
    answer("cuDeviceGetCount", |state| unsafe { put(to, state.devices.len() as c_int) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(to: *mut c_int, ordinal: c_int) -> u32 {
    answer("cuDeviceGet", |state| {
        if usize::try_from(ordinal).is_ok_and(|at| at < state.devices.len()) {
            // SAFETY: the caller's pointer.
            return unsafe { put(to, ordinal) };
        }
        code::INVALID_DEVICE
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(to: *mut c_char, length: c_int, device: c_int) -> u32 {
    answer("cuDeviceGetName", |state| {
        let name = format!("stand-in {device} for sm_{}", state.settings.capability);
        let count = name.len().min(usize::try_from(length).unwrap_or(0).saturating_sub(1));
        if to.is_null() || length < 1 {
            return code::INVALID_VALUE;
        }
        // SAFETY: the text and a zero fit into the caller's room.
        unsafe {
            std::ptr::copy_nonoverlapping(name.as_ptr().cast(), to, count);
            to.add(count).write(0);
        }
        code::SUCCESS
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid(to: *mut [u8; 16], device: c_int) -> u32 {
    // SAFETY: the caller's pointer.
    answer("cuDeviceGetUuid", |_| unsafe { put(to, [device as u8; 16]) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(to: *mut usize, _device: c_int) -> u32 {
    // SAFETY: the caller's pointer.
    answer("cuDeviceTotalMem_v2", |state| unsafe { put(to, state.settings.memory as usize) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(to: *mut c_int, attribute: c_uint, _device: c_int) -> u32 {
    answer("cuDeviceGetAttribute", |state| {
        let capability = state.settings.capability as c_int;
        let (threads, blocks, shared) = multiprocessor(state.settings.capability);
        let reserved = if capability < 80 { 0 } else { 1024 };
        let value = match attribute {
            1..=3 => 1024,
            4 => 64,
            5 => c_int::MAX,
            6 | 7 => 65_535,
            8 => 48 << 10,
            10 => 32,
            12 | 82 => 1 << 16,
            13 => 1_000_000,
            16 => 8,
            18 | 83 | 89 => state.unified.into(),
            38 => 4 << 20,
            39 => threads,
            75 => capability / 10,
            76 => capability % 10,
            81 => shared,
            97 => shared - reserved,
            106 => blocks,
            111 => reserved,
            _ => return code::INVALID_VALUE,
        };
        // SAFETY: the caller's pointer.
        unsafe { put(to, value) }
    })
}

/// Threads, blocks and bytes of shared memory, as NVIDIA's tables have them.
pub(crate) fn multiprocessor(capability: u32) -> (c_int, c_int, c_int) {
    match capability {
        75 => (1024, 16, 64 << 10),
        86 => (1536, 16, 100 << 10),
        89 | 120 => (1536, 24, 100 << 10),
        90 | 100 => (2048, 32, 228 << 10),
        _ => (2048, 32, 164 << 10),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(to: *mut usize, device: c_int) -> u32 {
    // SAFETY: the caller's pointer.
    answer("cuDevicePrimaryCtxRetain", |_| unsafe { put(to, device as usize + 1) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(_device: c_int) -> u32 {
    answer("cuDevicePrimaryCtxRelease_v2", |_| code::SUCCESS)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetCurrent(context: usize) -> u32 {
    enter(context);
    answer("cuCtxSetCurrent", |_| code::SUCCESS)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(to: *mut usize, _flags: c_uint) -> u32 {
    // SAFETY: the caller's pointer.
    on_device("cuStreamCreate", |state, _| unsafe { put(to, state.handle()) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamDestroy_v2(_stream: usize) -> u32 {
    on_device("cuStreamDestroy_v2", |_, _| code::SUCCESS)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamQuery(_stream: usize) -> u32 {
    on_device(
        "cuStreamQuery",
        |state, at| if state.devices[at].busy { code::NOT_READY } else { code::SUCCESS },
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(to: *mut usize, _flags: c_uint) -> u32 {
    on_device("cuEventCreate", |state, _| {
        let handle = state.handle();
        state.events.insert(handle, (0, false));
        // SAFETY: the caller's pointer.
        unsafe { put(to, handle) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventDestroy_v2(event: usize) -> u32 {
    on_device("cuEventDestroy_v2", |state, _| match state.events.remove(&event) {
        Some(_) => code::SUCCESS,
        None => code::INVALID_HANDLE,
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventRecord(event: usize, _stream: usize) -> u32 {
    on_device("cuEventRecord", |state, at| {
        let now = (state.devices[at].clock_ns, state.devices[at].busy);
        match state.events.get_mut(&event) {
            Some(moment) => {
                *moment = now;
                code::SUCCESS
            }
            None => code::INVALID_HANDLE,
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventQuery(event: usize) -> u32 {
    on_device("cuEventQuery", |state, _| match state.events.get(&event) {
        Some((_, true)) => code::NOT_READY,
        Some((_, false)) => code::SUCCESS,
        None => code::INVALID_HANDLE,
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(to: *mut f32, begin: usize, end: usize) -> u32 {
    on_device("cuEventElapsedTime", |state, _| match (state.events.get(&begin), state.events.get(&end)) {
        // SAFETY: the caller's pointer.
        (Some((begin, _)), Some((end, _))) => unsafe { put(to, end.saturating_sub(*begin) as f32 / 1e6) },
        _ => code::INVALID_HANDLE,
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(error: c_uint, to: *mut *const c_char) -> u32 {
    let name = match error {
        code::SUCCESS => c"CUDA_SUCCESS",
        code::INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
        code::OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        code::NO_DEVICE => c"CUDA_ERROR_NO_DEVICE",
        code::INVALID_DEVICE => c"CUDA_ERROR_INVALID_DEVICE",
        code::INVALID_IMAGE => c"CUDA_ERROR_INVALID_IMAGE",
        code::INVALID_CONTEXT => c"CUDA_ERROR_INVALID_CONTEXT",
        code::INVALID_PTX => c"CUDA_ERROR_INVALID_PTX",
        code::INVALID_HANDLE => c"CUDA_ERROR_INVALID_HANDLE",
        code::NOT_FOUND => c"CUDA_ERROR_NOT_FOUND",
        code::NOT_READY => c"CUDA_ERROR_NOT_READY",
        code::ILLEGAL_ADDRESS => c"CUDA_ERROR_ILLEGAL_ADDRESS",
        code::OUT_OF_RESOURCES => c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        code::MISALIGNED => c"CUDA_ERROR_MISALIGNED_ADDRESS",
        code::LAUNCH_FAILED => c"CUDA_ERROR_LAUNCH_FAILED",
        _ => return code::INVALID_VALUE,
    };
    // SAFETY: the caller's pointer.
    unsafe { put(to, name.as_ptr()) }
}
