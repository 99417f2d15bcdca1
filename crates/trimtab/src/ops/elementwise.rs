//! Elementwise operations with broadcasting and scalars.

use super::{Float, broadcast, sizes};
use crate::error::Error;
use crate::runtime::Runtime;
use crate::tensor::Tensor;
use trimtab_core::{BinaryOp, Elementwise, UnaryOp};
use trimtab_operands::Element;

/// What an elementwise operation takes: a tensor by reference, or a number.
pub trait Operand<T: Element> {
    /// The tensor meant.
    fn tensor(&self) -> Tensor<T>;
}

impl<T: Element> Operand<T> for &Tensor<T> {
    fn tensor(&self) -> Tensor<T> {
        (*self).clone()
    }
}

impl<T: Element> Operand<T> for T {
    fn tensor(&self) -> Tensor<T> {
        Tensor::scalar(*self)
    }
}

macro_rules! unary {
    ($($bound:ident { $($(#[$doc:meta])* $name:ident = $op:ident;)* })*) => {
        impl Runtime {
            $($($(#[$doc])*
            pub fn $name<T: $bound>(&self, x: &Tensor<T>) -> Result<Tensor<T>, Error> {
                self.unary(UnaryOp::$op, x)
            })*)*
        }
    };
}

unary! {
    Element {
        /// `-x`.
        neg = Neg;
        /// `|x|`.
        abs = Abs;
        /// `max(x, 0)`.
        relu = Relu;
    }
    Float {
        /// e to the power of x.
        exp = Exp;
        /// Natural logarithm.
        log = Log;
        /// Square root.
        sqrt = Sqrt;
        /// Hyperbolic tangent.
        tanh = Tanh;
        /// `1 / (1 + exp(-x))`.
        sigmoid = Sigmoid;
        /// The Gaussian error linear unit, in its tanh form.
        gelu = Gelu;
    }
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => {
        impl Runtime {
            $($(#[$doc])*
            pub fn $name<T: Element>(&self, a: impl Operand<T>, b: impl Operand<T>) -> Result<Tensor<T>, Error> {
                self.binary(BinaryOp::$op, a, b)
            })*
        }
    };
}

binary! {
    /// `a + b`.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let a = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// let row = Tensor::from(vec![10.0f32, 20.0]);
    /// assert_eq!(rt.add(&a, &row)?.to_vec(), [11.0, 22.0, 13.0, 24.0]);
    /// assert_eq!(rt.mul(&a, 2.0)?.to_vec(), [2.0, 4.0, 6.0, 8.0]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    add = Add;
    /// `a - b`.
    sub = Sub;
    /// `a × b`.
    mul = Mul;
    /// `a ÷ b`. An integer divided by zero is an error.
    div = Div;
    /// The smaller of each pair; a NaN wins. See [`Runtime::min`] for the smallest of one tensor.
    minimum = Min;
    /// The larger of each pair; a NaN wins. See [`Runtime::max`] for the largest of one tensor.
    maximum = Max;
    /// `a` to the power of `b`.
    pow = Pow;
}

impl Runtime {
    /// Any function of one tensor by name.
    pub fn unary<T: Element>(&self, op: UnaryOp, x: &Tensor<T>) -> Result<Tensor<T>, Error> {
        let Some(input) = x.any.on_host() else { return self.lazy(x).unary(op).eval() };
        let problem = Elementwise::unary(op, T::DTYPE, &sizes(x.shape()))?;
        self.compute(&problem, &[input], T::DTYPE, x.shape()).map(Tensor::wrap)
    }

    /// Any function of two tensors or numbers by name; shapes are aligned at the last axis, sizes equal or one.
    pub fn binary<T: Element>(
        &self,
        op: BinaryOp,
        a: impl Operand<T>,
        b: impl Operand<T>,
    ) -> Result<Tensor<T>, Error> {
        let (a, b) = (a.tensor(), b.tensor());
        let (Some(lhs), Some(rhs)) = (a.any.on_host(), b.any.on_host()) else {
            return self.lazy(&a).binary(op, &b).eval();
        };
        let problem = Elementwise::binary(op, T::DTYPE, &sizes(a.shape()), &sizes(b.shape()))?;
        let shape = broadcast(a.shape(), b.shape()).unwrap_or_default();
        self.compute(&problem, &[lhs, rhs], T::DTYPE, &shape).map(Tensor::wrap)
    }
}
