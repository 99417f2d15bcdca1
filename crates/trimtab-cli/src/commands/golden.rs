//! What commands that need a device print at 80 columns, as it was reviewed: on a device whose times follow from numbers, so that it is the same
//! on every machine. `tests/golden.rs` has the commands that need none; `UPDATE_EXPECT=1` writes both anew.

use super::{bench, calibrate, devices, explain, models, run, tune};
use crate::args::{Cli, Command};
use crate::output::Output;
use crate::session::Session;
use clap::Parser;
use expect_test::{ExpectFile, expect_file};
use std::sync::Arc;
use trimtab::Runtime;
use trimtab::advanced::core::{
    Bench, Decline, Device, DeviceFacts, Failure, Fingerprint, Habits, KernelId, KernelInfo, LaunchError,
    Nanos, Point, Problem, Rates, Space, State, Transfers, Work,
};
use trimtab::advanced::operands::{Batch, Executor, HostBuffer, Reference, Wait};
use trimtab::advanced::plan::Class;
use trimtab::advanced::plan::calibration::{Before, DeviceTimes, Origin};
use trimtab_testing::machine::{Machine, SimulatedDevice};

const SMALL: &str = "matmul:f32:512x256x128";
const LARGE: &str = "reduce.sum:f32:64x1024:axis1";
/// What a live call takes here, whatever it takes.
const LIVE: Nanos = Nanos(12_300);

/// The GPU of a machine that does not exist. It computes with the plain loops of this processor and takes the time it says.
struct Scripted {
    inside: Arc<SimulatedDevice>,
    facts: DeviceFacts,
    plain: Arc<dyn Reference>,
}

impl Scripted {
    fn new() -> Scripted {
        let inside = Machine::discrete().gpu;
        let mut facts = inside.facts().clone();
        facts.id = "sim0".to_string();
        facts.fingerprint = Fingerprint("sim/discrete".to_string());
        // No clock of this machine has a part in what it says.
        facts.habits = Habits { recorded: true, ..Habits::GPU };
        Scripted { inside, facts, plain: trimtab::device::reference() }
    }
}

impl Executor for Scripted {
    fn run(&self, batch: Batch<'_>) -> Result<Option<Nanos>, LaunchError> {
        let wait = batch.wait;
        HostBuffer::run(batch, |launch, inputs, out| self.plain.compute(launch.problem, inputs, out))?;
        Ok((wait == Wait::Timed).then_some(LIVE))
    }
}

impl Device for Scripted {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }
    fn rates(&self) -> Rates {
        self.inside.rates()
    }
    fn state(&self) -> State {
        self.inside.state()
    }
    fn kernels(&self) -> &[KernelInfo] {
        self.inside.kernels()
    }
    fn declines(&self, kernel: KernelId, problem: &Problem) -> Option<Decline> {
        self.inside.declines(kernel, problem)
    }
    fn space(&self, kernel: KernelId, problem: &Problem) -> Space {
        self.inside.space(kernel, problem)
    }
    fn work(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Work {
        self.inside.work(kernel, problem, point)
    }
    fn transfers(&self) -> Option<Transfers> {
        self.inside.transfers()
    }
    fn verify(&self, id: KernelId, problem: &Problem, point: &Point, limit: Nanos) -> Result<(), Failure> {
        self.inside.verify(id, problem, point, limit)
    }
    fn bench(&self, problem: &Problem, limit: Nanos) -> Result<Box<dyn Bench + '_>, Decline> {
        self.inside.bench(problem, limit)
    }
}

/// A session of 80 columns on that device alone, which remembers nothing.
fn session() -> Session {
    narrow(Runtime::builder().wisdom_in_memory().add_device(Scripted::new()).device("sim0").build().unwrap())
}

fn narrow(runtime: Runtime) -> Session {
    let mut session = Session::over(&runtime, false);
    session.out = Output::kept_at(80);
    session
}

/// A command as it is typed.
fn typed(words: &str) -> Cli {
    Cli::try_parse_from(["trimtab"].into_iter().chain(words.split_whitespace())).unwrap()
}

fn tuned(session: &Session, words: &str) {
    let cli = typed(words);
    let Some(Command::Tune(args)) = cli.command else { unreachable!("{words}") };
    tune::run(session, &tune::Request::read(&args, &cli.global).unwrap()).unwrap();
}

/// Lines with one of these in them, with `#` for their numbers: this machine's clock has a part in those.
fn timeless(text: &str, parts: &[&str]) -> String {
    let line = |line: &str| {
        let mut shown = String::new();
        let is_timed = parts.iter().any(|part| line.contains(part));
        for c in line.chars() {
            let is_number = is_timed && (c.is_ascii_digit() || c == '.');
            match is_number {
                true if shown.ends_with('#') => (),
                true => shown.push('#'),
                false => shown.push(c),
            }
        }
        shown + "\n"
    };
    // Of times, units, too.
    let text: String = text.lines().map(line).collect();
    ["# ns", "# µs", "# ms"].iter().fold(text, |text, time| text.replace(time, "# TIME"))
}

fn check(session: &Session, expected: ExpectFile) {
    // What moving data takes beside what the device says, and what deciding took.
    let text = timeless(&session.out.take(), &["  hand-over ", "transfer  ", "effort    "]);
    check_text(&text, &expected);
}

fn check_text(text: &str, expected: &ExpectFile) {
    // A word that is longer than a line stays whole; so does a command that is to be copied.
    let is_wide = |line: &&str| line.chars().count() > 80 && line.split_whitespace().count() > 2;
    let wide = text.lines().filter(|line| !line.starts_with("finish with: ")).find(is_wide);
    assert_eq!(wide, None);
    expected.assert_eq(text);
}

#[test]
fn a_device() {
    let session = session();
    let (_, device) = session.runtime.planned().next().unwrap();
    devices::show(&session, device.as_ref(), true).unwrap();
    check(&session, expect_file!["../../tests/golden/devices.txt"]);
}

#[test]
fn a_problem_before_and_after_it_was_tuned() {
    let session = session();
    let problem: Problem = SMALL.parse().unwrap();
    explain::run(&session, &problem, false).unwrap();
    check(&session, expect_file!["../../tests/golden/explain-unmeasured.txt"]);
    tuned(&session, &format!("tune {SMALL} {LARGE} --budget 20s"));
    check_text(
        &timeless(&session.out.take(), &[" timed runs in "]),
        &expect_file!["../../tests/golden/tune.txt"],
    );
    explain::run(&session, &problem, false).unwrap();
    check(&session, expect_file!["../../tests/golden/explain.txt"]);
    explain::run(&session, &problem, true).unwrap();
    // Ratios are of whole calls, moving data included.
    let text = timeless(&session.out.take(), &["transfer  ", "effort    ", "tile=32 ", "tile=8 "]);
    check_text(&text, &expect_file!["../../tests/golden/explain-all.txt"]);
}

#[test]
fn rivals_side_by_side() {
    let (session, cli) = (session(), typed(&format!("bench {SMALL} {LARGE} --rounds 9")));
    let Some(Command::Bench(args)) = cli.command else { unreachable!() };
    bench::run(&session, &super::problems(&args.problems).unwrap(), &args).unwrap();
    check(&session, expect_file!["../../tests/golden/bench.txt"]);
}

#[test]
fn a_problem_that_is_computed() {
    let session = session();
    tuned(&session, &format!("tune {SMALL} --budget 20s"));
    session.out.take();
    run::run(&session, &SMALL.parse().unwrap()).unwrap();
    let text = timeless(&session.out.take(), &["first  ", "warm  "]);
    check_text(&text, &expect_file!["../../tests/golden/run.txt"]);
}

#[test]
fn models_that_were_judged() {
    let session = session();
    models::show(&session, &[], &[]).unwrap();
    check(&session, expect_file!["../../tests/golden/models-empty.txt"]);
    let sizes = ["64x64x64", "96x64x32", "128x128x128", "200x100x50", "256x256x256", "300x20x700"];
    let more = ["384x384x384", "512x64x64", "512x512x512", "640x320x160", "768x768x128", "1024x32x1024"];
    let problems: Vec<String> = sizes.iter().chain(&more).map(|size| format!("matmul:f32:{size}")).collect();
    tuned(&session, &format!("tune {} --exhaustive --budget 60s", problems.join(" ")));
    session.out.take();
    let mut judged = models::judged(&session, &[]);
    for judged in &mut judged.0 {
        judged.made_up();
    }
    models::show(&session, &judged.0, &[]).unwrap();
    check(&session, expect_file!["../../tests/golden/models.txt"]);
}

/// Two devices with times of two classes: the scripted one starts later and is faster in the end.
fn calibrated() -> Session {
    let runtime = Runtime::builder().wisdom_in_memory().add_device(Scripted::new());
    let session = narrow(runtime.build().unwrap());
    let mut all = Vec::new();
    for (device, start, unit) in [(0, 250.0, 0.25), (session.runtime.devices().len() - 1, 35_000.0, 0.012)] {
        let mut times = DeviceTimes::new(session.runtime.devices()[device].as_ref(), Origin::Measured);
        for class in [Class::Elementwise, Class::Matmul] {
            for power in 5..12 {
                let size = 1u64 << (2 * power);
                for wobble in [1.0, 1.01, 1.02] {
                    times.note(class, size, (start + unit * size as f64) * wobble);
                }
            }
        }
        let before = Before { start_ns: 2.0 * start, unit_ns: 2.0 * unit, calibrated: true };
        times.before.insert(Class::Matmul, before);
        all.push(times);
    }
    session.runtime.commit_calibration(session.runtime.calibration_with(&all)).unwrap();
    session
}

#[test]
fn what_calls_cost_by_size() {
    let session = calibrated();
    calibrate::show(&session, &session.runtime.calibration()).unwrap();
    check(&session, expect_file!["../../tests/golden/calibrate.txt"]);
}

#[test]
fn how_long_measuring_takes_follows_from_what_calls_are_expected_to_take() {
    let session = calibrated();
    let (calibration, devices) = (session.runtime.calibration(), session.runtime.devices().len());
    let about = |rounds| calibrate::about(&calibration, devices, &[Class::Matmul], rounds, false);
    // Two devices choose kernels for seven sizes each, 200 ms a size; the largest call takes a millisecond.
    assert!((Nanos::from_millis(2_800)..Nanos::from_millis(2_900)).contains(&about(5)), "{}", about(5));
    assert!(about(50) > about(5));
}
