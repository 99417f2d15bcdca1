//! What a kernel is put to before it is believed: operands, what they must give, and on which problems.

use crate::check::{Expected, Reference};
use crate::operands::{Numbers, Operands};
use crate::standin::stand_ins;
use trimtab_core::{Device, Failure, FailureKind, KernelId, Nanos, Point, Problem};

/// Stand-ins that take longer to make are used where there is no other.
const CHEAP: Nanos = Nanos(700_000);

/// A problem with operands and what they must give.
#[derive(Debug)]
pub struct Exam {
    /// The problem.
    pub problem: Problem,
    /// The operands; a kernel's result goes to the output.
    pub operands: Operands,
    expected: Expected,
    spots: Vec<usize>,
}

impl Exam {
    /// The problem on operands that may be timed as well.
    pub fn new(reference: &dyn Reference, problem: &Problem) -> Result<Exam, Failure> {
        Exam::of(reference, problem, Numbers::Real)
    }

    /// The problem on every kind of numbers a kernel must be right on; meant for stand-ins.
    pub fn all(reference: &dyn Reference, problem: &Problem) -> Result<Vec<Exam>, Failure> {
        Numbers::needed(problem).iter().map(|&numbers| Exam::of(reference, problem, numbers)).collect()
    }

    fn of(reference: &dyn Reference, problem: &Problem, numbers: Numbers) -> Result<Exam, Failure> {
        let operands = Operands::of(problem, numbers);
        let expected = Expected::new(reference, problem, &operands)
            .map_err(|message| Failure::new(FailureKind::Untried, format!("no reference: {message}")))?;
        let spots = expected.spots();
        Ok(Exam { problem: *problem, operands, expected, spots })
    }

    /// Whether the output is right: within the tolerance of a device, or of a kernel on the processor without one.
    pub fn check(&self, within: Option<f64>) -> Result<(), Failure> {
        let out = &self.operands.out;
        let checked = match within {
            Some(tolerance) => self.expected.check_within(&self.problem, out, tolerance),
            None => self.expected.check(&self.problem, out),
        };
        checked.map_err(|message| Failure::new(FailureKind::Wrong, message))
    }

    /// Overwrites some places of the output, so that [`Exam::check_again`] sees whether they were written since.
    pub fn poison_again(&mut self) {
        self.operands.out.poison_at(&self.spots);
    }

    /// Whether those places are right, after many runs.
    pub fn check_again(&self, within: Option<f64>) -> Result<(), Failure> {
        let Exam { problem, operands, expected, spots } = self;
        expected
            .check_spots(problem, &operands.out, spots, within)
            .map_err(|message| Failure::new(FailureKind::Wrong, format!("after timed runs: {message}")))
    }
}

/// The smallest stand-ins that a kernel takes at a point: one that leaves the problem's remainders, one of odd sizes.
pub fn small_stand_ins<D: Device + ?Sized>(
    device: &D,
    kernel: KernelId,
    problem: &Problem,
    point: &Point,
    takes: &dyn Fn(&Problem) -> Nanos,
) -> Vec<Problem> {
    let cheap = stand_ins(problem).take_while(|stand_in| takes(stand_in) <= CHEAP);
    cheap.filter(|stand_in| legal(device, kernel, stand_in, point)).take(2).collect()
}

fn legal<D: Device + ?Sized>(device: &D, kernel: KernelId, problem: &Problem, point: &Point) -> bool {
    device.declines(kernel, problem).is_none() && device.space(kernel, problem).points().contains(point)
}

/// Checks a kernel on stand-ins: `check` runs it on one, `takes` says how long preparing one takes. That a stand-in cannot be
/// taken is no fault of the kernel.
pub fn verify_on_stand_ins<D: Device + ?Sized>(
    device: &D,
    (kernel, problem, point): (KernelId, &Problem, &Point),
    timeout: Nanos,
    takes: &dyn Fn(&Problem) -> Nanos,
    check: &mut dyn FnMut(&Problem) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let small = small_stand_ins(device, kernel, problem, point, takes);
    if !small.is_empty() {
        return small.iter().try_for_each(check);
    }
    // Settings may be offered from some size on only because they are worth it: the kernel may still be right below.
    let untried = |message: String| Err(Failure::new(FailureKind::Untried, message));
    let taken = stand_ins(problem).find(|stand_in| device.declines(kernel, stand_in).is_none());
    match taken.filter(|stand_in| takes(stand_in) <= CHEAP).map(|stand_in| check(&stand_in)) {
        None | Some(Err(Failure { kind: FailureKind::Launch | FailureKind::Wrong, .. })) => (),
        Some(outcome) => return outcome,
    }
    match stand_ins(problem).find(|stand_in| legal(device, kernel, stand_in, point)) {
        None => match device.declines(kernel, problem) {
            Some(reason) => untried(format!("the kernel declines the problem: {reason}")),
            None => untried(format!("the kernel does not offer these settings for {problem}")),
        },
        Some(stand_in) if takes(&stand_in) > timeout => untried(format!(
            "no small stand-in is taken, and checking {problem} takes about {}",
            takes(&stand_in)
        )),
        Some(stand_in) => check(&stand_in),
    }
}
