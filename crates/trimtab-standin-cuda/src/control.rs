//! What only a stand-in has: say what it should be like, let calls fail, ask what a kernel did.

use crate::state::{Settings, answer, reset};
use std::ffi::{CStr, c_char};

/// Begins anew with so many devices of a compute capability, each with so much memory, where kernels end or are endless.
#[unsafe(no_mangle)]
pub extern "C" fn standin_reset(devices: u32, capability: u32, memory: u64, instructions: u64, version: u32) {
    reset(Settings { devices, capability, memory, instructions, version });
}

/// Lets the next call of a function answer with a code.
///
/// # Safety
/// The name ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_fail(call: *const c_char, code: u32) {
    // SAFETY: the caller's promise.
    let call = unsafe { CStr::from_ptr(call) }.to_string_lossy().into_owned();
    answer("", |state| {
        state.failures.push((call, code));
        0
    });
}

/// Writes what the last kernel that failed did, and a zero; nothing if it does not fit.
///
/// # Safety
/// There is room for so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_last_fault(to: *mut u8, bytes: usize) {
    answer("", |state| {
        let text = state.last_fault.as_bytes();
        if text.len() < bytes {
            // SAFETY: the text and a zero fit, by the caller's promise.
            unsafe {
                std::ptr::copy_nonoverlapping(text.as_ptr(), to, text.len());
                *to.add(text.len()) = 0;
            }
        }
        0
    });
}

/// How often a function was called; bytes that went through pinned memory, for the name `pinned`; blocks of pinned memory there are, for `pins`.
///
/// # Safety
/// The name ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_count(name: *const c_char) -> u64 {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let mut count = 0;
    answer("", |state| {
        count = match name.as_ref() {
            "pinned" => state.pinned_bytes,
            "pins" => state.pinned.len() as u64,
            call => state.calls.get(call).copied().unwrap_or(0),
        };
        0
    });
    count
}

/// Lets devices share the processor's memory.
#[unsafe(no_mangle)]
pub extern "C" fn standin_unified() {
    answer("", |state| {
        state.unified = true;
        0
    });
}

/// What holds clocks down, in NVML's bits.
#[unsafe(no_mangle)]
pub extern "C" fn standin_throttled(bits: u64) {
    answer("", |state| {
        state.throttled = bits;
        0
    });
}
