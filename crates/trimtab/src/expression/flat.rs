//! An expression as a list of values, each once, in the order they can be computed: what is planned, without data.

use super::node::{Axes, Made, Node};
use crate::error::Error;
use crate::tensor::{Dims, MAX_TENSOR_RANK, Tensor};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use trimtab_core::{BinaryOp, DType, ReduceOp, UnaryOp};
use trimtab_cpu::Element;

/// A position in the list.
pub(crate) type At = u32;

/// How a value comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    /// The tensor of that number.
    Input(u32),
    /// The single number of that number.
    Number(u32),
    Unary(UnaryOp, At),
    Binary(BinaryOp, At, At),
    Reduce(ReduceOp, Option<u8>, At),
    Matmul(At, At),
    Permute(Axes, At),
    /// Repeated to its shape.
    Repeat(At),
}

impl Op {
    pub(crate) fn operands(self) -> impl Iterator<Item = At> {
        let (first, second) = match self {
            Op::Input(_) | Op::Number(_) => (None, None),
            Op::Unary(_, of) | Op::Reduce(_, _, of) | Op::Permute(_, of) | Op::Repeat(of) => (Some(of), None),
            Op::Binary(_, a, b) | Op::Matmul(a, b) => (Some(a), Some(b)),
        };
        first.into_iter().chain(second)
    }

    pub(crate) fn is_elementwise(self) -> bool {
        matches!(self, Op::Unary(..) | Op::Binary(..))
    }
}

/// One value: dense and row-major.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Value {
    pub op: Op,
    pub shape: Dims<usize>,
}

impl Value {
    pub(crate) fn shape(&self) -> &[usize] {
        self.shape.as_slice()
    }

    pub(crate) fn len(&self) -> usize {
        if self.shape().contains(&0) { 0 } else { self.shape().iter().product() }
    }
}

/// The values of an expression; the last is its result. Equal ones have equal plans, whatever the data.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Flat {
    pub dtype: DType,
    pub values: Vec<Value>,
}

impl Flat {
    pub(crate) fn value(&self, at: At) -> &Value {
        &self.values[at as usize]
    }

    pub(crate) fn root(&self) -> At {
        self.values.len().saturating_sub(1) as At
    }

    /// Bytes of a value.
    pub(crate) fn bytes(&self, at: At) -> u64 {
        (self.value(at).len() as u64).saturating_mul(self.dtype.size())
    }
}

/// The list, and the data it is about.
pub(crate) struct Flattened<T: Element> {
    pub flat: Arc<Flat>,
    pub inputs: Vec<Tensor<T>>,
    pub numbers: Vec<T>,
}

/// Lists the values of an expression. What is the same twice is listed once.
pub(super) fn flatten<T: Element>(root: &Arc<Node<T>>) -> Result<Flattened<T>, Error> {
    let flat = Flat { dtype: T::DTYPE, values: Vec::new() };
    let mut list = List { flat, inputs: Vec::new(), numbers: Vec::new(), known: FxHashMap::default() };
    let mut places: FxHashMap<*const Node<T>, At> = FxHashMap::default();
    let mut left: Vec<&Arc<Node<T>>> = vec![root];
    while let Some(&node) = left.last() {
        if places.contains_key(&Arc::as_ptr(node)) {
            left.pop();
            continue;
        }
        let given = match (&node.made, node.value.get()) {
            (_, Some(value)) => Some(value),
            (Made::Given(tensor), None) => Some(tensor),
            _ => None,
        };
        let at = if let Some(tensor) = given {
            list.input(tensor)
        } else {
            let missing = |operand: &&Arc<Node<T>>| !places.contains_key(&Arc::as_ptr(operand));
            let before = left.len();
            left.extend(node.made.operands().into_iter().flatten().filter(missing));
            if left.len() > before {
                continue;
            }
            let of = |operand: &Arc<Node<T>>| places.get(&Arc::as_ptr(operand)).copied().unwrap_or(0);
            match &node.made {
                Made::Wrong(error) => return Err(error.clone()),
                Made::Given(tensor) => list.input(tensor),
                Made::Number(number) => list.number(*number),
                Made::Unary(op, x) => list.push(Op::Unary(*op, of(x)), node.shape),
                Made::Binary(op, a, b) => list.push(Op::Binary(*op, of(a), of(b)), node.shape),
                Made::Reduce(op, axis, x) => list.push(Op::Reduce(*op, *axis, of(x)), node.shape),
                Made::Permute(axes, x) => list.push(Op::Permute(*axes, of(x)), node.shape),
                Made::Matmul(a, b) => list.matmul(of(a), of(b), node.shape)?,
            }
        };
        places.insert(Arc::as_ptr(node), at);
        left.pop();
    }
    Ok(Flattened { flat: Arc::new(list.flat), inputs: list.inputs, numbers: list.numbers })
}

struct List<T: Element> {
    flat: Flat,
    inputs: Vec<Tensor<T>>,
    numbers: Vec<T>,
    known: FxHashMap<Value, At>,
}

impl<T: Element> List<T> {
    fn push(&mut self, op: Op, shape: Dims<usize>) -> At {
        let values = &mut self.flat.values;
        let value = Value { op, shape };
        *self.known.entry(value).or_insert_with(|| {
            values.push(value);
            values.len() as At - 1
        })
    }

    fn input(&mut self, tensor: &Tensor<T>) -> At {
        // A view with its axes in another order is a step of its own, which products need not take.
        let stored = if tensor.is_contiguous() { None } else { tensor.as_stored() };
        let Some((stored, order)) = stored else { return self.dense(tensor) };
        let from = self.dense(&stored);
        let mut axes = Axes::default();
        order.iter().zip(&mut axes).for_each(|(&axis, place)| *place = axis as u8);
        self.push(Op::Permute(axes, from), tensor.dims())
    }

    fn dense(&mut self, tensor: &Tensor<T>) -> At {
        let inputs = &mut self.inputs;
        let known = inputs.iter().position(|other| other.is_same_view(tensor));
        let number = known.unwrap_or_else(|| {
            inputs.push(tensor.clone());
            inputs.len() - 1
        });
        self.push(Op::Input(number as u32), tensor.dims())
    }

    fn number(&mut self, number: T) -> At {
        let numbers = &mut self.numbers;
        let bits = |number: T| number.to_f64().to_bits();
        let known = numbers.iter().position(|other| bits(*other) == bits(number));
        let place = known.unwrap_or_else(|| {
            numbers.push(number);
            numbers.len() - 1
        });
        self.push(Op::Number(place as u32), Dims::default())
    }

    /// A product; operands that are repeated along some of the leading axes only are repeated in memory.
    fn matmul(&mut self, a: At, b: At, shape: Dims<usize>) -> Result<At, Error> {
        let batch_of = |flat: &Flat, at: At| {
            let shape = flat.value(at).shape();
            shape[..shape.len().saturating_sub(2)].to_vec()
        };
        let flat = &self.flat;
        let (left, right) = (batch_of(flat, a), batch_of(flat, b));
        let batch = crate::ops::broadcast(&left, &right).unwrap_or_default();
        let mut repeated = |at: At, own: &[usize]| -> Result<At, Error> {
            if own == batch || own.iter().product::<usize>() == 1 {
                return Ok(at);
            }
            let last = self.flat.value(at).shape();
            let whole = [batch.as_slice(), &last[last.len() - 2..]].concat();
            crate::tensor::element_count::<T>(&whole)?;
            let whole = Dims::new(&whole).ok_or(Error::Rank { shape: whole })?;
            Ok(self.push(Op::Repeat(at), whole))
        };
        let (a, b) = (repeated(a, &left)?, repeated(b, &right)?);
        Ok(self.push(Op::Matmul(a, b), shape))
    }
}

/// An order of axes as the problem takes it.
pub(super) fn order(axes: &Axes, rank: usize) -> Vec<usize> {
    axes[..rank.min(MAX_TENSOR_RANK)].iter().map(|&axis| axis as usize).collect()
}
