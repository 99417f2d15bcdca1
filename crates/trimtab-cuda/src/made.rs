//! What compilers made of kernels, and how full that lets a multiprocessor be: in words, and in the order of settings.

use crate::context::Resources;
use crate::device::CudaDevice;
use crate::occupancy::{Multiprocessor, Usage};
use crate::prepare::ReadyStep;
use crate::program::LaunchStep;
use trimtab_core::{Bytes, KernelId, Point, Problem, Space, Work};

/// One launch: its entry point, threads of a block, and what the compiler made of it.
pub(crate) fn in_words(
    multiprocessor: &Multiprocessor,
    (entry, threads): (&str, u32),
    made: &Resources,
) -> String {
    let Resources { registers, shared_bytes, local_bytes, .. } = *made;
    // The compiler does not tell its barriers; one is assumed.
    let occupancy = multiprocessor.occupancy(&Usage { threads, registers, shared_bytes, barriers: 1 });
    let spills = match local_bytes {
        0 => "nothing spilled".to_string(),
        bytes => format!("{bytes} bytes a thread spilled to memory"),
    };
    format!(
        "{entry}: {registers} registers a thread, {shared_bytes} bytes of shared memory, {spills}; {} blocks of {threads} threads a \
         multiprocessor, {:.0} % of its warps, limited by {}",
        occupancy.blocks,
        100.0 * occupancy.fraction(),
        occupancy.limited_by
    )
}

impl CudaDevice {
    /// Bytes a program's threads are known to keep in memory because registers ran out.
    fn spilled(&self, kernel: KernelId, problem: &Problem, point: &Point) -> u64 {
        let Ok(program) = self.program(kernel, problem, point) else { return 0 };
        let of = |step: &LaunchStep| {
            let bytes = self.builder.known(step).map_or(0, |made| u64::from(made.local_bytes));
            let threads = step.grid.iter().chain(&step.block).map(|size| u64::from(*size));
            threads.fold(bytes, u64::saturating_mul)
        };
        program.steps.iter().map(of).fold(0, u64::saturating_add)
    }

    /// The same settings, those last of which it is known that they spill.
    pub(crate) fn spilling_last(&self, kernel: KernelId, problem: &Problem, space: Space) -> Space {
        if !self.builder.kept().any_spills() {
            return space;
        }
        let spills = |point: &Point| self.spilled(kernel, problem, point) > 0;
        let (last, mut first): (Vec<Point>, Vec<Point>) = space.points().iter().copied().partition(spills);
        first.extend(last);
        Space::new(space.axes().to_vec(), first)
    }

    /// The same work, and what threads write to memory and read again because registers ran out.
    pub(crate) fn with_spills(&self, kernel: KernelId, problem: &Problem, point: &Point, work: Work) -> Work {
        if !self.builder.kept().any_spills() {
            return work;
        }
        let moved = self.spilled(kernel, problem, point).saturating_mul(2);
        Work { bytes: Bytes(work.bytes.0.saturating_add(moved)), ..work }
    }

    /// In words, what the compiler made of each launch of a kernel.
    pub(crate) fn made(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Option<String> {
        let prepared =
            self.prepare(kernel, problem, point).ok().filter(|prepared| prepared.product.is_none())?;
        let multiprocessor = &self.info().multiprocessor;
        let of = |step: &ReadyStep| {
            in_words(multiprocessor, (step.entry, step.block.iter().product()), &step.function.resources())
        };
        Some(prepared.steps.iter().map(of).collect::<Vec<_>>().join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_limits() {
        let ampere = Multiprocessor::of(80).unwrap();
        let made = Resources { registers: 64, shared_bytes: 1024, local_bytes: 0, max_threads: 256 };
        assert_eq!(
            in_words(&ampere, ("matmul_blocked", 256), &made),
            "matmul_blocked: 64 registers a thread, 1024 bytes of shared memory, nothing spilled; 4 blocks of 256 threads a \
             multiprocessor, 50 % of its warps, limited by registers"
        );
        let spilled = Resources { local_bytes: 48, ..made };
        assert!(in_words(&ampere, ("x", 256), &spilled).contains("48 bytes a thread spilled to memory"));
    }
}
