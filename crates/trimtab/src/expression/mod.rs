//! Expressions: operations that are written down first and computed as a whole.

mod any;
mod batch;
mod blocks;
mod costs;
mod endings;
mod explanation;
mod flat;
mod fuse;
mod kept;
mod node;
mod operations;
mod operators;
mod places;
mod run;
mod said;
mod schedule;
mod strips;
mod transforms;

pub use any::AnyExpression;
pub use explanation::Explanation;
pub(crate) use kept::Schedules;
pub use operators::{AnyTerm, Term};

use crate::error::Error;
use crate::ops::{Axis, Float};
use crate::runtime::Runtime;
use crate::tensor::Tensor;
use node::Node;
use std::fmt;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;
use trimtab_core::{BinaryOp, ReduceOp, UnaryOp};
use trimtab_operands::Element;

/// A computation that is written down and not yet made. [`Runtime::lazy`] begins one; operators and methods go on; reading
/// it ([`eval`](Expression::eval), [`to_vec`](Expression::to_vec), [`item`](Expression::item), [`save`](Expression::save), printing) computes it.
///
/// The whole is planned at once: elementwise operations run in one pass with each other, with the product before and the
/// reduction behind them, where that is faster; and each part runs on the device where everything together, moving
/// data included, takes least. Results stay where they were computed until they are read.
///
/// Cloning shares; what is used several times is computed once. What is wrong with shapes is told when it is computed.
///
/// ```
/// use trimtab::{Axis, Runtime, Tensor};
/// let rt = Runtime::builder().wisdom_in_memory().build()?;
/// let x = Tensor::from_fn(&[64, 32], |i| (i % 7) as f32)?;
/// let w = Tensor::full(&[32, 16], 0.5f32)?;
/// let bias = Tensor::full(&[16], -10.0f32)?;
/// let y = (rt.lazy(&x).matmul(&w) + &bias).relu(); // nothing has run
/// let total = (&y * 2.0).sum(Axis::All).item()?;
/// let eager = rt.relu(&rt.add(&rt.matmul(&x, &w)?, &bias)?)?;
/// assert_eq!(total, rt.sum(&rt.mul(&eager, 2.0)?, Axis::All)?.item()?);
/// # Ok::<(), trimtab::Error>(())
/// ```
#[derive(Clone)]
pub struct Expression<T: Element> {
    any: AnyExpression,
    of: PhantomData<T>,
}

impl Runtime {
    /// Begins an expression with a tensor. Nothing is copied; writing to the tensor later does not change the expression.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![1.0f32, 2.0, 3.0]);
    /// let y = rt.lazy(&x) * 2.0 + 1.0; // nothing has run
    /// assert_eq!(y.to_vec()?, [3.0, 5.0, 7.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lazy<T: Element>(&self, tensor: &Tensor<T>) -> Expression<T> {
        Expression::wrap(self.lazy_any(&tensor.any))
    }
}

macro_rules! unary {
    ($bound:ident: $($(#[$doc:meta])* $name:ident = $op:ident;)*) => {
        impl<T: $bound> Expression<T> {
            $($(#[$doc])*
            pub fn $name(&self) -> Expression<T> {
                self.unary(UnaryOp::$op)
            })*
        }
    };
}

unary! { Element:
    /// `|x|`.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// assert_eq!(rt.lazy(&Tensor::from(vec![-1.5f32, 2.0])).abs().to_vec()?, [1.5, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    abs = Abs;
    /// `max(x, 0)`.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// assert_eq!(rt.lazy(&Tensor::from(vec![-1.5f32, 2.0])).relu().to_vec()?, [0.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    relu = Relu;
}
unary! { Float:
    /// e to the power of x.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let y = rt.lazy(&Tensor::from(vec![1.0f32])).exp().item()?;
    /// assert!((y - std::f32::consts::E).abs() < 1e-5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    exp = Exp;
    /// Natural logarithm.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let y = rt.lazy(&Tensor::from(vec![2.0f32])).log().item()?;
    /// assert!((y - std::f32::consts::LN_2).abs() < 1e-5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    log = Log;
    /// Square root.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// assert_eq!(rt.lazy(&Tensor::from(vec![4.0f32, 9.0])).sqrt().to_vec()?, [2.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    sqrt = Sqrt;
    /// Hyperbolic tangent.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let y = rt.lazy(&Tensor::from(vec![0.5f32])).tanh().item()?;
    /// assert!((y - 0.5f32.tanh()).abs() < 1e-5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    tanh = Tanh;
    /// `1 / (1 + exp(-x))`.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let y = rt.lazy(&Tensor::from(vec![0.0f32])).sigmoid().item()?;
    /// assert!((y - 0.5).abs() < 1e-5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    sigmoid = Sigmoid;
    /// The Gaussian error linear unit, in its tanh form.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let y = rt.lazy(&Tensor::from(vec![0.0f32, 9.0])).gelu().to_vec()?;
    /// assert!(y[0].abs() < 1e-5 && (y[1] - 9.0).abs() < 1e-5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    gelu = Gelu;
}

impl<T: Element> Expression<T> {
    /// An expression that is known to be of this type.
    fn wrap(any: AnyExpression) -> Expression<T> {
        Expression { any, of: PhantomData }
    }

    fn with(&self, node: Arc<Node>) -> Expression<T> {
        Expression::wrap(self.any.with(node))
    }

    /// The same expression, its type known at run time.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![1.0f32, 2.0]);
    /// assert_eq!(rt.lazy(&x).any().dtype(), DType::F32);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn any(&self) -> &AnyExpression {
        &self.any
    }

    /// Any function of one value by name.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::advanced::core::UnaryOp;
    /// let x = Tensor::from(vec![1.0f32, -2.0]);
    /// assert_eq!(rt.lazy(&x).unary(UnaryOp::Neg).to_vec()?, [-1.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unary(&self, op: UnaryOp) -> Expression<T> {
        Expression::wrap(self.any.unary(op))
    }

    /// Any function of two values by name; shapes are aligned at the last axis, sizes equal or one.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::advanced::core::BinaryOp;
    /// let x = Tensor::from(vec![1.0f32, -2.0]);
    /// assert_eq!(rt.lazy(&x).binary(BinaryOp::Sub, 1.0).to_vec()?, [0.0, -3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn binary(&self, op: BinaryOp, other: impl Term<T>) -> Expression<T> {
        self.with(Node::binary(op, &self.any.node, &other.node()))
    }

    /// The smaller of each pair; a NaN wins. See [`Expression::min`] for the smallest of one value.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![1.0f32, -2.0]);
    /// assert_eq!(rt.lazy(&x).minimum(0.0).to_vec()?, [0.0, -2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn minimum(&self, other: impl Term<T>) -> Expression<T> {
        self.binary(BinaryOp::Min, other)
    }

    /// The larger of each pair; a NaN wins. See [`Expression::max`] for the largest of one value.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![1.0f32, -2.0]);
    /// assert_eq!(rt.lazy(&x).maximum(0.0).to_vec()?, [1.0, 0.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn maximum(&self, other: impl Term<T>) -> Expression<T> {
        self.binary(BinaryOp::Max, other)
    }

    /// To the power of `other`.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![2i32, 3]);
    /// assert_eq!(rt.lazy(&x).pow(2).to_vec()?, [4, 9]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pow(&self, other: impl Term<T>) -> Expression<T> {
        self.binary(BinaryOp::Pow, other)
    }

    /// Any reduction by name.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::advanced::core::ReduceOp;
    /// let x = Tensor::from_vec(vec![1.0f32, 5.0, 4.0, 2.0], &[2, 2])?;
    /// assert_eq!(rt.lazy(&x).reduce(ReduceOp::Max, 1).to_vec()?, [5.0, 4.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reduce(&self, op: ReduceOp, axis: impl Into<Axis>) -> Expression<T> {
        self.reduce_to(op, axis)
    }

    /// A reduction that gives that type, or an expression that says which it gives.
    fn reduce_to<U: Element>(&self, op: ReduceOp, axis: impl Into<Axis>) -> Expression<U> {
        let made = self.any.reduce(op, axis);
        let wrong = |error| self.any.with(node::Node::wrong(error, U::DTYPE));
        made.typed().unwrap_or_else(|error| Expression::wrap(wrong(made.error().cloned().unwrap_or(error))))
    }

    /// The sum, as [`Runtime::sum`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(rt.lazy(&x).sum(0).to_vec()?, [4.0, 6.0]);
    /// assert_eq!(rt.lazy(&x).sum(Axis::All).item()?, 10.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sum(&self, axis: impl Into<Axis>) -> Expression<T::Total> {
        self.reduce_to(ReduceOp::Sum, axis)
    }

    /// The smallest element; a NaN wins. See [`Expression::minimum`] for the smaller of two values.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![1.0f32, 5.0, 4.0, 2.0], &[2, 2])?;
    /// assert_eq!(rt.lazy(&x).min(1).to_vec()?, [1.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn min(&self, axis: impl Into<Axis>) -> Expression<T> {
        self.reduce(ReduceOp::Min, axis)
    }

    /// The largest element; a NaN wins. See [`Expression::maximum`] for the larger of two values.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![1.0f32, 5.0, 4.0, 2.0], &[2, 2])?;
    /// assert_eq!(rt.lazy(&x).max(Axis::All).item()?, 5.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max(&self, axis: impl Into<Axis>) -> Expression<T> {
        self.reduce(ReduceOp::Max, axis)
    }

    /// The product of elements, as [`Runtime::prod`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// assert_eq!(rt.lazy(&Tensor::from(vec![2.0f32, 3.0, 4.0])).prod(Axis::All).item()?, 24.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prod(&self, axis: impl Into<Axis>) -> Expression<T::Total> {
        self.reduce_to(ReduceOp::Prod, axis)
    }

    /// The order of axes reversed.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![1, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(rt.lazy(&x).transpose().to_vec()?, [1, 4, 2, 5, 3, 6]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn transpose(&self) -> Expression<T> {
        Expression::wrap(self.any.transpose())
    }

    /// The axes in another order: axis `i` of the result is axis `axes[i]`.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::<f32>::zeros(&[2, 3, 4])?;
    /// assert_eq!(rt.lazy(&x).permute(&[2, 0, 1]).shape(), [4, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn permute(&self, axes: &[usize]) -> Expression<T> {
        Expression::wrap(self.any.permute(axes))
    }

    /// The same elements, in row-major order, in another shape. Nothing is copied in the processor's memory; what lies on another
    /// device comes back from it.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let pixels = Tensor::from_fn(&[2, 3, 4], |i| i as f32)?;
    /// let flat = (rt.lazy(&pixels) * 2.0).reshape(&[6, 4]).sum(1);
    /// assert_eq!(flat.to_vec()?, [12.0, 44.0, 76.0, 108.0, 140.0, 172.0]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn reshape(&self, shape: &[usize]) -> Expression<T> {
        Expression::wrap(self.any.reshape(shape))
    }

    /// The size along each dimension; nothing if something is wrong with it: see [`Expression::error`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::<f32>::zeros(&[2, 3])?;
    /// assert_eq!(rt.lazy(&x).sum(1).shape(), [2]); // known before anything is computed
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shape(&self) -> &[usize] {
        self.any.shape()
    }

    /// What is wrong with it, known before anything is computed: shapes that do not fit, an axis that is not there.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::<f32>::zeros(&[2, 3])?;
    /// let wrong = rt.lazy(&x).matmul(&x);
    /// assert!(wrong.error().is_some_and(|error| error.to_string().contains("columns")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn error(&self) -> Option<&Error> {
        self.any.error()
    }

    /// Computes it. The value is kept, so that a second time costs nothing, and stays where it was computed until it is read.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let y = (rt.lazy(&Tensor::from(vec![1.0f32, 2.0])) + 1.0).eval()?;
    /// assert_eq!(y.to_vec(), [2.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn eval(&self) -> Result<Tensor<T>, Error> {
        self.any.eval()?.try_into()
    }

    fn read(&self) -> Result<Tensor<T>, Error> {
        self.any.read()?.typed()
    }

    /// Computes it; the elements in row-major order.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// assert_eq!((rt.lazy(&Tensor::from(vec![1.0f32, 2.0])) / 2.0).to_vec()?, [0.5, 1.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        Ok(self.read()?.to_vec())
    }

    /// Computes it; the only element.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// assert_eq!(rt.lazy(&Tensor::from(vec![1.0f32, 2.0])).sum(Axis::All).item()?, 3.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn item(&self) -> Result<T, Error> {
        self.read()?.item()
    }

    /// Computes it and writes it to a file, as [`Tensor::save`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// # let dir = tempfile::tempdir()?;
    /// let path = dir.path().join("doubled.npy");
    /// (rt.lazy(&Tensor::from(vec![1.0f32, 2.0])) * 2.0).save(&path)?;
    /// assert_eq!(Tensor::<f32>::load(&path)?.to_vec(), [2.0, 4.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.read()?.save(path)
    }

    /// How it will be computed, and why: which operations run as one, and where. Plans, and computes nothing.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::full(&[1000], 2.0f64)?;
    /// println!("{}", (rt.lazy(&x) * 3.0 + 1.0).sqrt().explain()?);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn explain(&self) -> Result<Explanation, Error> {
        self.any.explain()
    }
}

impl<T: Float> Expression<T> {
    /// The matrix product, as [`Runtime::matmul`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(rt.lazy(&x).matmul(&x).to_vec()?, [7.0, 10.0, 15.0, 22.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn matmul(&self, other: impl Term<T>) -> Expression<T> {
        self.with(Node::matmul(&self.any.node, &other.node()))
    }

    /// The arithmetic mean.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![1.0f32, 3.0, 4.0, 6.0], &[2, 2])?;
    /// assert_eq!(rt.lazy(&x).mean(1).to_vec()?, [2.0, 5.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn mean(&self, axis: impl Into<Axis>) -> Expression<T> {
        self.reduce(ReduceOp::Mean, axis)
    }
}

impl<T: Element> fmt::Display for Expression<T> {
    /// Computes it and shows the value, or what is wrong.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.any.fmt(f)
    }
}

impl<T: Element> fmt::Debug for Expression<T> {
    /// Its shape and whether it was computed. Computes nothing: looking for a mistake should not change anything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.any, f)
    }
}
