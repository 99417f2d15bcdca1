//! The operations as types, so that a loop is compiled per operation: vector forms and the scalar semantics.

use super::math;
use crate::simd::{FloatVector, Lane, Simd, Vector};
use trimtab_core::{BinaryOp, ElementwiseOp, LaunchError, UnaryOp};

/// One operation on vectors of `T`. A unary one ignores its second operand.
pub(in crate::kernels) trait Op<T: Lane>: 'static {
    /// Vectors in flight when unrolled: four hide the latency of loads, two of long polynomials before registers run out.
    const UNROLL: usize;
    /// Computes.
    fn apply<S: Simd>(simd: S, a: T::Vec<S>, b: T::Vec<S>) -> T::Vec<S>;
}

/// Something to do with the type of an operation.
pub(in crate::kernels) trait Visit<T: Lane> {
    /// What it answers.
    type Out;
    /// With a function of one element.
    fn unary<O: Op<T>>(self) -> Self::Out;
    /// With a function of two.
    fn binary<O: Op<T>>(self) -> Self::Out;
}

/// An element type with operations.
pub(in crate::kernels) trait Operand: Lane {
    /// Calls the visitor with the operation's type, or `None` where there is no vector form.
    fn visit<V: Visit<Self>>(op: ElementwiseOp, visitor: V) -> Option<V::Out>;
    /// One element by the standard library; `Err` says what is undefined.
    fn scalar(op: ElementwiseOp, a: Self, b: Self) -> Result<Self, &'static str>;
}

/// Vectors in flight when unrolled, as the operation's type says.
pub(in crate::kernels) fn unroll(op: ElementwiseOp) -> u32 {
    if is_costly(op) { 2 } else { 4 }
}

/// Whether arithmetic rather than memory sets the time of an operation.
pub(in crate::kernels) fn is_costly(op: ElementwiseOp) -> bool {
    use UnaryOp::{Exp, Gelu, Log, Sigmoid, Tanh};
    match op {
        ElementwiseOp::Unary(op) => matches!(op, Exp | Log | Tanh | Sigmoid | Gelu),
        ElementwiseOp::Binary(op) => op == BinaryOp::Pow,
    }
}

macro_rules! ops {
    ($($type:ty { $($name:ident, $unroll:literal, |$simd:pat_param, $a:pat_param, $b:pat_param| $body:expr;)* })*) => {
        $($(
            impl Op<$type> for $name {
                const UNROLL: usize = $unroll;
                #[inline(always)]
                fn apply<S: Simd>(
                    $simd: S,
                    $a: <$type as Lane>::Vec<S>,
                    $b: <$type as Lane>::Vec<S>,
                ) -> <$type as Lane>::Vec<S> {
                    $body
                }
            }
        )*)*
    };
}

macro_rules! markers {
    ($($name:ident),*) => { $(pub(in crate::kernels) struct $name;)* };
}
markers!(Neg, Abs, Exp, Log, Sqrt, Tanh, Sigmoid, Relu, Gelu, Add, Sub, Mul, Div, Min, Max, Pow);

ops! {
    f32 {
        Exp, 2, |_, a, _| math::exp(a);
        Log, 2, |_, a, _| math::log(a);
        Tanh, 2, |_, a, _| math::tanh(a);
        Sigmoid, 2, |_, a, _| math::sigmoid(a);
        Gelu, 2, |_, a, _| math::gelu(a);
        Sqrt, 4, |_, a, _| a.sqrt();
        Div, 4, |_, a, b| a.div(b);
        Pow, 2, |simd, a, b| math::pow_f32(simd, a, b);
    }
    f64 {
        Exp, 2, |_, a, _| math::exp(a);
        Log, 2, |_, a, _| math::log(a);
        Tanh, 2, |_, a, _| math::tanh(a);
        Sigmoid, 2, |_, a, _| math::sigmoid(a);
        Gelu, 2, |_, a, _| math::gelu(a);
        Sqrt, 4, |_, a, _| a.sqrt();
        Div, 4, |_, a, b| a.div(b);
    }
}

macro_rules! every_type {
    ($($type:ty, $zero:literal;)*) => {
        $(ops! {
            $type {
                Neg, 4, |_, a, _| a.neg();
                Abs, 4, |_, a, _| a.abs();
                Relu, 4, |_, a, _| a.set($zero).upper(a);
                Add, 4, |_, a, b| a.add(b);
                Sub, 4, |_, a, b| a.sub(b);
                Mul, 4, |_, a, b| a.mul(b);
                Min, 4, |_, a, b| a.min(b);
                Max, 4, |_, a, b| a.max(b);
            }
        })*
    };
}
every_type! { f32, 0.0; f64, 0.0; i32, 0; }

macro_rules! visit {
    ($op:ident, $visitor:ident, unary { $($unary:ident)* } binary { $($binary:ident)* }) => {
        match $op {
            $(ElementwiseOp::Unary(UnaryOp::$unary) => Some($visitor.unary::<$unary>()),)*
            $(ElementwiseOp::Binary(BinaryOp::$binary) => Some($visitor.binary::<$binary>()),)*
            #[allow(unreachable_patterns, reason = "every operation of f32 has a vector form")]
            _ => None,
        }
    };
}

/// The scalar semantics of floats. `f32` goes through `f64`, so that the reference is right to the last bit or nearly.
fn scalar_float(op: ElementwiseOp, a: f64, b: f64) -> f64 {
    match op {
        ElementwiseOp::Unary(op) => match op {
            UnaryOp::Neg => -a,
            UnaryOp::Abs => a.abs(),
            UnaryOp::Exp => a.exp(),
            UnaryOp::Log => a.ln(),
            UnaryOp::Sqrt => a.sqrt(),
            UnaryOp::Tanh => a.tanh(),
            UnaryOp::Sigmoid => sigmoid(a),
            UnaryOp::Relu => either(0.0 > a, 0.0, a),
            UnaryOp::Gelu => {
                let low = math::GELU_LOW;
                either(low > a, low, a) * sigmoid(a * (math::GELU.0 + math::GELU.1 * (a * a)))
            }
        },
        ElementwiseOp::Binary(op) => match op {
            BinaryOp::Add => a + b,
            BinaryOp::Sub => a - b,
            BinaryOp::Mul => a * b,
            BinaryOp::Div => a / b,
            BinaryOp::Min => either(a.is_nan() || a < b, a, b),
            BinaryOp::Max => either(a.is_nan() || a > b, a, b),
            BinaryOp::Pow => a.powf(b),
        },
    }
}

fn either(first: bool, a: f64, b: f64) -> f64 {
    if first { a } else { b }
}

fn sigmoid(x: f64) -> f64 {
    let e = (-x.abs()).exp();
    either(x < 0.0, e, 1.0) / (1.0 + e)
}

impl Operand for f32 {
    #[inline(always)]
    fn visit<V: Visit<f32>>(op: ElementwiseOp, visitor: V) -> Option<V::Out> {
        visit!(op, visitor,
            unary { Neg Abs Exp Log Sqrt Tanh Sigmoid Relu Gelu } binary { Add Sub Mul Div Min Max Pow })
    }
    #[inline(always)]
    fn scalar(op: ElementwiseOp, a: f32, b: f32) -> Result<f32, &'static str> {
        // Sums, products, quotients and roots of f32 are the same when rounded from f64 (53 ≥ 2·24 + 2 bits).
        Ok(scalar_float(op, f64::from(a), f64::from(b)) as f32)
    }
}

impl Operand for f64 {
    #[inline(always)]
    fn visit<V: Visit<f64>>(op: ElementwiseOp, visitor: V) -> Option<V::Out> {
        visit!(op, visitor,
            unary { Neg Abs Exp Log Sqrt Tanh Sigmoid Relu Gelu } binary { Add Sub Mul Div Min Max })
    }
    #[inline(always)]
    fn scalar(op: ElementwiseOp, a: f64, b: f64) -> Result<f64, &'static str> {
        Ok(scalar_float(op, a, b))
    }
}

impl Operand for i32 {
    #[inline(always)]
    fn visit<V: Visit<i32>>(op: ElementwiseOp, visitor: V) -> Option<V::Out> {
        visit!(op, visitor, unary { Neg Abs Relu } binary { Add Sub Mul Min Max })
    }
    #[inline(always)]
    fn scalar(op: ElementwiseOp, a: i32, b: i32) -> Result<i32, &'static str> {
        match op {
            ElementwiseOp::Unary(UnaryOp::Neg) => Ok(a.wrapping_neg()),
            ElementwiseOp::Unary(UnaryOp::Abs) => Ok(a.wrapping_abs()),
            ElementwiseOp::Unary(UnaryOp::Relu) => Ok(a.max(0)),
            ElementwiseOp::Unary(_) => Err("this function is not defined for integers"),
            ElementwiseOp::Binary(op) => match op {
                BinaryOp::Add => Ok(a.wrapping_add(b)),
                BinaryOp::Sub => Ok(a.wrapping_sub(b)),
                BinaryOp::Mul => Ok(a.wrapping_mul(b)),
                BinaryOp::Div if b == 0 => Err("division by zero"),
                BinaryOp::Div => Ok(a.wrapping_div(b)),
                BinaryOp::Min => Ok(a.min(b)),
                BinaryOp::Max => Ok(a.max(b)),
                BinaryOp::Pow => match u32::try_from(b) {
                    Ok(power) => Ok(a.wrapping_pow(power)),
                    Err(_) => match a {
                        0 => Err("zero to a negative power"),
                        1 => Ok(1),
                        -1 => Ok(if b & 1 == 0 { 1 } else { -1 }),
                        _ => Ok(0),
                    },
                },
            },
        }
    }
}

/// What is undefined at an element, as the launch's error.
#[cold]
pub(in crate::kernels) fn undefined(what: &str, index: usize) -> LaunchError {
    LaunchError::Data(format!(
        "{what} at element {index}; remove the zeros, or give operands of f64 elements"
    ))
}

/// Arithmetic operations per element, counted in [`math`] (a fused multiply-add is two).
pub(in crate::kernels) fn flops(op: ElementwiseOp, double: bool) -> u64 {
    let (exp, log) = if double { (46, 45) } else { (34, 33) };
    match op {
        ElementwiseOp::Unary(op) => match op {
            UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Sqrt | UnaryOp::Relu => 1,
            UnaryOp::Exp => exp,
            UnaryOp::Log => log,
            UnaryOp::Tanh => exp,
            UnaryOp::Sigmoid => exp + 4,
            UnaryOp::Gelu => exp + 10,
        },
        ElementwiseOp::Binary(BinaryOp::Pow) => 46 + 45 + 16,
        ElementwiseOp::Binary(_) => 1,
    }
}
