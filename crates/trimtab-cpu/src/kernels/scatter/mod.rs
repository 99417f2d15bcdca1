//! Elements of `outer × len × inner`, with others along the axis added where their indices say.
//!
//! The order of additions to one element, and so its rounding:
//! - `owned` and `sorted` add in the order of the indices, with any number of threads: the same bits every time;
//! - `privatised` adds parts of the indices, then the parts: the same bits every time for the same setting;
//! - `atomic` adds as threads come by: integers are the same, floats may differ in their last digits from call to call.

mod atomic;
mod owned;
mod privatised;
mod reference;
mod sorted;

use crate::args::Args;
use crate::kernels::Kernels;
use crate::kernels::indices::{Index, checked};
use crate::pool::Pool;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering};
use trimtab_core::{Bytes, DType, Decline, Flops, LaunchError, Problem, Scatter, erase};
use trimtab_operands::{Element, Slice};

/// The kernels in order of preference, the reference last.
pub fn kernels() -> Kernels {
    vec![
        erase(owned::OwnedKernel),
        erase(sorted::SortedKernel),
        erase(privatised::PrivatisedKernel),
        erase(atomic::AtomicKernel),
        erase(reference::ReferenceKernel),
    ]
}

/// Elements that are added up in their own type.
trait Summed: Element + bytemuck::Pod {
    /// The same, shared by threads that add to it.
    type Shared: Sync;
    /// The sum; wraps for integers.
    fn plus(self, other: Self) -> Self;
    /// Adds to one that others add to as well.
    fn add_to(self, place: &Self::Shared);
}

macro_rules! floats {
    ($($float:ty, $shared:ty;)*) => {$(
        impl Summed for $float {
            type Shared = $shared;
            #[inline(always)]
            fn plus(self, other: $float) -> $float {
                self + other
            }
            #[inline(always)]
            fn add_to(self, place: &$shared) {
                let mut before = place.load(Ordering::Relaxed);
                loop {
                    let sum = (<$float>::from_bits(before) + self).to_bits();
                    match place.compare_exchange_weak(before, sum, Ordering::Relaxed, Ordering::Relaxed) {
                        Ok(_) => return,
                        Err(found) => before = found,
                    }
                }
            }
        }
    )*};
}
floats! { f32, AtomicU32; f64, AtomicU64; }

macro_rules! integers {
    ($($integer:ty, $shared:ty;)*) => {$(
        impl Summed for $integer {
            type Shared = $shared;
            #[inline(always)]
            fn plus(self, other: $integer) -> $integer {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn add_to(self, place: &$shared) {
                place.fetch_add(self, Ordering::Relaxed);
            }
        }
    )*};
}
integers! { i32, AtomicI32; i64, AtomicI64; }

/// The same for the element types that have kernels.
macro_rules! by_summed {
    ($problem:expr, $type:ident => $run:expr) => {
        match $problem.dtype {
            trimtab_core::DType::F32 => {
                type $type = f32;
                $run
            }
            trimtab_core::DType::F64 => {
                type $type = f64;
                $run
            }
            trimtab_core::DType::I32 => {
                type $type = i32;
                $run
            }
            trimtab_core::DType::I64 => {
                type $type = i64;
                $run
            }
            dtype => Err($crate::kernels::elements::not_here(dtype)),
        }
    };
}
use by_summed;

/// Why no kernel but the reference takes elements of a type.
fn not_summed(dtype: DType) -> Option<Decline> {
    let other = || Decline::from(format!("does not add up {dtype}"));
    (!matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64)).then(other)
}

/// Operands whose lengths and indices are right, and the sizes.
struct Adding<'a, T, I> {
    data: &'a [T],
    indices: &'a [I],
    added: &'a [T],
    out: &'a mut [T],
    pool: &'a Pool,
    outer: usize,
    len: usize,
    inner: usize,
    count: usize,
}

fn given<'a, T: Element, I: Index>(
    problem: &Scatter,
    args: Args<'a>,
) -> Result<Adding<'a, T, I>, LaunchError> {
    args.check(&Problem::from(*problem))?;
    let Args { inputs, out, pool } = args;
    let of = |place: usize| inputs.get(place).copied().unwrap_or(Slice::None);
    let [outer, len, inner, count] =
        [problem.outer, problem.len, problem.inner, problem.count].map(|size| size as usize);
    // Where nothing is added to no index is looked at: the axis is not kept then.
    let indices: &[I] = if out.is_empty() { &[] } else { checked(of(1), problem.len)? };
    let [data, added] = [0, 2].map(|place| T::slice(of(place)).unwrap_or_default());
    let out = T::slice_mut(out).unwrap_or_default();
    Ok(Adding { data, indices, added, out, pool, outer, len, inner, count })
}

/// Adds row to row.
#[inline(always)]
fn add_row<T: Summed>(to: &mut [T], from: &[T]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = to.plus(*from));
}

/// Additions, and what is moved: the elements, what is added and where to, each read and written.
fn counted(problem: &Scatter) -> (Flops, Bytes) {
    let size = problem.dtype.size();
    let whole = problem.input_len().saturating_mul(2 * size);
    let added = problem.along_count().saturating_mul(3 * size);
    let indices = problem.indices().saturating_mul(2 * problem.index.size());
    (Flops(problem.along_count()), Bytes(whole.saturating_add(added).saturating_add(indices)))
}
