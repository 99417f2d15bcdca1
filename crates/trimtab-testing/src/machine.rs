//! Machines that do not exist: a processor and a GPU whose times follow from a few numbers, in virtual time.
//!
//! For what must hold on machines nobody here owns: where operations are placed, and where one device overtakes the other. The times
//! are analytic (arithmetic or memory, whichever is slower, a launch, a device that must be filled), the noise of measuring
//! is small and the same in every run.

mod drawn;

pub use drawn::{Drawn, DrawnStep, draw};

use std::collections::BTreeMap;
use std::sync::Arc;
use trimtab_core::{
    AdapterClass, AdapterFacts, Bench, Bytes, DType, Decline, Device, DeviceFacts, DeviceKind, ElementwiseOp,
    Failure, FailureKind, Fingerprint, Flops, Habits, KernelId, KernelInfo, KernelVersion, Lookup, Nanos,
    Operation, Point, Problem, RandomNumbers, Rates, Sample, Space, State, Transfers, VariantClass, Work,
};

/// The operations simulated devices know.
const OPERATIONS: [Operation; 11] = [
    Operation::Elementwise,
    Operation::Reduce,
    Operation::Matmul,
    Operation::Transpose,
    Operation::Conv,
    Operation::Pool,
    Operation::Rows,
    Operation::Scan,
    Operation::Sort,
    Operation::Gather,
    Operation::Fft,
];
/// The processor: threads, and what one of them does a second.
const THREADS: u32 = 8;
const LANES: u32 = 8;
const FLOPS_PER_S: f64 = 40e9;
const BYTES_PER_S: f64 = 12e9;
const BYTES_PER_S_ALL: f64 = 40e9;
const CACHED_BYTES_PER_S: f64 = 60e9;
const CACHED_UP_TO: u64 = 1 << 20;
/// Waking threads, and calling a function.
const WAKE_NS: f64 = 4_000.0;
const CALL_NS: f64 = 200.0;
/// Arithmetic operations a function such as `exp` stands for.
const FUNCTION_FLOPS: u64 = 8;
/// Elements above which a GPU reduces in two launches.
const ONE_LAUNCH: u64 = 1 << 16;
/// The deviation of a measurement, as a share of it. Noise only ever adds.
const NOISE: f64 = 0.01;
/// What building a GPU kernel takes.
const BUILD: Nanos = Nanos(2_000_000);
const TILES: [u32; 3] = [16, 32, 8];

/// A processor and a GPU.
#[derive(Clone, Debug)]
pub struct Machine {
    /// `discrete`, `integrated` or `slow`.
    pub name: &'static str,
    /// The processor.
    pub host: Arc<SimulatedDevice>,
    /// The GPU.
    pub gpu: Arc<SimulatedDevice>,
}

impl Machine {
    /// A GPU with memory of its own: ten times the arithmetic, eight times the memory bandwidth, far away.
    pub fn discrete() -> Machine {
        Machine::new(
            "discrete",
            AdapterClass::Discrete,
            10.0,
            8.0,
            15_000.0,
            65_536,
            moves(10_000, 12e9, 5_000),
        )
    }

    /// A GPU on the processor's chip: three times the arithmetic, the same memory.
    pub fn integrated() -> Machine {
        Machine::new(
            "integrated",
            AdapterClass::Integrated,
            3.0,
            1.0,
            8_000.0,
            8_192,
            moves(2_000, 100e9, 3_000),
        )
    }

    /// A GPU that is slower than the processor at everything, as software is.
    pub fn slow() -> Machine {
        Machine::new("slow", AdapterClass::Software, 0.3, 0.5, 30_000.0, 64, moves(5_000, 8e9, 20_000))
    }

    /// All of them.
    pub fn all() -> [Machine; 3] {
        [Machine::discrete(), Machine::integrated(), Machine::slow()]
    }

    fn new(
        name: &'static str,
        class: AdapterClass,
        arithmetic: f64,
        memory: f64,
        launch_ns: f64,
        filled_by: u64,
        transfers: Transfers,
    ) -> Machine {
        let gpu = Gpu {
            class,
            flops_per_s: arithmetic * FLOPS_PER_S * f64::from(THREADS),
            bytes_per_s: memory * BYTES_PER_S_ALL,
            launch_ns,
            filled_by,
            transfers,
        };
        let (host, gpu) = (SimulatedDevice::new(name, None), SimulatedDevice::new(name, Some(gpu)));
        Machine { name, host: Arc::new(host), gpu: Arc::new(gpu) }
    }

    /// The processor, then the GPU.
    pub fn devices(&self) -> Vec<Arc<dyn Device>> {
        vec![self.host.clone(), self.gpu.clone()]
    }
}

fn moves(latency: u64, bytes_per_s: f64, submit: u64) -> Transfers {
    Transfers {
        upload_latency: Nanos(latency),
        upload_bytes_per_s: bytes_per_s,
        download_latency: Nanos(latency),
        download_bytes_per_s: bytes_per_s,
        submit: Nanos(submit),
    }
}

/// One device of a [`Machine`]. It computes nothing; its kernels take the time they say.
#[derive(Debug)]
pub struct SimulatedDevice {
    facts: DeviceFacts,
    kernels: Vec<KernelInfo>,
    gpu: Option<Gpu>,
}

#[derive(Clone, Copy, Debug)]
struct Gpu {
    class: AdapterClass,
    flops_per_s: f64,
    bytes_per_s: f64,
    launch_ns: f64,
    filled_by: u64,
    transfers: Transfers,
}

impl SimulatedDevice {
    fn new(machine: &str, gpu: Option<Gpu>) -> SimulatedDevice {
        let id = if gpu.is_some() { "gpu0" } else { "cpu" };
        let kernel = |name: &str, operation: Operation, class: VariantClass| KernelInfo {
            name: format!("simulated.{}.{}.{name}", id.trim_end_matches('0'), operation.name()),
            version: KernelVersion::from("1"),
            operation,
            class,
        };
        let mut kernels = Vec::new();
        let tuned = |operation| match gpu {
            Some(_) => kernel("tiled", operation, VariantClass::Tiled),
            None => kernel("vector", operation, VariantClass::Vectorized),
        };
        kernels.extend(OPERATIONS.map(tuned));
        if gpu.is_none() {
            kernels
                .extend(OPERATIONS.map(|operation| kernel("reference", operation, VariantClass::Reference)));
        }
        let facts = DeviceFacts {
            id: id.to_string(),
            name: format!("simulated {id} of the {machine} machine"),
            kind: if gpu.is_some() { DeviceKind::Gpu } else { DeviceKind::Cpu },
            habits: if gpu.is_some() { Habits::GPU } else { Habits::HOST },
            fingerprint: Fingerprint(format!("simulated/{machine}/{id}")),
            cores: None,
            threads: if gpu.is_some() { 1 } else { THREADS },
            caches: Vec::new(),
            vector_bytes: gpu.is_none().then_some(LANES * 4),
            features: Vec::new(),
            numa_nodes: None,
            memory: gpu.map(|_| Bytes(8 << 30)),
            adapter: gpu.map(|gpu| Box::new(adapter(gpu.class))),
            notes: vec![(
                "simulated".to_string(),
                "times follow from numbers; nothing is computed".to_string(),
            )],
        };
        SimulatedDevice { facts, kernels, gpu }
    }

    /// What the fastest kernel at its best point takes, in nanoseconds; `None` where every kernel declines.
    pub fn time(&self, problem: &Problem) -> Option<f64> {
        let ids = (0..self.kernels.len() as u32).map(KernelId);
        let times = ids.flat_map(|kernel| {
            let space = self.space(kernel, problem);
            let points = space.points().to_vec();
            points.into_iter().filter_map(move |point| self.time_of(kernel, problem, &point))
        });
        times.min_by(f64::total_cmp)
    }

    /// What a kernel takes at a point, in nanoseconds; `None` where it declines.
    pub fn time_of(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Option<f64> {
        if self.declines(kernel, problem).is_some() {
            return None;
        }
        let work = self.work(kernel, problem, point);
        let wide = problem.dtype() == Some(DType::F64);
        let (flops, bytes) = (work.flops.0 as f64, work.bytes.0 as f64);
        Some(match self.gpu {
            Some(gpu) => {
                let filled = (work.invocations as f64 / gpu.filled_by as f64).min(1.0);
                let (arithmetic, memory) = efficiency(problem, point);
                let flop_ns = flops / (gpu.flops_per_s * arithmetic * filled) * 1e9;
                // A few invocations already keep memory busy.
                let byte_ns = bytes / (gpu.bytes_per_s * memory * (filled * 4.0).min(1.0)) * 1e9;
                flop_ns.max(byte_ns) + f64::from(work.launches) * gpu.launch_ns
            }
            None => {
                let threads = f64::from(work.threads);
                let lanes =
                    f64::from(work.lanes) / f64::from(LANES) * if wide && work.lanes > 1 { 0.5 } else { 1.0 };
                let is_cached = work.bytes.0 <= CACHED_UP_TO * u64::from(work.threads);
                let cached = if is_cached { CACHED_BYTES_PER_S * threads } else { 0.0 };
                let rate = (BYTES_PER_S * threads).min(BYTES_PER_S_ALL).max(cached);
                // Threads wait for the slowest.
                let together = 1.0 - 0.02 * (threads - 1.0);
                let flop_ns = flops / (FLOPS_PER_S * lanes * threads * together) * 1e9;
                let waking = if work.threads > 1 { WAKE_NS } else { 0.0 };
                flop_ns.max(bytes / rate * 1e9) + waking + CALL_NS
            }
        })
    }

    fn is_reference(&self, kernel: KernelId) -> bool {
        self.kernels.get(kernel.0 as usize).is_some_and(|info| info.class == VariantClass::Reference)
    }
}

fn adapter(class: AdapterClass) -> AdapterFacts {
    AdapterFacts {
        class,
        backend: "simulated".to_string(),
        driver: "simulated".to_string(),
        driver_info: "1".to_string(),
        max_invocations: 1024,
        max_workgroup: [1024, 1024, 64],
        max_groups: 65_535,
        workgroup_memory: Bytes(32 << 10),
        max_binding: Bytes(2 << 30),
        max_buffer: Bytes(2 << 30),
        offset_alignment: 256,
        subgroup: None,
        f16: false,
        f64: false,
        timestamps: true,
        unified_memory: class != AdapterClass::Discrete,
        pipeline_cache: false,
    }
}

/// The shares of a GPU's arithmetic and memory bandwidth that a tile reaches.
fn efficiency(problem: &Problem, point: &Point) -> (f64, f64) {
    match (problem, point.values().first()) {
        (Problem::Matmul(_), Some(8)) => (0.35, 0.8),
        (Problem::Matmul(_), Some(16)) => (0.7, 0.9),
        (Problem::Transpose(_), Some(8)) => (1.0, 0.4),
        (Problem::Transpose(_), Some(32)) => (1.0, 0.8),
        (_, Some(8)) => (1.0, 0.8),
        _ => (1.0, 0.95),
    }
}

/// Elements a GPU computes at this tile: a product's edges are filled up to whole tiles.
fn computed(problem: &Problem, tile: u64) -> u64 {
    match problem {
        Problem::Matmul(p) => p.batch * p.m.next_multiple_of(tile) * p.n.next_multiple_of(tile),
        other => other.input_lens().as_slice().iter().copied().fold(other.out_len(), u64::max),
    }
}

impl Device for SimulatedDevice {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn rates(&self) -> Rates {
        let host = Rates {
            flops_per_s: FLOPS_PER_S,
            lanes: LANES,
            bytes_per_s: BYTES_PER_S,
            bytes_per_s_all: BYTES_PER_S_ALL,
            cached_bytes_per_s: CACHED_BYTES_PER_S,
            cached_up_to: Bytes(CACHED_UP_TO),
            launch: Nanos(WAKE_NS as u64),
            barrier_ns: 0.0,
            filled_by: 0,
        };
        self.gpu.map_or(host, |gpu| Rates {
            flops_per_s: gpu.flops_per_s,
            lanes: 1,
            bytes_per_s: gpu.bytes_per_s,
            bytes_per_s_all: gpu.bytes_per_s,
            cached_bytes_per_s: gpu.bytes_per_s,
            cached_up_to: Bytes(0),
            launch: Nanos(gpu.launch_ns as u64),
            barrier_ns: 0.0,
            filled_by: gpu.filled_by,
        })
    }

    fn state(&self) -> State {
        State::default()
    }

    fn kernels(&self) -> &[KernelInfo] {
        &self.kernels
    }

    fn declines(&self, kernel: KernelId, problem: &Problem) -> Option<Decline> {
        let info = self.kernels.get(kernel.0 as usize)?;
        if info.operation != problem.operation() {
            return Some(Decline::because("another operation"));
        }
        match problem.dtype() {
            Some(DType::F64) if self.gpu.is_some() => {
                Some(Decline::because("the device has no 64-bit floats"))
            }
            Some(DType::F16) if self.gpu.is_some() => {
                Some(Decline::because("the device has no 16-bit floats"))
            }
            _ => None,
        }
    }

    fn space(&self, kernel: KernelId, problem: &Problem) -> Space {
        let (axis, values): (_, &[u32]) = match self.gpu {
            _ if self.declines(kernel, problem).is_some() => return Space::new(vec![], vec![]),
            Some(_) => ("tile", &TILES),
            None if self.is_reference(kernel) => return Space::new(vec![], vec![Point::EMPTY]),
            None => ("threads", &[THREADS, 1, 2, 4]),
        };
        Space::new(vec![axis.into()], values.iter().map(|&value| Point::new(&[value])).collect())
    }

    fn work(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Work {
        let value = point.values().first().copied().unwrap_or(1);
        let each = match problem {
            Problem::Elementwise(p) if ElementwiseOp::is_function(p.op) => FUNCTION_FLOPS,
            _ => 1,
        };
        let flops = Flops(problem.flops().saturating_mul(each));
        let bytes = problem.operand_bytes();
        if self.gpu.is_none() {
            let lanes = if self.is_reference(kernel) { 1 } else { LANES };
            let threads = value.clamp(1, THREADS);
            return Work {
                flops,
                bytes,
                threads,
                lanes,
                launches: u32::from(threads > 1),
                ..Work::default()
            };
        }
        let tile = u64::from(value.max(1));
        let elements = computed(problem, tile);
        let wasted = match problem {
            Problem::Matmul(p) if p.out_len() > 0 => elements as f64 / p.out_len() as f64,
            _ => 1.0,
        };
        let in_two = matches!(problem, Problem::Reduce(p) if p.input_len() > ONE_LAUNCH);
        Work {
            flops: Flops((flops.0 as f64 * wasted) as u64),
            bytes,
            scratch: Bytes(if in_two { 64 << 10 } else { 0 }),
            launches: if in_two { 2 } else { 1 },
            threads: 1,
            lanes: 1,
            barriers: 0,
            // A larger tile computes more elements an invocation.
            invocations: (elements * 8 / tile).max(1),
            ..Work::default()
        }
    }

    fn transfers(&self) -> Option<Transfers> {
        self.gpu.map(|gpu| gpu.transfers)
    }

    fn verify(&self, kernel: KernelId, problem: &Problem, point: &Point, _: Nanos) -> Result<(), Failure> {
        self.time_of(kernel, problem, point).map(|_| ()).ok_or_else(untried)
    }

    fn bench(&self, problem: &Problem, _limit: Nanos) -> Result<Box<dyn Bench + '_>, Decline> {
        if !OPERATIONS.contains(&problem.operation()) {
            return Err(Decline::because("simulated devices do not know this operation"));
        }
        Ok(Box::new(SimulatedBench { device: self, problem: *problem, batches: BTreeMap::new() }))
    }
}

fn untried() -> Failure {
    Failure::new(FailureKind::Untried, "the kernel does not take this problem")
}

struct SimulatedBench<'a> {
    device: &'a SimulatedDevice,
    problem: Problem,
    /// Batches so far, by kernel and point.
    batches: BTreeMap<(KernelId, Point), u64>,
}

impl Bench for SimulatedBench<'_> {
    fn run(
        &mut self,
        kernel: KernelId,
        point: &Point,
        iterations: u32,
        timeout: Nanos,
    ) -> Result<Sample, Failure> {
        let ns = self.device.time_of(kernel, &self.problem, point).ok_or_else(untried)?;
        let batch = self.batches.entry((kernel, *point)).or_default();
        let value = u64::from(point.values().first().copied().unwrap_or(0));
        let seed = self.problem.mix() ^ u64::from(kernel.0) << 48 ^ value << 32 ^ *batch;
        let noise = NOISE * RandomNumbers::new(seed).normal().abs();
        let compiled_in = (*batch == 0 && self.device.gpu.is_some()).then_some(BUILD);
        *batch += 1;
        let iterations = iterations.max(1);
        let elapsed = Nanos((ns * (1.0 + noise) * f64::from(iterations)) as u64);
        if elapsed > timeout {
            return Err(Failure::new(FailureKind::TimedOut, format!("takes {elapsed}, allowed {timeout}")));
        }
        Ok(Sample { elapsed, iterations, interference: None, energy_uj: None, compiled_in })
    }
}

#[cfg(test)]
mod tests;
