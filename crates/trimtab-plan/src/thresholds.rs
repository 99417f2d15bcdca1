//! What the user says about which device to use: off, thresholds by class, small batches. It is obeyed and said, not weighed.

use crate::class::Class;
use crate::decide::Deciding;
use crate::event::Event;
use crate::plan::{Rival, Standing};
use crate::why::Why;
use trimtab_core::Problem;

/// A product of a batch counts as small up to this many elements of its largest matrix.
const SMALL_MATRIX: u64 = 128 * 128;

/// What the user says about which device to use. What is not said is decided by costs.
///
/// A threshold decides alone: from that size on a problem runs on a device beside the processor that takes it, below it on the
/// processor. The specific one beats `all`. Sizes are elements of the largest operand, for products and convolutions arithmetic
/// operations (2 m n k, over all of a batch).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Only the processor is used; no other device is opened.
    pub off: bool,
    /// Threshold for functions of one element.
    pub unary: Option<u64>,
    /// Threshold for other elementwise operations, fused ones included.
    pub elementwise: Option<u64>,
    /// Threshold for reductions, fused ones included.
    pub reduction: Option<u64>,
    /// Threshold for transposes.
    pub transpose: Option<u64>,
    /// Threshold for products, fused ones included.
    pub matmul: Option<u64>,
    /// Threshold for convolutions.
    pub conv: Option<u64>,
    /// Threshold for pooling.
    pub pool: Option<u64>,
    /// Threshold for softmax, norms and the like.
    pub rows: Option<u64>,
    /// Threshold for scans.
    pub scan: Option<u64>,
    /// Threshold for sorting.
    pub sort: Option<u64>,
    /// Threshold for elements by index.
    pub index: Option<u64>,
    /// Threshold for Fourier transforms.
    pub fft: Option<u64>,
    /// Threshold for classes that have none of their own.
    pub all: Option<u64>,
    /// A batch of fewer products than this, each small, stays on the processor.
    pub small_batch: Option<u64>,
}

impl Offload {
    /// Nothing is said.
    pub const OPEN: Offload = Offload {
        off: false,
        unary: None,
        elementwise: None,
        reduction: None,
        transpose: None,
        matmul: None,
        conv: None,
        pool: None,
        rows: None,
        scan: None,
        sort: None,
        index: None,
        fft: None,
        all: None,
        small_batch: None,
    };

    /// The threshold set for a class alone.
    pub fn own(&mut self, class: Class) -> &mut Option<u64> {
        match class {
            Class::Unary => &mut self.unary,
            Class::Elementwise => &mut self.elementwise,
            Class::Reduction => &mut self.reduction,
            Class::Transpose => &mut self.transpose,
            Class::Matmul => &mut self.matmul,
            Class::Conv => &mut self.conv,
            Class::Pool => &mut self.pool,
            Class::Rows => &mut self.rows,
            Class::Scan => &mut self.scan,
            Class::Sort => &mut self.sort,
            Class::Index => &mut self.index,
            Class::Fft => &mut self.fft,
        }
    }

    /// The threshold of a class: its own, else the general one.
    pub fn threshold(&self, class: Class) -> Option<u64> {
        let own = match class {
            Class::Unary => self.unary,
            Class::Elementwise => self.elementwise,
            Class::Reduction => self.reduction,
            Class::Transpose => self.transpose,
            Class::Matmul => self.matmul,
            Class::Conv => self.conv,
            Class::Pool => self.pool,
            Class::Rows => self.rows,
            Class::Scan => self.scan,
            Class::Sort => self.sort,
            Class::Index => self.index,
            Class::Fft => self.fft,
        };
        own.or(self.all)
    }

    /// Whether some size decides alone.
    pub fn has_thresholds(&self) -> bool {
        Class::ALL.iter().any(|class| self.threshold(*class).is_some())
    }

    /// What it says about a problem.
    pub fn says(&self, problem: &Problem) -> Option<Said> {
        if let (Some(least), Problem::Matmul(p)) = (self.small_batch, problem) {
            let largest = (p.m * p.k).max(p.k * p.n).max(p.m * p.n);
            if p.batch > 1 && p.batch < least && largest <= SMALL_MATRIX {
                return Some(Said {
                    place: Side::Processor,
                    why: Why::SmallBatch,
                    text: format!("a batch of {} small products, fewer than {least}", p.batch),
                });
            }
        }
        let (class, size) = Class::of(problem)?;
        let least = self.threshold(class)?;
        let (place, than) =
            if size < least { (Side::Processor, "below") } else { (Side::Elsewhere, "not below") };
        let text =
            format!("{size} {} are {than} the {class} threshold of {least} that was set", class.unit());
        Some(Said { place, why: Why::Threshold, text })
    }
}

/// Where a problem is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// On the processor.
    Processor,
    /// On another device that takes it, if there is one.
    Elsewhere,
}

/// What the user's rules say about a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Where it is to run.
    pub place: Side,
    /// By which rule.
    pub why: Why,
    /// In words.
    pub text: String,
}

impl Deciding<'_> {
    /// Puts out the rivals the user's rules leave no place for, if others can do the problem.
    pub(crate) fn rules(&mut self) {
        let by = self.by;
        // A kernel by its name is said more exactly than a device by a size.
        let heeded = by.heed(&self.record.problem, &self.ask.scope, &mut self.record.rivals);
        heeded.into_iter().for_each(|event| self.record.apply(event));
        if by.offload.off {
            self.record.apply(Event::Disabled);
        }
        if self.ask.scope.is_alone() {
            return;
        }
        let Some(Said { place, why, text: rule }) = by.offload.says(&self.record.problem) else { return };
        let hosts = self.order.iter().filter(|(_, device)| device.facts().habits.host_memory);
        let hosts: Vec<u16> = hosts.map(|(at, _)| *at).collect();
        let stays = |rival: &Rival| hosts.contains(&rival.device) == (place == Side::Processor);
        let open = |rival: &Rival| rival.standing == Standing::Unconsidered;
        if !self.record.rivals.iter().any(|rival| stays(rival) && open(rival)) {
            return self.record.apply(Event::NoPlace { rule });
        }
        for rival in self.record.rivals.iter_mut().filter(|rival| open(rival) && !stays(rival)) {
            rival.standing = Standing::Overruled(rule.clone());
        }
        self.record.apply(Event::Overruled { why, rule });
    }

    /// Whether a rival's device takes the problem now: one that hangs takes none.
    pub(crate) fn is_there(&self, rival: &Rival) -> bool {
        let device = self.by.devices.get(rival.device);
        device.is_some_and(|device| device.declines(rival.kernel, &self.record.problem).is_none())
    }

    /// Lets rivals back in that a rule about devices left out, where nobody it leaves can run: those failed, or their device hangs.
    /// Whether there was one.
    pub(crate) fn give_place(&mut self) -> bool {
        let Some(Said { text: rule, .. }) = self.by.offload.says(&self.record.problem) else { return false };
        let mut is_back = false;
        for rival in &mut self.record.rivals {
            if matches!(&rival.standing, Standing::Overruled(by) if *by == rule) {
                rival.standing = Standing::Unconsidered;
                is_back = true;
            }
        }
        if is_back {
            self.record.apply_once(Event::NoPlace { rule });
        }
        is_back
    }
}
