//! The graph an expression stands for: nodes that are built and checked, and not yet computed.

use crate::error::Error;
use crate::ops::calls::{Call, Spec};
use crate::ops::{broadcast, sizes};
use crate::tensor::{AnyTensor, Dims, MAX_TENSOR_RANK, dims, element_count, names_each_once};
use std::sync::{Arc, OnceLock};
use trimtab_core::{BinaryOp, DType, Elementwise, Matmul, Problem, Reduce, ReduceOp, UnaryOp};

/// An order of axes: axis `i` of the result is axis `axes[i]`.
pub(super) type Axes = [u8; MAX_TENSOR_RANK];

/// How a node's value comes about. Small, because there is one for every operation.
pub(super) enum Made {
    Given(Box<AnyTensor>),
    /// A number, exact for every element type.
    Number(f64),
    Unary(UnaryOp, Arc<Node>),
    Binary(BinaryOp, Arc<Node>, Arc<Node>),
    Reduce(ReduceOp, Option<u8>, Arc<Node>),
    Matmul(Arc<Node>, Arc<Node>),
    Permute(Axes, Arc<Node>),
    /// The same elements in the node's shape.
    Reshape(Arc<Node>),
    /// Every other operation.
    Called(Box<Called>),
    /// What was asked for makes no sense; told when it is evaluated.
    Wrong(Box<Error>),
}

const _: () = assert!(std::mem::size_of::<Made>() <= 24, "what is large is in a box");

/// A problem and its operands, in the problem's order.
pub(super) struct Called {
    pub problem: Problem,
    pub operands: Vec<Arc<Node>>,
}

/// A value of an expression.
pub struct Node {
    pub(super) made: Made,
    pub(super) dtype: DType,
    pub(super) shape: Dims<usize>,
    /// The value, once it was evaluated.
    pub(super) value: OnceLock<Box<AnyTensor>>,
}

impl Node {
    fn new(made: Made, dtype: DType, shape: Dims<usize>) -> Arc<Node> {
        Arc::new(Node { made, dtype, shape, value: OnceLock::new() })
    }

    pub(super) fn wrong(error: Error, dtype: DType) -> Arc<Node> {
        Node::new(Made::Wrong(Box::new(error)), dtype, Dims::default())
    }

    pub(super) fn given(tensor: &AnyTensor) -> Arc<Node> {
        Node::new(Made::Given(Box::new(tensor.clone())), tensor.dtype(), tensor.dims())
    }

    /// A number of a type; one that is none of that type's is wrong.
    pub(super) fn number(value: f64, dtype: DType) -> Arc<Node> {
        let is_whole =
            |(least, most): (i64, i64)| value.fract() == 0.0 && (least as f64..=most as f64).contains(&value);
        match dtype.range().is_none_or(is_whole) {
            true => Node::new(Made::Number(value), dtype, Dims::default()),
            false => Node::wrong(Error::Number { value: value.to_string(), dtype }, dtype),
        }
    }

    /// What is wrong with it.
    pub(super) fn error(&self) -> Option<&Error> {
        match &self.made {
            Made::Wrong(error) => Some(error),
            _ => None,
        }
    }

    /// The node these operands make, unless one of them is wrong already or the shape is.
    fn made(made: Made, dtype: DType, shape: Result<Dims<usize>, Error>) -> Arc<Node> {
        let earlier = made.operands().find_map(|operand| operand.error());
        match (earlier, shape) {
            (None, Ok(shape)) => Node::new(made, dtype, shape),
            (Some(error), _) => Node::wrong(error.clone(), dtype),
            (None, Err(error)) => Node::wrong(error, dtype),
        }
    }

    /// What is wrong with two operands of different types.
    fn mixed(operation: &str, a: &Node, b: &Node) -> Option<Error> {
        let mixed = || Error::MixedTypes { operation: operation.to_string(), lhs: a.dtype, rhs: b.dtype };
        (a.dtype != b.dtype).then(mixed)
    }

    /// Its type and shape.
    pub(super) fn spec(&self) -> Spec<'_> {
        Spec { dtype: self.dtype, shape: &self.shape }
    }

    /// An operation that was found to fit its operands, or what is wrong with it.
    pub(super) fn called(call: Result<Call, Error>, operands: Vec<Arc<Node>>) -> Arc<Node> {
        let earlier = operands.iter().find_map(|operand| operand.error()).cloned();
        match (earlier, call) {
            (None, Ok(Call { problem, dtype, shape })) => {
                Node::new(Made::Called(Box::new(Called { problem, operands })), dtype, shape)
            }
            // What is wrong has no type of its own; its first operand's stands for it.
            (Some(error), _) | (None, Err(error)) => {
                Node::wrong(error, operands.first().map_or(DType::F32, |operand| operand.dtype))
            }
        }
    }

    pub(super) fn unary(op: UnaryOp, of: &Arc<Node>) -> Arc<Node> {
        let checked = Elementwise::unary(op, of.dtype, &sizes(&of.shape));
        Node::made(Made::Unary(op, Arc::clone(of)), of.dtype, checked.map(|_| of.shape).map_err(Error::from))
    }

    pub(super) fn binary(op: BinaryOp, a: &Arc<Node>, b: &Arc<Node>) -> Arc<Node> {
        // Equal shapes and numbers always fit; others are checked.
        let shape = if let Some(mixed) = Node::mixed(op.name(), a, b) {
            Err(mixed)
        } else if a.shape == b.shape || b.shape.is_empty() {
            Ok(a.shape)
        } else if a.shape.is_empty() {
            Ok(b.shape)
        } else {
            let checked = Elementwise::binary(op, a.dtype, &sizes(&a.shape), &sizes(&b.shape));
            let both = || broadcast(&a.shape, &b.shape).unwrap_or_default();
            checked.map_err(Error::from).and_then(|_| dims(&both()))
        };
        Node::made(Made::Binary(op, Arc::clone(a), Arc::clone(b)), a.dtype, shape)
    }

    pub(super) fn reduce(op: ReduceOp, axis: Option<usize>, of: &Arc<Node>) -> Arc<Node> {
        let shape = of.shape.as_slice();
        let checked = Reduce::new(op, of.dtype, &sizes(shape), axis);
        let kept = || shape.iter().enumerate().filter(|&(at, _)| axis.is_some_and(|axis| at != axis));
        let kept = || kept().map(|(_, &size)| size).collect::<Vec<usize>>();
        let dtype = checked.as_ref().map_or(of.dtype, Reduce::out_dtype);
        let kept = checked.map_err(Error::from).and_then(|_| dims(&kept()));
        Node::made(Made::Reduce(op, axis.map(|axis| axis as u8), Arc::clone(of)), dtype, kept)
    }

    pub(super) fn matmul(a: &Arc<Node>, b: &Arc<Node>) -> Arc<Node> {
        // Whether there are products of that type at all.
        let one = Matmul::new(a.dtype, 1, 1, 1);
        let dtype = one.as_ref().map_or(a.dtype, Matmul::out_dtype);
        let shape = match Node::mixed("matmul", a, b) {
            Some(mixed) => Err(mixed),
            None => one.map_err(Error::from).and_then(|_| product_shape(&a.shape, &b.shape)),
        };
        let shape = shape.and_then(|shape| element_count(dtype, &shape).and_then(|_| dims(&shape)));
        Node::made(Made::Matmul(Arc::clone(a), Arc::clone(b)), dtype, shape)
    }

    pub(super) fn reshape(shape: &[usize], of: &Arc<Node>) -> Arc<Node> {
        // Two in a row are the last; the shape it has already is none.
        let of = match &of.made {
            Made::Reshape(of) => of,
            _ => of,
        };
        let found = of.shape.as_slice().iter().product();
        let made = match element_count(of.dtype, shape) {
            Ok(needed) if needed == found => dims(shape),
            Ok(needed) => Err(Error::ElementCount { shape: shape.to_vec(), needed, found }),
            Err(error) => Err(error),
        };
        match &made {
            Ok(shape) if *shape == of.shape && of.error().is_none() => Arc::clone(of),
            _ => Node::made(Made::Reshape(Arc::clone(of)), of.dtype, made),
        }
    }

    pub(super) fn permute(axes: &[usize], of: &Arc<Node>) -> Arc<Node> {
        let shape = of.shape.as_slice();
        if !names_each_once(axes, shape.len()) {
            let wrong = Error::Permutation { axes: axes.to_vec(), shape: shape.to_vec() };
            return Node::made(Made::Permute(Axes::default(), Arc::clone(of)), of.dtype, Err(wrong));
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
        Node::made(Made::Permute(order, Arc::clone(of)), of.dtype, dims(&shape))
    }
}

impl Made {
    /// An operand by its place.
    pub(super) fn operand(&self, place: usize) -> Option<&Arc<Node>> {
        match (self, place) {
            (Made::Unary(_, of) | Made::Reduce(_, _, of), 0) => Some(of),
            (Made::Permute(_, of) | Made::Reshape(of), 0) => Some(of),
            (Made::Binary(_, a, _) | Made::Matmul(a, _), 0) => Some(a),
            (Made::Binary(_, _, b) | Made::Matmul(_, b), 1) => Some(b),
            (Made::Called(called), place) => called.operands.get(place),
            _ => None,
        }
    }

    fn operands(&self) -> impl Iterator<Item = &Arc<Node>> {
        (0..).map_while(|place| self.operand(place))
    }
}

impl Drop for Node {
    /// One after the other: the nodes of a long chain would otherwise be dropped each inside the one before.
    fn drop(&mut self) {
        let mut left = Vec::new();
        let mut next = self.take_operands(&mut left);
        while let Some(operand) = next.or_else(|| left.pop()) {
            next = Arc::into_inner(operand).and_then(|mut node| node.take_operands(&mut left));
        }
    }
}

impl Node {
    /// Takes one operand out, and puts the others aside. What has no operands of its own is dropped here and now.
    fn take_operands(&mut self, left: &mut Vec<Arc<Node>>) -> Option<Arc<Node>> {
        self.made.operand(0)?;
        let goes_on = |node: &Arc<Node>| node.made.operand(0).is_some();
        match std::mem::replace(&mut self.made, Made::Number(0.0)) {
            Made::Given(_) | Made::Number(_) | Made::Wrong(_) => None,
            Made::Unary(_, of) | Made::Reduce(_, _, of) => Some(of).filter(goes_on),
            Made::Permute(_, of) | Made::Reshape(of) => Some(of).filter(goes_on),
            Made::Binary(_, a, b) | Made::Matmul(a, b) => match (goes_on(&a), goes_on(&b)) {
                (true, false) => Some(a),
                (false, true) => Some(b),
                (false, false) => None,
                (true, true) => {
                    left.push(b);
                    Some(a)
                }
            },
            Made::Called(called) => {
                let mut operands = called.operands.into_iter().filter(goes_on);
                let next = operands.next();
                left.extend(operands);
                next
            }
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
