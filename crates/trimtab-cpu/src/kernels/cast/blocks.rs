//! In blocks that stay in the first cache: each is widened to f32, f64 or i64, which keeps every value, and narrowed from there, on
//! several threads.

use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elements::not_here;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::halves::Half;
use crate::kernels::shared_work;
use trimtab_core::{Cast, DType, Decline, DeviceFacts, LaunchError, Variant, Work};
use trimtab_operands::{Complex, Element, Slice, SliceMut, bf16, by_dtype, f16};

trimtab_core::config! {
    /// Threads.
    pub struct BlocksConfig { threads }
}

/// Elements of a block.
const BLOCK: usize = 512;
/// Blocks a thread takes at once.
const TAKEN: usize = 32;
/// Elements from which a second thread can pay.
const SHAREABLE: u64 = 64 << 10;

/// See the module.
#[derive(Debug)]
pub struct BlocksKernel;

impl Variant<Cpu> for BlocksKernel {
    type Problem = Cast;
    type Config = BlocksConfig;

    identity!("cpu.cast.blocks", Vectorized);

    fn takes(&self, _: DType) -> bool {
        true
    }

    fn declines(&self, _: &Cast, _: &DeviceFacts) -> Option<Decline> {
        None
    }

    fn configs(&self, problem: &Cast, device: &DeviceFacts) -> Vec<BlocksConfig> {
        let threads = thread_counts(device, problem.len >= SHAREABLE, 3);
        threads.into_iter().map(|threads| BlocksConfig { threads }).collect()
    }

    fn work(&self, problem: &Cast, config: BlocksConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = super::counted(problem);
        shared_work(flops, bytes, config.threads, 4)
    }

    fn launch(&self, problem: &Cast, config: BlocksConfig, args: Args<'_>) -> Launched {
        let input = checked(problem, &args)?;
        // One function for each type of the result and each that blocks are widened to: not for every pair of types.
        match problem.dtype {
            DType::F32 | DType::F16 | DType::Bf16 => {
                by_dtype!(problem.to, U => to::<f32, U>(config, input, args))
            }
            DType::F64 => by_dtype!(problem.to, U => to::<f64, U>(config, input, args)),
            dtype if dtype.is_complex() => match problem.to {
                DType::Complex64 => to::<Complex<f64>, Complex<f32>>(config, input, args),
                _ => to::<Complex<f64>, Complex<f64>>(config, input, args),
            },
            _ => by_dtype!(problem.to, U => to::<i64, U>(config, input, args)),
        }
    }
}

/// The operand, if it and the result are as the problem says.
pub(super) fn checked<'a>(problem: &Cast, args: &Args<'a>) -> Result<Slice<'a>, LaunchError> {
    let given = args.inputs.first().copied().unwrap_or(Slice::None);
    let is_it = given.dtype().is_none_or(|dtype| dtype == problem.dtype) && given.len() as u64 == problem.len;
    let dtype = given.dtype().map_or("nothing", DType::name);
    let (found, needed) = (given.len(), problem.len as usize);
    if !is_it {
        return Err(LaunchError::Operand { operand: "lhs", dtype, found, needed });
    }
    match args.out.dtype() == problem.to && args.out.len() as u64 == problem.len {
        true => Ok(given),
        false => Err(wrong_out(problem, args.out.len())),
    }
}

#[cold]
pub(super) fn wrong_out(problem: &Cast, found: usize) -> LaunchError {
    LaunchError::Operand { operand: "out", dtype: problem.to.name(), found, needed: problem.len as usize }
}

/// What a block is widened to.
trait Wide: Copy + Default + Send + Sync {
    /// Every element of a block, exact.
    fn widen(from: Slice<'_>, to: &mut [Self]);
    /// Every element of a block as another type.
    fn narrow<U: Element>(from: &[Self], to: &mut [U]);
}

impl Wide for i64 {
    fn widen(from: Slice<'_>, to: &mut [i64]) {
        fn each<T: Element>(from: &[T], to: &mut [i64]) {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = from.to_i64());
        }
        match from {
            Slice::Bool(from) => each(from, to),
            Slice::I8(from) => each(from, to),
            Slice::U8(from) => each(from, to),
            Slice::I16(from) => each(from, to),
            Slice::I32(from) => each(from, to),
            Slice::U32(from) => each(from, to),
            Slice::I64(from) => to.copy_from_slice(from),
            // Others are widened to floats.
            _ => (),
        }
    }
    fn narrow<U: Element>(from: &[i64], to: &mut [U]) {
        to.iter_mut().zip(from).for_each(|(to, &from)| *to = U::from_i64(from));
    }
}

impl Wide for f32 {
    fn widen(from: Slice<'_>, to: &mut [f32]) {
        match from {
            Slice::F32(from) => to.copy_from_slice(from),
            Slice::F16(from) => <f16 as Half>::widen(from, to),
            Slice::Bf16(from) => <bf16 as Half>::widen(from, to),
            // Others do not fit.
            _ => (),
        }
    }
    fn narrow<U: Element>(from: &[f32], to: &mut [U]) {
        match U::DTYPE {
            DType::F16 => {
                if let SliceMut::F16(to) = U::erase_mut(to) {
                    <f16 as Half>::narrow(from, to);
                }
            }
            DType::Bf16 => {
                if let SliceMut::Bf16(to) = U::erase_mut(to) {
                    <bf16 as Half>::narrow(from, to);
                }
            }
            _ => to.iter_mut().zip(from).for_each(|(to, &from)| *to = U::from_f64(f64::from(from))),
        }
    }
}

impl Wide for f64 {
    fn widen(from: Slice<'_>, to: &mut [f64]) {
        if let Slice::F64(from) = from {
            to.copy_from_slice(from);
        }
    }
    fn narrow<U: Element>(from: &[f64], to: &mut [U]) {
        to.iter_mut().zip(from).for_each(|(to, &from)| *to = U::from_f64(from));
    }
}

impl Wide for Complex<f64> {
    fn widen(from: Slice<'_>, to: &mut [Complex<f64>]) {
        match from {
            Slice::Complex128(from) => to.copy_from_slice(from),
            Slice::Complex64(from) => {
                to.iter_mut()
                    .zip(from)
                    .for_each(|(to, from)| *to = Complex::new(from.re.into(), from.im.into()));
            }
            // Others are real.
            _ => (),
        }
    }
    fn narrow<U: Element>(from: &[Complex<f64>], to: &mut [U]) {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = U::of_numbers([from.re, from.im]));
    }
}

fn to<W: Wide, U: Element>(config: BlocksConfig, input: Slice<'_>, args: Args<'_>) -> Launched {
    let (dtype, pool) = (args.out.dtype(), args.pool);
    let Some(out) = U::slice_mut(args.out) else { return Err(not_here(dtype)) };
    let (len, all) = (out.len(), Disjoint::new(out));
    pool.run(config.threads, len.div_ceil(BLOCK * TAKEN), &|task| {
        let first = task * BLOCK * TAKEN;
        let mut block = [W::default(); BLOCK];
        for start in (first..len.min(first + BLOCK * TAKEN)).step_by(BLOCK) {
            let end = len.min(start + BLOCK);
            let block = &mut block[..end - start];
            W::widen(input.part(start..end), block);
            // SAFETY: every task has its own blocks of the result.
            W::narrow::<U>(block, unsafe { all.part(start..end) });
        }
    });
    Ok(())
}
