//! A device made of recordings: it looks up what others measured, in virtual time, the same on every machine.

use trimtab_core::{
    Bench, Bytes, Custom, Decline, Device, DeviceFacts, DeviceKind, Failure, FailureKind, Fingerprint, Flops,
    Habits, KernelId, KernelInfo, KernelVersion, MAX_NAME_BYTES, Nanos, Operation, Point, Problem,
    ProblemError, Rates, Sample, Space, State, VariantClass, Work,
};
use trimtab_replay::{Axis, Completeness, Expression, Outcome, Recording, Row, Timing};

const NS_PER_MS: f64 = 1e6;

/// One or more recordings of the same machine; each is a kernel, in the order given.
#[derive(Debug)]
pub struct RecordedDevice {
    facts: DeviceFacts,
    kernels: Vec<KernelInfo>,
    recorded: Vec<Recorded>,
    rates: Rates,
}

#[derive(Debug)]
struct Recorded {
    recording: Recording,
    problem: Problem,
    space: Space,
    /// Rows by point, sorted.
    rows: Vec<(Point, usize)>,
}

impl Recorded {
    fn row(&self, point: &Point) -> Option<usize> {
        let at = self.rows.binary_search_by(|(known, _)| known.cmp(point)).ok()?;
        Some(self.rows[at].1)
    }
}

/// The problem a recording measured: the kernel's name and the sizes.
fn problem_of(recording: &Recording) -> Result<Problem, ProblemError> {
    // Names are ASCII or refused below, so cutting at a byte is cutting at a character.
    let name = recording.kernel.get(..MAX_NAME_BYTES).unwrap_or(&recording.kernel);
    Ok(Problem::Custom(Custom::new(name, &recording.sizes)?))
}

impl RecordedDevice {
    /// A device that answers from these recordings.
    pub fn new(recordings: Vec<Recording>) -> Result<RecordedDevice, ProblemError> {
        let mut kernels = Vec::with_capacity(recordings.len());
        let mut recorded = Vec::with_capacity(recordings.len());
        let mut texts: Vec<String> = Vec::new();
        let (mut id, mut name) = ("recorded".to_string(), "nothing recorded".to_string());
        for recording in recordings {
            (id, name) = (recording.device.clone(), recording.device_name.clone());
            texts.push(format!("{}/{}/{}", recording.device, recording.api, recording.name));
            kernels.push(KernelInfo {
                name: recording.name.clone(),
                version: KernelVersion::of_sources(&[&recording.kernel, &recording.variant]),
                operation: Operation::Custom,
                class: VariantClass::Custom,
            });
            let mut rows: Vec<(Point, usize)> =
                recording.rows.iter().enumerate().map(|(row, known)| (known.point, row)).collect();
            rows.sort_unstable();
            let (problem, space) = (problem_of(&recording)?, recording.space());
            recorded.push(Recorded { recording, problem, space, rows });
        }
        let facts = DeviceFacts {
            id,
            name,
            kind: DeviceKind::Recorded,
            habits: Habits::RECORDED,
            fingerprint: Fingerprint(format!("recorded/{}", texts.join("+"))),
            cores: None,
            threads: 1,
            caches: Vec::new(),
            vector_bytes: None,
            features: Vec::new(),
            numa_nodes: None,
            memory: None,
            adapter: None,
            notes: Vec::new(),
        };
        let rates = rates(&recorded);
        Ok(RecordedDevice { facts, kernels, recorded, rates })
    }

    /// The recordings, one a kernel.
    pub fn recordings(&self) -> impl Iterator<Item = &Recording> {
        self.recorded.iter().map(|recorded| &recorded.recording)
    }

    /// The problems that were recorded, one a kernel.
    pub fn problems(&self) -> impl Iterator<Item = Problem> + '_ {
        self.recorded.iter().map(|recorded| recorded.problem)
    }

    fn get(&self, kernel: KernelId, problem: &Problem) -> Option<&Recorded> {
        self.recorded.get(kernel.0 as usize).filter(|recorded| recorded.problem == *problem)
    }
}

impl Device for RecordedDevice {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn rates(&self) -> Rates {
        self.rates
    }

    fn state(&self) -> State {
        State::default()
    }

    fn kernels(&self) -> &[KernelInfo] {
        &self.kernels
    }

    fn declines(&self, kernel: KernelId, problem: &Problem) -> Option<Decline> {
        match self.get(kernel, problem) {
            Some(_) => None,
            None => Some(Decline::because("nothing was recorded of this problem")),
        }
    }

    fn space(&self, kernel: KernelId, problem: &Problem) -> Space {
        self.get(kernel, problem)
            .map_or_else(|| Space::new(vec![], vec![]), |recorded| recorded.space.clone())
    }

    fn work(&self, kernel: KernelId, problem: &Problem, _point: &Point) -> Work {
        let Some(recorded) = self.get(kernel, problem) else { return Work::default() };
        let recording = &recorded.recording;
        Work { flops: Flops(recording.flops), bytes: Bytes(recording.bytes), ..Work::default() }
    }

    fn verify(&self, kernel: KernelId, problem: &Problem, point: &Point, _: Nanos) -> Result<(), Failure> {
        let untried = || Failure::new(FailureKind::Untried, "nothing was recorded of this point");
        let recorded = self.get(kernel, problem).ok_or_else(untried)?;
        let row = recorded.row(point).ok_or_else(untried)?;
        outcome_of(&recorded.recording, row).map(|_| ())
    }

    fn bench(&self, problem: &Problem, _limit: Nanos) -> Result<Box<dyn Bench + '_>, Decline> {
        if !self.recorded.iter().any(|recorded| recorded.problem == *problem) {
            return Err(Decline::because("nothing was recorded of this problem"));
        }
        let launched =
            self.recorded.iter().map(|recorded| vec![0u32; recorded.recording.rows.len()]).collect();
        Ok(Box::new(RecordedBench { device: self, problem: *problem, launched }))
    }
}

/// The best that any recording reached: what a roofline of this machine is known to allow at least.
fn rates(recorded: &[Recorded]) -> Rates {
    let best = |work: fn(&Recording) -> u64| {
        let rate = |recorded: &Recorded| {
            let seconds = recorded.recording.optimum_ms()? * 1e-3;
            Some(work(&recorded.recording) as f64 / seconds)
        };
        recorded.iter().filter_map(rate).fold(1.0, f64::max)
    };
    let (flops_per_s, bytes_per_s) = (best(|recording| recording.flops), best(|recording| recording.bytes));
    Rates {
        flops_per_s,
        lanes: 1,
        bytes_per_s,
        bytes_per_s_all: bytes_per_s,
        cached_bytes_per_s: bytes_per_s,
        cached_up_to: Bytes(0),
        launch: Nanos(0),
        barrier_ns: 0.0,
        filled_by: 0,
    }
}

/// How a recorded point failed, or its mean in milliseconds.
fn outcome_of(recording: &Recording, row: usize) -> Result<f64, Failure> {
    match recording.rows[row].outcome {
        Outcome::Ran(timing) => Ok(timing.mean_ms),
        Outcome::Failed(kind) => {
            Err(Failure::new(kind, format!("it failed when {} was recorded", recording.name)))
        }
    }
}

/// Hands out repeats in recorded order, from the first again after the last.
struct RecordedBench<'a> {
    device: &'a RecordedDevice,
    problem: Problem,
    /// Launches so far, by kernel and row.
    launched: Vec<Vec<u32>>,
}

impl Bench for RecordedBench<'_> {
    fn run(
        &mut self,
        kernel: KernelId,
        point: &Point,
        iterations: u32,
        timeout: Nanos,
    ) -> Result<Sample, Failure> {
        let untried = || Failure::new(FailureKind::Untried, "nothing was recorded of this point");
        let recorded = self.device.get(kernel, &self.problem).ok_or_else(untried)?;
        let row = recorded.row(point).ok_or_else(untried)?;
        let recording = &recorded.recording;
        let mean_ms = outcome_of(recording, row)?;
        let launched = &mut self.launched[kernel.0 as usize][row];
        let first = *launched == 0;
        let iterations = iterations.max(1);
        // A batch longer than what was recorded would only add up the same repeats again: whole rounds count as means.
        let count = recording.repeat_count(row).max(1) as u32;
        let rounds = iterations / count;
        let mut batch_ms = f64::from(rounds) * f64::from(count) * mean_ms;
        for repeat in 0..iterations % count {
            batch_ms += recording.repeat_ms(row, (*launched % count + repeat) as usize).unwrap_or(mean_ms);
        }
        *launched = launched.wrapping_add(iterations).max(1);
        let elapsed = Nanos((batch_ms * NS_PER_MS) as u64);
        if elapsed > timeout {
            return Err(Failure::new(
                FailureKind::TimedOut,
                format!("recorded as {elapsed}, allowed {timeout}"),
            ));
        }
        let compile_ms = recording.rows[row].compile_ms.filter(|_| first);
        let compiled_in = compile_ms.map(|compile_ms| Nanos((compile_ms * NS_PER_MS) as u64));
        Ok(Sample { elapsed, iterations, interference: None, energy_uj: None, compiled_in })
    }
}

/// Twelve points of two axes; one fails; times 1 to 12 ms, two repeats each, 10 % apart.
pub fn small_recording() -> Recording {
    let mut recording = Recording::default();
    let mut repeats = Vec::new();
    for a in 1..=4u32 {
        for b in [1, 2, 4] {
            let time = f64::from(a * 3 + b) * 0.5;
            let timing = Timing { mean_ms: time, min_ms: time * 0.9, median_ms: time };
            let failed = a == 4 && b == 4;
            let outcome = if failed { Outcome::Failed(FailureKind::Compile) } else { Outcome::Ran(timing) };
            recording.rows.push(Row { point: Point::new(&[a, b]), outcome, compile_ms: Some(7.0) });
            repeats.push(vec![0.9 * time, 1.1 * time]);
        }
    }
    recording.name = "small__nothing".into();
    recording.kernel = "small".into();
    recording.variant = "v".into();
    recording.device = "nothing".into();
    recording.device_name = "Nothing 1".into();
    recording.api = "none".into();
    recording.op = "nothing in particular".into();
    recording.sizes = vec![64, 32];
    (recording.flops, recording.bytes) = (1000, 2000);
    recording.axes = [("a", vec![1, 2, 3, 4]), ("b", vec![1, 2, 4])]
        .map(|(name, values)| Axis { name: name.into(), values })
        .into();
    let names = ["a".to_string(), "b".to_string()];
    recording.constraints = Expression::parse("a * b <= 16", &names, &[]).into_iter().collect();
    recording.completeness = Completeness::Everything;
    recording.origin = "made up".into();
    recording.with_repeats(&repeats)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: KernelId = KernelId(0);
    const PATIENT: Nanos = Nanos(u64::MAX);

    #[test]
    fn a_recorded_point_takes_the_recorded_time_in_recorded_order() {
        let device = RecordedDevice::new(vec![small_recording()]).unwrap();
        let problem = device.problems().next().unwrap();
        assert_eq!(problem.to_string(), "custom.small:64x32");
        let mut bench = device.bench(&problem, PATIENT).unwrap();
        let point = Point::new(&[1, 1]);
        let mut run = |iterations| bench.run(KERNEL, &point, iterations, PATIENT).unwrap();
        let first = run(1);
        assert_eq!((first.elapsed, first.compiled_in), (Nanos(1_800_000), Some(Nanos(7_000_000))));
        let second = run(1);
        assert_eq!((second.elapsed, second.compiled_in), (Nanos(2_200_000), None));
        assert_eq!(run(5).elapsed, Nanos(9_800_000));
        let mut again = device.bench(&problem, PATIENT).unwrap();
        assert_eq!(again.run(KERNEL, &point, 1, PATIENT), Ok(first));
    }

    #[test]
    fn recorded_failures_unknown_points_and_time_outs_are_reported() {
        let device = RecordedDevice::new(vec![small_recording()]).unwrap();
        let problem = device.problems().next().unwrap();
        let mut bench = device.bench(&problem, PATIENT).unwrap();
        let mut kind =
            |point: &[u32], timeout| bench.run(KERNEL, &Point::new(point), 1, timeout).unwrap_err().kind;
        assert_eq!(kind(&[4, 4], PATIENT), FailureKind::Compile);
        assert_eq!(kind(&[9, 9], PATIENT), FailureKind::Untried);
        assert_eq!(kind(&[1, 1], Nanos(1000)), FailureKind::TimedOut);
        assert_eq!(device.verify(KERNEL, &problem, &Point::new(&[1, 1]), PATIENT), Ok(()));
        assert!(device.verify(KERNEL, &problem, &Point::new(&[4, 4]), PATIENT).is_err());
    }

    #[test]
    fn problems_that_were_not_recorded_are_declined() {
        let device = RecordedDevice::new(vec![small_recording()]).unwrap();
        let problem = device.problems().next().unwrap();
        let other: Problem = "custom.other:64x32".parse().unwrap();
        assert!(device.declines(KERNEL, &problem).is_none() && device.declines(KERNEL, &other).is_some());
        assert!(device.bench(&other, PATIENT).is_err() && device.space(KERNEL, &other).points().is_empty());
        assert_eq!(device.space(KERNEL, &problem).points().len(), 12);
        assert_eq!(device.facts().kind, DeviceKind::Recorded);
        assert!((device.rates().flops_per_s - 1000.0 / 2e-3).abs() < 1.0);
    }
}
