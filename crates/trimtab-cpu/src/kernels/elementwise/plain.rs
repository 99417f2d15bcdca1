//! Elementwise on whole numbers other than i32, truth values and complex numbers: loops the compiler makes vectors of, in chunks
//! that threads share.

use super::layout::Layout;
use super::ops;
use super::vector::shareable;
use super::{bytes_walked, lens, thread_counts};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elements::not_here;
use crate::kernels::shared_work;
use std::sync::atomic::{AtomicUsize, Ordering};
use trimtab_core::{
    BinaryOp, DType, Decline, DeviceFacts, Elementwise, ElementwiseOp, Flops, LaunchError, UnaryOp, Variant,
    Work,
};
use trimtab_operands::{Complex, Element};

trimtab_core::config! {
    /// Threads, and elements a thread takes at once.
    pub struct PlainConfig { threads, chunk }
}

/// Elements a thread takes at once.
const CHUNKS: [u32; 2] = [32 << 10, 256 << 10];

/// See the module.
#[derive(Debug)]
pub struct PlainKernel;

/// An element type with operations that are instructions, or fail.
pub(super) trait Plain: Element {
    /// One pair; a function of one element ignores the second. `Err` says what is undefined.
    fn apply(op: ElementwiseOp, a: Self, b: Self) -> Result<Self, &'static str>;
}

const NONE: &str = "this operation is not defined for these elements";

macro_rules! plain_integers {
    ($($type:ty, $signed:literal;)*) => {
        $(impl Plain for $type {
            #[inline(always)]
            fn apply(op: ElementwiseOp, a: $type, b: $type) -> Result<$type, &'static str> {
                Ok(match op {
                    ElementwiseOp::Unary(UnaryOp::Neg) => a.wrapping_neg(),
                    ElementwiseOp::Unary(UnaryOp::Abs) if $signed => if a.cmp(&0).is_lt() { a.wrapping_neg() } else { a },
                    ElementwiseOp::Unary(UnaryOp::Abs) => a,
                    ElementwiseOp::Unary(UnaryOp::Relu) => a.max(0),
                    ElementwiseOp::Unary(_) => return Err(NONE),
                    ElementwiseOp::Binary(BinaryOp::Add) => a.wrapping_add(b),
                    ElementwiseOp::Binary(BinaryOp::Sub) => a.wrapping_sub(b),
                    ElementwiseOp::Binary(BinaryOp::Mul) => a.wrapping_mul(b),
                    ElementwiseOp::Binary(BinaryOp::Min) => a.min(b),
                    ElementwiseOp::Binary(BinaryOp::Max) => a.max(b),
                    ElementwiseOp::Binary(BinaryOp::Div) if b == 0 => return Err("division by zero"),
                    ElementwiseOp::Binary(BinaryOp::Div) => a.wrapping_div(b),
                    ElementwiseOp::Binary(BinaryOp::Pow) => {
                        let mut power = i128::from(b);
                        if power >= 0 {
                            let (mut square, mut result) = (a, 1);
                            while power != 0 {
                                if power & 1 == 1 {
                                    result = <$type>::wrapping_mul(result, square);
                                }
                                square = square.wrapping_mul(square);
                                power >>= 1;
                            }
                            result
                        } else if a == 0 {
                            return Err("zero to a negative power");
                        } else if a == 1 || (a == <$type>::wrapping_neg(1) && b & 1 == 0) {
                            1
                        } else if a == <$type>::wrapping_neg(1) {
                            a
                        } else {
                            0
                        }
                    }
                })
            }
        })*
    };
}
plain_integers! { i8, true; u8, false; i16, true; u32, false; i64, true; }

impl Plain for bool {
    #[inline(always)]
    fn apply(op: ElementwiseOp, a: bool, b: bool) -> Result<bool, &'static str> {
        match op {
            ElementwiseOp::Binary(BinaryOp::Min) => Ok(a & b),
            ElementwiseOp::Binary(BinaryOp::Max) => Ok(a | b),
            _ => Err(NONE),
        }
    }
}

macro_rules! plain_complex {
    ($($type:ty),*) => {
        $(impl Plain for Complex<$type> {
            #[inline(always)]
            fn apply(op: ElementwiseOp, a: Self, b: Self) -> Result<Self, &'static str> {
                match op {
                    ElementwiseOp::Unary(UnaryOp::Neg) => Ok(-a),
                    ElementwiseOp::Binary(BinaryOp::Add) => Ok(a + b),
                    ElementwiseOp::Binary(BinaryOp::Sub) => Ok(a - b),
                    ElementwiseOp::Binary(BinaryOp::Mul) => Ok(a * b),
                    ElementwiseOp::Binary(BinaryOp::Div) => Ok(a / b),
                    _ => Err(NONE),
                }
            }
        })*
    };
}
plain_complex!(f32, f64);

/// With the type of the elements these kernels are for.
macro_rules! by_plain {
    ($dtype:expr, $type:ident => $run:expr) => {
        match $dtype {
            DType::Bool => by_plain!(@as bool, $type => $run),
            DType::I8 => by_plain!(@as i8, $type => $run),
            DType::U8 => by_plain!(@as u8, $type => $run),
            DType::I16 => by_plain!(@as i16, $type => $run),
            DType::U32 => by_plain!(@as u32, $type => $run),
            DType::I64 => by_plain!(@as i64, $type => $run),
            DType::Complex64 => by_plain!(@as Complex<f32>, $type => $run),
            DType::Complex128 => by_plain!(@as Complex<f64>, $type => $run),
            dtype => Err(not_here(dtype)),
        }
    };
    (@as $as:ty, $type:ident => $run:expr) => {{
        type $type = $as;
        $run
    }};
}

impl Variant<Cpu> for PlainKernel {
    type Problem = Elementwise;
    type Config = PlainConfig;

    identity!("cpu.elementwise.plain", Parallel);

    fn takes(&self, dtype: DType) -> bool {
        dtype != DType::I32 && !dtype.is_float()
    }

    fn declines(&self, problem: &Elementwise, _: &DeviceFacts) -> Option<Decline> {
        let other = || Decline::from(format!("{} has kernels of its own", problem.dtype));
        (!self.takes(problem.dtype)).then(other)
    }

    fn configs(&self, problem: &Elementwise, device: &DeviceFacts) -> Vec<PlainConfig> {
        let threads = thread_counts(device, shareable(problem), 3).into_iter();
        threads.flat_map(|threads| CHUNKS.map(|chunk| PlainConfig { threads, chunk })).collect()
    }

    fn work(&self, problem: &Elementwise, config: PlainConfig, device: &DeviceFacts) -> Work {
        let lanes = device.vector_bytes.map_or(1, |bytes| (bytes / problem.dtype.size() as u32).max(1));
        shared_work(Flops(problem.out_len()), bytes_walked(problem), config.threads, lanes)
    }

    fn launch(&self, problem: &Elementwise, config: PlainConfig, args: Args<'_>) -> Launched {
        if config.chunk == 0 {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_plain!(problem.dtype, T => run::<T>(problem, config, args))
    }
}

fn run<T: Plain>(problem: &Elementwise, config: PlainConfig, args: Args<'_>) -> Launched {
    let typed = args.typed::<T>(lens(problem))?;
    let (layout, len, chunk) = (Layout::new(problem), typed.out.len(), config.chunk as usize);
    let (lhs, rhs, out) = (typed.lhs, typed.rhs, Disjoint::new(typed.out));
    // The first undefined element of all; what a plain loop would have met.
    let undefined = AtomicUsize::new(usize::MAX);
    typed.pool.run(config.threads, len.div_ceil(chunk), &|task| {
        let start = task * chunk;
        // SAFETY: every task has its own chunk of the result.
        let out = unsafe { out.part(start..len.min(start + chunk)) };
        if let Err(at) = part(problem.op, &layout, lhs, rhs, start, out) {
            undefined.fetch_min(at, Ordering::Relaxed);
        }
    });
    match undefined.into_inner() {
        usize::MAX => Ok(()),
        at => layout.elements(at..at + 1, |at, left, right| {
            let b = rhs.get(right).copied().unwrap_or_default();
            T::apply(problem.op, lhs[left], b).map(drop).map_err(|what| ops::undefined(what, at))
        }),
    }
}

/// A part of the result, with wide vectors where the processor has them; the first place where it is undefined.
fn part<T: Plain>(
    op: ElementwiseOp,
    layout: &Layout,
    lhs: &[T],
    rhs: &[T],
    start: usize,
    out: &mut [T],
) -> Result<(), usize> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { part_avx2(op, layout, lhs, rhs, start, out) };
    }
    pieces(op, layout, lhs, rhs, start, out)
}

/// # Safety
/// The processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn part_avx2<T: Plain>(
    op: ElementwiseOp,
    layout: &Layout,
    lhs: &[T],
    rhs: &[T],
    start: usize,
    out: &mut [T],
) -> Result<(), usize> {
    pieces(op, layout, lhs, rhs, start, out)
}

#[inline(always)]
fn pieces<T: Plain>(
    op: ElementwiseOp,
    layout: &Layout,
    lhs: &[T],
    rhs: &[T],
    start: usize,
    out: &mut [T],
) -> Result<(), usize> {
    // The operation is told to each loop as a constant: so that it is compiled for each.
    macro_rules! each {
        ($($kind:ident { $($name:ident),* })*) => {
            match op {
                $($(ElementwiseOp::$kind(each!(@op $kind $name)) => {
                    walk(ElementwiseOp::$kind(each!(@op $kind $name)), layout, lhs, rhs, start, out)
                })*)*
                // Nothing that is defined for these elements.
                _ => Err(start),
            }
        };
        (@op Unary $name:ident) => { UnaryOp::$name };
        (@op Binary $name:ident) => { BinaryOp::$name };
    }
    each! { Unary { Neg, Abs, Relu } Binary { Add, Sub, Mul, Div, Min, Max, Pow } }
}

#[inline(always)]
fn walk<T: Plain>(
    op: ElementwiseOp,
    layout: &Layout,
    lhs: &[T],
    rhs: &[T],
    start: usize,
    out: &mut [T],
) -> Result<(), usize> {
    let binary = matches!(op, ElementwiseOp::Binary(_));
    let (lhs_varies, rhs_varies) = layout.varies();
    for piece in layout.pieces(start..start + out.len()) {
        let out = &mut out[piece.at - start..piece.at - start + piece.len];
        let left = &lhs[piece.lhs..piece.lhs + if lhs_varies { piece.len } else { 1 }];
        let right = match binary {
            true => &rhs[piece.rhs..piece.rhs + if rhs_varies { piece.len } else { 1 }],
            false => &left[..1],
        };
        // What is undefined is told once the loop is over: a loop that may end early is none of vectors.
        let mut wrong = false;
        let mut set = |out: &mut T, a: T, b: T| match T::apply(op, a, b) {
            Ok(value) => *out = value,
            Err(_) => wrong = true,
        };
        match (lhs_varies, binary && rhs_varies) {
            (true, true) => {
                out.iter_mut().zip(left).zip(right).for_each(|((out, &a), &b)| set(out, a, b));
            }
            (true, false) => out.iter_mut().zip(left).for_each(|(out, &a)| set(out, a, right[0])),
            (false, true) => out.iter_mut().zip(right).for_each(|(out, &b)| set(out, left[0], b)),
            (false, false) => out.iter_mut().for_each(|out| set(out, left[0], right[0])),
        }
        if wrong {
            let b = |at: usize| right.get(if rhs_varies { at } else { 0 }).copied().unwrap_or_default();
            let a = |at: usize| left[if lhs_varies { at } else { 0 }];
            let first = (0..piece.len).find(|&at| T::apply(op, a(at), b(at)).is_err());
            return Err(piece.at + first.unwrap_or(0));
        }
    }
    Ok(())
}

/// Element by element: the yardstick.
pub(super) fn reference(problem: &Elementwise, args: Args<'_>) -> Launched {
    fn run<T: Plain>(problem: &Elementwise, args: Args<'_>) -> Launched {
        let typed = args.typed::<T>(lens(problem))?;
        Layout::new(problem).elements(0..typed.out.len(), |at, lhs, rhs| {
            let b = typed.rhs.get(rhs).copied().unwrap_or_default();
            typed.out[at] =
                T::apply(problem.op, typed.lhs[lhs], b).map_err(|what| ops::undefined(what, at))?;
            Ok(())
        })
    }
    by_plain!(problem.dtype, T => run::<T>(problem, args))
}
