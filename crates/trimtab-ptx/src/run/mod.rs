//! Running a grid: blocks one after the other, the warps of a block in turns from barrier to barrier.

mod access;
mod compute;
mod convert;
mod copy;
mod count;
mod float;
mod shadow;
mod step;
mod tensor;
mod together;
mod warp;

use crate::counters::Counters;
use crate::fault::{Fault, FaultKind};
use crate::launch::GridLaunch;
use crate::memory::{GlobalMemory, Written};
use crate::module::Kernel;
pub(crate) use shadow::Record;
use warp::{Group, Warp};

/// Lanes of a warp.
const LANES: usize = 32;
/// A value of each lane.
type Lanes = [u64; LANES];
/// How a kernel that made a mistake stops.
type Stop = Box<Fault>;

/// Where generic addresses of shared and local memory lie: above what processors give to programs, so that memory may lie where the host's does.
const SHARED: u64 = 0x00ff_0000_0000_0000;
const LOCAL: u64 = 0x00fe_0000_0000_0000;
/// How large each of these windows is.
const WINDOW: u64 = 1 << 32;

pub(crate) fn grid(
    kernel: &Kernel,
    memory: &mut GlobalMemory,
    launch: &GridLaunch,
) -> Result<Counters, Stop> {
    let shared_bytes = kernel.shared_bytes + launch.dynamic_shared;
    memory.epoch += 1;
    let mut machine = Machine {
        kernel,
        launch,
        counters: Counters::default(),
        block: [0; 3],
        first_epoch: memory.epoch,
        block_epoch: memory.epoch,
        masks: kernel
            .registers
            .iter()
            .map(|bytes| crate::number::low(u64::MAX, usize::from(*bytes)))
            .collect(),
        shared: SharedMemory {
            bytes: vec![0xcd; shared_bytes],
            written: Written::new(shared_bytes),
            in_flight: Written::new(shared_bytes),
            flights: 0,
            records: vec![Record::default(); shared_bytes.div_ceil(kernel.grain)],
        },
        hints: vec![0; kernel.instructions.len()],
        memory,
    };
    let threads = launch.block.iter().product::<u32>() as usize;
    let mut warps: Vec<Warp> = (0..threads.div_ceil(LANES)).map(|index| Warp::new(kernel, index)).collect();
    for z in 0..launch.grid[2] {
        for y in 0..launch.grid[1] {
            for x in 0..launch.grid[0] {
                machine.start([x, y, z]);
                for warp in &mut warps {
                    warp.start(threads);
                }
                machine.run_block(&mut warps, threads)?;
            }
        }
    }
    Ok(machine.counters)
}

/// Shared memory of the block that runs.
struct SharedMemory {
    bytes: Vec<u8>,
    written: Written,
    /// Bytes that asynchronous copies are going to write.
    in_flight: Written,
    flights: usize,
    records: Vec<Record>,
}

/// All that the threads of a grid share.
struct Machine<'a> {
    kernel: &'a Kernel,
    launch: &'a GridLaunch,
    memory: &'a mut GlobalMemory,
    counters: Counters,
    block: [u32; 3],
    first_epoch: u64,
    block_epoch: u64,
    /// The bits each register holds.
    masks: Vec<u64>,
    shared: SharedMemory,
    /// The allocation each instruction found last.
    hints: Vec<u32>,
}

impl Machine<'_> {
    fn start(&mut self, block: [u32; 3]) {
        self.block = block;
        self.counters.blocks += 1;
        self.memory.epoch += 1;
        self.block_epoch = self.memory.epoch;
        self.shared.written.clear();
        if self.shared.flights > 0 {
            self.shared.in_flight.clear();
            self.shared.flights = 0;
        }
    }

    fn run_block(&mut self, warps: &mut [Warp], threads: usize) -> Result<(), Stop> {
        loop {
            for warp in warps.iter_mut() {
                self.run_warp(warp)?;
            }
            if let Some((warp, stuck)) = warps.iter().find_map(|warp| Some((warp, warp.waiting.first()?))) {
                let missing = stuck.members & !warp.waiting_at(stuck.pc, stuck.members);
                let lanes = Members(missing);
                let message = format!(
                    "a warp-wide instruction waits for lanes {lanes} of its mask, which never arrive"
                );
                return Err(self.fault(FaultKind::Deadlock, message, warp, first(stuck.lanes), stuck.pc));
            }
            let waiting: Vec<(&Warp, Group)> = warps
                .iter()
                .flat_map(|warp| warp.at_barrier.iter().map(move |group| (warp, *group)))
                .collect();
            let Some((warp, at)) = waiting.first().copied() else { return Ok(()) };
            let there: u32 = waiting.iter().map(|(_, group)| group.lanes.count_ones()).sum();
            if let Some((other, group)) = waiting.iter().find(|(_, group)| group.pc != at.pc) {
                let line = self.kernel.instructions[at.pc as usize].line;
                let message =
                    format!("threads of one block wait at different barriers, others at PTX line {line}");
                return Err(self.fault(FaultKind::Barrier, message, other, first(group.lanes), group.pc));
            }
            if there as usize != threads && self.launch.checks.exited_at_barrier {
                let message =
                    format!("a barrier reached by {there} of {threads} threads; the others have returned");
                return Err(self.fault(FaultKind::Barrier, message, warp, first(at.lanes), at.pc));
            }
            self.counters.barriers += 1;
            self.memory.epoch += 1;
            for warp in warps.iter_mut() {
                for group in std::mem::take(&mut warp.at_barrier) {
                    warp.ready.push(Group { pc: group.pc + 1, ..group });
                }
            }
        }
    }

    fn fault(&self, kind: FaultKind, message: String, warp: &Warp, lane: usize, pc: u32) -> Stop {
        let instruction = &self.kernel.instructions[pc as usize];
        Box::new(Fault {
            kind,
            message,
            kernel: self.kernel.name.clone(),
            block: self.block,
            thread: self.thread((warp.index * LANES + lane) as u32),
            line: instruction.line,
            source_line: Some(instruction.source).filter(|line| *line > 0),
            statement: self.kernel.lines.get(instruction.line as usize - 1).cloned().unwrap_or_default(),
        })
    }

    /// The index of a thread by its number in the block.
    fn thread(&self, number: u32) -> [u32; 3] {
        let [x, y, _] = self.launch.block;
        [number % x, number / x % y, number / x / y]
    }
}

/// The lanes of a mask, for people.
struct Members(u32);

impl std::fmt::Display for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lanes: Vec<String> = lanes(self.0).map(|lane| lane.to_string()).collect();
        f.write_str(&lanes.join(", "))
    }
}

/// The lanes of a mask.
#[inline]
fn lanes(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (lane < LANES).then_some(lane)
    })
}

fn first(mask: u32) -> usize {
    mask.trailing_zeros().min(31) as usize
}
