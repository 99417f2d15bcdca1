//! NVML, where it is found: temperature, clock, what holds it down, power and energy of a device.

use crate::api::Handle;
use libloading::Library;
use std::ffi::{CString, c_char, c_uint, c_ulonglong};
use std::path::{Path, PathBuf};
use trimtab_core::State;

/// Names under which NVML is found.
const NAMES: &[&str] = if cfg!(windows) { &["nvml.dll"] } else { &["libnvidia-ml.so.1", "libnvidia-ml.so"] };

/// Numbers of the library's header: the sensor on the chip, and the clock of the multiprocessors.
const CHIP: c_uint = 0;
const MULTIPROCESSORS: c_uint = 1;

/// What may hold a clock down, as the library numbers it, in words. Being idle, and clocks that somebody set, hold nothing down.
const REASONS: [(u64, &str); 8] = [
    (0x4, "the limit of power"),
    (0x8, "the hardware's slow-down"),
    (0x10, "the clocks of other devices"),
    (0x20, "heat, by the driver"),
    (0x40, "heat, by the hardware"),
    (0x80, "the power supply"),
    (0x200, "the limit of the board"),
    (0x400, "the limit of the voltage"),
];

/// Those of them that a time should not be believed under. A limit of power is what large kernels run at for hours.
const SLOWED: u64 = 0x8 | 0x20 | 0x40 | 0x80;

/// The reasons among what the library told.
fn reasons(bits: u64) -> Vec<&'static str> {
    REASONS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, words)| *words).collect()
}

struct Functions {
    init: unsafe extern "C" fn() -> c_uint,
    by_uuid: unsafe extern "C" fn(*const c_char, *mut Handle) -> c_uint,
    temperature: unsafe extern "C" fn(Handle, c_uint, *mut c_uint) -> c_uint,
    clock: unsafe extern "C" fn(Handle, c_uint, *mut c_uint) -> c_uint,
    most_clock: unsafe extern "C" fn(Handle, c_uint, *mut c_uint) -> c_uint,
    energy: unsafe extern "C" fn(Handle, *mut c_ulonglong) -> c_uint,
    /// Not in every version.
    throttled: Option<unsafe extern "C" fn(Handle, *mut c_ulonglong) -> c_uint>,
    power: Option<unsafe extern "C" fn(Handle, *mut c_uint) -> c_uint>,
}

/// The library, started. Never unloaded.
pub struct Nvml {
    functions: Functions,
    _library: std::mem::ManuallyDrop<Library>,
}

impl std::fmt::Debug for Nvml {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Nvml")
    }
}

impl Nvml {
    /// The one of this machine. What is not there tells nothing, and that is all that is lost.
    pub fn find() -> Option<Nvml> {
        NAMES.iter().map(PathBuf::from).find_map(|name| Nvml::load(&name))
    }

    /// The one in that file.
    pub fn load(file: &Path) -> Option<Nvml> {
        // SAFETY: runs the initialisers of what is NVML by its name or by the caller's word.
        let library = unsafe { Library::new(file) }.ok()?;
        macro_rules! function {
            ($symbol:literal) => {
                // SAFETY: the type of the field is that of the function of this name in NVML's header.
                *unsafe { library.get($symbol) }.ok()?
            };
        }
        macro_rules! perhaps {
            ($symbol:literal) => {
                // SAFETY: the same.
                unsafe { library.get($symbol) }.ok().map(|found| *found)
            };
        }
        let functions = Functions {
            init: function!("nvmlInit_v2"),
            by_uuid: function!("nvmlDeviceGetHandleByUUID"),
            temperature: function!("nvmlDeviceGetTemperature"),
            clock: function!("nvmlDeviceGetClockInfo"),
            most_clock: function!("nvmlDeviceGetMaxClockInfo"),
            energy: function!("nvmlDeviceGetTotalEnergyConsumption"),
            // Newer versions have both names for it.
            throttled: perhaps!("nvmlDeviceGetCurrentClocksThrottleReasons")
                .or(perhaps!("nvmlDeviceGetCurrentClocksEventReasons")),
            power: perhaps!("nvmlDeviceGetPowerUsage"),
        };
        // SAFETY: may be called again; never shut down, because others in this process may use it.
        let started = unsafe { (functions.init)() };
        (started == 0).then_some(Nvml { functions, _library: std::mem::ManuallyDrop::new(library) })
    }

    /// The device of that identity.
    fn device(&self, uuid: &[u8; 16]) -> Option<Handle> {
        let name = CString::new(uuid_text(uuid)).ok()?;
        let mut handle = 0;
        // SAFETY: a text that ends with a zero; writes a handle that needs no giving back.
        let code = unsafe { (self.functions.by_uuid)(name.as_ptr(), &mut handle) };
        (code == 0).then_some(handle)
    }

    /// What it tells of a device. What it does not tell is absent.
    pub fn state(&self, uuid: &[u8; 16]) -> State {
        let Some(device) = self.device(uuid) else { return State::default() };
        let ask = |function: unsafe extern "C" fn(Handle, c_uint, *mut c_uint) -> c_uint, which: c_uint| {
            let mut value: c_uint = 0;
            // SAFETY: asks for a number of a device it knows.
            let code = unsafe { function(device, which, &mut value) };
            (code == 0).then_some(f64::from(value))
        };
        State {
            temperature_celsius: ask(self.functions.temperature, CHIP),
            frequency_mhz: ask(self.functions.clock, MULTIPROCESSORS),
            frequency_max_mhz: ask(self.functions.most_clock, MULTIPROCESSORS),
            throttled_by: self.throttled_by(uuid),
            power_mw: self.power_mw(device),
            energy_uj: self.energy_uj(uuid),
            ..State::default()
        }
    }

    /// What holds the clock of a device down now, where that is told.
    pub fn throttled_by(&self, uuid: &[u8; 16]) -> Option<Vec<&'static str>> {
        self.throttle_bits(uuid).map(reasons)
    }

    /// Whether heat or the power supply holds it down.
    pub(crate) fn is_slowed(&self, uuid: &[u8; 16]) -> bool {
        self.throttle_bits(uuid).is_some_and(|bits| bits & SLOWED != 0)
    }

    fn throttle_bits(&self, uuid: &[u8; 16]) -> Option<u64> {
        let (device, ask, mut bits) = (self.device(uuid)?, self.functions.throttled?, 0);
        // SAFETY: asks for a number of a device it knows.
        let code = unsafe { ask(device, &mut bits) };
        (code == 0).then_some(bits)
    }

    fn power_mw(&self, device: Handle) -> Option<u64> {
        let (ask, mut milliwatts) = (self.functions.power?, 0);
        // SAFETY: asks for a number of a device it knows.
        let code = unsafe { ask(device, &mut milliwatts) };
        (code == 0).then_some(milliwatts.into())
    }

    /// Energy a device used since its driver was loaded; differences are energy.
    pub fn energy_uj(&self, uuid: &[u8; 16]) -> Option<u64> {
        let (device, mut millijoules) = (self.device(uuid)?, 0);
        // SAFETY: asks for a number of a device it knows.
        let code = unsafe { (self.functions.energy)(device, &mut millijoules) };
        (code == 0).then(|| millijoules.saturating_mul(1000))
    }
}

/// An identity as the library writes it.
fn uuid_text(uuid: &[u8; 16]) -> String {
    let mut text = "GPU-".to_string();
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_a_clock_down_is_told_and_what_does_not_is_not() {
        // Idle, and a clock the user set.
        assert_eq!(reasons(0x3), Vec::<&str>::new());
        assert_eq!(reasons(0x45), ["the limit of power", "heat, by the hardware"]);
    }

    #[test]
    fn an_identity_is_written_as_nvidia_does() {
        let uuid = std::array::from_fn(|at| at as u8 * 17);
        assert_eq!(uuid_text(&uuid), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }
}
