//! Modules, functions and launches.

use crate::device::{multiprocessor, put};
use crate::state::{DriverState, code, on_device};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use trimtab_ptx::{FaultKind, GridLaunch, LaunchError, Module};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(to: *mut usize, image: *const c_void) -> u32 {
    on_device("cuModuleLoadData", |state, _| {
        if image.is_null() {
            return code::INVALID_VALUE;
        }
        // SAFETY: not null; text ends with a zero, and machine code has one before its end.
        let text = unsafe { CStr::from_ptr(image.cast()) }.to_bytes();
        if text.starts_with(b"\x7fELF") {
            return code::INVALID_IMAGE;
        }
        match Module::parse(&String::from_utf8_lossy(text)) {
            Ok(module) if module.target() > state.settings.capability => {
                state.last_fault = format!("PTX for sm_{}", module.target());
                code::INVALID_PTX
            }
            Ok(module) => {
                let handle = state.handle();
                state.modules.insert(handle, module);
                // SAFETY: the caller's pointer.
                unsafe { put(to, handle) }
            }
            Err(error) => {
                state.last_fault = error.to_string();
                code::INVALID_PTX
            }
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleUnload(module: usize) -> u32 {
    on_device("cuModuleUnload", |state, _| match state.modules.remove(&module) {
        Some(_) => code::SUCCESS,
        None => code::INVALID_HANDLE,
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(to: *mut usize, module: usize, name: *const c_char) -> u32 {
    on_device("cuModuleGetFunction", |state, _| {
        let Some(module) = state.modules.get(&module) else { return code::INVALID_HANDLE };
        // SAFETY: ends with a zero by the caller's word.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let Some(kernel) = module.kernel(&name).cloned() else { return code::NOT_FOUND };
        let handle = state.handle();
        state.functions.insert(handle, kernel);
        // SAFETY: the caller's pointer.
        unsafe { put(to, handle) }
    })
}

/// Registers are ptxas's business: there are none here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetAttribute(to: *mut c_int, attribute: c_uint, function: usize) -> u32 {
    on_device("cuFuncGetAttribute", |state, _| {
        let Some(kernel) = state.functions.get(&function) else { return code::INVALID_HANDLE };
        let value = match attribute {
            0 => kernel.max_threads().unwrap_or(1024) as usize,
            1 => kernel.shared_bytes(),
            3 => kernel.local_bytes(),
            4 => 0,
            _ => return code::INVALID_VALUE,
        };
        // SAFETY: the caller's pointer.
        unsafe { put(to, value as c_int) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncSetAttribute(function: usize, _attribute: c_uint, _value: c_int) -> u32 {
    on_device("cuFuncSetAttribute", |state, _| match state.functions.contains_key(&function) {
        true => code::SUCCESS,
        false => code::INVALID_HANDLE,
    })
}

/// Without registers: threads, blocks and shared memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    to: *mut c_int,
    function: usize,
    threads: c_int,
    dynamic: usize,
) -> u32 {
    on_device("cuOccupancyMaxActiveBlocksPerMultiprocessor", |state, _| {
        let Some(kernel) = state.functions.get(&function) else { return code::INVALID_HANDLE };
        let (most_threads, most_blocks, most_shared) = multiprocessor(state.settings.capability);
        let shared = (kernel.shared_bytes() + dynamic).max(1) as c_int;
        let warps = (threads.max(1) as u32).div_ceil(32) as c_int;
        // SAFETY: the caller's pointer.
        unsafe { put(to, (most_threads / 32 / warps).min(most_blocks).min(most_shared / shared)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: usize,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    stream: usize,
    parameters: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> u32 {
    on_device("cuLaunchKernel", |state, at| {
        let Some(kernel) = state.functions.get(&function) else { return code::INVALID_HANDLE };
        let mut launch = GridLaunch::new([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch.parameters = vec![0; kernel.parameter_bytes()];
        for (number, parameter) in kernel.parameters().iter().enumerate() {
            // SAFETY: one pointer for each parameter the kernel declares, each to as many bytes, by the caller's word.
            let bytes = unsafe {
                std::slice::from_raw_parts((*parameters.add(number)).cast::<u8>(), parameter.bytes)
            };
            launch.parameters[parameter.offset..parameter.offset + parameter.bytes].copy_from_slice(bytes);
        }
        launch.dynamic_shared = shared as usize;
        let (_, _, most_shared) = multiprocessor(state.settings.capability);
        launch.limits.shared_bytes =
            most_shared as usize - if state.settings.capability < 80 { 0 } else { 1024 };
        launch.limits.instructions = state.settings.instructions;
        match &mut state.capturing {
            Some((captured, recorded)) if *captured == stream => {
                recorded.push((function, launch));
                code::SUCCESS
            }
            _ => perform(state, at, function, &launch),
        }
    })
}

/// Runs a launch.
pub(crate) fn perform(state: &mut DriverState, at: usize, function: usize, launch: &GridLaunch) -> u32 {
    let Some(kernel) = state.functions.get(&function) else { return code::INVALID_HANDLE };
    let device = &mut state.devices[at];
    if device.busy {
        return code::SUCCESS;
    }
    match kernel.launch(&mut device.memory, launch) {
        Ok(counters) => device.clock_ns += counters.warp_instructions,
        Err(LaunchError::Refused(reason)) => {
            state.last_fault = reason;
            return code::OUT_OF_RESOURCES;
        }
        Err(LaunchError::Fault(fault)) => {
            state.last_fault = fault.to_string();
            match fault.kind {
                FaultKind::TooLong => device.busy = true,
                FaultKind::OutOfBounds | FaultKind::ReadOnly => device.lost = Some(code::ILLEGAL_ADDRESS),
                FaultKind::Misaligned => device.lost = Some(code::MISALIGNED),
                _ => device.lost = Some(code::LAUNCH_FAILED),
            }
        }
    }
    code::SUCCESS
}
