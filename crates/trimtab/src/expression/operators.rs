//! What can stand beside an expression: operators over expressions, tensors and numbers.

use super::Expression;
use super::node::Node;
use crate::tensor::Tensor;
use std::ops::{Add, Div, Mul, Neg, Sub};
use std::sync::Arc;
use trimtab_core::{BinaryOp, UnaryOp};
use trimtab_cpu::Element;
use trimtab_operands::f16;

/// An operand of an expression: another expression, a tensor by reference, or a number.
pub trait Term<T: Element>: sealed::Term<T> {}

mod sealed {
    use super::*;

    pub trait Term<T: Element> {
        fn node(&self) -> Arc<Node<T>>;
    }
}

impl<T: Element, S: sealed::Term<T>> Term<T> for S {}

impl<T: Element> sealed::Term<T> for Expression<T> {
    fn node(&self) -> Arc<Node<T>> {
        Arc::clone(&self.node)
    }
}

impl<T: Element> sealed::Term<T> for &Expression<T> {
    fn node(&self) -> Arc<Node<T>> {
        Arc::clone(&self.node)
    }
}

impl<T: Element> sealed::Term<T> for &Tensor<T> {
    fn node(&self) -> Arc<Node<T>> {
        Node::given(self)
    }
}

impl<T: Element> sealed::Term<T> for T {
    fn node(&self) -> Arc<Node<T>> {
        Node::number(*self)
    }
}

macro_rules! operators {
    ($($trait:ident, $method:ident, $op:ident;)*) => {
        $(
            impl<T: Element, R: Term<T>> $trait<R> for Expression<T> {
                type Output = Expression<T>;
                fn $method(self, other: R) -> Expression<T> {
                    self.binary(BinaryOp::$op, other)
                }
            }

            impl<T: Element, R: Term<T>> $trait<R> for &Expression<T> {
                type Output = Expression<T>;
                fn $method(self, other: R) -> Expression<T> {
                    self.binary(BinaryOp::$op, other)
                }
            }

            impl<T: Element> $trait<Expression<T>> for &Tensor<T> {
                type Output = Expression<T>;
                fn $method(self, other: Expression<T>) -> Expression<T> {
                    other.rt.lazy(self).binary(BinaryOp::$op, other)
                }
            }

            impl<T: Element> $trait<&Expression<T>> for &Tensor<T> {
                type Output = Expression<T>;
                fn $method(self, other: &Expression<T>) -> Expression<T> {
                    other.rt.lazy(self).binary(BinaryOp::$op, other)
                }
            }

            operators!(numbers $trait, $method, $op: f32 f64 f16 i32);
        )*
    };
    (numbers $trait:ident, $method:ident, $op:ident: $($number:ty)*) => {
        $(
            impl $trait<Expression<$number>> for $number {
                type Output = Expression<$number>;
                fn $method(self, other: Expression<$number>) -> Expression<$number> {
                    self.$method(&other)
                }
            }

            impl $trait<&Expression<$number>> for $number {
                type Output = Expression<$number>;
                fn $method(self, other: &Expression<$number>) -> Expression<$number> {
                    other.with(Node::binary(BinaryOp::$op, &Node::number(self), &other.node))
                }
            }
        )*
    };
}

operators! {
    Add, add, Add;
    Sub, sub, Sub;
    Mul, mul, Mul;
    Div, div, Div;
}

impl<T: Element> Neg for Expression<T> {
    type Output = Expression<T>;
    fn neg(self) -> Expression<T> {
        self.unary(UnaryOp::Neg)
    }
}

impl<T: Element> Neg for &Expression<T> {
    type Output = Expression<T>;
    fn neg(self) -> Expression<T> {
        self.unary(UnaryOp::Neg)
    }
}
