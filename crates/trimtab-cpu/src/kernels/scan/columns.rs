//! Lines whose elements lie apart: as many as fit are carried along side by side, which the compiler turns into vectors.

use super::serial::SHAREABLE_ELEMENTS;
use super::{Carried, by_op, counted, lens};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::shared_work;
use crate::pool::Pool;
use trimtab_core::{Decline, DeviceFacts, LaunchError, Scan, Variant, Work};

trimtab_core::config! {
    /// Threads, each with lines of its own.
    pub struct ColumnsConfig { threads }
}

/// Lines that are carried along side by side.
const SIDE_BY_SIDE: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct ColumnsKernel;

impl Variant<Cpu> for ColumnsKernel {
    type Problem = Scan;
    type Config = ColumnsConfig;

    identity!("cpu.scan.columns", Vectorized);

    fn declines(&self, problem: &Scan, _: &DeviceFacts) -> Option<Decline> {
        let near = || Decline::because("rows are contiguous; needs lines side by side");
        (problem.inner == 1).then(near).or_else(|| crate::kernels::not_of_type(problem.dtype))
    }

    fn configs(&self, problem: &Scan, device: &DeviceFacts) -> Vec<ColumnsConfig> {
        let shareable = problem.len() >= SHAREABLE_ELEMENTS;
        thread_counts(device, shareable, 4).into_iter().map(|threads| ColumnsConfig { threads }).collect()
    }

    fn work(&self, problem: &Scan, config: ColumnsConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = counted(problem, 1);
        shared_work(flops, bytes, config.threads, 4)
    }

    fn launch(&self, problem: &Scan, config: ColumnsConfig, args: Args<'_>) -> Launched {
        if problem.inner < 2 {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_type!(problem, T => {
            let typed = args.typed::<T>(lens(problem)?)?;
            by_op!(problem.op, lines::<T>(problem, config.threads, typed.lhs, typed.out, typed.pool));
            Ok(())
        })
    }
}

fn lines<T: Carried, const OP: u8>(problem: &Scan, threads: u32, input: &[T], out: &mut [T], pool: &Pool) {
    if out.is_empty() {
        return;
    }
    let (len, inner) = (problem.len as usize, problem.inner as usize);
    let groups = inner.div_ceil(SIDE_BY_SIDE);
    let whole = Disjoint::new(out);
    pool.run(threads, problem.outer as usize * groups, &|task| {
        let (outer, first) = (task / groups, task % groups * SIDE_BY_SIDE);
        let count = SIDE_BY_SIDE.min(inner - first);
        let mut carries = [T::start(problem.op); SIDE_BY_SIDE];
        for at in 0..len {
            let start = (outer * len + at) * inner + first;
            // SAFETY: every task has its own lines.
            let out = unsafe { whole.part(start..start + count) };
            let each = carries.iter_mut().zip(out).zip(&input[start..start + count]);
            if problem.exclusive {
                each.for_each(|((carry, out), &value)| {
                    *out = T::element(*carry);
                    *carry = T::step::<OP>(*carry, value);
                });
            } else {
                each.for_each(|((carry, out), &value)| {
                    *carry = T::step::<OP>(*carry, value);
                    *out = T::element(*carry);
                });
            }
        }
    });
}
