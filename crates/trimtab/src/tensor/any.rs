//! Shaped data whose element type is known at run time.

use super::dims::{Dims, can_allocate, dims, element_count, is_dense, names_each_once, row_major};
use super::{Tensor, allocate};
use crate::error::Error;
use crate::memory::{DeviceBuffer, DeviceMemory};
use crate::storage::{Foreign, Storage};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use trimtab_core::DType;
use trimtab_operands::{Data, Element, Slice, by_dtype};

/// What tells views apart: whose elements, and in which shape, strides and from where on.
pub(crate) type ViewKey = (*const Storage, Dims<usize>, Dims<isize>, usize);

/// Numbers with a shape, of a type that is known when the program runs. What is inside a [`Tensor`], which is this with the type known
/// to the compiler; converting either way copies nothing.
///
/// ```
/// use trimtab::{AnyTensor, Tensor};
/// let typed = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
/// let any = AnyTensor::from(typed.clone());
/// assert_eq!((any.dtype().name(), any.shape()), ("f32", &[2usize, 2][..]));
/// assert_eq!(any.transposed().typed::<f32>()?.to_vec(), [1.0, 3.0, 2.0, 4.0]);
/// assert!(any.typed::<f64>().is_err());
/// # Ok::<(), trimtab::Error>(())
/// ```
#[derive(Clone)]
pub struct AnyTensor {
    pub(super) data: Arc<Storage>,
    pub(super) shape: Dims<usize>,
    pub(super) strides: Dims<isize>,
    pub(super) offset: usize,
}

impl<T: Element> From<Tensor<T>> for AnyTensor {
    fn from(tensor: Tensor<T>) -> AnyTensor {
        tensor.any
    }
}

impl<T: Element> TryFrom<AnyTensor> for Tensor<T> {
    type Error = Error;

    fn try_from(any: AnyTensor) -> Result<Tensor<T>, Error> {
        match any.dtype() == T::DTYPE {
            true => Ok(Tensor::wrap(any)),
            false => Err(Error::ElementType { asked: T::DTYPE, found: any.dtype() }),
        }
    }
}

impl AnyTensor {
    /// A tensor of that shape over these elements, row-major.
    pub(crate) fn from_data(data: Data, dtype: DType, shape: &[usize]) -> Result<AnyTensor, Error> {
        let needed = element_count(dtype, shape)?;
        if data.len() != needed {
            return Err(Error::ElementCount { shape: shape.to_vec(), needed, found: data.len() });
        }
        let (shape, strides) = row_major(shape)?;
        Ok(AnyTensor { data: Arc::new(Storage::new(data, dtype)), shape, strides, offset: 0 })
    }

    /// A tensor over elements in somebody else's memory; copies nothing. Strides and offset count elements.
    ///
    /// ```
    /// use trimtab::{AnyTensor, Foreign, advanced::operands::{Element, Slice}};
    /// struct Theirs(Vec<f32>);
    /// impl Foreign for Theirs {
    ///     fn elements(&self) -> Slice<'_> { f32::erase(&self.0) }
    /// }
    /// let backwards = AnyTensor::foreign(Box::new(Theirs(vec![1.0, 2.0, 3.0])), &[3], &[-1], 2)?;
    /// assert_eq!(backwards.typed::<f32>()?.to_vec(), [3.0, 2.0, 1.0]);
    /// assert!(AnyTensor::foreign(Box::new(Theirs(vec![1.0, 2.0, 3.0])), &[3], &[1], 1).is_err(), "one past the end");
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn foreign(
        elements: Box<dyn Foreign>,
        shape: &[usize],
        strides: &[isize],
        offset: usize,
    ) -> Result<AnyTensor, Error> {
        let found = elements.elements().len();
        let dtype = elements.elements().dtype().unwrap_or(DType::F32);
        let wrong = |needed| Error::ElementCount { shape: shape.to_vec(), needed, found };
        let count = element_count(dtype, shape)?;
        let (sizes, strides) = match Dims::new(strides) {
            Some(strides) if strides.len() == shape.len() => (dims(shape)?, strides),
            _ => return Err(wrong(count)),
        };
        // The first and the last element that are shown, if there are any.
        let ends =
            shape.iter().zip(strides.iter()).try_fold((offset, offset), |(low, high), (&size, &stride)| {
                let far = size.saturating_sub(1).checked_mul(stride.unsigned_abs())?;
                if stride < 0 {
                    Some((low.checked_sub(far)?, high))
                } else {
                    Some((low, high.checked_add(far)?))
                }
            });
        match ends {
            _ if count == 0 => (),
            Some((_, last)) if last < found => (),
            ends => return Err(wrong(ends.map_or(count, |(_, last)| last.saturating_add(1)))),
        }
        let data = Arc::new(Storage::foreign(elements, dtype));
        // What shows nothing must not begin behind the end.
        Ok(AnyTensor { data, shape: sizes, strides, offset: if count == 0 { 0 } else { offset } })
    }

    /// Whether the elements lie in somebody else's memory: see [`AnyTensor::foreign`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use trimtab::AnyTensor;
    /// assert!(!AnyTensor::from(Tensor::from(vec![1, 2])).is_foreign());
    /// ```
    pub fn is_foreign(&self) -> bool {
        self.data.is_foreign()
    }

    /// All zeros.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use trimtab::AnyTensor;
    /// let a = AnyTensor::zeros(DType::F64, &[2, 2])?;
    /// assert_eq!((a.len(), a.get(&[1, 1])), (4, Some(0.0)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn zeros(dtype: DType, shape: &[usize]) -> Result<AnyTensor, Error> {
        AnyTensor::from_data(allocate(dtype, element_count(dtype, shape)?)?, dtype, shape)
    }

    /// The element type.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use trimtab::AnyTensor;
    /// assert_eq!(AnyTensor::from(Tensor::from(vec![1.0f32])).dtype(), DType::F32);
    /// ```
    pub fn dtype(&self) -> DType {
        self.data.dtype()
    }

    /// The same tensor, its type known to the compiler; an error if it is another.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use trimtab::AnyTensor;
    /// let any = AnyTensor::from(Tensor::from(vec![1.0f64, 2.0]));
    /// assert_eq!(any.typed::<f64>()?.to_vec(), [1.0, 2.0]);
    /// assert!(any.typed::<f32>().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn typed<T: Element>(&self) -> Result<Tensor<T>, Error> {
        self.clone().try_into()
    }

    /// The size along each dimension.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use trimtab::AnyTensor;
    /// assert_eq!(AnyTensor::zeros(DType::I64, &[2, 3])?.shape(), [2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shape(&self) -> &[usize] {
        self.shape.as_slice()
    }

    /// How many elements of the data lie between neighbours along each dimension.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use trimtab::AnyTensor;
    /// assert_eq!(AnyTensor::zeros(DType::I64, &[2, 3])?.strides(), [3, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn strides(&self) -> &[isize] {
        self.strides.as_slice()
    }

    /// Number of elements.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use trimtab::AnyTensor;
    /// assert_eq!(AnyTensor::zeros(DType::F16, &[2, 3])?.len(), 6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn len(&self) -> usize {
        // Where one size is zero, the others may be anything.
        if self.is_empty() { 0 } else { self.shape().iter().product() }
    }

    /// Whether there are no elements.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use trimtab::AnyTensor;
    /// assert!(AnyTensor::zeros(DType::F32, &[0, 3])?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.shape().contains(&0)
    }

    /// Whether the elements lie in row-major order without gaps.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use trimtab::AnyTensor;
    /// let a = AnyTensor::zeros(DType::F32, &[2, 3])?;
    /// assert!(a.is_contiguous() && !a.transposed().is_contiguous());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_contiguous(&self) -> bool {
        is_dense(self.shape().iter().copied().zip(self.strides().iter().copied()))
    }

    /// The elements in row-major order, if they lie so in memory. They are fetched from a device if need be.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use trimtab::{AnyTensor, advanced::operands::Element};
    /// let any = AnyTensor::from(Tensor::from(vec![1.0f32, 2.0]));
    /// assert_eq!(any.as_slice().and_then(f32::slice), Some(&[1.0, 2.0][..]));
    /// ```
    #[inline]
    pub fn as_slice(&self) -> Option<Slice<'_>> {
        let data = self.is_contiguous().then(|| self.data.elements().ok()).flatten()?;
        Some(data.part(self.part()))
    }

    /// The elements that are shown, of a tensor that is contiguous.
    fn part(&self) -> Range<usize> {
        self.offset..self.offset + self.len()
    }

    /// The elements in row-major order, if they lie so in the processor's memory and nowhere else: what is computed with at once.
    #[inline]
    pub(crate) fn on_host(&self) -> Option<Slice<'_>> {
        let dense = self.is_contiguous() && self.data.is_only_here();
        dense.then(|| self.data.elements().ok()).flatten().map(|data| data.part(self.part()))
    }

    /// For a matrix whose elements lie in the processor's memory alone, row by row or column by column: the elements as they lie, and
    /// whether by columns.
    #[inline]
    pub(crate) fn matrix_on_host(&self) -> Option<(Slice<'_>, bool)> {
        match self.on_host() {
            Some(slice) => Some((slice, false)),
            None => {
                let (shape, strides) = (self.shape(), self.strides());
                let ([rows, columns], [down, along]) = (shape, strides) else { return None };
                let swapped = is_dense([(*columns, *along), (*rows, *down)].into_iter());
                let data =
                    (swapped && self.data.is_only_here()).then(|| self.data.elements().ok()).flatten()?;
                Some((data.part(self.part()), true))
            }
        }
    }

    /// Makes sure that the elements are in the processor's memory; they may be on a device.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::AnyTensor;
    /// let any = AnyTensor::from(Tensor::from(vec![1.0f32, 4.0]));
    /// let doubled = (rt.lazy_any(&any) * 2.0).eval()?; // perhaps on a GPU
    /// assert_eq!(doubled.fetched()?.get(&[1]), Some(8.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fetched(&self) -> Result<&AnyTensor, Error> {
        self.data.elements()?;
        Ok(self)
    }

    /// The elements in row-major order, copied.
    pub(crate) fn gathered(&self) -> Result<Data, Error> {
        let data = self.data.elements()?;
        let dtype = self.dtype();
        can_allocate(dtype, self.len())?;
        Ok(by_dtype!(dtype, T => {
            let elements = T::slice(data).unwrap_or_default();
            let mut out: Vec<T> = Vec::with_capacity(self.len());
            match self.is_contiguous() {
                true => out.extend_from_slice(elements.get(self.part()).unwrap_or_default()),
                false if self.is_empty() => (),
                false => gather(elements, self.offset, self.shape(), self.strides(), &mut out),
            }
            T::own(out)
        }))
    }

    /// The element at a position as a double, exact for every type; `None` outside the shape.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use trimtab::AnyTensor;
    /// let any = AnyTensor::from(Tensor::from(vec![1u8, 200]));
    /// assert_eq!((any.get(&[1]), any.get(&[2])), (Some(200.0), None));
    /// ```
    pub fn get(&self, index: &[usize]) -> Option<f64> {
        let at = self.place(index)?;
        let data = self.data.elements().ok()?;
        by_dtype!(self.dtype(), T => T::slice(data)?.get(at).map(|value| value.to_f64()))
    }

    /// Where in the data the element at a position lies.
    pub(super) fn place(&self, index: &[usize]) -> Option<usize> {
        if index.len() != self.shape().len() || index.iter().zip(self.shape()).any(|(i, size)| i >= size) {
            return None;
        }
        let offsets = index.iter().zip(self.strides()).map(|(&i, &stride)| i as isize * stride);
        Some((offsets.sum::<isize>() + self.offset as isize) as usize)
    }

    /// The same data with the order of axes reversed; copies nothing.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use trimtab::AnyTensor;
    /// assert_eq!(AnyTensor::zeros(DType::F32, &[2, 3])?.transposed().shape(), [3, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn transposed(&self) -> AnyTensor {
        let mut view = self.clone();
        view.shape.reverse();
        view.strides.reverse();
        view
    }

    /// The same data with axes in another order: axis `i` of the result is axis `axes[i]`; copies nothing.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use trimtab::AnyTensor;
    /// let a = AnyTensor::zeros(DType::F32, &[2, 3, 4])?;
    /// assert_eq!(a.permuted(&[2, 0, 1])?.shape(), [4, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn permuted(&self, axes: &[usize]) -> Result<AnyTensor, Error> {
        if !names_each_once(axes, self.shape().len()) {
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
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use trimtab::AnyTensor;
    /// let any = AnyTensor::from(Tensor::from(vec![1, 2, 3, 4]));
    /// assert_eq!(any.slice(0, 1..3)?.typed::<i32>()?.to_vec(), [2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn slice(&self, axis: usize, range: Range<usize>) -> Result<AnyTensor, Error> {
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
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use trimtab::AnyTensor;
    /// let any = AnyTensor::from(Tensor::from(vec![1, 2, 3, 4]));
    /// assert_eq!(any.reshaped(&[2, 2])?.get(&[1, 0]), Some(3.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reshaped(&self, shape: &[usize]) -> Result<AnyTensor, Error> {
        let needed = element_count(self.dtype(), shape)?;
        if needed != self.len() {
            return Err(Error::ElementCount { shape: shape.to_vec(), needed, found: self.len() });
        }
        if !self.is_contiguous() {
            return AnyTensor::from_data(self.gathered()?, self.dtype(), shape);
        }
        let (shape, strides) = row_major(shape)?;
        Ok(AnyTensor { data: Arc::clone(&self.data), shape, strides, offset: self.offset })
    }

    /// The same data repeated along axes of size one to fit `shape`; copies nothing.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use trimtab::AnyTensor;
    /// let any = AnyTensor::from(Tensor::from(vec![1, 2]));
    /// assert_eq!(any.broadcast_to(&[2, 2])?.typed::<i32>()?.to_vec(), [1, 2, 1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn broadcast_to(&self, shape: &[usize]) -> Result<AnyTensor, Error> {
        let wrong = || Error::Broadcast { from: self.shape().to_vec(), to: shape.to_vec() };
        element_count(self.dtype(), shape)?;
        let missing = shape.len().checked_sub(self.shape().len()).ok_or_else(wrong)?;
        let mut strides = vec![0isize; shape.len()];
        for (axis, &size) in self.shape().iter().enumerate() {
            if size == shape[axis + missing] {
                strides[axis + missing] = self.strides()[axis];
            } else if size != 1 {
                return Err(wrong());
            }
        }
        let strides = Dims::new(&strides).ok_or_else(|| Error::Rank { shape: shape.to_vec() })?;
        Ok(AnyTensor { data: Arc::clone(&self.data), shape: dims(shape)?, strides, offset: self.offset })
    }

    /// For a view that is a permutation of row-major data without gaps: the data as it is stored, and the permutation.
    pub(crate) fn as_stored(&self) -> Option<(AnyTensor, Vec<usize>)> {
        let rank = self.shape().len();
        let mut order: Vec<usize> = (0..rank).collect();
        order.sort_by_key(|&axis| std::cmp::Reverse((self.strides()[axis], self.shape()[axis])));
        if !is_dense(order.iter().map(|&axis| (self.shape()[axis], self.strides()[axis]))) {
            return None;
        }
        let stored: Vec<usize> = order.iter().map(|&axis| self.shape()[axis]).collect();
        let place = |axis: usize| order.iter().position(|&other| other == axis);
        let permutation = (0..rank).filter_map(place).collect();
        let (shape, strides) = row_major(&stored).ok()?;
        Some((AnyTensor { data: Arc::clone(&self.data), shape, strides, offset: self.offset }, permutation))
    }

    pub(crate) fn dims(&self) -> Dims<usize> {
        self.shape
    }

    /// Whether both show the same elements of the same data in the same way.
    pub(crate) fn is_same_view(&self, other: &AnyTensor) -> bool {
        Arc::ptr_eq(&self.data, &other.data)
            && (self.shape, self.strides, self.offset) == (other.shape, other.strides, other.offset)
    }

    /// Equal for those and only those that show the same elements in the same way, for as long as they live.
    pub(crate) fn view_key(&self) -> ViewKey {
        (Arc::as_ptr(&self.data), self.shape, self.strides, self.offset)
    }

    /// A row-major tensor of elements that are on a device only.
    pub(crate) fn on_device(
        dtype: DType,
        shape: &[usize],
        buffer: &Arc<DeviceBuffer>,
    ) -> Result<AnyTensor, Error> {
        let data = Arc::new(Storage::on_device(dtype, element_count(dtype, shape)?, buffer));
        let (shape, strides) = row_major(shape)?;
        Ok(AnyTensor { data, shape, strides, offset: 0 })
    }

    /// The data behind it: where it is, and how to get it.
    pub(crate) fn storage(&self) -> &Storage {
        &self.data
    }

    /// Whether the elements are on a device, in row-major order.
    pub(crate) fn is_on(&self, memory: &Arc<DeviceMemory>) -> bool {
        self.is_contiguous() && self.data.is_on(memory, &self.part())
    }

    /// The elements of a row-major tensor on a device, moved there if need be. The copy is kept.
    pub(crate) fn buffer_on(&self, memory: &Arc<DeviceMemory>) -> Result<Arc<DeviceBuffer>, Error> {
        self.data.buffer_on(memory, self.part())
    }
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

impl fmt::Debug for AnyTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        write!(f, "Tensor<{}>{:?} ", self.dtype(), self.shape())?;
        let elements = match self.fetched() {
            Ok(tensor) => (0..tensor.len().min(SHOWN)).map(|index| unravel(index, tensor.shape())),
            Err(error) => return write!(f, "({error})"),
        };
        f.write_str("[")?;
        for (number, index) in elements.enumerate() {
            let separator = if number == 0 { "" } else { ", " };
            // In the words of its own type: an f32 is not shown with the digits of a double.
            let place = self.place(&index).unwrap_or_default();
            let data = self.data.elements().unwrap_or(Slice::None);
            by_dtype!(self.dtype(), T => {
                write!(f, "{separator}{}", T::slice(data).and_then(|data| data.get(place)).copied().unwrap_or_default())?;
            });
        }
        f.write_str(if self.len() > SHOWN { ", …]" } else { "]" })
    }
}

impl PartialEq for AnyTensor {
    fn eq(&self, other: &Self) -> bool {
        let same = self.dtype() == other.dtype() && self.shape() == other.shape();
        same && match (self.gathered(), other.gathered()) {
            (Ok(own), Ok(others)) => by_dtype!(self.dtype(), T => T::owned(own) == T::owned(others)),
            _ => false,
        }
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
