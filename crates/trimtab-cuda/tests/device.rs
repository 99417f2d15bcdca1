//! The device without NVRTC, on a stand-in for the driver: what is bundled is right, the rest is declined with a reason, and what was built is kept.
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

#[path = "../examples/verify/reference.rs"]
mod reference;
#[path = "../examples/verify/spilling.rs"]
mod spilling;

use reference::Loops;
use spilling::spilling;
use std::path::PathBuf;
use std::sync::Arc;
use trimtab_core::{Bytes, Device, FailureKind, Interference, KernelId, Nanos, Problem};
use trimtab_cuda::{CudaDevice, CudaOptions, bundled_count};
use trimtab_operands::{
    Batch, Executor, HostLaunch, Kept, Launch, Operands, Reference, Slice, SliceMut, Wait,
};
// Built with the tests, loaded by its path.
use trimtab_standin_cuda as _;

/// The interpreter is slower than a GPU.
const PATIENCE: Nanos = Nanos(60_000_000_000);

fn stand_in() -> PathBuf {
    let beside = std::env::current_exe().unwrap();
    let name =
        format!("{}trimtab_standin_cuda{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    beside.parent().unwrap().join(name)
}

fn device() -> CudaDevice {
    let stand_in = stand_in();
    let options = CudaOptions {
        driver: Some(stand_in.clone()),
        nvrtc: Some(PathBuf::from("no/such/nvrtc.so")),
        cublas: Some(stand_in.clone()),
        cublaslt: Some(stand_in.clone()),
        nvml: Some(stand_in),
        ..CudaOptions::new(Arc::new(Loops))
    };
    let (mut devices, problems) = CudaDevice::all(options);
    assert!(
        matches!(&problems[..], [told] if told.contains("no NVRTC") && told.contains("nvidia-cuda-nvrtc"))
    );
    devices.remove(0)
}

/// Kernels that take a problem.
fn takers(device: &CudaDevice, problem: &Problem) -> Vec<KernelId> {
    let all = (0..device.kernels().len() as u32).map(KernelId);
    all.filter(|kernel| device.declines(*kernel, problem).is_none()).collect()
}

#[test]
fn without_nvrtc_bundled_kernels_are_right_at_any_size() {
    let device = device();
    assert!(bundled_count() > 30);
    for (text, least) in [
        ("matmul:f32:37x41x23", 3),
        ("matmul:f32:1x50x33", 2),
        ("matmul:f32:33x20x200", 3),
        ("matmul:f64:19x21x17", 3),
        ("matmul:f16:37x41x23", 1),
        ("elementwise.gelu:f32:1000", 1),
        ("elementwise.pow:f32:77", 1),
        ("elementwise.sub:f32:9x7,1x7", 1),
        ("reduce.sum:f32:3000", 2),
        ("reduce.max:f32:9x100:axis0", 2),
        ("transpose:f32:33x50", 2),
        ("rows.softmax:f32:9x100", 1),
        ("gather:f32:30x7:axis0,count90", 1),
        ("cast:f32:301:f16", 1),
        ("cast:f16:301:f32", 1),
    ] {
        let problem: Problem = text.parse().unwrap();
        let kernels = takers(&device, &problem);
        assert!(kernels.len() >= least, "{text}: {kernels:?}");
        for kernel in kernels {
            let (space, name) = (device.space(kernel, &problem), &device.kernels()[kernel.0 as usize].name);
            assert!(!space.points().is_empty(), "{name}, {text}");
            // The stand-in of cuBLASLt has three suggestions.
            let most = if name.contains("cublaslt") { 3 } else { usize::MAX };
            for point in space.points().iter().take(most) {
                device
                    .verify(kernel, &problem, point, PATIENCE)
                    .unwrap_or_else(|f| panic!("{name}, {text}: {f}"));
            }
            let mut bench = device.bench(&problem, PATIENCE).unwrap();
            let sample = bench.run(kernel, &space.points()[0], 2, PATIENCE).unwrap();
            assert!(sample.elapsed > Nanos(0) && sample.iterations == 2, "{name}: {sample:?}");
        }
    }
    assert!(device.rates().flops_per_s > 0.0 && device.transfers().is_some());
}

#[test]
fn what_is_not_bundled_is_declined_with_the_reason() {
    let device = device();
    for text in ["fused.relu(add(a,b)):f32:4x8:all,columns", "elementwise.exp:f64:100"] {
        let problem: Problem = text.parse().unwrap();
        assert_eq!(takers(&device, &problem), []);
        let all = (0..device.kernels().len() as u32).map(KernelId);
        let reasons: Vec<String> =
            all.filter_map(|kernel| Some(device.declines(kernel, &problem)?.to_string())).collect();
        assert!(reasons.iter().any(|reason| reason.contains("no NVRTC")), "{reasons:?}");
    }
}

/// One launch as a runtime makes it; the result's first element.
fn first(device: &CudaDevice, kernel: KernelId, problem: &Problem) -> f64 {
    let operands = Operands::new(problem);
    let uploaded = |input: &trimtab_operands::Slice<'_>| {
        let buffer = device.allocate(Bytes(input.bytes().len() as u64)).unwrap();
        device.upload(*input, buffer.as_ref()).unwrap();
        buffer
    };
    let inputs: Vec<_> = operands.slices().iter().map(uploaded).collect();
    let out = device.allocate(Bytes(problem.out_bytes())).unwrap();
    let space = device.space(kernel, problem);
    let inputs = inputs.iter().map(|buffer| buffer.as_ref()).collect();
    let launch = Launch { kernel, problem, point: &space.points()[0], inputs, out: out.as_ref() };
    let mut read = operands.out.clone();
    device.run(Batch { launches: &[launch], read: Some(read.slice_mut()), wait: Wait::Done }).unwrap();
    let mut expected = operands.out.clone();
    Loops.compute(problem, &operands.slices(), expected.slice_mut()).unwrap();
    assert!((read.at(0).unwrap() - expected.at(0).unwrap()).abs() < 1e-4);
    read.at(0).unwrap()
}

#[test]
fn what_was_built_is_kept_and_nonsense_costs_nothing() {
    let problem: Problem = "matmul:f32:33x20x200".parse().unwrap();
    let before = device();
    let keeps = before.keeps().unwrap();
    assert_eq!(keeps.news(Kept::Kernels), None);
    // Those that round more are compared elsewhere.
    let is_exact = |kernel: &KernelId| !before.kernels()[kernel.0 as usize].name.ends_with("tf32");
    let kernels: Vec<KernelId> = takers(&before, &problem).into_iter().filter(is_exact).collect();
    assert!(kernels.len() >= 4, "{kernels:?}");
    let results: Vec<f64> = kernels.iter().map(|kernel| first(&before, *kernel, &problem)).collect();
    let news = keeps.news(Kept::Kernels).unwrap();
    assert_eq!(keeps.news(Kept::Kernels), None);
    let after = device();
    after.keeps().unwrap().offer(Kept::Kernels, b"nonsense".to_vec());
    after.keeps().unwrap().offer(Kept::Kernels, news.clone());
    let again: Vec<f64> = kernels.iter().map(|kernel| first(&after, *kernel, &problem)).collect();
    assert_eq!(again, results);
    // Everything was there: nothing is to be kept anew.
    assert_eq!(after.keeps().unwrap().news(Kept::Kernels), None);
    // Code the driver does not take is built again.
    let damaged = device();
    let mut bytes = news;
    for at in 0..bytes.len().saturating_sub(8) {
        if bytes[at..].starts_with(b".version") {
            bytes[at + 1] = b'V';
        }
    }
    damaged.keeps().unwrap().offer(Kept::Kernels, bytes);
    let again: Vec<f64> = kernels.iter().map(|kernel| first(&damaged, *kernel, &problem)).collect();
    assert_eq!(again, results);
}

#[test]
fn explain_is_told_what_the_compiler_made_and_what_limits_it() {
    let device = device();
    let problem: Problem = "matmul:f32:64x64x64".parse().unwrap();
    let blocked = |kernel: &KernelId| device.kernels()[kernel.0 as usize].name == "cuda.matmul.blocked";
    let kernel = takers(&device, &problem).into_iter().find(blocked).unwrap();
    let line = device.compiled(kernel, &problem, &device.space(kernel, &problem).points()[0]).unwrap();
    for part in
        ["registers a thread", "bytes of shared memory", "nothing spilled", "% of its warps, limited by"]
    {
        assert!(line.contains(part), "{line}");
    }
}

#[test]
fn what_is_known_to_spill_counts_as_traffic() {
    let problem: Problem = "elementwise.add:f32:1000".parse().unwrap();
    let before = device();
    let kernel = takers(&before, &problem)[0];
    let point = before.space(kernel, &problem).points()[0];
    let _ = first(&before, kernel, &problem);
    let kept = before.keeps().unwrap().news(Kept::Kernels).unwrap();
    let after = device();
    assert_eq!(after.work(kernel, &problem, &point), before.work(kernel, &problem, &point));
    after.keeps().unwrap().offer(Kept::Kernels, spilling(&kept));
    // One block of 256 threads with 64 bytes each, written and read.
    let [before, after] = [before, after].map(|device| device.work(kernel, &problem, &point).bytes.0);
    assert_eq!(after - before, 2 * 256 * 64);
}

#[test]
fn cublas_is_a_rival_for_every_layout_and_rough_only_as_it_says() {
    let device = device();
    let named = |name: &str| {
        let at = device.kernels().iter().position(|info| info.name == name).unwrap();
        KernelId(at as u32)
    };
    let (exact, rough) = (named("cuda.matmul.cublas"), named("cuda.matmul.cublas_tf32"));
    for text in [
        "matmul:f32:7x5x11",
        "matmul:f32:7x5x11:t,n",
        "matmul:f32:7x5x11:n,t",
        "matmul:f32:3x7x5x11:t,t",
        "matmul:f64:7x5x11",
        "matmul:f16:7x5x11",
        "matmul:bf16:7x5x11",
    ] {
        let problem: Problem = text.parse().unwrap();
        let point = device.space(exact, &problem).points()[0];
        device.verify(exact, &problem, &point, PATIENCE).unwrap_or_else(|f| panic!("{text}: {f}"));
        assert_eq!(device.work(exact, &problem, &point).error, 0.0);
        assert_eq!(device.compiled(exact, &problem, &point), None);
    }
    let problem: Problem = "matmul:f32:7x5x11".parse().unwrap();
    let point = device.space(rough, &problem).points()[0];
    device.verify(rough, &problem, &point, PATIENCE).unwrap();
    assert!(device.work(rough, &problem, &point).error > 5e-4);
    let halves: Problem = "matmul:f16:7x5x11".parse().unwrap();
    assert!(device.declines(rough, &halves).is_some());
}

#[test]
fn cublaslt_is_a_rival_whose_suggestions_are_settings() {
    let device = device();
    let named = |name: &str| {
        let at = device.kernels().iter().position(|info| info.name == name).unwrap();
        KernelId(at as u32)
    };
    let (exact, rough) = (named("cuda.matmul.cublaslt"), named("cuda.matmul.cublaslt_tf32"));
    for text in [
        "matmul:f32:7x5x11",
        "matmul:f32:7x5x11:t,n",
        "matmul:f32:7x5x11:n,t",
        "matmul:f32:3x7x5x11:t,t",
        "matmul:f64:7x5x11",
        "matmul:f16:7x5x11",
        "matmul:bf16:7x5x11",
    ] {
        let problem: Problem = text.parse().unwrap();
        let space = device.space(exact, &problem);
        // The stand-in has three suggestions; the third works in memory beside the operands.
        for point in &space.points()[..3] {
            device.verify(exact, &problem, point, PATIENCE).unwrap_or_else(|f| panic!("{text}: {f}"));
        }
        let missing = device.verify(exact, &problem, &space.points()[3], PATIENCE).unwrap_err();
        assert!(missing.to_string().contains("no suggestion number 3"), "{missing}");
        assert_eq!(missing.kind, FailureKind::Untried);
        let work = device.work(exact, &problem, &space.points()[0]);
        assert!(work.error == 0.0 && work.scratch > Bytes(0));
    }
    let problem: Problem = "matmul:f32:7x5x11".parse().unwrap();
    let point = device.space(rough, &problem).points()[0];
    device.verify(rough, &problem, &point, PATIENCE).unwrap();
    assert!(device.work(rough, &problem, &point).error > 5e-4);
}

/// What the stand-in counts by that name.
fn count(name: &str) -> u64 {
    // SAFETY: our own library.
    let library = unsafe { libloading::Library::new(stand_in()) }.unwrap();
    let name = std::ffi::CString::new(name).unwrap();
    // SAFETY: the type of that function; the name ends with a zero.
    unsafe {
        let count =
            library.get::<unsafe extern "C" fn(*const std::ffi::c_char) -> u64>(b"standin_count").unwrap();
        count(name.as_ptr())
    }
}

#[test]
fn a_batch_that_comes_again_is_one_call_of_a_graph() {
    let device = device();
    let problem: Problem = "elementwise.add:f32:100".parse().unwrap();
    let kernel = takers(&device, &problem)[0];
    let space = device.space(kernel, &problem);
    let filled = |value: f32| {
        let (buffer, data) = (device.allocate(Bytes(400)).unwrap(), vec![value; 100]);
        device.upload(Slice::F32(&data), buffer.as_ref()).unwrap();
        buffer
    };
    let [one, two] = [1.0, 2.0].map(filled);
    let results = [0.0; 3].map(filled);
    let [a, b, c] = results.each_ref().map(|buffer| buffer.as_ref());
    let launch = |inputs, out| Launch { kernel, problem: &problem, point: &space.points()[0], inputs, out };
    let steps = |first| {
        [launch(vec![first, two.as_ref()], a), launch(vec![a, a], b), launch(vec![b, one.as_ref()], c)]
    };
    let run = |first, wait| {
        let mut read = vec![0f32; 100];
        let launches = steps(first);
        let timed =
            device.run(Batch { launches: &launches, read: Some(SliceMut::F32(&mut read)), wait }).unwrap();
        assert_eq!(timed.is_some(), wait == Wait::Timed);
        assert!(read.iter().all(|value| *value == read[0]));
        read[0]
    };
    // Launched one by one, then made a graph, then only launched.
    for (times, wait) in [(0, Wait::Done), (1, Wait::Later), (2, Wait::Timed), (3, Wait::Done)] {
        assert_eq!(run(one.as_ref(), wait), 7.0);
        assert_eq!(count("cuGraphLaunch"), times);
    }
    assert_eq!(count("cuGraphInstantiateWithFlags"), 1);
    // Another operand is another batch.
    assert_eq!(run(two.as_ref(), Wait::Done), 9.0);
    assert_eq!(count("cuGraphLaunch"), 3);
    // What cannot be made a graph is launched as before.
    let fail = |call: &std::ffi::CStr| {
        // SAFETY: our own library, the type of that function, and a name that ends with a zero.
        unsafe {
            let library = libloading::Library::new(stand_in()).unwrap();
            let fail =
                library.get::<unsafe extern "C" fn(*const std::ffi::c_char, u32)>(b"standin_fail").unwrap();
            fail(call.as_ptr(), 1);
        }
    };
    fail(c"cuGraphInstantiateWithFlags");
    assert_eq!(run(two.as_ref(), Wait::Done), 9.0);
    assert_eq!(run(two.as_ref(), Wait::Done), 9.0);
    assert_eq!(count("cuGraphLaunch"), 3);
}

#[test]
fn an_index_that_is_not_there_is_told_and_costs_nothing() {
    let device = device();
    let problem: Problem = "gather:f32:5:count3".parse().unwrap();
    let kernel = takers(&device, &problem)[0];
    let space = device.space(kernel, &problem);
    let run = |indices: [i64; 3]| {
        let (from, mut out) = ([1f32, 2.0, 3.0, 4.0, 5.0], [0f32; 3]);
        let inputs = [Slice::F32(&from), Slice::I64(&indices)];
        let launch = HostLaunch { kernel, problem: &problem, point: &space.points()[0], inputs: &inputs };
        device.launch_host(launch, SliceMut::F32(&mut out), false).map(|_| out)
    };
    assert_eq!(run([4, -5, 0]), Ok([5.0, 1.0, 1.0]));
    for (indices, number) in [([4, 5, -6], 1), ([i64::MIN, 0, 0], 0), ([0, 1, 1 << 40], 2)] {
        let error = run(indices).unwrap_err();
        let expected = format!("number {number} of the indices is not in an axis of 5 elements");
        assert!(error.is_callers() && error.to_string().contains(&expected), "{error}");
    }
    assert_eq!(run([1, 1, 1]), Ok([2.0; 3]));
}

#[test]
fn nvml_tells_the_state_and_heat_disturbs_what_is_timed() {
    let device = device();
    let state = device.state();
    assert_eq!((state.power_mw, state.throttled_by), (Some(70_500), Some(vec![])));
    assert_eq!((state.temperature_celsius, state.frequency_mhz), (Some(41.0), Some(1200.0)));
    assert_eq!((state.frequency_max_mhz, state.energy_uj.is_some()), (Some(1500.0), true));
    let problem: Problem = "elementwise.add:f32:100".parse().unwrap();
    let kernel = takers(&device, &problem)[0];
    let point = device.space(kernel, &problem).points()[0];
    let mut bench = device.bench(&problem, PATIENCE).unwrap();
    // A limit of power is everyday, heat is not.
    let heat = "heat, by the hardware";
    for (bits, words, found) in [
        (0x4, vec!["the limit of power"], None),
        (0x41, vec![heat], Some(Interference::Throttled)),
        (0x0, vec![], None),
    ] {
        // SAFETY: our own library, and the type of that function.
        unsafe {
            let library = libloading::Library::new(stand_in()).unwrap();
            library.get::<extern "C" fn(u64)>(b"standin_throttled").unwrap()(bits);
        }
        assert_eq!(device.state().throttled_by, Some(words));
        assert_eq!(bench.run(kernel, &point, 1, PATIENCE).unwrap().interference, found);
    }
}
