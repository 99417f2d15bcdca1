//! A machine whose kernels have times written down, so that every plan is decidable.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use trimtab_core::{
    Bench, Bytes, Decline, Device, DeviceFacts, DeviceKind, Failure, FailureKind, Fingerprint, Habits,
    KernelId, KernelInfo, KernelVersion, Nanos, Operation, Point, Problem, Rates, Sample, Space, State,
    VariantClass, Work,
};

/// One kernel of the scripted machine: its points and how long each takes.
#[derive(Clone)]
pub struct Script {
    pub name: &'static str,
    pub version: &'static str,
    pub class: VariantClass,
    pub points: Vec<(u32, u64)>,
    pub scratch: u64,
    pub fails: Option<FailureKind>,
    /// The point at which it gives wrong results.
    pub lies_at: Option<u32>,
    pub declines: Option<&'static str>,
}

/// A kernel of these points and times that works.
pub fn kernel(name: &'static str, points: &[(u32, u64)]) -> Script {
    Script {
        name,
        version: "1",
        class: VariantClass::Tiled,
        points: points.to_vec(),
        scratch: 0,
        fails: None,
        lies_at: None,
        declines: None,
    }
}

/// The reference, which takes that long.
pub fn reference(ns: u64) -> Script {
    Script { class: VariantClass::Reference, ..kernel("reference", &[(1, ns)]) }
}

/// A time by name, point, problem and the number of the run.
pub type Smooth = fn(&str, u32, &Problem, u32) -> f64;

/// A device whose kernels have times written down.
pub struct Scripted {
    facts: DeviceFacts,
    kernels: Vec<Script>,
    infos: Vec<KernelInfo>,
    pub runs: AtomicU32,
    /// What handing operands over takes.
    transfer: u64,
    /// Whether benches are refused.
    refuses: bool,
    /// How often its rates were asked for.
    pub rated: AtomicU32,
    compiled_in: Option<Nanos>,
    /// Runs per kernel name.
    counts: Mutex<HashMap<&'static str, u32>>,
    /// What a kernel takes at a point on a problem, in place of what is written down; it is run for the n-th time.
    smooth: Option<Smooth>,
    /// How many times as long as written down kernels take, where that is not once.
    slower: Mutex<HashMap<&'static str, f64>>,
}

impl Scripted {
    /// A machine with these kernels.
    pub fn new(kernels: Vec<Script>) -> Arc<Scripted> {
        Arc::new(Scripted::device(kernels))
    }

    /// A GPU of that name beside the machine, to which handing over takes that long.
    #[allow(dead_code, reason = "not every test file has a GPU")]
    pub fn gpu(id: &str, kernels: Vec<Script>, transfer: u64, refuses: bool) -> Arc<Scripted> {
        let mut device = Scripted::device(kernels);
        device.facts.id = id.to_string();
        (device.facts.kind, device.facts.habits) = (DeviceKind::Gpu, Habits::GPU);
        device.facts.fingerprint = Fingerprint(format!("scripted {id}"));
        device.compiled_in = Some(Nanos(77_000));
        (device.transfer, device.refuses) = (transfer, refuses);
        Arc::new(device)
    }

    fn device(kernels: Vec<Script>) -> Scripted {
        let infos = kernels
            .iter()
            .map(|script| KernelInfo {
                name: script.name.to_string(),
                version: KernelVersion::from(script.version),
                operation: Operation::Custom,
                class: script.class,
            })
            .collect();
        let facts = DeviceFacts {
            adapter: None,
            id: "scripted".to_string(),
            name: "scripted".to_string(),
            kind: DeviceKind::Cpu,
            habits: Habits::HOST,
            fingerprint: Fingerprint("scripted \"machine\"\n../x".to_string()),
            cores: Some(2),
            threads: 2,
            caches: vec![],
            vector_bytes: None,
            features: vec![],
            numa_nodes: None,
            memory: None,
            notes: vec![],
        };
        Scripted {
            facts,
            kernels,
            infos,
            runs: AtomicU32::new(0),
            transfer: 0,
            refuses: false,
            rated: AtomicU32::new(0),
            compiled_in: None,
            counts: Mutex::default(),
            smooth: None,
            slower: Mutex::default(),
        }
    }

    /// A machine with these kernels, whose times depend on the problem.
    #[allow(dead_code, reason = "not every test file has one")]
    pub fn smooth(kernels: Vec<Script>, smooth: Smooth) -> Arc<Scripted> {
        Arc::new(Scripted { smooth: Some(smooth), ..Scripted::device(kernels) })
    }

    /// How long a kernel takes at a point.
    pub fn ns(&self, kernel: KernelId, point: &Point) -> u64 {
        let script = &self.kernels[kernel.0 as usize];
        let written = script.points.iter().find(|(value, _)| point.values() == [*value]);
        let slower = self.slower.lock().unwrap().get(script.name).copied().unwrap_or(1.0);
        written.map_or(u64::MAX, |point| (point.1 as f64 * slower) as u64)
    }

    /// From now on a kernel takes that many times as long as is written down.
    #[allow(dead_code, reason = "times change in one test file only")]
    pub fn slow_down(&self, name: &'static str, factor: f64) {
        self.slower.lock().unwrap().insert(name, factor);
    }

    /// How often a kernel ran.
    #[allow(dead_code, reason = "not every test file counts")]
    pub fn count(&self, name: &str) -> u32 {
        self.counts.lock().unwrap().get(name).copied().unwrap_or(0)
    }
}

impl Device for Scripted {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }
    fn transfer_overhead(&self, _: &Problem) -> Nanos {
        Nanos(self.transfer)
    }
    fn rates(&self) -> Rates {
        self.rated.fetch_add(1, Ordering::Relaxed);
        Rates {
            barrier_ns: 0.0,
            filled_by: 0,
            flops_per_s: 1e9,
            lanes: 1,
            bytes_per_s: 1e9,
            bytes_per_s_all: 1e9,
            cached_bytes_per_s: 1e9,
            cached_up_to: Bytes(1024),
            launch: Nanos(100),
        }
    }
    fn state(&self) -> State {
        State::default()
    }
    fn kernels(&self) -> &[KernelInfo] {
        &self.infos
    }
    fn declines(&self, kernel: KernelId, _: &Problem) -> Option<Decline> {
        self.kernels[kernel.0 as usize].declines.map(Decline::because)
    }
    fn space(&self, kernel: KernelId, _: &Problem) -> Space {
        let points =
            self.kernels[kernel.0 as usize].points.iter().map(|(value, _)| Point::new(&[*value])).collect();
        Space::new(vec!["tile".into()], points)
    }
    fn work(&self, kernel: KernelId, _: &Problem, point: &Point) -> Work {
        let script = &self.kernels[kernel.0 as usize];
        let threads = point.values()[0].min(4);
        Work { scratch: Bytes(script.scratch), threads, lanes: 1, bytes: Bytes(1000), ..Work::default() }
    }
    fn verify(&self, kernel: KernelId, _: &Problem, point: &Point, _: Nanos) -> Result<(), Failure> {
        let script = &self.kernels[kernel.0 as usize];
        match script.fails {
            Some(kind) => Err(Failure::new(kind, "scripted")),
            None if script.lies_at.is_some_and(|lies| point.values() == [lies]) => {
                Err(Failure::new(FailureKind::Wrong, "scripted"))
            }
            None => Ok(()),
        }
    }
    fn bench(&self, problem: &Problem, _: Nanos) -> Result<Box<dyn Bench + '_>, Decline> {
        if self.refuses {
            return Err(Decline::because("kernels take too long to build"));
        }
        Ok(Box::new(ScriptedBench(self, *problem)))
    }
}

struct ScriptedBench<'a>(&'a Scripted, Problem);

impl Bench for ScriptedBench<'_> {
    fn run(
        &mut self,
        kernel: KernelId,
        point: &Point,
        iterations: u32,
        timeout: Nanos,
    ) -> Result<Sample, Failure> {
        let script = &self.0.kernels[kernel.0 as usize];
        let run = self.0.runs.fetch_add(1, Ordering::Relaxed);
        *self.0.counts.lock().unwrap().entry(script.name).or_default() += 1;
        if let Some(kind) = script.fails {
            return Err(Failure::new(kind, "scripted"));
        }
        let ns = match self.0.smooth {
            Some(smooth) => smooth(script.name, point.values()[0], &self.1, run) as u64,
            None => self.0.ns(kernel, point),
        };
        let elapsed = Nanos(ns.saturating_mul(u64::from(iterations)));
        if elapsed > timeout {
            return Err(Failure::new(FailureKind::TimedOut, format!("no result within {timeout}")));
        }
        Ok(Sample {
            elapsed,
            iterations,
            interference: None,
            energy_uj: None,
            compiled_in: self.0.compiled_in,
        })
    }
}
