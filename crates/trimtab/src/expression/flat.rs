//! An expression as a list of values, each once, in the order they can be computed: what is planned, without data.

use super::node::{Axes, Made, Node};
use crate::error::Error;
use crate::tensor::{AnyTensor, Dims, MAX_TENSOR_RANK, ViewKey};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use trimtab_core::{BinaryOp, DType, ReduceOp, UnaryOp};

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

    /// Whether its shape does not follow from its operands'.
    fn has_own_shape(self) -> bool {
        matches!(self, Op::Input(_) | Op::Repeat(_))
    }

    pub(crate) fn is_elementwise(self) -> bool {
        matches!(self, Op::Unary(..) | Op::Binary(..))
    }
}

/// One value: dense and row-major. Equal ones of equal lists have the same shape, most of them because their operands have.
#[derive(Clone, Copy, Eq)]
pub(crate) struct Value {
    pub op: Op,
    pub shape: Dims<usize>,
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.op == other.op && (!self.op.has_own_shape() || self.shape == other.shape)
    }
}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.op.hash(state);
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
    pub dtype: DType,
    pub values: Vec<Value>,
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
        (self.value(at).len() as u64).saturating_mul(self.dtype.size())
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
    operands: [At; 2],
    listed: usize,
}

/// Lists the values of an expression. What is the same twice is listed once.
pub(super) fn flatten(root: &Arc<Node>) -> Result<Flattened, Error> {
    let flat = Flat { dtype: root.dtype, values: Vec::with_capacity(FEW), hash: 0 };
    let mut list = List {
        flat,
        hasher: FxHasher::default(),
        inputs: Vec::new(),
        numbers: Vec::new(),
        known: FxHashMap::default(),
        views: FxHashMap::default(),
        by_bits: FxHashMap::default(),
    };
    root.dtype.hash(&mut list.hasher);
    // Only nodes that several others may use are remembered: most are not.
    let mut places: FxHashMap<*const Node, At> = FxHashMap::default();
    let mut open: Vec<Open<'_>> = Vec::with_capacity(FEW);
    let mut next = Some(root);
    loop {
        // Down to something that is there or was listed before …
        let mut at = None;
        if let Some(node) = next.take() {
            at = list.given(node);
            if at.is_none() && Arc::strong_count(node) > 1 {
                at = places.get(&Arc::as_ptr(node)).copied();
            }
            if at.is_none() {
                open.push(Open { node, operands: [0; 2], listed: 0 });
            }
        }
        // … and up again.
        loop {
            let Some(top) = open.last_mut() else {
                list.flat.hash = list.hasher.finish();
                return Ok(Flattened { flat: list.flat, inputs: list.inputs, numbers: list.numbers });
            };
            if let Some(at) = at.take() {
                top.operands[top.listed] = at;
                top.listed += 1;
            }
            if let Some(Some(operand)) = top.node.made.operands().get(top.listed) {
                next = Some(*operand);
                break;
            }
            let node = top.node;
            let [a, b] = top.operands;
            let made = match &node.made {
                Made::Wrong(error) => return Err(Error::clone(error)),
                Made::Given(tensor) => list.input(tensor),
                Made::Number(number) => list.number(*number),
                Made::Unary(op, _) => list.push(Op::Unary(*op, a), node.shape),
                Made::Binary(op, ..) => list.push(Op::Binary(*op, a, b), node.shape),
                Made::Reduce(op, axis, _) => list.push(Op::Reduce(*op, *axis, a), node.shape),
                Made::Permute(axes, _) => list.push(Op::Permute(*axes, a), node.shape),
                Made::Matmul(..) => list.matmul(a, b, node.shape)?,
            };
            if Arc::strong_count(node) > 1 {
                places.insert(Arc::as_ptr(node), made);
            }
            open.pop();
            at = Some(made);
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
    /// All inputs and all numbers, once they are more than a few.
    views: FxHashMap<ViewKey, usize>,
    by_bits: FxHashMap<u64, usize>,
}

impl List {
    fn push(&mut self, op: Op, shape: Dims<usize>) -> At {
        let value = Value { op, shape };
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
            (Made::Number(number), None) => Some(self.number(*number)),
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
        self.push(Op::Permute(axes, from), tensor.dims())
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
        self.push(Op::Input(number as u32), tensor.dims())
    }

    /// The input of which a value is another order of axes, in that order: copied from there, it is copied once.
    fn turned_input(&self, at: At) -> Option<AnyTensor> {
        let Value { op: Op::Permute(axes, from), shape } = self.flat.value(at) else { return None };
        let Op::Input(number) = self.flat.value(*from).op else { return None };
        self.inputs[number as usize].permuted(&order(axes, shape.len())).ok()
    }

    fn number(&mut self, number: f64) -> At {
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
            crate::tensor::element_count(self.flat.dtype, &whole)?;
            let whole = Dims::new(&whole).ok_or(Error::Rank { shape: whole })?;
            let at = self.turned_input(at).map_or(at, |view| self.dense(&view));
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
