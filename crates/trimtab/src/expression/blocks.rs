//! Methods of expressions for masks, limits and blocks.

use super::node::Node;
use super::{AnyExpression, AnyTerm, Expression, Term};
use crate::ops::calls;
use std::sync::Arc;
use trimtab_core::{BinaryOp, MAX_PARTS, MaskOp};
use trimtab_operands::Element;

macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => {
        impl AnyExpression {
            $($(#[$doc])*
            pub fn $name(&self, other: impl AnyTerm) -> AnyExpression {
                self.mask(MaskOp::$op, other)
            })*
        }
        impl<T: Element> Expression<T> {
            $($(#[$doc])*
            pub fn $name(&self, other: impl Term<T>) -> Expression<bool> {
                self.mask(MaskOp::$op, other)
            })*
        }
    };
}

comparisons! {
    /// Whether elements are equal, as [`Runtime::eq`](crate::Runtime::eq).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![-1.0f32, 0.0, 2.0]);
    /// assert_eq!(rt.lazy(&x).eq(0.0).to_vec()?, [false, true, false]);
    /// assert_eq!(rt.lazy(&x).any().eq(0.0).dtype(), DType::Bool);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    eq = Eq;
    /// Whether elements are not equal, as [`Runtime::ne`](crate::Runtime::ne).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![-1.0f32, 0.0, 2.0]);
    /// assert_eq!(rt.lazy(&x).ne(0.0).to_vec()?, [true, false, true]);
    /// assert_eq!(rt.lazy(&x).any().ne(0.0).dtype(), DType::Bool);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ne = Ne;
    /// Whether elements are less, as [`Runtime::lt`](crate::Runtime::lt).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![-1.0f32, 0.0, 2.0]);
    /// assert_eq!(rt.lazy(&x).lt(0.0).to_vec()?, [true, false, false]);
    /// assert_eq!(rt.lazy(&x).any().lt(0.0).dtype(), DType::Bool);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    lt = Lt;
    /// Whether elements are less or equal, as [`Runtime::le`](crate::Runtime::le).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![-1.0f32, 0.0, 2.0]);
    /// assert_eq!(rt.lazy(&x).le(0.0).to_vec()?, [true, true, false]);
    /// assert_eq!(rt.lazy(&x).any().le(0.0).dtype(), DType::Bool);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    le = Le;
    /// Whether elements are greater, as [`Runtime::gt`](crate::Runtime::gt).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![-1.0f32, 0.0, 2.0]);
    /// assert_eq!(rt.lazy(&x).gt(0.0).to_vec()?, [false, false, true]);
    /// assert_eq!(rt.lazy(&x).any().gt(0.0).dtype(), DType::Bool);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    gt = Gt;
    /// Whether elements are greater or equal, as [`Runtime::ge`](crate::Runtime::ge).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![-1.0f32, 0.0, 2.0]);
    /// assert_eq!(rt.lazy(&x).ge(0.0).to_vec()?, [false, true, true]);
    /// assert_eq!(rt.lazy(&x).any().ge(0.0).dtype(), DType::Bool);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ge = Ge;
}

impl AnyExpression {
    /// Any comparison by name, as [`Runtime::mask`](crate::Runtime::mask).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::{AnyTensor, advanced::core::MaskOp};
    /// let x = AnyTensor::from(Tensor::from(vec![1.0f32, 3.0]));
    /// assert_eq!(rt.lazy_any(&x).mask(MaskOp::Gt, 2.0).eval()?.typed::<bool>()?.to_vec(), [false, true]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn mask(&self, op: MaskOp, other: impl AnyTerm) -> AnyExpression {
        let other = other.node(self.dtype());
        let call = calls::compare(op, self.node.spec(), other.spec());
        self.with(Node::called(call, vec![Arc::clone(&self.node), other]))
    }

    /// Elements of one where this one, of truth values, is true, else of another, as [`Runtime::select`](crate::Runtime::select). Numbers are
    /// taken to be of the other's type, or of f32 if both are.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::AnyTensor;
    /// let x = AnyTensor::from(Tensor::from(vec![-1.0f32, 3.0]));
    /// let x = rt.lazy_any(&x);
    /// assert_eq!(x.gt(0.0).select(&x, 7.0).eval()?.typed::<f32>()?.to_vec(), [7.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn select(&self, yes: &AnyExpression, no: impl AnyTerm) -> AnyExpression {
        let no = no.node(yes.dtype());
        let call = calls::select(self.node.spec(), yes.node.spec(), no.spec());
        self.with(Node::called(call, vec![Arc::clone(&self.node), Arc::clone(&yes.node), no]))
    }

    /// `min(max(x, low), high)`, as [`Runtime::clip`](crate::Runtime::clip).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::AnyTensor;
    /// let x = AnyTensor::from(Tensor::from(vec![-3.0f32, 9.0]));
    /// assert_eq!(rt.lazy_any(&x).clip(-1.0, 5.0).eval()?.typed::<f32>()?.to_vec(), [-1.0, 5.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clip(&self, low: impl AnyTerm, high: impl AnyTerm) -> AnyExpression {
        self.binary(BinaryOp::Max, low).binary(BinaryOp::Min, high)
    }

    /// This one and others side by side along an axis, as [`Runtime::concat`](crate::Runtime::concat).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::AnyTensor;
    /// let x = AnyTensor::from(Tensor::from(vec![1.0f32, 2.0]));
    /// let x = rt.lazy_any(&x);
    /// assert_eq!(x.concat(&[&x], 0).eval()?.typed::<f32>()?.to_vec(), [1.0, 2.0, 1.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn concat(&self, others: &[&AnyExpression], axis: usize) -> AnyExpression {
        let all: Vec<&AnyExpression> = [self].into_iter().chain(others.iter().copied()).collect();
        if all.len() > MAX_PARTS {
            let joined =
                all.chunks(MAX_PARTS).filter_map(|some| Some(some.first()?.concat(&some[1..], axis)));
            let joined: Vec<AnyExpression> = joined.collect();
            let others: Vec<&AnyExpression> = joined.iter().skip(1).collect();
            return joined.first().map_or_else(|| self.clone(), |first| first.concat(&others, axis));
        }
        let specs: Vec<_> = all.iter().map(|one| one.node.spec()).collect();
        let call = calls::concat(&specs, axis);
        self.with(Node::called(call, all.iter().map(|one| Arc::clone(&one.node)).collect()))
    }

    /// With a number around it, as [`Runtime::pad`](crate::Runtime::pad).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::AnyTensor;
    /// let x = AnyTensor::from(Tensor::from(vec![1.0f32, 2.0]));
    /// assert_eq!(rt.lazy_any(&x).pad(&[(1, 2)], 7.0).eval()?.typed::<f32>()?.to_vec(), [7.0, 1.0, 2.0, 7.0, 7.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pad(&self, by: &[(usize, usize)], number: impl AnyTerm) -> AnyExpression {
        let number = number.node(self.dtype());
        let call = calls::pad(number.spec(), self.node.spec(), by);
        self.with(Node::called(call, vec![number, Arc::clone(&self.node)]))
    }

    /// With a block in the place of what begins at an index, as [`Runtime::slice_assign`](crate::Runtime::slice_assign).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::AnyTensor;
    /// let (x, block) = (AnyTensor::zeros(DType::F32, &[3])?, AnyTensor::from(Tensor::from(vec![4.0f32])));
    /// assert_eq!(rt.lazy_any(&x).slice_assign(&[1], &block).eval()?.typed::<f32>()?.to_vec(), [0.0, 4.0, 0.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn slice_assign(&self, first: &[usize], block: impl AnyTerm) -> AnyExpression {
        let block = block.node(self.dtype());
        let call = calls::slice_assign(self.node.spec(), block.spec(), first);
        self.with(Node::called(call, vec![Arc::clone(&self.node), block]))
    }
}

impl<T: Element> Expression<T> {
    /// Any comparison by name, as [`Runtime::mask`](crate::Runtime::mask).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::advanced::core::MaskOp;
    /// let x = Tensor::from(vec![1.0f32, 3.0]);
    /// assert_eq!(rt.lazy(&x).mask(MaskOp::Gt, 2.0).to_vec()?, [false, true]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn mask(&self, op: MaskOp, other: impl Term<T>) -> Expression<bool> {
        Expression::wrap(self.any().mask(op, self.any().with(other.node())))
    }

    /// `min(max(x, low), high)`, as [`Runtime::clip`](crate::Runtime::clip).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![-3.0f32, 0.5, 9.0]);
    /// assert_eq!(rt.lazy(&x).clip(-1.0, 5.0).to_vec()?, [-1.0, 0.5, 5.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clip(&self, low: impl Term<T>, high: impl Term<T>) -> Expression<T> {
        let (low, high) = (self.any().with(low.node()), self.any().with(high.node()));
        Expression::wrap(self.any().clip(low, high))
    }

    /// This one and others side by side along an axis, as [`Runtime::concat`](crate::Runtime::concat).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let (a, b) = (Tensor::from(vec![1, 2]), Tensor::from(vec![3]));
    /// assert_eq!(rt.lazy(&a).concat(&[&rt.lazy(&b)], 0).to_vec()?, [1, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn concat(&self, others: &[&Expression<T>], axis: usize) -> Expression<T> {
        let others: Vec<&AnyExpression> = others.iter().map(|other| other.any()).collect();
        Expression::wrap(self.any().concat(&others, axis))
    }

    /// With a number around it, as [`Runtime::pad`](crate::Runtime::pad).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![1i32, 2], &[1, 2])?;
    /// assert_eq!(rt.lazy(&x).pad(&[(1, 0), (0, 1)], 7).to_vec()?, [7, 7, 7, 1, 2, 7]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pad(&self, by: &[(usize, usize)], number: impl Term<T>) -> Expression<T> {
        Expression::wrap(self.any().pad(by, self.any().with(number.node())))
    }

    /// With a block in the place of what begins at an index, as [`Runtime::slice_assign`](crate::Runtime::slice_assign).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let (x, block) = (Tensor::<i32>::zeros(&[2, 3])?, Tensor::full(&[1, 2], 4i32)?);
    /// assert_eq!(rt.lazy(&x).slice_assign(&[1, 1], &block).to_vec()?, [0, 0, 0, 0, 4, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn slice_assign(&self, first: &[usize], block: impl Term<T>) -> Expression<T> {
        Expression::wrap(self.any().slice_assign(first, self.any().with(block.node())))
    }
}

impl Expression<bool> {
    /// Elements of one where this is true, else of another, as [`Runtime::select`](crate::Runtime::select).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![-1.0f32, 3.0]);
    /// assert_eq!(rt.lazy(&x).gt(0.0).select(&x, 7.0).to_vec()?, [7.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn select<T: Element>(&self, yes: impl Term<T>, no: impl Term<T>) -> Expression<T> {
        let (yes, no) = (self.any().with(yes.node()), self.any().with(no.node()));
        Expression::wrap(self.any().select(&yes, no))
    }
}
