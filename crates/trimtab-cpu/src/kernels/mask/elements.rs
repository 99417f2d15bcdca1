//! Element by element, the places counted along: for rows of a few elements.

use super::{AT_MOST, EQUAL, LESS};
use super::{
    Chosen, Compared, Layout, by_compared, by_three, chosen, compared, counted, holds, not_compared, nothing,
};
use crate::args::{Args, Cpu, Launched};
use crate::kernels::elementwise::thread_counts;
use crate::kernels::shared_work;
use crate::kernels::units::Unit;
use trimtab_core::{Decline, DeviceFacts, Flops, Mask, MaskOp, Variant, Work};
use trimtab_operands::Element;

trimtab_core::config! {
    /// Threads.
    pub struct ElementsConfig { threads }
}

/// Elements from which a second thread can pay.
const SHAREABLE: u64 = 32 << 10;
/// Elements a thread takes at once.
const CHUNK: usize = 8 << 10;

/// See the module.
#[derive(Debug)]
pub struct MaskElements;

impl Variant<Cpu> for MaskElements {
    type Problem = Mask;
    type Config = ElementsConfig;

    identity!("cpu.mask.elements", Vectorized);

    fn takes(&self, _: trimtab_core::DType) -> bool {
        true
    }

    fn declines(&self, problem: &Mask, _: &DeviceFacts) -> Option<Decline> {
        not_compared(problem)
    }

    fn configs(&self, problem: &Mask, device: &DeviceFacts) -> Vec<ElementsConfig> {
        if not_compared(problem).is_some() {
            return Vec::new();
        }
        let threads = thread_counts(device, problem.out_len() >= SHAREABLE, 3).into_iter();
        threads.map(|threads| ElementsConfig { threads }).collect()
    }

    fn work(&self, problem: &Mask, config: ElementsConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = counted(problem);
        // Counting along takes longer than comparing.
        shared_work(Flops(flops.0.saturating_mul(6)), bytes, config.threads, 1)
    }

    fn launch(&self, problem: &Mask, config: ElementsConfig, args: Args<'_>) -> Launched {
        if let Some(done) = nothing(problem, &args) {
            return done;
        }
        match problem.op {
            MaskOp::Where => by_unit!(problem.dtype, U => choose::<U>(problem, config, args)),
            _ => by_compared!(problem.dtype, T => compare::<T>(problem, config, args)),
        }
    }
}

/// Goes through some elements of the result in order, with the places of the operands.
#[inline(always)]
fn each<T>(layout: &Layout, start: usize, out: &mut [T], mut element: impl FnMut([usize; 3]) -> T) {
    let mut digits = [0usize; trimtab_core::MAX_RANK];
    let mut rest = start;
    for axis in (0..layout.rank).rev() {
        digits[axis] = rest % layout.dims[axis];
        rest /= layout.dims[axis];
    }
    let mut at = layout.offsets(start);
    for out in out {
        *out = element(at);
        for axis in (0..layout.rank).rev() {
            digits[axis] += 1;
            for (at, strides) in at.iter_mut().zip(&layout.strides) {
                *at += strides[axis];
            }
            if digits[axis] < layout.dims[axis] {
                break;
            }
            digits[axis] = 0;
            for (at, strides) in at.iter_mut().zip(&layout.strides) {
                *at -= strides[axis] * layout.dims[axis];
            }
        }
    }
}

fn compare<T: Element + PartialOrd>(problem: &Mask, config: ElementsConfig, args: Args<'_>) -> Launched {
    let Compared { operands: [a, b], out, pool } = compared::<T>(problem, args)?;
    let (layout, (op, swaps, turned)) = (Layout::new(problem), by_three(problem.op));
    let turn = u8::from(turned);
    macro_rules! by {
        ($op:ident) => {
            pool.for_chunks(config.threads, out, CHUNK, |start, part| {
                each(&layout, start, part, |[first, second, _]| {
                    let (a, b) = if swaps { (b[second], a[first]) } else { (a[first], b[second]) };
                    u8::from(holds::<T, $op>(a, b)) ^ turn
                });
            })
        };
    }
    match op {
        EQUAL => by!(EQUAL),
        LESS => by!(LESS),
        _ => by!(AT_MOST),
    }
    Ok(())
}

fn choose<U: Unit>(problem: &Mask, config: ElementsConfig, args: Args<'_>) -> Launched {
    let Chosen { mask, from: [yes, no], out, pool } = chosen::<U>(problem, args)?;
    let layout = Layout::new(problem);
    pool.for_chunks(config.threads, out, CHUNK, |start, part| {
        each(
            &layout,
            start,
            part,
            |[chooses, first, second]| if mask[chooses] { yes[first] } else { no[second] },
        );
    });
    Ok(())
}
