//! How fast a device is: moving operands, handing over work, computing. Measured once a process, when first asked for.

mod kept;
mod transfers;

use crate::build::Author;
use crate::engine::{Engine, LONGEST_LAUNCH, Trouble};
use crate::memory::{BufferUse, GpuBuffer};
use crate::open::lock;
use crate::prepare::Prepared;
use crate::program::{BindTarget, Binding, Dispatch, Needs, Program};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use trimtab_core::{Bytes, Nanos, Rates};

/// Invocations of a workgroup of the arithmetic and barrier kernels.
const GROUP: u32 = 64;
/// Invocations of a workgroup of the copying kernels.
const COPY_GROUP: u32 = 256;
/// What one workgroup alone should take while arithmetic is measured: long against the latency of a dispatch.
const ONE_GROUP: Nanos = Nanos(300_000);
/// The sweep over ever more workgroups ends where one launch takes longer.
const SWEEP_LONGEST: Nanos = Nanos::from_millis(8);
/// The most workgroups of the sweep.
const SWEEP_GROUPS: u32 = 16_384;
/// Share of the peak from which on a device counts as filled.
const FILLED: f64 = 0.8;
/// f32 operations of one round of the arithmetic kernel: four chains of `vec4` multiply-adds, four times.
const ROUND_FLOPS: f64 = 128.0;
/// The most rounds of a loop: lavapipe ends an invocation's loops after 65,535 rounds, whatever the text says.
const MOST_ROUNDS: f64 = 60_000.0;
/// Bytes copied to find what memory does: more than the caches of most devices.
const COPY_BYTES: u64 = 64 << 20;
/// Bytes copied again and again to find what caches do.
const CACHED_BYTES: u64 = 512 << 10;
/// Copies in a row, so that handing them over does not count.
const CACHED_RUNS: u32 = 32;
/// Bytes of a copy that is next to nothing but a dispatch.
const LITTLE_BYTES: u64 = 4096;
/// Workgroups of the barrier kernel, and rounds of each.
const BARRIER_GROUPS: u32 = 64;
const BARRIER_ROUNDS: u32 = 128;
/// Times each is measured; the shortest counts.
const REPEATS: usize = 3;

/// The peak is that of the whole device with `vec4` operands. A kernel that says it works on four elements an instruction is
/// credited with all of it, one that loads element by element with a quarter.
const LANES: u32 = 4;

const ARITHMETIC: &str = include_str!("arithmetic.wgsl");
const COPY: &str = include_str!("copy.wgsl");
const BARRIER: &str = include_str!("barrier.wgsl");

/// A small program of one step.
fn program(
    text: impl Into<Cow<'static, str>>,
    group: u32,
    groups: u32,
    params: Vec<u32>,
    needs_input: bool,
) -> Program {
    let mut bindings = vec![Binding::write(BindTarget::Out)];
    if needs_input {
        bindings.push(Binding::read(BindTarget::Input(0)));
    }
    let step = Dispatch {
        text: text.into(),
        constants: vec![],
        needs: Needs::default(),
        workgroup: [group, 1, 1],
        workgroup_bytes: 0,
        groups: [groups, 1, 1],
        bindings,
        params,
    };
    Program { steps: vec![step], scratch: vec![] }
}

/// Buffers rates are measured on.
struct Beds<'a> {
    engine: &'a Engine,
    from: GpuBuffer,
    to: GpuBuffer,
}

impl Beds<'_> {
    fn ready(&self, program: &Program) -> Result<(Prepared, Arc<[wgpu::BindGroup]>), Trouble> {
        let prepared = self.engine.prepare(program, Author::Ours)?;
        let own = self.engine.own(&prepared)?;
        let groups = prepared.bind(self.engine.open()?, &own.with(&[&self.from], &self.to))?;
        Ok((prepared, groups))
    }

    /// Nanoseconds of one run among so many, the shortest of a few after one that does not count.
    fn time(&self, program: &Program, runs: u32) -> Result<f64, Trouble> {
        let (prepared, groups) = self.ready(program)?;
        let unknown = Nanos(1_000_000);
        let first = self.engine.batch(&prepared, &groups, 1, unknown, LONGEST_LAUNCH)?;
        let mut best = f64::INFINITY;
        for _ in 0..REPEATS {
            let ran = self.engine.long_batch(&prepared, &groups, runs, first.time(), LONGEST_LAUNCH);
            let (ran, runs) = ran?;
            best = best.min(ran.time().0.max(1) as f64 / f64::from(runs));
        }
        Ok(best)
    }

    /// Peak in operations a second, and the invocations that reach most of it.
    fn arithmetic(&self, most_groups: u32) -> Result<(f64, u64), Trouble> {
        let work = |groups: u32, rounds: u32| program(ARITHMETIC, GROUP, groups, vec![rounds], false);
        // The first dispatch may compile; the second says how long a round takes.
        let trial = 1_024;
        let took = self.time(&work(1, trial), 1)?;
        let rounds = (f64::from(trial) * ONE_GROUP.0 as f64 / took).clamp(64.0, MOST_ROUNDS) as u32;
        let (mut seen, mut groups): (Vec<(u32, f64)>, u32) = (Vec::new(), 1);
        while groups <= most_groups.min(SWEEP_GROUPS) {
            let took = self.time(&work(groups, rounds), 1)?;
            let flops = ROUND_FLOPS * f64::from(rounds) * f64::from(groups * GROUP);
            seen.push((groups, flops / took * 1e9));
            if took > SWEEP_LONGEST.0 as f64 {
                break;
            }
            groups *= 2;
        }
        let peak = seen.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        let filled = seen.iter().find(|(_, rate)| *rate >= FILLED * peak).map_or(1, |(groups, _)| *groups);
        Ok((peak, u64::from(filled * GROUP)))
    }
}

impl Engine {
    /// The rates; all zero, which is unknown, while the device cannot be used.
    pub(crate) fn rates(&self) -> Rates {
        if let Some(known) = self.rates.get() {
            return *known;
        }
        let _alone = lock(&self.measuring);
        self.measured.store(true, Ordering::Relaxed);
        match self.measure_rates() {
            Ok(measured) => *self.rates.get_or_init(|| measured),
            Err(_) => Rates { lanes: LANES, ..Rates::default() },
        }
    }

    fn measure_rates(&self) -> Result<Rates, Trouble> {
        if let Some(known) = self.rates.get() {
            return Ok(*known);
        }
        self.idle(self.open()?)?;
        let told = self.told()?;
        let most = told.max_binding.0.min(told.max_buffer.0);
        let copied = COPY_BYTES.min(most).min(u64::from(told.max_groups) * u64::from(COPY_GROUP) * 16);
        let copied = copied / 4096 * 4096;
        let take = |bytes| self.take(BufferUse::Storage, bytes);
        let beds = Beds { engine: self, from: take(copied)?, to: take(copied)? };
        let (flops_per_s, filled_by) = beds.arithmetic(told.max_groups)?;
        let copy = |bytes: u64| {
            let vectors = (bytes / 16) as u32;
            program(COPY, COPY_GROUP, vectors.div_ceil(COPY_GROUP), vec![vectors], true)
        };
        let bytes_per_s = 2.0 * copied as f64 / beds.time(&copy(copied), 1)? * 1e9;
        let cached = CACHED_BYTES.min(copied);
        let cached_bytes_per_s = 2.0 * cached as f64 / beds.time(&copy(cached), CACHED_RUNS)? * 1e9;
        let barrier = |statement: &str| {
            let text = BARRIER.replace("BARRIER", statement);
            let mut program = program(text, GROUP, BARRIER_GROUPS, vec![BARRIER_ROUNDS], false);
            program.steps[0].workgroup_bytes = 4 * GROUP;
            program
        };
        let (with, without) = (beds.time(&barrier("workgroupBarrier();"), 1)?, beds.time(&barrier(""), 1)?);
        // Two barriers a round.
        let barrier_ns = (with - without).max(0.0) / f64::from(BARRIER_GROUPS * BARRIER_ROUNDS * 2);
        Ok(Rates {
            flops_per_s,
            lanes: LANES,
            bytes_per_s,
            bytes_per_s_all: bytes_per_s,
            cached_bytes_per_s: cached_bytes_per_s.max(bytes_per_s),
            cached_up_to: Bytes(2 * cached),
            // One dispatch more in a submission; handing a submission over is counted with the transfers.
            launch: Nanos(beds.time(&copy(LITTLE_BYTES), CACHED_RUNS)? as u64),
            barrier_ns,
            filled_by,
        })
    }
}
