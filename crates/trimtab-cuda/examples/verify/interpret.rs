//! Runs a case on the interpreter and compares with what plain loops give, by the rule of the gate.

use crate::cases::Case;
use crate::reference::Loops;
use anyhow::{Result, ensure};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use trimtab_core::Problem;
use trimtab_cuda::StepArgument;
use trimtab_operands::{Expected, Operands, allowed, tolerance};
use trimtab_ptx::{Counters, GlobalMemory, GridLaunch, Kernel};

/// Bytes of the interpreter's memory.
const MEMORY: u64 = 1 << 26;

/// Operands of problems and what they must give, made once.
#[derive(Default)]
pub struct Answers(Mutex<HashMap<Problem, Arc<(Operands, Expected)>>>);

impl Answers {
    fn of(&self, problem: &Problem) -> Result<Arc<(Operands, Expected)>> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = known().get(problem) {
            return Ok(Arc::clone(answer));
        }
        let operands = Operands::new(problem);
        let expected = Expected::new(&Loops, problem, &operands).map_err(anyhow::Error::msg)?;
        let answer = Arc::new((operands, expected));
        known().insert(*problem, Arc::clone(&answer));
        Ok(answer)
    }
}

/// Runs the steps of a case, each by the kernel in its place.
pub fn run(kernels: &[&Kernel], case: &Case, answers: &Answers) -> Result<Counters> {
    let problem = &case.problem;
    let answer = answers.of(problem)?;
    let (operands, expected) = &*answer;
    let mut memory = GlobalMemory::new(MEMORY);
    let mut addresses = Vec::new();
    for input in operands.slices() {
        let bytes = input.bytes();
        let address = memory.allocate(bytes.len() as u64)?;
        memory.write(address, bytes)?;
        addresses.push(address);
    }
    let out = memory.allocate(problem.out_bytes())?;
    let scratch = memory.allocate(case.program.scratch.max(1))?;
    let status = memory.allocate(4)?;
    memory.fill(status, 0, 4)?;
    let mut counters = Counters::default();
    for (kernel, step) in kernels.iter().zip(&case.program.steps) {
        let mut launch = GridLaunch::new(step.grid, step.block);
        for given in &step.given {
            launch = match given {
                StepArgument::Input(place) => launch.u64(addresses[usize::from(*place)]),
                StepArgument::Out => launch.u64(out),
                StepArgument::Scratch => launch.u64(scratch),
                StepArgument::ScratchAt(bytes) => launch.u64(scratch + bytes),
                StepArgument::Status => launch.u64(status),
                StepArgument::U32(value) => launch.u32(*value),
                StepArgument::U64(value) => launch.u64(*value),
                StepArgument::F32(value) => launch.u32(value.to_bits()),
                StepArgument::F64(value) => launch.u64(value.to_bits()),
            };
        }
        counters += kernel.launch(&mut memory, &launch)?;
    }
    let mut told = [0; 4];
    memory.read(status, &mut told)?;
    ensure!(told == [0; 4], "the kernel says that there is no answer: {told:?}");
    let mut result = operands.out.clone();
    result.slice_mut().with_bytes(|bytes| memory.read(out, bytes))?;
    // What the type and the length of sums allow, or what the kernel says of itself.
    let within = allowed(tolerance(problem), &case.work);
    expected.check_within(problem, &result, within).map_err(anyhow::Error::msg)?;
    Ok(counters)
}
