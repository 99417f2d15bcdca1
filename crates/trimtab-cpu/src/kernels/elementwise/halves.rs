//! Elementwise on 16-bit floats: a block is widened to f32, computed by the vectors of f32, and rounded once.

use super::layout::Layout;
use super::ops;
use super::span::{How, Operands, span};
use super::vector::shareable;
use super::{bytes_walked, lens, thread_counts};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::halves::Half;
use crate::kernels::shared_work;
use crate::simd::Levels;
use trimtab_core::{
    DType, Decline, DeviceFacts, Elementwise, ElementwiseOp, Flops, LaunchError, Variant, Work,
};

trimtab_core::config! {
    /// Threads, and `lanes` of `f32` in a vector.
    pub struct HalvesConfig { threads, lanes }
}

/// Elements that are widened together: three blocks of f32 stay in the first cache.
const BLOCK: usize = 1024;

/// See the module.
#[derive(Debug)]
pub struct HalvesKernel {
    /// The instruction sets of this processor.
    pub(super) levels: Levels,
}

impl Variant<Cpu> for HalvesKernel {
    type Problem = Elementwise;
    type Config = HalvesConfig;

    identity!("cpu.elementwise.halves", Vectorized);

    fn takes(&self, dtype: DType) -> bool {
        matches!(dtype, DType::F16 | DType::Bf16)
    }

    fn declines(&self, problem: &Elementwise, _: &DeviceFacts) -> Option<Decline> {
        (!self.takes(problem.dtype)).then(|| Decline::from(format!("{} needs no widening", problem.dtype)))
    }

    fn configs(&self, problem: &Elementwise, device: &DeviceFacts) -> Vec<HalvesConfig> {
        let lanes = self.levels.lanes(device.vector_bytes).take(1);
        let with = |lanes| {
            let threads = thread_counts(device, shareable(problem), 3).into_iter();
            threads.map(move |threads| HalvesConfig { threads, lanes })
        };
        lanes.flat_map(with).collect()
    }

    fn work(&self, problem: &Elementwise, config: HalvesConfig, _: &DeviceFacts) -> Work {
        let flops = problem.out_len().saturating_mul(ops::flops(problem.op, false).saturating_add(3));
        shared_work(Flops(flops), bytes_walked(problem), config.threads, config.lanes)
    }

    fn launch(&self, problem: &Elementwise, config: HalvesConfig, args: Args<'_>) -> Launched {
        by_half!(problem.dtype, T => self.run::<T>(problem, config, args))
    }
}

impl HalvesKernel {
    fn run<T: Half>(&self, problem: &Elementwise, config: HalvesConfig, args: Args<'_>) -> Launched {
        let Some(level) = self.levels.get(config.lanes) else {
            return Err(LaunchError::Point(format!("{config:?}")));
        };
        let how = How { level, unrolled: true, stream: false };
        let typed = args.typed::<T>(lens(problem))?;
        let (layout, len) = (Layout::new(problem), typed.out.len());
        let (lhs, rhs, out) = (typed.lhs, typed.rhs, Disjoint::new(typed.out));
        let binary = matches!(problem.op, ElementwiseOp::Binary(_));
        let (lhs_varies, rhs_varies) = layout.varies();
        // A dense row of a block, whatever the operands are.
        let row = Layout::row_of(binary);
        typed.pool.run(config.threads, len.div_ceil(BLOCK), &|task| {
            let start = task * BLOCK;
            // SAFETY: every task has its own block of the result.
            let out = unsafe { out.part(start..len.min(start + BLOCK)) };
            let (mut a, mut b, mut c) = ([0.0f32; BLOCK], [0.0f32; BLOCK], [0.0f32; BLOCK]);
            for piece in layout.pieces(start..start + out.len()) {
                let at = piece.at - start..piece.at - start + piece.len;
                match lhs_varies {
                    true => T::widen(&lhs[piece.lhs..piece.lhs + piece.len], &mut a[at.clone()]),
                    false => a[at.clone()].fill(lhs[piece.lhs].to_f32()),
                }
                match rhs_varies {
                    _ if !binary => (),
                    true => T::widen(&rhs[piece.rhs..piece.rhs + piece.len], &mut b[at]),
                    false => b[at].fill(rhs[piece.rhs].to_f32()),
                }
            }
            let right: &[f32] = if binary { &b } else { &[] };
            let operands = Operands { layout: &row, lhs: &a, rhs: right, out: c.as_mut_ptr() };
            // SAFETY: the operands and the result are blocks, and the range is within one.
            unsafe { span(problem.op, how, &operands, 0..out.len()) };
            T::narrow(&c[..out.len()], out);
        });
        Ok(())
    }
}
