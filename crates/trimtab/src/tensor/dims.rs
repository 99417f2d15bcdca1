//! Sizes and strides: how elements lie, and how much memory they take.

use crate::buffers;
use crate::error::Error;
use trimtab_core::{Bytes, DType};
use trimtab_operands::Data;

/// The most dimensions a tensor has.
pub const MAX_TENSOR_RANK: usize = 8;
/// Allocations from this size on are asked for before they are made, so that a refusal is an error and not the end.
const CAREFUL_BYTES: u64 = 64 << 20;

/// Sizes or strides of up to [`MAX_TENSOR_RANK`] dimensions, kept in place so that views do not allocate.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Dims<N> {
    pub(super) values: [N; MAX_TENSOR_RANK],
    rank: u8,
}

impl<N: Copy + Default> Default for Dims<N> {
    fn default() -> Self {
        Dims { values: [N::default(); MAX_TENSOR_RANK], rank: 0 }
    }
}

impl<N: Copy + Default> Dims<N> {
    pub(crate) fn new(values: &[N]) -> Option<Dims<N>> {
        let mut dims = Dims { values: [N::default(); MAX_TENSOR_RANK], rank: values.len() as u8 };
        dims.values.get_mut(..values.len())?.copy_from_slice(values);
        Some(dims)
    }

    pub(crate) fn as_slice(&self) -> &[N] {
        &self.values[..self.rank as usize]
    }

    /// In the opposite order.
    pub(super) fn reverse(&mut self) {
        self.values[..self.rank as usize].reverse();
    }
}

impl<N: Copy + Default> std::ops::Deref for Dims<N> {
    type Target = [N];

    fn deref(&self) -> &[N] {
        self.as_slice()
    }
}

/// A shape as a tensor keeps it.
pub(crate) fn dims(shape: &[usize]) -> Result<Dims<usize>, Error> {
    Dims::new(shape).ok_or_else(|| Error::Rank { shape: shape.to_vec() })
}

/// The strides of elements in row-major order.
pub(super) fn row_major(shape: &[usize]) -> Result<(Dims<usize>, Dims<isize>), Error> {
    let sizes = dims(shape)?;
    let mut strides = Dims { values: [0isize; MAX_TENSOR_RANK], rank: sizes.rank };
    let mut stride = 1isize;
    for axis in (0..shape.len()).rev() {
        strides.values[axis] = stride;
        stride = stride.saturating_mul(shape[axis] as isize);
    }
    Ok((sizes, strides))
}

/// Whether elements lie in row-major order without gaps.
pub(super) fn is_dense(mut dims: impl DoubleEndedIterator<Item = (usize, isize)>) -> bool {
    let mut expected = 1isize;
    let mut empty = false;
    let in_order = dims.by_ref().rev().all(|(size, stride)| {
        empty |= size == 0;
        let fits = size <= 1 || stride == expected;
        expected = expected.saturating_mul(size as isize);
        fits
    });
    in_order || empty
}

/// Whether these name every axis of so many once.
pub(crate) fn names_each_once(axes: &[usize], rank: usize) -> bool {
    let mut seen = [false; MAX_TENSOR_RANK];
    axes.len() == rank
        && axes.iter().all(|&axis| axis < axes.len() && !std::mem::replace(&mut seen[axis], true))
}

/// How many elements a shape has, if they can be addressed.
pub(crate) fn element_count(dtype: DType, shape: &[usize]) -> Result<usize, Error> {
    if shape.len() > MAX_TENSOR_RANK {
        return Err(Error::Rank { shape: shape.to_vec() });
    }
    // Sizes beside a zero must be addressable too: strides and products of some of the sizes are counted with.
    let size = dtype.size() as usize;
    let bytes = shape.iter().try_fold(size, |product, &size| product.checked_mul(size.max(1)));
    match bytes {
        Some(bytes) if bytes <= isize::MAX as usize => Ok(if shape.contains(&0) { 0 } else { bytes / size }),
        _ => Err(Error::TooLarge { shape: shape.to_vec(), dtype }),
    }
}

/// That many zeros, or an error if the memory is not to be had.
pub(crate) fn allocate(dtype: DType, count: usize) -> Result<Data, Error> {
    can_allocate(dtype, count)?;
    Ok(Data::zeros(dtype, count))
}

/// A place for that many results: what it holds is to be overwritten.
pub(crate) fn allocate_result(dtype: DType, count: usize) -> Result<Data, Error> {
    match buffers::take(dtype, count) {
        Some(buffer) => Ok(buffer),
        None => allocate(dtype, count),
    }
}

/// Whether memory for that many elements is to be had.
pub(crate) fn can_allocate(dtype: DType, count: usize) -> Result<(), Error> {
    let bytes = (count as u64).saturating_mul(dtype.size());
    if bytes >= CAREFUL_BYTES {
        // Zeroed memory straight from the system is free until touched, but cannot be asked for politely: ask first.
        let mut asked: Vec<u8> = Vec::new();
        let short = |_| Error::OutOfMemory { bytes: Bytes(bytes) };
        asked.try_reserve_exact(usize::try_from(bytes).unwrap_or(usize::MAX)).map_err(short)?;
    }
    Ok(())
}
