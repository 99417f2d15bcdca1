//! The worker: computes what it is asked for until its pipe is closed.

use std::io::Write;
use trimtab::advanced::core::{KernelId, Point, Problem};
use trimtab::advanced::operands::{DType, Data, Slice};
use worker_device::{processor, receive, send};

fn main() -> std::io::Result<()> {
    let (device, mut from, mut to) = (processor(), std::io::stdin().lock(), std::io::stdout().lock());
    while let Ok(asked) = receive(&mut from) {
        let count = receive(&mut from)?.first().copied().unwrap_or(0);
        let inputs = (0..count).map(|_| receive(&mut from)).collect::<Result<Vec<_>, _>>()?;
        let answer = compute(&device, &String::from_utf8_lossy(&asked), &inputs);
        send(&mut to, &answer.unwrap_or_else(|error| [&[0], error.as_bytes()].concat()))?;
        to.flush()?;
    }
    Ok(())
}

fn compute(
    device: &trimtab::advanced::cpu::CpuDevice,
    asked: &str,
    inputs: &[Vec<u8>],
) -> Result<Vec<u8>, String> {
    let mut lines = asked.lines();
    let (kernel, problem) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let kernel = KernelId(kernel.parse().map_err(|_| format!("no kernel `{kernel}`"))?);
    let problem = Problem::parse(problem).map_err(|error| error.to_string())?;
    let values = lines.next().unwrap_or_default().split_whitespace().map(|value| value.parse().unwrap_or(0));
    let point = Point::new(&values.collect::<Vec<u32>>());
    let dtype = |place: usize| problem.input_dtype(place).unwrap_or(DType::F32);
    // Copied, so that elements lie as their type wants them.
    let inputs = inputs.iter().enumerate().map(|(place, bytes)| Data::of_bytes(dtype(place), bytes));
    let inputs: Vec<Data> = inputs.collect();
    let inputs: Vec<Slice<'_>> = inputs.iter().map(Data::slice).collect();
    let mut out = Data::zeros(problem.out_dtype().unwrap_or(DType::F32), problem.out_len() as usize);
    device.launch(kernel, &problem, &point, &inputs, out.slice_mut()).map_err(|error| error.to_string())?;
    Ok([&[1], out.slice().bytes()].concat())
}
