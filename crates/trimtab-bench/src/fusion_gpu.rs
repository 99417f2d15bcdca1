//! A chain of eight elementwise operations on the first GPU: as one kernel, and as eight with everything between them
//! resident.

use anyhow::{Result, anyhow, bail};
use serde_json::{Value, json};
use std::sync::Arc;
use trimtab::advanced::core::{Device, KernelId, Point, Problem};
use trimtab::advanced::cpu::{CpuDevice, CpuOptions};
use trimtab::advanced::tune::{Stopwatch, minimum};
use trimtab::advanced::wgpu::{GpuBuffer, GpuDevice, GpuOptions};

/// The chain, and the number each operation with two operands takes.
const CHAIN: [(&str, Option<f32>); 8] = [
    ("mul", Some(1.5)),
    ("add", Some(-0.25)),
    ("relu", None),
    ("mul", Some(0.75)),
    ("sub", Some(0.5)),
    ("abs", None),
    ("max", Some(0.125)),
    ("min", Some(0.875)),
];
/// Elements unless the adapter's bindings are smaller.
const ELEMENTS: u64 = 16 << 20;
/// Settings of a kernel that are tried, …
const SETTINGS: usize = 8;
/// … each so often; the least time counts.
const TRIES: usize = 3;
/// Rounds of the comparison, both chains in turn; the least times count.
const ROUNDS: usize = 15;

/// A launch ready to be made again and again.
struct Launch<'a> {
    kernel: KernelId,
    problem: Problem,
    point: Point,
    inputs: Vec<&'a GpuBuffer>,
    out: &'a GpuBuffer,
}

impl Launch<'_> {
    fn make(&self, gpu: &GpuDevice) -> Result<()> {
        gpu.launch_on(self.kernel, &self.problem, &self.point, &self.inputs, self.out)?;
        Ok(())
    }
}

/// How many times as fast the chain is as one kernel, both with the best of their first settings; nothing without a GPU.
pub(crate) fn fused_vs_unfused() -> Result<Option<Value>> {
    let cpu = Arc::new(CpuDevice::new(CpuOptions { threads: Some(1), blas: None, ..CpuOptions::default() }));
    let (devices, _) = GpuDevice::all(GpuOptions { reference: cpu, kernels: vec![] });
    let Some(gpu) = devices.into_iter().next() else { return Ok(None) };
    let adapter = gpu.facts().adapter.as_deref().ok_or_else(|| anyhow!("no adapter"))?;
    let elements = ELEMENTS.min(adapter.max_binding.0 / 4);
    let input: Vec<f32> = (0..elements).map(|at| (at % 4093) as f32 / 2048.0 - 1.0).collect();
    let operand = gpu.upload(&bytes(&input))?;
    let buffers = [gpu.allocate(4 * elements)?, gpu.allocate(4 * elements)?];
    let all = gpu.allocate(4 * elements)?;

    let numbers: Vec<f32> = CHAIN.iter().filter_map(|(_, number)| *number).collect();
    let together = gpu.upload(&bytes(&numbers))?;
    let apart = CHAIN.iter().map(|(_, number)| gpu.upload(&bytes(&[number.unwrap_or(0.0)])));
    let apart: Vec<GpuBuffer> = apart.collect::<Result<_, _>>()?;

    let (mut recipe, mut number) = ("a".to_string(), 0);
    let mut single = Vec::new();
    for (at, (op, other)) in CHAIN.iter().enumerate() {
        let mut inputs = vec![if at == 0 { &operand } else { &buffers[(at + 1) % 2] }];
        let problem = match other {
            Some(_) => {
                recipe = format!("{op}({recipe},#{number})");
                number += 1;
                inputs.push(&apart[at]);
                format!("elementwise.{op}:f32:{elements},1")
            }
            None => {
                recipe = format!("{op}({recipe})");
                format!("elementwise.{op}:f32:{elements}")
            }
        };
        single.push(fastest(&gpu, &problem, inputs, &buffers[at % 2])?);
    }
    let fused = format!("fused.{recipe}:f32:1x{elements}:all");
    let fused = fastest(&gpu, &fused, vec![&operand, &together], &all)?;

    let (mut fused_ns, mut single_ns) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let watch = Stopwatch::start();
        fused.make(&gpu)?;
        fused_ns.push(watch.elapsed().0 as f64);
        let watch = Stopwatch::start();
        single.iter().try_for_each(|launch| launch.make(&gpu))?;
        single_ns.push(watch.elapsed().0 as f64);
    }
    let mut results = [vec![0u8; 4 * elements as usize], vec![0u8; 4 * elements as usize]];
    gpu.download(&all, &mut results[0])?;
    gpu.download(&buffers[(CHAIN.len() - 1) % 2], &mut results[1])?;
    let differ = results[0].chunks_exact(4).zip(results[1].chunks_exact(4)).any(|(a, b)| {
        let value = |word: &[u8]| word.try_into().map_or(f32::NAN, f32::from_le_bytes);
        // One kernel may multiply and add without rounding in between.
        (value(a) - value(b)).abs().partial_cmp(&1e-6) != Some(std::cmp::Ordering::Less)
    });
    if differ {
        bail!("the chain as one kernel does not give what the single operations give");
    }
    let [fused_ns, single_ns] = [&fused_ns, &single_ns].map(|times| minimum(times).unwrap_or(f64::NAN));
    Ok(Some(json!({
        "device": gpu.facts().name, "operations": CHAIN.len(), "elements": elements,
        "gpu_fused_ns": fused_ns.round(), "gpu_unfused_ns": single_ns.round(),
        "gpu_fused_vs_unfused": single_ns / fused_ns,
    })))
}

/// The kernel and the setting that took the least time, of the first few settings of each kernel.
fn fastest<'a>(
    gpu: &GpuDevice,
    text: &str,
    inputs: Vec<&'a GpuBuffer>,
    out: &'a GpuBuffer,
) -> Result<Launch<'a>> {
    let problem: Problem = text.parse()?;
    let mut launch = Launch { kernel: KernelId(0), problem, point: Point::EMPTY, inputs, out };
    let mut best = None;
    for kernel in (0..gpu.kernels().len() as u32).map(KernelId) {
        for &point in gpu.space(kernel, &problem).points().iter().take(SETTINGS) {
            (launch.kernel, launch.point) = (kernel, point);
            launch.make(gpu)?;
            for _ in 0..TRIES {
                let watch = Stopwatch::start();
                launch.make(gpu)?;
                let took = watch.elapsed();
                if best.is_none_or(|(least, _, _)| took < least) {
                    best = Some((took, kernel, point));
                }
            }
        }
    }
    let (_, kernel, point) = best.ok_or_else(|| anyhow!("no kernel takes {text}"))?;
    (launch.kernel, launch.point) = (kernel, point);
    Ok(launch)
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
