//! Loads, stores and atomics: bounds, alignment, what was written, races.

use super::compute::window;
use super::shadow::{Race, Record, Use, Who};
use super::warp::Warp;
use super::{LANES, LOCAL, Lanes, Machine, SHARED, Stop, lanes};
use crate::fault::FaultKind;
use crate::memory::Written;
use crate::module::VARIABLES;
use crate::number::{f32_of, low, of_f32, signed};
use crate::op::{Action, Op};
use crate::scalar::{Scalar, Space};

/// Bytes of the widest access.
const WIDEST: usize = 16;

/// One access of one lane.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub lane: usize,
    pub pc: u32,
    pub space: Space,
    pub address: u64,
    pub bytes: usize,
    pub how: Use,
}

impl Machine<'_> {
    pub(super) fn load(&mut self, warp: &mut Warp, pc: u32, mask: u32, op: &Op) -> Result<(), Stop> {
        let Op::Load { space, scalar, dsts, address, strong } = op else { return Ok(()) };
        let addresses = self.addresses(warp, address);
        let (element, bytes) = (scalar.bytes(), scalar.bytes() * dsts.len());
        self.count(*space, mask, &addresses, bytes);
        let how = if *strong { Use::Atomic } else { Use::Read };
        for lane in lanes(mask) {
            let access = Access { lane, pc, space: *space, address: addresses[lane], bytes, how };
            let data = self.read(warp, &access)?;
            for (at, dst) in dsts.iter().enumerate() {
                let Some(dst) = dst else { continue };
                let value = number(&data[at * element..(at + 1) * element]);
                // A register wider than the type is filled with the sign.
                let value = if scalar.is_signed() { signed(value, element) as u64 } else { value };
                warp.registers[*dst as usize][lane] = value & self.masks[*dst as usize];
            }
        }
        Ok(())
    }

    pub(super) fn store(&mut self, warp: &mut Warp, pc: u32, mask: u32, op: &Op) -> Result<(), Stop> {
        let Op::Store { space, scalar, sources, address, strong } = op else { return Ok(()) };
        let addresses = self.addresses(warp, address);
        let (element, bytes) = (scalar.bytes(), scalar.bytes() * sources.len());
        self.count(*space, mask, &addresses, bytes);
        let mut data = [[0; WIDEST]; LANES];
        for (at, source) in sources.iter().enumerate() {
            let values = self.values(warp, *source);
            for lane in lanes(mask) {
                data[lane][at * element..(at + 1) * element]
                    .copy_from_slice(&values[lane].to_le_bytes()[..element]);
            }
        }
        let how = if *strong { Use::Atomic } else { Use::Write };
        for lane in lanes(mask) {
            let access = Access { lane, pc, space: *space, address: addresses[lane], bytes, how };
            self.write(warp, &access, &data[lane][..bytes])?;
        }
        Ok(())
    }

    pub(super) fn atomic(&mut self, warp: &mut Warp, pc: u32, mask: u32, op: &Op) -> Result<(), Stop> {
        let Op::Atomic { space, scalar, action, dst, address, sources } = op else { return Ok(()) };
        let addresses: Lanes = self.addresses(warp, address);
        let [first, second] = sources.map(|source| self.values(warp, source));
        let bytes = scalar.bytes();
        self.count(*space, mask, &addresses, bytes);
        self.counters.atomics += u64::from(mask.count_ones());
        for lane in lanes(mask) {
            let access =
                Access { lane, pc, space: *space, address: addresses[lane], bytes, how: Use::Atomic };
            let old = number(&self.read(warp, &access)?[..bytes]);
            let new = act(*action, *scalar, old, first[lane], second[lane]);
            self.write(warp, &access, &new.to_le_bytes()[..bytes])?;
            if let Some(dst) = dst {
                warp.registers[*dst as usize][lane] = old & self.masks[*dst as usize];
            }
        }
        Ok(())
    }

    /// The bytes of one lane's access, after all checks.
    pub(super) fn read(&mut self, warp: &Warp, access: &Access) -> Result<[u8; WIDEST], Stop> {
        let Access { pc, bytes, .. } = *access;
        let mut data = [0; WIDEST];
        match self.place(warp, access)? {
            Place::Global(at, offset) => {
                let allocation = &self.memory.allocations[at];
                data[..bytes].copy_from_slice(&allocation.bytes[offset..offset + bytes]);
                if self.launch.checks.uninitialised && !allocation.written.all(offset, bytes) {
                    let message = format!(
                        "{bytes} bytes at {:#x} of global memory are read and were never written",
                        access.address
                    );
                    return Err(self.fault(FaultKind::Uninitialised, message, warp, access.lane, pc));
                }
                self.race_global(warp, access, at, offset, false)?;
            }
            Place::Shared(offset) => {
                data[..bytes].copy_from_slice(&self.shared.bytes[offset..offset + bytes]);
                if self.launch.checks.uninitialised && !self.shared.written.all(offset, bytes) {
                    let message = format!(
                        "{bytes} bytes at {offset:#x} of shared memory are read and were never written"
                    );
                    return Err(self.fault(FaultKind::Uninitialised, message, warp, access.lane, pc));
                }
                self.race_shared(warp, access, offset, false)?;
            }
            Place::Local(offset) => data[..bytes].copy_from_slice(&warp.local[offset..offset + bytes]),
            Place::Parameter(offset) => {
                data[..bytes].copy_from_slice(&self.launch.parameters[offset..offset + bytes])
            }
            Place::Variable(offset) => {
                data[..bytes].copy_from_slice(&self.kernel.variables[offset..offset + bytes])
            }
        }
        Ok(data)
    }

    /// Writes the bytes of one lane's access, after all checks.
    pub(super) fn write(&mut self, warp: &mut Warp, access: &Access, data: &[u8]) -> Result<(), Stop> {
        let bytes = data.len();
        match self.place(warp, access)? {
            Place::Global(at, offset) => {
                let allocation = &mut self.memory.allocations[at];
                let place = &mut allocation.bytes[offset..offset + bytes];
                let same = place == data;
                place.copy_from_slice(data);
                allocation.written.set(offset, bytes);
                self.race_global(warp, access, at, offset, same)
            }
            Place::Shared(offset) => {
                let place = &mut self.shared.bytes[offset..offset + bytes];
                let same = place == data;
                place.copy_from_slice(data);
                self.shared.written.set(offset, bytes);
                self.race_shared(warp, access, offset, same)
            }
            Place::Local(offset) => {
                warp.local[offset..offset + bytes].copy_from_slice(data);
                Ok(())
            }
            Place::Parameter(_) | Place::Variable(_) => {
                let message = "a write to a parameter, a constant or a variable of the module".to_string();
                Err(self.fault(FaultKind::ReadOnly, message, warp, access.lane, access.pc))
            }
        }
    }

    /// Where an access goes, if it may.
    fn place(&mut self, warp: &Warp, access: &Access) -> Result<Place, Stop> {
        let Access { lane, pc, space, address, bytes, .. } = *access;
        if address % bytes as u64 != 0 {
            let message = format!("{bytes} bytes at {address:#x}, which is no multiple of {bytes}");
            return Err(self.fault(FaultKind::Misaligned, message, warp, lane, pc));
        }
        let space = if space == Space::Generic { window(address) } else { space };
        let within = |start: u64, size: usize| {
            let offset = if address >= start { address - start } else { address };
            let end = offset.checked_add(bytes as u64)?;
            (end <= size as u64).then_some(offset as usize)
        };
        let local = self.kernel.local_bytes;
        let found = match space {
            Space::Shared => within(SHARED, self.shared.bytes.len()).map(Place::Shared),
            Space::Local => within(LOCAL, local).map(|offset| Place::Local(lane * local + offset)),
            Space::Parameter => within(0, self.launch.parameters.len()).map(Place::Parameter),
            _ if address >= VARIABLES => within(VARIABLES, self.kernel.variables.len()).map(Place::Variable),
            _ => {
                let hint = &mut self.hints[pc as usize];
                self.memory.locate(address, bytes as u64, hint).map(|(at, offset)| Place::Global(at, offset))
            }
        };
        found.ok_or_else(|| {
            let of = match space {
                Space::Shared => {
                    format!("shared memory, of which there are {} bytes", self.shared.bytes.len())
                }
                Space::Local => format!("local memory, of which there are {local} bytes"),
                Space::Parameter => "the parameters".to_string(),
                _ => "global memory, where nothing is allocated".to_string(),
            };
            let what = if access.how == Use::Read { "a read" } else { "a write" };
            let message = format!("{what} of {bytes} bytes at {address:#x} of {of}");
            self.fault(FaultKind::OutOfBounds, message, warp, lane, pc)
        })
    }

    fn race_global(
        &mut self,
        warp: &Warp,
        access: &Access,
        at: usize,
        offset: usize,
        same: bool,
    ) -> Result<(), Stop> {
        if !self.launch.checks.global_races {
            return Ok(());
        }
        let grain = self.kernel.grain;
        let who = self.who(warp, access.lane, self.first_epoch);
        let allocation = &mut self.memory.allocations[at];
        if allocation.grain != grain {
            allocation.grain = grain;
            allocation.records = vec![Record::default(); allocation.bytes.len().div_ceil(grain)];
        }
        let records = &mut allocation.records[offset / grain..(offset + access.bytes).div_ceil(grain)];
        let race = note(records, access.how, &who, same);
        race.map_or(Ok(()), |race| Err(self.raced(warp, access, "global", access.address, race)))
    }

    pub(super) fn race_shared(
        &mut self,
        warp: &Warp,
        access: &Access,
        offset: usize,
        same: bool,
    ) -> Result<(), Stop> {
        if self.shared.flights > 0 && self.shared.in_flight.any(offset, access.bytes) {
            let message = format!(
                "{} bytes at {offset:#x} of shared memory are used while an asynchronous copy writes them",
                access.bytes
            );
            return Err(self.fault(FaultKind::CopyInFlight, message, warp, access.lane, access.pc));
        }
        if !self.launch.checks.shared_races {
            return Ok(());
        }
        let grain = self.kernel.grain;
        // Another block has shared memory of its own.
        let who = self.who(warp, access.lane, self.block_epoch);
        let records = &mut self.shared.records[offset / grain..(offset + access.bytes).div_ceil(grain)];
        let race = note(records, access.how, &who, same);
        race.map_or(Ok(()), |race| Err(self.raced(warp, access, "shared", offset as u64, race)))
    }

    fn who<'w>(&self, warp: &'w Warp, lane: usize, grid_epoch: u64) -> Who<'w> {
        Who {
            thread: (warp.index * LANES + lane) as u16,
            epoch: self.memory.epoch,
            block_epoch: self.block_epoch,
            grid_epoch,
            time: warp.time,
            known: &warp.known[lane],
        }
    }

    fn raced(&self, warp: &Warp, access: &Access, memory: &str, address: u64, race: Race) -> Stop {
        let verb = match access.how {
            Use::Read => "read",
            Use::Write => "written",
            Use::Atomic => "updated",
        };
        let other = match race.thread {
            Some(thread) => {
                let [x, y, z] = self.thread(u32::from(thread));
                format!("thread ({x}, {y}, {z})")
            }
            None => "another block".to_string(),
        };
        let Race { before, .. } = race;
        let message = format!(
            "a race: {memory} memory at {address:#x} is {verb}, {other} has {before} it, and no barrier is between"
        );
        self.fault(FaultKind::Race, message, warp, access.lane, access.pc)
    }

    /// Bytes of shared memory that a copy is going to write, or has written.
    pub(super) fn flight(&mut self, offset: usize, bytes: usize, begins: bool) {
        let in_flight: &mut Written = &mut self.shared.in_flight;
        if begins {
            in_flight.set(offset, bytes);
            self.shared.flights += 1;
        } else {
            in_flight.unset(offset, bytes);
            self.shared.flights = self.shared.flights.saturating_sub(1);
        }
    }
}

enum Place {
    Global(usize, usize),
    Shared(usize),
    Local(usize),
    Parameter(usize),
    Variable(usize),
}

fn note(records: &mut [Record], how: Use, who: &Who<'_>, same: bool) -> Option<Race> {
    let mut found = None;
    for record in records {
        found = record.note(how, who, same).or(found);
    }
    found
}

/// Up to eight bytes as a number.
#[inline]
fn number(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(all)
}

/// The new value of an atomic.
pub(super) fn act(action: Action, scalar: Scalar, old: u64, operand: u64, swap: u64) -> u64 {
    let bytes = scalar.bytes();
    let less = match scalar.is_signed() {
        true => signed(old, bytes) < signed(operand, bytes),
        false => low(old, bytes) < low(operand, bytes),
    };
    let new = match action {
        Action::Add => match scalar {
            Scalar::F32 => of_f32(f32_of(old) + f32_of(operand)),
            Scalar::F64 => (f64::from_bits(old) + f64::from_bits(operand)).to_bits(),
            _ => old.wrapping_add(operand),
        },
        Action::Min => {
            if less {
                old
            } else {
                operand
            }
        }
        Action::Max => {
            if less {
                operand
            } else {
                old
            }
        }
        Action::And => old & operand,
        Action::Or => old | operand,
        Action::Xor => old ^ operand,
        Action::Exchange => operand,
        Action::CompareAndSwap => {
            if low(old, bytes) == low(operand, bytes) {
                swap
            } else {
                old
            }
        }
        Action::Increment => {
            if low(old, bytes) >= low(operand, bytes) {
                0
            } else {
                old + 1
            }
        }
        Action::Decrement => {
            if low(old, bytes) == 0 || low(old, bytes) > low(operand, bytes) {
                operand
            } else {
                old - 1
            }
        }
    };
    low(new, bytes)
}
