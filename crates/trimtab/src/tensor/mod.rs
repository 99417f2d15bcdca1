//! Shaped data: owned, row-major, with views that share it.

mod any;
mod dims;
mod show;

pub use any::AnyTensor;
pub(crate) use any::ViewKey;
pub use dims::MAX_TENSOR_RANK;
pub(crate) use dims::{Dims, allocate, allocate_result, dims, element_count, names_each_once};

use crate::error::Error;
use crate::storage::Storage;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use trimtab_operands::Element;

/// Numbers with a shape. Cloning and taking views share the data; writing to shared data copies it first.
///
/// The data of a result may be on a device. It is fetched once, when it is first read: by [`Tensor::as_slice`],
/// [`Tensor::to_vec`], [`Tensor::get`], [`Tensor::item`], by printing or comparing. Operations of a
/// [`Runtime`](crate::Runtime) use it where it is. Should the device be lost before, those that return an error do, and the others
/// find no elements; [`Tensor::fetched`] says why.
///
/// ```
/// use trimtab::Tensor;
/// let a = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
/// let column = a.slice(1, 0..1)?;
/// assert_eq!(column.to_vec(), [1.0, 4.0]);
/// assert_eq!(a.transposed().shape(), [3, 2]);
/// # Ok::<(), trimtab::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Tensor<T> {
    pub(crate) any: AnyTensor,
    of: PhantomData<T>,
}

impl<T: Element> Tensor<T> {
    /// A tensor of elements that are known to be of this type.
    pub(crate) fn wrap(any: AnyTensor) -> Tensor<T> {
        Tensor { any, of: PhantomData }
    }

    /// A tensor of that shape over these elements, row-major.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let a = Tensor::from_vec(vec![1, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(a.get(&[1, 0]), Some(4));
    /// assert!(Tensor::from_vec(vec![1, 2, 3], &[2, 2]).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_vec(data: Vec<T>, shape: &[usize]) -> Result<Tensor<T>, Error> {
        AnyTensor::from_data(T::own(data), T::DTYPE, shape).map(Tensor::wrap)
    }

    /// A tensor without dimensions: one element.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let two = Tensor::scalar(2.0f32);
    /// assert_eq!((two.shape().len(), two.len()), (0, 1));
    /// ```
    pub fn scalar(value: T) -> Tensor<T> {
        Tensor::stored(vec![value], Dims::default(), Dims::default())
    }

    fn stored(data: Vec<T>, shape: Dims<usize>, strides: Dims<isize>) -> Tensor<T> {
        let data = Arc::new(Storage::new(T::own(data), T::DTYPE));
        Tensor::wrap(AnyTensor { data, shape, strides, offset: 0 })
    }

    /// All zeros.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// assert_eq!(Tensor::<f32>::zeros(&[2, 2])?.to_vec(), [0.0; 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn zeros(shape: &[usize]) -> Result<Tensor<T>, Error> {
        AnyTensor::zeros(T::DTYPE, shape).map(Tensor::wrap)
    }

    /// The same value everywhere.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// assert_eq!(Tensor::full(&[3], 0.5f32)?.to_vec(), [0.5, 0.5, 0.5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn full(shape: &[usize], value: T) -> Result<Tensor<T>, Error> {
        let mut tensor = Tensor::zeros(shape)?;
        tensor.as_mut_slice().fill(value);
        Ok(tensor)
    }

    /// Each element from its position in row-major order.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let a = Tensor::from_fn(&[2, 3], |i| i as f32)?;
    /// assert_eq!(a.get(&[1, 2]), Some(5.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_fn(shape: &[usize], value: impl FnMut(usize) -> T) -> Result<Tensor<T>, Error> {
        let count = element_count(T::DTYPE, shape)?;
        Tensor::from_vec((0..count).map(value).collect(), shape)
    }

    /// The size along each dimension.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// assert_eq!(Tensor::<f32>::zeros(&[2, 3])?.shape(), [2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shape(&self) -> &[usize] {
        self.any.shape()
    }

    /// How many elements of the data lie between neighbours along each dimension.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let a = Tensor::<f32>::zeros(&[2, 3])?;
    /// assert_eq!(a.strides(), [3, 1]);
    /// assert_eq!(a.transposed().strides(), [1, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn strides(&self) -> &[isize] {
        self.any.strides()
    }

    /// Number of elements.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// assert_eq!(Tensor::<f32>::zeros(&[2, 3])?.len(), 6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn len(&self) -> usize {
        self.any.len()
    }

    /// Whether there are no elements.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// assert!(Tensor::<f32>::zeros(&[2, 0])?.is_empty());
    /// assert!(!Tensor::scalar(1).is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.any.is_empty()
    }

    /// Whether the elements lie in row-major order without gaps.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let a = Tensor::<f32>::zeros(&[2, 3])?;
    /// assert!(a.is_contiguous() && !a.transposed().is_contiguous());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_contiguous(&self) -> bool {
        self.any.is_contiguous()
    }

    /// The elements in row-major order, if they lie so in memory; see [`Tensor::to_vec`] for any layout.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let a = Tensor::from_vec(vec![1, 2, 3, 4], &[2, 2])?;
    /// assert_eq!(a.as_slice(), Some(&[1, 2, 3, 4][..]));
    /// assert_eq!(a.transposed().as_slice(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn as_slice(&self) -> Option<&[T]> {
        self.any.as_slice().and_then(T::slice)
    }

    /// Makes sure that the elements are in the processor's memory; they may be on a device.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let doubled = (rt.lazy(&Tensor::from(vec![1.0f32, 2.0])) * 2.0).eval()?; // perhaps on a GPU
    /// assert_eq!(doubled.fetched()?.as_slice(), Some(&[2.0, 4.0][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fetched(&self) -> Result<&Tensor<T>, Error> {
        self.any.fetched()?;
        Ok(self)
    }

    /// The elements for writing. Data that is shared or not contiguous is copied first; copies on devices are given up.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let mut a = Tensor::from(vec![1, 2, 3]);
    /// let before = a.clone();
    /// a.as_mut_slice()[0] = 9;
    /// assert_eq!((a.to_vec(), before.to_vec()), (vec![9, 2, 3], vec![1, 2, 3]));
    /// ```
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        let any = &mut self.any;
        let exact = any.is_contiguous() && any.offset == 0 && any.data.len() == any.len();
        if !exact || Arc::get_mut(&mut any.data).is_none() {
            let copied = any.gathered().and_then(|data| AnyTensor::from_data(data, T::DTYPE, any.shape()));
            let Ok(copied) = copied else { return &mut [] };
            *any = copied;
        }
        let data = Arc::get_mut(&mut any.data).and_then(|data| data.for_writing().ok());
        data.and_then(T::slice_mut).unwrap_or_default()
    }

    /// A copy of the elements in row-major order.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let a = Tensor::from_vec(vec![1, 2, 3, 4], &[2, 2])?;
    /// assert_eq!(a.transposed().to_vec(), [1, 3, 2, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_vec(&self) -> Vec<T> {
        self.any.gathered().ok().and_then(T::owned).unwrap_or_default()
    }

    /// The element at a position, or `None` outside the shape.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let a = Tensor::from_vec(vec![1, 2, 3, 4], &[2, 2])?;
    /// assert_eq!((a.get(&[0, 1]), a.get(&[2, 0])), (Some(2), None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get(&self, index: &[usize]) -> Option<T> {
        let place = self.any.place(index)?;
        T::slice(self.any.data.elements().ok()?)?.get(place).copied()
    }

    /// The only element.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// assert_eq!(rt.sum(&Tensor::from(vec![1.0f32, 2.0, 3.0]), Axis::All)?.item()?, 6.0);
    /// assert!(Tensor::from(vec![1, 2]).item().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn item(&self) -> Result<T, Error> {
        let wrong = || Error::ElementCount { shape: self.shape().to_vec(), needed: 1, found: self.len() };
        if self.len() != 1 {
            return Err(wrong());
        }
        let elements = T::slice(self.any.data.elements()?);
        elements.and_then(|elements| elements.get(self.any.offset).copied()).ok_or_else(wrong)
    }

    /// The same data with the order of axes reversed; copies nothing.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let a = Tensor::from_vec(vec![1, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(a.transposed().get(&[2, 0]), Some(3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn transposed(&self) -> Tensor<T> {
        Tensor::wrap(self.any.transposed())
    }

    /// The same data with axes in another order: axis `i` of the result is axis `axes[i]`; copies nothing.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let a = Tensor::<f32>::zeros(&[2, 3, 4])?;
    /// assert_eq!(a.permuted(&[2, 0, 1])?.shape(), [4, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn permuted(&self, axes: &[usize]) -> Result<Tensor<T>, Error> {
        self.any.permuted(axes).map(Tensor::wrap)
    }

    /// The part `range` along an axis; copies nothing.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let a = Tensor::from_vec(vec![1, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(a.slice(1, 1..3)?.to_vec(), [2, 3, 5, 6]);
    /// assert!(a.slice(1, 2..4).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn slice(&self, axis: usize, range: Range<usize>) -> Result<Tensor<T>, Error> {
        self.any.slice(axis, range).map(Tensor::wrap)
    }

    /// The same elements in another shape; copies only if they are not contiguous.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let a = Tensor::from_vec(vec![1, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(a.reshaped(&[3, 2])?.get(&[2, 1]), Some(6));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reshaped(&self, shape: &[usize]) -> Result<Tensor<T>, Error> {
        self.any.reshaped(shape).map(Tensor::wrap)
    }

    /// The same data repeated along axes of size one to fit `shape`; copies nothing.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let row = Tensor::from(vec![1, 2]);
    /// assert_eq!(row.broadcast_to(&[3, 2])?.to_vec(), [1, 2, 1, 2, 1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn broadcast_to(&self, shape: &[usize]) -> Result<Tensor<T>, Error> {
        self.any.broadcast_to(shape).map(Tensor::wrap)
    }
}

impl<T: Element> fmt::Debug for Tensor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.any.fmt(f)
    }
}

impl<T: Element> From<Vec<T>> for Tensor<T> {
    /// One dimension.
    fn from(data: Vec<T>) -> Self {
        let mut shape = [0usize; 1];
        shape[0] = data.len();
        let (shape, strides) = (Dims::new(&shape).unwrap_or_default(), Dims::new(&[1]).unwrap_or_default());
        Tensor::stored(data, shape, strides)
    }
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

    #[test]
    fn converting_to_a_tensor_of_any_type_and_back_shares_the_data_and_another_type_is_refused_by_name() {
        let tensor = Tensor::from(vec![1i32, 2, 3]);
        let any = AnyTensor::from(tensor.clone());
        let Ok(back) = any.typed::<i32>() else { unreachable!("it is of that type") };
        assert!(Arc::ptr_eq(&tensor.any.data, &back.any.data));
        let error = any.typed::<f32>().map_or_else(|error| error.to_string(), |_| String::new());
        assert!(error.contains("i32") && error.contains("f32"), "{error}");
    }

    #[test]
    fn somebody_elses_elements_are_read_in_place_and_copied_before_they_are_written() -> Result<(), Error> {
        struct Theirs(Arc<Vec<f32>>);
        impl crate::Foreign for Theirs {
            fn elements(&self) -> trimtab_operands::Slice<'_> {
                f32::erase(&self.0)
            }
        }
        let theirs = Arc::new(vec![1.0f32, 2.0, 3.0, 4.0]);
        let any = AnyTensor::foreign(Box::new(Theirs(Arc::clone(&theirs))), &[2, 2], &[2, 1], 0)?;
        assert!(any.is_foreign() && any.is_contiguous());
        let mut tensor: Tensor<f32> = any.try_into()?;
        assert!(std::ptr::eq(tensor.as_slice().unwrap_or_default(), theirs.as_slice()));
        tensor.as_mut_slice()[0] = 9.0;
        assert_eq!((tensor.to_vec()[0], theirs[0], Arc::strong_count(&theirs)), (9.0, 1.0, 1));
        let far = |strides: &[isize], offset| {
            AnyTensor::foreign(Box::new(Theirs(Arc::clone(&theirs))), &[2, 2], strides, offset).is_err()
        };
        assert!(far(&[2, 1], 1) && far(&[-2, 1], 1) && far(&[isize::MAX, 1], 0) && far(&[1], 0));
        assert!(!far(&[-2, -1], 3) && !far(&[0, 0], 3));
        let none = AnyTensor::foreign(Box::new(Theirs(theirs)), &[0, 7], &[70, 10], 99)?;
        assert_eq!((none.len(), none.typed::<f32>()?.to_vec()), (0, vec![]));
        Ok(())
    }
}
