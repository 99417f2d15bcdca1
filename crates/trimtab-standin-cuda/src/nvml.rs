//! What trimtab-cuda calls of NVML: a device that is 41 °C warm and uses a microjoule a nanosecond. What holds its clock down is what a test says.

use crate::device::put;
use crate::state::answer;
use std::ffi::{CStr, c_char, c_uint, c_ulonglong};

/// NVML's code for what is not there.
const NOT_FOUND: u32 = 6;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlInit_v2() -> u32 {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, to: *mut usize) -> u32 {
    // SAFETY: ends with a zero by the caller's word.
    let text = unsafe { CStr::from_ptr(uuid) }.to_string_lossy();
    // `GPU-`, and the bytes of [`crate::device`]'s identity, the last of which is the device's number.
    let number = text.strip_prefix("GPU-").and_then(|text| u8::from_str_radix(text.get(34..)?, 16).ok());
    let Some(number) = number else { return NOT_FOUND };
    answer("nvmlDeviceGetHandleByUUID", |state| match usize::from(number) < state.devices.len() {
        // SAFETY: the caller's pointer.
        true => unsafe { put(to, usize::from(number) + 1) },
        false => NOT_FOUND,
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTemperature(_: usize, _sensor: c_uint, to: *mut c_uint) -> u32 {
    // SAFETY: the caller's pointer.
    unsafe { put(to, 41) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetClockInfo(_: usize, _which: c_uint, to: *mut c_uint) -> u32 {
    // SAFETY: the caller's pointer.
    unsafe { put(to, 1200) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMaxClockInfo(_: usize, _which: c_uint, to: *mut c_uint) -> u32 {
    // SAFETY: the caller's pointer.
    unsafe { put(to, 1500) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTotalEnergyConsumption(device: usize, to: *mut c_ulonglong) -> u32 {
    answer("nvmlDeviceGetTotalEnergyConsumption", |state| {
        let Some(device) = device.checked_sub(1).and_then(|at| state.devices.get(at)) else {
            return NOT_FOUND;
        };
        // SAFETY: the caller's pointer.
        unsafe { put(to, device.clock_ns / 1000) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(_: usize, to: *mut c_ulonglong) -> u32 {
    // SAFETY: the caller's pointer.
    answer("nvmlDeviceGetCurrentClocksThrottleReasons", |state| unsafe { put(to, state.throttled) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPowerUsage(_: usize, to: *mut c_uint) -> u32 {
    // SAFETY: the caller's pointer.
    unsafe { put(to, 70_500) }
}
