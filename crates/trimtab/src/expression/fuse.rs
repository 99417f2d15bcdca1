//! Which operations of an expression can run as one: groups, and the ways each of them can be computed.

use super::endings::Ended;
use super::flat::{At, Flat, Op, Value, order};
use super::strips::Strips;
use crate::error::Error;
use crate::ops::sizes;
use std::sync::Arc;
use trimtab_core::{
    DType, Elementwise, ElementwiseOp, Fused, MAX_INPUTS, MAX_NUMBERS, MAX_STEPS, Matmul, Operand, Over,
    Problem, Product, Reduce, ReduceOp, Step, Transpose, Varies,
};

/// What a piece of work does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Task {
    /// A problem, on any device that has a kernel for it.
    Problem(Problem),
    /// Copying a view that no problem can describe: the processor does it.
    Copy,
    /// Several launches for some rows after the other, on the processor.
    Strips(Arc<Strips>),
}

/// An operand of a piece.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Feed {
    Value(At),
    /// Single numbers of a type, together in one operand.
    Numbers(DType, Vec<u32>),
}

/// One launch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Piece {
    pub task: Task,
    pub feeds: Vec<Feed>,
    /// The value it computes.
    pub out: At,
    /// How many operations it does.
    pub operations: usize,
}

impl Piece {
    /// The values it reads.
    pub(crate) fn reads(&self) -> impl Iterator<Item = At> + '_ {
        self.feeds.iter().filter_map(|feed| match feed {
            Feed::Value(at) => Some(*at),
            Feed::Numbers(..) => None,
        })
    }

    /// The problem's text, or what is done instead.
    pub(crate) fn shown(&self) -> String {
        match &self.task {
            Task::Problem(problem) => problem.to_string(),
            Task::Copy => "copy of a view".to_string(),
            Task::Strips(strips) => {
                let each: Vec<String> =
                    strips.launches.iter().map(|launch| launch.problem.to_string()).collect();
                format!("{} strips, each {}", strips.count, each.join(" then "))
            }
        }
    }
}

/// Operations that can run as one, or apart.
#[derive(Debug)]
pub(crate) struct Group {
    /// The ways to compute its value, that with the fewest launches first and that with one for each operation last.
    pub ways: Vec<Vec<Piece>>,
}

impl Group {
    /// One launch for each operation.
    pub(crate) fn apart(&self) -> &[Piece] {
        self.ways.last().map_or(&[], Vec::as_slice)
    }
}

/// Divides an expression into groups, in the order they can run.
pub(crate) fn groups(flat: &Flat) -> Result<Vec<Group>, Error> {
    let fuser = Fuser::new(flat);
    let mut needed = vec![false; flat.values.len()];
    let mut inside = vec![false; flat.values.len()];
    needed[flat.root() as usize] = true;
    let mut groups = Vec::new();
    for at in (0..flat.values.len() as At).rev() {
        let is_data = matches!(flat.value(at).op, Op::Input(_) | Op::Number(_));
        if is_data || inside[at as usize] || !needed[at as usize] {
            continue;
        }
        let (group, members) = fuser.group(at)?;
        members.iter().for_each(|&member| inside[member as usize] = true);
        for piece in group.ways.iter().flatten() {
            piece.reads().for_each(|read| needed[read as usize] = true);
        }
        groups.push(group);
    }
    groups.reverse();
    Ok(groups)
}

pub(super) struct Fuser<'a> {
    pub(super) flat: &'a Flat,
    /// By value: who uses it.
    pub(super) users: Vec<Vec<At>>,
}

impl<'a> Fuser<'a> {
    fn new(flat: &'a Flat) -> Fuser<'a> {
        let mut users = vec![Vec::new(); flat.values.len()];
        for at in 0..flat.values.len() as At {
            flat.operands(at).for_each(|operand| users[operand as usize].push(at));
        }
        Fuser { flat, users }
    }

    /// The group that computes a value, and the values inside it.
    fn group(&self, at: At) -> Result<(Group, Vec<At>), Error> {
        let mut ways = Vec::new();
        let mut body = Vec::new();
        match self.flat.value(at).op {
            Op::Unary(..) | Op::Binary(..) => {
                body = self.grow(at, None);
                let alone = self.fused(at, &body, None, None).filter(|_| body.len() > 1);
                if let Some((product, whole)) = self.with_product(at, &body) {
                    ways.push(vec![whole]);
                    if let Some(rest) = alone {
                        ways.push(vec![self.single(product)?, rest]);
                    }
                    body.push(product);
                } else if let Some(Ended { beside, way }) = self.with_conv(at, &body)? {
                    let (before, lead) = self.before(beside[0]);
                    let whole = [lead.clone(), way].concat();
                    ways.extend(self.in_strips(&whole, beside[0]));
                    ways.push(whole);
                    if let Some(rest) = alone {
                        let singles =
                            beside.iter().map(|&at| self.single(at)).collect::<Result<Vec<_>, _>>()?;
                        ways.push([lead, singles, vec![rest]].concat());
                    }
                    body.extend(beside);
                    body.extend(before);
                } else if let Some((called, rest)) = self.with_rows(at, &body) {
                    let (before, lead) = self.before(called);
                    let whole = [lead, vec![self.single(called)?, rest]].concat();
                    ways.extend(self.in_strips(&whole, called));
                    ways.push(whole);
                    body.push(called);
                    body.extend(before);
                } else if let Some(whole) = alone {
                    ways.push(vec![whole]);
                }
            }
            Op::Called(_) => {
                let (before, lead) = self.before(at);
                if !before.is_empty() {
                    let whole = [lead, vec![self.single(at)?]].concat();
                    ways.extend(self.in_strips(&whole, at));
                    ways.push(whole);
                    body = before;
                }
            }
            Op::Reduce(op, axis, of)
                if self.flat.value(of).op.is_elementwise() && self.only_used_by(of, &[at]) =>
            {
                let end = (at, op, axis);
                let grown = self.grow(of, Some(end));
                if let Some(whole) = self.fused(of, &grown, None, Some(end)) {
                    ways.push(vec![whole]);
                    if let Some(rest) = self.fused(of, &grown, None, None).filter(|_| grown.len() > 1) {
                        ways.push(vec![rest, self.single(at)?]);
                    }
                    body = grown;
                }
            }
            _ => (),
        }
        body.retain(|&member| member != at);
        let mut apart = body.clone();
        apart.push(at);
        apart.sort_unstable();
        ways.push(apart.iter().map(|&member| self.single(member)).collect::<Result<_, _>>()?);
        Ok((Group { ways }, body))
    }

    pub(super) fn only_used_by(&self, at: At, body: &[At]) -> bool {
        at != self.flat.root() && self.users[at as usize].iter().all(|user| body.contains(user))
    }

    /// Elementwise operations below one that can be done in the same pass.
    pub(super) fn grow(&self, top: At, end: Option<End>) -> Vec<At> {
        let mut body = vec![top];
        let mut refused = Vec::new();
        if self.fused(top, &body, None, end).is_none() {
            return body;
        }
        let Value { shape, dtype, .. } = *self.flat.value(top);
        loop {
            let below = body.iter().flat_map(|&at| self.flat.operands(at));
            let fits = |&at: &At| {
                let value = self.flat.value(at);
                value.op.is_elementwise()
                    && (value.shape, value.dtype) == (shape, dtype)
                    && !body.contains(&at)
                    && !refused.contains(&at)
                    && self.only_used_by(at, &body)
            };
            // The latest first: whoever uses it is in the body by then.
            let Some(next) = below.filter(fits).max() else { return body };
            body.push(next);
            if self.fused(top, &body, None, end).is_none() {
                body.pop();
                refused.push(next);
            }
        }
    }

    /// The product a body of elementwise operations can begin with, and both as one.
    fn with_product(&self, top: At, body: &[At]) -> Option<(At, Piece)> {
        let below = body.iter().flat_map(|&at| self.flat.operands(at));
        let is_product = |&at: &At| matches!(self.flat.value(at).op, Op::Matmul(..));
        let mut products = below
            .filter(is_product)
            .filter(|&at| self.flat.value(at).shape == self.flat.value(top).shape)
            .filter(|&at| self.only_used_by(at, body));
        products.find_map(|at| Some((at, self.fused(top, body, Some(at), None)?)))
    }

    /// Elementwise operations as one, perhaps after a product, perhaps before a reduction; nothing if that is no problem.
    pub(super) fn fused(&self, top: At, body: &[At], product: Option<At>, end: Option<End>) -> Option<Piece> {
        let flat = self.flat;
        let value = flat.value(top);
        let product = match product {
            Some(at) => Some((at, self.product(at).ok()?)),
            None => None,
        };
        let mut recipe = Recipe {
            flat,
            body,
            product: product.as_ref().map(|(at, _)| *at),
            inputs: Vec::new(),
            numbers: Vec::new(),
            steps: Vec::new(),
        };
        recipe.write(top)?;
        // A recipe is of one type.
        let mut reads =
            product.iter().flat_map(|(_, product)| product.feeds).chain(recipe.inputs.iter().copied());
        if reads.any(|at| flat.value(at).dtype != value.dtype) {
            return None;
        }
        // What is used twice is computed twice: no matter for additions, but not worth it for functions.
        let functions = |op: Op| match op {
            Op::Unary(op, _) => ElementwiseOp::Unary(op).is_function(),
            Op::Binary(op, ..) => ElementwiseOp::Binary(op).is_function(),
            _ => false,
        };
        let wanted = body.iter().filter(|&&at| functions(flat.value(at).op)).count();
        let written = recipe.steps.iter().filter(|step| match step {
            Step::Unary(op) => ElementwiseOp::Unary(*op).is_function(),
            Step::Binary(op) => ElementwiseOp::Binary(*op).is_function(),
            _ => false,
        });
        if written.count() > wanted {
            return None;
        }
        let shape = value.shape();
        let (split, over) = match (&product, end) {
            (Some((_, product)), None) if product.problem.batch == 1 => (Some(product.split), None),
            (Some(_), _) => return None,
            (None, None) => (None, None),
            (None, Some((_, op, None))) => (None, Some((op, Over::All))),
            (None, Some((_, op, Some(axis)))) => {
                let axis = axis as usize;
                let is_one = |sizes: &[usize]| sizes.iter().all(|&size| size == 1);
                if is_one(&shape[axis + 1..]) {
                    (Some(axis), Some((op, Over::Columns)))
                } else if is_one(&shape[..axis]) {
                    (Some(axis + 1), Some((op, Over::Rows)))
                } else {
                    return None;
                }
            }
        };
        let shapes: Vec<&[usize]> = recipe.inputs.iter().map(|&at| flat.value(at).shape()).collect();
        let (dims, varies) = lay_out(shape, &shapes, split)?;
        let own = product.as_ref().map(|(_, product)| {
            let Matmul { k, lhs, rhs, .. } = product.problem;
            Product { depth: k, lhs_transposed: lhs.transposed, rhs_transposed: rhs.transposed }
        });
        let firsts = product.as_ref().map_or(vec![], |(_, product)| product.feeds.to_vec());
        let varies = [vec![Varies::All; firsts.len()], varies].concat();
        let problem = Fused::new(value.dtype, dims, &recipe.steps, &varies, own, over).ok()?;
        // A result without elements, or a product laid out otherwise, is left to the operations themselves.
        if problem.is_empty() {
            return None;
        }
        let mut feeds: Vec<Feed> = firsts.into_iter().chain(recipe.inputs).map(Feed::Value).collect();
        if !recipe.numbers.is_empty() {
            feeds.push(Feed::Numbers(value.dtype, recipe.numbers));
        }
        let operations = body.len() + usize::from(product.is_some()) + usize::from(end.is_some());
        let out = end.map_or(top, |(at, ..)| at);
        Some(Piece { task: Task::Problem(problem.into()), feeds, out, operations })
    }

    /// A value as an operand of a launch.
    pub(super) fn feed(&self, at: At) -> Feed {
        match self.flat.value(at) {
            Value { op: Op::Number(number), dtype, .. } => Feed::Numbers(*dtype, vec![*number]),
            _ => Feed::Value(at),
        }
    }

    /// One operation by itself.
    pub(super) fn single(&self, at: At) -> Result<Piece, Error> {
        let flat = self.flat;
        let value = flat.value(at);
        let shape_of = |at: At| sizes(flat.value(at).shape());
        let (feed, dtype) = (|at: At| self.feed(at), value.dtype);
        let (task, feeds): (Task, Vec<Feed>) = match value.op {
            Op::Unary(op, of) => {
                let problem = Elementwise::unary(op, dtype, &shape_of(of))?;
                (Task::Problem(problem.into()), vec![feed(of)])
            }
            Op::Binary(op, a, b) => {
                let problem = Elementwise::binary(op, dtype, &shape_of(a), &shape_of(b))?;
                (Task::Problem(problem.into()), vec![feed(a), feed(b)])
            }
            Op::Reduce(op, axis, of) => {
                let problem = Reduce::new(op, flat.value(of).dtype, &shape_of(of), axis.map(usize::from))?;
                (Task::Problem(problem.into()), vec![feed(of)])
            }
            Op::Matmul(..) => {
                let product = self.product(at)?;
                (Task::Problem(product.problem.into()), product.feeds.map(Feed::Value).to_vec())
            }
            Op::Permute(axes, of) => {
                let axes = order(&axes, flat.value(of).shape().len());
                match Transpose::new(dtype, &shape_of(of), &axes) {
                    Ok(problem) => (Task::Problem(problem.into()), vec![feed(of)]),
                    Err(_) => (Task::Copy, vec![feed(of)]),
                }
            }
            Op::Repeat(of) | Op::Reshape(of) => (Task::Copy, vec![feed(of)]),
            Op::Called(_) => match flat.called(at) {
                Some(called) => {
                    let feeds = called.operands().iter().map(|&operand| feed(operand)).collect();
                    (Task::Problem(called.problem), feeds)
                }
                None => (Task::Copy, vec![]),
            },
            // Data is computed by nobody.
            Op::Input(_) | Op::Number(_) => (Task::Copy, vec![feed(at)]),
        };
        Ok(Piece { task, feeds, out: at, operations: 1 })
    }

    /// A product as a problem: operands whose last two axes are swapped are read as they are stored.
    fn product(&self, at: At) -> Result<Multiplied, Error> {
        let flat = self.flat;
        let &Value { op: Op::Matmul(a, b), .. } = flat.value(at) else {
            let dtype = flat.value(at).dtype;
            return Err(trimtab_core::ProblemError::TooLarge { sizes: vec![], dtype }.into());
        };
        let dtype = flat.value(a).dtype;
        let (left, right) = (flat.value(a).shape(), flat.value(b).shape());
        let batch_of = |shape: &[usize]| shape[..shape.len().saturating_sub(2)].to_vec();
        let (lhs_batch, rhs_batch) = (batch_of(left), batch_of(right));
        let batch = crate::ops::broadcast(&lhs_batch, &rhs_batch).unwrap_or_default();
        let count: u64 = sizes(&batch).iter().fold(1, |count, &size| count.saturating_mul(size));
        let side = |at: At, own: &[usize]| {
            let shared = own != batch;
            match flat.value(at).op {
                Op::Permute(axes, of) if swaps_last_two(&axes, flat.value(at).shape().len()) => {
                    (of, Operand { transposed: true, shared })
                }
                _ => (at, Operand { transposed: false, shared }),
            }
        };
        let ((lhs_at, lhs), (rhs_at, rhs)) = (side(a, &lhs_batch), side(b, &rhs_batch));
        let k = left[left.len() - 1] as u64;
        let m = if left.len() > 1 { left[left.len() - 2] as u64 } else { 1 };
        let n = if right.len() > 1 { right[right.len() - 1] as u64 } else { 1 };
        let split = flat.value(at).shape().len() - usize::from(right.len() > 1);
        // One matrix on the right for a batch of plain rows is one taller product.
        let problem = if count > 1 && rhs.shared && !lhs.shared && !lhs.transposed {
            let rhs = Operand { shared: false, ..rhs };
            Matmul::batched(dtype, 1, m.saturating_mul(count), n, k, lhs, rhs)?
        } else {
            Matmul::batched(dtype, count, m, n, k, lhs, rhs)?
        };
        Ok(Multiplied { problem, feeds: [lhs_at, rhs_at], split })
    }
}

/// The reduction a recipe ends with: its value, how, along which axis.
type End = (At, ReduceOp, Option<u8>);

/// A product as a problem, its operands, and the axis at which the rows of its result end.
struct Multiplied {
    problem: Matmul,
    feeds: [At; 2],
    split: usize,
}

struct Recipe<'a> {
    flat: &'a Flat,
    body: &'a [At],
    product: Option<At>,
    inputs: Vec<At>,
    numbers: Vec<u32>,
    steps: Vec<Step>,
}

impl Recipe<'_> {
    /// Writes the steps that compute a value; nothing if they are too many or read too much.
    fn write(&mut self, at: At) -> Option<()> {
        let op = self.flat.value(at).op;
        let step = if self.product == Some(at) {
            Step::Product
        } else if let Op::Number(number) = op {
            Step::Number(place(&mut self.numbers, number, MAX_NUMBERS)?)
        } else if self.body.contains(&at) {
            for operand in self.flat.operands(at) {
                self.write(operand)?;
            }
            match op {
                Op::Unary(op, _) => Step::Unary(op),
                Op::Binary(op, ..) => Step::Binary(op),
                _ => return None,
            }
        } else {
            let own = if self.product.is_some() { 2 } else { 0 };
            Step::Input(own + place(&mut self.inputs, at, MAX_INPUTS - own as usize)?)
        };
        self.steps.push(step);
        (self.steps.len() <= MAX_STEPS).then_some(())
    }
}

/// The place of one among few.
fn place<V: PartialEq>(all: &mut Vec<V>, one: V, most: usize) -> Option<u8> {
    let known = all.iter().position(|other| *other == one);
    let at = known.unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    });
    (at < most).then_some(at as u8)
}

/// The shape as rows and columns so that every input varies along both, one or none of them; rows end at the axis `split`,
/// if given.
fn lay_out(shape: &[usize], inputs: &[&[usize]], split: Option<usize>) -> Option<([u64; 2], Vec<Varies>)> {
    // By axis: which inputs vary along it; nothing along an axis of one element.
    let varies = |input: &[usize], axis: usize| {
        let missing = shape.len().checked_sub(input.len())?;
        Some(axis.checked_sub(missing).is_some_and(|own| input[own] == shape[axis]))
    };
    let mut along: Vec<Option<Vec<bool>>> = Vec::with_capacity(shape.len());
    for (axis, &size) in shape.iter().enumerate() {
        let all: Option<Vec<bool>> = inputs.iter().map(|input| varies(input, axis)).collect();
        along.push(if size == 1 { None } else { Some(all?) });
    }
    let alike = |axes: &[Option<Vec<bool>>]| {
        let mut some = axes.iter().flatten();
        let first = some.next();
        some.all(|other| Some(other) == first).then(|| first.cloned())
    };
    let tried = split.map_or(0..=shape.len(), |split| split..=split);
    tried.into_iter().find_map(|split| {
        let (outer, inner) = (alike(&along[..split])?, alike(&along[split..])?);
        let count = |sizes: &[usize]| sizes.iter().map(|&size| size as u64).product();
        let of = |side: &Option<Vec<bool>>, input: usize| side.as_ref().is_some_and(|side| side[input]);
        // Along a side of one element nothing varies by itself.
        let both = |input: usize| match (&outer, &inner) {
            (None, None) => Varies::All,
            _ => Varies::along(of(&outer, input), of(&inner, input)),
        };
        let varies = (0..inputs.len()).map(both).collect();
        Some(([count(&shape[..split]), count(&shape[split..])], varies))
    })
}

fn swaps_last_two(axes: &[u8], rank: usize) -> bool {
    rank >= 2
        && axes[..rank].iter().enumerate().all(|(at, &axis)| match rank - at {
            1 => axis as usize == rank - 2,
            2 => axis as usize == rank - 1,
            _ => axis as usize == at,
        })
}
