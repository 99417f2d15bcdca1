//! Asynchronous copies from global to shared memory: begun, in flight, waited for.

use super::access::Access;
use super::shadow::Use;
use super::warp::Warp;
use super::{LANES, Machine, Stop, lanes};
use crate::fault::FaultKind;
use crate::op::Op;
use crate::scalar::Space;
use std::collections::VecDeque;

/// Bytes that will be in shared memory.
struct InFlight {
    to: u64,
    data: Vec<u8>,
}

/// What one lane has begun.
#[derive(Default)]
struct Begun {
    open: Vec<InFlight>,
    groups: VecDeque<Vec<InFlight>>,
}

/// Copies of all lanes of a warp.
#[derive(Default)]
pub(super) struct Copies(Vec<Begun>);

impl Copies {
    fn of(&mut self, lane: usize) -> &mut Begun {
        self.0.resize_with(LANES, Begun::default);
        &mut self.0[lane]
    }

    /// Makes a group of what these lanes have begun.
    pub(super) fn commit(&mut self, mask: u32) {
        for lane in lanes(mask) {
            let begun = self.of(lane);
            let group = std::mem::take(&mut begun.open);
            begun.groups.push_back(group);
        }
    }
}

impl Machine<'_> {
    pub(super) fn copy_async(&mut self, warp: &mut Warp, pc: u32, mask: u32, op: &Op) -> Result<(), Stop> {
        let Op::CopyAsync { dst, source, bytes, valid } = op else { return Ok(()) };
        let (to, from) = (self.addresses(warp, dst), self.addresses(warp, source));
        let valid = valid.map(|valid| self.values(warp, valid));
        self.count(Space::Global, mask, &from, *bytes);
        for lane in lanes(mask) {
            let size = valid.map_or(*bytes, |valid| (valid[lane] as usize).min(*bytes));
            if from[lane] % *bytes as u64 != 0 {
                let message =
                    format!("a copy of {bytes} bytes from {:#x}, which is no multiple of that", from[lane]);
                return Err(self.fault(FaultKind::Misaligned, message, warp, lane, pc));
            }
            let mut data = vec![0; *bytes];
            // What is read is looked at now; hardware may read it at any time until the wait.
            let unit = if size == *bytes { *bytes } else { 1 };
            for at in (0..size).step_by(unit) {
                let address = from[lane].wrapping_add(at as u64);
                let access = Access { lane, pc, space: Space::Global, address, bytes: unit, how: Use::Read };
                let read = self.read(warp, &access)?;
                data[at..at + unit].copy_from_slice(&read[..unit]);
            }
            // It may be written from now on: whoever still reads it races with the copy.
            let access =
                Access { lane, pc, space: Space::Shared, address: to[lane], bytes: *bytes, how: Use::Write };
            let old = self.shared_now(to[lane], *bytes);
            self.write(warp, &access, &old)?;
            self.flight(to[lane] as usize, *bytes, true);
            warp.copies.of(lane).open.push(InFlight { to: to[lane], data });
        }
        Ok(())
    }

    /// The bytes that are there, or as many of any: bounds are checked by whoever writes.
    fn shared_now(&self, offset: u64, bytes: usize) -> Vec<u8> {
        let start = offset as usize;
        let now = start.checked_add(bytes).and_then(|end| self.shared.bytes.get(start..end));
        now.map_or_else(|| vec![0; bytes], <[u8]>::to_vec)
    }

    /// Lets all but the newest groups of each lane arrive.
    pub(super) fn copy_wait(
        &mut self,
        warp: &mut Warp,
        pc: u32,
        mask: u32,
        keep: usize,
        all: bool,
    ) -> Result<(), Stop> {
        for lane in lanes(mask) {
            loop {
                let begun = warp.copies.of(lane);
                let ready = begun.groups.len() > keep;
                let group = if ready { begun.groups.pop_front() } else { None };
                let Some(group) = group
                    .or_else(|| (all && !begun.open.is_empty()).then(|| std::mem::take(&mut begun.open)))
                else {
                    break;
                };
                for InFlight { to, data } in group {
                    self.flight(to as usize, data.len(), false);
                    let access = Access {
                        lane,
                        pc,
                        space: Space::Shared,
                        address: to,
                        bytes: data.len(),
                        how: Use::Write,
                    };
                    self.write(warp, &access, &data)?;
                }
            }
        }
        Ok(())
    }
}
