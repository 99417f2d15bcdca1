//! What the driver knows: devices, modules, functions, events.

use crate::cublaslt::Light;
use crate::memory::HostMemory;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use trimtab_ptx::{GlobalMemory, GridLaunch, Kernel, Module};

/// Codes of the driver.
pub(crate) mod code {
    pub(crate) const SUCCESS: u32 = 0;
    pub(crate) const INVALID_VALUE: u32 = 1;
    pub(crate) const OUT_OF_MEMORY: u32 = 2;
    pub(crate) const NO_DEVICE: u32 = 100;
    pub(crate) const INVALID_DEVICE: u32 = 101;
    pub(crate) const INVALID_IMAGE: u32 = 200;
    pub(crate) const INVALID_CONTEXT: u32 = 201;
    pub(crate) const INVALID_PTX: u32 = 218;
    pub(crate) const INVALID_HANDLE: u32 = 400;
    pub(crate) const NOT_FOUND: u32 = 500;
    pub(crate) const NOT_READY: u32 = 600;
    pub(crate) const ILLEGAL_ADDRESS: u32 = 700;
    pub(crate) const OUT_OF_RESOURCES: u32 = 701;
    pub(crate) const MISALIGNED: u32 = 716;
    pub(crate) const LAUNCH_FAILED: u32 = 719;
}

/// What the driver should be like.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub devices: u32,
    pub capability: u32,
    pub memory: u64,
    /// Instructions after which a kernel counts as endless.
    pub instructions: u64,
    pub version: u32,
}

impl Settings {
    pub(crate) const DEFAULT: Settings =
        Settings { devices: 1, capability: 80, memory: 1 << 30, instructions: 1 << 28, version: 12_020 };
}

pub(crate) struct DeviceState {
    pub memory: GlobalMemory,
    /// The code every call on the device gets from now on.
    pub lost: Option<u32>,
    /// A kernel that never ends.
    pub busy: bool,
    pub clock_ns: u64,
    /// Memory the processor uses by the same addresses.
    pub unified: Vec<HostMemory>,
}

/// A launch that waits: its function, and everything else.
pub(crate) type Recorded = (usize, GridLaunch);

pub(crate) struct DriverState {
    pub settings: Settings,
    pub devices: Vec<DeviceState>,
    pub modules: HashMap<usize, Module>,
    pub functions: HashMap<usize, Kernel>,
    /// When each was, and whether a kernel that never ends is before it.
    pub events: HashMap<usize, (u64, bool)>,
    pub next: usize,
    /// What the next call of a function answers, once.
    pub failures: Vec<(String, u32)>,
    pub last_fault: String,
    /// How often each function was called.
    pub calls: HashMap<String, u64>,
    /// Bytes that were copied from or to pinned memory.
    pub pinned_bytes: u64,
    pub pinned: Vec<HostMemory>,
    /// Whether devices share the processor's memory.
    pub unified: bool,
    /// What holds clocks down.
    pub throttled: u64,
    /// What a stream records instead of running it.
    pub capturing: Option<(usize, Vec<Recorded>)>,
    pub graphs: HashMap<usize, Vec<Recorded>>,
    pub light: Light,
}

impl DriverState {
    fn new(settings: Settings) -> DriverState {
        let device = || DeviceState {
            memory: GlobalMemory::new(settings.memory),
            lost: None,
            busy: false,
            clock_ns: 0,
            unified: Vec::new(),
        };
        DriverState {
            settings,
            devices: (0..settings.devices).map(|_| device()).collect(),
            modules: HashMap::new(),
            functions: HashMap::new(),
            events: HashMap::new(),
            next: 1 << 12,
            failures: Vec::new(),
            last_fault: String::new(),
            calls: HashMap::new(),
            pinned_bytes: 0,
            pinned: Vec::new(),
            unified: false,
            throttled: 0,
            capturing: None,
            graphs: HashMap::new(),
            light: Light::default(),
        }
    }

    /// A handle nobody has.
    pub(crate) fn handle(&mut self) -> usize {
        self.next += 16;
        self.next
    }
}

static STATE: Mutex<Option<DriverState>> = Mutex::new(None);

thread_local! {
    /// The context of this thread: the device's number and one.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

fn lock() -> MutexGuard<'static, Option<DriverState>> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins anew.
pub(crate) fn reset(settings: Settings) {
    *lock() = Some(DriverState::new(settings));
}

/// Answers a call that needs no device, unless it was told to fail.
pub(crate) fn answer(call: &str, work: impl FnOnce(&mut DriverState) -> u32) -> u32 {
    let mut guard = lock();
    let state = guard.get_or_insert_with(|| DriverState::new(Settings::DEFAULT));
    *state.calls.entry(call.to_string()).or_default() += 1;
    if let Some(at) = state.failures.iter().position(|(known, _)| known == call) {
        return state.failures.remove(at).1;
    }
    work(state)
}

/// Answers a call on the device whose context is current, unless it is lost.
pub(crate) fn on_device(call: &str, work: impl FnOnce(&mut DriverState, usize) -> u32) -> u32 {
    let current = CURRENT.with(Cell::get);
    answer(call, |state| {
        let Some(at) = current.checked_sub(1).filter(|at| *at < state.devices.len()) else {
            return code::INVALID_CONTEXT;
        };
        match state.devices[at].lost {
            Some(code) => code,
            None => {
                // The processor may have written what both have, and may read what the call writes.
                state.devices[at].see_host();
                let answer = work(state, at);
                state.devices[at].show_host();
                answer
            }
        }
    })
}

pub(crate) fn enter(context: usize) {
    CURRENT.with(|current| current.set(context));
}
