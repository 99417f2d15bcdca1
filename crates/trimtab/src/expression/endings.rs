//! Elementwise operations behind a convolution that it can do itself: a bias for each channel, a function at the end.

use super::flat::{At, Op, Value};
use super::fuse::{Feed, Fuser, Piece, Task};
use crate::error::Error;
use trimtab_core::{BinaryOp, Channels, Conv, Problem};

/// A convolution and the operations behind it that it does itself.
pub(super) struct Ended {
    /// The convolution and those of the operations that no recipe of the body does: in the order they are computed.
    pub beside: Vec<At>,
    /// How to compute the whole so.
    pub way: Vec<Piece>,
}

impl Fuser<'_> {
    /// The convolution below a body of elementwise operations that can do the first of them itself.
    pub(super) fn with_conv(&self, top: At, body: &[At]) -> Result<Option<Ended>, Error> {
        if !self.flat.has_calls() {
            return Ok(None);
        }
        // Adding a bias may be no part of the body: recipes do not know numbers along a middle axis.
        let mut span = body.to_vec();
        for _ in 0..2 {
            let fits = |at: &At| self.flat.value(*at).op.is_elementwise() && self.only_used_by(*at, &span);
            let below = span.iter().flat_map(|&at| self.flat.operands(at)).filter(|at| !span.contains(at));
            let below: Vec<At> = below.filter(fits).collect();
            span.extend(below);
        }
        for conv in span.iter().flat_map(|&at| self.flat.operands(at)) {
            let Some((own, ended)) = self.ended(conv, top, body, &span) else { continue };
            // Nothing may be left between it and the body.
            if body.iter().all(|&at| at != ended.out) && !self.only_used_by(ended.out, body) {
                continue;
            }
            let rest: Vec<At> = body.iter().copied().filter(|at| !own.contains(at)).collect();
            let rest = match rest.as_slice() {
                [] => None,
                [one] => Some(self.single(*one)?),
                several => match self.fused(top, several, None, None) {
                    Some(rest) => Some(rest),
                    None => continue,
                },
            };
            let beside = own.into_iter().filter(|at| !body.contains(at));
            let beside = [conv].into_iter().chain(beside).collect();
            return Ok(Some(Ended { beside, way: [ended].into_iter().chain(rest).collect() }));
        }
        Ok(None)
    }

    /// A convolution with what it can do itself of the operations behind it: which those are, and all as one.
    fn ended(&self, conv: At, top: At, body: &[At], span: &[At]) -> Option<(Vec<At>, Piece)> {
        let called = self.flat.called(conv)?;
        let Problem::Conv(mut problem) = called.problem else { return None };
        if problem.act.is_some() || problem.out_len() == 0 || !self.only_used_by(conv, span) {
            return None;
        }
        let mut feeds: Vec<Feed> = called.operands().iter().map(|&operand| self.feed(operand)).collect();
        let (mut own, mut out) = (Vec::new(), conv);
        if let Some((sum, bias)) = self.biased(&problem, conv, body) {
            problem = problem.ending(true, None).ok()?;
            feeds.push(self.feed(bias));
            (own, out) = (vec![sum], sum);
        }
        if let Some(&[user]) = self.users.get(out as usize).map(Vec::as_slice).filter(|_| out != top)
            && let Op::Unary(act, _) = self.flat.value(user).op
            && let Ok(ended) = problem.ending(problem.bias, Some(act))
        {
            problem = ended;
            own.push(user);
            out = user;
        }
        let piece = Piece { task: Task::Problem(problem.into()), feeds, out, operations: own.len() + 1 };
        (!own.is_empty()).then_some((own, piece))
    }

    /// The sum of a convolution and a number for each of its channels, and those numbers.
    fn biased(&self, problem: &Conv, conv: At, body: &[At]) -> Option<(At, At)> {
        let &[sum] = self.users.get(conv as usize)?.as_slice() else { return None };
        let (result, whole) = (self.flat.value(conv), self.flat.value(sum));
        let Op::Binary(BinaryOp::Add, a, b) = whole.op else { return None };
        let bias = if a == conv { b } else { a };
        let is_bias = !problem.bias && whole.shape == result.shape && !body.contains(&bias);
        (is_bias && lies_along_channels(problem, self.flat.value(bias), result.shape()))
            .then_some((sum, bias))
    }
}

/// Whether a value that is repeated to a convolution's result has an element for each channel.
fn lies_along_channels(problem: &Conv, value: &Value, result: &[usize]) -> bool {
    let axis = match problem.channels {
        Channels::First => 1,
        Channels::Last => result.len().saturating_sub(1),
    };
    let missing = result.len().saturating_sub(value.shape().len());
    let along = axis.checked_sub(missing).and_then(|own| value.shape().get(own).copied()).unwrap_or(1);
    value.len() == problem.outputs() && along == problem.outputs()
}
