//! What can stand beside an expression: operators over expressions, tensors and numbers.

use super::node::Node;
use super::{AnyExpression, Expression};
use crate::tensor::{AnyTensor, Tensor};
use std::ops::{Add, Div, Mul, Neg, Sub};
use std::sync::Arc;
use trimtab_core::{BinaryOp, DType, UnaryOp};
use trimtab_operands::{Element, f16};

/// An operand of an expression: another expression, a tensor by reference, or a number.
pub trait Term<T: Element>: sealed::Term<T> {}

/// An operand of an expression whose type is known at run time: another expression, a tensor by reference, or a number, which is taken
/// to be of the expression's type.
pub trait AnyTerm: sealed::AnyTerm {}

mod sealed {
    use super::*;

    pub trait Term<T: Element> {
        fn node(&self) -> Arc<Node>;
    }

    pub trait AnyTerm {
        fn node(&self, like: DType) -> Arc<Node>;
    }
}

impl<T: Element, S: sealed::Term<T>> Term<T> for S {}
impl<S: sealed::AnyTerm> AnyTerm for S {}

impl<T: Element> sealed::Term<T> for Expression<T> {
    fn node(&self) -> Arc<Node> {
        Arc::clone(&self.any.node)
    }
}

impl<T: Element> sealed::Term<T> for &Expression<T> {
    fn node(&self) -> Arc<Node> {
        (*self).node()
    }
}

impl<T: Element> sealed::Term<T> for &Tensor<T> {
    fn node(&self) -> Arc<Node> {
        Node::given(&self.any)
    }
}

impl<T: Element> sealed::Term<T> for T {
    fn node(&self) -> Arc<Node> {
        Node::number(self.to_f64(), T::DTYPE)
    }
}

impl sealed::AnyTerm for AnyExpression {
    fn node(&self, _: DType) -> Arc<Node> {
        Arc::clone(&self.node)
    }
}

impl sealed::AnyTerm for &AnyExpression {
    fn node(&self, _: DType) -> Arc<Node> {
        Arc::clone(&self.node)
    }
}

impl sealed::AnyTerm for &AnyTensor {
    fn node(&self, _: DType) -> Arc<Node> {
        Node::given(self)
    }
}

impl sealed::AnyTerm for f64 {
    fn node(&self, like: DType) -> Arc<Node> {
        Node::number(*self, like)
    }
}

macro_rules! operators {
    ($($trait:ident, $method:ident, $op:ident;)*) => {
        $(
            operators!($trait, $method, [T: Element, R: Term<T>] Expression<T>, R => Expression<T>:
                |a, b| Expression::wrap(a.any.before(BinaryOp::$op, &b.node())));
            operators!($trait, $method, [T: Element, R: Term<T>] &Expression<T>, R => Expression<T>:
                |a, b| a.binary(BinaryOp::$op, b));
            operators!($trait, $method, [T: Element] &Tensor<T>, Expression<T> => Expression<T>:
                |a, b| Expression::wrap(b.any.behind(BinaryOp::$op, &Node::given(&a.any))));
            operators!($trait, $method, [T: Element] &Tensor<T>, &Expression<T> => Expression<T>:
                |a, b| Expression::wrap(b.any.clone().behind(BinaryOp::$op, &Node::given(&a.any))));
            operators!($trait, $method, [R: AnyTerm] AnyExpression, R => AnyExpression:
                |a, b| { let b = b.node(a.dtype()); a.before(BinaryOp::$op, &b) });
            operators!($trait, $method, [R: AnyTerm] &AnyExpression, R => AnyExpression:
                |a, b| a.binary(BinaryOp::$op, b));
            operators!($trait, $method, [] &AnyTensor, AnyExpression => AnyExpression:
                |a, b| b.behind(BinaryOp::$op, &Node::given(a)));
            operators!($trait, $method, [] f64, AnyExpression => AnyExpression:
                |a, b| { let a = Node::number(a, b.dtype()); b.behind(BinaryOp::$op, &a) });
            operators!($trait, $method, $op, f32 f64 f16 i32);
        )*
    };
    ($trait:ident, $method:ident, $op:ident, $($number:ty)*) => {
        $(
            operators!($trait, $method, [] $number, Expression<$number> => Expression<$number>:
                |a, b| Expression::wrap(b.any.behind(BinaryOp::$op, &Node::number(a.into(), <$number>::DTYPE))));
            operators!($trait, $method, [] $number, &Expression<$number> => Expression<$number>:
                |a, b| a.$method(b.clone()));
        )*
    };
    ($trait:ident, $method:ident, [$($of:tt)*] $left:ty, $right:ty => $out:ty: |$a:ident, $b:ident| $made:expr) => {
        impl<$($of)*> $trait<$right> for $left {
            type Output = $out;
            fn $method(self, other: $right) -> $out {
                let ($a, $b) = (self, other);
                $made
            }
        }
    };
}

operators! {
    Add, add, Add;
    Sub, sub, Sub;
    Mul, mul, Mul;
    Div, div, Div;
}

macro_rules! negated {
    ($([$($of:tt)*] $from:ty => $out:ty;)*) => {
        $(impl<$($of)*> Neg for $from {
            type Output = $out;
            fn neg(self) -> $out {
                self.unary(UnaryOp::Neg)
            }
        })*
    };
}

negated! {
    [T: Element] Expression<T> => Expression<T>;
    [T: Element] &Expression<T> => Expression<T>;
    [] AnyExpression => AnyExpression;
}
