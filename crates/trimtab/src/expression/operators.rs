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
        Arc::clone(&self.any.node)
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
                    other.any.rt.lazy(self).binary(BinaryOp::$op, other)
                }
            }

            impl<T: Element> $trait<&Expression<T>> for &Tensor<T> {
                type Output = Expression<T>;
                fn $method(self, other: &Expression<T>) -> Expression<T> {
                    other.any.rt.lazy(self).binary(BinaryOp::$op, other)
                }
            }

            impl<R: AnyTerm> $trait<R> for AnyExpression {
                type Output = AnyExpression;
                fn $method(self, other: R) -> AnyExpression {
                    self.binary(BinaryOp::$op, other)
                }
            }

            impl<R: AnyTerm> $trait<R> for &AnyExpression {
                type Output = AnyExpression;
                fn $method(self, other: R) -> AnyExpression {
                    self.binary(BinaryOp::$op, other)
                }
            }

            impl $trait<AnyExpression> for &AnyTensor {
                type Output = AnyExpression;
                fn $method(self, other: AnyExpression) -> AnyExpression {
                    other.rt.lazy_any(self).binary(BinaryOp::$op, other)
                }
            }

            impl $trait<AnyExpression> for f64 {
                type Output = AnyExpression;
                fn $method(self, other: AnyExpression) -> AnyExpression {
                    let number = Node::number(self, other.node.dtype);
                    other.with(Node::binary(BinaryOp::$op, &number, &other.node))
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
                    let number = Node::number(self.into(), <$number>::DTYPE);
                    other.with(Node::binary(BinaryOp::$op, &number, &other.any.node))
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

impl Neg for AnyExpression {
    type Output = AnyExpression;
    fn neg(self) -> AnyExpression {
        self.unary(UnaryOp::Neg)
    }
}
