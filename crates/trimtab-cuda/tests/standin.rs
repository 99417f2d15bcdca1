//! Everything that can happen with a driver, on a stand-in that runs PTX on the processor: nothing panics, each has its error.
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

use std::ffi::{CString, c_char};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trimtab_core::Nanos;
use trimtab_cuda::{Argument, Context, CudaError, Driver, Function, Unavailable};
// Built with the tests, loaded by its path.
use trimtab_standin_cuda as _;

const SECOND: Nanos = Nanos(1_000_000_000);

/// Some kernels of trimtab-ptx's tests, as NVRTC compiled them.
const OTHERS: &str = include_str!("../../trimtab-ptx/tests/data/others.ptx");
const MATMUL: &str = include_str!("../../trimtab-ptx/tests/data/matmul.ptx");
const TILED: &str = include_str!("../../trimtab-ptx/tests/data/tiled.ptx");
const RACE: &str = include_str!("../../trimtab-ptx/tests/data/tiled_no_first_barrier.ptx");
const BUGS: &str = include_str!("../../trimtab-ptx/tests/data/bugs.ptx");

fn file() -> PathBuf {
    let beside = std::env::current_exe().unwrap();
    let name =
        format!("{}trimtab_standin_cuda{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    beside.parent().unwrap().join(name)
}

/// The stand-in has one state: tests take turns.
static TURN: Mutex<()> = Mutex::new(());

/// The stand-in, and what only a stand-in has.
struct StandIn {
    library: libloading::Library,
    _turn: MutexGuard<'static, ()>,
}

impl StandIn {
    fn new(devices: u32, capability: u32, memory: u64, instructions: u64, version: u32) -> StandIn {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: our own library.
        let library = unsafe { libloading::Library::new(file()) }.unwrap();
        // SAFETY: the type of that function.
        unsafe {
            let reset = library.get::<extern "C" fn(u32, u32, u64, u64, u32)>(b"standin_reset").unwrap();
            reset(devices, capability, memory, instructions, version);
        }
        StandIn { library, _turn: turn }
    }

    fn usual() -> StandIn {
        StandIn::new(1, 80, 1 << 24, 1 << 24, 12_020)
    }

    fn fail(&self, call: &str, code: u32) {
        let call = CString::new(call).unwrap();
        // SAFETY: the type of that function; the name ends with a zero.
        unsafe {
            let fail = self.library.get::<unsafe extern "C" fn(*const c_char, u32)>(b"standin_fail").unwrap();
            fail(call.as_ptr(), code);
        }
    }

    /// How often a function was called, or what else it counts by that name.
    fn count(&self, name: &str) -> u64 {
        let name = CString::new(name).unwrap();
        // SAFETY: the type of that function; the name ends with a zero.
        unsafe {
            let count =
                self.library.get::<unsafe extern "C" fn(*const c_char) -> u64>(b"standin_count").unwrap();
            count(name.as_ptr())
        }
    }

    /// Lets devices share the processor's memory.
    fn unified(self) -> StandIn {
        // SAFETY: the type of that function.
        unsafe { self.library.get::<extern "C" fn()>(b"standin_unified").unwrap()() };
        self
    }

    fn last_fault(&self) -> String {
        let mut text = vec![0u8; 4096];
        // SAFETY: the type of that function; there is that much room.
        unsafe {
            let ask =
                self.library.get::<unsafe extern "C" fn(*mut u8, usize)>(b"standin_last_fault").unwrap();
            ask(text.as_mut_ptr(), text.len());
        }
        String::from_utf8_lossy(text.split(|byte| *byte == 0).next().unwrap()).into_owned()
    }

    fn open(&self, ordinal: u32) -> Arc<Context> {
        Context::open(&Driver::load(&file()).unwrap(), ordinal).unwrap()
    }
}

fn function(context: &Arc<Context>, ptx: &str, name: &str) -> Result<Function, CudaError> {
    let image: Vec<u8> = ptx.bytes().chain([0]).collect();
    context.function(&context.load(&image)?, name)
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A product of two 20 × 20 matrices on a device; the result's first element.
fn multiply(context: &Arc<Context>, ptx: &str, name: &str) -> Result<f32, CudaError> {
    let kernel = function(context, ptx, name)?;
    let (a, b, c) = (context.allocate(1600)?, context.allocate(1600)?, context.allocate(1600)?);
    context.upload(&a, &bytes(&[2.0; 400]))?;
    context.upload(&b, &bytes(&[0.5; 400]))?;
    let arguments = [a.address(), b.address(), c.address()].map(Argument::Address);
    let arguments: Vec<Argument> = arguments.into_iter().chain([Argument::U32(20); 3]).collect();
    // SAFETY: the parameters of that kernel, and matrices that live until the download below is over.
    unsafe { context.launch(&kernel, [2, 2, 1], [16, 16, 1], 0, &arguments) }?;
    let mut first = [0; 4];
    context.download(&c, &mut first)?;
    Ok(f32::from_le_bytes(first))
}

#[test]
fn kernels_run_and_are_timed() {
    let stand_in = StandIn::usual();
    let context = stand_in.open(0);
    assert_eq!(multiply(&context, MATMUL, "naive"), Ok(20.0));
    assert_eq!(multiply(&context, TILED, "tiled"), Ok(20.0));
    assert_eq!(context.lost(), None);
    // Nothing is left of what was allocated.
    assert_eq!(context.memory(), Ok((1 << 24, 1 << 24)));
    let x = context.allocate(400).unwrap();
    context.upload(&x, &bytes(&[4.0; 100])).unwrap();
    let kernel = function(&context, OTHERS, "functions").unwrap();
    let arguments = |n| {
        [Argument::Address(x.address()), Argument::Address(x.address()), Argument::U32(n), Argument::U32(4)]
    };
    let time = |n: u32| {
        // SAFETY: the parameters of that kernel; x is longer than n.
        let launch = || unsafe { context.launch(&kernel, [n, 1, 1], [32, 1, 1], 0, &arguments(n)) };
        context.timed(SECOND, launch).unwrap()
    };
    assert!(time(3) > time(1) && time(1) > Nanos(0));
    let mut first = [0; 4];
    context.download(&x, &mut first).unwrap();
    assert_eq!(f32::from_le_bytes(first), 4f32.sqrt().sqrt().sqrt());
    context.fill(&x, 0).unwrap();
    context.download(&x, &mut first).unwrap();
    assert_eq!(first, [0; 4]);
}

#[test]
fn what_is_not_there_is_an_answer() {
    let found = Driver::load(Path::new("no/such/driver.so")).map(drop);
    assert!(matches!(found, Err(Unavailable::NoDriver(_))), "{found:?}");
    {
        let _stand_in = StandIn::new(0, 80, 0, 0, 12_020);
        assert_eq!(Driver::load(&file()).map(drop), Err(Unavailable::NoDevice));
    }
    {
        let _stand_in = StandIn::new(1, 80, 0, 0, 11_080);
        let found = Driver::load(&file()).map(drop).unwrap_err();
        assert_eq!(found, Unavailable::TooOld { found: 11_080, needed: 12_000 });
        assert_eq!(found.to_string(), "the CUDA driver is for CUDA 11.8, at least 12.0 is needed");
    }
    let stand_in = StandIn::usual();
    stand_in.fail("cuInit", 999);
    assert!(matches!(Driver::load(&file()).map(drop), Err(Unavailable::Refused(error)) if error.code == 999));
}

#[test]
fn a_driver_without_a_function_is_named() {
    let _stand_in = StandIn::usual();
    for missing in ["cuInit", "cuEventElapsedTime", "cuLaunchKernel"] {
        let found = Driver::load_hiding(&file(), &|symbol| symbol != missing).map(drop);
        assert_eq!(found, Err(Unavailable::Symbol(missing)));
    }
}

#[test]
fn memory_that_is_not_to_be_had_is_an_error_and_no_more() {
    let stand_in = StandIn::new(1, 80, 1 << 20, 1 << 24, 12_020);
    let context = stand_in.open(0);
    let most = context.allocate(1 << 20).unwrap();
    let error = context.allocate(1).map(drop).unwrap_err();
    assert!(error.is_out_of_memory() && !error.is_lost(), "{error}");
    drop(most);
    assert_eq!(multiply(&context, TILED, "tiled"), Ok(20.0));
}

#[test]
fn data_goes_through_pinned_memory_in_parts_and_without_where_there_is_none() {
    let data: Vec<u8> = (0..(9u32 << 20) + 5).map(|at| (at % 251) as u8).collect();
    for refused in [false, true] {
        let stand_in = StandIn::usual();
        let context = stand_in.open(0);
        if refused {
            stand_in.fail("cuMemHostAlloc", 2);
        }
        let x = context.allocate(data.len() as u64).unwrap();
        let mut read = vec![0; data.len()];
        context.upload(&x, &data).unwrap();
        context.download(&x, &mut read).unwrap();
        assert!(read == data);
        context.upload(&x, &[7; 3]).unwrap();
        context.download(&x, &mut read[..4]).unwrap();
        assert_eq!(read[..4], [7, 7, 7, data[3]]);
        let through = if refused { 0 } else { 2 * data.len() as u64 + 7 };
        assert_eq!(
            (stand_in.count("pinned"), stand_in.count("pins")),
            (through, if refused { 0 } else { 2 })
        );
        drop(x);
        drop(context);
        assert_eq!(stand_in.count("pins"), 0);
    }
}

#[test]
fn where_both_have_one_memory_nothing_is_copied() {
    let stand_in = StandIn::usual().unified();
    let context = stand_in.open(0);
    assert!(context.info().unified && context.info().integrated);
    assert!(context.allocate(8).unwrap().is_unified());
    assert_eq!(multiply(&context, TILED, "tiled"), Ok(20.0));
    let copies = ["cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"].map(|name| stand_in.count(name));
    assert_eq!(copies, [0, 0]);
    assert_eq!(stand_in.count("cuMemAllocManaged"), 4);
    assert_eq!(context.memory(), Ok((1 << 24, 1 << 24)));
    // A device with memory of its own keeps to it.
    drop((context, stand_in));
    let stand_in = StandIn::usual();
    assert!(!stand_in.open(0).allocate(8).unwrap().is_unified());
    assert_eq!(stand_in.count("cuMemAllocManaged"), 0);
}

#[test]
fn a_kernel_that_goes_astray_costs_the_device_and_the_process_goes_on() {
    let stand_in = StandIn::usual();
    let context = stand_in.open(0);
    let x = context.allocate(512).unwrap();
    context.upload(&x, &[0; 512]).unwrap();
    let kernel = function(&context, BUGS, "out_of_bounds_read").unwrap();
    let arguments = [Argument::Address(x.address()), Argument::Address(x.address()), Argument::U32(128)];
    // SAFETY: it reads past the end, which the stand-in notices.
    let launched = unsafe { context.launch(&kernel, [2, 1, 1], [64, 1, 1], 0, &arguments) };
    let error = launched.and_then(|()| context.wait(SECOND)).unwrap_err();
    assert!(error.is_lost() && error.code != 0, "{error}");
    assert!(stand_in.last_fault().contains("out_of_bounds_read"), "{}", stand_in.last_fault());
    assert_eq!(context.lost(), Some(&error));
    // Every call from now on has the same answer, and what is dropped does no harm.
    assert_eq!(context.allocate(8).map(drop), Err(error.clone()));
    assert_eq!(multiply(&context, TILED, "tiled").unwrap_err(), error);
}

#[test]
fn a_race_is_found_through_the_driver() {
    let stand_in = StandIn::usual();
    let context = stand_in.open(0);
    let error = multiply(&context, RACE, "tiled").unwrap_err();
    assert!(error.is_lost(), "{error}");
    let fault = stand_in.last_fault();
    assert!(fault.contains("a race") || fault.contains("never written"), "{fault}");
}

#[test]
fn a_device_lost_between_two_calls_is_told_apart_from_a_kernel_that_fails() {
    let stand_in = StandIn::usual();
    let context = stand_in.open(0);
    stand_in.fail("cuMemAlloc_v2", 46);
    assert!(context.allocate(8).map(drop).unwrap_err().is_lost());
    assert_eq!(context.lost().map(|error| error.code), Some(46));
    let stand_in = {
        drop(context);
        drop(stand_in);
        StandIn::usual()
    };
    let context = stand_in.open(0);
    let kernel = function(&context, TILED, "tiled").unwrap();
    // SAFETY: a block the kernel was not compiled for is refused before anything runs.
    let refused = unsafe { context.launch(&kernel, [1, 1, 1], [32, 32, 1], 0, &[Argument::U64(0); 6]) };
    let error = refused.unwrap_err();
    assert!(!error.is_lost(), "{error}");
    assert_eq!(multiply(&context, TILED, "tiled"), Ok(20.0));
}

#[test]
fn a_kernel_that_never_ends_is_left_behind() {
    let stand_in = StandIn::new(1, 80, 1 << 24, 10_000, 12_020);
    let context = stand_in.open(0);
    let (x, y) = (context.allocate(512).unwrap(), context.allocate(512).unwrap());
    context.upload(&x, &[0; 512]).unwrap();
    let kernel = function(&context, BUGS, "endless").unwrap();
    let arguments = [Argument::Address(x.address()), Argument::Address(y.address()), Argument::U32(128)];
    // SAFETY: the parameters of that kernel; both arrays have 128 elements.
    unsafe { context.launch(&kernel, [2, 1, 1], [64, 1, 1], 0, &arguments) }.unwrap();
    let error = context.wait(Nanos(3_000_000)).unwrap_err();
    assert!(error.is_not_ready() && !error.is_lost(), "{error}");
}

#[test]
fn two_devices_are_apart() {
    let stand_in = StandIn::new(2, 75, 1 << 20, 1 << 24, 12_020);
    let driver = Driver::load(&file()).unwrap();
    assert_eq!((driver.devices(), driver.version()), (2, 12_020));
    let infos = [0, 1].map(|ordinal| driver.info(ordinal).unwrap());
    assert_ne!(infos[0].uuid, infos[1].uuid);
    assert_eq!((infos[0].capability, infos[0].multiprocessor.threads), (75, 1024));
    assert!(driver.info(2).is_err());
    let [first, second] = [0, 1].map(|ordinal| Context::open(&driver, ordinal).unwrap());
    let all = first.allocate(1 << 20).unwrap();
    // The other's memory is its own, and foreign memory is refused.
    assert_eq!(multiply(&second, TILED, "tiled"), Ok(20.0));
    assert!(second.upload(&all, &[0; 4]).is_err());
    stand_in.fail("cuStreamQuery", 719);
    assert!(first.wait(SECOND).unwrap_err().is_lost());
    assert_eq!(multiply(&second, TILED, "tiled"), Ok(20.0));
}

#[test]
fn ptx_for_another_architecture_or_none_is_refused() {
    let stand_in = StandIn::new(1, 75, 1 << 20, 1 << 24, 12_020);
    let context = stand_in.open(0);
    let newer = include_bytes!("../../trimtab-ptx/tests/data/copies.ptx");
    for image in
        [&[newer.as_slice(), b"\0"].concat(), b"\x7fELF\0".as_slice(), b"no zero".as_slice(), b"nonsense\0"]
    {
        assert!(context.load(image).is_err());
    }
    let kernel = function(&context, TILED, "tiled").unwrap();
    assert_eq!((kernel.resources().shared_bytes, kernel.resources().max_threads), (2176, 256));
    assert_eq!(kernel.occupancy(256, 0).blocks, context.blocks_at_once(&kernel, 256, 0).unwrap());
    assert!(
        context.function(&context.load(&[TILED.as_bytes(), b"\0"].concat()).unwrap(), "missing").is_err()
    );
}

#[test]
fn another_architecture_is_another_device_to_wisdom() {
    let fingerprint = |capability: u32| {
        let _stand_in = StandIn::new(1, capability, 1 << 20, 1 << 24, 12_020);
        let driver = Driver::load(&file()).unwrap();
        driver.info(0).unwrap().facts(driver.version()).fingerprint
    };
    assert_eq!(fingerprint(80), fingerprint(80));
    assert_ne!(fingerprint(80), fingerprint(86));
}
