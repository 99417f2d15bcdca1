//! One instruction after the other: which lanes, where they go next.

use super::warp::{Group, Waiting, Warp};
use super::{LANES, Lanes, Machine, Stop, compute, first, lanes};
use crate::fault::FaultKind;
use crate::number::{low, signed};
use crate::op::{Carry, Function, Op, Together, Whole};
use crate::operand::{Address, Origin, Special};
use crate::scalar::Scalar;

impl Machine<'_> {
    /// Runs a warp until all its lanes have returned or wait.
    pub(super) fn run_warp(&mut self, warp: &mut Warp) -> Result<(), Stop> {
        loop {
            if let Some(group) = warp.next_group() {
                self.run_group(warp, group)?;
            } else if let Some(Group { pc, lanes }) = warp.complete() {
                if let Op::Together { what, .. } = &self.kernel.instructions[pc as usize].op {
                    self.together(warp, pc, lanes, what)?;
                }
                warp.ready.push(Group { pc: pc + 1, lanes });
            } else {
                return Ok(());
            }
        }
    }

    /// Runs lanes as long as no others are behind them.
    fn run_group(&mut self, warp: &mut Warp, mut group: Group) -> Result<(), Stop> {
        let kernel = self.kernel;
        let mut limit = warp.ready.iter().map(|other| other.pc).min().unwrap_or(u32::MAX);
        while group.pc < limit {
            let Some(instruction) = kernel.instructions.get(group.pc as usize) else { return Ok(()) };
            let Group { pc, lanes } = group;
            let mut mask = lanes;
            if let Some(guard) = instruction.guard {
                let values = &warp.registers[guard.register as usize];
                let ones = values
                    .iter()
                    .enumerate()
                    .fold(0u32, |ones, (lane, value)| ones | (u32::from(*value != 0) << lane));
                mask &= if guard.negated { !ones } else { ones };
            }
            self.counters.warp_instructions += 1;
            self.counters.thread_instructions += u64::from(lanes.count_ones());
            if self.counters.warp_instructions > self.launch.limits.instructions {
                let message = format!("more than {} instructions", self.launch.limits.instructions);
                return Err(self.fault(FaultKind::TooLong, message, warp, first(lanes), pc));
            }
            let rest = lanes & !mask;
            group.pc += 1;
            match &instruction.op {
                Op::Branch(target) if rest == 0 => group.pc = *target,
                Op::Branch(target) if mask != 0 => {
                    warp.ready.push(Group { pc: *target, lanes: mask });
                    group.lanes = rest;
                    limit = limit.min(*target);
                }
                _ if mask == 0 => {}
                Op::Exit => {
                    warp.gone |= mask;
                    group.lanes = rest;
                }
                Op::Trap => {
                    return Err(self.fault(FaultKind::Trap, "trap".to_string(), warp, first(mask), pc));
                }
                Op::Barrier { id, threads } => {
                    self.check_barrier(warp, pc, mask, *id, *threads)?;
                    warp.at_barrier.push(Group { pc, lanes: mask });
                    group.lanes = rest;
                }
                Op::Together { what, members } => {
                    if !self.arrive(warp, pc, mask, *members, what)? {
                        group.lanes = rest;
                    }
                }
                op => self.execute(warp, pc, mask, op)?,
            }
            if group.lanes == 0 {
                return Ok(());
            }
        }
        warp.ready.push(group);
        Ok(())
    }

    /// Barriers of a part of the block, and barriers whose number differs, are not modelled: they stop here.
    fn check_barrier(
        &mut self,
        warp: &Warp,
        pc: u32,
        mask: u32,
        id: Origin,
        threads: Option<Origin>,
    ) -> Result<(), Stop> {
        let all = self.launch.block.iter().product::<u32>();
        let (ids, counts) = (self.values(warp, id), threads.map(|threads| self.values(warp, threads)));
        for lane in lanes(mask) {
            if ids[lane] != ids[first(mask)] || ids[lane] > 15 {
                let message = format!("lanes of one warp at barrier {} and {}", ids[first(mask)], ids[lane]);
                return Err(self.fault(FaultKind::Barrier, message, warp, lane, pc));
            }
            if let Some(count) = counts.map(|counts| counts[lane]).filter(|count| *count != u64::from(all)) {
                let message = format!("a barrier of {count} of {all} threads, which is not modelled");
                return Err(self.fault(FaultKind::Barrier, message, warp, lane, pc));
            }
        }
        Ok(())
    }

    /// Whether a warp-wide instruction was executed; otherwise its lanes wait for others.
    fn arrive(
        &mut self,
        warp: &mut Warp,
        pc: u32,
        mask: u32,
        members: Origin,
        what: &Together,
    ) -> Result<bool, Stop> {
        let named = self.values(warp, members);
        for lane in lanes(mask) {
            if named[lane] >> lane & 1 == 0 {
                let message =
                    format!("a warp-wide instruction by a lane its mask {:#x} does not name", named[lane]);
                return Err(self.fault(FaultKind::Mask, message, warp, lane, pc));
            }
        }
        // Lanes that have returned are not waited for.
        let members = |lane: usize| named[lane] as u32 & !warp.gone;
        if lanes(mask).all(|lane| members(lane) == mask) {
            self.together(warp, pc, mask, what)?;
            return Ok(true);
        }
        let arrived: Vec<Waiting> =
            lanes(mask).map(|lane| Waiting { pc, lanes: 1 << lane, members: members(lane) }).collect();
        warp.waiting.extend(arrived);
        Ok(false)
    }

    fn execute(&mut self, warp: &mut Warp, pc: u32, mask: u32, op: &Op) -> Result<(), Stop> {
        match op {
            Op::Compute { function, dst, sources } => {
                let values = self.compute(warp, pc, mask, *function, sources)?;
                warp.set(*dst, self.masks[*dst as usize], mask, &values);
            }
            Op::Carry { function, scalar, dst, sources, reads, writes } => {
                let [a, b, c] = sources.map(|source| self.values(warp, source));
                let (mut out, mut carries) = ([0; LANES], 0);
                for lane in 0..LANES {
                    let carry = *reads && warp.carry >> lane & 1 == 1;
                    let (value, next) = with_carry(*function, *scalar, a[lane], b[lane], c[lane], carry);
                    out[lane] = value;
                    carries |= u32::from(next) << lane;
                }
                warp.set(*dst, self.masks[*dst as usize], mask, &out);
                if *writes {
                    warp.carry = (warp.carry & !mask) | (carries & mask);
                }
            }
            Op::Pack { dst, parts, bits } => {
                let mut out = [0; LANES];
                for (at, part) in parts.iter().enumerate() {
                    let values = self.values(warp, *part);
                    for (out, value) in out.iter_mut().zip(values) {
                        *out |= low(value, *bits as usize / 8) << (at as u32 * bits);
                    }
                }
                warp.set(*dst, self.masks[*dst as usize], mask, &out);
            }
            Op::Unpack { dsts, source, bits } => {
                let values = self.values(warp, *source);
                for (at, dst) in dsts.iter().enumerate() {
                    let Some(dst) = dst else { continue };
                    let part = values.map(|value| low(value >> (at as u32 * bits), *bits as usize / 8));
                    warp.set(*dst, self.masks[*dst as usize], mask, &part);
                }
            }
            Op::ActiveMask { dst } => warp.set(*dst, u64::MAX, mask, &[u64::from(mask); LANES]),
            Op::Load { .. } => self.load(warp, pc, mask, op)?,
            Op::Store { .. } => self.store(warp, pc, mask, op)?,
            Op::Atomic { .. } => self.atomic(warp, pc, mask, op)?,
            Op::CopyAsync { .. } => self.copy_async(warp, pc, mask, op)?,
            Op::CopyCommit => warp.copies.commit(mask),
            Op::CopyWait { keep, all } => self.copy_wait(warp, pc, mask, *keep, *all)?,
            Op::Nothing | Op::Branch(_) | Op::Exit | Op::Trap | Op::Barrier { .. } | Op::Together { .. } => {}
        }
        Ok(())
    }

    fn compute(
        &mut self,
        warp: &Warp,
        pc: u32,
        mask: u32,
        function: Function,
        sources: &[Origin; 4],
    ) -> Result<Lanes, Stop> {
        match function {
            Function::Float(crate::op::FloatOp::Fused, _)
            | Function::Double(crate::op::FloatOp::Fused, _) => {
                self.counters.fused_multiply_adds += u64::from(mask.count_ones());
            }
            Function::Whole(Whole::Divide | Whole::Remainder, scalar) => {
                let divisors = self.values(warp, sources[1]);
                if let Some(lane) = lanes(mask).find(|lane| low(divisors[*lane], scalar.bytes()) == 0) {
                    let message = "an integer divided by zero".to_string();
                    return Err(self.fault(FaultKind::DivisionByZero, message, warp, lane, pc));
                }
            }
            _ => {}
        }
        let [a, b, c, d] = [0, 1, 2, 3].map(|at| self.values(warp, sources[at]));
        Ok(compute::evaluate(function, &a, &b, &c, &d))
    }

    /// The value of a source in each lane.
    #[inline]
    pub(super) fn values(&self, warp: &Warp, source: Origin) -> Lanes {
        match source {
            Origin::Register(register) => warp.registers[register as usize],
            Origin::Immediate(value) => [value; LANES],
            Origin::Special(special) => self.special(warp, special),
        }
    }

    /// The address each lane means.
    #[inline]
    pub(super) fn addresses(&self, warp: &Warp, address: &Address) -> Lanes {
        let mut addresses = self.values(warp, address.base);
        addresses.iter_mut().for_each(|value| *value = value.wrapping_add(address.offset));
        addresses
    }

    fn special(&self, warp: &Warp, special: Special) -> Lanes {
        let launch = self.launch;
        let each = |value: &dyn Fn(usize) -> u64| std::array::from_fn(value);
        match special {
            Special::Thread(axis) => {
                each(&|lane| u64::from(self.thread((warp.index * LANES + lane) as u32)[axis]))
            }
            Special::Threads(axis) => [u64::from(launch.block[axis]); LANES],
            Special::Block(axis) => [u64::from(self.block[axis]); LANES],
            Special::Blocks(axis) => [u64::from(launch.grid[axis]); LANES],
            Special::Lane => each(&|lane| lane as u64),
            Special::Warp => [warp.index as u64; LANES],
            Special::Warps => [launch.block.iter().product::<u32>().div_ceil(LANES as u32).into(); LANES],
            Special::LanesBelow => each(&|lane| (1 << lane) - 1),
            Special::LanesUpTo => each(&|lane| (2 << lane) - 1),
            Special::LanesAbove => each(&|lane| low(!((2 << lane) - 1), 4)),
            Special::LanesFrom => each(&|lane| low(!((1 << lane) - 1), 4)),
            Special::ThisLane => each(&|lane| 1 << lane),
            Special::Clock => [self.counters.warp_instructions; LANES],
            Special::DynamicShared => [launch.dynamic_shared as u64; LANES],
            Special::TotalShared => [self.shared.bytes.len() as u64; LANES],
        }
    }
}

/// The result and the carry or borrow out of it.
fn with_carry(function: Carry, scalar: Scalar, a: u64, b: u64, c: u64, carry: bool) -> (u64, bool) {
    let bytes = scalar.bytes();
    let wide = |value: u64| u128::from(low(value, bytes));
    let product = || match scalar.is_signed() {
        true => (i128::from(signed(a, bytes)) * i128::from(signed(b, bytes))) as u128,
        false => wide(a) * wide(b),
    };
    let bits = 8 * bytes as u32;
    let sum = match function {
        Carry::Add => wide(a) + wide(b) + u128::from(carry),
        Carry::Subtract => {
            let difference = wide(a).wrapping_sub(wide(b)).wrapping_sub(u128::from(carry));
            return (low(difference as u64, bytes), difference >> 127 == 1);
        }
        Carry::MultiplyAddLow => u128::from(low(product() as u64, bytes)) + wide(c) + u128::from(carry),
        Carry::MultiplyAddHigh => {
            u128::from(low((product() >> bits) as u64, bytes)) + wide(c) + u128::from(carry)
        }
    };
    (low(sum as u64, bytes), sum >> bits & 1 == 1)
}
