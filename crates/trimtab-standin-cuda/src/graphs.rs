//! Graphs: launches that a stream records instead of running them.

use crate::device::put;
use crate::modules::perform;
use crate::state::{code, on_device};
use std::ffi::{c_uint, c_ulonglong};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamBeginCapture_v2(stream: usize, mode: c_uint) -> u32 {
    on_device("cuStreamBeginCapture_v2", |state, _| {
        if mode > 2 || state.capturing.is_some() {
            return code::INVALID_VALUE;
        }
        state.capturing = Some((stream, Vec::new()));
        code::SUCCESS
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamEndCapture(stream: usize, to: *mut usize) -> u32 {
    on_device("cuStreamEndCapture", |state, _| {
        let Some((_, recorded)) = state.capturing.take_if(|(captured, _)| *captured == stream) else {
            return code::INVALID_VALUE;
        };
        let handle = state.handle();
        state.graphs.insert(handle, recorded);
        // SAFETY: the caller's pointer.
        unsafe { put(to, handle) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiateWithFlags(
    to: *mut usize,
    graph: usize,
    _flags: c_ulonglong,
) -> u32 {
    on_device("cuGraphInstantiateWithFlags", |state, _| {
        let Some(recorded) = state.graphs.get(&graph).cloned() else { return code::INVALID_HANDLE };
        let handle = state.handle();
        state.graphs.insert(handle, recorded);
        // SAFETY: the caller's pointer.
        unsafe { put(to, handle) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphLaunch(made: usize, _stream: usize) -> u32 {
    on_device("cuGraphLaunch", |state, at| {
        let Some(recorded) = state.graphs.get(&made).cloned() else { return code::INVALID_HANDLE };
        let answers = recorded.iter().map(|(function, launch)| perform(state, at, *function, launch));
        answers.into_iter().find(|answer| *answer != code::SUCCESS).unwrap_or(code::SUCCESS)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphDestroy(graph: usize) -> u32 {
    on_device("cuGraphDestroy", |state, _| forget(state.graphs.remove(&graph).is_some()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecDestroy(made: usize) -> u32 {
    on_device("cuGraphExecDestroy", |state, _| forget(state.graphs.remove(&made).is_some()))
}

fn forget(was_there: bool) -> u32 {
    if was_there { code::SUCCESS } else { code::INVALID_HANDLE }
}
