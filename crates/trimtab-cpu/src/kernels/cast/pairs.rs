//! Element by element by one instruction or a few, for the pairs of types that are cast most: the compiler makes vectors of each loop.

use super::blocks::checked;
use crate::args::{Args, Cpu, Launched};
use crate::kernels::elements::not_here;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::shared_work;
use crate::pool::Pool;
use trimtab_core::{Cast, DType, Decline, DeviceFacts, Variant, Work};
use trimtab_operands::{Slice, SliceMut};

trimtab_core::config! {
    /// Threads.
    pub struct PairsConfig { threads }
}

/// Elements a thread takes at once.
const CHUNK: usize = 16 << 10;
/// Elements from which a second thread can pay.
const SHAREABLE: u64 = 64 << 10;

/// See the module.
#[derive(Debug)]
pub struct PairsKernel;

/// Every pair, once: its types' names, and how one becomes the other.
macro_rules! pairs {
    ($use:ident) => {
        $use! {
            F32 f32 => F64 f64, I32 i32, I64 i64, U8 u8, I8 i8;
            F64 f64 => F32 f32, I32 i32, I64 i64, U8 u8;
            I32 i32 => F32 f32, F64 f64, I64 i64, U8 u8, I8 i8;
            I64 i64 => F32 f32, F64 f64, I32 i32;
            U8 u8 => F32 f32, F64 f64, I32 i32, I64 i64;
            I8 i8 => F32 f32, F64 f64, I32 i32, I64 i64;
        }
    };
}

fn takes(problem: &Cast) -> bool {
    macro_rules! list {
        ($($from:ident $t:ty => $($to:ident $u:ty),*;)*) => {
            matches!((problem.dtype, problem.to), $($((DType::$from, DType::$to))|*)|*)
        };
    }
    pairs!(list)
}

impl Variant<Cpu> for PairsKernel {
    type Problem = Cast;
    type Config = PairsConfig;

    identity!("cpu.cast.pairs", Vectorized);

    fn takes(&self, _: DType) -> bool {
        true
    }

    fn declines(&self, problem: &Cast, _: &DeviceFacts) -> Option<Decline> {
        let other = || Decline::from(format!("has no loop from {} to {}", problem.dtype, problem.to));
        (!takes(problem)).then(other)
    }

    fn configs(&self, problem: &Cast, device: &DeviceFacts) -> Vec<PairsConfig> {
        let threads = thread_counts(device, problem.len >= SHAREABLE, 3);
        threads.into_iter().map(|threads| PairsConfig { threads }).collect()
    }

    fn work(&self, problem: &Cast, config: PairsConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = super::counted(problem);
        shared_work(flops, bytes, config.threads, 4)
    }

    fn launch(&self, problem: &Cast, config: PairsConfig, args: Args<'_>) -> Launched {
        let (input, out, pool) = (checked(problem, &args)?, args.out, args.pool);
        macro_rules! run {
            ($($from:ident $t:ty => $($to:ident $u:ty),*;)*) => {
                match (input, out) {
                    // No elements.
                    (Slice::None, _) if problem.len == 0 => Ok(()),
                    $($((Slice::$from(input), SliceMut::$to(out)) => {
                        each(config.threads, pool, input, out, |value: $t| value as $u)
                    })*)*
                    _ => Err(not_here(problem.dtype)),
                }
            };
        }
        pairs!(run)
    }
}

fn each<T: Copy + Sync, U: Send>(
    threads: u32,
    pool: &Pool,
    input: &[T],
    out: &mut [U],
    cast: impl Fn(T) -> U + Sync,
) -> Launched {
    pool.for_chunks(threads, out, CHUNK, |start, part| {
        part.iter_mut().zip(&input[start..]).for_each(|(out, &value)| *out = cast(value));
    });
    Ok(())
}
