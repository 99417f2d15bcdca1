//! Slices and vectors of elements with the type erased: what passes between callers and devices.

use crate::element::Element;
use half::{bf16, f16};
use num_complex::Complex;
use std::ops::Range;
use trimtab_core::{DType, LaunchError};

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
    /// Upper halves of 32-bit floats.
    Bf16(&'a [bf16]),
    /// True or false.
    Bool(&'a [bool]),
    /// 8-bit integers.
    I8(&'a [i8]),
    /// 8-bit integers without a sign.
    U8(&'a [u8]),
    /// 16-bit integers.
    I16(&'a [i16]),
    /// 32-bit integers.
    I32(&'a [i32]),
    /// 32-bit integers without a sign.
    U32(&'a [u32]),
    /// 64-bit integers.
    I64(&'a [i64]),
    /// Complex numbers of two `f32`.
    Complex64(&'a [Complex<f32>]),
    /// Complex numbers of two `f64`.
    Complex128(&'a [Complex<f64>]),
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
    /// Upper halves of 32-bit floats.
    Bf16(&'a mut [bf16]),
    /// True or false.
    Bool(&'a mut [bool]),
    /// 8-bit integers.
    I8(&'a mut [i8]),
    /// 8-bit integers without a sign.
    U8(&'a mut [u8]),
    /// 16-bit integers.
    I16(&'a mut [i16]),
    /// 32-bit integers.
    I32(&'a mut [i32]),
    /// 32-bit integers without a sign.
    U32(&'a mut [u32]),
    /// 64-bit integers.
    I64(&'a mut [i64]),
    /// Complex numbers of two `f32`.
    Complex64(&'a mut [Complex<f32>]),
    /// Complex numbers of two `f64`.
    Complex128(&'a mut [Complex<f64>]),
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
    /// Upper halves of 32-bit floats.
    Bf16(Vec<bf16>),
    /// True or false.
    Bool(Vec<bool>),
    /// 8-bit integers.
    I8(Vec<i8>),
    /// 8-bit integers without a sign.
    U8(Vec<u8>),
    /// 16-bit integers.
    I16(Vec<i16>),
    /// 32-bit integers.
    I32(Vec<i32>),
    /// 32-bit integers without a sign.
    U32(Vec<u32>),
    /// 64-bit integers.
    I64(Vec<i64>),
    /// Complex numbers of two `f32`.
    Complex64(Vec<Complex<f32>>),
    /// Complex numbers of two `f64`.
    Complex128(Vec<Complex<f64>>),
}

/// The same for every element type: `each!(slice, Slice(elements) => elements.len(), 0)`, the last for no operand.
macro_rules! each {
    ($value:expr, $of:ident($name:ident) => $body:expr, $none:expr) => {
        match $value {
            $of::None => $none,
            $of::F32($name) => $body,
            $of::F64($name) => $body,
            $of::F16($name) => $body,
            $of::Bf16($name) => $body,
            $of::Bool($name) => $body,
            $of::I8($name) => $body,
            $of::U8($name) => $body,
            $of::I16($name) => $body,
            $of::I32($name) => $body,
            $of::U32($name) => $body,
            $of::I64($name) => $body,
            $of::Complex64($name) => $body,
            $of::Complex128($name) => $body,
        }
    };
    ($value:expr, $of:ident($name:ident) => $body:expr) => {
        match $value {
            $of::F32($name) => $body,
            $of::F64($name) => $body,
            $of::F16($name) => $body,
            $of::Bf16($name) => $body,
            $of::Bool($name) => $body,
            $of::I8($name) => $body,
            $of::U8($name) => $body,
            $of::I16($name) => $body,
            $of::I32($name) => $body,
            $of::U32($name) => $body,
            $of::I64($name) => $body,
            $of::Complex64($name) => $body,
            $of::Complex128($name) => $body,
        }
    };
}

/// An element type that has a value for every pattern of bits, or for those that were looked at first.
trait Bits: Element + bytemuck::NoUninit + bytemuck::CheckedBitPattern {}
impl<T: Element + bytemuck::NoUninit + bytemuck::CheckedBitPattern> Bits for T {}

/// Elements that lie in memory as they must; those of a last part that is too short are left out.
fn cast<T: Bits>(bytes: &[u8]) -> &[T] {
    let whole = bytes.len() - bytes.len() % std::mem::size_of::<T>();
    bytemuck::checked::try_cast_slice(&bytes[..whole]).unwrap_or_default()
}

fn cast_mut<T: Bits>(bytes: &mut [u8]) -> &mut [T] {
    let whole = bytes.len() - bytes.len() % std::mem::size_of::<T>();
    bytemuck::checked::try_cast_slice_mut(&mut bytes[..whole]).unwrap_or_default()
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
        crate::by_dtype!(dtype, T => T::erase(cast(bytes)))
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
    /// Some of the elements; nothing of what is not there.
    pub fn part(self, range: Range<usize>) -> SliceMut<'a> {
        each!(self, SliceMut(slice) => Element::erase_mut(slice.get_mut(range).unwrap_or_default()))
    }

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

    /// Lets somebody write the elements as they lie in memory. Of truth values any byte but zero is true.
    pub fn with_bytes<R>(self, write: impl FnOnce(&mut [u8]) -> R) -> R {
        fn pod<T: bytemuck::Pod, R>(slice: &mut [T], write: impl FnOnce(&mut [u8]) -> R) -> R {
            write(bytemuck::cast_slice_mut(slice))
        }
        match self {
            SliceMut::Bool(slice) => {
                // Not every byte is a `bool`, so they are written elsewhere first.
                let mut bytes: Vec<u8> = slice.iter().map(|&value| u8::from(value)).collect();
                let result = write(&mut bytes);
                slice.iter_mut().zip(bytes).for_each(|(own, byte)| *own = byte != 0);
                result
            }
            SliceMut::F32(slice) => pod(slice, write),
            SliceMut::F64(slice) => pod(slice, write),
            SliceMut::F16(slice) => pod(slice, write),
            SliceMut::Bf16(slice) => pod(slice, write),
            SliceMut::I8(slice) => pod(slice, write),
            SliceMut::U8(slice) => pod(slice, write),
            SliceMut::I16(slice) => pod(slice, write),
            SliceMut::I32(slice) => pod(slice, write),
            SliceMut::U32(slice) => pod(slice, write),
            SliceMut::I64(slice) => pod(slice, write),
            SliceMut::Complex64(slice) => pod(slice, write),
            SliceMut::Complex128(slice) => pod(slice, write),
        }
    }

    /// Copies elements of the same type and number.
    pub fn copy_from(self, from: Slice<'_>) -> Result<(), LaunchError> {
        let (needed, found, dtype) = (self.len(), from.len(), from.dtype());
        let wrong = LaunchError::Operand {
            operand: "out",
            dtype: dtype.map_or("nothing", DType::name),
            found,
            needed,
        };
        fn copied<T: Element>(to: &mut [T], from: Slice<'_>) -> Option<()> {
            let from = T::slice(from).filter(|from| from.len() == to.len())?;
            to.copy_from_slice(from);
            Some(())
        }
        each!(self, SliceMut(slice) => copied(slice, from)).ok_or(wrong)
    }

    /// As [`Slice::of_bytes`], for writing.
    pub fn of_bytes(dtype: DType, bytes: &'a mut [u8]) -> SliceMut<'a> {
        crate::by_dtype!(dtype, T => T::erase_mut(cast_mut(bytes)))
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
        crate::by_dtype!(dtype, T => T::own(vec![T::default(); len]))
    }

    /// A copy of elements by how they lie in memory.
    pub fn of_bytes(dtype: DType, bytes: &[u8]) -> Data {
        let mut data = Data::zeros(dtype, bytes.len() / dtype.size() as usize);
        data.slice_mut().with_bytes(|own| own.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from));
        data
    }

    /// These numbers, rounded to the type; complex ones take two each.
    pub fn of_numbers(dtype: DType, numbers: &[f64]) -> Data {
        fn made<T: Element>(numbers: &[f64]) -> Data {
            let parts = numbers.chunks(T::DTYPE.numbers());
            T::own(parts.map(|part| T::of_numbers([part[0], part.get(1).copied().unwrap_or(0.0)])).collect())
        }
        crate::by_dtype!(dtype, T => made::<T>(numbers))
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

    /// Overwrites everything with values no kernel is likely to produce here, so that an output that was not written shows.
    pub fn poison(&mut self) {
        each!(self, Data(data) => data.fill(Element::POISON), ());
    }

    /// The same for the elements that some numbers are part of.
    pub(crate) fn poison_at(&mut self, places: &[usize]) {
        fn each_of<T: Element>(data: &mut [T], places: &[usize]) {
            let at = |place: &usize| place / T::DTYPE.numbers();
            places
                .iter()
                .map(at)
                .for_each(|at| data.get_mut(at).into_iter().for_each(|value| *value = T::POISON));
        }
        each!(self, Data(data) => each_of(data, places), ());
    }

    /// How many real numbers there are: one an element, two for complex ones.
    pub fn numbers(&self) -> usize {
        self.len() * self.dtype().map_or(1, DType::numbers)
    }

    /// A real number, of those in [`Data::numbers`].
    pub fn at(&self, index: usize) -> Option<f64> {
        fn number<T: Element>(data: &[T], index: usize) -> Option<f64> {
            let each = T::DTYPE.numbers();
            data.get(index / each).map(|value| value.numbers()[index % each])
        }
        each!(self, Data(data) => number(data, index), None)
    }
}
