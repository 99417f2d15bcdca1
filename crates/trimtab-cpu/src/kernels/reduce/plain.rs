//! Reductions of every element type that has no kernels of its own: 16-bit floats, truth values, whole numbers other than i32, complex
//! numbers. Several results, or several parts of one, are kept at a time, so that the compiler makes vectors of the loops.

use super::{bytes_walked, lens};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elements::not_here;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::halves::Half;
use crate::kernels::shared_work;
use std::sync::Mutex;
use trimtab_core::{DType, Decline, DeviceFacts, Flops, LaunchError, Reduce, ReduceOp, Variant, Work};
use trimtab_operands::{Complex, Element, bf16, f16};

trimtab_core::config! {
    /// Threads.
    pub struct PlainConfig { threads }
}

/// Elements from which a second thread can pay.
const SHAREABLE: u64 = 64 << 10;
/// Parts of a row, or results side by side, that are kept at a time.
const TOGETHER: usize = 16;
/// Results of neighbouring columns that are kept at a time.
const COLUMNS: usize = 256;

/// See the module.
#[derive(Debug)]
pub struct PlainKernel;

/// An element type, what its reductions are kept in, and what they give.
trait Plain: Element {
    /// What a sum or product is kept in.
    type Kept: Copy + Send + Sync;
    /// Of nothing.
    fn start<const OP: u8>() -> Self::Kept;
    /// One more element.
    fn step<const OP: u8>(kept: Self::Kept, value: Self) -> Self::Kept;
    /// Two parts.
    fn merge<const OP: u8>(a: Self::Kept, b: Self::Kept) -> Self::Kept;
    /// A sum, mean or product of so many.
    fn total(op: ReduceOp, kept: Self::Kept, len: usize) -> Result<Self::Total, LaunchError>;
    /// The least or largest.
    fn extreme(kept: Self::Kept) -> Self;
}

const SUM: u8 = ReduceOp::Sum as u8;
const PROD: u8 = ReduceOp::Prod as u8;
const MIN: u8 = ReduceOp::Min as u8;
const MAX: u8 = ReduceOp::Max as u8;

macro_rules! whole_numbers {
    ($($type:ty, $kept:ident;)*) => {
        $(impl Plain for $type {
            type Kept = $kept;
            #[inline(always)]
            fn start<const OP: u8>() -> $kept {
                match OP {
                    SUM => 0,
                    PROD => 1,
                    MIN => <$kept>::MAX,
                    _ => <$kept>::MIN,
                }
            }
            #[inline(always)]
            fn step<const OP: u8>(kept: $kept, value: $type) -> $kept {
                Self::merge::<OP>(kept, <$kept>::from(value))
            }
            #[inline(always)]
            fn merge<const OP: u8>(a: $kept, b: $kept) -> $kept {
                match OP {
                    // Fewer than 2⁶³ of the smaller ones are counted exactly, and of 64 bits in twice as many.
                    SUM => a.wrapping_add(b),
                    // Past the range: no product of these elements is this number, whose factors are larger than they are.
                    PROD if a == $kept::MIN + 1 || b == $kept::MIN + 1 => if a == 0 || b == 0 { 0 } else { $kept::MIN + 1 },
                    PROD => a.checked_mul(b).unwrap_or($kept::MIN + 1),
                    MIN => a.min(b),
                    _ => a.max(b),
                }
            }
            fn total(op: ReduceOp, kept: $kept, _: usize) -> Result<i64, LaunchError> {
                let past = op == ReduceOp::Prod && kept == $kept::MIN + 1;
                i64::try_from(kept).ok().filter(|_| !past).ok_or(LaunchError::Overflow { dtype: "i64" })
            }
            #[inline(always)]
            fn extreme(kept: $kept) -> $type {
                // It is one of the elements, or there were none.
                kept as $type
            }
        })*
    };
}
whole_numbers! { i8, i64; u8, i64; i16, i64; u32, i64; i64, i128; }

impl Plain for bool {
    type Kept = i64;
    #[inline(always)]
    fn start<const OP: u8>() -> i64 {
        i64::from(matches!(OP, PROD | MIN))
    }
    #[inline(always)]
    fn step<const OP: u8>(kept: i64, value: bool) -> i64 {
        Self::merge::<OP>(kept, i64::from(value))
    }
    #[inline(always)]
    fn merge<const OP: u8>(a: i64, b: i64) -> i64 {
        match OP {
            SUM => a + b,
            PROD | MIN => a & b,
            _ => a | b,
        }
    }
    fn total(_: ReduceOp, kept: i64, _: usize) -> Result<i64, LaunchError> {
        Ok(kept)
    }
    #[inline(always)]
    fn extreme(kept: i64) -> bool {
        kept != 0
    }
}

macro_rules! halves {
    ($($type:ty),*) => {
        $(impl Plain for $type {
            type Kept = f64;
            #[inline(always)]
            fn start<const OP: u8>() -> f64 {
                match OP {
                    SUM => 0.0,
                    PROD => 1.0,
                    MIN => f64::INFINITY,
                    _ => f64::NEG_INFINITY,
                }
            }
            #[inline(always)]
            fn step<const OP: u8>(kept: f64, value: $type) -> f64 {
                Self::merge::<OP>(kept, f64::from(Half::to_f32(value)))
            }
            #[inline(always)]
            fn merge<const OP: u8>(a: f64, b: f64) -> f64 {
                match OP {
                    SUM => a + b,
                    PROD => a * b,
                    // What is not a number wins.
                    MIN => if b < a || b.is_nan() { b } else { a },
                    _ => if b > a || b.is_nan() { b } else { a },
                }
            }
            fn total(op: ReduceOp, kept: f64, len: usize) -> Result<$type, LaunchError> {
                let by = if op == ReduceOp::Mean { len as f64 } else { 1.0 };
                Ok(<$type>::from_f64(kept / by))
            }
            #[inline(always)]
            fn extreme(kept: f64) -> $type {
                <$type>::from_f64(kept)
            }
        })*
    };
}
halves!(f16, bf16);

macro_rules! complex {
    ($($type:ty),*) => {
        $(impl Plain for Complex<$type> {
            type Kept = Complex<f64>;
            #[inline(always)]
            fn start<const OP: u8>() -> Complex<f64> {
                Complex::new(if OP == PROD { 1.0 } else { 0.0 }, 0.0)
            }
            #[inline(always)]
            fn step<const OP: u8>(kept: Complex<f64>, value: Self) -> Complex<f64> {
                Self::merge::<OP>(kept, Complex::new(value.re.into(), value.im.into()))
            }
            #[inline(always)]
            fn merge<const OP: u8>(a: Complex<f64>, b: Complex<f64>) -> Complex<f64> {
                if OP == PROD { a * b } else { a + b }
            }
            fn total(op: ReduceOp, kept: Complex<f64>, len: usize) -> Result<Self, LaunchError> {
                let by = if op == ReduceOp::Mean { len as f64 } else { 1.0 };
                Ok(Complex::new((kept.re / by) as $type, (kept.im / by) as $type))
            }
            fn extreme(_: Complex<f64>) -> Self {
                // Complex numbers have no order; nobody asks.
                Complex::default()
            }
        })*
    };
}
complex!(f32, f64);

/// With the type of the elements this kernel is for.
macro_rules! by_plain {
    ($dtype:expr, $type:ident => $run:expr) => {
        match $dtype {
            DType::F16 => by_plain!(@as f16, $type => $run),
            DType::Bf16 => by_plain!(@as bf16, $type => $run),
            DType::Bool => by_plain!(@as bool, $type => $run),
            DType::I8 => by_plain!(@as i8, $type => $run),
            DType::U8 => by_plain!(@as u8, $type => $run),
            DType::I16 => by_plain!(@as i16, $type => $run),
            DType::U32 => by_plain!(@as u32, $type => $run),
            DType::I64 => by_plain!(@as i64, $type => $run),
            DType::Complex64 => by_plain!(@as Complex<f32>, $type => $run),
            DType::Complex128 => by_plain!(@as Complex<f64>, $type => $run),
            dtype => Err(not_here(dtype)),
        }
    };
    (@as $as:ty, $type:ident => $run:expr) => {{
        type $type = $as;
        $run
    }};
}

impl Variant<Cpu> for PlainKernel {
    type Problem = Reduce;
    type Config = PlainConfig;

    identity!("cpu.reduce.plain", Parallel);

    fn takes(&self, dtype: DType) -> bool {
        !matches!(dtype, DType::F32 | DType::F64 | DType::I32)
    }

    fn declines(&self, problem: &Reduce, _: &DeviceFacts) -> Option<Decline> {
        let other = || Decline::from(format!("{} has kernels of its own", problem.dtype));
        (!self.takes(problem.dtype)).then(other)
    }

    fn configs(&self, problem: &Reduce, device: &DeviceFacts) -> Vec<PlainConfig> {
        let threads = thread_counts(device, problem.input_len() >= SHAREABLE, 3);
        threads.into_iter().map(|threads| PlainConfig { threads }).collect()
    }

    fn work(&self, problem: &Reduce, config: PlainConfig, _: &DeviceFacts) -> Work {
        shared_work(Flops(problem.input_len()), bytes_walked(problem), config.threads, 4)
    }

    fn launch(&self, problem: &Reduce, config: PlainConfig, args: Args<'_>) -> Launched {
        by_plain!(problem.dtype, T => launch::<T>(problem, config, args))
    }
}

fn launch<T: Plain>(problem: &Reduce, config: PlainConfig, args: Args<'_>) -> Launched {
    let total = |kept: T::Kept| T::total(problem.op, kept, problem.len as usize);
    match problem.op {
        ReduceOp::Sum | ReduceOp::Mean => run::<T, T::Total, SUM>(problem, config, args, total),
        ReduceOp::Prod => run::<T, T::Total, PROD>(problem, config, args, total),
        ReduceOp::Min => run::<T, T, MIN>(problem, config, args, |kept| Ok(T::extreme(kept))),
        ReduceOp::Max => run::<T, T, MAX>(problem, config, args, |kept| Ok(T::extreme(kept))),
    }
}

fn run<T: Plain, U: Element, const OP: u8>(
    problem: &Reduce,
    config: PlainConfig,
    args: Args<'_>,
    finish: impl Fn(T::Kept) -> Result<U, LaunchError> + Sync,
) -> Launched {
    let [input_len, _, out_len] = lens(problem)?;
    let (input, out, pool) = args.mixed::<T, U>([input_len, out_len])?;
    let (len, inner, threads) =
        (problem.len as usize, problem.inner as usize, config.threads.max(1) as usize);
    let failed = Mutex::new(None);
    let set = |out: &mut U, kept: T::Kept| match finish(kept) {
        Ok(value) => *out = value,
        Err(error) => {
            failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
        }
    };
    if inner > 1 {
        // Neighbouring columns together.
        let (blocks, all) = (inner.div_ceil(COLUMNS), Disjoint::new(out));
        pool.run(config.threads, problem.outer as usize * blocks, &|task| {
            let (outer, first) = (task / blocks, task % blocks * COLUMNS);
            let count = COLUMNS.min(inner - first);
            let mut kept = [T::start::<OP>(); COLUMNS];
            for step in 0..len {
                let from = (outer * len + step) * inner + first;
                let row = &input[from..from + count];
                kept.iter_mut().zip(row).for_each(|(kept, &value)| *kept = T::step::<OP>(*kept, value));
            }
            // SAFETY: every task has its own results.
            let out = unsafe { all.part(outer * inner + first..outer * inner + first + count) };
            out.iter_mut().zip(kept).for_each(|(out, kept)| set(out, kept));
        });
    } else if out.len() >= 4 * threads || threads == 1 || len < threads {
        let (share, all, results) =
            (out.len().div_ceil(threads).max(1), Disjoint::new(out), problem.outer as usize);
        pool.run(config.threads, results.div_ceil(share), &|task| {
            let range = task * share..results.min((task + 1) * share);
            // SAFETY: every task has its own results.
            let out = unsafe { all.part(range.clone()) };
            for (nth, out) in range.zip(out) {
                set(out, row::<T, OP>(&input[nth * len..(nth + 1) * len]));
            }
        });
    } else {
        // Few long rows: each is divided among the threads.
        for (nth, out) in out.iter_mut().enumerate() {
            let line = &input[nth * len..(nth + 1) * len];
            let share = len.div_ceil(threads);
            let kept = Mutex::new(T::start::<OP>());
            pool.run(config.threads, len.div_ceil(share), &|task| {
                let part = row::<T, OP>(&line[task * share..len.min((task + 1) * share)]);
                let mut kept = kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                *kept = T::merge::<OP>(*kept, part);
            });
            set(out, kept.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner));
        }
    }
    match failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// A contiguous row.
#[inline(always)]
fn row<T: Plain, const OP: u8>(line: &[T]) -> T::Kept {
    let mut kept = [T::start::<OP>(); TOGETHER];
    let (whole, rest) = line.as_chunks::<TOGETHER>();
    for part in whole {
        kept.iter_mut().zip(part).for_each(|(kept, &value)| *kept = T::step::<OP>(*kept, value));
    }
    let all = kept.into_iter().fold(T::start::<OP>(), T::merge::<OP>);
    rest.iter().fold(all, |kept, &value| T::step::<OP>(kept, value))
}

/// One result after the other, one element after the other: the yardstick.
pub(super) fn reference(problem: &Reduce, args: Args<'_>) -> Launched {
    fn run<T: Plain, U: Element, const OP: u8>(
        problem: &Reduce,
        args: Args<'_>,
        finish: impl Fn(T::Kept) -> Result<U, LaunchError>,
    ) -> Launched {
        let [input_len, _, out_len] = lens(problem)?;
        let (input, out, _) = args.mixed::<T, U>([input_len, out_len])?;
        let (len, inner) = (problem.len as usize, problem.inner as usize);
        for (index, out) in out.iter_mut().enumerate() {
            let first = index / inner * len * inner + index % inner;
            let elements = (0..len).map(|step| input[first + step * inner]);
            *out = finish(elements.fold(T::start::<OP>(), T::step::<OP>))?;
        }
        Ok(())
    }
    fn by_op<T: Plain>(problem: &Reduce, args: Args<'_>) -> Launched {
        let total = |kept: T::Kept| T::total(problem.op, kept, problem.len as usize);
        match problem.op {
            ReduceOp::Sum | ReduceOp::Mean => run::<T, T::Total, SUM>(problem, args, total),
            ReduceOp::Prod => run::<T, T::Total, PROD>(problem, args, total),
            ReduceOp::Min => run::<T, T, MIN>(problem, args, |kept| Ok(T::extreme(kept))),
            ReduceOp::Max => run::<T, T, MAX>(problem, args, |kept| Ok(T::extreme(kept))),
        }
    }
    by_plain!(problem.dtype, T => by_op::<T>(problem, args))
}
