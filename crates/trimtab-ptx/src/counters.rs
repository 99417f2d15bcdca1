//! What a launch did, counted as the hardware would count it.

use std::fmt;
use std::ops::AddAssign;

/// Counts of one launch; launches can be added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Blocks that ran.
    pub blocks: u64,
    /// Instructions issued, one for all lanes of a warp that execute it together.
    pub warp_instructions: u64,
    /// Lanes that were there when an instruction was issued, whatever its predicate said.
    pub thread_instructions: u64,
    /// Fused multiply-adds of threads, f32 and f64.
    pub fused_multiply_adds: u64,
    /// Multiplications and additions of tensor-core instructions, each pair counted once.
    pub tensor_multiply_adds: u64,
    /// Loads, stores and atomics of warps to global memory.
    pub global_requests: u64,
    /// 32-byte sectors these touched.
    pub global_sectors: u64,
    /// Bytes threads asked for in these.
    pub global_bytes: u64,
    /// Loads and stores of warps to shared memory.
    pub shared_requests: u64,
    /// Passes over the 32 banks these need.
    pub shared_wavefronts: u64,
    /// Passes they would need without bank conflicts.
    pub shared_wavefronts_ideal: u64,
    /// Barriers of blocks.
    pub barriers: u64,
    /// Shuffles of warps.
    pub shuffles: u64,
    /// Atomic operations of threads.
    pub atomics: u64,
}

impl Counters {
    /// The part of the lanes that were at the same instruction: 1 without divergence, in blocks of whole warps.
    pub fn simt_efficiency(&self) -> f64 {
        ratio(self.thread_instructions, 32 * self.warp_instructions)
    }

    /// The part of the moved sectors that was asked for. Above 1 where threads share what they load.
    pub fn coalescing(&self) -> f64 {
        ratio(self.global_bytes, 32 * self.global_sectors)
    }

    /// Passes over the banks for each that is needed: 1 without bank conflicts.
    pub fn bank_conflicts(&self) -> f64 {
        ratio(self.shared_wavefronts, self.shared_wavefronts_ideal)
    }
}

/// Nothing of nothing is all of it.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.warp_instructions += other.warp_instructions;
        self.thread_instructions += other.thread_instructions;
        self.fused_multiply_adds += other.fused_multiply_adds;
        self.tensor_multiply_adds += other.tensor_multiply_adds;
        self.global_requests += other.global_requests;
        self.global_sectors += other.global_sectors;
        self.global_bytes += other.global_bytes;
        self.shared_requests += other.shared_requests;
        self.shared_wavefronts += other.shared_wavefronts;
        self.shared_wavefronts_ideal += other.shared_wavefronts_ideal;
        self.barriers += other.barriers;
        self.shuffles += other.shuffles;
        self.atomics += other.atomics;
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} instructions of warps, {:.0} % of lanes active; global memory: {} requests, {} sectors, {:.0} % of them asked for; \
             shared memory: {} requests, {:.2} passes for each needed; {} fused and {} tensor multiply-adds, {} barriers",
            self.warp_instructions,
            100.0 * self.simt_efficiency(),
            self.global_requests,
            self.global_sectors,
            100.0 * self.coalescing(),
            self.shared_requests,
            self.bank_conflicts(),
            self.fused_multiply_adds,
            self.tensor_multiply_adds,
            self.barriers,
        )
    }
}
