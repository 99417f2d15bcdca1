//! A warp: registers, and the groups of lanes that are at the same instruction.

use super::copy::Copies;
use super::{LANES, Lanes};
use crate::module::Kernel;

/// Lanes at one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub pc: u32,
    pub lanes: u32,
}

/// Lanes that wait at a warp-wide instruction for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub pc: u32,
    pub lanes: u32,
    pub members: u32,
}

pub(super) struct Warp {
    pub index: usize,
    pub registers: Vec<Lanes>,
    pub ready: Vec<Group>,
    pub waiting: Vec<Waiting>,
    pub at_barrier: Vec<Group>,
    /// Lanes that have returned, and those a block of odd size never had.
    pub gone: u32,
    /// The carry of each lane.
    pub carry: u32,
    /// Local memory, lane after lane.
    pub local: Vec<u8>,
    pub copies: Copies,
    /// Barriers of this warp so far, and what each lane knows of the others: `known[a][b]` is the time up to which what b did
    /// happened before what a does.
    pub time: u32,
    pub known: Box<[[u32; LANES]; LANES]>,
}

impl Warp {
    pub(super) fn new(kernel: &Kernel, index: usize) -> Self {
        Self {
            index,
            registers: vec![[0; LANES]; kernel.registers.len()],
            ready: Vec::new(),
            waiting: Vec::new(),
            at_barrier: Vec::new(),
            gone: 0,
            carry: 0,
            local: vec![0; kernel.local_bytes * LANES],
            copies: Copies::default(),
            time: 1,
            known: Box::new([[0; LANES]; LANES]),
        }
    }

    /// At the first instruction of a block of so many threads.
    pub(super) fn start(&mut self, threads: usize) {
        let lanes = (threads - self.index * LANES).min(LANES);
        let lanes = if lanes == LANES { u32::MAX } else { (1 << lanes) - 1 };
        self.ready = vec![Group { pc: 0, lanes }];
        self.gone = !lanes;
        self.copies = Copies::default();
        if self.time > 1 {
            self.time = 1;
            self.known.iter_mut().for_each(|lane| lane.fill(0));
        }
    }

    /// The lanes with the lowest instruction; all that are there. So that lanes that went apart meet again.
    pub(super) fn next_group(&mut self) -> Option<Group> {
        let pc = self.ready.iter().map(|group| group.pc).min()?;
        let mut lanes = 0;
        self.ready.retain(|group| {
            lanes |= if group.pc == pc { group.lanes } else { 0 };
            group.pc != pc
        });
        Some(Group { pc, lanes })
    }

    /// Lanes that wait at this instruction with this mask.
    pub(super) fn waiting_at(&self, pc: u32, members: u32) -> u32 {
        let same = self.waiting.iter().filter(|waiting| waiting.pc == pc && waiting.members == members);
        same.fold(0, |lanes, waiting| lanes | waiting.lanes)
    }

    /// A warp-wide instruction for which all its lanes have come.
    pub(super) fn complete(&mut self) -> Option<Group> {
        let ready = |waiting: &&Waiting| self.waiting_at(waiting.pc, waiting.members) == waiting.members;
        let Waiting { pc, members, .. } = *self.waiting.iter().find(ready)?;
        self.waiting.retain(|waiting| !(waiting.pc == pc && waiting.members == members));
        Some(Group { pc, lanes: members })
    }

    /// A barrier of these lanes: what each did before, all know after.
    pub(super) fn meet(&mut self, members: u32) {
        let mut all = [0; LANES];
        for lane in super::lanes(members) {
            for (known, other) in all.iter_mut().zip(self.known[lane]) {
                *known = other.max(*known);
            }
        }
        for lane in super::lanes(members) {
            all[lane] = self.time;
        }
        for lane in super::lanes(members) {
            self.known[lane] = all;
        }
        self.time += 1;
    }

    /// Writes a register of the lanes in the mask; `bits` are those it holds.
    #[inline]
    pub(super) fn set(&mut self, register: u32, bits: u64, mask: u32, values: &Lanes) {
        let place = &mut self.registers[register as usize];
        if mask == u32::MAX {
            for (to, from) in place.iter_mut().zip(values) {
                *to = from & bits;
            }
        } else {
            for lane in super::lanes(mask) {
                place[lane] = values[lane] & bits;
            }
        }
    }
}
