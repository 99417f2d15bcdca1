//! What an instruction of a recipe does to the registers: the operations over a block of vectors, one jump each.

use super::machine::MAX_BLOCK;
use super::program::Opcode;
use crate::kernels::elementwise::ops::{Op, Operand, Visit};
use crate::simd::{Simd, Task, Vector};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use trimtab_core::{BinaryOp, ElementwiseOp, UnaryOp};

/// What is done to the registers, in one word: every jump of an instruction costs as much as some vectors, and with two of
/// them, over the kind of source and over the operation, chains of short steps took half as long again.
macro_rules! acts {
    ($($alone:ident)* ; $($op:ident: $many:ident $one:ident $many_left:ident $one_left:ident;)*) => {
        /// What an instruction does: with sources of many elements or one, on the right or on the left.
        #[derive(Clone, Copy)]
        pub(super) enum Act { FetchMany, FetchOne, PutAside, $($alone,)* $($many, $one, $many_left, $one_left,)* }

        impl Act {
            pub(super) fn new(kind: Opcode, op: ElementwiseOp, repeats: bool) -> Act {
                match (kind, op, repeats) {
                    (Opcode::Fetch, _, false) => Act::FetchMany,
                    (Opcode::Fetch, _, true) => Act::FetchOne,
                    $((Opcode::Unary, ElementwiseOp::Unary(UnaryOp::$alone), _) => Act::$alone,)*
                    $((Opcode::Apply, ElementwiseOp::Binary(BinaryOp::$op), false) => Act::$many,
                    (Opcode::Apply, ElementwiseOp::Binary(BinaryOp::$op), true) => Act::$one,
                    (Opcode::Reversed, ElementwiseOp::Binary(BinaryOp::$op), false) => Act::$many_left,
                    (Opcode::Reversed, ElementwiseOp::Binary(BinaryOp::$op), true) => Act::$one_left,)*
                    // Programs pair no function of one with a source: what is left is to put aside.
                    _ => Act::PutAside,
                }
            }

            /// Does it.
            ///
            /// # Safety
            /// `at` must be readable for a block or one element as the act says, writable for a block to put aside.
            #[inline(always)]
            pub(super) unsafe fn run<T: Operand, S: Simd, const U: usize>(
                self,
                simd: S,
                held: [T::Vec<S>; U],
                at: *const T,
            ) -> [T::Vec<S>; U] {
                // SAFETY: the caller's promise.
                unsafe {
                    match self {
                        Act::FetchMany => many::<T, S, U>(simd, at),
                        Act::FetchOne => one::<T, S, U>(simd, at),
                        Act::PutAside => {
                            put::<T, S, U>(held, at.cast_mut());
                            held
                        }
                        $(Act::$alone => {
                            let op = ElementwiseOp::Unary(UnaryOp::$alone);
                            T::visit(op, Alone { simd, held }).unwrap_or(held)
                        })*
                        $(Act::$many => with::<T, S, U, MANY, false>(simd, BinaryOp::$op, held, at),
                        Act::$one => with::<T, S, U, ONE, false>(simd, BinaryOp::$op, held, at),
                        Act::$many_left => with::<T, S, U, MANY, true>(simd, BinaryOp::$op, held, at),
                        Act::$one_left => with::<T, S, U, ONE, true>(simd, BinaryOp::$op, held, at),)*
                    }
                }
            }
        }
    };
}
acts! {
    Neg Abs Exp Log Sqrt Tanh Sigmoid Relu Gelu;
    Add: AddMany AddOne AddManyLeft AddOneLeft;
    Sub: SubMany SubOne SubManyLeft SubOneLeft;
    Mul: MulMany MulOne MulManyLeft MulOneLeft;
    Div: DivMany DivOne DivManyLeft DivOneLeft;
    Min: MinMany MinOne MinManyLeft MinOneLeft;
    Max: MaxMany MaxOne MaxManyLeft MaxOneLeft;
    Pow: PowMany PowOne PowManyLeft PowOneLeft;
}

/// Whether a source has an element for each or one for all.
const MANY: bool = true;
const ONE: bool = false;

/// A block side by side.
///
/// # Safety
/// `at` must be readable for a block.
#[inline(always)]
unsafe fn many<T: Operand, S: Simd, const U: usize>(simd: S, at: *const T) -> [T::Vec<S>; U] {
    let lanes = <T::Vec<S> as Vector<T>>::LANES;
    let mut values = [T::Vec::<S>::splat(simd, T::default()); U];
    for (u, value) in values.iter_mut().enumerate() {
        // SAFETY: within the block.
        *value = unsafe { T::Vec::<S>::load(simd, at.add(u * lanes)) };
    }
    values
}

/// The other way round.
///
/// # Safety
/// `at` must be writable for a block.
#[inline(always)]
unsafe fn put<T: Operand, S: Simd, const U: usize>(values: [T::Vec<S>; U], at: *mut T) {
    for (u, value) in values.iter().enumerate() {
        // SAFETY: within the block.
        unsafe { value.store(at.add(u * <T::Vec<S> as Vector<T>>::LANES)) };
    }
}

/// A block of the same.
///
/// # Safety
/// `at` must be readable for one element.
#[inline(always)]
unsafe fn one<T: Operand, S: Simd, const U: usize>(simd: S, at: *const T) -> [T::Vec<S>; U] {
    // SAFETY: the caller's promise.
    [T::Vec::<S>::splat(simd, unsafe { *at }); U]
}

/// A function of the registers and a source.
///
/// # Safety
/// `at` must be readable for a block, or for one element.
#[inline(always)]
unsafe fn with<T: Operand, S: Simd, const U: usize, const WHAT: bool, const LEFT: bool>(
    simd: S,
    op: BinaryOp,
    held: [T::Vec<S>; U],
    at: *const T,
) -> [T::Vec<S>; U] {
    let op = ElementwiseOp::Binary(op);
    // SAFETY: the caller's promise.
    let read = unsafe { if WHAT == MANY { many::<T, S, U>(simd, at) } else { one::<T, S, U>(simd, at) } };
    let (left, right) = if LEFT { (read, held) } else { (held, read) };
    match T::visit(op, Pair { simd, left, right }) {
        Some(values) => values,
        None => scalars::<T, S, U>(simd, op, left, right),
    }
}

/// A function of one value on the vectors of a block.
struct Alone<T: Operand, S: Simd, const U: usize> {
    simd: S,
    held: [T::Vec<S>; U],
}

/// A function of two.
struct Pair<T: Operand, S: Simd, const U: usize> {
    simd: S,
    left: [T::Vec<S>; U],
    right: [T::Vec<S>; U],
}

/// Vector by vector.
#[inline(always)]
fn each<T: Operand, S: Simd, O: Op<T>, const U: usize>(
    simd: S,
    left: [T::Vec<S>; U],
    right: [T::Vec<S>; U],
) -> [T::Vec<S>; U] {
    if O::UNROLL >= 4 {
        let mut values = left;
        for (value, right) in values.iter_mut().zip(right) {
            *value = O::apply(simd, *value, right);
        }
        return values;
    }
    // A long function, through memory: registers for its polynomials, and its code apart from that of the short ones.
    let mut operands = [[MaybeUninit::<T>::uninit(); MAX_BLOCK]; 2];
    let [first, second] = &mut operands;
    let (first, second) = (first.as_mut_ptr().cast::<T>(), second.as_mut_ptr().cast::<T>());
    // SAFETY: a block fits the buffers, and is written before it is read.
    unsafe {
        put::<T, S, U>(left, first);
        put::<T, S, U>(right, second);
        simd.vectorize(Long::<T, O, U> { left: first, right: second, operation: PhantomData });
        many::<T, S, U>(simd, first)
    }
}

impl<T: Operand, S: Simd, const U: usize> Visit<T> for Alone<T, S, U> {
    type Out = [T::Vec<S>; U];
    #[inline(always)]
    fn unary<O: Op<T>>(self) -> Self::Out {
        each::<T, S, O, U>(self.simd, self.held, self.held)
    }
    /// Never asked for: programs say which are which.
    #[inline(always)]
    fn binary<O: Op<T>>(self) -> Self::Out {
        self.held
    }
}

impl<T: Operand, S: Simd, const U: usize> Visit<T> for Pair<T, S, U> {
    type Out = [T::Vec<S>; U];
    /// Never asked for: programs say which are which.
    #[inline(always)]
    fn unary<O: Op<T>>(self) -> Self::Out {
        self.left
    }
    #[inline(always)]
    fn binary<O: Op<T>>(self) -> Self::Out {
        each::<T, S, O, U>(self.simd, self.left, self.right)
    }
}

/// A long function of blocks in memory; the result replaces the left one. Made only by [`each`].
struct Long<T, O, const U: usize> {
    left: *mut T,
    right: *const T,
    operation: PhantomData<O>,
}

impl<T: Operand, O: Op<T>, const U: usize> Task for Long<T, O, U> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let lanes = <T::Vec<S> as Vector<T>>::LANES;
        // SAFETY: both hold a block of this instruction set.
        unsafe {
            for u in (0..U * lanes).step_by(2 * lanes) {
                let [left, after_left] = many::<T, S, 2>(simd, self.left.add(u));
                let [right, after_right] = many::<T, S, 2>(simd, self.right.add(u));
                let values = [O::apply(simd, left, right), O::apply(simd, after_left, after_right)];
                put::<T, S, 2>(values, self.left.add(u));
            }
        }
    }
}

/// An operation without a vector form, element by element. One that is not defined keeps its left operand: recipes do
/// not have those.
#[inline(always)]
fn scalars<T: Operand, S: Simd, const U: usize>(
    simd: S,
    op: ElementwiseOp,
    left: [T::Vec<S>; U],
    right: [T::Vec<S>; U],
) -> [T::Vec<S>; U] {
    let mut operands = [[T::default(); MAX_BLOCK]; 2];
    // SAFETY: a block fits the buffers.
    unsafe {
        put::<T, S, U>(left, operands[0].as_mut_ptr());
        put::<T, S, U>(right, operands[1].as_mut_ptr());
        scalar::<T>(op, &mut operands);
        many::<T, S, U>(simd, operands[0].as_ptr())
    }
}

#[inline(never)]
fn scalar<T: Operand>(op: ElementwiseOp, [left, right]: &mut [[T; MAX_BLOCK]; 2]) {
    for (a, &b) in left.iter_mut().zip(right.iter()) {
        *a = T::scalar(op, *a, b).unwrap_or(*a);
    }
}
