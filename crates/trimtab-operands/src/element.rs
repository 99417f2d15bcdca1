//! Element types: what each is called, how it is erased, and which real numbers it stands for.

use crate::slice::{Data, Slice, SliceMut};
use half::{bf16, f16};
use num_complex::Complex;
use trimtab_core::DType;

/// A type tensors can hold.
pub trait Element:
    Copy + Default + PartialEq + Send + Sync + std::fmt::Debug + std::fmt::Display + 'static
{
    /// Its name in problems.
    const DTYPE: DType;
    /// The type of sums and products of it: its own, but i64 for small integers and for truth values, which are counted.
    type Total: Element;
    /// A value no kernel is likely to produce from operands made here: not a number where there is such, rare otherwise.
    const POISON: Self;
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
    /// From a double, rounded: whole numbers toward zero and to the nearest there is, what is not a number to zero there; anything
    /// but zero is true.
    fn from_f64(value: f64) -> Self;
    /// As a double, exact but for integers above 2⁵³; of a complex number its real part.
    fn to_f64(self) -> f64;
    /// From a whole number as by `as`: its lower bits, or the nearest float.
    fn from_i64(value: i64) -> Self;
    /// As a whole number, exact for whole numbers; of others as by `as`.
    fn to_i64(self) -> i64;
    /// The real numbers in it: the second is the imaginary part of a complex number, zero for others.
    fn numbers(self) -> [f64; 2] {
        [self.to_f64(), 0.0]
    }
    /// From its real numbers.
    fn of_numbers(numbers: [f64; 2]) -> Self {
        Self::from_f64(numbers[0])
    }
}

/// An f32 from which an f16 or bf16 is rounded as from the double itself: of two neighbours the one that is odd, so that no tie is made up.
/// `half` drops the lower half of a double before it rounds.
fn rounded_to_odd(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near) == value || value.is_nan() {
        return near;
    }
    // Toward zero, then the last bit.
    let cut = if f64::from(near).abs() > value.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f32::from_bits(cut | 1)
}

/// Whole numbers and elements, by type.
macro_rules! whole {
    (Bool, $value:expr) => {
        $value != 0
    };
    (F16, $value:expr) => {
        f16::from_f64($value as f64)
    };
    (Bf16, $value:expr) => {
        bf16::from_f64($value as f64)
    };
    (Complex64, $value:expr) => {
        Complex::new($value as f32, 0.0)
    };
    (Complex128, $value:expr) => {
        Complex::new($value as f64, 0.0)
    };
    ($real:ident, $value:expr) => {
        $value as Self
    };
    (back Bool, $value:expr) => {
        i64::from($value)
    };
    (back F16, $value:expr) => {
        $value.to_f64() as i64
    };
    (back Bf16, $value:expr) => {
        $value.to_f64() as i64
    };
    (back Complex64, $value:expr) => {
        $value.re as i64
    };
    (back Complex128, $value:expr) => {
        $value.re as i64
    };
    (back $real:ident, $value:expr) => {
        $value as i64
    };
}

macro_rules! element {
    ($($type:ty, $variant:ident, $total:ty, $poison:expr, $from:expr, $to:expr $(, $numbers:expr, $of:expr)?;)*) => {
        $(impl Element for $type {
            const DTYPE: DType = DType::$variant;
            type Total = $total;
            const POISON: $type = $poison;
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
                $to(self)
            }
            #[inline]
            fn from_i64(value: i64) -> Self {
                whole!($variant, value)
            }
            #[inline]
            fn to_i64(self) -> i64 {
                whole!(back $variant, self)
            }
            $(
                #[inline]
                fn numbers(self) -> [f64; 2] {
                    $numbers(self)
                }
                #[inline]
                fn of_numbers(numbers: [f64; 2]) -> Self {
                    $of(numbers)
                }
            )?
        })*
    };
}
element! {
    f32, F32, f32, f32::NAN, |value| value as f32, f64::from;
    f64, F64, f64, f64::NAN, |value| value, |value| value;
    f16, F16, f16, f16::NAN, |value| f16::from_f32(rounded_to_odd(value)), f16::to_f64;
    bf16, Bf16, bf16, bf16::NAN, |value| bf16::from_f32(rounded_to_odd(value)), bf16::to_f64;
    bool, Bool, i64, true, |value| value != 0.0, |value| f64::from(u8::from(value));
    i8, I8, i64, i8::MIN + 77, |value| value as i8, f64::from;
    u8, U8, i64, 0xcd, |value| value as u8, f64::from;
    i16, I16, i64, i16::MIN + 77, |value| value as i16, f64::from;
    i32, I32, i32, i32::MIN + 77, |value| value as i32, f64::from;
    u32, U32, i64, u32::MAX - 77, |value| value as u32, f64::from;
    i64, I64, i64, i64::MIN + 77, |value| value as i64, |value| value as f64;
    Complex<f32>, Complex64, Complex<f32>, Complex::new(f32::NAN, f32::NAN),
        |value| Complex::new(value as f32, 0.0), |value: Complex<f32>| f64::from(value.re),
        |value: Complex<f32>| [f64::from(value.re), f64::from(value.im)],
        |[re, im]: [f64; 2]| Complex::new(re as f32, im as f32);
    Complex<f64>, Complex128, Complex<f64>, Complex::new(f64::NAN, f64::NAN),
        |value| Complex::new(value, 0.0), |value: Complex<f64>| value.re,
        |value: Complex<f64>| [value.re, value.im], |[re, im]: [f64; 2]| Complex::new(re, im);
}

/// The same for the type behind every name of one: `by_dtype!(dtype, T => T::DTYPE)`.
#[macro_export]
macro_rules! by_dtype {
    ($dtype:expr, $type:ident => $body:expr) => {
        $crate::by_dtype!(@arms $dtype, $type => $body;
            F32 f32, F64 f64, F16 $crate::f16, Bf16 $crate::bf16, Bool bool, I8 i8, U8 u8, I16 i16, I32 i32, U32 u32, I64 i64,
            Complex64 $crate::Complex<f32>, Complex128 $crate::Complex<f64>)
    };
    (@arms $dtype:expr, $type:ident => $body:expr; $($variant:ident $of:ty),*) => {
        match $dtype {
            $($crate::DType::$variant => {
                type $type = $of;
                $body
            })*
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_become_the_nearest_half_also_next_to_a_tie() {
        // Between 260 and 262: in the middle, and a hair past it.
        for (value, nearest) in
            [(261.0, 260.0), (261.000_000_1, 262.0), (-261.000_03, -262.0), (1e39, f32::INFINITY)]
        {
            assert_eq!(<bf16 as Element>::from_f64(value).to_f32(), nearest, "{value}");
        }
        for (value, nearest) in [
            (2_049.0, 2048.0),
            (2_049.000_000_001, 2050.0),
            (65_520.0, f32::INFINITY),
            (6e-8, 5.960_464_5e-8),
        ] {
            assert_eq!(<f16 as Element>::from_f64(value).to_f32(), nearest, "{value}");
        }
        assert!(<bf16 as Element>::from_f64(f64::NAN).is_nan());
    }
}
