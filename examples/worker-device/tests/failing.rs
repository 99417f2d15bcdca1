//! A runtime with the processor, a GPU and an added device gives the right results while each of them fails at random moments.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use trimtab::advanced::core::*;
use trimtab::advanced::cpu::{Args, Cpu};
use trimtab::advanced::operands::{
    Batch, Buffer, Executor, HostLaunch, Keeps, Pending, Reference, Slice, SliceMut,
};
use trimtab::{Axis, Expression, Offload, Runtime, Tensor};
use worker_device::Worker;

/// Random numbers that are the same every time.
static SEED: AtomicU64 = AtomicU64::new(0x9e37_79b9_7f4a_7c15);
/// While nothing is to fail: while the right results are computed, and while devices are set up.
static CALM: AtomicBool = AtomicBool::new(true);
static FAILED: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
static ASKED: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

fn random(below: u64) -> u64 {
    let step =
        |seed: u64| seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let seed = SEED.load(Ordering::Relaxed);
    SEED.store(step(seed), Ordering::Relaxed);
    (seed >> 33) % below
}

/// Fails one time in so many.
fn perhaps(one_in: u64) -> Result<(), LaunchError> {
    perhaps_at(2, one_in)
}

fn perhaps_at(device: usize, one_in: u64) -> Result<(), LaunchError> {
    if !CALM.load(Ordering::Relaxed) {
        ASKED[device].fetch_add(1, Ordering::Relaxed);
    }
    if CALM.load(Ordering::Relaxed) || random(one_in) > 0 {
        return Ok(());
    }
    FAILED[device].fetch_add(1, Ordering::Relaxed);
    Err(LaunchError::Kernel("failed at a random moment".to_string()))
}

/// A device that fails now and then, whatever it is asked to do.
struct Flaky<D>(D, DeviceFacts, usize);

impl<D: Executor> Flaky<D> {
    fn new(device: D, id: &str, number: usize) -> Flaky<D> {
        let mut facts = device.facts().clone();
        facts.id = id.to_string();
        facts.fingerprint = Fingerprint(format!("flaky {}", facts.fingerprint));
        Flaky(device, facts, number)
    }
}

impl<D: Executor> Executor for Flaky<D> {
    fn allocate(&self, bytes: Bytes) -> Result<Box<dyn Buffer>, LaunchError> {
        perhaps_at(self.2, 60)?;
        self.0.allocate(bytes)
    }
    fn upload(&self, data: Slice<'_>, to: &dyn Buffer) -> Result<(), LaunchError> {
        perhaps_at(self.2, 60)?;
        self.0.upload(data, to)
    }
    fn download<'a>(&'a self, from: &'a dyn Buffer, to: SliceMut<'a>) -> Pending<'a> {
        match perhaps_at(self.2, 60) {
            Ok(()) => self.0.download(from, to),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
    fn run(&self, batch: Batch<'_>) -> Result<Option<Nanos>, LaunchError> {
        perhaps_at(self.2, 8)?;
        self.0.run(batch)
    }
    fn wait(&self) -> Result<(), LaunchError> {
        self.0.wait()
    }
    fn launch_host(
        &self,
        launch: HostLaunch<'_>,
        out: SliceMut<'_>,
        timed: bool,
    ) -> Result<Option<Nanos>, LaunchError> {
        perhaps_at(self.2, 8)?;
        self.0.launch_host(launch, out, timed)
    }
    fn tolerance(&self, problem: &Problem) -> f64 {
        self.0.tolerance(problem)
    }
    fn keeps(&self) -> Option<&dyn Keeps> {
        self.0.keeps()
    }
}

impl<D: Executor> Device for Flaky<D> {
    fn facts(&self) -> &DeviceFacts {
        &self.1
    }
    fn rates(&self) -> Rates {
        self.0.rates()
    }
    fn state(&self) -> State {
        self.0.state()
    }
    fn kernels(&self) -> &[KernelInfo] {
        self.0.kernels()
    }
    /// Plain operations on large matrices are left to the GPU, so that each device has its share.
    fn declines(&self, kernel: KernelId, problem: &Problem) -> Option<Decline> {
        let plain = matches!(problem, Problem::Matmul(_) | Problem::Elementwise(_));
        if self.2 == 1 && plain && problem.out_len() > 1_000 {
            return Some(Decline::because("left to the GPU"));
        }
        self.0.declines(kernel, problem)
    }
    fn space(&self, kernel: KernelId, problem: &Problem) -> Space {
        self.0.space(kernel, problem)
    }
    fn work(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Work {
        self.0.work(kernel, problem, point)
    }
    /// As if moving cost nothing, so that work really goes there.
    fn transfers(&self) -> Option<Transfers> {
        let (latency, rate) = (Nanos(1), 1e12);
        Some(Transfers {
            upload_latency: latency,
            upload_bytes_per_s: rate,
            download_latency: latency,
            download_bytes_per_s: rate,
            submit: Nanos(1),
        })
    }
    fn verify(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
        timeout: Nanos,
    ) -> Result<(), Failure> {
        self.0.verify(kernel, problem, point, timeout)
    }
    fn bench(&self, problem: &Problem, limit: Nanos) -> Result<Box<dyn Bench + '_>, Decline> {
        self.0.bench(problem, limit)
    }
}

trimtab::advanced::core::config! { struct NoSettings {} }

/// A kernel of the processor that says it is fast and fails now and then.
struct FlakyKernel;

fn reference() -> &'static dyn Reference {
    static REFERENCE: OnceLock<Arc<dyn Reference>> = OnceLock::new();
    REFERENCE.get_or_init(trimtab::device::reference).as_ref()
}

impl Variant<Cpu> for FlakyKernel {
    type Problem = Elementwise;
    type Config = NoSettings;
    fn name(&self) -> Cow<'static, str> {
        "flaky.elementwise".into()
    }
    fn version(&self) -> KernelVersion {
        "1".into()
    }
    fn class(&self) -> VariantClass {
        VariantClass::Custom
    }
    fn declines(&self, _: &Elementwise, _: &DeviceFacts) -> Option<Decline> {
        None
    }
    fn configs(&self, _: &Elementwise, _: &DeviceFacts) -> Vec<NoSettings> {
        vec![NoSettings {}]
    }
    fn work(&self, _: &Elementwise, _: NoSettings, _: &DeviceFacts) -> Work {
        Work { bytes: Bytes(1), threads: 1, lanes: 1, ..Work::default() }
    }
    fn launch(&self, problem: &Elementwise, _: NoSettings, args: Args<'_>) -> Result<(), LaunchError> {
        perhaps(6)?;
        reference().compute(&Problem::from(*problem), args.inputs, args.out)
    }
}

/// An expression drawn at random over these tensors.
fn draw(rt: &Runtime, tensors: &[Tensor<f32>], draws: &[u64]) -> Expression<f32> {
    let mut value = rt.lazy(&tensors[0]);
    for draw in draws {
        let tensor = &tensors[(draw / 16) as usize % tensors.len()];
        value = match draw % 8 {
            0 => value + tensor,
            1 => value * 0.5,
            2 => value.relu(),
            3 => value.maximum(tensor),
            4 => value.matmul(tensor) * 0.01,
            5 => value.transpose(),
            6 => value - tensor,
            _ => value.abs() + 1.0,
        };
    }
    match draws.len() % 3 {
        0 => value.sum(Axis::All),
        1 => value.max(1),
        _ => value,
    }
}

#[test]
fn five_hundred_random_expressions_are_right_while_every_device_fails_at_random_moments() {
    let plain =
        Runtime::builder().ignore_environment().wisdom_in_memory().no_blas().device("cpu").build().unwrap();
    let options =
        trimtab::advanced::wgpu::GpuOptions { reference: trimtab::device::reference(), kernels: Vec::new() };
    let (gpus, problems) = trimtab::advanced::wgpu::GpuDevice::all(options);
    let gpu = gpus
        .into_iter()
        .next()
        .unwrap_or_else(|| panic!("a GPU is required, software will do: {problems:?}"));
    let rt = Runtime::builder()
        .ignore_environment()
        .wisdom_in_memory()
        .no_blas()
        .patience(Patience::Estimate)
        .kernel(FlakyKernel)
        .add_device(Flaky::new(gpu, "flaky-gpu", 0))
        .add_device(Flaky::new(Worker::new(env!("CARGO_BIN_EXE_worker")), "flaky-worker", 1));
    // Most sizes go elsewhere by rule, so that every device has its share.
    let rt = rt.offload(Offload { elementwise: Some(1 << 11), matmul: Some(1 << 16), ..Offload::default() });
    let rt = rt.build().unwrap();
    let mut used = [0u64; 2];
    for round in 0..500u64 {
        CALM.store(true, Ordering::Relaxed);
        let side = [4, 17, 64][round as usize % 3];
        let tensor = |seed: u64| {
            Tensor::from_fn(&[side, side], |i| ((i as u64 * 7 + seed) % 11) as f32 - 5.0).unwrap()
        };
        let tensors: Vec<Tensor<f32>> = (0..3).map(|nth| tensor(round + nth)).collect();
        let draws: Vec<u64> = (0..2 + random(6)).map(|_| random(1 << 20)).collect();
        let expected = draw(&plain, &tensors, &draws).to_vec().unwrap();
        CALM.store(false, Ordering::Relaxed);
        let (before, value) = (rt.activity(), draw(&rt, &tensors, &draws).to_vec());
        let value = value.unwrap_or_else(|error| panic!("round {round}, {draws:?}: {error}"));
        used[usize::from(rt.activity().uploads > before.uploads)] += 1;
        assert_eq!(value.len(), expected.len());
        for (own, right) in value.iter().zip(&expected) {
            assert!(
                (own - right).abs() <= 1e-3 * right.abs().max(1.0),
                "round {round}, {draws:?}: {own} {right}"
            );
        }
    }
    let counts = |all: &[AtomicU64; 3]| all.each_ref().map(|one| one.load(Ordering::Relaxed));
    let (asked, failed) = (counts(&ASKED), counts(&FAILED));
    assert!(used.iter().all(|used| *used > 20), "used {used:?}");
    assert!(
        failed.iter().all(|failed| *failed > 0),
        "GPU, worker, kernel of the processor: asked {asked:?}, failed {failed:?}"
    );
}
