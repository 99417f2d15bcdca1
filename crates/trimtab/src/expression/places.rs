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
    take();
    /// The elements along an axis, each by an index of its own, as [`Runtime::take_along`](crate::Runtime::take_along).
    take_along();
    /// With rows added along an axis where a list of indices says, as [`Runtime::scatter_add`](crate::Runtime::scatter_add).
    scatter_add(added);
    /// With elements added along an axis, each where an index of its own says, as
    /// [`Runtime::scatter_add_along`](crate::Runtime::scatter_add_along).
    scatter_add_along(added);
}
