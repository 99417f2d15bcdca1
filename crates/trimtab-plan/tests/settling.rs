//! Plans nobody is sure of are told as such, and settled in the background.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod scripted;

use scripted::{Script, Scripted, kernel, reference};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use trimtab_core::{
    Bench, DType, Decline, Device, DeviceFacts, Elementwise, Failure, FailureKind, Interference, KernelId,
    KernelInfo, Nanos, Operation, Patience, Point, Problem, Rates, Sample, Space, State, Terms, UnaryOp,
    VariantClass, Work,
};
use trimtab_plan::{Decision, Event, Planner, Reason, Settings, TermsId, Trust};
use trimtab_tune::Stopwatch;
use trimtab_wisdom::Wisdom;

/// A scripted machine that others use now and then, and whose operands are anybody's.
struct Machine {
    scripted: Arc<Scripted>,
    infos: Vec<KernelInfo>,
    busy: AtomicBool,
    /// The kernel that is wrong at the real size.
    lies: Option<&'static str>,
    /// Every run takes this many milliseconds, whatever time it tells.
    drags_ms: AtomicU32,
    /// Somebody computes on the other thread of the core, which every sample tells.
    shared: AtomicBool,
    /// A helper came this late when handing work over was measured.
    late: Option<Nanos>,
    benches: AtomicU32,
}

impl Machine {
    fn new(kernels: Vec<Script>) -> Machine {
        let scripted = Scripted::new(kernels);
        let infos = scripted.kernels().iter().cloned();
        let infos = infos.map(|info| KernelInfo { operation: Operation::Elementwise, ..info }).collect();
        let (busy, drags_ms, shared, benches) = Default::default();
        Machine { scripted, infos, busy, lies: None, drags_ms, shared, late: None, benches }
    }
}

impl Device for Machine {
    fn facts(&self) -> &DeviceFacts {
        self.scripted.facts()
    }
    fn rates(&self) -> Rates {
        let rates = self.scripted.rates();
        Rates { launch: self.late.unwrap_or(rates.launch), ..rates }
    }
    fn state(&self) -> State {
        let others = if self.busy.load(Ordering::Relaxed) { 1.0 } else { 0.0 };
        State { others: Some(others), ..State::default() }
    }
    fn kernels(&self) -> &[KernelInfo] {
        &self.infos
    }
    fn declines(&self, kernel: KernelId, problem: &Problem) -> Option<Decline> {
        self.scripted.declines(kernel, problem)
    }
    fn space(&self, kernel: KernelId, problem: &Problem) -> Space {
        self.scripted.space(kernel, problem)
    }
    fn work(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Work {
        let work = self.scripted.work(kernel, problem, point);
        Work { launches: u32::from(self.late.is_some() && work.threads > 1), ..work }
    }
    fn verify(&self, _: KernelId, _: &Problem, _: &Point, _: Nanos) -> Result<(), Failure> {
        Ok(())
    }
    fn bench(&self, problem: &Problem, limit: Nanos) -> Result<Box<dyn Bench + '_>, Decline> {
        self.benches.fetch_add(1, Ordering::Relaxed);
        let lies = self.lies.and_then(|lies| self.infos.iter().position(|info| info.name == lies));
        let drags = Duration::from_millis(self.drags_ms.load(Ordering::Relaxed).into());
        Ok(Box::new(Checked {
            bench: self.scripted.bench(problem, limit)?,
            lies,
            drags,
            shared: &self.shared,
        }))
    }
}

/// A bench that finds a kernel wrong.
struct Checked<'a> {
    bench: Box<dyn Bench + 'a>,
    lies: Option<usize>,
    drags: Duration,
    shared: &'a AtomicBool,
}

impl Bench for Checked<'_> {
    fn run(&mut self, kernel: KernelId, point: &Point, n: u32, timeout: Nanos) -> Result<Sample, Failure> {
        if self.lies == Some(kernel.0 as usize) {
            return Err(Failure::new(FailureKind::Wrong, "element 7 is 0, reference 1"));
        }
        std::thread::sleep(self.drags);
        let sample = self.bench.run(kernel, point, n, timeout)?;
        let interference = self.shared.load(Ordering::Relaxed).then_some(Interference::Shared);
        Ok(Sample { interference, ..sample })
    }
}

fn problem() -> Problem {
    Elementwise::unary(UnaryOp::Neg, DType::F32, &[1000]).unwrap().into()
}

fn planner(machine: &Arc<Machine>, wisdom: &Arc<Wisdom>, settings: Settings) -> Planner {
    let device = Arc::clone(machine) as Arc<dyn Device>;
    Planner::new(vec![device], Arc::clone(wisdom), settings, Terms::default())
}

fn decided(planner: &Planner) -> Arc<Decision> {
    planner.plan(&problem(), TermsId::default()).unwrap();
    planner.explain(&problem(), TermsId::default()).unwrap()
}

/// The record once it is as wanted, or as it is after a long time.
fn later(planner: &Planner, wanted: impl Fn(&Decision) -> bool) -> Arc<Decision> {
    let start = Stopwatch::start();
    loop {
        let now = planner.explain(&problem(), TermsId::default()).unwrap();
        if wanted(&now) || start.elapsed() > Nanos::from_millis(20_000) {
            return now;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn name(decision: &Decision) -> &str {
    &decision.winner().unwrap().name
}

#[test]
fn a_pick_made_while_the_machine_was_busy_is_told_as_such_and_put_right_once_it_is_quiet() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let kernels = vec![kernel("good", &[(1, 20_000)]), kernel("bad", &[(1, 25_000)]), reference(900_000)];
    let machine = Arc::new(Machine::new(kernels));
    machine.busy.store(true, Ordering::Relaxed);
    machine.scripted.slow_down("good", 1.4);
    let planner = planner(&machine, &wisdom, Settings::default());
    let first = decided(&planner);
    assert_eq!((name(&first), first.trust()), ("bad", Trust::Measured));
    let notes = first.notes();
    assert!(notes.iter().any(|note| note.contains("provisional: the machine was busy")), "{notes:?}");
    // Nothing is measured while others use the machine.
    std::thread::sleep(Duration::from_millis(900));
    assert_eq!(name(&planner.explain(&problem(), TermsId::default()).unwrap()), "bad");

    machine.scripted.slow_down("good", 1.0);
    machine.busy.store(false, Ordering::Relaxed);
    let settled = later(&planner, |now| now.trust() == Trust::Settled);
    assert_eq!((name(&settled), settled.trust()), ("good", Trust::Settled));
    let (_, plan) = planner.known(&problem(), TermsId::default()).unwrap();
    assert_eq!(plan.kernel, settled.winner().unwrap().kernel);
    assert_eq!(planner.stats().settled, 1);
    drop(planner);

    let runs = machine.scripted.runs.load(Ordering::Relaxed);
    let next = self::planner(&machine, &wisdom, Settings::default());
    let recalled = decided(&next);
    assert_eq!((name(&recalled), recalled.reason), ("good", Reason::Remembered));
    assert_eq!(machine.scripted.runs.load(Ordering::Relaxed), runs);
}

#[test]
fn a_race_that_is_cut_short_in_the_background_does_not_replace_what_a_whole_one_found() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let kernels = vec![kernel("found", &[(1, 20_000)]), kernel("lucky", &[(1, 25_000)]), reference(900_000)];
    let machine = Arc::new(Machine::new(kernels));
    machine.busy.store(true, Ordering::Relaxed);
    let planner = planner(&machine, &wisdom, Settings::default());
    assert_eq!(name(&decided(&planner)), "found");
    let before = machine.benches.load(Ordering::Relaxed);

    // Two or three runs fit into the first race of the background, six into the second.
    machine.scripted.slow_down("lucky", 0.6);
    machine.drags_ms.store(130, Ordering::Relaxed);
    machine.busy.store(false, Ordering::Relaxed);
    let second = later(&planner, |_| machine.benches.load(Ordering::Relaxed) >= before + 2);
    assert_eq!(name(&second), "found");
    // Later ones have the time they need.
    machine.drags_ms.store(0, Ordering::Relaxed);
    let settled = later(&planner, |now| now.trust() == Trust::Settled);
    assert_eq!((name(&settled), settled.trust()), ("lucky", Trust::Settled));
}

#[test]
fn nothing_is_replaced_by_what_was_measured_on_a_shared_core() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let kernels = vec![kernel("found", &[(1, 20_000)]), kernel("lucky", &[(1, 25_000)]), reference(900_000)];
    let machine = Arc::new(Machine::new(kernels));
    machine.shared.store(true, Ordering::Relaxed);
    let planner = planner(&machine, &wisdom, Settings::default());
    let first = decided(&planner);
    assert_eq!((name(&first), first.trust()), ("found", Trust::Measured));
    let before = machine.benches.load(Ordering::Relaxed);

    machine.scripted.slow_down("lucky", 0.6);
    let second = later(&planner, |_| machine.benches.load(Ordering::Relaxed) >= before + 2);
    assert_eq!(name(&second), "found");
    machine.shared.store(false, Ordering::Relaxed);
    let settled = later(&planner, |now| now.trust() == Trust::Settled);
    assert_eq!((name(&settled), settled.trust()), ("lucky", Trust::Settled));
}

/// On a busy machine a helper may come late when handing work over is measured: that is no reason never to try two threads.
#[test]
fn threads_are_tried_although_a_helper_once_came_late() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let kernels = vec![kernel("threaded", &[(1, 10_000), (2, 6_000)]), reference(900_000)];
    let machine = Machine { late: Some(Nanos(100_000)), ..Machine::new(kernels) };
    let planner = planner(&Arc::new(machine), &wisdom, Settings::default());
    assert_eq!(decided(&planner).winner().unwrap().point, Point::new(&[2]));
}

#[test]
fn the_background_keeps_what_a_whole_race_found_unless_another_is_clearly_faster() {
    for (rival, wanted) in [(0.97, "found"), (0.9, "rival")] {
        let wisdom = Arc::new(Wisdom::in_memory());
        let kernels =
            vec![kernel("found", &[(1, 20_000)]), kernel("rival", &[(1, 25_000)]), reference(900_000)];
        let machine = Arc::new(Machine::new(kernels));
        machine.busy.store(true, Ordering::Relaxed);
        let planner = planner(&machine, &wisdom, Settings::default());
        assert_eq!(name(&decided(&planner)), "found");
        machine.scripted.slow_down("rival", 0.8 * rival);
        machine.busy.store(false, Ordering::Relaxed);
        let settled = later(&planner, |now| now.trust() == Trust::Settled);
        assert_eq!((name(&settled), settled.trust()), (wanted, Trust::Settled));
    }
}

#[test]
fn what_another_process_picked_while_it_was_busy_is_put_right_by_the_next_that_uses_it() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let kernels = vec![kernel("good", &[(1, 20_000)]), kernel("bad", &[(1, 25_000)]), reference(900_000)];
    let machine = Arc::new(Machine::new(kernels));
    machine.busy.store(true, Ordering::Relaxed);
    machine.scripted.slow_down("good", 1.4);
    assert_eq!(name(&decided(&planner(&machine, &wisdom, Settings::default()))), "bad");
    machine.scripted.slow_down("good", 1.0);
    machine.busy.store(false, Ordering::Relaxed);
    let next = planner(&machine, &wisdom, Settings::default());
    let recalled = decided(&next);
    assert_eq!((name(&recalled), recalled.reason), ("bad", Reason::Remembered));
    assert_eq!(name(&later(&next, |now| now.trust() == Trust::Settled)), "good");
}

#[test]
fn a_problem_too_long_for_a_call_is_measured_in_the_background() {
    let kernels =
        vec![kernel("short", &[(1, 30_000_000)]), kernel("long", &[(1, 60_000_000)]), reference(900_000_000)];
    let machine = Arc::new(Machine::new(kernels));
    let planner = planner(&machine, &Arc::new(Wisdom::in_memory()), Settings::default());
    assert!(decided(&planner).trust() < Trust::Settled);
    let settled = later(&planner, |now| now.trust() == Trust::Settled);
    assert_eq!((name(&settled), settled.trust()), ("short", Trust::Settled));
}

#[test]
fn one_run_of_each_is_no_race() {
    let kernels =
        vec![kernel("short", &[(1, 3_000_000)]), kernel("long", &[(1, 6_000_000)]), reference(9_000_000)];
    let machine = Arc::new(Machine::new(kernels));
    let settings = Settings { budget: Nanos::from_millis(19), settle: false, ..Settings::default() };
    let decision = decided(&planner(&machine, &Arc::new(Wisdom::in_memory()), settings));
    if decision.reason != Reason::Led {
        // Who is timed more than once has raced.
        assert!(decision.trust() >= Trust::Measured || decision.reason == Reason::Estimated, "{decision:?}");
        return;
    }
    assert!(decision.trust() < Trust::Measured && !decision.complete);
}

#[test]
fn an_estimated_plan_is_checked_at_its_size_and_one_that_is_wrong_there_answers_no_more() {
    for patience in [Patience::Estimate, Patience::Measure] {
        let wisdom = Arc::new(Wisdom::in_memory());
        let user = Script { class: VariantClass::Custom, ..kernel("lies", &[(1, 10_000_000)]) };
        let mut machine =
            Machine::new(vec![user, kernel("honest", &[(1, 20_000_000)]), reference(900_000_000)]);
        machine.lies = Some("lies");
        let machine = Arc::new(machine);
        let planner = planner(&machine, &wisdom, Settings { patience, ..Settings::default() });
        let first = decided(&planner);
        let honest = later(&planner, |now| name(now) == "honest" && now.trust() >= Trust::Checked);
        assert_eq!(name(&honest), "honest", "{patience:?} after {:?}", name(&first));
        let lies = planner.survey(&honest).rivals.into_iter().find(|rival| &*rival.name == "lies").unwrap();
        assert!(lies.out_because().unwrap().contains("element 7 is 0"), "{:?}", lies.out_because());
        if patience == Patience::Estimate {
            let is_checked = |event: &Event| matches!(event, Event::Checked { .. });
            assert!(later(&planner, |now| now.events.iter().any(is_checked)).events.iter().any(is_checked));
        }
    }
}

#[test]
fn nothing_runs_behind_the_back_of_who_wants_none_of_it() {
    let kernels = || {
        vec![kernel("short", &[(1, 30_000_000)]), kernel("long", &[(1, 60_000_000)]), reference(900_000_000)]
    };
    for settings in [
        Settings { settle: false, ..Settings::default() },
        Settings { patience: Patience::Off, ..Settings::default() },
    ] {
        let machine = Arc::new(Machine::new(kernels()));
        let planner = planner(&machine, &Arc::new(Wisdom::in_memory()), settings);
        decided(&planner);
        let benches = machine.benches.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(900));
        assert_eq!(machine.benches.load(Ordering::Relaxed), benches);
        assert_eq!(planner.stats().unsettled, 0);
    }
}

#[test]
fn the_background_makes_way_and_ends_with_its_planner() {
    let kernels =
        vec![kernel("short", &[(1, 300_000)]), kernel("long", &[(1, 600_000)]), reference(9_000_000)];
    let machine = Arc::new(Machine::new(kernels));
    machine.busy.store(true, Ordering::Relaxed);
    let planner = planner(&machine, &Arc::new(Wisdom::in_memory()), Settings::default());
    decided(&planner);
    assert_eq!(planner.stats().unsettled, 1);
    let start = Stopwatch::start();
    drop(planner);
    assert!(start.elapsed() < Nanos::from_millis(2_000), "{:?}", start.elapsed());
    assert_eq!(Arc::strong_count(&machine), 1, "nobody holds the device any more");
}

/// A machine and a GPU whose kernel takes as long to build as said, with that in wisdom, and who won a race of both.
mod builds {
    use super::*;
    use trimtab_core::{Condition, Habits};
    use trimtab_wisdom::{FactKey, Outcome, Stats};

    /// A scripted GPU for problems of everybody.
    struct Gpu(Arc<Scripted>, Vec<KernelInfo>);

    impl Device for Gpu {
        fn facts(&self) -> &DeviceFacts {
            self.0.facts()
        }
        fn rates(&self) -> Rates {
            self.0.rates()
        }
        fn state(&self) -> State {
            State::default()
        }
        fn kernels(&self) -> &[KernelInfo] {
            &self.1
        }
        fn declines(&self, kernel: KernelId, problem: &Problem) -> Option<Decline> {
            self.0.declines(kernel, problem)
        }
        fn space(&self, kernel: KernelId, problem: &Problem) -> Space {
            self.0.space(kernel, problem)
        }
        fn work(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Work {
            self.0.work(kernel, problem, point)
        }
        fn transfer_overhead(&self, problem: &Problem) -> Nanos {
            self.0.transfer_overhead(problem)
        }
        fn verify(&self, kernel: KernelId, p: &Problem, point: &Point, t: Nanos) -> Result<(), Failure> {
            self.0.verify(kernel, p, point, t)
        }
        fn bench(&self, problem: &Problem, limit: Nanos) -> Result<Box<dyn Bench + '_>, Decline> {
            self.0.bench(problem, limit)
        }
    }

    struct Both {
        machine: Arc<Machine>,
        gpu: Arc<Gpu>,
    }

    /// The processor takes a millisecond, the GPU half of it.
    fn both() -> Both {
        let machine = Machine::new(vec![kernel("here", &[(1, 1_000_000)]), reference(9_000_000)]);
        let scripted = Scripted::gpu("gpu0", vec![kernel("there", &[(1, 400_000)])], 100_000, false);
        assert_eq!(scripted.facts().habits, Habits::GPU);
        let infos = scripted.kernels().iter().cloned();
        let infos = infos.map(|info| KernelInfo { operation: Operation::Elementwise, ..info }).collect();
        Both { machine: Arc::new(machine), gpu: Arc::new(Gpu(scripted, infos)) }
    }

    impl Both {
        fn planner(&self, wisdom: &Arc<Wisdom>, settings: Settings) -> Planner {
            let devices: Vec<Arc<dyn Device>> = vec![self.machine.clone(), self.gpu.clone()];
            Planner::new(devices, Arc::clone(wisdom), settings, Terms::default())
        }

        /// Wisdom of an earlier process, in which the GPU won and building took that long.
        fn known(&self, build_ns: f64) -> Arc<Wisdom> {
            let wisdom = Arc::new(Wisdom::in_memory());
            let before = self.planner(&wisdom, Settings { settle: false, ..Settings::default() });
            assert_eq!(name(&decided(&before)), "there");
            let its = |fact: &&trimtab_wisdom::Fact| fact.key.condition == Condition::Compile;
            let key = wisdom.all_facts().iter().find(its).map(|fact| fact.key.clone()).unwrap();
            let now = Arc::new(Wisdom::in_memory());
            for fact in wisdom.all_facts().into_iter().filter(|fact| fact.key != key) {
                now.record(fact.key, fact.outcome);
            }
            wisdom.verdicts().into_iter().for_each(|verdict| now.decide(verdict));
            now.record(FactKey { ..key }, Outcome::Timed(Stats::single(build_ns)));
            now
        }
    }

    #[test]
    fn a_first_call_does_not_wait_for_a_build_that_takes_longer_than_the_call_and_the_background_builds_it() {
        let both = both();
        for patience in [Patience::Measure, Patience::Estimate] {
            let wisdom = both.known(300e6);
            let planner = both.planner(&wisdom, Settings { patience, ..Settings::default() });
            let foreseen = planner.explain(&problem(), TermsId::default()).unwrap();
            assert_eq!(name(&foreseen), "here", "{:?}", foreseen.events);
            let ran = both.gpu.0.count("there");
            let first = decided(&planner);
            assert_eq!((name(&first), both.gpu.0.count("there")), ("here", ran), "{:?}", first.events);
            let there = first.rivals.iter().find(|rival| &*rival.name == "there").unwrap();
            assert_eq!(there.build, Nanos(300_000_000));
            let notes = first.notes();
            assert!(notes.iter().any(|note| note.contains("building it takes about 300")), "{notes:?}");
            // A process that goes on does not stay there.
            let after = later(&planner, |now| name(now) == "there");
            assert_eq!(name(&after), "there", "{patience}: {:?}", after.events);
            let (_, plan) = planner.known(&problem(), TermsId::default()).unwrap();
            assert_eq!(plan.device, 1);
        }
    }

    #[test]
    fn a_machine_that_is_always_busy_is_no_reason_not_to_build() {
        let both = both();
        let planner = both.planner(&both.known(300e6), Settings::default());
        both.machine.busy.store(true, Ordering::Relaxed);
        assert_eq!(name(&decided(&planner)), "here");
        assert_eq!(name(&later(&planner, |now| name(now) == "there")), "there");
    }

    #[test]
    fn a_build_that_is_worth_its_time_or_that_nothing_makes_good_is_waited_for() {
        let both = both();
        let planner = both.planner(&both.known(300e3), Settings::default());
        let decision = decided(&planner);
        assert_eq!(name(&decision), "there", "{:?}", decision.events);
        let planner = both.planner(&both.known(300e6), Settings { settle: false, ..Settings::default() });
        assert_eq!(name(&decided(&planner)), "there");
        let planner =
            both.planner(&both.known(300e6), Settings { patience: Patience::Off, ..Settings::default() });
        assert_eq!(name(&decided(&planner)), "there");
    }

    #[test]
    fn what_is_built_in_this_process_is_not_counted_again() {
        let both = both();
        let wisdom = both.known(300e6);
        let planner = both.planner(&wisdom, Settings::default());
        decided(&planner);
        later(&planner, |now| name(now) == "there");
        let other: Problem = Elementwise::unary(UnaryOp::Neg, DType::F32, &[1001]).unwrap().into();
        planner.plan(&other, TermsId::default()).unwrap();
        let decision = planner.explain(&other, TermsId::default()).unwrap();
        assert!(decision.rivals.iter().all(|rival| rival.build == Nanos(0)), "{:?}", decision.rivals);
    }
}
