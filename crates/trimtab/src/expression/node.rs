//! The graph an expression stands for: nodes that are built and checked, and not yet computed.

use crate::error::Error;
use crate::ops::{broadcast, sizes};
use crate::tensor::{Dims, MAX_TENSOR_RANK, Tensor, element_count};
use std::sync::{Arc, OnceLock};
use trimtab_core::{BinaryOp, Elementwise, Reduce, ReduceOp, UnaryOp};
use trimtab_cpu::Element;

/// An order of axes: axis `i` of the result is axis `axes[i]`.
pub(super) type Axes = [u8; MAX_TENSOR_RANK];

/// How a node's value comes about. Small, because there is one for every operation.
pub(super) enum Made<T: Element> {
    Given(Box<Tensor<T>>),
    Number(T),
    Unary(UnaryOp, Arc<Node<T>>),
    Binary(BinaryOp, Arc<Node<T>>, Arc<Node<T>>),
    Reduce(ReduceOp, Option<u8>, Arc<Node<T>>),
    Matmul(Arc<Node<T>>, Arc<Node<T>>),
    Permute(Axes, Arc<Node<T>>),
    /// What was asked for makes no sense; told when it is evaluated.
    Wrong(Box<Error>),
}

/// A value of an expression.
pub struct Node<T: Element> {
    pub(super) made: Made<T>,
    pub(super) shape: Dims<usize>,
    /// The value, once it was evaluated.
    pub(super) value: OnceLock<Box<Tensor<T>>>,
}

impl<T: Element> Node<T> {
    fn new(made: Made<T>, shape: Dims<usize>) -> Arc<Node<T>> {
        Arc::new(Node { made, shape, value: OnceLock::new() })
    }

    pub(super) fn wrong(error: Error) -> Arc<Node<T>> {
        Arc::new(Node { made: Made::Wrong(Box::new(error)), shape: Dims::default(), value: OnceLock::new() })
    }

    pub(super) fn given(tensor: &Tensor<T>) -> Arc<Node<T>> {
        Node::new(Made::Given(Box::new(tensor.clone())), tensor.dims())
    }

    pub(super) fn number(value: T) -> Arc<Node<T>> {
        Node::new(Made::Number(value), Dims::default())
    }

    /// What is wrong with it.
    pub(super) fn error(&self) -> Option<&Error> {
        match &self.made {
            Made::Wrong(error) => Some(error),
            _ => None,
        }
    }

    /// The node these operands make, unless one of them is wrong already or the shape is.
    fn made(made: Made<T>, shape: Result<Dims<usize>, Error>) -> Arc<Node<T>> {
        let earlier = made.operands().into_iter().flatten().find_map(|operand| operand.error());
        match (earlier, shape) {
            (None, Ok(shape)) => Node::new(made, shape),
            (Some(error), _) => Node::wrong(error.clone()),
            (None, Err(error)) => Node::wrong(error),
        }
    }

    pub(super) fn unary(op: UnaryOp, of: &Arc<Node<T>>) -> Arc<Node<T>> {
        let checked = Elementwise::unary(op, T::DTYPE, &sizes(&of.shape));
        Node::made(Made::Unary(op, Arc::clone(of)), checked.map(|_| of.shape).map_err(Error::from))
    }

    pub(super) fn binary(op: BinaryOp, a: &Arc<Node<T>>, b: &Arc<Node<T>>) -> Arc<Node<T>> {
        // Equal shapes and numbers always fit; others are checked.
        let shape = if a.shape == b.shape || b.shape.is_empty() {
            Ok(a.shape)
        } else if a.shape.is_empty() {
            Ok(b.shape)
        } else {
            let checked = Elementwise::binary(op, T::DTYPE, &sizes(&a.shape), &sizes(&b.shape));
            let both = || broadcast(&a.shape, &b.shape).unwrap_or_default();
            checked.map_err(Error::from).and_then(|_| dims(&both()))
        };
        Node::made(Made::Binary(op, Arc::clone(a), Arc::clone(b)), shape)
    }

    pub(super) fn reduce(op: ReduceOp, axis: Option<usize>, of: &Arc<Node<T>>) -> Arc<Node<T>> {
        let shape = of.shape.as_slice();
        let checked = Reduce::new(op, T::DTYPE, &sizes(shape), axis);
        let kept = || shape.iter().enumerate().filter(|&(at, _)| axis.is_some_and(|axis| at != axis));
        let kept = || kept().map(|(_, &size)| size).collect::<Vec<usize>>();
        let kept = checked.map_err(Error::from).and_then(|_| dims(&kept()));
        Node::made(Made::Reduce(op, axis.map(|axis| axis as u8), Arc::clone(of)), kept)
    }

    pub(super) fn matmul(a: &Arc<Node<T>>, b: &Arc<Node<T>>) -> Arc<Node<T>> {
        let shape = product_shape(a.shape.as_slice(), b.shape.as_slice());
        let shape = shape.and_then(|shape| element_count::<T>(&shape).and_then(|_| dims(&shape)));
        Node::made(Made::Matmul(Arc::clone(a), Arc::clone(b)), shape)
    }

    pub(super) fn permute(axes: &[usize], of: &Arc<Node<T>>) -> Arc<Node<T>> {
        let shape = of.shape.as_slice();
        let mut seen = [false; MAX_TENSOR_RANK];
        let each_once = axes.len() == shape.len()
            && axes.iter().all(|&axis| axis < axes.len() && !std::mem::replace(&mut seen[axis], true));
        if !each_once {
            let wrong = Error::Permutation { axes: axes.to_vec(), shape: shape.to_vec() };
            return Node::made(Made::Permute(Axes::default(), Arc::clone(of)), Err(wrong));
        }
        // Two orders in a row are one; the order they have already is none.
        let (axes, of) = match &of.made {
            Made::Permute(before, of) => {
                (axes.iter().map(|&axis| before[axis] as usize).collect::<Vec<_>>(), of)
            }
            _ => (axes.to_vec(), of),
        };
        if axes.is_sorted() {
            return Arc::clone(of);
        }
        let mut order = Axes::default();
        axes.iter().zip(&mut order).for_each(|(&axis, place)| *place = axis as u8);
        let shape: Vec<usize> = axes.iter().map(|&axis| of.shape[axis]).collect();
        Node::made(Made::Permute(order, Arc::clone(of)), dims(&shape))
    }
}

impl<T: Element> Made<T> {
    pub(super) fn operands(&self) -> [Option<&Arc<Node<T>>>; 2] {
        match self {
            Made::Given(_) | Made::Number(_) | Made::Wrong(_) => [None, None],
            Made::Unary(_, of) | Made::Reduce(_, _, of) | Made::Permute(_, of) => [Some(of), None],
            Made::Binary(_, a, b) | Made::Matmul(a, b) => [Some(a), Some(b)],
        }
    }
}

impl<T: Element> Drop for Node<T> {
    /// One after the other: the nodes of a long chain would otherwise be dropped each inside the one before.
    fn drop(&mut self) {
        let mut left = Vec::new();
        let mut next = self.take_operands();
        loop {
            // What has no operands is dropped here and now.
            let next_of = next.map(|operand| operand.filter(|operand| operand.made.operands()[0].is_some()));
            let operand = match next_of {
                [Some(first), second] => {
                    left.extend(second);
                    Some(first)
                }
                [None, second] => second.or_else(|| left.pop()),
            };
            let Some(operand) = operand else { return };
            next = Arc::into_inner(operand).map_or([None, None], |mut node| node.take_operands());
        }
    }
}

impl<T: Element> Node<T> {
    fn take_operands(&mut self) -> [Option<Arc<Node<T>>>; 2] {
        if self.made.operands()[0].is_none() {
            return [None, None];
        }
        match std::mem::replace(&mut self.made, Made::Number(T::default())) {
            Made::Given(_) | Made::Number(_) | Made::Wrong(_) => [None, None],
            Made::Unary(_, of) | Made::Reduce(_, _, of) | Made::Permute(_, of) => [Some(of), None],
            Made::Binary(_, a, b) | Made::Matmul(a, b) => [Some(a), Some(b)],
        }
    }
}

fn dims(shape: &[usize]) -> Result<Dims<usize>, Error> {
    Dims::new(shape).ok_or_else(|| Error::Rank { shape: shape.to_vec() })
}

/// The shape of a matrix product; see [`Runtime::matmul`](crate::Runtime::matmul).
pub(super) fn product_shape(a: &[usize], b: &[usize]) -> Result<Vec<usize>, Error> {
    let wrong =
        |reason: String| Error::Shapes { operation: "matmul", lhs: a.to_vec(), rhs: b.to_vec(), reason };
    if a.is_empty() || b.is_empty() {
        return Err(wrong("a number has no rows; use mul".to_string()));
    }
    let (columns, rows) = (a[a.len() - 1], b[b.len().saturating_sub(2)]);
    if columns != rows {
        return Err(wrong(format!("the left has {columns} columns, the right has {rows} rows")));
    }
    let batch = |shape: &[usize]| shape[..shape.len().saturating_sub(2)].to_vec();
    let mut shape = broadcast(&batch(a), &batch(b))
        .ok_or_else(|| wrong("leading axes must be equal or one, aligned at the last".to_string()))?;
    if a.len() > 1 {
        shape.push(a[a.len() - 2]);
    }
    if b.len() > 1 {
        shape.push(b[b.len() - 1]);
    }
    Ok(shape)
}
