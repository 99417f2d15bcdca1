//! Recordings made up for tests: a kernel of about 3,000 legal points on GPUs that do not exist, and what may go wrong with it.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};
use trimtab_core::{
    Bench, Decline, Device, DeviceFacts, Failure, FailureKind, KernelId, KernelInfo, Nanos, Patience, Point,
    Problem, Rates, Sample, Space, State, Terms, Work,
};
use trimtab_plan::{Decision, Planner, Settings, TermsId, TuneRequest};
use trimtab_replay::{Recording, read_recordings};
use trimtab_testing::RecordedDevice;
use trimtab_wisdom::Wisdom;

const AXES: &str = r#""x": [1, 2, 4, 8, 16, 32, 64, 128, 256], "y": [1, 2, 4, 8, 16, 32],
    "tile_x": [1, 2, 3, 4, 5, 6, 7, 8], "tile_y": [1, 2, 3, 4, 5, 6, 7, 8], "padded": [0, 1]"#;

/// A recording of the same kernel on a device of that name and a problem of that size; its best point is near x = 2^`best_x`,
/// y = 4, tiles of 5 by 2. A quarter of the points do not build.
pub fn recording(device: &str, size: u64, best_x: f64) -> Recording {
    let mut csv = "x,y,tile_x,tile_y,padded,status,time_ms\n".to_string();
    for x in (0..9).map(|power| 1u32 << power) {
        for y in (0..6).map(|power| 1u32 << power) {
            for (tile_x, tile_y) in (1..=8u32).flat_map(|tile_x| (1..=8).map(move |tile_y| (tile_x, tile_y)))
            {
                if x * y < 16 || x * y > 1024 || tile_x * tile_y > 24 {
                    continue;
                }
                for padded in [0, 1] {
                    let failed = x * tile_x * tile_y > 1500;
                    let doublings = 0.35 * (f64::from(x).log2() - best_x).abs()
                        + 0.25 * (f64::from(y).log2() - 2.0).abs()
                        + 0.04 * (f64::from(tile_x) - 5.0).powi(2)
                        + 0.03 * (f64::from(tile_y) - 2.0).powi(2)
                        + if (padded == 1) == (tile_x % 2 == 1) { 0.0 } else { 0.15 };
                    let ms = doublings.exp2() * size as f64 * 1e-3;
                    let outcome = if failed { "compile_failed,".to_string() } else { format!("ok,{ms:.6}") };
                    csv.push_str(&format!("{x},{y},{tile_x},{tile_y},{padded},{outcome}\n"));
                }
            }
        }
    }
    let index = format!(
        r#"[{{"space": "kernel", "kernel": "kernel", "variant": "v", "device": "{device}", "device_name": "{device}",
        "api": "none", "problem": {{"size": {size}, "flops": 1000000, "bytes": 1000}}, "params": {{{AXES}}},
        "constraints": ["16 <= x * y <= 1024", "tile_x * tile_y <= 24"],
        "completeness": "bruteforce", "csv": "kernel.csv.gz"}}]"#
    );
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("index.json"), index).unwrap();
    let file = std::fs::File::create(dir.path().join("kernel.csv.gz")).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    encoder.write_all(csv.as_bytes()).unwrap();
    encoder.finish().unwrap();
    read_recordings(dir.path(), &[]).unwrap().remove(0)
}

/// What goes wrong with a point, if anything.
pub type Trouble = fn(&Point) -> Option<FailureKind>;

type Ran = (Vec<(KernelId, Point)>, BTreeMap<(KernelId, Point), u32>);

/// A recorded device that keeps count of what ran, and on which things go wrong beyond what was recorded.
pub struct Machine {
    recorded: RecordedDevice,
    trouble: Trouble,
    /// Kernels and points in the order they ran first, and how often each did.
    ran: Mutex<Ran>,
    /// Only these points are legal, where given.
    only: Option<usize>,
}

#[allow(dead_code, reason = "not every test file asks everything")]
impl Machine {
    pub fn new(recording: Recording) -> Arc<Machine> {
        Machine::rough(recording, |_| None, None)
    }

    /// With trouble, and only the first so many points.
    pub fn rough(recording: Recording, trouble: Trouble, only: Option<usize>) -> Arc<Machine> {
        Machine::with_kernels(vec![recording], trouble, only)
    }

    /// With several kernels for the same problem.
    pub fn with_kernels(recordings: Vec<Recording>, trouble: Trouble, only: Option<usize>) -> Arc<Machine> {
        let recorded = RecordedDevice::new(recordings).unwrap();
        Arc::new(Machine { recorded, trouble, ran: Mutex::default(), only })
    }

    pub fn problem(&self) -> Problem {
        self.recorded.problems().next().unwrap()
    }

    pub fn optimum_ns(&self) -> f64 {
        self.recorded.recordings().next().unwrap().optimum_ms().unwrap() * 1e6
    }

    /// Points in the order they ran first.
    pub fn ran(&self) -> Vec<Point> {
        self.ran.lock().unwrap().0.iter().map(|(_, point)| *point).collect()
    }

    /// How many points of a kernel ran.
    pub fn ran_of(&self, kernel: u32) -> usize {
        self.ran.lock().unwrap().0.iter().filter(|(ran, _)| ran.0 == kernel).count()
    }

    pub fn runs(&self) -> u32 {
        self.ran.lock().unwrap().1.values().sum()
    }

    pub fn planner(self: &Arc<Machine>, wisdom: &Arc<Wisdom>) -> Planner {
        self.planner_with(wisdom, Settings::default())
    }

    pub fn planner_with(self: &Arc<Machine>, wisdom: &Arc<Wisdom>, settings: Settings) -> Planner {
        let device = Arc::clone(self) as Arc<dyn Device>;
        Planner::new(vec![device], Arc::clone(wisdom), settings, Terms::default())
    }

    /// Tunes with a fresh planner, as another process would.
    pub fn tune(self: &Arc<Machine>, wisdom: &Arc<Wisdom>, request: &TuneRequest) -> Arc<Decision> {
        let planner = self.planner(wisdom);
        planner.tune(&self.problem(), TermsId::default(), request, &mut |_| ()).unwrap()
    }

    /// The share of the optimum's speed a decision reaches.
    pub fn share(&self, decision: &Decision) -> f64 {
        self.optimum_ns() / decision.winner().unwrap().estimate().unwrap().time.0 as f64
    }
}

/// A request of so many evaluations, by a strategy if one is named.
pub fn request(strategy: Option<&str>, evals: Option<u32>) -> TuneRequest {
    let strategy = strategy.map(|name| name.parse().unwrap());
    TuneRequest { strategy, evals, ..TuneRequest::new(Patience::Measure, Nanos::from_millis(600_000)) }
}

impl Device for Machine {
    fn facts(&self) -> &DeviceFacts {
        self.recorded.facts()
    }
    fn rates(&self) -> Rates {
        self.recorded.rates()
    }
    fn state(&self) -> State {
        self.recorded.state()
    }
    fn kernels(&self) -> &[KernelInfo] {
        self.recorded.kernels()
    }
    fn declines(&self, kernel: KernelId, problem: &Problem) -> Option<Decline> {
        self.recorded.declines(kernel, problem)
    }
    fn space(&self, kernel: KernelId, problem: &Problem) -> Space {
        let space = self.recorded.space(kernel, problem);
        match self.only {
            Some(count) => Space::new(space.axes().to_vec(), space.points()[..count].to_vec()),
            None => space,
        }
    }
    fn work(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Work {
        self.recorded.work(kernel, problem, point)
    }
    fn verify(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
        limit: Nanos,
    ) -> Result<(), Failure> {
        match (self.trouble)(point) {
            Some(kind) => Err(Failure::new(kind, "made up")),
            None => self.recorded.verify(kernel, problem, point, limit),
        }
    }
    fn bench(&self, problem: &Problem, limit: Nanos) -> Result<Box<dyn Bench + '_>, Decline> {
        Ok(Box::new(Rough { machine: self, bench: self.recorded.bench(problem, limit)? }))
    }
}

struct Rough<'a> {
    machine: &'a Machine,
    bench: Box<dyn Bench + 'a>,
}

impl Bench for Rough<'_> {
    fn run(
        &mut self,
        kernel: KernelId,
        point: &Point,
        iterations: u32,
        timeout: Nanos,
    ) -> Result<Sample, Failure> {
        {
            let (order, counts) = &mut *self.machine.ran.lock().unwrap();
            let count = counts.entry((kernel, *point)).or_insert_with(|| {
                order.push((kernel, *point));
                0
            });
            *count += 1;
        }
        match (self.machine.trouble)(point) {
            Some(kind) => Err(Failure::new(kind, format!("made up, within {timeout}"))),
            None => self.bench.run(kernel, point, iterations, timeout),
        }
    }
}
