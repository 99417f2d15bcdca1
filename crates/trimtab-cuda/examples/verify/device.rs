//! The device itself, on a stand-in for the driver: found, asked, verified, timed, and its launches through the executor.

use crate::reference::Loops;
use crate::spilling::spilling;
use crate::verify::all_or_failures;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trimtab_core::{
    BinaryOp, Bytes, DType, Device, Elementwise, KernelId, Matmul, Nanos, Operand, Problem, Reduce, ReduceOp,
    Transpose, UnaryOp,
};
use trimtab_cuda::{CudaDevice, CudaOptions};
use trimtab_operands::{
    Batch, Executor, Expected, HostLaunch, Kept, Launch, Operands, Slice, SliceMut, Wait, allowed,
};

/// The interpreter is slower than a GPU.
const PATIENCE: Nanos = Nanos(60_000_000_000);

fn open(driver: &Path, nvrtc: &Path) -> Result<CudaDevice> {
    // The stand-in has what is called of cuBLAS and NVML, too.
    let [driver, nvrtc] = [driver, nvrtc].map(|file| Some(file.to_path_buf()));
    let (cublas, cublaslt, nvml) = (driver.clone(), driver.clone(), driver.clone());
    let options = CudaOptions { driver, nvrtc, cublas, cublaslt, nvml, ..CudaOptions::new(Arc::new(Loops)) };
    let (devices, problems) = CudaDevice::all(options);
    ensure!(problems.is_empty(), "{}", problems.join("; "));
    devices.into_iter().next().context("the stand-in has a device")
}

/// With each compiler, side by side, which share out the settings beside the default: a stand-in loaded from a file of its own has devices of its own.
pub fn verify_with_each(driver: &Path, compilers: &[PathBuf], work: &Path) -> Result<()> {
    let with = |number: usize, nvrtc: &Path| -> Result<()> {
        let copy = work.join(format!("driver-{number}.so"));
        std::fs::copy(driver, &copy)?;
        verify(&copy, nvrtc, [number, compilers.len()])
    };
    std::thread::scope(|scope| {
        let started: Vec<_> = compilers
            .iter()
            .enumerate()
            .map(|(number, nvrtc)| scope.spawn(move || with(number, nvrtc)))
            .collect();
        let ended = |result: std::thread::Result<Result<()>>| {
            result.map_err(|_| anyhow::anyhow!("the device panicked")).flatten()
        };
        started.into_iter().try_for_each(|thread| ended(thread.join()))
    })
}

fn verify(driver: &Path, nvrtc: &Path, [turn, of]: [usize; 2]) -> Result<()> {
    spilling_last(&open(driver, nvrtc)?, &open(driver, nvrtc)?)?;
    let device = &open(driver, nvrtc)?;
    let problems = problems_of_all_kinds()?;
    let counted = all_or_failures(problems.iter().map(|problem| takers(device, problem, [turn, of])))?;
    let [verified, launched] =
        counted.into_iter().fold([0, 0], |[a, b], [verified, launched]| [a + verified, b + launched]);
    without_an_answer(device)?;
    let rates = device.rates();
    ensure!(rates.flops_per_s > 0.0 && rates.bytes_per_s > 0.0, "no speeds: {rates:?}");
    ensure!(device.transfers().is_some(), "no transfers");
    println!("{device:?} on the stand-in: {verified} verified, {launched} timed and launched");
    Ok(())
}

/// Everyone who takes a problem: settings that passed the gate, and kernels that were timed and launched.
fn takers(device: &CudaDevice, problem: &Problem, [turn, of]: [usize; 2]) -> Result<[usize; 2]> {
    let operands = Operands::new(problem);
    let expected = Expected::new(&Loops, problem, &operands).map_err(anyhow::Error::msg)?;
    let (answer, mut verified, mut launched) = ((operands, expected), 0, 0);
    let kernels = (0..device.kernels().len() as u32).map(KernelId);
    for kernel in kernels.filter(|kernel| device.declines(*kernel, problem).is_none()) {
        let (name, space) = (&device.kernels()[kernel.0 as usize].name, device.space(kernel, problem));
        // The stand-in of cuBLASLt has three suggestions.
        let most = if name.contains("cublaslt") { 3 } else { usize::MAX };
        let points = space.points().iter().take(most).enumerate();
        for (_, point) in points.filter(|(at, _)| *at == 0 || at % of == turn) {
            let what = || format!("{name}, {problem}, {point:?}");
            device.verify(kernel, problem, point, PATIENCE).map_err(anyhow::Error::msg).with_context(what)?;
            verified += 1;
        }
        let point = space.points().first().context("a kernel that takes a problem has a setting")?;
        let mut bench = device.bench(problem, PATIENCE).map_err(|decline| anyhow::anyhow!("{decline}"))?;
        let sample = bench.run(kernel, point, 2, PATIENCE).map_err(anyhow::Error::msg)?;
        ensure!(sample.elapsed > Nanos(0) && sample.iterations == 2, "{name}: {sample:?}");
        launch(device, kernel, problem, &answer)?;
        launched += 1;
    }
    ensure!(launched > 0, "no kernel takes {problem}");
    Ok([verified, launched])
}

/// Operands there is no answer for are the caller's fault, told in words, and cost the device nothing.
fn without_an_answer(device: &CudaDevice) -> Result<()> {
    let cases: [(&str, Vec<i32>, &str); 3] = [
        (
            "gather:i32:5:count3,i32",
            vec![4, -6, 5],
            "number 1 of the indices is not in an axis of 5 elements",
        ),
        ("elementwise.div:i32:5", vec![1, 0, 2, 3, 4], "division by zero"),
        ("reduce.sum:i32:5", vec![], "does not fit in i32"),
    ];
    for (text, second, expected) in cases {
        let problem: Problem = text.parse().map_err(|error| anyhow::anyhow!("{text}: {error}"))?;
        let first = if second.is_empty() { vec![i32::MAX; 5] } else { vec![7; 5] };
        let (inputs, mut out) = ([first, second], vec![0i32; problem.out_len() as usize]);
        let inputs: Vec<Slice<'_>> =
            inputs.iter().filter(|input| !input.is_empty()).map(|input| Slice::I32(input)).collect();
        let takes = |kernel: &u32| device.declines(KernelId(*kernel), &problem).is_none();
        let kernel = (0..device.kernels().len() as u32).find(takes).context("nobody takes it")?;
        let (kernel, space) = (KernelId(kernel), device.space(KernelId(kernel), &problem));
        let point = space.points().first().context("a kernel that takes a problem has a setting")?;
        let launch = HostLaunch { kernel, problem: &problem, point, inputs: &inputs };
        match device.launch_host(launch, SliceMut::I32(&mut out), false) {
            Err(error) if error.is_callers() && error.to_string().contains(expected) => {}
            other => anyhow::bail!("{text}: {other:?}"),
        }
    }
    Ok(())
}

/// A setting that is known to spill is tried last.
fn spilling_last(before: &CudaDevice, after: &CudaDevice) -> Result<()> {
    let problem = Problem::Matmul(Matmul::new(DType::F32, 64, 64, 64)?);
    let at = before.kernels().iter().position(|info| info.name == "cuda.matmul.blocked");
    let kernel = KernelId(at.context("there is a blocked kernel")? as u32);
    let space = before.space(kernel, &problem);
    let first = *space.points().first().context("it has settings")?;
    before.verify(kernel, &problem, &first, PATIENCE).map_err(anyhow::Error::msg)?;
    let kept = before.keeps().and_then(|keeps| keeps.news(Kept::Kernels)).context("it was built")?;
    after.keeps().context("devices keep kernels")?.offer(Kept::Kernels, spilling(&kept));
    let found = after.space(kernel, &problem);
    ensure!(found.points().len() == space.points().len(), "settings were lost");
    ensure!(found.points().last() == Some(&first), "what spills is not last: {found:?}");
    ensure!(found.points().first() == space.points().get(1), "the others changed places: {found:?}");
    Ok(())
}

/// One launch as a runtime makes it: operands on the device, the result read on the way.
fn launch(
    device: &CudaDevice,
    kernel: KernelId,
    problem: &Problem,
    expected: &(Operands, Expected),
) -> Result<()> {
    let (operands, expected) = expected;
    let mut inputs = Vec::new();
    for input in operands.slices() {
        let buffer = device.allocate(Bytes(input.bytes().len() as u64))?;
        device.upload(input, buffer.as_ref())?;
        inputs.push(buffer);
    }
    let out = device.allocate(Bytes(problem.out_bytes()))?;
    let space = device.space(kernel, problem);
    let point = space.points().first().context("a kernel that takes a problem has a setting")?;
    let inputs = inputs.iter().map(|buffer| buffer.as_ref()).collect();
    let launches = [Launch { kernel, problem, point, inputs, out: out.as_ref() }];
    let mut read = operands.out.clone();
    read.poison();
    device.run(Batch { launches: &launches, read: Some(read.slice_mut()), wait: Wait::Done })?;
    // What the type and the length of sums allow, or what the kernel says of itself: the rule of the gate.
    let within = allowed(device.tolerance(problem), &device.work(kernel, problem, point));
    let what = || format!("{problem}, {}", device.kernels()[kernel.0 as usize].name);
    expected.check_within(problem, &read, within).map_err(anyhow::Error::msg).with_context(what)
}

fn problems_of_all_kinds() -> Result<Vec<Problem>> {
    let transposed = Operand { transposed: true, shared: false };
    Ok(vec![
        Problem::Matmul(Matmul::new(DType::F32, 37, 41, 23)?),
        Problem::Matmul(Matmul::batched(DType::F64, 2, 19, 21, 17, transposed, Operand::PLAIN)?),
        Problem::Matmul(Matmul::new(DType::F16, 37, 41, 23)?),
        Problem::Elementwise(Elementwise::unary(UnaryOp::Gelu, DType::F32, &[1000])?),
        Problem::Elementwise(Elementwise::unary(UnaryOp::Exp, DType::F64, &[333])?),
        Problem::Elementwise(Elementwise::binary(BinaryOp::Max, DType::F32, &[77], &[77])?),
        Problem::Reduce(Reduce::new(ReduceOp::Sum, DType::F32, &[3000], None)?),
        Problem::Reduce(Reduce::new(ReduceOp::Mean, DType::F64, &[5, 40, 12], Some(1))?),
        Problem::Reduce(Reduce::new(ReduceOp::Min, DType::F32, &[9, 100], Some(1))?),
        Problem::Transpose(Transpose::new(DType::F32, &[33, 50], &[1, 0])?),
        Problem::Matmul(Matmul::new(DType::F32, 3, 50, 40)?),
        Problem::Matmul(Matmul::new(DType::F32, 20, 24, 300)?),
        Problem::Elementwise(Elementwise::binary(BinaryOp::Div, DType::F32, &[7, 11], &[11])?),
        "fused.relu(add(mul(a,#0),b)):f32:31x33:all,columns".parse()?,
        "fused.relu(add(@,c)):f32:37x45x19:n,n,columns".parse()?,
        "fused.add(@,c):f32:20x24x300:n,n,columns".parse()?,
        "fused.add(@,c):f16:20x24x30:n,n,columns".parse()?,
        "fused.exp(a):f32:21x47:all:sum.axis1".parse()?,
        "rows.softmax:f32:9x130".parse()?,
        "rows.log_softmax:f32:7x45x13:axis1".parse()?,
        "rows.layer_norm:f32:9x45:scale,shift".parse()?,
        "rows.rms_norm:f16:9x45:scale".parse()?,
        "rows.variance:f64:9x45".parse()?,
        "elementwise.mul:i32:7x11,11".parse()?,
        "reduce.prod:f32:9x45".parse()?,
        "reduce.sum:i32:900".parse()?,
        "conv:f32:1x5x9x9,8x5x3x3:pad1,bias,relu".parse()?,
        "conv:f16:1x9x9x4,8x3x3x4:nhwc,stride2,pad1".parse()?,
        "pool.max:f32:2x3x7x9:window3x2,stride2,pad1x0".parse()?,
        "pool.mean:f64:2x7x9x3:window3x3,stride2,pad1,nhwc".parse()?,
        "attention:f32:2x9x37x20:causal".parse()?,
        "scan.sum:f32:3001".parse()?,
        "scan.prod:f64:3x300".parse()?,
        "scan.max:i32:7x45x13:axis1,exclusive".parse()?,
        "sort:f32:5x130".parse()?,
        "sort:f64:1500:descending".parse()?,
        "arg.sort:f32:5x130".parse()?,
        "arg.min:f16:7x45x3:axis1".parse()?,
        "cast:f64:301:bf16".parse()?,
        "cast:f32:301:i8".parse()?,
        "fft.forward:complex64:5x64".parse()?,
        "fft.real:f64:3x4x32:2d".parse()?,
        "fft.inverse_real:complex64:5x64".parse()?,
        "gather:f32:30x7:axis0,count90".parse()?,
        "scatter:f32:30x7:axis0,count90".parse()?,
        "mask.lt:f32:31x33,33".parse()?,
        "mask.where:f16:6x45,6x1,45".parse()?,
        "concat:f32:13x4,13x5,13x31".parse()?,
        "put:f64:9x11x13,3x4x5:at1x7x8".parse()?,
        "transpose:f32:4x5x6x7:3.1.0.2".parse()?,
    ])
}
