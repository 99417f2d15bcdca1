//! Element types and slices of them with the type erased: what passes between callers and devices.

use half::f16;
use trimtab_core::DType;

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

impl Slice<'_> {
    /// Number of elements; none where there is no operand.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Slice::None => 0,
            Slice::F32(slice) => slice.len(),
            Slice::F64(slice) => slice.len(),
            Slice::F16(slice) => slice.len(),
            Slice::I32(slice) => slice.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element type, where there is an operand.
    #[inline]
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Slice::None => None,
            Slice::F32(_) => Some(DType::F32),
            Slice::F64(_) => Some(DType::F64),
            Slice::F16(_) => Some(DType::F16),
            Slice::I32(_) => Some(DType::I32),
        }
    }
}

impl SliceMut<'_> {
    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            SliceMut::F32(slice) => slice.len(),
            SliceMut::F64(slice) => slice.len(),
            SliceMut::F16(slice) => slice.len(),
            SliceMut::I32(slice) => slice.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        match self {
            SliceMut::F32(_) => DType::F32,
            SliceMut::F64(_) => DType::F64,
            SliceMut::F16(_) => DType::F16,
            SliceMut::I32(_) => DType::I32,
        }
    }

    /// The same slice for a shorter while.
    pub fn reborrow(&mut self) -> SliceMut<'_> {
        match self {
            SliceMut::F32(slice) => SliceMut::F32(slice),
            SliceMut::F64(slice) => SliceMut::F64(slice),
            SliceMut::F16(slice) => SliceMut::F16(slice),
            SliceMut::I32(slice) => SliceMut::I32(slice),
        }
    }
}
