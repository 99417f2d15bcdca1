//! Sorting along the middle of `outer × len × inner`: elements as whole numbers in the same order, sorted, and turned back.
//!
//! Semantics every kernel shares: what is not a number comes last, in either direction, and loses its payload; negative zero is equal
//! to zero.

mod apart;
pub(super) mod merge;
mod network;
mod radix;
mod reference;
mod rows;

use crate::kernels::Kernels;
use crate::simd::Levels;
use trimtab_core::{Bytes, Flops, LaunchError, Sort, erase};
use trimtab_operands::Element;

/// The kernels in order of preference, the reference last.
pub fn kernels() -> Kernels {
    let (level, lanes) = Levels::detect().widest();
    vec![
        erase(rows::RowsKernel),
        erase(network::NetworkKernel { level, lanes }),
        erase(radix::RadixKernel),
        erase(merge::MergeKernel),
        erase(apart::ApartKernel),
        erase(reference::ReferenceKernel),
    ]
}

/// An element type that is sorted as whole numbers of its size.
pub(super) trait Sortable: Element + PartialOrd + bytemuck::Pod {
    /// The whole numbers.
    type Key: Copy + Ord + Default + Send + Sync + bytemuck::Pod;
    /// Bytes of one.
    const BYTES: u32;
    /// The number of an element.
    fn key(self, descending: bool) -> Self::Key;
    /// The element of a number.
    fn element(key: Self::Key, descending: bool) -> Self;
    /// The digit of a number from that byte on.
    fn digit(key: Self::Key, byte: u32) -> usize;
}

macro_rules! sortable {
    ($type:ty, $key:ty, $float:literal) => {
        impl Sortable for $type {
            type Key = $key;
            const BYTES: u32 = <$key>::BITS / 8;
            #[inline(always)]
            fn key(self, descending: bool) -> $key {
                let bits: $key = bytemuck::cast(self);
                let sign = bits >> (<$key>::BITS - 1);
                // Numbers below zero backwards, the others behind them; integers only move.
                let key = match $float {
                    true => bits ^ ((<$key>::MAX * sign) | 1 << (<$key>::BITS - 1)),
                    false => bits ^ 1 << (<$key>::BITS - 1),
                };
                #[allow(clippy::eq_op, reason = "true of what is not a number")]
                match (self != self, descending) {
                    (true, _) => <$key>::MAX,
                    (false, true) => !key,
                    (false, false) => key,
                }
            }
            #[inline(always)]
            fn element(key: $key, descending: bool) -> $type {
                if $float && key == <$key>::MAX {
                    return <$type as Element>::from_f64(f64::NAN);
                }
                let key = if descending { !key } else { key };
                let sign = key >> (<$key>::BITS - 1);
                bytemuck::cast(match $float {
                    true => key ^ ((<$key>::MAX * (1 - sign)) | 1 << (<$key>::BITS - 1)),
                    false => key ^ 1 << (<$key>::BITS - 1),
                })
            }
            #[inline(always)]
            fn digit(key: $key, byte: u32) -> usize {
                (key >> (8 * byte) & 0xff) as usize
            }
        }
    };
}
sortable!(f32, u32, true);
sortable!(f64, u64, true);
sortable!(i32, u32, false);

/// Sorts a row that lies in place of its result: as numbers, by `sort`, and back.
fn in_place<T: Sortable>(row: &mut [T], descending: bool, sort: impl FnOnce(&mut [T::Key])) {
    let len = row.len();
    // The sizes and alignments of elements and their numbers are the same.
    let keys: &mut [T::Key] = bytemuck::try_cast_slice_mut(row).unwrap_or_default();
    debug_assert_eq!(keys.len(), len);
    keys.iter_mut().for_each(|key| *key = T::key(bytemuck::cast(*key), descending));
    sort(keys);
    keys.iter_mut().for_each(|key| *key = bytemuck::cast(T::element(*key, descending)));
}

fn lens(problem: &Sort) -> Result<[u64; 3], LaunchError> {
    let len = problem.outer.checked_mul(problem.inner).and_then(|lines| lines.checked_mul(problem.len));
    len.map(|len| [len, 0, len])
        .ok_or_else(|| LaunchError::Kernel(format!("{problem} has more elements than can be counted")))
}

/// What sorting by comparing does: every element is compared and perhaps moved once a doubling of the row's length.
fn counted(problem: &Sort) -> (Flops, Bytes) {
    let flops = problem.flops().saturating_mul(4);
    (Flops(flops), Bytes(problem.len().saturating_mul(2).saturating_mul(problem.dtype.size())))
}
