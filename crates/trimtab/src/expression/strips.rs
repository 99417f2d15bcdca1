//! Elementwise operations before and behind a convolution, pooling, rows, attention or elements by index, on some rows at a time: what lies
//! between stays in the caches. Every launch is one of a smaller problem, planned and checked as any other.

use super::flat::{At, Flat};
use super::fuse::{Feed, Fuser, Piece, Task};
use std::sync::Arc;
use trimtab_core::{DType, Elementwise, ElementwiseOp, Fused, Gather, Problem};

/// Bytes that a strip's operands and results may take: half of a common second cache. Not measured.
const ROOM: u64 = 256 << 10;
/// A strip that takes fewer is not worth its launches.
const LEAST: u64 = 32 << 10;

/// Launches that are made strip by strip.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Strips {
    /// How many strips.
    pub count: usize,
    /// Of one strip, in order; the last makes the result.
    pub launches: Vec<OfStrip>,
}

/// One launch of each strip.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OfStrip {
    pub problem: Problem,
    /// By operand.
    pub from: Vec<OperandOfStrip>,
    /// Elements of its result, and their type.
    pub len: usize,
    pub dtype: DType,
}

/// An operand of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum OperandOfStrip {
    /// All of a feed, for every strip.
    Whole(usize),
    /// So many elements of a feed for each strip.
    Some(usize, usize),
    /// What a launch of the same strip made.
    Made(usize),
}

/// How many parts a problem has along its first axis that are computed each by itself; nothing where there is but one.
fn rows(problem: &Problem) -> Option<u64> {
    let rows = match problem {
        Problem::Rows(p) => p.outer,
        Problem::Conv(p) => p.batch() as u64,
        Problem::Pool(p) => p.batch() as u64,
        Problem::Attention(p) => p.batch,
        Problem::Gather(Gather { outer: 1, each: false, count, .. }) => *count,
        _ => 1,
    };
    (rows > 1).then_some(rows)
}

/// The same problem of some of its rows.
fn cut(problem: &Problem, rows: u64, each: u64) -> Option<Problem> {
    match *problem {
        Problem::Rows(p) if p.outer == rows => Some(trimtab_core::Rows { outer: each, ..p }.into()),
        Problem::Conv(p) if p.batch() as u64 == rows => Some(p.of_batch(each)?.into()),
        Problem::Pool(p) if p.batch() as u64 == rows => Some(p.of_batch(each)?.into()),
        Problem::Attention(p) if p.batch == rows => Some(trimtab_core::Attention { batch: each, ..p }.into()),
        Problem::Gather(p) if p.count == rows => Some(Gather { count: each, ..p }.into()),
        Problem::Elementwise(p) => {
            let all = problem.out_len();
            let some = all.is_multiple_of(rows).then_some(all / rows * each)?;
            // An operand is as long as the result, or one number.
            let of = |len: u64| match len {
                1 => Some(1),
                len => (len == all).then_some(some),
            };
            let lens = problem.input_lens();
            let cut = match (p.op, lens.as_slice()) {
                (ElementwiseOp::Unary(op), _) => Elementwise::unary(op, p.dtype, &[some]),
                (ElementwiseOp::Binary(op), &[a, b]) => {
                    Elementwise::binary(op, p.dtype, &[of(a)?], &[of(b)?])
                }
                _ => return None,
            };
            Some(cut.ok()?.into())
        }
        Problem::Fused(p) if p.product().is_none() && p.end().is_none() => {
            let sizes = match (p.outer(), p.inner()) {
                // Nothing varies along one dimension alone.
                (1, inner) if inner.is_multiple_of(rows) => [1, inner / rows * each],
                (outer, inner) if outer.is_multiple_of(rows) => [outer / rows * each, inner],
                _ => return None,
            };
            let steps: Vec<_> = p.steps().collect();
            let varies: Vec<_> = (0..p.inputs()).map(|input| p.varies(input)).collect();
            Some(Fused::new(p.dtype, sizes, &steps, &varies, None, None).ok()?.into())
        }
        _ => None,
    }
}

impl Fuser<'_> {
    /// The operation with rows below a body of elementwise operations, and those as one.
    pub(super) fn with_rows(&self, top: At, body: &[At]) -> Option<(At, Piece)> {
        if !self.flat.has_calls() {
            return None;
        }
        let mut below = body.iter().flat_map(|&at| self.flat.operands(at));
        let called = below.find(|&at| {
            self.has_rows(at)
                && self.flat.value(at).shape == self.flat.value(top).shape
                && self.only_used_by(at, body)
        })?;
        Some((called, self.fused(top, body, None, None)?))
    }

    fn has_rows(&self, at: At) -> bool {
        self.flat.called(at).is_some_and(|called| rows(&called.problem).is_some())
    }

    /// Elementwise operations on the first operand of an operation with rows that nobody else reads, and the same as one; nothing where
    /// there are none.
    pub(super) fn before(&self, called: At) -> (Vec<At>, Vec<Piece>) {
        let none = (Vec::new(), Vec::new());
        let first = self.flat.called(called).and_then(|called| called.operands().first().copied());
        let Some(first) = first.filter(|_| self.has_rows(called)) else { return none };
        let others = self.flat.called(called).map_or(&[][..], |called| &called.operands()[1..]);
        let is_own = self.flat.value(first).op.is_elementwise()
            && self.only_used_by(first, &[called])
            && !others.contains(&first);
        if !is_own {
            return none;
        }
        let body = self.grow(first, None);
        match self.fused(first, &body, None, None) {
            Some(piece) => (body, vec![piece]),
            None => none,
        }
    }

    /// Pieces around an operation with rows, in strips where that can be.
    pub(super) fn in_strips(&self, pieces: &[Piece], called: At) -> Option<Vec<Piece>> {
        let called = self.flat.called(called).filter(|_| pieces.len() > 1)?;
        Some(vec![strips(self.flat, pieces, &called.problem)?])
    }
}

/// Pieces in strips, if all of them can be cut along the rows of one of them, and strips are neither all nor too little.
fn strips(flat: &Flat, pieces: &[Piece], of: &Problem) -> Option<Piece> {
    let (rows, last) = (rows(of)?, pieces.last()?);
    let mut problems = Vec::new();
    for piece in pieces {
        let Task::Problem(problem) = piece.task else { return None };
        problems.push(problem);
    }
    let one: Option<Vec<Problem>> = problems.iter().map(|problem| cut(problem, rows, 1)).collect();
    let bytes = |problem: &Problem, whole: &Problem| {
        let cuts = problem.input_bytes().zip(whole.input_bytes()).filter(|(own, all)| own < all);
        cuts.map(|(own, _)| own).sum::<u64>().saturating_add(problem.out_bytes())
    };
    let a_row = one?.iter().zip(&problems).map(|(one, whole)| bytes(one, whole)).sum::<u64>().max(1);
    // Whole strips only: every one is the same problem.
    let most = (ROOM / a_row).clamp(1, rows / 2);
    let each = (1..=most).rev().find(|each| rows.is_multiple_of(*each))?;
    if each.saturating_mul(a_row) < LEAST {
        return None;
    }
    let mut feeds: Vec<Feed> = Vec::new();
    let mut launches: Vec<OfStrip> = Vec::new();
    for (piece, whole) in pieces.iter().zip(&problems) {
        let problem = cut(whole, rows, each)?;
        let (lens, all) = (problem.input_lens(), whole.input_lens());
        let mut from = Vec::new();
        for (nth, feed) in piece.feeds.iter().enumerate() {
            let made = match feed {
                Feed::Value(at) => pieces.iter().position(|other| other.out == *at),
                Feed::Numbers(..) => None,
            };
            let (own, all) = (*lens.as_slice().get(nth)?, *all.as_slice().get(nth)?);
            from.push(match made {
                // What is made strip by strip is not there as a whole.
                Some(made) if own < all => OperandOfStrip::Made(made),
                Some(_) => return None,
                None => {
                    let place = feeds.iter().position(|known| known == feed).unwrap_or_else(|| {
                        feeds.push(feed.clone());
                        feeds.len() - 1
                    });
                    if own < all {
                        OperandOfStrip::Some(place, own as usize)
                    } else {
                        OperandOfStrip::Whole(place)
                    }
                }
            });
        }
        let (len, dtype) = (problem.out_len() as usize, flat.value(piece.out).dtype);
        launches.push(OfStrip { problem, from, len, dtype });
    }
    let task = Task::Strips(Arc::new(Strips { count: (rows / each) as usize, launches }));
    let operations = pieces.iter().map(|piece| piece.operations).sum();
    Some(Piece { task, feeds, out: last.out, operations })
}

#[cfg(test)]
mod tests {
    use super::super::flat::flatten;
    use super::super::fuse::groups;
    use super::*;
    use crate::{AnyTensor, Expression, Runtime, Tensor, Windows};

    /// The value of an expression by its ways in strips, if it has some, and by itself.
    fn both(rt: &Runtime, expression: &Expression<f32>) -> (usize, AnyTensor, AnyTensor) {
        let flattened = flatten(&expression.any().node).unwrap();
        let groups = groups(&flattened.flat).unwrap();
        let ways = |strips: bool| -> Vec<Piece> {
            let is_cut = |way: &&Vec<Piece>| way.iter().any(|piece| matches!(piece.task, Task::Strips(_)));
            let chosen = groups.iter().map(|group| {
                let cut = group.ways.iter().find(is_cut).filter(|_| strips);
                cut.map_or_else(|| group.apart().to_vec(), Clone::clone)
            });
            chosen.flatten().collect()
        };
        let cut = ways(true).iter().filter(|piece| matches!(piece.task, Task::Strips(_))).count();
        let run = |strips| rt.run_pieces(&flattened, ways(strips)).unwrap();
        (cut, run(true), run(false))
    }

    fn tensor(shape: &[usize]) -> Tensor<f32> {
        let len = shape.iter().product::<usize>();
        let elements = (0..len).map(|at| (at * 37 % 101) as f32 * 0.05 - 2.0).collect();
        Tensor::from_vec(elements, shape).unwrap()
    }

    #[test]
    fn what_runs_in_strips_gives_what_the_operations_give_apart() {
        let rt = Runtime::builder().device("cpu").ignore_environment().wisdom_in_memory().build().unwrap();
        let (x, row) = (tensor(&[96, 1024]), tensor(&[1024]));
        let images = tensor(&[6, 8, 20, 20]);
        let (weights, table) = (tensor(&[8, 8, 3, 3]), tensor(&[300, 512]));
        let indices = Tensor::from_vec((0..256i64).map(|at| at * 7 % 300).collect(), &[256]).unwrap();
        let lazy = |tensor: &Tensor<f32>| rt.lazy(tensor);
        let windows = Windows { pad: &[1, 1], ..Windows::default() };
        let convolved = lazy(&images).relu().conv(&weights, &windows);
        let all = [
            ("before", (lazy(&x) * lazy(&row)).exp().softmax(1)),
            ("behind", (lazy(&x).softmax(1) * lazy(&row)).relu()),
            ("both", ((lazy(&x) + lazy(&x)).layer_norm(1, None, None, 1e-5) * lazy(&row)).tanh()),
            ("conv", convolved.tanh() * lazy(&images)),
            ("gather", (lazy(&table).take(&indices, 0) * lazy(&tensor(&[512]))).relu()),
        ];
        for (name, expression) in all {
            let (cut, strips, apart) = both(&rt, &expression);
            assert_eq!(cut, 1, "{name}");
            let [strips, apart] = [strips, apart].map(|value| value.typed::<f32>().unwrap().to_vec());
            for (at, (own, other)) in strips.iter().zip(&apart).enumerate() {
                let near = (own - other).abs() <= 1e-5 * (1.0 + other.abs());
                assert!(near, "{name}: {own} is not {other} at {at}");
            }
            assert_eq!(strips.len(), apart.len());
        }
    }
}
