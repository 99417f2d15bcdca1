//! `rustfft` and `realfft`: any length, by mixed radices, Rader's and Bluestein's algorithms.

use super::lines::{Lines, Plans, RealLines, Sharing, run};
use super::split::Split;
use super::{Real, by_part, counted, plans, too_large};
use crate::args::{Args, Cpu, Launched};
use crate::kernels::shared_work;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{FftDirection, FftPlanner};
use std::sync::Arc;
use trimtab_core::{DType, Decline, DeviceFacts, Fft, LaunchError, Variant, Work};
use trimtab_operands::Complex;

trimtab_core::config! {
    /// Threads, columns of other axes than the last that are transformed side by side, and whether a single line is split in two.
    pub struct RustConfig { threads, columns, split }
}

/// Columns of a split line side by side: a line of the caches, and one more.
const ABREAST: u32 = 16;

/// See the module.
#[derive(Debug)]
pub struct RustKernel;

impl Variant<Cpu> for RustKernel {
    type Problem = Fft;
    type Config = RustConfig;

    identity!("cpu.fft.rustfft", Library);

    fn takes(&self, dtype: DType) -> bool {
        matches!(dtype, DType::F32 | DType::F64) || dtype.is_complex()
    }

    fn declines(&self, problem: &Fft, _: &DeviceFacts) -> Option<Decline> {
        too_large(problem)
    }

    fn configs(&self, problem: &Fft, device: &DeviceFacts) -> Vec<RustConfig> {
        let config = |Sharing { threads, columns }| RustConfig { threads, columns, split: 0 };
        let mut configs: Vec<RustConfig> = Sharing::all(problem, device).into_iter().map(config).collect();
        if let Some(split) = Split::of(problem) {
            let with = |threads: u32| RustConfig { threads, columns: ABREAST, split: 1 };
            configs.extend(split.threads(device).into_iter().map(with));
        }
        configs
    }

    fn work(&self, problem: &Fft, config: RustConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = counted(problem);
        // Primes need transforms of up to four times their length beside them.
        let times = if config.split == 1 { 2 } else { 8 };
        let scratch = super::scratch(problem, times, config.threads);
        Work { scratch, ..shared_work(flops, bytes, config.threads, 4) }
    }

    fn launch(&self, problem: &Fft, config: RustConfig, args: Args<'_>) -> Launched {
        let shared = Sharing { threads: config.threads, columns: config.columns };
        by_part!(problem, T => {
            let (input, out, pool) = T::sides(problem, args)?;
            let inverse = problem.op.is_inverse();
            if config.split == 1 {
                let split = Split::of(problem).ok_or_else(|| LaunchError::Point(format!("{config:?}")))?;
                let (columns, rows) = (lines::<T>(split.tall, inverse), lines::<T>(split.wide, inverse));
                let parts = (bytemuck::cast_slice(input), bytemuck::cast_slice_mut(out));
                let abreast = config.columns.max(1) as usize;
                split.run(problem, (&*columns, abreast), &*rows, config.threads, parts, pool);
                return Ok(());
            }
            let plans = Plans::<T>::new(problem, |len| lines(len, inverse), |len| reals(len, inverse));
            run(problem, &plans, shared, input, out, pool);
            Ok(())
        })
    }
}

struct Planned<T: Real>(Arc<dyn rustfft::Fft<T>>);

fn lines<T: Real>(len: usize, inverse: bool) -> Arc<dyn Lines<T>> {
    let direction = if inverse { FftDirection::Inverse } else { FftDirection::Forward };
    let bytes = 4 * len * size_of::<Complex<T>>();
    plans::plan([len as u64, inverse.into(), 0, 0], bytes, || {
        Planned(FftPlanner::new().plan_fft(len, direction))
    })
}

impl<T: Real> Lines<T> for Planned<T> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn room(&self) -> usize {
        self.0.get_immutable_scratch_len()
    }

    fn row(&self, from: &[Complex<T>], to: &mut [Complex<T>], room: &mut [Complex<T>], scale: T) {
        self.0.process_immutable_with_scratch(from, to, room);
        scaled(bytemuck::cast_slice_mut(to), scale);
    }
}

fn scaled<T: Real>(numbers: &mut [T], scale: T) {
    if scale != T::of(1.0) {
        numbers.iter_mut().for_each(|number| *number = *number * scale);
    }
}

enum PlannedReal<T: Real> {
    Forward(Arc<dyn RealToComplex<T>>),
    Inverse(Arc<dyn ComplexToReal<T>>),
}

fn reals<T: Real>(len: usize, inverse: bool) -> Arc<dyn RealLines<T>> {
    let bytes = 4 * len * size_of::<T>();
    plans::plan([len as u64, inverse.into(), 0, 0], bytes, || {
        let mut planner = RealFftPlanner::new();
        match inverse {
            false => PlannedReal::Forward(planner.plan_fft_forward(len)),
            true => PlannedReal::Inverse(planner.plan_fft_inverse(len)),
        }
    })
}

impl<T: Real> RealLines<T> for PlannedReal<T> {
    // Its own operand is written over: a copy of ours, in front.
    fn room(&self) -> usize {
        match self {
            PlannedReal::Forward(plan) => plan.len().div_ceil(2) + plan.get_scratch_len(),
            PlannedReal::Inverse(plan) => plan.complex_len() + plan.get_scratch_len(),
        }
    }

    fn forward(&self, from: &[T], to: &mut [Complex<T>], room: &mut [Complex<T>]) {
        let PlannedReal::Forward(plan) = self else { return };
        let (copy, room) = room.split_at_mut(plan.len().div_ceil(2));
        let copy: &mut [T] = &mut bytemuck::cast_slice_mut(copy)[..plan.len()];
        copy.copy_from_slice(from);
        // It complains of wrong lengths only.
        let _ = plan.process_with_scratch(copy, to, &mut room[..plan.get_scratch_len()]);
    }

    fn inverse(&self, from: &[Complex<T>], to: &mut [T], room: &mut [Complex<T>], scale: T) {
        let PlannedReal::Inverse(plan) = self else { return };
        let (copy, room) = room.split_at_mut(plan.complex_len());
        copy.copy_from_slice(from);
        // What real numbers cannot have it complains of.
        let zero = T::of(0.0);
        copy[0].im = zero;
        if plan.len().is_multiple_of(2) {
            copy[plan.complex_len() - 1].im = zero;
        }
        let _ = plan.process_with_scratch(copy, to, &mut room[..plan.get_scratch_len()]);
        scaled(to, scale);
    }
}
