//! Shaped data: owned, row-major, with views that share it.

use crate::buffers;
use crate::error::Error;
use crate::residency::{Resident, Room};
use crate::storage::Storage;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use trimtab_cpu::Element;

/// The most dimensions a tensor has.
pub const MAX_TENSOR_RANK: usize = 8;
/// Allocations from this size on are asked for before they are made, so that a refusal is an error and not the end.
const CAREFUL_BYTES: usize = 64 << 20;

/// Sizes or strides of up to [`MAX_TENSOR_RANK`] dimensions, kept in place so that views do not allocate.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Dims<N> {
    values: [N; MAX_TENSOR_RANK],
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
}

impl<N: Copy + Default> std::ops::Deref for Dims<N> {
    type Target = [N];

    fn deref(&self) -> &[N] {
        self.as_slice()
    }
}

/// Numbers with a shape. Cloning and taking views share the data; writing to shared data copies it first.
///
/// The data of a result may be on a device. It is fetched once, when it is first read: by [`Tensor::as_slice`],
/// [`Tensor::to_vec`], [`Tensor::get`], [`Tensor::item`], by printing or comparing, and by operations of a
/// [`Runtime`](crate::Runtime). Should the device be lost before, those that return an error do, and the others find no
/// elements; [`Tensor::fetched`] says why.
///
/// ```
/// use trimtab::Tensor;
/// let a = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
/// let column = a.slice(1, 0..1)?;
/// assert_eq!(column.to_vec(), [1.0, 4.0]);
/// assert_eq!(a.transposed().shape(), [3, 2]);
/// # Ok::<(), trimtab::Error>(())
/// ```
#[derive(Clone)]
pub struct Tensor<T> {
    data: Arc<Storage<T>>,
    shape: Dims<usize>,
    strides: Dims<isize>,
    offset: usize,
}

impl<T: Element> Tensor<T> {
    /// A tensor of that shape over these elements, row-major.
    pub fn from_vec(data: Vec<T>, shape: &[usize]) -> Result<Tensor<T>, Error> {
        let needed = element_count::<T>(shape)?;
        if data.len() != needed {
            return Err(Error::ElementCount { shape: shape.to_vec(), needed, found: data.len() });
        }
        let (shape, strides) = row_major(shape)?;
        Ok(Tensor { data: Arc::new(Storage::new(data)), shape, strides, offset: 0 })
    }

    /// A tensor without dimensions: one element.
    pub fn scalar(value: T) -> Tensor<T> {
        let data = Arc::new(Storage::new(vec![value]));
        Tensor { data, shape: Dims::default(), strides: Dims::default(), offset: 0 }
    }

    /// All zeros.
    pub fn zeros(shape: &[usize]) -> Result<Tensor<T>, Error> {
        Tensor::from_vec(allocate(element_count::<T>(shape)?)?, shape)
    }

    /// The same value everywhere.
    pub fn full(shape: &[usize], value: T) -> Result<Tensor<T>, Error> {
        let mut tensor = Tensor::zeros(shape)?;
        tensor.as_mut_slice().fill(value);
        Ok(tensor)
    }

    /// Each element from its position in row-major order.
    pub fn from_fn(shape: &[usize], value: impl FnMut(usize) -> T) -> Result<Tensor<T>, Error> {
        let count = element_count::<T>(shape)?;
        Tensor::from_vec((0..count).map(value).collect(), shape)
    }

    /// The size along each dimension.
    pub fn shape(&self) -> &[usize] {
        self.shape.as_slice()
    }

    /// How many elements of the data lie between neighbours along each dimension.
    pub fn strides(&self) -> &[isize] {
        self.strides.as_slice()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        // Where one size is zero, the others may be anything.
        if self.is_empty() { 0 } else { self.shape().iter().product() }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.shape().contains(&0)
    }

    /// Whether the elements lie in row-major order without gaps.
    pub fn is_contiguous(&self) -> bool {
        is_dense(self.shape().iter().copied().zip(self.strides().iter().copied()))
    }

    /// The elements in row-major order, if they lie so in memory; see [`Tensor::to_vec`] for any layout.
    pub fn as_slice(&self) -> Option<&[T]> {
        let data = self.is_contiguous().then(|| self.data.elements().ok()).flatten()?;
        data.get(self.offset..self.offset + self.len())
    }

    /// Makes sure that the elements are in the processor's memory; they may be on a device.
    pub fn fetched(&self) -> Result<&Tensor<T>, Error> {
        self.data.elements()?;
        Ok(self)
    }

    /// The elements for writing. Data that is shared or not contiguous is copied first; copies on devices are given up.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        let exact = self.is_contiguous() && self.offset == 0 && self.data.len() == self.len();
        if !exact || Arc::get_mut(&mut self.data).is_none() {
            if self.fetched().is_err() {
                return &mut [];
            }
            let strides = row_major(self.shape()).map(|(_, strides)| strides).unwrap_or(self.strides);
            self.data = Arc::new(Storage::new(self.to_vec()));
            self.strides = strides;
            self.offset = 0;
        }
        let data = Arc::get_mut(&mut self.data).and_then(|data| data.for_writing().ok());
        data.unwrap_or_default()
    }

    /// A copy of the elements in row-major order.
    pub fn to_vec(&self) -> Vec<T> {
        if let Some(slice) = self.as_slice() {
            return slice.to_vec();
        }
        let Ok(data) = self.data.elements() else { return Vec::new() };
        let mut out = Vec::with_capacity(self.len());
        if !self.is_empty() {
            gather(data, self.offset, self.shape(), self.strides(), &mut out);
        }
        out
    }

    /// The element at a position, or `None` outside the shape.
    pub fn get(&self, index: &[usize]) -> Option<T> {
        if index.len() != self.shape().len() || index.iter().zip(self.shape()).any(|(i, size)| i >= size) {
            return None;
        }
        let offsets = index.iter().zip(self.strides()).map(|(&i, &stride)| i as isize * stride);
        let place = offsets.sum::<isize>() + self.offset as isize;
        self.data.elements().ok()?.get(place as usize).copied()
    }

    /// The only element.
    pub fn item(&self) -> Result<T, Error> {
        match self.len() {
            1 => Ok(self.data.elements()?[self.offset]),
            found => Err(Error::ElementCount { shape: self.shape().to_vec(), needed: 1, found }),
        }
    }

    /// The same data with the order of axes reversed; copies nothing.
    pub fn transposed(&self) -> Tensor<T> {
        let mut view = self.clone();
        let rank = self.shape().len();
        view.shape.values[..rank].reverse();
        view.strides.values[..rank].reverse();
        view
    }

    /// The same data with axes in another order: axis `i` of the result is axis `axes[i]`; copies nothing.
    pub fn permuted(&self, axes: &[usize]) -> Result<Tensor<T>, Error> {
        let mut seen = [false; MAX_TENSOR_RANK];
        let names_each_once = axes.len() == self.shape().len()
            && axes.iter().all(|&axis| axis < axes.len() && !std::mem::replace(&mut seen[axis], true));
        if !names_each_once {
            return Err(Error::Permutation { axes: axes.to_vec(), shape: self.shape().to_vec() });
        }
        let mut view = self.clone();
        for (place, &axis) in axes.iter().enumerate() {
            view.shape.values[place] = self.shape()[axis];
            view.strides.values[place] = self.strides()[axis];
        }
        Ok(view)
    }

    /// The part `range` along an axis; copies nothing.
    pub fn slice(&self, axis: usize, range: Range<usize>) -> Result<Tensor<T>, Error> {
        let size = self.shape().get(axis).copied();
        match size {
            Some(size) if range.start <= range.end && range.end <= size => {
                let mut view = self.clone();
                // An empty part keeps the offset: it may lie one past the end.
                if !range.is_empty() {
                    view.offset =
                        (self.offset as isize + range.start as isize * self.strides()[axis]) as usize;
                }
                view.shape.values[axis] = range.len();
                Ok(view)
            }
            _ => Err(Error::Slice { axis, start: range.start, end: range.end, shape: self.shape().to_vec() }),
        }
    }

    /// The same elements in another shape; copies only if they are not contiguous.
    pub fn reshaped(&self, shape: &[usize]) -> Result<Tensor<T>, Error> {
        let needed = element_count::<T>(shape)?;
        if needed != self.len() {
            return Err(Error::ElementCount { shape: shape.to_vec(), needed, found: self.len() });
        }
        let (shape, strides) = row_major(shape)?;
        if self.is_contiguous() {
            return Ok(Tensor { data: Arc::clone(&self.data), shape, strides, offset: self.offset });
        }
        can_allocate::<T>(needed)?;
        self.fetched()?;
        Ok(Tensor { data: Arc::new(Storage::new(self.to_vec())), shape, strides, offset: 0 })
    }

    /// The same data repeated along axes of size one to fit `shape`; copies nothing.
    pub fn broadcast_to(&self, shape: &[usize]) -> Result<Tensor<T>, Error> {
        let wrong = || Error::Broadcast { from: self.shape().to_vec(), to: shape.to_vec() };
        element_count::<T>(shape)?;
        let missing = shape.len().checked_sub(self.shape().len()).ok_or_else(wrong)?;
        let mut strides = vec![0isize; shape.len()];
        for (axis, &size) in self.shape().iter().enumerate() {
            if size == shape[axis + missing] {
                strides[axis + missing] = self.strides()[axis];
            } else if size != 1 {
                return Err(wrong());
            }
        }
        let rank = || Error::Rank { shape: shape.to_vec() };
        Ok(Tensor {
            data: Arc::clone(&self.data),
            shape: Dims::new(shape).ok_or_else(rank)?,
            strides: Dims::new(&strides).ok_or_else(rank)?,
            offset: self.offset,
        })
    }

    /// For a view that is a permutation of row-major data without gaps: the stored shape, the permutation, the data.
    pub(crate) fn as_permutation(&self) -> Option<(Vec<usize>, Vec<usize>, &[T])> {
        let (stored, permutation) = self.permutation()?;
        let data = self.data.elements().ok()?.get(self.offset..self.offset + self.len())?;
        Some((stored, permutation, data))
    }

    /// For a view that is a permutation of row-major data without gaps: the stored shape and the permutation.
    fn permutation(&self) -> Option<(Vec<usize>, Vec<usize>)> {
        let rank = self.shape().len();
        let mut order: Vec<usize> = (0..rank).collect();
        order.sort_by_key(|&axis| std::cmp::Reverse((self.strides()[axis], self.shape()[axis])));
        let dense = is_dense(order.iter().map(|&axis| (self.shape()[axis], self.strides()[axis])));
        let stored = order.iter().map(|&axis| self.shape()[axis]).collect();
        let place = |axis: usize| order.iter().position(|&other| other == axis);
        let permutation = (0..rank).filter_map(place).collect();
        dense.then_some((stored, permutation))
    }

    /// For a view that is a permutation of row-major data without gaps: the data as it is stored, and the permutation.
    pub(crate) fn as_stored(&self) -> Option<(Tensor<T>, Vec<usize>)> {
        let (stored, permutation) = self.permutation()?;
        let (shape, strides) = row_major(&stored).ok()?;
        Some((Tensor { data: Arc::clone(&self.data), shape, strides, offset: self.offset }, permutation))
    }

    pub(crate) fn dims(&self) -> Dims<usize> {
        self.shape
    }

    /// Whether both show the same elements of the same data in the same way.
    pub(crate) fn is_same_view(&self, other: &Tensor<T>) -> bool {
        Arc::ptr_eq(&self.data, &other.data)
            && (self.shape, self.strides, self.offset) == (other.shape, other.strides, other.offset)
    }

    /// A row-major tensor of elements that are on a device only.
    pub(crate) fn on_device(shape: &[usize], resident: &Arc<Resident>) -> Result<Tensor<T>, Error> {
        let data = Arc::new(Storage::on_device(element_count::<T>(shape)?, resident));
        let (shape, strides) = row_major(shape)?;
        Ok(Tensor { data, shape, strides, offset: 0 })
    }

    /// Whether the elements are in the processor's memory.
    pub(crate) fn is_here(&self) -> bool {
        self.data.is_here()
    }

    /// Whether the elements are in the processor's memory and nowhere else.
    pub(crate) fn is_only_here(&self) -> bool {
        self.data.is_only_here()
    }

    /// Whether the elements are all that is in that memory of a device, and nowhere else.
    pub(crate) fn lies_in(&self, resident: &Arc<Resident>) -> bool {
        self.data.lies_in(resident)
    }

    /// Elements that are on a device only, brought by someone else.
    pub(crate) fn receive(&self, bring: impl FnOnce(&mut [T]) -> Result<(), Error>) -> Result<(), Error> {
        self.data.receive(bring)
    }

    /// Whether the elements are on a device, in row-major order.
    pub(crate) fn is_on(&self, room: &Arc<Room>) -> bool {
        self.is_contiguous() && self.data.is_on(room, &(self.offset..self.offset + self.len()))
    }

    /// The elements of a row-major tensor on a device, moved there if need be. The copy is kept.
    pub(crate) fn there(&self, room: &Arc<Room>) -> Result<Arc<Resident>, Error> {
        self.data.there(room, self.offset..self.offset + self.len())
    }
}

impl<T: Element> fmt::Debug for Tensor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        write!(f, "Tensor<{}>{:?} ", T::DTYPE, self.shape())?;
        if let Err(error) = self.fetched() {
            return write!(f, "({error})");
        }
        f.write_str("[")?;
        let shown = self.len().min(SHOWN);
        for index in 0..shown {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{}", self.get(&unravel(index, self.shape())).unwrap_or_default())?;
        }
        f.write_str(if self.len() > SHOWN { ", …]" } else { "]" })
    }
}

impl<T: Element> PartialEq for Tensor<T> {
    fn eq(&self, other: &Self) -> bool {
        self.shape() == other.shape() && self.to_vec() == other.to_vec()
    }
}

impl<T: Element> From<Vec<T>> for Tensor<T> {
    /// One dimension.
    fn from(data: Vec<T>) -> Self {
        let shape = Dims { values: [data.len(), 0, 0, 0, 0, 0, 0, 0], rank: 1 };
        let strides = Dims { values: [1, 0, 0, 0, 0, 0, 0, 0], rank: 1 };
        Tensor { data: Arc::new(Storage::new(data)), shape, strides, offset: 0 }
    }
}

fn unravel(mut index: usize, shape: &[usize]) -> Vec<usize> {
    let mut place = vec![0; shape.len()];
    for (axis, &size) in shape.iter().enumerate().rev() {
        place[axis] = index % size.max(1);
        index /= size.max(1);
    }
    place
}

fn is_dense(mut dims: impl DoubleEndedIterator<Item = (usize, isize)>) -> bool {
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

fn gather<T: Copy>(data: &[T], offset: usize, shape: &[usize], strides: &[isize], out: &mut Vec<T>) {
    match (shape, strides) {
        ([], _) | (_, []) => out.extend(data.get(offset)),
        ([size, inner_shape @ ..], [stride, inner_strides @ ..]) => {
            for index in 0..*size {
                let start = (offset as isize + index as isize * stride) as usize;
                gather(data, start, inner_shape, inner_strides, out);
            }
        }
    }
}

pub(crate) fn element_count<T: Element>(shape: &[usize]) -> Result<usize, Error> {
    if shape.len() > MAX_TENSOR_RANK {
        return Err(Error::Rank { shape: shape.to_vec() });
    }
    // Sizes beside a zero must be addressable too: strides and products of some of the sizes are counted with.
    let bytes =
        shape.iter().try_fold(std::mem::size_of::<T>(), |product, &size| product.checked_mul(size.max(1)));
    match bytes {
        Some(bytes) if bytes <= isize::MAX as usize => {
            Ok(if shape.contains(&0) { 0 } else { bytes / std::mem::size_of::<T>() })
        }
        _ => Err(Error::TooLarge { shape: shape.to_vec(), dtype: T::DTYPE }),
    }
}

/// That many zeros, or an error if the memory is not to be had.
pub(crate) fn allocate<T: Element>(count: usize) -> Result<Vec<T>, Error> {
    can_allocate::<T>(count)?;
    Ok(vec![T::default(); count])
}

/// A place for that many results: what it holds is to be overwritten.
pub(crate) fn allocate_result<T: Element>(count: usize) -> Result<Vec<T>, Error> {
    match buffers::take(count) {
        Some(buffer) => Ok(buffer),
        None => allocate(count),
    }
}

/// Whether memory for that many elements is to be had.
pub(crate) fn can_allocate<T: Element>(count: usize) -> Result<(), Error> {
    let bytes = count.saturating_mul(std::mem::size_of::<T>());
    if bytes >= CAREFUL_BYTES {
        // Zeroed memory straight from the system is free until touched, but cannot be asked for politely: ask first.
        let mut asked: Vec<T> = Vec::new();
        asked
            .try_reserve_exact(count)
            .map_err(|_| Error::OutOfMemory { bytes: trimtab_core::Bytes(bytes as u64) })?;
    }
    Ok(())
}

fn row_major(shape: &[usize]) -> Result<(Dims<usize>, Dims<isize>), Error> {
    let rank = || Error::Rank { shape: shape.to_vec() };
    let mut strides =
        Dims::new(&[0isize; MAX_TENSOR_RANK][..shape.len().min(MAX_TENSOR_RANK)]).ok_or_else(rank)?;
    let mut stride = 1isize;
    for axis in (0..shape.len().min(MAX_TENSOR_RANK)).rev() {
        strides.values[axis] = stride;
        stride = stride.saturating_mul(shape[axis] as isize);
    }
    Ok((Dims::new(shape).ok_or_else(rank)?, strides))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_far_outside_is_absent_and_sizes_beside_a_zero_must_be_addressable() {
        let tensor = Tensor::from(vec![1.0f32, 2.0, 3.0, 4.0]).reshaped(&[2, 2]);
        let Ok(tensor) = tensor else { unreachable!("four elements are two by two") };
        assert_eq!((tensor.get(&[1, 1]), tensor.get(&[1 << 62, 0])), (Some(4.0), None));
        let huge = Tensor::<f32>::zeros(&[1 << 40, 1 << 40, 0]);
        assert!(matches!(huge, Err(Error::TooLarge { .. })), "{huge:?}");
        assert_eq!(Tensor::<f32>::zeros(&[1 << 40, 0]).map(|tensor| tensor.len()), Ok(0));
    }
}
