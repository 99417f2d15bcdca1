//! What the lanes of a warp do together: barriers, shuffles, votes, reductions.

use super::access::act;
use super::warp::Warp;
use super::{LANES, Machine, Stop, first, lanes};
use crate::fault::FaultKind;
use crate::op::{Shuffle, Together, Vote};

impl Machine<'_> {
    /// Executes a warp-wide instruction for the lanes of its mask, which are all here.
    pub(super) fn together(
        &mut self,
        warp: &mut Warp,
        pc: u32,
        mask: u32,
        what: &Together,
    ) -> Result<(), Stop> {
        match what {
            Together::Barrier => warp.meet(mask),
            Together::Shuffle { .. } => self.shuffle(warp, pc, mask, what)?,
            Together::Vote { vote, dst, predicate, negated } => {
                let values = self.values(warp, *predicate);
                let yes = lanes(mask)
                    .filter(|lane| (values[*lane] != 0) != *negated)
                    .fold(0, |yes, lane| yes | 1u32 << lane);
                let result = match vote {
                    Vote::All => u64::from(yes == mask),
                    Vote::Any => u64::from(yes != 0),
                    Vote::Uniform => u64::from(yes == mask || yes == 0),
                    Vote::Ballot => u64::from(yes),
                };
                warp.set(*dst, self.masks[*dst as usize], mask, &[result; LANES]);
            }
            Together::Reduce { action, scalar, dst, source } => {
                let values = self.values(warp, *source);
                let start = values[first(mask)];
                let rest = lanes(mask & mask.wrapping_sub(1));
                let result = rest.fold(start, |result, lane| act(*action, *scalar, result, values[lane], 0));
                warp.set(*dst, self.masks[*dst as usize], mask, &[result; LANES]);
            }
            Together::MatrixLoad { .. }
            | Together::Mma(_)
            | Together::TileLoad(_)
            | Together::TileStore(_) => {
                if mask != u32::MAX {
                    let message = format!("a tensor-core instruction by {} of 32 lanes", mask.count_ones());
                    return Err(self.fault(FaultKind::Mask, message, warp, first(mask), pc));
                }
                self.tensor(warp, pc, what)?;
            }
        }
        Ok(())
    }

    fn shuffle(&mut self, warp: &mut Warp, pc: u32, mask: u32, what: &Together) -> Result<(), Stop> {
        let Together::Shuffle { mode, dst, valid, source, lane: by, clamp } = what else { return Ok(()) };
        self.counters.shuffles += 1;
        let [values, by, clamp] = [source, by, clamp].map(|source| self.values(warp, *source));
        let (mut out, mut inside) = ([0; LANES], [0; LANES]);
        for lane in lanes(mask) {
            // The mask of segments and the bound within them, as PTX packs them.
            let (segments, bound) = (clamp[lane] as usize >> 8 & 31, clamp[lane] as usize & 31);
            let most = (lane & segments) | (bound & !segments & 31);
            let step = by[lane] as usize & 31;
            let (from, within) = match mode {
                Shuffle::Xor => (lane ^ step, lane ^ step <= most),
                Shuffle::Down => (lane + step, lane + step <= most),
                Shuffle::Up => (lane.wrapping_sub(step), lane >= most + step),
                Shuffle::Index => {
                    let from = (lane & segments) | (step & !segments & 31);
                    (from, from <= most)
                }
            };
            let from = if within { from } else { lane };
            if mask >> from & 1 == 0 {
                let message =
                    format!("a shuffle that reads lane {from}, which does not take part (mask {mask:#x})");
                return Err(self.fault(FaultKind::Mask, message, warp, lane, pc));
            }
            out[lane] = values[from];
            inside[lane] = u64::from(within);
        }
        warp.set(*dst, self.masks[*dst as usize], mask, &out);
        if let Some(valid) = valid {
            warp.set(*valid, 1, mask, &inside);
        }
        Ok(())
    }
}
