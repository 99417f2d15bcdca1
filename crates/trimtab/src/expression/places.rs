//! Methods of expressions that find elements by index.

use super::node::Node;
use super::{AnyExpression, AnyTerm, Expression, Term};
use crate::ops::calls;
use std::sync::Arc;
use trimtab_core::DType;
use trimtab_operands::Element;

/// Methods of an operand, its indices, and perhaps what is added.
macro_rules! by_index {
    ($($(#[$doc:meta])* $name:ident($($added:ident)?);)*) => {
        impl AnyExpression {
            $($(#[$doc])*
            pub fn $name(&self, indices: impl AnyTerm, $($added: impl AnyTerm,)? axis: usize) -> AnyExpression {
                // A number among indices is one.
                let indices = indices.node(DType::I64);
                $(let $added = $added.node(self.dtype());)?
                let call = calls::$name(self.node.spec(), indices.spec(), $($added.spec(),)? axis);
                self.with(Node::called(call, vec![Arc::clone(&self.node), indices, $($added,)?]))
            })*
        }
        impl<T: Element> Expression<T> {
            $($(#[$doc])*
            pub fn $name<I: Element>(&self, indices: impl Term<I>, $($added: impl Term<T>,)? axis: usize) -> Expression<T> {
                let indices = self.any().with(indices.node());
                $(let $added = self.any().with($added.node());)?
                Expression::wrap(self.any().$name(indices, $($added,)? axis))
            })*
        }
    };
}

by_index! {
    /// The elements along an axis that a list of indices names, as [`Runtime::take`](crate::Runtime::take).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let (x, rows) = (Tensor::from_vec(vec![1, 2, 3, 4], &[2, 2])?, Tensor::from(vec![1i64, 0]));
    /// assert_eq!(rt.lazy(&x).take(&rows, 0).to_vec()?, [3, 4, 1, 2]);
    /// assert_eq!(rt.lazy(&x).any().take(rt.lazy(&rows).any(), 0).shape(), [2, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    take();
    /// The elements along an axis, each by an index of its own, as [`Runtime::take_along`](crate::Runtime::take_along).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = rt.lazy(&Tensor::from(vec![3.0f32, 1.0, 2.0]));
    /// assert_eq!(x.take_along(x.argsort(0, false), 0).to_vec()?, [1.0, 2.0, 3.0]);
    /// assert_eq!(x.any().take_along(x.argsort(0, false).any(), 0).shape(), [3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    take_along();
    /// With rows added along an axis where a list of indices says, as [`Runtime::scatter_add`](crate::Runtime::scatter_add).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let (counts, bins) = (Tensor::<i32>::zeros(&[3])?, Tensor::from(vec![0i64, 2, 2]));
    /// let ones = Tensor::full(&[3], 1i32)?;
    /// assert_eq!(rt.lazy(&counts).scatter_add(&bins, &ones, 0).to_vec()?, [1, 0, 2]);
    /// let (any_bins, any_ones) = (rt.lazy(&bins), rt.lazy(&ones));
    /// assert_eq!(rt.lazy(&counts).any().scatter_add(any_bins.any(), any_ones.any(), 0).shape(), [3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    scatter_add(added);
    /// With elements added along an axis, each where an index of its own says, as
    /// [`Runtime::scatter_add_along`](crate::Runtime::scatter_add_along).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let (x, at) = (Tensor::<i32>::zeros(&[1, 3])?, Tensor::from_vec(vec![2i64, 0], &[1, 2])?);
    /// let added = Tensor::from_vec(vec![5i32, 7], &[1, 2])?;
    /// assert_eq!(rt.lazy(&x).scatter_add_along(&at, &added, 1).to_vec()?, [7, 0, 5]);
    /// let (any_at, any_added) = (rt.lazy(&at), rt.lazy(&added));
    /// assert_eq!(rt.lazy(&x).any().scatter_add_along(any_at.any(), any_added.any(), 1).shape(), [1, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    scatter_add_along(added);
}

impl AnyExpression {
    /// The rows of a table that indices name, as [`Runtime::embedding`](crate::Runtime::embedding).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let (table, words) = (Tensor::<f32>::zeros(&[5, 3])?, Tensor::from(vec![4i64, 0]));
    /// assert_eq!(rt.lazy(&table).any().embedding(rt.lazy(&words).any()).shape(), [2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn embedding(&self, indices: impl AnyTerm) -> AnyExpression {
        self.take(indices, 0)
    }
}

impl<T: Element> Expression<T> {
    /// The rows of a table that indices name, as [`Runtime::embedding`](crate::Runtime::embedding).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let (table, words) = (Tensor::from_vec(vec![1, 2, 3, 4], &[2, 2])?, Tensor::from(vec![1i64, 0, 1]));
    /// assert_eq!(rt.lazy(&table).embedding(&words).to_vec()?, [3, 4, 1, 2, 3, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn embedding<I: Element>(&self, indices: impl Term<I>) -> Expression<T> {
        self.take(indices, 0)
    }
}
