//! An expression as a list of values, each once, in the order they can be computed: what is planned, without data.

use super::node::{Axes, Made, Node};
use crate::error::Error;
use crate::tensor::{AnyTensor, Dims, MAX_TENSOR_RANK, ViewKey};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use trimtab_core::{BinaryOp, DType, Lookup, MAX_INPUTS, Problem, ReduceOp, UnaryOp};

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
    /// The same elements in its shape.
    Reshape(At),
    /// The call of that number.
    Called(u32),
}

impl Op {
    /// Whether its shape does not follow from its operands'.
    fn has_own_shape(self) -> bool {
        matches!(self, Op::Input(_) | Op::Repeat(_) | Op::Reshape(_) | Op::Called(_))
    }

    pub(crate) fn is_elementwise(self) -> bool {
        matches!(self, Op::Unary(..) | Op::Binary(..))
    }
}

/// A problem and its operands, in the problem's order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Called {
    pub problem: Problem,
    operands: [At; MAX_INPUTS + 1],
    count: u8,
}

impl Called {
    pub(crate) fn operands(&self) -> &[At] {
        &self.operands[..usize::from(self.count)]
    }
}

impl Hash for Called {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.problem.mix().hash(state);
        self.operands().hash(state);
    }
}

/// One value: dense and row-major. Equal ones of equal lists have the same shape, most of them because their operands have.
#[derive(Clone, Copy, Eq)]
pub(crate) struct Value {
    pub op: Op,
    pub dtype: DType,
    pub shape: Dims<usize>,
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        let same = self.op == other.op && self.dtype == other.dtype;
        same && (!self.op.has_own_shape() || self.shape == other.shape)
    }
}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.op.hash(state);
        // The type of what is computed follows from its operands'.
        if matches!(self.op, Op::Input(_) | Op::Number(_)) {
            self.dtype.hash(state);
        }
        if self.op.has_own_shape() {
            self.shape.as_slice().hash(state);
        }
    }
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
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Flat {
    pub values: Vec<Value>,
    /// What [`Op::Called`] speaks of.
    calls: Vec<Called>,
    /// Equal for equal ones; made along the way, so that looking one up does not go through it again.
    pub hash: u64,
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
        let value = self.value(at);
        (value.len() as u64).saturating_mul(value.dtype.size())
    }

    /// The values a value is made of.
    pub(crate) fn operands(&self, at: At) -> impl Iterator<Item = At> + '_ {
        let (first, second, more) = match self.value(at).op {
            Op::Input(_) | Op::Number(_) => (None, None, &[][..]),
            Op::Unary(_, of) | Op::Reduce(_, _, of) => (Some(of), None, &[][..]),
            Op::Permute(_, of) | Op::Repeat(of) | Op::Reshape(of) => (Some(of), None, &[][..]),
            Op::Binary(_, a, b) | Op::Matmul(a, b) => (Some(a), Some(b), &[][..]),
            Op::Called(number) => (None, None, self.call(number).map_or(&[][..], Called::operands)),
        };
        first.into_iter().chain(second).chain(more.iter().copied())
    }

    /// Whether any value is computed by a call.
    pub(crate) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// The call of that number.
    pub(crate) fn call(&self, number: u32) -> Option<&Called> {
        self.calls.get(number as usize)
    }

    /// The call that computes a value, if one does.
    pub(crate) fn called(&self, at: At) -> Option<&Called> {
        match self.value(at).op {
            Op::Called(number) => self.call(number),
            _ => None,
        }
    }
}

impl Hash for Flat {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

/// The list, and the data it is about.
pub(crate) struct Flattened {
    pub flat: Flat,
    pub inputs: Vec<AnyTensor>,
    pub numbers: Vec<f64>,
}

/// A node whose operands are being listed.
struct Open<'a> {
    node: &'a Arc<Node>,
    /// Where its operands begin among those that are listed.
    first: usize,
}

/// Lists the values of an expression. What is the same twice is listed once.
pub(super) fn flatten(root: &Arc<Node>) -> Result<Flattened, Error> {
    let flat = Flat { values: Vec::with_capacity(FEW), calls: Vec::new(), hash: 0 };
    let mut list = List {
        flat,
        hasher: FxHasher::default(),
        inputs: Vec::new(),
        numbers: Vec::new(),
        known: FxHashMap::default(),
        calls: FxHashMap::default(),
        views: FxHashMap::default(),
        by_bits: FxHashMap::default(),
    };
    // Only nodes that several others may use are remembered: most are not.
    let mut places: FxHashMap<*const Node, At> = FxHashMap::default();
    let mut open: Vec<Open<'_>> = Vec::with_capacity(FEW);
    // The operands of all nodes that are open, those of the last behind.
    let mut listed: Vec<At> = Vec::with_capacity(FEW);
    let mut next = Some(root);
    loop {
        // Down to something that is there or was listed before …
        if let Some(node) = next.take() {
            let mut at = list.given(node);
            if at.is_none() && Arc::strong_count(node) > 1 {
                at = places.get(&Arc::as_ptr(node)).copied();
            }
            match at {
                Some(at) => listed.push(at),
                None => open.push(Open { node, first: listed.len() }),
            }
        }
        // … and up again.
        loop {
            let Some(Open { node, first }) = open.last() else {
                list.flat.hash = list.hasher.finish();
                return Ok(Flattened { flat: list.flat, inputs: list.inputs, numbers: list.numbers });
            };
            let (node, first) = (*node, *first);
            if let Some(operand) = node.made.operand(listed.len() - first) {
                next = Some(operand);
                break;
            }
            let made = list.computed(node, &listed[first..])?;
            if Arc::strong_count(node) > 1 {
                places.insert(Arc::as_ptr(node), made);
            }
            open.pop();
            listed.truncate(first);
            listed.push(made);
        }
    }
}

/// Values up to which one that is the same is looked for one by one, which is faster than to hash each.
const FEW: usize = 24;

struct List {
    flat: Flat,
    hasher: FxHasher,
    inputs: Vec<AnyTensor>,
    numbers: Vec<f64>,
    /// All values, once they are more than a few.
    known: FxHashMap<Value, At>,
    /// All calls, once they are more than a few.
    calls: FxHashMap<Called, u32>,
    /// All inputs and all numbers, once they are more than a few.
    views: FxHashMap<ViewKey, usize>,
    by_bits: FxHashMap<u64, usize>,
}

impl List {
    /// The place of a node whose operands are listed.
    fn computed(&mut self, node: &Node, operands: &[At]) -> Result<At, Error> {
        let (a, b) = (operands.first().copied().unwrap_or(0), operands.get(1).copied().unwrap_or(0));
        let op = match &node.made {
            Made::Wrong(error) => return Err(Error::clone(error)),
            Made::Given(tensor) => return Ok(self.input(tensor)),
            Made::Number(number) => return Ok(self.number(*number, node.dtype)),
            Made::Matmul(..) => return self.matmul(a, b, node),
            Made::Unary(op, _) => Op::Unary(*op, a),
            Made::Binary(op, ..) => Op::Binary(*op, a, b),
            Made::Reduce(op, axis, _) => Op::Reduce(*op, *axis, a),
            Made::Permute(axes, _) => Op::Permute(*axes, a),
            Made::Reshape(_) => Op::Reshape(a),
            Made::Called(called) => self.call(called.problem, operands),
        };
        Ok(self.push(op, node.dtype, node.shape))
    }

    /// A call; one that is the same is known.
    fn call(&mut self, problem: Problem, of: &[At]) -> Op {
        let mut called = Called { problem, operands: [0; MAX_INPUTS + 1], count: 0 };
        for (place, operand) in called.operands.iter_mut().zip(of) {
            *place = *operand;
            called.count += 1;
        }
        let calls = &mut self.flat.calls;
        let known = match calls.len() <= FEW {
            true => calls.iter().rposition(|other| *other == called).map(|at| at as u32),
            false => self.calls.get(&called).copied(),
        };
        Op::Called(known.unwrap_or_else(|| {
            called.hash(&mut self.hasher);
            calls.push(called);
            if calls.len() > FEW {
                let missing = self.calls.len();
                self.calls.extend(calls[missing..].iter().copied().zip(missing as u32..));
            }
            calls.len() as u32 - 1
        }))
    }

    fn push(&mut self, op: Op, dtype: DType, shape: Dims<usize>) -> At {
        let value = Value { op, dtype, shape };
        let values = &mut self.flat.values;
        let known = match values.len() <= FEW {
            true => values.iter().rposition(|other| *other == value).map(|at| at as At),
            false => self.known.get(&value).copied(),
        };
        known.unwrap_or_else(|| {
            value.hash(&mut self.hasher);
            let at = values.len() as At;
            values.push(value);
            if values.len() > FEW {
                // By slices: skipping those that are known one by one would take as long as there are.
                let missing = self.known.len();
                self.known.extend(values[missing..].iter().copied().zip(missing as At..));
            }
            at
        })
    }

    /// The place of what is not computed: a tensor, a number, or a value that was computed before.
    fn given(&mut self, node: &Node) -> Option<At> {
        match (&node.made, node.value.get()) {
            (_, Some(value)) => Some(self.input(value)),
            (Made::Given(tensor), None) => Some(self.input(tensor)),
            (Made::Number(number), None) => Some(self.number(*number, node.dtype)),
            _ => None,
        }
    }

    fn input(&mut self, tensor: &AnyTensor) -> At {
        // A view with its axes in another order is a step of its own, which products need not take.
        let stored = if tensor.is_contiguous() { None } else { tensor.as_stored() };
        let Some((stored, order)) = stored else { return self.dense(tensor) };
        let from = self.dense(&stored);
        let mut axes = Axes::default();
        order.iter().zip(&mut axes).for_each(|(&axis, place)| *place = axis as u8);
        self.push(Op::Permute(axes, from), tensor.dtype(), tensor.dims())
    }

    fn dense(&mut self, tensor: &AnyTensor) -> At {
        let inputs = &mut self.inputs;
        let known = match inputs.len() <= FEW {
            true => inputs.iter().position(|other| other.is_same_view(tensor)),
            false => self.views.get(&tensor.view_key()).copied(),
        };
        let number = known.unwrap_or_else(|| {
            inputs.push(tensor.clone());
            if inputs.len() > FEW {
                let missing = self.views.len();
                self.views.extend(inputs[missing..].iter().map(AnyTensor::view_key).zip(missing..));
            }
            inputs.len() - 1
        });
        self.push(Op::Input(number as u32), tensor.dtype(), tensor.dims())
    }

    /// The input of which a value is another order of axes, in that order: copied from there, it is copied once.
    fn turned_input(&self, at: At) -> Option<AnyTensor> {
        let Value { op: Op::Permute(axes, from), shape, .. } = self.flat.value(at) else { return None };
        let Op::Input(number) = self.flat.value(*from).op else { return None };
        self.inputs[number as usize].permuted(&order(axes, shape.len())).ok()
    }

    fn number(&mut self, number: f64, dtype: DType) -> At {
        let numbers = &mut self.numbers;
        let known = match numbers.len() <= FEW {
            true => numbers.iter().position(|other| other.to_bits() == number.to_bits()),
            false => self.by_bits.get(&number.to_bits()).copied(),
        };
        let place = known.unwrap_or_else(|| {
            numbers.push(number);
            if numbers.len() > FEW {
                let missing = self.by_bits.len();
                self.by_bits.extend(numbers[missing..].iter().map(|number| number.to_bits()).zip(missing..));
            }
            numbers.len() - 1
        });
        self.push(Op::Number(place as u32), dtype, Dims::default())
    }

    /// A product; operands that are repeated along some of the leading axes only are repeated in memory.
    fn matmul(&mut self, a: At, b: At, product: &Node) -> Result<At, Error> {
        let batch_of = |flat: &Flat, at: At| {
            let shape = flat.value(at).shape();
            shape[..shape.len().saturating_sub(2)].to_vec()
        };
        let flat = &self.flat;
        let dtype = flat.value(a).dtype;
        let (left, right) = (batch_of(flat, a), batch_of(flat, b));
        let batch = crate::ops::broadcast(&left, &right).unwrap_or_default();
        let mut repeated = |at: At, own: &[usize]| -> Result<At, Error> {
            if own == batch || own.iter().product::<usize>() == 1 {
                return Ok(at);
            }
            let last = self.flat.value(at).shape();
            let whole = [batch.as_slice(), &last[last.len() - 2..]].concat();
            crate::tensor::element_count(dtype, &whole)?;
            let whole = Dims::new(&whole).ok_or(Error::Rank { shape: whole })?;
            let at = self.turned_input(at).map_or(at, |view| self.dense(&view));
            Ok(self.push(Op::Repeat(at), dtype, whole))
        };
        let (a, b) = (repeated(a, &left)?, repeated(b, &right)?);
        Ok(self.push(Op::Matmul(a, b), product.dtype, product.shape))
    }
}

/// An order of axes as the problem takes it.
pub(super) fn order(axes: &Axes, rank: usize) -> Vec<usize> {
    axes[..rank.min(MAX_TENSOR_RANK)].iter().map(|&axis| axis as usize).collect()
}
