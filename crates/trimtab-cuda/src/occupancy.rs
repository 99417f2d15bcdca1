//! How many blocks of a compiled kernel a multiprocessor holds, by NVIDIA's own formula, and what limits them.
//!
//! `cargo xtask cuda` compares it with NVIDIA's calculator (`cuda_occupancy.h`) on a million random points.

/// Threads of a warp.
const WARP: u32 = 32;
/// Registers are given out to warps in portions of this many.
const REGISTER_PORTION: u32 = 256;
/// Parts of a multiprocessor, each with a quarter of the registers.
const PARTS: u32 = 4;
/// Most registers of a thread.
const MOST_REGISTERS: u32 = 255;
/// Most threads of a block.
const MOST_THREADS: u32 = 1024;

/// What a multiprocessor holds: the driver tells all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiprocessor {
    /// The compute capability: 86 for 8.6.
    pub capability: u32,
    /// Threads at once.
    pub threads: u32,
    /// Blocks at once.
    pub blocks: u32,
    /// Registers.
    pub registers: u32,
    /// Registers of one block at most.
    pub block_registers: u32,
    /// Bytes of shared memory.
    pub shared_bytes: u32,
    /// Bytes of shared memory of one block at most, unless it asks for more.
    pub block_shared_bytes: u32,
    /// Bytes of shared memory of one block that asks.
    pub opt_in_shared_bytes: u32,
    /// Bytes of shared memory each block loses to the system.
    pub reserved_shared_bytes: u32,
}

/// What the compiler made of a kernel, and the block it is launched with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Threads of a block.
    pub threads: u32,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of shared memory of a block, declared and dynamic.
    pub shared_bytes: u32,
    /// Named barriers of a block.
    pub barriers: u32,
}

/// What keeps more blocks from running at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitedBy {
    /// Threads of the multiprocessor.
    Threads,
    /// Its blocks.
    Blocks,
    /// Its registers.
    Registers,
    /// Its shared memory.
    SharedMemory,
    /// Its barriers.
    Barriers,
}

impl std::fmt::Display for LimitedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            LimitedBy::Threads => "threads",
            LimitedBy::Blocks => "blocks",
            LimitedBy::Registers => "registers",
            LimitedBy::SharedMemory => "shared memory",
            LimitedBy::Barriers => "barriers",
        })
    }
}

/// How full a multiprocessor gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Blocks at once; zero if the kernel cannot be launched so.
    pub blocks: u32,
    /// Warps at once.
    pub warps: u32,
    /// Warps the multiprocessor could hold.
    pub most_warps: u32,
    /// What keeps more from running.
    pub limited_by: LimitedBy,
}

impl Occupancy {
    /// Warps that run of those that could.
    pub fn fraction(&self) -> f64 {
        f64::from(self.warps) / f64::from(self.most_warps.max(1))
    }
}

impl Multiprocessor {
    /// The one of a compute capability, where it is known: what tools assume that have no device to ask. At run time the driver is asked.
    pub fn of(capability: u32) -> Option<Multiprocessor> {
        let (threads, blocks, shared_bytes) = match capability {
            75 => (1024, 16, 64),
            80 => (2048, 32, 164),
            86 => (1536, 16, 100),
            87 => (1536, 16, 164),
            89 => (1536, 24, 100),
            90 | 100 | 103 => (2048, 32, 228),
            110 => (1536, 24, 228),
            120 | 121 => (1536, 24, 100),
            _ => return None,
        };
        let shared_bytes = shared_bytes << 10;
        let reserved_shared_bytes = if capability < 80 { 0 } else { 1024 };
        Some(Multiprocessor {
            capability,
            threads,
            blocks,
            registers: 1 << 16,
            block_registers: 1 << 16,
            shared_bytes,
            block_shared_bytes: 48 << 10,
            opt_in_shared_bytes: shared_bytes - reserved_shared_bytes,
            reserved_shared_bytes,
        })
    }

    /// Barriers at once, where they are counted.
    fn barriers(&self) -> Option<u32> {
        match self.capability {
            ..90 => None,
            90 | 100 => Some(64),
            103 => Some(32),
            _ => Some(24),
        }
    }

    /// How many blocks run at once.
    pub fn occupancy(&self, usage: &Usage) -> Occupancy {
        let most_warps = self.threads / WARP;
        let none = |limited_by| Occupancy { blocks: 0, warps: 0, most_warps, limited_by };
        if usage.threads == 0 || usage.threads > MOST_THREADS {
            return none(LimitedBy::Threads);
        }
        let warps = usage.threads.div_ceil(WARP);
        let a_warp = (usage.registers.saturating_mul(WARP)).next_multiple_of(REGISTER_PORTION);
        let a_block = a_warp.saturating_mul(warps.next_multiple_of(PARTS));
        if usage.registers > MOST_REGISTERS || a_block > self.block_registers {
            return none(LimitedBy::Registers);
        }
        let portion = if self.capability < 80 { 256 } else { 128 };
        let reserved = self.reserved_shared_bytes;
        let shared =
            usage.shared_bytes.saturating_add(reserved).min(u32::MAX - portion).next_multiple_of(portion);
        let most = if usage.shared_bytes > self.block_shared_bytes {
            self.opt_in_shared_bytes
        } else {
            self.block_shared_bytes
        };
        if shared > most + reserved {
            return none(LimitedBy::SharedMemory);
        }
        let by_registers = (self.registers / PARTS).checked_div(a_warp).map(|each| each * PARTS / warps);
        let limits = [
            (Some(most_warps / warps), LimitedBy::Threads),
            (by_registers, LimitedBy::Registers),
            (self.shared_bytes.checked_div(shared), LimitedBy::SharedMemory),
            (self.barriers().and_then(|barriers| barriers.checked_div(usage.barriers)), LimitedBy::Barriers),
            (Some(self.blocks), LimitedBy::Blocks),
        ];
        let limits = limits.into_iter().filter_map(|(blocks, by)| Some((blocks?, by)));
        let (blocks, limited_by) = limits.min_by_key(|(blocks, _)| *blocks).unwrap_or((0, LimitedBy::Blocks));
        Occupancy { blocks, warps: blocks * warps, most_warps, limited_by }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_scarce_limits() {
        let ampere = Multiprocessor::of(80).unwrap();
        let usage = Usage { threads: 256, registers: 32, shared_bytes: 1024, barriers: 1 };
        for (usage, blocks, limited_by) in [
            (usage, 8, LimitedBy::Threads),
            (Usage { registers: 64, ..usage }, 4, LimitedBy::Registers),
            (Usage { shared_bytes: 40 << 10, ..usage }, 4, LimitedBy::SharedMemory),
            (Usage { threads: 32, ..usage }, 32, LimitedBy::Blocks),
            (Usage { threads: 1024, registers: 128, ..usage }, 0, LimitedBy::Registers),
            (Usage { shared_bytes: 170_000, ..usage }, 0, LimitedBy::SharedMemory),
            (Usage { threads: 1025, ..usage }, 0, LimitedBy::Threads),
        ] {
            let found = ampere.occupancy(&usage);
            assert_eq!((found.blocks, found.limited_by), (blocks, limited_by), "{usage:?}");
        }
        let full = ampere.occupancy(&usage);
        assert_eq!((full.warps, full.fraction()), (64, 1.0));
        let hopper = Multiprocessor::of(90).unwrap();
        let found = hopper.occupancy(&Usage { threads: 32, barriers: 16, ..usage });
        assert_eq!((found.blocks, found.limited_by), (4, LimitedBy::Barriers));
        assert_eq!(Multiprocessor::of(61), None);
    }
}
