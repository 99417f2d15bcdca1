//! What the user says about devices beside the processor: sizes from which on they are used, and whether at all.

use crate::journal::Why;
use trimtab_core::{ElementwiseOp, Problem, Step};

/// What the user says about where expressions run. What is not said is decided by costs.
///
/// A threshold decides alone: from that size on a problem runs on a device beside the processor that can do it, below it on the
/// processor. The specific one beats `all`. Sizes are elements of the result, for reductions of the operand, and for
/// products the multiplications (rows × columns × depth, over all of a batch).
///
/// ```
/// use trimtab::{Offload, Runtime};
/// let small = Offload { matmul: Some(1 << 20), all: Some(u64::MAX), ..Offload::default() };
/// let rt = Runtime::builder().wisdom_in_memory().offload(small).build()?; // products only, and only large ones
/// # Ok::<(), trimtab::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Everything stays on the processor, if it may be used at all.
    pub off: bool,
    /// Threshold for functions of one element.
    pub unary: Option<u64>,
    /// Threshold for other elementwise operations, fused ones included.
    pub elementwise: Option<u64>,
    /// Threshold for reductions, fused ones included.
    pub reduction: Option<u64>,
    /// Threshold for products, fused ones included.
    pub matmul: Option<u64>,
    /// Threshold for whatever has none of its own.
    pub all: Option<u64>,
    /// A batch of fewer products than this stays on the processor: a device that is good at large batches may wait for
    /// each product of a small one.
    pub smallest_batch: Option<u64>,
}

/// Where the user wants a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Here,
    Elsewhere,
}

impl Offload {
    /// Nothing is said.
    pub(crate) const OPEN: Offload = Offload {
        off: false,
        unary: None,
        elementwise: None,
        reduction: None,
        matmul: None,
        all: None,
        smallest_batch: None,
    };

    /// What the user says about a problem, and why.
    pub(crate) fn wants(&self, problem: &Problem) -> Option<(Wanted, Why, String)> {
        if let (Problem::Matmul(p), Some(smallest)) = (problem, self.smallest_batch)
            && p.batch > 1
            && p.batch < smallest
        {
            let note = format!("a batch of {} is smaller than {smallest}", p.batch);
            return Some((Wanted::Here, Why::SmallBatch, note));
        }
        let (name, own, size) = self.class(problem);
        let (name, threshold) = match own {
            Some(threshold) => (name, threshold),
            None => ("all", self.all?),
        };
        let (wanted, than) =
            if size >= threshold { (Wanted::Elsewhere, "at least") } else { (Wanted::Here, "below") };
        Some((wanted, Why::Threshold, format!("{size} is {than} the threshold {name} = {threshold}")))
    }

    /// The class of a problem, its own threshold, and its size.
    fn class(&self, problem: &Problem) -> (&'static str, Option<u64>, u64) {
        let unary = ("unary", self.unary);
        let elementwise = ("elementwise", self.elementwise);
        let reduction = ("reduction", self.reduction);
        let matmul = ("matmul", self.matmul);
        let ((name, threshold), size) = match problem {
            Problem::Matmul(p) => (matmul, p.flops() / 2),
            Problem::Elementwise(p) => match p.op {
                ElementwiseOp::Unary(_) => (unary, p.out_len()),
                ElementwiseOp::Binary(_) => (elementwise, p.out_len()),
            },
            Problem::Reduce(p) => (reduction, p.input_len()),
            Problem::Transpose(p) => (("all", None), p.len()),
            Problem::Fused(p) => match (p.product(), p.end()) {
                (Some(product), _) => (matmul, p.len().saturating_mul(product.depth)),
                (None, Some(_)) => (reduction, p.len()),
                (None, None) if p.steps().all(|step| !matches!(step, Step::Binary(_))) => (unary, p.len()),
                (None, None) => (elementwise, p.len()),
            },
            Problem::Custom(_) => (("all", None), 0),
        };
        (name, threshold, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(offload: &Offload, problem: &str) -> Option<(Wanted, Why)> {
        let Ok(problem) = problem.parse() else { unreachable!("{problem}") };
        offload.wants(&problem).map(|(wanted, why, _)| (wanted, why))
    }

    #[test]
    fn the_specific_threshold_beats_the_general_and_what_is_not_said_is_open() {
        let none = Offload::default();
        assert_eq!(wants(&none, "matmul:f32:64x64x64"), None);
        let some = Offload { matmul: Some(64 * 64 * 64), all: Some(100), ..Offload::default() };
        let elsewhere = Some((Wanted::Elsewhere, Why::Threshold));
        let here = Some((Wanted::Here, Why::Threshold));
        assert_eq!(wants(&some, "matmul:f32:64x64x64"), elsewhere);
        assert_eq!(wants(&some, "matmul:f32:64x64x63"), here);
        assert_eq!(wants(&some, "elementwise.neg:f32:100"), elsewhere);
        assert_eq!(wants(&some, "reduce.sum:f32:99"), here);
        assert_eq!(wants(&some, "fused.relu(@):f32:64x64x64:n,n"), elsewhere);
        assert_eq!(wants(&some, "fused.relu(neg(a)):f32:1x99:all"), here);
        let batches = Offload { smallest_batch: Some(8), ..Offload::default() };
        assert_eq!(wants(&batches, "matmul:f32:7x64x64x64"), Some((Wanted::Here, Why::SmallBatch)));
        assert_eq!(wants(&batches, "matmul:f32:8x64x64x64"), None);
        assert_eq!(wants(&batches, "matmul:f32:64x64x64"), None);
    }
}
