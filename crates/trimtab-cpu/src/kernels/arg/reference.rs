//! Every line sorted or searched by the standard library, by the numbers themselves: the yardstick.

use super::given;
use crate::args::{Args, Cpu, Launched};
use crate::kernels::elements::not_here;
use std::cmp::Ordering;
use trimtab_core::{Arg, ArgOp, Bytes, DType, Decline, DeviceFacts, Variant, Work};
use trimtab_operands::{Element, bf16, f16};

trimtab_core::config! {
    /// The reference has no settings.
    pub struct ReferenceConfig {}
}

/// See the module.
#[derive(Debug)]
pub struct ReferenceKernel;

impl Variant<Cpu> for ReferenceKernel {
    type Problem = Arg;
    type Config = ReferenceConfig;

    identity!("cpu.arg.reference", Reference);

    fn declines(&self, _: &Arg, _: &DeviceFacts) -> Option<Decline> {
        None
    }

    fn configs(&self, _: &Arg, _: &DeviceFacts) -> Vec<ReferenceConfig> {
        vec![ReferenceConfig {}]
    }

    fn work(&self, problem: &Arg, _: ReferenceConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = super::counted(problem);
        // A line, its indices, and the room in which the standard library merges them.
        let scratch = Bytes(problem.len.saturating_mul(problem.dtype.size() + 16));
        Work { flops, bytes, scratch, threads: 1, lanes: 1, ..Work::default() }
    }

    fn launch(&self, problem: &Arg, _: ReferenceConfig, args: Args<'_>) -> Launched {
        match problem.dtype {
            DType::F32 => run::<f32>(problem, args),
            DType::F64 => run::<f64>(problem, args),
            DType::I32 => run::<i32>(problem, args),
            DType::F16 => run::<f16>(problem, args),
            DType::Bf16 => run::<bf16>(problem, args),
            dtype => Err(not_here(dtype)),
        }
    }
}

fn run<T: Element + PartialOrd>(problem: &Arg, args: Args<'_>) -> Launched {
    let (input, out, _) = given::<T>(problem, args)?;
    let [len, inner, count] = [problem.len, problem.inner, problem.count].map(|size| size as usize);
    #[expect(clippy::eq_op, reason = "true of what is not a number")]
    let is_nan = |value: &T| value != value;
    for nth in 0..(problem.outer * problem.inner) as usize {
        let first = nth / inner * len * inner + nth % inner;
        let line: Vec<T> = (0..len).map(|at| input[first + at * inner]).collect();
        let largest_first = problem.descending || problem.op == ArgOp::Top;
        let order = |a: &usize, b: &usize| {
            let (a, b) = (&line[*a], &line[*b]);
            match (is_nan(a), is_nan(b)) {
                (false, false) if largest_first => b.partial_cmp(a).unwrap_or(Ordering::Equal),
                (false, false) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
                (a, b) => a.cmp(&b),
            }
        };
        let mut indices: Vec<usize> = (0..len).collect();
        match problem.op {
            ArgOp::Sort | ArgOp::Top => indices.sort_by(order),
            ArgOp::Min | ArgOp::Max => {
                let mut best = 0;
                for at in 1..len {
                    let (value, so_far) = (&line[at], &line[best]);
                    let wins = match problem.op {
                        ArgOp::Min => value < so_far,
                        _ => value > so_far,
                    };
                    if !is_nan(so_far) && (wins || is_nan(value)) {
                        best = at;
                    }
                }
                indices = vec![best];
            }
        }
        let to = nth / inner * count * inner + nth % inner;
        for (at, index) in indices.into_iter().take(count).enumerate() {
            out[to + at * inner] = index as i64;
        }
    }
    Ok(())
}
