//! The machine that runs a program over a range of elements: a few vectors at a time, which stay in registers from the first
//! step to the last, so that nothing between the steps is written to memory but what has to make room.

use super::acts::Act;
use super::program::{ASIDE, Code, MAX_CODES, NUMBERS, PLACES, PRODUCT, Program};
use crate::kernels::elementwise::ops::Operand;
use crate::simd::{Level, MAX_LANES, Simd, Task, Vector};
use std::mem::MaybeUninit;
use trimtab_core::{Fused, MAX_INPUTS, MAX_NUMBERS, MAX_WAITING, Varies};

/// Vectors that go through the steps together: the more, the less reading the program costs, but they must fit the
/// registers beside what a step needs. Of 16 registers 8 were too many: twice as slow as 4.
const VECTORS: usize = 8;
const FEWER_VECTORS: usize = 4;
/// Most elements that go through the steps together.
pub(super) const MAX_BLOCK: usize = VECTORS * MAX_LANES;

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

impl<T> Source<T> {
    /// Elements side by side, block after block.
    fn moving(at: *const T) -> Source<T> {
        Source { at, moves: usize::MAX, repeats: false }
    }

    /// The same place for every block: an element for each, or one for all.
    fn fixed(at: *const T, repeats: bool) -> Source<T> {
        Source { at, moves: 0, repeats }
    }
}

/// An instruction whose source has been looked up: how it is read is known before the first block.
#[derive(Clone, Copy)]
struct Ready<T> {
    act: Act,
    at: *const T,
    moves: usize,
}

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
        let nowhere = Source::fixed(memory.cast::<T>().cast_const(), false);
        let mut sources = [nowhere; PLACES];
        let numbers = recipe.inputs[recipe.read.end.min(MAX_INPUTS)];
        for (source, number) in sources[NUMBERS..NUMBERS + MAX_NUMBERS].iter_mut().zip(numbers) {
            *source = Source::fixed(number, true);
        }
        for (nth, source) in sources[ASIDE..].iter_mut().enumerate() {
            // SAFETY: there are as many of these places as blocks put aside.
            source.at = unsafe { (&raw const (*memory).aside[nth]).cast::<T>() };
        }
        let idle = Ready { act: Act::Neg, at: nowhere.at, moves: 0 };
        let mut machine = Machine::<T, S, U> { simd, recipe, sources, ready: [idle; MAX_CODES], memory };
        let by_rows = recipe.read.clone().any(|input| recipe.varies[input] == Varies::Rows);
        let fits = columns < block && block.is_multiple_of(columns) && !by_rows;
        let mut done = 0;
        while done < len {
            // SAFETY: every stretch lies within the range, which lies within the problem.
            unsafe {
                let (at, to) = (start + done, out.add(done));
                let whole = (len - done) - (len - done) % block;
                if fits && at.is_multiple_of(columns) && whole > 0 {
                    machine.repeated(at, to);
                    machine.walk(whole, to, false);
                    done += whole;
                    continue;
                }
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
            let at = start.wrapping_add(offset);
            self.sources[input] = if varies.inner() { Source::moving(at) } else { Source::fixed(at, true) };
        }
        self.sources[PRODUCT] = Source::moving(out);
    }

    /// Turns the sources to blocks from the start of a row on, each of so many whole rows: what varies by columns is the same
    /// for all of them.
    fn repeated(&mut self, at: usize, out: *const T) {
        // SAFETY: the memory is ours, and nothing else refers to this part of it.
        let gathered = unsafe { &mut (*self.memory).gathered };
        let block = <T::Vec<S> as Vector<T>>::LANES * U;
        for input in self.recipe.read.clone() {
            let (elements, varies) = (self.recipe.inputs[input], self.recipe.varies[input]);
            self.sources[input] = match varies {
                Varies::All => Source::moving(elements.as_ptr().wrapping_add(at)),
                Varies::Columns => {
                    let to = &mut gathered[input];
                    gather(elements, varies, self.recipe.columns, at, &mut to[..block]);
                    Source::fixed(to.as_ptr().cast(), false)
                }
                // Those by rows are not computed this way.
                Varies::Nowhere | Varies::Rows => Source::fixed(elements.as_ptr(), true),
            };
        }
        self.sources[PRODUCT] = Source::moving(out);
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
            self.sources[input] = Source::fixed(at, repeats);
        }
        self.sources[PRODUCT] = Source::fixed(out, false);
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
