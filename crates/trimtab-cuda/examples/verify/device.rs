//! The device itself, on a stand-in for the driver: found, asked, verified, timed, and its launches through the executor.

use crate::interpret::reference;
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::sync::Arc;
use trimtab_core::{
    BinaryOp, Bytes, DType, Device, Elementwise, KernelId, LaunchError, Matmul, Nanos, Operand, Problem,
    Reduce, ReduceOp, Transpose, UnaryOp,
};
use trimtab_cuda::{CudaDevice, CudaOptions};
use trimtab_operands::{Batch, Data, Executor, Launch, Operands, Reference, Slice, SliceMut, Wait};

/// The interpreter is slower than a GPU.
const PATIENCE: Nanos = Nanos(60_000_000_000);

/// Plain loops in f64.
struct Loops;

impl Reference for Loops {
    fn compute(&self, problem: &Problem, inputs: &[Slice<'_>], out: SliceMut<'_>) -> Result<(), LaunchError> {
        let numbers = |input: &Slice<'_>| {
            let data = input.to_data();
            (0..data.numbers()).map(|at| data.at(at).unwrap_or(f64::NAN)).collect::<Vec<f64>>()
        };
        let inputs: Vec<Vec<f64>> = inputs.iter().map(numbers).collect();
        let result = reference(problem, &inputs).map_err(|error| LaunchError::Kernel(error.to_string()))?;
        out.copy_from(Data::of_numbers(problem.out_dtype().unwrap_or(DType::F32), &result).slice())
    }
}

pub fn verify(driver: &Path, nvrtc: &Path) -> Result<()> {
    let (driver, nvrtc) = (Some(driver.to_path_buf()), Some(nvrtc.to_path_buf()));
    let options = CudaOptions { reference: Arc::new(Loops), kernels: Vec::new(), driver, nvrtc };
    let (devices, problems) = CudaDevice::all(options);
    ensure!(problems.is_empty(), "{}", problems.join("; "));
    let device = devices.first().context("the stand-in has a device")?;
    let (mut verified, mut timed, mut launched) = (0, 0, 0);
    for problem in problems_of_all_kinds()? {
        let expected = {
            let operands = Operands::new(&problem);
            let mut out = operands.out.clone();
            Loops.compute(&problem, &operands.slices(), out.slice_mut())?;
            (operands, out)
        };
        let mut taken = false;
        for (at, info) in device.kernels().iter().enumerate() {
            let kernel = KernelId(at as u32);
            if device.declines(kernel, &problem).is_some() {
                continue;
            }
            taken = true;
            for point in device.space(kernel, &problem).points() {
                let what = || format!("{}, {problem}, {point:?}", info.name);
                device
                    .verify(kernel, &problem, point, PATIENCE)
                    .map_err(anyhow::Error::msg)
                    .with_context(what)?;
                verified += 1;
            }
            let space = device.space(kernel, &problem);
            let point = space.points().first().context("a kernel that takes a problem has a setting")?;
            let mut bench =
                device.bench(&problem, PATIENCE).map_err(|decline| anyhow::anyhow!("{decline}"))?;
            let sample = bench.run(kernel, point, 2, PATIENCE).map_err(anyhow::Error::msg)?;
            ensure!(sample.elapsed > Nanos(0) && sample.iterations == 2, "{}: {sample:?}", info.name);
            timed += 1;
            launch(device, kernel, &problem, &expected)?;
            launched += 1;
        }
        ensure!(taken, "no kernel takes {problem}");
    }
    let rates = device.rates();
    ensure!(rates.flops_per_s > 0.0 && rates.bytes_per_s > 0.0, "no speeds: {rates:?}");
    ensure!(device.transfers().is_some(), "no transfers");
    println!("{device:?} on the stand-in: {verified} verified, {timed} timed, {launched} launched");
    Ok(())
}

/// One launch as a runtime makes it: operands on the device, the result read on the way.
fn launch(
    device: &CudaDevice,
    kernel: KernelId,
    problem: &Problem,
    expected: &(Operands, Data),
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
    for at in 0..expected.numbers() {
        let (got, expected) = (read.at(at).unwrap_or(f64::NAN), expected.at(at).unwrap_or(f64::NAN));
        let within = if problem.dtype() == Some(DType::F16) { 1e-3 } else { 1e-5 };
        if (got - expected).abs() > within * expected.abs().max(1.0) {
            bail!("{problem}: element {at} is {got}, not {expected}");
        }
    }
    Ok(())
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
    ])
}
