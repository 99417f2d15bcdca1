//! The machine that runs a program over a range of elements: a few vectors at a time, which stay in registers from the first
//! step to the last, so that nothing between the steps is written to memory but what has to make room.

use super::program::{ASIDE, Code, Kind, MAX_CODES, NUMBERS, PLACES, PRODUCT, Program};
use crate::kernels::elementwise::ops::{Op, Operand, Visit};
use crate::simd::{Level, MAX_LANES, Simd, Task, Vector};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use trimtab_core::{BinaryOp, ElementwiseOp, Fused, MAX_INPUTS, MAX_NUMBERS, MAX_WAITING, UnaryOp, Varies};

/// Vectors that go through the steps together: the more, the less reading the program costs, but they must fit the
/// registers beside what a step needs. Of 16 registers 8 were too many: twice as slow as 4.
const VECTORS: usize = 8;
const FEWER_VECTORS: usize = 4;
/// Most elements that go through the steps together.
const MAX_BLOCK: usize = VECTORS * MAX_LANES;

/// A recipe and its operands, which all threads share.
#[derive(Debug)]
pub(super) struct Recipe<'a, T> {
    program: Program,
    /// The inputs, the numbers behind the last one, as [`crate::args::Inputs`] has them.
    inputs: [&'a [T]; MAX_INPUTS + 1],
    varies: [Varies; MAX_INPUTS],
    /// Inputs the steps read: not the operands of a product.
    read: std::ops::Range<usize>,
    columns: usize,
    multiplied: bool,
}

/// How elements are computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    pub(super) level: Level,
    /// Stores that pass the caches.
    pub(super) stream: bool,
}

impl<'a, T: Operand> Recipe<'a, T> {
    /// Of a problem and inputs whose lengths were checked against it.
    pub(super) fn new(problem: &Fused, inputs: [&'a [T]; MAX_INPUTS + 1]) -> Recipe<'a, T> {
        let multiplied = problem.product().is_some();
        Recipe {
            program: Program::new(problem),
            inputs,
            varies: std::array::from_fn(|input| problem.varies(input)),
            read: if multiplied { 2 } else { 0 }..problem.inputs(),
            columns: problem.inner() as usize,
            multiplied,
        }
    }

    /// Computes `len` elements from the flat position `start` on and writes them to `out`. A product is read from where
    /// the result goes.
    ///
    /// # Safety
    /// The elements must lie within the problem, its inputs must have the problem's lengths, `out` must be writable, and
    /// readable for a product, for `len` elements, and nobody else may use them meanwhile.
    #[inline]
    pub(super) unsafe fn compute(&self, how: How, start: usize, len: usize, out: *mut T) {
        how.level.vectorize(Range { recipe: self, start, len, out, stream: how.stream });
    }
}

/// Where the machine reads a value.
#[derive(Clone, Copy)]
struct Source<T> {
    at: *const T,
    /// All bits where the elements lie side by side, none where the place is the same for every block.
    moves: usize,
    /// One element stands for all.
    repeats: bool,
}

/// An instruction whose source has been looked up: how it is read is known before the first block.
#[derive(Clone, Copy)]
struct Ready<T> {
    act: Act,
    at: *const T,
    moves: usize,
}

/// What is done to the registers, in one word: every jump of an instruction costs as much as some vectors, and with two of
/// them, over the kind of source and over the operation, chains of short steps took half as long again.
macro_rules! acts {
    ($($alone:ident)* ; $($op:ident: $many:ident $one:ident $many_left:ident $one_left:ident;)*) => {
        /// What an instruction does: with sources of many elements or one, on the right or on the left.
        #[derive(Clone, Copy)]
        enum Act { FetchMany, FetchOne, PutAside, $($alone,)* $($many, $one, $many_left, $one_left,)* }

        impl Act {
            fn new(kind: Kind, op: ElementwiseOp, repeats: bool) -> Act {
                match (kind, op, repeats) {
                    (Kind::Fetch, _, false) => Act::FetchMany,
                    (Kind::Fetch, _, true) => Act::FetchOne,
                    $((Kind::Unary, ElementwiseOp::Unary(UnaryOp::$alone), _) => Act::$alone,)*
                    $((Kind::Apply, ElementwiseOp::Binary(BinaryOp::$op), false) => Act::$many,
                    (Kind::Apply, ElementwiseOp::Binary(BinaryOp::$op), true) => Act::$one,
                    (Kind::Reversed, ElementwiseOp::Binary(BinaryOp::$op), false) => Act::$many_left,
                    (Kind::Reversed, ElementwiseOp::Binary(BinaryOp::$op), true) => Act::$one_left,)*
                    // Programs pair no function of one with a source: what is left is to put aside.
                    _ => Act::PutAside,
                }
            }

            /// Does it.
            ///
            /// # Safety
            /// `at` must be readable for a block or one element as the act says, writable for a block to put aside.
            #[inline(always)]
            unsafe fn run<T: Operand, S: Simd, const U: usize>(
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
                            for (u, value) in held.iter().enumerate() {
                                value.store(at.cast_mut().add(u * <T::Vec<S> as Vector<T>>::LANES));
                            }
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

/// The machine's memory beside its registers.
#[repr(align(64))]
struct Memory<T> {
    aside: [[MaybeUninit<T>; MAX_BLOCK]; MAX_WAITING],
    /// Elements of inputs, the product last, where a block does not find them side by side.
    gathered: [[MaybeUninit<T>; MAX_BLOCK]; MAX_INPUTS + 1],
    result: [MaybeUninit<T>; MAX_BLOCK],
}

struct Range<'a, T> {
    recipe: &'a Recipe<'a, T>,
    start: usize,
    len: usize,
    out: *mut T,
    stream: bool,
}

impl<T: Operand> Task for Range<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        if S::REGISTERS > 16 {
            self.compute::<S, VECTORS>(simd)
        } else {
            self.compute::<S, FEWER_VECTORS>(simd)
        }
    }
}

impl<T: Operand> Range<'_, T> {
    #[inline(always)]
    fn compute<S: Simd, const U: usize>(self, simd: S) {
        let Range { recipe, start, len, out, stream } = self;
        let (lanes, columns) = (<T::Vec<S> as Vector<T>>::LANES, recipe.columns);
        let block = lanes * U;
        let mut memory = Memory::<T> {
            aside: [[MaybeUninit::uninit(); MAX_BLOCK]; MAX_WAITING],
            gathered: [[MaybeUninit::uninit(); MAX_BLOCK]; MAX_INPUTS + 1],
            result: [MaybeUninit::uninit(); MAX_BLOCK],
        };
        let memory = &raw mut memory;
        let nowhere = Source { at: memory.cast::<T>().cast_const(), moves: 0, repeats: false };
        let mut sources = [nowhere; PLACES];
        let numbers = recipe.inputs[recipe.read.end.min(MAX_INPUTS)];
        for (source, number) in sources[NUMBERS..NUMBERS + MAX_NUMBERS].iter_mut().zip(numbers) {
            *source = Source { at: number, moves: 0, repeats: true };
        }
        for (nth, source) in sources[ASIDE..].iter_mut().enumerate() {
            // SAFETY: there are as many of these places as blocks put aside.
            source.at = unsafe { (&raw const (*memory).aside[nth]).cast::<T>() };
        }
        let idle = Ready { act: Act::Neg, at: nowhere.at, moves: 0 };
        let mut machine = Machine::<T, S, U> { simd, recipe, sources, ready: [idle; MAX_CODES], memory };
        let mut done = 0;
        while done < len {
            // SAFETY: every stretch lies within the range, which lies within the problem.
            unsafe {
                let (at, to) = (start + done, out.add(done));
                let in_row = (columns - at % columns).min(len - done);
                // What was computed replaces the product: no block may overlap the one before.
                let in_row = if recipe.multiplied { in_row - in_row % block } else { in_row };
                // Rows shorter than a block, or what is left of one: several rows at a time.
                let across = in_row < block;
                let some = if across { block.min(len - done) } else { in_row };
                if across {
                    machine.gathered(at, some, to);
                } else {
                    machine.row(at, to);
                }
                let result = if some < block { (&raw mut (*memory).result).cast::<T>() } else { to };
                machine.walk(some.max(block), result, stream && !across);
                if some < block {
                    std::ptr::copy_nonoverlapping(result.cast_const(), to, some);
                }
                done += some;
            }
        }
        if stream {
            simd.fence();
        }
    }
}

struct Machine<'a, T, S, const U: usize> {
    simd: S,
    recipe: &'a Recipe<'a, T>,
    sources: [Source<T>; PLACES],
    /// The program with its sources as they are now.
    ready: [Ready<T>; MAX_CODES],
    /// Outlives the machine, which alone uses it.
    memory: *mut Memory<T>,
}

impl<T: Operand, S: Simd, const U: usize> Machine<'_, T, S, U> {
    /// Turns the sources to a piece of one row.
    fn row(&mut self, at: usize, out: *const T) {
        let (row, column) = (at / self.recipe.columns, at % self.recipe.columns);
        for input in self.recipe.read.clone() {
            let start = self.recipe.inputs[input].as_ptr();
            let varies = self.recipe.varies[input];
            let offset = match varies {
                Varies::All => at,
                Varies::Rows => row,
                Varies::Columns => column,
                Varies::Nowhere => 0,
            };
            let moves = if varies.inner() { usize::MAX } else { 0 };
            self.sources[input] = Source { at: start.wrapping_add(offset), moves, repeats: !varies.inner() };
        }
        self.sources[PRODUCT] = Source { at: out, moves: usize::MAX, repeats: false };
    }

    /// Turns the sources to one block, of which `len` elements are wanted, wherever rows end: operands that do not lie side
    /// by side are gathered first.
    ///
    /// # Safety
    /// The elements must lie within the problem, and `out` be readable for them if there is a product.
    unsafe fn gathered(&mut self, at: usize, len: usize, out: *const T) {
        let whole = len == <T::Vec<S> as Vector<T>>::LANES * U;
        // SAFETY: the memory is ours, and nothing else refers to this part of it.
        let gathered = unsafe { &mut (*self.memory).gathered };
        for input in self.recipe.read.clone() {
            let (elements, varies) = (self.recipe.inputs[input], self.recipe.varies[input]);
            let (at, repeats) = match varies {
                Varies::All if whole => (elements.as_ptr().wrapping_add(at), false),
                Varies::Nowhere => (elements.as_ptr(), true),
                _ => {
                    let to = &mut gathered[input];
                    gather(elements, varies, self.recipe.columns, at, &mut to[..len]);
                    to[len..].fill(MaybeUninit::new(T::default()));
                    (to.as_ptr().cast(), false)
                }
            };
            self.sources[input] = Source { at, moves: 0, repeats };
        }
        self.sources[PRODUCT] = Source { at: out, moves: 0, repeats: false };
        if self.recipe.multiplied && !whole {
            let to = &mut gathered[MAX_INPUTS];
            to.fill(MaybeUninit::new(T::default()));
            // SAFETY: readable, as the caller promises, and less than a block.
            unsafe { std::ptr::copy_nonoverlapping(out, to.as_mut_ptr().cast(), len) };
            self.sources[PRODUCT].at = to.as_ptr().cast();
        }
    }

    /// Block after block; the last one overlaps the one before so that there is no rest. The one place where blocks are
    /// computed: all operations are compiled in here.
    ///
    /// # Safety
    /// `len` must be a block at least, and whole ones for a product; the sources the program reads must be readable for as
    /// many elements, or at their one element; `out` must be writable for as many and ours alone.
    #[inline(always)]
    unsafe fn walk(&mut self, len: usize, out: *mut T, stream: bool) {
        let lanes = <T::Vec<S> as Vector<T>>::LANES;
        let (block, bytes) = (lanes * U, lanes * size_of::<T>());
        // Elements before the first aligned one; they lie within a first block that is stored as usual.
        let ahead = (bytes - out as usize % bytes) % bytes / size_of::<T>();
        let stream = stream && len >= ahead + block && (out as usize).is_multiple_of(size_of::<T>());
        let codes = self.recipe.program.codes();
        for (at, code) in codes.iter().enumerate().take(MAX_CODES) {
            self.ready[at] = self.looked_up(code);
        }
        let ready = &self.ready[..codes.len().min(MAX_CODES)];
        let mut i = 0;
        loop {
            let aligned = stream && (i > 0 || ahead == 0) && (i + block <= len);
            let at = i.min(len - block);
            // SAFETY: the block lies within what the caller promises; streamed ones start at an aligned address, and are
            // multiples of vectors apart from there on.
            unsafe { steps::<T, S, U>(self.simd, ready, at, out.add(at), aligned && at == i) };
            i = if stream && i == 0 && ahead > 0 { ahead } else { i + block };
            if i >= len {
                return;
            }
        }
    }

    /// An instruction with its source as it is now.
    fn looked_up(&self, &Code { kind, op, place }: &Code) -> Ready<T> {
        let Source { at, moves, repeats } = self.sources[usize::from(place)];
        Ready { act: Act::new(kind, op, repeats), at, moves }
    }
}

/// All steps for the block that starts `i` elements after the sources.
///
/// # Safety
/// The sources the program reads must be readable for a block from there on, or at their one element; `out` must be
/// writable for a block, aligned if streamed, and ours alone.
#[inline(always)]
unsafe fn steps<T: Operand, S: Simd, const U: usize>(
    simd: S,
    ready: &[Ready<T>],
    i: usize,
    out: *mut T,
    stream: bool,
) {
    let lanes = <T::Vec<S> as Vector<T>>::LANES;
    let mut held = [T::Vec::<S>::splat(simd, T::default()); U];
    // SAFETY: the caller's promise; places put aside hold a block.
    unsafe {
        for &Ready { act, at, moves } in ready {
            held = act.run::<T, S, U>(simd, held, at.add(i & moves));
        }
        for (u, value) in held.iter().enumerate() {
            let to = out.add(u * lanes);
            if stream { value.stream(to) } else { value.store(to) }
        }
    }
}

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

/// Elements of an input at flat positions, wherever rows end.
fn gather<T: Copy>(elements: &[T], varies: Varies, columns: usize, at: usize, to: &mut [MaybeUninit<T>]) {
    let (mut at, mut to) = (at, to);
    while !to.is_empty() {
        let (row, column) = (at / columns, at % columns);
        let piece = (columns - column).min(to.len());
        let (now, rest) = std::mem::take(&mut to).split_at_mut(piece);
        let from = match varies {
            Varies::All => &elements[at..at + piece],
            Varies::Columns => &elements[column..column + piece],
            Varies::Rows | Varies::Nowhere => {
                now.fill(MaybeUninit::new(elements[if varies.outer() { row } else { 0 }]));
                &[]
            }
        };
        now.iter_mut().zip(from).for_each(|(to, &from)| *to = MaybeUninit::new(from));
        (at, to) = (at + piece, rest);
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
    let lanes = <T::Vec<S> as Vector<T>>::LANES;
    let mut values = left;
    if O::UNROLL >= 4 {
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
        for u in 0..U {
            left[u].store(first.add(u * lanes));
            right[u].store(second.add(u * lanes));
        }
        simd.vectorize(Long::<T, O, U> { left: first, right: second, operation: PhantomData });
        for (u, value) in values.iter_mut().enumerate() {
            *value = T::Vec::<S>::load(simd, first.add(u * lanes));
        }
    }
    values
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
                let second = u + lanes;
                let a = O::apply(
                    simd,
                    T::Vec::<S>::load(simd, self.left.add(u)),
                    T::Vec::<S>::load(simd, self.right.add(u)),
                );
                let b = O::apply(
                    simd,
                    T::Vec::<S>::load(simd, self.left.add(second)),
                    T::Vec::<S>::load(simd, self.right.add(second)),
                );
                a.store(self.left.add(u));
                b.store(self.left.add(second));
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
    let lanes = <T::Vec<S> as Vector<T>>::LANES;
    let mut operands = [[T::default(); MAX_BLOCK]; 2];
    let mut values = left;
    // SAFETY: a block fits the buffers.
    unsafe {
        for u in 0..U {
            left[u].store(operands[0].as_mut_ptr().add(u * lanes));
            right[u].store(operands[1].as_mut_ptr().add(u * lanes));
        }
        scalar::<T>(op, &mut operands);
        for (u, value) in values.iter_mut().enumerate() {
            *value = T::Vec::<S>::load(simd, operands[0].as_ptr().add(u * lanes));
        }
    }
    values
}

#[inline(never)]
fn scalar<T: Operand>(op: ElementwiseOp, [left, right]: &mut [[T; MAX_BLOCK]; 2]) {
    for (a, &b) in left.iter_mut().zip(right.iter()) {
        *a = T::scalar(op, *a, b).unwrap_or(*a);
    }
}
