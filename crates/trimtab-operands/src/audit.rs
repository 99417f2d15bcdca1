//! Audits of results callers got: some elements are computed again from the caller's own operands.
//!
//! Of each axis some indices are taken, the first and the last among them. What lies there in the operands and in the result is a
//! smaller problem of the same sort, which the reference can do. Axes that are added up are taken whole.

use crate::check::{Expected, Reference, chance};
use crate::element::Element;
use crate::operands::Operands;
use crate::slice::{Data, Slice};
use trimtab_core::{
    Arg, Attention, BinaryOp, Cast, DType, Elementwise, ElementwiseOp, Failure, FailureKind, Fused, Matmul,
    Operand, Over, Problem, Product, RandomNumbers, Reduce, ReduceOp, Rows, Scan, ScanOp, Sort, Step,
    Transpose, UnaryOp, Varies,
};

mod blocks;
mod index;
mod spectra;
mod windows;

/// An element of anything but a product takes about as long as so many terms of one: functions are slow.
const TERMS_PER_ELEMENT: usize = 16;

/// How much of a call is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Elements of operands and result that are copied, at most.
    pub taken: usize,
    /// Terms of products, or as much work of another sort, that are computed again, about.
    pub computed: usize,
}

impl Share {
    /// Elements whose every element depends on so many others.
    fn elements(self, depth: usize) -> usize {
        let computed = self.computed / TERMS_PER_ELEMENT.max(depth);
        computed.min(self.taken / (2 * depth.max(1)))
    }
}

/// What is looked at of an axis: all of it, or some indices in order.
#[derive(Clone, Debug)]
enum Taken {
    All(usize),
    Some(Vec<usize>),
}

impl Taken {
    /// So many indices of that many, the first and the last among them.
    fn some(len: u64, most: usize, random: &mut RandomNumbers) -> Taken {
        let len = len as usize;
        if len <= most {
            return Taken::All(len);
        }
        let mut indices = vec![random.below(len)];
        if most > 1 {
            indices.extend([0, len - 1]);
            indices.extend((3..most).map(|_| random.below(len)));
        }
        indices.sort_unstable();
        indices.dedup();
        Taken::Some(indices)
    }

    fn all(len: u64) -> Taken {
        Taken::All(len as usize)
    }

    fn len(&self) -> usize {
        match self {
            Taken::All(len) => *len,
            Taken::Some(indices) => indices.len(),
        }
    }

    fn at(&self, nth: usize) -> usize {
        match self {
            Taken::All(_) => nth,
            Taken::Some(indices) => indices[nth],
        }
    }
}

/// An operand's axes as they lie: what is taken of each, and its size.
type Axes<'a> = Vec<(&'a Taken, u64)>;

/// What is taken of an operand, in order.
fn gathered<T: Element>(from: &[T], axes: &Axes<'_>) -> Option<Vec<T>> {
    let count: usize = axes.iter().map(|(taken, _)| taken.len()).product();
    let mut all = Vec::with_capacity(count);
    // Last axes that are taken whole lie in one piece.
    let is_whole = |(taken, size): &&(&Taken, u64)| matches!(taken, Taken::All(len) if *len as u64 == *size);
    let whole = axes.iter().rev().take_while(is_whole).count();
    let (outer, inner) = axes.split_at(axes.len() - whole);
    let run = inner.iter().map(|(_, size)| *size as usize).product();
    gather(from, outer, 0, run, &mut all)?;
    Some(all)
}

/// Takes what lies at one index of the axes before these, in pieces of that length.
fn gather<T: Element>(
    from: &[T],
    axes: &[(&Taken, u64)],
    at: usize,
    run: usize,
    all: &mut Vec<T>,
) -> Option<()> {
    let Some(((taken, size), rest)) = axes.split_first() else {
        let start = at.checked_mul(run)?;
        all.extend_from_slice(from.get(start..start.checked_add(run)?)?);
        return Some(());
    };
    let at = at.checked_mul(*size as usize)?;
    if let ([], 1, Taken::Some(indices)) = (rest, run, taken) {
        for index in indices {
            all.push(*from.get(at + index)?);
        }
        return Some(());
    }
    (0..taken.len()).try_for_each(|nth| gather(from, rest, at + taken.at(nth), run, all))
}

/// A part of a call: its own operands and the result it got.
#[derive(Debug)]
pub struct Audit {
    problem: Problem,
    part: Operands,
    /// Of a spectrum that is too long to be computed again, which elements the result has.
    bins: Vec<usize>,
}

impl Audit {
    /// Takes a part of a call; nothing where no part of it can be computed alone, or only one that is too large.
    pub fn of(problem: &Problem, inputs: &[Slice<'_>], out: &Slice<'_>, most: Share) -> Option<Audit> {
        let mut random = chance();
        match problem {
            Problem::Matmul(p) => product(p, inputs, out, most, &mut random),
            Problem::Elementwise(p) => elementwise(p, inputs, out, most, &mut random),
            Problem::Reduce(p) => reduce(p, inputs, out, most, &mut random),
            Problem::Transpose(p) => transpose(p, inputs, out, most, &mut random),
            Problem::Conv(p) => windows::conv(p, inputs, out, most, &mut random),
            Problem::Pool(p) => windows::pool(p, inputs, out, most, &mut random),
            Problem::Rows(p) => rows(p, inputs, out, most, &mut random),
            Problem::Attention(p) => attention(p, inputs, out, most, &mut random),
            Problem::Scan(p) => {
                let small =
                    |shape: &[u64]| Scan::new(p.op, p.dtype, shape, 1, p.exclusive).ok().map(Problem::from);
                lines([p.outer, p.len, p.inner], p.len, small, inputs, out, most, &mut random)
            }
            Problem::Sort(p) => {
                let small =
                    |shape: &[u64]| Sort::new(p.dtype, shape, 1, p.descending).ok().map(Problem::from);
                lines([p.outer, p.len, p.inner], p.len, small, inputs, out, most, &mut random)
            }
            Problem::Arg(p) => {
                let small = |shape: &[u64]| {
                    Arg::new(p.op, p.dtype, shape, 1, p.descending, p.count).ok().map(Problem::from)
                };
                lines([p.outer, p.len, p.inner], p.count, small, inputs, out, most, &mut random)
            }
            Problem::Cast(p) => {
                let taken = Taken::some(p.len, most.elements(1), &mut random);
                let small = Cast::new(p.dtype, p.to, &[taken.len() as u64]).ok()?;
                let axes: Axes<'_> = vec![(&taken, p.len)];
                part(small.into(), inputs, std::slice::from_ref(&axes), out, &axes)
            }
            Problem::Fft(p) => spectra::fft(p, inputs, out, most, &mut random),
            Problem::Fused(p) => fused(p, inputs, out, most, &mut random),
            Problem::Gather(p) => index::gather(p, inputs, out, most, &mut random),
            Problem::Scatter(p) => index::scatter(p, inputs, out, most, &mut random),
            Problem::Mask(p) => blocks::mask(p, inputs, out, most, &mut random),
            Problem::Concat(p) => blocks::concat(p, inputs, out, most, &mut random),
            Problem::Put(p) => blocks::put(p, inputs, out, most, &mut random),
            Problem::Custom(_) => None,
        }
        .filter(Audit::is_ordinary)
    }

    /// Whether the part is right: within the tolerance of a device, or of a kernel on the processor without one.
    pub fn check(&self, reference: &dyn Reference, within: Option<f64>) -> Result<(), Failure> {
        let in_words = |message: String| {
            let message = format!("in a live call, of which {} was computed again: {message}", self.problem);
            Failure::new(FailureKind::Wrong, message)
        };
        if let (false, Problem::Fft(p)) = (self.bins.is_empty(), &self.problem) {
            return spectra::check(p, &self.part, &self.bins, within).map_err(in_words);
        }
        // Where there is nothing to compare with, nothing can be said.
        let Ok(expected) = Expected::new(reference, &self.problem, &self.part) else { return Ok(()) };
        let checked = match within {
            Some(tolerance) => expected.check_within(&self.problem, &self.part.out, tolerance),
            None => expected.check(&self.problem, &self.part.out),
        };
        checked.map_err(in_words)
    }

    /// Whether every kernel that is right must agree about it: numbers as most are. What overflows in one order of summation does
    /// not in another, and functions of large numbers are not the same on all devices.
    fn is_ordinary(&self) -> bool {
        let (least, most): (f64, f64) = match &self.problem {
            Problem::Transpose(_)
            | Problem::Sort(_)
            | Problem::Arg(_)
            | Problem::Cast(_)
            | Problem::Gather(_)
            | Problem::Mask(_)
            | Problem::Concat(_)
            | Problem::Put(_) => return true,
            Problem::Scan(Scan { op: ScanOp::Prod, .. }) => return false,
            // The ε of a norm is small.
            Problem::Rows(_) | Problem::Attention(_) => (1e-14, 1e3),
            Problem::Elementwise(p) => match p.op {
                ElementwiseOp::Binary(BinaryOp::Pow) => (0.01, 8.0),
                ElementwiseOp::Binary(BinaryOp::Div) => (1e-3, 1e3),
                op if op.is_function() => (1e-12, 10.0),
                _ => (1e-12, 1e6),
            },
            Problem::Reduce(Reduce { op: ReduceOp::Prod, .. }) => return false,
            Problem::Fused(p) if matches!(p.end(), Some((ReduceOp::Prod, _))) => return false,
            // Errors of plain arithmetic are measured by what it is made of, element by element.
            Problem::Fused(p) if is_plain(p) => (0.0, 1e6),
            Problem::Fused(_) => (1e-6, 10.0),
            _ => (1e-12, 1e6),
        };
        let dtype = self.problem.out_dtype();
        let half = dtype == Some(DType::F16);
        let added = match &self.problem {
            Problem::Matmul(p) => p.k as f64,
            Problem::Reduce(p) => p.len as f64,
            Problem::Rows(p) => p.len as f64,
            Problem::Scan(p) => p.len as f64,
            Problem::Fft(p) => p.points() as f64,
            Problem::Conv(p) => p.depth() as f64,
            Problem::Scatter(p) => 1.0 + p.count as f64,
            Problem::Fused(p) => {
                p.product().map_or(1.0, |product| product.depth as f64) * p.reduced_len() as f64
            }
            _ => 1.0,
        };
        let factors = match &self.problem {
            Problem::Fused(p) => factors(p),
            _ => 2,
        };
        let integer = dtype.is_some_and(|dtype| dtype.range().is_some());
        // Numbers whose products, added up, fit the element type.
        let fits = |largest: f64| (largest / added).powf(1.0 / factors as f64);
        let most = most.min(match (half, integer) {
            (true, _) => fits(1e4),
            // Small ones wrap, in every kernel alike.
            (_, true) => fits(1e9),
            _ => fits(1e36),
        });
        let is_ordinary = |value: f64| value == 0.0 || (least..=most).contains(&value.abs());
        let divides = matches!(
            &self.problem,
            Problem::Elementwise(p) if matches!(p.op, ElementwiseOp::Binary(BinaryOp::Div | BinaryOp::Pow))
        );
        // Indices are not computed with.
        let computed = |place: &usize| self.problem.input_dtype(*place) == self.problem.dtype();
        let inputs = self.part.inputs.iter().enumerate().filter(|(place, _)| computed(place));
        inputs.into_iter().all(|(place, data)| {
            let numbers = (0..data.numbers()).filter_map(|at| data.at(at));
            numbers.into_iter().all(|value| is_ordinary(value) && !(divides && place == 1 && value == 0.0))
        })
    }
}

/// Whether a recipe adds, multiplies and compares, and nothing else.
fn is_plain(p: &Fused) -> bool {
    p.steps().all(|step| match step {
        Step::Unary(op) => matches!(op, UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Relu),
        Step::Binary(op) => !matches!(op, BinaryOp::Div | BinaryOp::Pow),
        Step::Product | Step::Input(_) | Step::Number(_) => true,
    })
}

/// How many numbers a recipe may multiply with each other: what is used twice counts twice.
fn factors(p: &Fused) -> usize {
    let multiplies = |step: &Step| matches!(step, Step::Product | Step::Binary(BinaryOp::Mul));
    let doubles = p.steps().filter(multiplies).count();
    // Squares of squares: each multiplication may double the factors.
    2usize.saturating_pow(doubles as u32).max(2)
}

/// The audit of a smaller problem, its operands taken from the call's.
fn part(
    problem: Problem,
    inputs: &[Slice<'_>],
    taken: &[Axes<'_>],
    out: &Slice<'_>,
    of_out: &Axes<'_>,
) -> Option<Audit> {
    let take = |from: &Slice<'_>, axes: &Axes<'_>| -> Option<Data> {
        crate::by_dtype!(from.dtype()?, T => gathered(T::slice(*from)?, axes).map(T::own))
    };
    let inputs: Option<Vec<Data>> = inputs.iter().zip(taken).map(|(from, axes)| take(from, axes)).collect();
    let part = Operands { inputs: inputs?, out: take(out, of_out)? };
    Some(Audit { problem, part, bins: vec![] })
}

fn product(
    p: &Matmul,
    inputs: &[Slice<'_>],
    out: &Slice<'_>,
    most: Share,
    random: &mut RandomNumbers,
) -> Option<Audit> {
    let depth = p.k.max(1) as usize;
    let batch = Taken::some(p.batch, 1, random);
    let (rows, columns) = sides([p.m, p.n], most.computed / depth, most.taken / (2 * depth), random)?;
    let inner = Taken::all(p.k);
    let (batches, row) = ((&batch, p.batch), (&rows, p.m));
    let (column, term) = ((&columns, p.n), (&inner, p.k));
    let lie = |operand: Operand, pair| {
        let batch = Some(batches).filter(|_| !operand.shared);
        batch.into_iter().chain(turned(operand.transposed, pair)).collect()
    };
    let taken: [Axes<'_>; 2] = [lie(p.lhs, [row, term]), lie(p.rhs, [term, column])];
    let alone = |operand: Operand| Operand { shared: false, ..operand };
    let (m, n) = (rows.len() as u64, columns.len() as u64);
    let small = Matmul::batched(p.dtype, 1, m, n, p.k, alone(p.lhs), alone(p.rhs)).ok()?;
    part(small.into(), inputs, &taken, out, &vec![batches, row, column])
}

/// Two axes as they lie.
fn turned<T>(transposed: bool, [first, second]: [T; 2]) -> [T; 2] {
    if transposed { [second, first] } else { [first, second] }
}

/// Some rows and columns: so many of each at most, and so many elements together, about.
fn sides(
    [m, n]: [u64; 2],
    elements: usize,
    each: usize,
    random: &mut RandomNumbers,
) -> Option<(Taken, Taken)> {
    if elements == 0 || each == 0 {
        return None;
    }
    let square = (elements as f64).sqrt() as usize;
    // Where there are few of one, there may be more of the other.
    let rows = (m as usize).min(elements / square.min(n as usize).max(1)).min(each).max(1);
    let columns = (elements / rows).min(each).max(1);
    Some((Taken::some(m, rows, random), Taken::some(n, columns, random)))
}

fn elementwise(
    p: &Elementwise,
    inputs: &[Slice<'_>],
    out: &Slice<'_>,
    most: Share,
    random: &mut RandomNumbers,
) -> Option<Audit> {
    let axes = some_of_each(p.dims(), most, random);
    let operand = |varies: &dyn Fn(usize) -> bool| -> Axes<'_> {
        let of = axes.iter().zip(p.dims()).enumerate().filter(|(axis, _)| varies(*axis));
        of.map(|(_, (taken, size))| (taken, *size)).collect()
    };
    let shape = |varies: &dyn Fn(usize) -> bool| -> Vec<u64> {
        let sizes = axes.iter().enumerate();
        sizes.map(|(axis, taken)| if varies(axis) { taken.len() as u64 } else { 1 }).collect()
    };
    let (lhs, rhs) = (|axis: usize| p.lhs_varies(axis), |axis: usize| p.rhs_varies(axis));
    let (small, taken) = match p.op {
        ElementwiseOp::Unary(op) => (Elementwise::unary(op, p.dtype, &shape(&lhs)), vec![operand(&lhs)]),
        ElementwiseOp::Binary(op) => {
            let small = Elementwise::binary(op, p.dtype, &shape(&lhs), &shape(&rhs));
            (small, vec![operand(&lhs), operand(&rhs)])
        }
    };
    part(small.ok()?.into(), inputs, &taken, out, &operand(&|_| true))
}

fn reduce(
    p: &Reduce,
    inputs: &[Slice<'_>],
    out: &Slice<'_>,
    most: Share,
    random: &mut RandomNumbers,
) -> Option<Audit> {
    let small = |shape: &[u64]| Reduce::new(p.op, p.dtype, shape, Some(1)).ok().map(Problem::from);
    lines([p.outer, p.len, p.inner], 1, small, inputs, out, most, random)
}

fn rows(
    p: &Rows,
    inputs: &[Slice<'_>],
    out: &Slice<'_>,
    most: Share,
    random: &mut RandomNumbers,
) -> Option<Audit> {
    let small = |shape: &[u64]| {
        let small = Rows::new(p.op, p.dtype, shape, 1).and_then(|small| small.with(p.scaled, p.shifted));
        small.ok().map(Problem::from)
    };
    let count = if p.op.reduces() { 1 } else { p.len };
    lines([p.outer, p.len, p.inner], count, small, inputs, out, most, random)
}

/// Some queries of one head with all keys they see. Those of a causal problem see different ones: of these one is taken.
fn attention(
    p: &Attention,
    inputs: &[Slice<'_>],
    out: &Slice<'_>,
    most: Share,
    random: &mut RandomNumbers,
) -> Option<Audit> {
    let each = p.keys.saturating_mul(p.depth.saturating_add(p.width)).max(1) as usize;
    if each > most.taken {
        return None;
    }
    let fit = if p.causal { 1 } else { (most.computed / each).max(1) };
    let (head, rows) = (Taken::some(p.batch, 1, random), Taken::some(p.queries, fit, random));
    let seen = if p.causal { p.seen(rows.at(0) as u64) } else { p.keys };
    let rows = if p.causal { Taken::Some(vec![rows.at(0)]) } else { rows };
    let (keys, depth, width) = (Taken::all(seen), Taken::all(p.depth), Taken::all(p.width));
    let (head, row, key) = ((&head, p.batch), (&rows, p.queries), (&keys, p.keys));
    let (deep, wide) = ((&depth, p.depth), (&width, p.width));
    let small = Attention::new(p.dtype, [1, rows.len() as u64, seen, p.depth, p.width], false).ok()?;
    let taken = [vec![head, row, deep], vec![head, key, deep], vec![head, key, wide]];
    part(small.into(), inputs, &taken, out, &vec![head, row, wide])
}

/// Some lines along the middle of `outer × len × inner`, each whole, and so many elements each became; operands behind the first
/// belong to all of them.
fn lines(
    sizes: [u64; 3],
    count: u64,
    small: impl Fn(&[u64]) -> Option<Problem>,
    inputs: &[Slice<'_>],
    out: &Slice<'_>,
    most: Share,
    random: &mut RandomNumbers,
) -> Option<Audit> {
    let [all_outer, all_len, all_inner] = sizes;
    // One result at least, if its elements may be taken.
    let len = all_len.max(1) as usize;
    let fit = (most.computed.min(most.taken) / len).max(usize::from(len <= most.taken));
    let (outer, inner) = sides([all_outer, all_inner], fit, fit, random)?;
    let len = Taken::all(all_len);
    let problem = small(&[outer.len() as u64, all_len, inner.len() as u64])?;
    let from = vec![(&outer, all_outer), (&len, all_len), (&inner, all_inner)];
    let results = Taken::all(count);
    let to = vec![(&outer, all_outer), (&results, count), (&inner, all_inner)];
    let shared: Vec<Taken> = inputs.iter().skip(1).map(|input| Taken::All(input.len())).collect();
    let mut taken = vec![from];
    taken.extend(shared.iter().map(|all| vec![(all, all.len() as u64)]));
    part(problem, inputs, &taken, out, &to)
}

fn transpose(
    p: &Transpose,
    inputs: &[Slice<'_>],
    out: &Slice<'_>,
    most: Share,
    random: &mut RandomNumbers,
) -> Option<Audit> {
    let axes = some_of_each(p.dims(), most, random);
    let shape: Vec<u64> = axes.iter().map(|taken| taken.len() as u64).collect();
    let permutation: Vec<usize> = p.permutation().iter().map(|&axis| usize::from(axis)).collect();
    let small = Transpose::new(p.dtype, &shape, &permutation).ok()?;
    let of = |axis: usize| (&axes[axis], p.dims()[axis]);
    let from: Axes<'_> = (0..axes.len()).map(of).collect();
    let to: Axes<'_> = permutation.iter().map(|&axis| of(axis)).collect();
    part(small.into(), inputs, &[from], out, &to)
}

fn fused(
    p: &Fused,
    inputs: &[Slice<'_>],
    out: &Slice<'_>,
    most: Share,
    random: &mut RandomNumbers,
) -> Option<Audit> {
    let (is_over, depth) = (p.end().map(|(_, over)| over), p.product().map_or(1, |product| product.depth));
    let (all_rows, all_columns) =
        (matches!(is_over, Some(Over::All | Over::Rows)), matches!(is_over, Some(Over::All | Over::Columns)));
    let whole = [(all_rows, p.outer()), (all_columns, p.inner())];
    let reduced: u64 = whole.iter().filter(|(all, _)| *all).map(|(_, size)| *size).product();
    let each = depth.max(1).saturating_mul(reduced.max(1)) as usize;
    let fit = most.elements(each).max(usize::from(each <= most.taken / 2));
    let sizes = whole.map(|(all, size)| if all { 1 } else { size });
    let (rows, columns) = sides(sizes, fit, fit, random)?;
    let take = |all: bool, size: u64, some: Taken| if all { Taken::all(size) } else { some };
    let (rows, columns) = (take(all_rows, p.outer(), rows), take(all_columns, p.inner(), columns));
    let (inner, one, numbers) = (Taken::all(depth), Taken::all(1), Taken::all(p.numbers() as u64));
    let (row, column, term) = ((&rows, p.outer()), (&columns, p.inner()), (&inner, depth));
    let mut taken: Vec<Axes<'_>> = (0..p.inputs())
        .map(|input| match (p.product(), input) {
            (Some(Product { lhs_transposed, .. }), 0) => turned(lhs_transposed, [row, term]).to_vec(),
            (Some(Product { rhs_transposed, .. }), 1) => turned(rhs_transposed, [term, column]).to_vec(),
            _ => match p.varies(input) {
                Varies::All => vec![row, column],
                Varies::Rows => vec![row],
                Varies::Columns => vec![column],
                Varies::Nowhere => vec![(&one, 1)],
            },
        })
        .collect();
    taken.extend((p.numbers() > 0).then(|| vec![(&numbers, p.numbers() as u64)]));
    let of_out: Axes<'_> = match is_over {
        None => vec![row, column],
        Some(Over::Rows) => vec![column],
        Some(Over::Columns) => vec![row],
        Some(Over::All) => vec![(&one, 1)],
    };
    let varies: Vec<Varies> = (0..p.inputs()).map(|input| p.varies(input)).collect();
    let (steps, sizes) = (p.steps().collect::<Vec<_>>(), [rows.len() as u64, columns.len() as u64]);
    let small = Fused::new(p.dtype, sizes, &steps, &varies, p.product(), p.end()).ok()?;
    part(small.into(), inputs, &taken, out, &of_out)
}

/// Some indices of each axis, so that all together are few.
fn some_of_each(dims: &[u64], most: Share, random: &mut RandomNumbers) -> Vec<Taken> {
    let all: u64 = dims.iter().fold(1, |all, size| all.saturating_mul(*size));
    let elements = most.elements(1).max(1) as f64;
    let long = dims.iter().filter(|size| **size > 1).count().max(1) as f64;
    let each = match all as f64 <= elements {
        true => usize::MAX,
        false => elements.powf(1.0 / long).floor().max(2.0) as usize,
    };
    dims.iter().map(|&size| Taken::some(size, each, random)).collect()
}

#[cfg(test)]
mod tests;
