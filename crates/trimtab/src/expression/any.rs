//! An expression whose element type is known at run time: what is inside a typed one.

use super::explanation::Explanation;
use super::flat::{self, flatten};
use super::node::Node;
use super::operators::AnyTerm;
use super::{Axis, Expression};
use crate::error::Error;
use crate::runtime::Runtime;
use crate::tensor::AnyTensor;
use std::fmt;
use std::sync::Arc;
use trimtab_core::{BinaryOp, DType, ReduceOp, UnaryOp};
use trimtab_operands::Element;

/// A computation that is written down and not yet made, its element type known at run time: [`Expression`] without the type.
///
/// Operands of different types make an expression that is wrong, and [`error`](AnyExpression::error) says which they are.
///
/// ```
/// use trimtab::{AnyTensor, Runtime, Tensor};
/// let rt = Runtime::builder().wisdom_in_memory().build()?;
/// let x = AnyTensor::from(Tensor::from(vec![1.0f64, 4.0, 9.0]));
/// let y = (rt.lazy_any(&x) * 2.0 + &x).eval()?;
/// assert_eq!(y.typed::<f64>()?.to_vec(), [3.0, 12.0, 27.0]);
/// let whole = AnyTensor::from(Tensor::from(vec![1, 2, 3]));
/// let mixed = (rt.lazy_any(&x) + &whole).eval().unwrap_err().to_string();
/// assert!(mixed.contains("f64") && mixed.contains("i32"), "{mixed}");
/// # Ok::<(), trimtab::Error>(())
/// ```
#[derive(Clone)]
pub struct AnyExpression {
    pub(super) rt: Runtime,
    pub(super) node: Arc<Node>,
}

impl Runtime {
    /// Begins an expression with a tensor whose type is known at run time, as [`Runtime::lazy`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::AnyTensor;
    /// let x = AnyTensor::from(Tensor::from(vec![1.0f32, 2.0]));
    /// let y = rt.lazy_any(&x) + 1.0; // nothing has run
    /// assert_eq!(y.eval()?.typed::<f32>()?.to_vec(), [2.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lazy_any(&self, tensor: &AnyTensor) -> AnyExpression {
        AnyExpression { rt: self.clone(), node: Node::given(tensor) }
    }
}

impl AnyExpression {
    pub(super) fn with(&self, node: Arc<Node>) -> AnyExpression {
        AnyExpression { rt: self.rt.clone(), node }
    }

    /// This one and another; the runtime goes along.
    pub(super) fn before(self, op: BinaryOp, other: &Arc<Node>) -> AnyExpression {
        AnyExpression { node: Node::binary(op, &self.node, other), ..self }
    }

    /// Another one and this.
    pub(super) fn behind(self, op: BinaryOp, other: &Arc<Node>) -> AnyExpression {
        AnyExpression { node: Node::binary(op, other, &self.node), ..self }
    }

    /// The element type.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::AnyTensor;
    /// let x = AnyTensor::zeros(DType::F64, &[2])?;
    /// assert_eq!(rt.lazy_any(&x).dtype(), DType::F64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dtype(&self) -> DType {
        self.node.dtype
    }

    /// The same expression, its type known to the compiler; an error if it is another.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::AnyTensor;
    /// let x = AnyTensor::from(Tensor::from(vec![1.0f32, 2.0]));
    /// let y: Expression<f32> = (rt.lazy_any(&x) * 2.0).typed()?;
    /// assert_eq!(y.to_vec()?, [2.0, 4.0]);
    /// assert!(rt.lazy_any(&x).typed::<f64>().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn typed<T: Element>(&self) -> Result<Expression<T>, Error> {
        match self.dtype() == T::DTYPE {
            true => Ok(Expression::wrap(self.clone())),
            false => Err(Error::ElementType { asked: T::DTYPE, found: self.dtype() }),
        }
    }

    /// Any function of one value by name.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::{AnyTensor, advanced::core::UnaryOp};
    /// let x = AnyTensor::from(Tensor::from(vec![1.0f32, -2.0]));
    /// assert_eq!(rt.lazy_any(&x).unary(UnaryOp::Abs).eval()?.get(&[1]), Some(2.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unary(&self, op: UnaryOp) -> AnyExpression {
        self.with(Node::unary(op, &self.node))
    }

    /// Any function of two values by name; shapes are aligned at the last axis, sizes equal or one.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::{AnyTensor, advanced::core::BinaryOp};
    /// let x = AnyTensor::from(Tensor::from(vec![1.0f32, -2.0]));
    /// assert_eq!(rt.lazy_any(&x).binary(BinaryOp::Max, 0.0).eval()?.get(&[1]), Some(0.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn binary(&self, op: BinaryOp, other: impl AnyTerm) -> AnyExpression {
        self.with(Node::binary(op, &self.node, &other.node(self.dtype())))
    }

    /// Any reduction by name.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::{AnyTensor, advanced::core::ReduceOp};
    /// let x = AnyTensor::from(Tensor::from(vec![1.0f32, 2.0, 3.0]));
    /// assert_eq!(rt.lazy_any(&x).reduce(ReduceOp::Sum, Axis::All).eval()?.get(&[]), Some(6.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reduce(&self, op: ReduceOp, axis: impl Into<Axis>) -> AnyExpression {
        let axis = axis.into();
        let made = Node::reduce(op, axis.number(), &self.node);
        match axis {
            Axis::Kept(_) if made.error().is_none() => {
                self.with(Node::reshape(&axis.left_of(self.shape()), &made))
            }
            _ => self.with(made),
        }
    }

    /// The matrix product, as [`Runtime::matmul`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::AnyTensor;
    /// let x = AnyTensor::from(Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], &[2, 2])?);
    /// assert_eq!(rt.lazy_any(&x).matmul(&x).eval()?.typed::<f32>()?.to_vec(), [7.0, 10.0, 15.0, 22.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn matmul(&self, other: impl AnyTerm) -> AnyExpression {
        self.with(Node::matmul(&self.node, &other.node(self.dtype())))
    }

    /// The order of axes reversed.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::AnyTensor;
    /// let x = AnyTensor::zeros(DType::F32, &[2, 3])?;
    /// assert_eq!(rt.lazy_any(&x).transpose().shape(), [3, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn transpose(&self) -> AnyExpression {
        let axes: Vec<usize> = (0..self.shape().len()).rev().collect();
        self.permute(&axes)
    }

    /// The axes in another order: axis `i` of the result is axis `axes[i]`.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::AnyTensor;
    /// let x = AnyTensor::zeros(DType::F32, &[2, 3, 4])?;
    /// assert_eq!(rt.lazy_any(&x).permute(&[2, 0, 1]).shape(), [4, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn permute(&self, axes: &[usize]) -> AnyExpression {
        self.with(Node::permute(axes, &self.node))
    }

    /// The same elements in another shape, as [`Expression::reshape`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::AnyTensor;
    /// let x = AnyTensor::zeros(DType::F32, &[2, 3])?;
    /// assert_eq!(rt.lazy_any(&x).reshape(&[6]).eval()?.shape(), [6]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reshape(&self, shape: &[usize]) -> AnyExpression {
        self.with(Node::reshape(shape, &self.node))
    }

    /// The size along each dimension; nothing if something is wrong with it: see [`AnyExpression::error`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::{AnyTensor, advanced::core::ReduceOp};
    /// let x = AnyTensor::zeros(DType::F32, &[2, 3])?;
    /// assert_eq!(rt.lazy_any(&x).reduce(ReduceOp::Sum, 1).shape(), [2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shape(&self) -> &[usize] {
        self.node.shape.as_slice()
    }

    /// What is wrong with it, known before anything is computed: shapes or types that do not fit, an axis that is not there.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::AnyTensor;
    /// let (x, y) = (AnyTensor::zeros(DType::F32, &[2])?, AnyTensor::zeros(DType::F64, &[2])?);
    /// let wrong = rt.lazy_any(&x) + &y;
    /// println!("{:?}", wrong.error());
    /// assert!(wrong.error().is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn error(&self) -> Option<&Error> {
        self.node.error()
    }

    /// Computes it. The value is kept, so that a second time costs nothing, and stays where it was computed until it is read.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::AnyTensor;
    /// let x = AnyTensor::from(Tensor::from(vec![1.0f32, 2.0]));
    /// assert_eq!((rt.lazy_any(&x) * 3.0).eval()?.get(&[1]), Some(6.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn eval(&self) -> Result<AnyTensor, Error> {
        if let Some(value) = self.node.value.get() {
            return Ok(AnyTensor::clone(value));
        }
        let value = self.rt.evaluate(flatten(&self.node)?, false)?;
        Ok(AnyTensor::clone(self.node.value.get_or_init(|| Box::new(value))))
    }

    /// Computes it for someone who reads it at once: the value comes back with what computes it.
    pub(super) fn read(&self) -> Result<&AnyTensor, Error> {
        if let Some(value) = self.node.value.get() {
            return value.fetched();
        }
        let value = self.rt.evaluate(flatten(&self.node)?, true)?;
        self.node.value.get_or_init(|| Box::new(value)).fetched()
    }

    /// How it will be computed, and why, as [`Expression::explain`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::AnyTensor;
    /// let x = AnyTensor::zeros(DType::F32, &[1000])?;
    /// println!("{}", (rt.lazy_any(&x) * 3.0 + 1.0).explain()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn explain(&self) -> Result<Explanation, Error> {
        let flattened = flatten(&self.node)?;
        if let flat::Op::Input(_) = flattened.flat.value(flattened.flat.root()).op {
            return Ok(Explanation::computed());
        }
        Ok(self.rt.schedule(self.rt.key(flattened.flat, &flattened.inputs))?.explanation.clone())
    }
}

impl fmt::Display for AnyExpression {
    /// Computes it and shows the value, or what is wrong.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.read() {
            Ok(value) => write!(f, "{value:?}"),
            Err(error) => write!(f, "{error}"),
        }
    }
}

impl fmt::Debug for AnyExpression {
    /// Its shape and whether it was computed. Computes nothing: looking for a mistake should not change anything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(error) = self.error() {
            return write!(f, "Expression<{}>({error})", self.dtype());
        }
        let is_known = if self.node.value.get().is_some() { "computed" } else { "not computed" };
        write!(f, "Expression<{}>{:?} ({is_known})", self.dtype(), self.shape())
    }
}
