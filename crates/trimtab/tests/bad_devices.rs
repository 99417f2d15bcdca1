//! A device that a user added and that never answers costs its time, not the caller: others answer, and threads do not add up.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod support;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use support::fresh;
use trimtab::advanced::core::{
    Bench, Bytes, Decline, Device, DeviceFacts, Failure, Fingerprint, Habits, KernelId, KernelInfo,
    LaunchError, Nanos, Patience, Point, Problem, Rates, Space, State, Transfers, Work,
};
use trimtab::advanced::cpu::{CpuDevice, CpuOptions};
use trimtab::advanced::operands::{Batch, Buffer, Executor, HostBuffer, Pending, SliceMut, Wait};
use trimtab::advanced::tune::Stopwatch;
use trimtab::{Offload, Runtime, Tensor};

/// Where a device hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Nowhere,
    Verify,
    Bench,
    Allocate,
    Run,
    Download,
}

/// What a test knows of a device.
struct Known {
    hangs: Mutex<Where>,
    changed: Condvar,
    inside: AtomicU32,
    most: AtomicU32,
    runs: AtomicU32,
}

impl Known {
    fn set(&self, hangs: Where) {
        *self.hangs.lock().unwrap() = hangs;
        self.changed.notify_all();
    }

    /// Hangs for as long as the device hangs there.
    fn pass(&self, at: Where) {
        let mut hangs = self.hangs.lock().unwrap();
        if *hangs == at {
            self.most.fetch_max(self.inside.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            while *hangs == at {
                hangs = self.changed.wait(hangs).unwrap();
            }
            self.inside.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The processor under another name, with memory of its own, that hangs when it is told to.
struct Hangs {
    processor: CpuDevice,
    facts: DeviceFacts,
    known: Arc<Known>,
}

impl Executor for Hangs {
    fn allocate(&self, bytes: Bytes) -> Result<Box<dyn Buffer>, LaunchError> {
        self.known.pass(Where::Allocate);
        Ok(Box::new(HostBuffer::new(bytes)?))
    }
    fn download<'a>(&'a self, from: &'a dyn Buffer, to: SliceMut<'a>) -> Pending<'a> {
        self.known.pass(Where::Download);
        Box::pin(std::future::ready(HostBuffer::of(from).and_then(|from| from.read(to))))
    }
    fn run(&self, batch: Batch<'_>) -> Result<Option<Nanos>, LaunchError> {
        self.known.pass(Where::Run);
        self.known.runs.fetch_add(1, Ordering::Relaxed);
        let (wait, watch) = (batch.wait, Stopwatch::start());
        HostBuffer::run(batch, |launch, inputs, out| {
            self.processor.launch(launch.kernel, launch.problem, launch.point, inputs, out)
        })?;
        // It says that it is far faster than it is, so that it is chosen.
        Ok((wait == Wait::Timed).then(|| Nanos(watch.elapsed().0 / 50)))
    }
}

impl Device for Hangs {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }
    fn rates(&self) -> Rates {
        let rates = self.processor.rates();
        Rates {
            flops_per_s: 100.0 * rates.flops_per_s,
            bytes_per_s: 100.0 * rates.bytes_per_s,
            bytes_per_s_all: 100.0 * rates.bytes_per_s_all,
            cached_bytes_per_s: 100.0 * rates.cached_bytes_per_s,
            ..rates
        }
    }
    fn state(&self) -> State {
        self.processor.state()
    }
    fn kernels(&self) -> &[KernelInfo] {
        self.processor.kernels()
    }
    fn declines(&self, kernel: KernelId, problem: &Problem) -> Option<Decline> {
        self.processor.declines(kernel, problem)
    }
    fn space(&self, kernel: KernelId, problem: &Problem) -> Space {
        self.processor.space(kernel, problem)
    }
    fn work(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Work {
        self.processor.work(kernel, problem, point)
    }
    fn transfers(&self) -> Option<Transfers> {
        let (latency, bytes_per_s) = (Nanos(1), 1e12);
        Some(Transfers {
            upload_latency: latency,
            upload_bytes_per_s: bytes_per_s,
            download_latency: latency,
            download_bytes_per_s: bytes_per_s,
            submit: latency,
        })
    }
    fn verify(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
        limit: Nanos,
    ) -> Result<(), Failure> {
        self.known.pass(Where::Verify);
        trimtab::device::verify(self, &self.processor, kernel, problem, point, limit)
    }
    fn bench(&self, problem: &Problem, limit: Nanos) -> Result<Box<dyn Bench + '_>, Decline> {
        self.known.pass(Where::Bench);
        trimtab::device::bench(self, &self.processor, problem, limit)
    }
}

/// A runtime with the processor and the added device.
fn with_device(patience: Patience) -> (Runtime, Arc<Known>) {
    with_rules(patience, Offload::default())
}

fn with_rules(patience: Patience, offload: Offload) -> (Runtime, Arc<Known>) {
    let processor = CpuDevice::new(CpuOptions { threads: Some(1), blas: None, ..CpuOptions::default() });
    let mut facts = processor.facts().clone();
    facts.id = "hangs".to_string();
    facts.fingerprint = Fingerprint("hangs".to_string());
    facts.habits = Habits { host_memory: false, ..Habits::HOST };
    let (inside, most, runs) = Default::default();
    let known =
        Arc::new(Known { hangs: Mutex::new(Where::Nowhere), changed: Condvar::new(), inside, most, runs });
    let device = Hangs { processor, facts, known: Arc::clone(&known) };
    let builder = fresh().no_blas().patience(patience).longest_call(Nanos::from_millis(300));
    (builder.offload(offload).add_device(device).build().unwrap(), known)
}

fn is_right(rt: &Runtime, size: usize) -> bool {
    let x = Tensor::full(&[size], 1.5f32).unwrap();
    let eager = rt.neg(&x).unwrap().to_vec().iter().all(|found| *found == -1.5);
    eager && (-rt.lazy(&x)).to_vec().unwrap().iter().all(|found| *found == -1.5)
}

#[test]
fn a_device_that_never_answers_is_left_behind_and_others_answer() {
    for at in [Where::Verify, Where::Bench, Where::Allocate, Where::Run, Where::Download] {
        // What is chosen by its estimate is checked, everything else measured, when a problem is new.
        let (rt, known) =
            with_device(if at == Where::Verify { Patience::Estimate } else { Patience::Measure });
        if !matches!(at, Where::Verify | Where::Bench) {
            assert!(is_right(&rt, 2_000_000), "{at:?}");
            assert!(known.runs.load(Ordering::Relaxed) > 0, "{at:?}: the device was never asked");
        }
        known.set(at);
        for size in [2_000_000, 2_100_000, 2_200_000] {
            assert!(is_right(&rt, size), "{at:?}");
        }
        // The call's, and one of the background's if it asked at the same moment; later calls leave none.
        let most = known.most.load(Ordering::Relaxed);
        assert!((1..=2).contains(&most), "{at:?}: {most}");
        let told = rt.planner().survey(&rt.explain(&"elementwise.neg:f32:2300000".parse().unwrap()).unwrap());
        let its = |rival: &&trimtab::advanced::plan::Rival| &*rival.device_id == "hangs";
        let why = told.rivals.iter().find(its).unwrap().out_because().unwrap();
        assert!(why.contains("hangs has not come back"), "{at:?}: {why}");
        // When it comes back, it is asked again.
        known.set(Where::Nowhere);
        while known.inside.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        let asked = |size: usize| {
            let before = known.runs.load(Ordering::Relaxed);
            is_right(&rt, size) && known.runs.load(Ordering::Relaxed) > before
        };
        assert!((2_400_000..2_400_020).any(asked), "{at:?}");
    }
}

#[test]
fn a_rule_that_sends_everything_to_a_device_that_hangs_gives_way() {
    for patience in [Patience::Estimate, Patience::Measure] {
        let (rt, known) = with_rules(patience, Offload { all: Some(0), ..Offload::default() });
        assert!(is_right(&rt, 70_000));
        assert!(known.runs.load(Ordering::Relaxed) > 0, "the device was never asked");
        known.set(Where::Run);
        // One that the device did before, one that nobody did, and the first again.
        for size in [70_000, 80_000, 70_000] {
            assert!(is_right(&rt, size), "{size}");
            let record = rt.explain(&format!("elementwise.neg:f32:{size}").parse().unwrap()).unwrap();
            let notes = record.notes().join("\n");
            let chosen = record.winner().unwrap();
            // A GPU that is there obeys the rule; without one the rule gives way, and the record says so.
            let rule = "are not below the unary threshold of 0 that was set";
            let gave_way = if &*chosen.device_id == "cpu" { ", but no device there can run it" } else { "" };
            assert_ne!(&*chosen.device_id, "hangs", "{notes}");
            assert!(
                notes.contains(&format!("{size} elements {rule}{gave_way}")),
                "{patience:?} {size}: {notes}"
            );
        }
        assert!(known.most.load(Ordering::Relaxed) > 0, "it never hung");
        known.set(Where::Nowhere);
    }
}
