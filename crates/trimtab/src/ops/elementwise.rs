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
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// assert_eq!(rt.neg(&Tensor::from(vec![1.0f32, -2.0]))?.to_vec(), [-1.0, 2.0]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        neg = Neg;
        /// `|x|`.
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// assert_eq!(rt.abs(&Tensor::from(vec![1.0f32, -2.0]))?.to_vec(), [1.0, 2.0]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        abs = Abs;
        /// `max(x, 0)`.
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// assert_eq!(rt.relu(&Tensor::from(vec![1.0f32, -2.0]))?.to_vec(), [1.0, 0.0]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        relu = Relu;
    }
    Float {
        /// e to the power of x.
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// let y = rt.exp(&Tensor::from(vec![1.0f32]))?.item()?;
        /// assert!((y - std::f32::consts::E).abs() < 1e-5);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        exp = Exp;
        /// Natural logarithm.
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// let y = rt.log(&Tensor::from(vec![2.0f32]))?.item()?;
        /// assert!((y - std::f32::consts::LN_2).abs() < 1e-5);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        log = Log;
        /// Square root.
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// assert_eq!(rt.sqrt(&Tensor::from(vec![4.0f32, 9.0]))?.to_vec(), [2.0, 3.0]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        sqrt = Sqrt;
        /// Hyperbolic tangent.
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// let y = rt.tanh(&Tensor::from(vec![0.5f32]))?.item()?;
        /// assert!((y - 0.5f32.tanh()).abs() < 1e-5);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        tanh = Tanh;
        /// `1 / (1 + exp(-x))`.
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// let y = rt.sigmoid(&Tensor::from(vec![0.0f32]))?.item()?;
        /// assert!((y - 0.5).abs() < 1e-5);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        sigmoid = Sigmoid;
        /// The Gaussian error linear unit, in its tanh form.
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// let y = rt.gelu(&Tensor::from(vec![9.0f32]))?.item()?;
        /// assert!((y - 9.0).abs() < 1e-5);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
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
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// assert_eq!(rt.sub(&Tensor::from(vec![5.0f32, 7.0]), 1.0)?.to_vec(), [4.0, 6.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    sub = Sub;
    /// `a × b`.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// assert_eq!(rt.mul(&Tensor::from(vec![5.0f32, 7.0]), 2.0)?.to_vec(), [10.0, 14.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    mul = Mul;
    /// `a ÷ b`. An integer divided by zero is an error.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// assert_eq!(rt.div(&Tensor::from(vec![5.0f32, 7.0]), 2.0)?.to_vec(), [2.5, 3.5]);
    /// assert!(rt.div(&Tensor::from(vec![5i32, 7]), 0).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    div = Div;
    /// The smaller of each pair; a NaN wins. See [`Runtime::min`] for the smallest of one tensor.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// assert_eq!(rt.minimum(&Tensor::from(vec![5.0f32, -7.0]), 0.0)?.to_vec(), [0.0, -7.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    minimum = Min;
    /// The larger of each pair; a NaN wins. See [`Runtime::max`] for the largest of one tensor.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// assert_eq!(rt.maximum(&Tensor::from(vec![5.0f32, -7.0]), 0.0)?.to_vec(), [5.0, 0.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    maximum = Max;
    /// `a` to the power of `b`.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// assert_eq!(rt.pow(&Tensor::from(vec![2i32, 3]), 2)?.to_vec(), [4, 9]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pow = Pow;
}

impl Runtime {
    /// Any function of one tensor by name.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::advanced::core::UnaryOp;
    /// assert_eq!(rt.unary(UnaryOp::Abs, &Tensor::from(vec![1.0f32, -2.0]))?.to_vec(), [1.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unary<T: Element>(&self, op: UnaryOp, x: &Tensor<T>) -> Result<Tensor<T>, Error> {
        let Some(input) = x.any.on_host() else { return self.lazy(x).unary(op).eval() };
        let problem = Elementwise::unary(op, T::DTYPE, &sizes(x.shape()))?;
        self.compute(&problem, &[input], T::DTYPE, x.shape()).map(Tensor::wrap)
    }

    /// Any function of two tensors or numbers by name; shapes are aligned at the last axis, sizes equal or one.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::advanced::core::BinaryOp;
    /// assert_eq!(rt.binary(BinaryOp::Sub, 1.0, &Tensor::from(vec![5.0f32, 7.0]))?.to_vec(), [-4.0, -6.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
