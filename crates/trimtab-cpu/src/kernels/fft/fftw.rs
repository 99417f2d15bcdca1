//! FFTW of this machine, one transform a call of it, each thread its own.

use super::lines::Sharing;
use super::{Real, by_part, counted, plans, scale, too_large};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::fftw::{Fftw, Functions, Kind, Plan};
use crate::kernels::room::with_room;
use crate::kernels::shared_work;
use std::borrow::Cow;
use std::sync::Arc;
use trimtab_core::{
    DType, Decline, DeviceFacts, Fft, FftOp, KernelVersion, LaunchError, MAX_FFT_RANK, Variant, VariantClass,
    Work,
};

trimtab_core::config! {
    /// Threads, each with transforms of its own, and whether plans are measured by FFTW itself.
    pub struct FftwConfig { threads, measured }
}

/// Numbers of a transform up to which plans are measured, in the first call of a process: on a machine whose two cores fourteen threads
/// shared that took 0.4 s at 4,096 numbers and 3.3 s at 32,768.
const MEASURED: u64 = 4 << 10;
/// Bytes by which transforms of a batch are apart if all of them are as aligned as the first; more than any vector has.
const ALIGNED: usize = 64;
/// Numbers that a thread takes at once.
const TAKEN: u64 = 8 << 10;

/// See the module.
#[derive(Debug)]
pub(super) struct FftwKernel(pub(super) Fftw);

impl Variant<Cpu> for FftwKernel {
    type Problem = Fft;
    type Config = FftwConfig;

    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("cpu.fft.fftw")
    }

    fn version(&self) -> KernelVersion {
        KernelVersion::from(format!("{}+{}", self.0.version, version!()))
    }

    fn class(&self) -> VariantClass {
        VariantClass::Library
    }

    fn takes(&self, dtype: DType) -> bool {
        matches!(dtype, DType::F32 | DType::F64) || dtype.is_complex()
    }

    fn declines(&self, problem: &Fft, _: &DeviceFacts) -> Option<Decline> {
        too_large(problem)
    }

    fn configs(&self, problem: &Fft, device: &DeviceFacts) -> Vec<FftwConfig> {
        // Threads have transforms of their own.
        let alone = |shared: &Sharing| shared.threads == 1 || problem.batch > 1;
        let shared = Sharing::all(problem, device).into_iter().filter(alone);
        let mut threads: Vec<u32> = shared.map(|shared| shared.threads).collect();
        threads.dedup();
        let efforts = if problem.points() <= MEASURED { &[0, 1][..] } else { &[0] };
        threads
            .into_iter()
            .flat_map(|threads| efforts.iter().map(move |&measured| FftwConfig { threads, measured }))
            .collect()
    }

    fn work(&self, problem: &Fft, config: FftwConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = counted(problem);
        let scratch = super::scratch(problem, problem.points().min(8), config.threads);
        Work { scratch, ..shared_work(flops, bytes, config.threads, 4) }
    }

    fn launch(&self, problem: &Fft, config: FftwConfig, args: Args<'_>) -> Launched {
        by_part!(problem, T => {
            let functions = if size_of::<T>() == 4 { self.0.single } else { self.0.double };
            run::<T>(problem, config, functions, args)
        })
    }
}

fn run<T: Real>(problem: &Fft, config: FftwConfig, functions: Functions, args: Args<'_>) -> Launched {
    let (input, out, pool) = T::sides(problem, args)?;
    if problem.batch == 0 {
        return Ok(());
    }
    let kind = match problem.op {
        FftOp::Forward => Kind::Forward,
        FftOp::Inverse => Kind::Inverse,
        FftOp::Real => Kind::Real,
        FftOp::InverseReal => Kind::InverseReal,
    };
    let batch = problem.batch as usize;
    let (given, made) = (input.len() / batch, out.len() / batch);
    let bytes = [given, made].map(|parts| parts * size_of::<T>());
    // Of a batch every transform must be aligned: the first, and from there on.
    let back = kind == Kind::InverseReal;
    let even = |at: *const T, bytes: usize| {
        functions.is_aligned(at) && (batch == 1 || bytes.is_multiple_of(ALIGNED))
    };
    let aligned = even(out.as_ptr(), bytes[1]) && (back || even(input.as_ptr(), bytes[0]));
    let planned = planned(problem, kind, functions, [config.measured != 0, aligned], bytes);
    let plan = planned.ok_or_else(|| LaunchError::Kernel("FFTW has no plan for this".to_string()))?;
    let scale = T::of(scale(problem));
    let group = (TAKEN / problem.points().max(1)).max(1) as usize;
    let parts = Disjoint::new(out);
    pool.run(config.threads, batch.div_ceil(group), &|task| {
        for nth in task * group..batch.min((task + 1) * group) {
            // SAFETY: every transform is of one task.
            let to = unsafe { parts.part(nth * made..(nth + 1) * made) };
            let from = &input[nth * given..(nth + 1) * given];
            if back {
                let apart = ALIGNED / size_of::<T>();
                with_room::<T>(given + apart, |room| {
                    let first = room.as_ptr().align_offset(ALIGNED).min(apart);
                    let copy = &mut room[first..first + given];
                    copy.copy_from_slice(from);
                    // SAFETY: a transform of the plan's sizes and precision, from a copy of ours, which is aligned.
                    unsafe { plan.execute(copy.as_ptr(), to.as_mut_ptr()) };
                });
            } else {
                // SAFETY: a transform of the plan's sizes and precision, aligned if it needs that; plans of other kinds keep their operand.
                unsafe { plan.execute(from.as_ptr(), to.as_mut_ptr()) };
            }
            if problem.op.is_inverse() {
                to.iter_mut().for_each(|number| *number = *number * scale);
            }
        }
    });
    Ok(())
}

/// The plan of a problem, whatever its batch; none where a size does not fit FFTW's integers.
fn planned(
    problem: &Fft,
    kind: Kind,
    functions: Functions,
    [measured, aligned]: [bool; 2],
    bytes: [usize; 2],
) -> Option<Arc<Plan>> {
    let mut key = [0; 4];
    key.iter_mut().zip(problem.sizes()).for_each(|(key, &size)| *key = size);
    key[3] =
        (problem.dtype as u64) << 16 | (kind as u64) << 8 | u64::from(measured) << 1 | u64::from(aligned);
    plans::try_plan(key, bytes[1], || {
        let mut sizes = [0; MAX_FFT_RANK];
        for (own, &size) in sizes.iter_mut().zip(problem.sizes()) {
            *own = i32::try_from(size).ok()?;
        }
        Plan::new(functions, kind, &sizes[..problem.sizes().len()], bytes, measured, aligned)
    })
}
