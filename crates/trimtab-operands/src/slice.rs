//! Element types, and slices and vectors of them with the type erased: what passes between callers and devices.

use half::f16;
use std::ops::Range;
use trimtab_core::DType;

/// An integer no kernel produces from the operands made here.
const POISON: i32 = i32::MIN + 77;

/// An input of some element type; `None` where the operation has no such operand.
#[derive(Clone, Copy, Debug)]
pub enum Slice<'a> {
    /// No operand.
    None,
    /// 32-bit floats.
    F32(&'a [f32]),
    /// 64-bit floats.
    F64(&'a [f64]),
    /// 16-bit floats.
    F16(&'a [f16]),
    /// 32-bit integers.
    I32(&'a [i32]),
}

/// An output of some element type.
#[derive(Debug)]
pub enum SliceMut<'a> {
    /// 32-bit floats.
    F32(&'a mut [f32]),
    /// 64-bit floats.
    F64(&'a mut [f64]),
    /// 16-bit floats.
    F16(&'a mut [f16]),
    /// 32-bit integers.
    I32(&'a mut [i32]),
}

/// An owned operand.
#[derive(Clone, Debug)]
pub enum Data {
    /// No operand.
    None,
    /// 32-bit floats.
    F32(Vec<f32>),
    /// 64-bit floats.
    F64(Vec<f64>),
    /// 16-bit floats.
    F16(Vec<f16>),
    /// 32-bit integers.
    I32(Vec<i32>),
}

/// A type tensors can hold.
pub trait Element:
    Copy + Default + PartialEq + PartialOrd + Send + Sync + std::fmt::Debug + std::fmt::Display + 'static
{
    /// Its name in problems.
    const DTYPE: DType;
    /// A slice of it, erased.
    fn erase(slice: &[Self]) -> Slice<'_>;
    /// A mutable slice of it, erased.
    fn erase_mut(slice: &mut [Self]) -> SliceMut<'_>;
    /// The slice back, if it is of this type. No operand is the empty slice.
    fn slice(slice: Slice<'_>) -> Option<&[Self]>;
    /// The mutable slice back, if it is of this type.
    fn slice_mut(slice: SliceMut<'_>) -> Option<&mut [Self]>;
    /// A vector of it, erased.
    fn own(data: Vec<Self>) -> Data;
    /// The vector back, if it is of this type.
    fn owned(data: Data) -> Option<Vec<Self>>;
    /// From a double, rounded; used to make operands.
    fn from_f64(value: f64) -> Self;
    /// As a double, exact for every value.
    fn to_f64(self) -> f64;
}

macro_rules! element {
    ($($type:ty, $variant:ident, $from:expr;)*) => {
        $(impl Element for $type {
            const DTYPE: DType = DType::$variant;
            #[inline]
            fn erase(slice: &[Self]) -> Slice<'_> {
                Slice::$variant(slice)
            }
            #[inline]
            fn erase_mut(slice: &mut [Self]) -> SliceMut<'_> {
                SliceMut::$variant(slice)
            }
            #[inline]
            fn slice(slice: Slice<'_>) -> Option<&[Self]> {
                match slice {
                    Slice::$variant(slice) => Some(slice),
                    Slice::None => Some(&[]),
                    _ => None,
                }
            }
            #[inline]
            fn slice_mut(slice: SliceMut<'_>) -> Option<&mut [Self]> {
                match slice {
                    SliceMut::$variant(slice) => Some(slice),
                    _ => None,
                }
            }
            #[inline]
            fn own(data: Vec<Self>) -> Data {
                Data::$variant(data)
            }
            #[inline]
            fn owned(data: Data) -> Option<Vec<Self>> {
                match data {
                    Data::$variant(data) => Some(data),
                    _ => None,
                }
            }
            #[inline]
            fn from_f64(value: f64) -> Self {
                $from(value)
            }
            #[inline]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
        })*
    };
}
element! {
    f32, F32, |value| value as f32;
    f64, F64, |value| value;
    f16, F16, f16::from_f64;
    i32, I32, |value| value as i32;
}

/// The same for every element type: `each!(slice, Slice(elements) => elements.len(), 0)`, the last for no operand.
macro_rules! each {
    ($value:expr, $of:ident($name:ident) => $body:expr, $none:expr) => {
        match $value {
            $of::None => $none,
            $of::F32($name) => $body,
            $of::F64($name) => $body,
            $of::F16($name) => $body,
            $of::I32($name) => $body,
        }
    };
    ($value:expr, $of:ident($name:ident) => $body:expr) => {
        match $value {
            $of::F32($name) => $body,
            $of::F64($name) => $body,
            $of::F16($name) => $body,
            $of::I32($name) => $body,
        }
    };
}

/// The same for the type behind every name of one: `by_dtype!(dtype, T => T::DTYPE)`.
#[macro_export]
macro_rules! by_dtype {
    ($dtype:expr, $type:ident => $body:expr) => {
        match $dtype {
            $crate::DType::F32 => {
                type $type = f32;
                $body
            }
            $crate::DType::F64 => {
                type $type = f64;
                $body
            }
            $crate::DType::F16 => {
                type $type = $crate::f16;
                $body
            }
            $crate::DType::I32 => {
                type $type = i32;
                $body
            }
        }
    };
}

/// Elements that lie in memory as they must; those of a last part that is too short are left out.
fn cast<T: bytemuck::Pod>(bytes: &[u8]) -> &[T] {
    let whole = bytes.len() - bytes.len() % std::mem::size_of::<T>();
    bytemuck::try_cast_slice(&bytes[..whole]).unwrap_or_default()
}

fn cast_mut<T: bytemuck::Pod>(bytes: &mut [u8]) -> &mut [T] {
    let whole = bytes.len() - bytes.len() % std::mem::size_of::<T>();
    bytemuck::try_cast_slice_mut(&mut bytes[..whole]).unwrap_or_default()
}

impl<'a> Slice<'a> {
    /// Number of elements; none where there is no operand.
    #[inline]
    pub fn len(&self) -> usize {
        each!(self, Slice(slice) => slice.len(), 0)
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element type, where there is an operand.
    #[inline]
    pub fn dtype(&self) -> Option<DType> {
        each!(self, Slice(slice) => Some(dtype_of(slice)), None)
    }

    /// The elements as they lie in memory.
    pub fn bytes(&self) -> &'a [u8] {
        each!(self, Slice(slice) => bytemuck::cast_slice(slice), &[])
    }

    /// Elements of a type by how they lie in memory; those of a last part that is too short are left out.
    pub fn of_bytes(dtype: DType, bytes: &'a [u8]) -> Slice<'a> {
        by_dtype!(dtype, T => T::erase(cast(bytes)))
    }

    /// A copy of the elements.
    pub fn to_data(&self) -> Data {
        each!(self, Slice(slice) => Element::own(slice.to_vec()), Data::None)
    }

    /// Some of the elements; nothing of what is not there.
    pub fn part(&self, range: Range<usize>) -> Slice<'a> {
        each!(*self, Slice(slice) => Element::erase(slice.get(range).unwrap_or_default()), Slice::None)
    }
}

fn dtype_of<T: Element>(_: &[T]) -> DType {
    T::DTYPE
}

impl<'a> SliceMut<'a> {
    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        each!(self, SliceMut(slice) => slice.len())
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        each!(self, SliceMut(slice) => dtype_of(slice))
    }

    /// The same elements, to be read.
    pub fn view(&self) -> Slice<'_> {
        each!(self, SliceMut(slice) => Element::erase(slice))
    }

    /// The elements as they lie in memory.
    pub fn into_bytes(self) -> &'a mut [u8] {
        each!(self, SliceMut(slice) => bytemuck::cast_slice_mut(slice))
    }

    /// As [`Slice::of_bytes`], for writing.
    pub fn of_bytes(dtype: DType, bytes: &'a mut [u8]) -> SliceMut<'a> {
        by_dtype!(dtype, T => T::erase_mut(cast_mut(bytes)))
    }
}

/// An output that is lent to one launch after another. A slice with its type stays in registers up to the kernel: erased before,
/// it is copied from frame to frame.
pub trait Lend {
    /// The output for one launch.
    fn lend(&mut self) -> SliceMut<'_>;
}

impl<T: Element> Lend for &mut [T] {
    #[inline(always)]
    fn lend(&mut self) -> SliceMut<'_> {
        T::erase_mut(self)
    }
}

impl Lend for SliceMut<'_> {
    #[inline(always)]
    fn lend(&mut self) -> SliceMut<'_> {
        each!(self, SliceMut(slice) => Element::erase_mut(slice))
    }
}

impl Lend for Data {
    fn lend(&mut self) -> SliceMut<'_> {
        self.slice_mut()
    }
}

impl Data {
    /// That many zeros.
    pub fn zeros(dtype: DType, len: usize) -> Data {
        by_dtype!(dtype, T => T::own(vec![T::default(); len]))
    }

    /// A copy of elements by how they lie in memory.
    pub fn of_bytes(dtype: DType, bytes: &[u8]) -> Data {
        let mut data = Data::zeros(dtype, bytes.len() / dtype.size() as usize);
        data.slice_mut().into_bytes().iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        data
    }

    /// These numbers, rounded to the type.
    pub fn of_numbers(dtype: DType, numbers: &[f64]) -> Data {
        by_dtype!(dtype, T => T::own(numbers.iter().map(|&number| T::from_f64(number)).collect()))
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        each!(self, Data(data) => data.len(), 0)
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element type, where there is an operand.
    pub fn dtype(&self) -> Option<DType> {
        self.slice().dtype()
    }

    /// Bytes of the memory behind it, used or not.
    pub fn capacity(&self) -> usize {
        each!(self, Data(data) => data.capacity() * std::mem::size_of_val(&data.first().copied().unwrap_or_default()), 0)
    }

    /// Drops all but the first elements.
    pub fn truncate(&mut self, len: usize) {
        each!(self, Data(data) => data.truncate(len), ())
    }

    /// Views the data.
    #[inline]
    pub fn slice(&self) -> Slice<'_> {
        each!(self, Data(data) => Element::erase(data), Slice::None)
    }

    /// Views the data for writing.
    #[inline]
    pub fn slice_mut(&mut self) -> SliceMut<'_> {
        // An output of no elements; its type does not matter to anyone.
        each!(self, Data(data) => Element::erase_mut(data), SliceMut::F32(&mut []))
    }

    /// Overwrites everything with values no kernel produces here, so that an output that was not written shows.
    pub fn poison(&mut self) {
        match self {
            Data::I32(data) => data.fill(POISON),
            data => each!(data, Data(data) => data.fill(Element::from_f64(f64::NAN)), ()),
        }
    }

    /// The same for some elements.
    pub(crate) fn poison_at(&mut self, places: &[usize]) {
        fn each<T: Copy>(data: &mut [T], places: &[usize], poison: T) {
            places
                .iter()
                .for_each(|&place| data.get_mut(place).into_iter().for_each(|value| *value = poison));
        }
        match self {
            Data::I32(data) => each(data, places, POISON),
            data => each!(data, Data(data) => each(data, places, Element::from_f64(f64::NAN)), ()),
        }
    }

    /// An element as a double.
    pub fn at(&self, index: usize) -> Option<f64> {
        each!(self, Data(data) => data.get(index).map(|value| value.to_f64()), None)
    }
}
