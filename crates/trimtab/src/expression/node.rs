//! The graph an expression stands for: nodes that are built and checked, and not yet computed.

use crate::error::Error;
use crate::ops::{broadcast, sizes};
use crate::tensor::{Dims, MAX_TENSOR_RANK, Tensor, element_count};
use std::sync::{Arc, OnceLock};
use trimtab_core::{BinaryOp, Elementwise, Reduce, ReduceOp, UnaryOp};
use trimtab_cpu::Element;

/// An order of axes: axis `i` of the result is axis `axes[i]`.
pub(super) type Axes = [u8; MAX_TENSOR_RANK];

/// How a node's value comes about.
pub(super) enum Made<T: Element> {
    Given(Tensor<T>),
    Number(T),
    Unary(UnaryOp, Arc<Node<T>>),
    Binary(BinaryOp, Arc<Node<T>>, Arc<Node<T>>),
    Reduce(ReduceOp, Option<u8>, Arc<Node<T>>),
    Matmul(Arc<Node<T>>, Arc<Node<T>>),
    Permute(Axes, Arc<Node<T>>),
    /// What was asked for makes no sense; told when it is evaluated.
    Wrong(Error),
}

/// A value of an expression.
pub struct Node<T: Element> {
    pub(super) made: Made<T>,
    pub(super) shape: Dims<usize>,
    /// The value, once it was evaluated.
    pub(super) value: OnceLock<Tensor<T>>,
}

impl<T: Element> Node<T> {
    fn new(made: Made<T>, shape: &[usize]) -> Arc<Node<T>> {
        match Dims::new(shape) {
            Some(shape) => Arc::new(Node { made, shape, value: OnceLock::new() }),
            None => Node::wrong(Error::Rank { shape: shape.to_vec() }),
        }
    }

    pub(super) fn wrong(error: Error) -> Arc<Node<T>> {
        Arc::new(Node { made: Made::Wrong(error), shape: Dims::default(), value: OnceLock::new() })
    }

    pub(super) fn given(tensor: &Tensor<T>) -> Arc<Node<T>> {
        Node::new(Made::Given(tensor.clone()), tensor.shape())
    }

    pub(super) fn number(value: T) -> Arc<Node<T>> {
        Node::new(Made::Number(value), &[])
    }

    /// What is wrong with it.
    pub(super) fn error(&self) -> Option<&Error> {
        match &self.made {
            Made::Wrong(error) => Some(error),
            _ => None,
        }
    }

    /// The node these operands make, unless one of them is wrong already or the shape is.
    fn made(made: Made<T>, shape: Result<Vec<usize>, Error>) -> Arc<Node<T>> {
        let [first, second] = made.operands();
        let earlier = [first, second].into_iter().flatten().find_map(|operand| operand.error().cloned());
        match earlier.map_or(shape, Err) {
            Ok(shape) => Node::new(made, &shape),
            Err(error) => Node::wrong(error),
        }
    }

    pub(super) fn unary(op: UnaryOp, of: &Arc<Node<T>>) -> Arc<Node<T>> {
        let shape = of.shape.as_slice();
        let checked = Elementwise::unary(op, T::DTYPE, &sizes(shape));
        Node::made(Made::Unary(op, Arc::clone(of)), checked.map(|_| shape.to_vec()).map_err(Error::from))
    }

    pub(super) fn binary(op: BinaryOp, a: &Arc<Node<T>>, b: &Arc<Node<T>>) -> Arc<Node<T>> {
        let (left, right) = (a.shape.as_slice(), b.shape.as_slice());
        let checked = Elementwise::binary(op, T::DTYPE, &sizes(left), &sizes(right));
        let shape = checked.map(|_| broadcast(left, right).unwrap_or_default()).map_err(Error::from);
        Node::made(Made::Binary(op, Arc::clone(a), Arc::clone(b)), shape)
    }

    pub(super) fn reduce(op: ReduceOp, axis: Option<usize>, of: &Arc<Node<T>>) -> Arc<Node<T>> {
        let shape = of.shape.as_slice();
        let checked = Reduce::new(op, T::DTYPE, &sizes(shape), axis);
        let kept = shape.iter().enumerate().filter(|&(at, _)| axis.is_some_and(|axis| at != axis));
        let kept = checked.map(|_| kept.map(|(_, &size)| size).collect()).map_err(Error::from);
        Node::made(Made::Reduce(op, axis.map(|axis| axis as u8), Arc::clone(of)), kept)
    }

    pub(super) fn matmul(a: &Arc<Node<T>>, b: &Arc<Node<T>>) -> Arc<Node<T>> {
        let shape = product_shape(a.shape.as_slice(), b.shape.as_slice());
        let shape = shape.and_then(|shape| element_count::<T>(&shape).map(|_| shape));
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
        let shape = axes.iter().map(|&axis| of.shape.as_slice()[axis]).collect();
        Node::made(Made::Permute(order, Arc::clone(of)), Ok(shape))
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
        let taken = |node: &mut Node<T>| std::mem::replace(&mut node.made, Made::Number(T::default()));
        let mut left = vec![taken(self)];
        while let Some(made) = left.pop() {
            let operands = match made {
                Made::Given(_) | Made::Number(_) | Made::Wrong(_) => [None, None],
                Made::Unary(_, of) | Made::Reduce(_, _, of) | Made::Permute(_, of) => [Some(of), None],
                Made::Binary(_, a, b) | Made::Matmul(a, b) => [Some(a), Some(b)],
            };
            let alone = operands.into_iter().flatten().filter_map(Arc::into_inner);
            left.extend(alone.map(|mut node| taken(&mut node)));
        }
    }
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
