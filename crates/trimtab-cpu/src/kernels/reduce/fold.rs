//! What a reduction does to its elements: identities, steps, merges, and the vector loop over a contiguous row.

use crate::simd::{Lane, Level, Simd, Task, Vector};
use std::marker::PhantomData;
use trimtab_core::{DType, LaunchError, Reduce, ReduceOp};

/// One way to reduce elements of `T`.
pub(in crate::kernels) trait Fold<T: Lane>: 'static {
    /// What is known of a part of the elements; parts merge in any grouping.
    type State: Copy + Send + Sync;
    /// What a short run of elements (at most 64) is accumulated in.
    type Run: Copy;
    /// Of nothing.
    const EMPTY: Self::State;
    /// Of nothing.
    const EMPTY_RUN: Self::Run;
    /// One more element.
    fn step(run: Self::Run, value: T) -> Self::Run;
    /// A finished run.
    fn absorb(state: Self::State, run: Self::Run) -> Self::State;
    /// Two parts.
    fn merge(a: Self::State, b: Self::State) -> Self::State;
    /// Whether a run may have overflown in the element type where the whole does not; then [`one_by_one`] is right.
    #[inline(always)]
    fn may_have_overflown(_: Self::State) -> bool {
        false
    }
    /// The result of `len` elements.
    fn finish(state: Self::State, len: usize) -> Result<T, LaunchError>;
    /// A contiguous row, `block` elements (where it matters) between absorptions.
    ///
    /// # Safety
    /// `from` must be readable for `len` elements.
    unsafe fn row<S: Simd, const UNROLL: usize>(
        simd: S,
        from: *const T,
        len: usize,
        block: usize,
    ) -> Self::State;
}

/// Something to do with the type of a fold.
pub(in crate::kernels) trait Visit<T: Lane> {
    /// What it answers.
    type Out;
    /// Does it.
    fn visit<F: Fold<T>>(self) -> Self::Out;
}

/// An element type with reductions.
pub(in crate::kernels) trait Foldable: Lane {
    /// Calls the visitor with the type of the operation's fold, or `None` where there is none.
    fn visit<V: Visit<Self>>(op: ReduceOp, visitor: V) -> Option<V::Out>;
}

pub(in crate::kernels) struct Sum;
pub(in crate::kernels) struct Mean;
pub(in crate::kernels) struct Prod;
pub(in crate::kernels) struct Min;
pub(in crate::kernels) struct Max;

macro_rules! foldable {
    ($($type:ty { $($op:ident)* })*) => {
        $(impl Foldable for $type {
            #[inline(always)]
            fn visit<V: Visit<$type>>(op: ReduceOp, visitor: V) -> Option<V::Out> {
                match op {
                    $(ReduceOp::$op => Some(visitor.visit::<$op>()),)*
                    #[allow(unreachable_patterns, reason = "floats have every reduction")]
                    _ => None,
                }
            }
        })*
    };
}
foldable! { f32 { Sum Mean Prod Min Max } f64 { Sum Mean Prod Min Max } i32 { Sum Prod Min Max } }

/// Whether the vector loop of the fold uses vectors: exact integer products are checked step by step.
pub(in crate::kernels) fn has_vector_form(problem: &Reduce) -> bool {
    !(problem.dtype == DType::I32 && matches!(problem.op, ReduceOp::Prod | ReduceOp::Mean))
}

/// The sum of two numbers and what was lost in rounding it (Knuth).
#[inline(always)]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

#[inline(always)]
pub(in crate::kernels) fn merge_sums(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    let (sum, lost) = two_sum(a.0, b.0);
    (sum, lost + a.1 + b.1)
}

/// What was lost is not a number once the sum has overflown or met an infinity.
#[inline(always)]
fn total((sum, lost): (f64, f64)) -> f64 {
    if sum.is_finite() { sum + lost } else { sum }
}

/// The sum of a contiguous row of `f32`: runs in `f32` lanes, widened to `f64` lanes after each block.
///
/// # Safety
/// `from` must be readable for `len` elements.
#[inline(always)]
unsafe fn sum_f32<S: Simd, const UNROLL: usize>(
    simd: S,
    from: *const f32,
    len: usize,
    block: usize,
) -> (f64, f64) {
    let lanes = <S::F32 as Vector<f32>>::LANES;
    let zero = S::F32::splat(simd, 0.0);
    let mut totals = [S::F64::splat(simd, 0.0); 2];
    let (step, mut i) = (lanes * UNROLL, 0);
    while i + step <= len {
        let end = len.min(i + block.max(step));
        let mut runs = [zero; UNROLL];
        while i + step <= end {
            for (u, run) in runs.iter_mut().enumerate() {
                // SAFETY: `i + step` is within the row.
                *run = run.add(unsafe { S::F32::load(simd, from.add(i + u * lanes)) });
            }
            i += step;
        }
        let (lower, upper) = simd.widen(pairwise::<f32, S, Plus, UNROLL>(zero, runs));
        totals = [totals[0].add(lower), totals[1].add(upper)];
    }
    while i + lanes <= len {
        // SAFETY: `i + lanes` is within the row.
        let (lower, upper) = simd.widen(unsafe { S::F32::load(simd, from.add(i)) });
        totals = [totals[0].add(lower), totals[1].add(upper)];
        i += lanes;
    }
    let mut state = (0.0, 0.0);
    while i < len {
        // SAFETY: `i` is within the row.
        state.0 += f64::from(unsafe { *from.add(i) });
        i += 1;
    }
    let mut buffer = [0.0; 8];
    // SAFETY: no vector of f64 has more than eight lanes.
    unsafe { totals[0].add(totals[1]).store(buffer.as_mut_ptr()) };
    for &value in &buffer[..lanes / 2] {
        state = merge_sums(state, (value, 0.0));
    }
    state
}

/// The sum of a contiguous row of `f64`: runs in lanes, blocks added with what rounding loses kept aside.
///
/// # Safety
/// `from` must be readable for `len` elements.
#[inline(always)]
unsafe fn sum_f64<S: Simd, const UNROLL: usize>(
    simd: S,
    from: *const f64,
    len: usize,
    block: usize,
) -> (f64, f64) {
    let lanes = <S::F64 as Vector<f64>>::LANES;
    let zero = S::F64::splat(simd, 0.0);
    let (mut sum, mut lost) = (zero, zero);
    let (step, mut i) = (lanes * UNROLL, 0);
    while i + step <= len {
        let end = len.min(i + block.max(step));
        let mut runs = [zero; UNROLL];
        while i + step <= end {
            for (u, run) in runs.iter_mut().enumerate() {
                // SAFETY: `i + step` is within the row.
                *run = run.add(unsafe { S::F64::load(simd, from.add(i + u * lanes)) });
            }
            i += step;
        }
        (sum, lost) = add_exactly::<S>(sum, lost, pairwise::<f64, S, Plus, UNROLL>(zero, runs));
    }
    while i + lanes <= len {
        // SAFETY: `i + lanes` is within the row.
        (sum, lost) = add_exactly::<S>(sum, lost, unsafe { S::F64::load(simd, from.add(i)) });
        i += lanes;
    }
    let mut state = (0.0, 0.0);
    while i < len {
        // SAFETY: `i` is within the row.
        state = merge_sums(state, (unsafe { *from.add(i) }, 0.0));
        i += 1;
    }
    let mut buffer = [[0.0; 8]; 2];
    // SAFETY: no vector of f64 has more than eight lanes.
    unsafe {
        sum.store(buffer[0].as_mut_ptr());
        lost.store(buffer[1].as_mut_ptr());
    }
    for (&sum, &lost) in buffer[0].iter().zip(&buffer[1]).take(lanes) {
        state = merge_sums(state, (sum, lost));
    }
    state
}

/// Lanewise `two_sum`, what was lost added up.
#[inline(always)]
fn add_exactly<S: Simd>(sum: S::F64, lost: S::F64, value: S::F64) -> (S::F64, S::F64) {
    let next = sum.add(value);
    let part = next.sub(sum);
    (next, lost.add(sum.sub(next.sub(part)).add(value.sub(part))))
}

/// Two vectors to one. Types and not closures: closures are compiled without the instruction set of the function they
/// stand in.
trait Combine<T: Lane> {
    fn combine<S: Simd>(a: T::Vec<S>, b: T::Vec<S>) -> T::Vec<S>;
}

struct Plus;
struct Times;

macro_rules! combine {
    ($($name:ident, $method:ident, $($type:ty)*;)*) => {
        $($(impl Combine<$type> for $name {
            #[inline(always)]
            fn combine<S: Simd>(a: <$type as Lane>::Vec<S>, b: <$type as Lane>::Vec<S>) -> <$type as Lane>::Vec<S> {
                a.$method(b)
            }
        })*)*
    };
}
combine! { Plus, add, f32 f64; Times, mul, f64; Min, min, f32 f64 i32; Max, max, f32 f64 i32; }

/// The accumulators of a block, combined in pairs.
#[inline(always)]
fn pairwise<T: Lane, S: Simd, C: Combine<T>, const N: usize>(
    empty: T::Vec<S>,
    runs: [T::Vec<S>; N],
) -> T::Vec<S> {
    match runs.as_slice() {
        &[a] => a,
        &[a, b, c, d] => C::combine::<S>(C::combine::<S>(a, b), C::combine::<S>(c, d)),
        &[a, b, c, d, e, f, g, h] => {
            let (a, c) = (C::combine::<S>(a, b), C::combine::<S>(c, d));
            let (e, g) = (C::combine::<S>(e, f), C::combine::<S>(g, h));
            C::combine::<S>(C::combine::<S>(a, c), C::combine::<S>(e, g))
        }
        others => {
            let mut all = empty;
            for &run in others {
                all = C::combine::<S>(all, run);
            }
            all
        }
    }
}

/// A contiguous row with a lanewise step and accumulators of the element type: min, max, products of `f64`.
///
/// # Safety
/// `from` must be readable for `len` elements.
#[inline(always)]
unsafe fn lanewise<T: Lane, S: Simd, C: Combine<T>, const UNROLL: usize>(
    simd: S,
    from: *const T,
    len: usize,
    empty: T,
    scalar: impl Fn(T, T) -> T,
) -> T {
    let lanes = <T::Vec<S> as Vector<T>>::LANES;
    let none = T::Vec::<S>::splat(simd, empty);
    let mut runs = [none; UNROLL];
    let (step, mut i) = (lanes * UNROLL, 0);
    while i + step <= len {
        for (u, run) in runs.iter_mut().enumerate() {
            // SAFETY: `i + step` is within the row.
            *run = C::combine::<S>(*run, unsafe { T::Vec::<S>::load(simd, from.add(i + u * lanes)) });
        }
        i += step;
    }
    while i + lanes <= len {
        // SAFETY: `i + lanes` is within the row.
        runs[0] = C::combine::<S>(runs[0], unsafe { T::Vec::<S>::load(simd, from.add(i)) });
        i += lanes;
    }
    let mut result = empty;
    while i < len {
        // SAFETY: `i` is within the row.
        result = scalar(result, unsafe { *from.add(i) });
        i += 1;
    }
    let mut buffer = [empty; crate::simd::MAX_LANES];
    // SAFETY: no vector has more than MAX_LANES lanes.
    unsafe { pairwise::<T, S, C, UNROLL>(none, runs).store(buffer.as_mut_ptr()) };
    buffer[..lanes].iter().fold(result, |result, &value| scalar(result, value))
}

/// A [`Fold`]: its state and its run with what they are of nothing, then each function as an expression.
macro_rules! fold {
    (
        $name:ident of $type:ident: $State:ty = $empty:expr, $Run:ty = $empty_run:expr,
        step |$run:ident, $value:ident| $step:expr,
        absorb |$state:ident, $part:ident| $absorb:expr,
        merge |$a:ident, $b:ident| $merge:expr,
        $(overflown |$all:ident| $overflown:expr,)?
        finish |$total:ident, $count:pat_param| $finish:expr,
        row |$simd:pat_param, $from:ident, $len:ident, $block:pat_param| $row:expr
    ) => {
        impl Fold<$type> for $name {
            type State = $State;
            type Run = $Run;
            const EMPTY: $State = $empty;
            const EMPTY_RUN: $Run = $empty_run;
            #[inline(always)]
            fn step($run: $Run, $value: $type) -> $Run {
                $step
            }
            #[inline(always)]
            fn absorb($state: $State, $part: $Run) -> $State {
                $absorb
            }
            #[inline(always)]
            fn merge($a: $State, $b: $State) -> $State {
                $merge
            }
            $(#[inline(always)]
            fn may_have_overflown($all: $State) -> bool {
                $overflown
            })?
            #[inline(always)]
            fn finish($total: $State, $count: usize) -> Result<$type, LaunchError> {
                $finish
            }
            #[inline(always)]
            unsafe fn row<S: Simd, const UNROLL: usize>(
                $simd: S,
                $from: *const $type,
                $len: usize,
                $block: usize,
            ) -> $State {
                // SAFETY: the caller's promise.
                unsafe { $row }
            }
        }
    };
}

macro_rules! float_sum {
    ($($type:ident, $name:ident, $row:ident, |$sum:ident, $count:pat_param| $finish:expr;)*) => {
        $(fold! {
            $name of $type: (f64, f64) = (0.0, 0.0), $type = 0.0,
            step |run, value| run + value,
            absorb |state, run| merge_sums(state, (f64::from(run), 0.0)),
            merge |a, b| merge_sums(a, b),
            overflown |sum| size_of::<$type>() < size_of::<f64>() && !sum.0.is_finite(),
            finish |$sum, $count| Ok($finish as $type),
            row |simd, from, len, block| $row::<S, UNROLL>(simd, from, len, block)
        })*
    };
}
float_sum! {
    f32, Sum, sum_f32, |sum, _| total(sum);
    f64, Sum, sum_f64, |sum, _| total(sum);
    f32, Mean, sum_f32, |sum, len| total(sum) / len as f64;
    f64, Mean, sum_f64, |sum, len| total(sum) / len as f64;
}

macro_rules! extreme {
    ($($type:ident, $name:ident, $empty:expr, |$a:ident, $b:ident| $first:expr, $label:literal;)*) => {
        $(fold! {
            $name of $type: $type = $empty, $type = $empty,
            step |$a, $b| if $first { $a } else { $b },
            absorb |$a, $b| if $first { $a } else { $b },
            merge |$a, $b| if $first { $a } else { $b },
            finish |state, len| match len {
                0 => Err(LaunchError::Kernel(concat!("the ", $label, " of nothing is undefined").to_string())),
                _ => Ok(state),
            },
            row |simd, from, len, _|
                lanewise::<$type, S, $name, UNROLL>(simd, from, len, $empty, <Self as Fold<$type>>::step)
        })*
    };
}
extreme! {
    f32, Min, f32::INFINITY, |a, b| a.is_nan() || a < b, "minimum";
    f32, Max, f32::NEG_INFINITY, |a, b| a.is_nan() || a > b, "maximum";
    f64, Min, f64::INFINITY, |a, b| a.is_nan() || a < b, "minimum";
    f64, Max, f64::NEG_INFINITY, |a, b| a.is_nan() || a > b, "maximum";
    i32, Min, i32::MAX, |a, b| a < b, "minimum";
    i32, Max, i32::MIN, |a, b| a > b, "maximum";
}

/// Products of `f32` are formed in `f64`, so that parts do not overflow where the whole does not.
macro_rules! float_prod {
    ($($type:ident, |$simd:ident, $from:ident, $len:ident| $row:expr;)*) => {
        $(fold! {
            Prod of $type: f64 = 1.0, f64 = 1.0,
            step |run, value| run * f64::from(value),
            absorb |state, run| state * run,
            merge |a, b| a * b,
            finish |product, _| Ok(product as $type),
            row |$simd, $from, $len, _| $row
        })*
    };
}
float_prod! {
    f32, |simd, from, len| prod_f32::<S, UNROLL>(simd, from, len);
    f64, |simd, from, len| lanewise::<f64, S, Times, UNROLL>(simd, from, len, 1.0, |a, b| a * b);
}

/// # Safety
/// `from` must be readable for `len` elements.
#[inline(always)]
unsafe fn prod_f32<S: Simd, const UNROLL: usize>(simd: S, from: *const f32, len: usize) -> f64 {
    let lanes = <S::F32 as Vector<f32>>::LANES;
    let mut runs = [[S::F64::splat(simd, 1.0); 2]; UNROLL];
    let (step, mut i) = (lanes * UNROLL, 0);
    while i + step <= len {
        for (u, run) in runs.iter_mut().enumerate() {
            // SAFETY: `i + step` is within the row.
            let (lower, upper) = simd.widen(unsafe { S::F32::load(simd, from.add(i + u * lanes)) });
            *run = [run[0].mul(lower), run[1].mul(upper)];
        }
        i += step;
    }
    let mut result = 1.0;
    while i < len {
        // SAFETY: `i` is within the row.
        result *= f64::from(unsafe { *from.add(i) });
        i += 1;
    }
    let mut buffer = [0.0; 8];
    for run in runs {
        // SAFETY: no vector of f64 has more than eight lanes.
        unsafe { run[0].mul(run[1]).store(buffer.as_mut_ptr()) };
        result = buffer[..lanes / 2].iter().fold(result, |a, &b| a * b);
    }
    result
}

/// An integer result, or that it does not fit.
#[inline(always)]
fn exact(value: i64) -> Result<i32, LaunchError> {
    i32::try_from(value).map_err(|_| LaunchError::Overflow { dtype: DType::I32.name() })
}

fold! {
    Sum of i32: i64 = 0, i64 = 0,
    // 2^31 elements of 2^31 are 2^62: no slice in memory gets past i64.
    step |run, value| run.wrapping_add(i64::from(value)),
    absorb |state, run| state.wrapping_add(run),
    merge |a, b| a.wrapping_add(b),
    finish |sum, _| exact(sum),
    // The compiler widens and adds with the vectors of the instruction set.
    row |_, from, len, _| std::slice::from_raw_parts(from, len)
        .iter()
        .fold(0, |sum, &value| <Sum as Fold<i32>>::step(sum, value))
}

/// One more than 2^31: no smaller in size can a product become once it is past an `i32`, except by a zero.
const TOO_LARGE: i64 = (1 << 31) + 1;

fold! {
    Prod of i32: i64 = 1, i64 = 1,
    step |run, value| <Prod as Fold<i32>>::merge(run, i64::from(value)),
    absorb |state, run| <Prod as Fold<i32>>::merge(state, run),
    merge |a, b| {
        // Both are at most TOO_LARGE in size, so the product fits; only a zero brings it back from there.
        let product = a * b;
        if product.unsigned_abs() > 1 << 31 { TOO_LARGE } else { product }
    },
    finish |product, _| exact(product),
    row |_, from, len, _| std::slice::from_raw_parts(from, len)
        .iter()
        .fold(1, |product, &value| <Prod as Fold<i32>>::step(product, value))
}

/// A contiguous row, compiled for an instruction set.
struct Row<'a, T, F, const UNROLL: usize>(&'a [T], usize, PhantomData<F>);

impl<T: Lane, F: Fold<T>, const UNROLL: usize> Task for Row<'_, T, F, UNROLL> {
    type Out = F::State;
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> F::State {
        // SAFETY: the slice is readable for its length.
        unsafe { F::row::<S, UNROLL>(simd, self.0.as_ptr(), self.0.len(), self.1) }
    }
}

/// Elements absorbed one by one: slow, and without runs that could overflow.
#[cold]
pub(in crate::kernels) fn one_by_one<T: Lane, F: Fold<T>>(elements: impl Iterator<Item = T>) -> F::State {
    elements.fold(F::EMPTY, |state, value| F::absorb(state, F::step(F::EMPTY_RUN, value)))
}

/// Reduces a contiguous row with that many accumulators (1, 4 or 8).
#[inline]
pub(in crate::kernels) fn reduce_row<T: Lane, F: Fold<T>>(
    level: Level,
    unroll: u32,
    block: usize,
    row: &[T],
) -> F::State {
    let state = match unroll {
        1 => level.vectorize(Row::<T, F, 1>(row, block, PhantomData)),
        8 => level.vectorize(Row::<T, F, 8>(row, block, PhantomData)),
        _ => level.vectorize(Row::<T, F, 4>(row, block, PhantomData)),
    };
    if F::may_have_overflown(state) { one_by_one::<T, F>(row.iter().copied()) } else { state }
}
