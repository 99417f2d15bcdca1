//! What the CPU hands to its kernels: typed slices and the thread pool.

use crate::pool::Pool;
use trimtab_core::{Context, DType, LaunchError};

/// The CPU as a kernel context.
#[derive(Debug)]
pub struct Cpu;

impl Context for Cpu {
    type Args<'a> = Args<'a>;
}

/// An input of some element type; `None` where the operation has no such operand.
#[derive(Clone, Copy, Debug)]
pub enum Slice<'a> {
    /// No operand.
    None,
    /// 32-bit floats.
    F32(&'a [f32]),
    /// 64-bit floats.
    F64(&'a [f64]),
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
    /// 32-bit integers.
    I32(&'a mut [i32]),
}

/// The operands and services of one launch.
#[derive(Debug)]
pub struct Args<'a> {
    /// The left or only input.
    pub lhs: Slice<'a>,
    /// The right input.
    pub rhs: Slice<'a>,
    /// The result; what it holds before is not read.
    pub out: SliceMut<'a>,
    /// Threads to share work with.
    pub pool: &'a Pool,
}

/// The operands of a launch once their element type and lengths were checked against the problem.
#[derive(Debug)]
pub struct Typed<'a, T> {
    /// The left or only input.
    pub lhs: &'a [T],
    /// The right input; empty where the operation has none.
    pub rhs: &'a [T],
    /// The result.
    pub out: &'a mut [T],
    /// Threads to share work with.
    pub pool: &'a Pool,
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
    ($($type:ty, $variant:ident;)*) => {
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
                value as $type
            }
            #[inline]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
        })*
    };
}
element! { f32, F32; f64, F64; i32, I32; }

impl Slice<'_> {
    /// Number of elements; none where there is no operand.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Slice::None => 0,
            Slice::F32(slice) => slice.len(),
            Slice::F64(slice) => slice.len(),
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
            SliceMut::I32(_) => DType::I32,
        }
    }

    /// The same slice for a shorter while.
    pub fn reborrow(&mut self) -> SliceMut<'_> {
        match self {
            SliceMut::F32(slice) => SliceMut::F32(slice),
            SliceMut::F64(slice) => SliceMut::F64(slice),
            SliceMut::I32(slice) => SliceMut::I32(slice),
        }
    }
}

impl<'a> Args<'a> {
    /// The operands as slices of `T` with exactly these lengths (left, right, out), as
    /// [`Problem::operand_lens`](trimtab_core::Problem::operand_lens) gives them.
    #[inline]
    pub fn typed<T: Element>(self, lens: [u64; 3]) -> Result<Typed<'a, T>, LaunchError> {
        let Args { lhs, rhs, out, pool } = self;
        let found = [lhs.len() as u64, rhs.len() as u64, out.len() as u64];
        let types = [lhs.dtype(), rhs.dtype(), Some(out.dtype())];
        // Numbers and variants first, words only for the error: describing the operands cost 10 ns of a 40 ns product.
        if found == lens
            && let (Some(lhs), Some(rhs), Some(out)) = (T::slice(lhs), T::slice(rhs), T::slice_mut(out))
        {
            return Ok(Typed { lhs, rhs, out, pool });
        }
        Err(wrong_operand(T::DTYPE, types, found, lens))
    }
}

#[cold]
fn wrong_operand(wanted: DType, types: [Option<DType>; 3], found: [u64; 3], lens: [u64; 3]) -> LaunchError {
    let is_wrong =
        |&place: &usize| found[place] != lens[place] || types[place].is_some_and(|dtype| dtype != wanted);
    let place = (0..3).find(is_wrong).unwrap_or(2);
    LaunchError::Operand {
        operand: ["lhs", "rhs", "out"][place],
        dtype: types[place].map_or("nothing", DType::name),
        found: found[place] as usize,
        needed: lens[place] as usize,
    }
}
