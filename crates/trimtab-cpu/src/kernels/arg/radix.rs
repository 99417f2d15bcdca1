//! Lines of four-byte elements, number and index as one whole number, by the bytes of the number: passes instead of comparisons. A long line is
//! sorted in parts, one a thread, which are then merged.

use super::{given, key};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elements::not_here;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::room::{MOST_ROOM, with_room};
use crate::kernels::shared_work;
use crate::kernels::sort::Sortable;
use crate::kernels::sort::merge::merge_all;
use crate::pool::Pool;
use trimtab_core::{Arg, ArgOp, Bytes, DType, Decline, DeviceFacts, LaunchError, Variant, Work};

trimtab_core::config! {
    /// Threads, and parts of a line that are sorted apart: one, then threads have lines of their own, or a power of two.
    pub struct RadixConfig { threads, parts }
}

/// Lines shorter than this are compared sooner than their bytes are counted.
const LEAST: u64 = 64;
/// Elements from which sharing a line can pay.
const LEAST_SHARED: u64 = 16 << 10;
/// Values of a byte.
const VALUES: usize = 256;
/// The first byte of the number, behind those of the index, and how many there are.
const FIRST: u32 = 4;
const BYTES: u32 = 4;

/// See the module.
#[derive(Debug)]
pub struct RadixKernel;

fn declines(problem: &Arg) -> Option<Decline> {
    let most = (MOST_ROOM as u64 / 4).min(u64::from(u32::MAX));
    match (problem.op, problem.len) {
        (ArgOp::Min | ArgOp::Max, _) => Some(Decline::because("sorts; one element needs no order")),
        _ if !matches!(problem.dtype, DType::F32 | DType::I32) => {
            Some(Decline::from(format!("packs elements of four bytes, not {}", problem.dtype)))
        }
        (_, len) if len < LEAST => {
            Some(Decline::from(format!("lines of {len} are compared sooner; needs {LEAST}")))
        }
        (_, len) if len > most => Some(Decline::from(format!("lines of {len} are too long; at most {most}"))),
        _ => None,
    }
}

impl Variant<Cpu> for RadixKernel {
    type Problem = Arg;
    type Config = RadixConfig;

    identity!("cpu.arg.radix", Tiled);

    fn declines(&self, problem: &Arg, _: &DeviceFacts) -> Option<Decline> {
        declines(problem)
    }

    fn configs(&self, problem: &Arg, device: &DeviceFacts) -> Vec<RadixConfig> {
        let lines = problem.outer.saturating_mul(problem.inner);
        let shared = problem.len >= LEAST_SHARED;
        let threads = thread_counts(device, shared || lines > 1 && problem.input_len() >= LEAST_SHARED, 3);
        let parts = |threads: u32| {
            let one = (threads == 1 || lines > 1).then_some(1);
            let several = (threads > 1 && shared).then_some(threads.next_power_of_two());
            one.into_iter().chain(several).map(move |parts| RadixConfig { threads, parts })
        };
        threads.into_iter().flat_map(parts).collect()
    }

    fn work(&self, problem: &Arg, config: RadixConfig, _: &DeviceFacts) -> Work {
        let (mut flops, mut bytes) = super::counted(problem);
        // Every pass reads and writes a number with its index; so does every round of merging.
        let passes = u64::from(BYTES) + u64::from(config.parts.max(1).ilog2());
        flops.0 = problem.input_len().saturating_mul(3 * passes);
        bytes.0 = bytes.0.saturating_add(problem.input_len().saturating_mul(16 * passes));
        let lines = if config.parts > 1 { 1 } else { u64::from(config.threads) };
        let scratch = Bytes(problem.len.saturating_mul(16).saturating_mul(lines));
        Work { scratch, ..shared_work(flops, bytes, config.threads, 1) }
    }

    fn launch(&self, problem: &Arg, config: RadixConfig, args: Args<'_>) -> Launched {
        if declines(problem).is_some() || !config.parts.is_power_of_two() {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        match problem.dtype {
            DType::F32 => run::<f32>(problem, config, args),
            DType::I32 => run::<i32>(problem, config, args),
            dtype => Err(not_here(dtype)),
        }
    }
}

/// The number and the index of an element as one.
type PackedAt<'a> = dyn Fn(usize) -> u64 + Sync + 'a;
/// Puts a line in order, with as much room beside it.
type SortLine<'a> = dyn Fn(&PackedAt<'_>, &mut [u64], &mut [u64]) + 'a;

fn run<T: Sortable<Key = u32>>(problem: &Arg, config: RadixConfig, args: Args<'_>) -> Launched {
    let (input, out, pool) = given::<T>(problem, args)?;
    if out.is_empty() {
        return Ok(());
    }
    let [len, inner, count] = [problem.len, problem.inner, problem.count].map(|size| size as usize);
    let descending = problem.descending || problem.op == ArgOp::Top;
    let all = Disjoint::new(out);
    let lines = (problem.outer * problem.inner) as usize;
    let line = |nth: usize, sort: &SortLine<'_>| {
        let first = nth / inner * len * inner + nth % inner;
        let to = nth / inner * count * inner + nth % inner;
        let packed = |at: usize| u64::from(key(input[first + at * inner], descending)) << 32 | at as u64;
        with_room(2 * len, |room: &mut [u64]| {
            let (own, other) = room.split_at_mut(len);
            sort(&packed, own, other);
            for (at, packed) in own.iter().take(count).enumerate() {
                // SAFETY: every line has its own part of the result.
                unsafe { all.part(to + at * inner..to + at * inner + 1) }.fill((packed & 0xffff_ffff) as i64);
            }
        });
    };
    if config.parts == 1 {
        pool.run(config.threads, lines, &|nth| {
            line(nth, &|packed, own, other| {
                own.iter_mut().enumerate().for_each(|(at, to)| *to = packed(at));
                sort(own, other);
            });
        });
    } else {
        (0..lines).for_each(|nth| {
            line(nth, &|packed, own, other| in_parts(packed, own, other, config, pool));
        });
    }
    Ok(())
}

/// Sorts parts on several threads, and merges neighbours until there is one.
fn in_parts(packed: &PackedAt<'_>, own: &mut [u64], other: &mut [u64], config: RadixConfig, pool: &Pool) {
    let len = own.len();
    let mut part = len.div_ceil(config.parts as usize).max(1);
    let beside = Disjoint::new(other);
    pool.for_chunks(config.threads, own, part, |start, part| {
        part.iter_mut().enumerate().for_each(|(at, to)| *to = packed(start + at));
        // SAFETY: every part has its own stretch of the room.
        sort(part, unsafe { beside.part(start..start + part.len()) });
    });
    let (mut from, mut to, mut turns) = (own, other, 0);
    while part < len {
        merge_all(from, to, part, config.threads, pool);
        std::mem::swap(&mut from, &mut to);
        part *= 2;
        turns += 1;
    }
    // After an odd number of rounds the line lies in the other place.
    if turns % 2 == 1 {
        to.copy_from_slice(from);
    }
}

/// By the bytes of the number, the lowest first; equal numbers stay in the order of their indices. Bytes that all share are passed over.
fn sort(keys: &mut [u64], room: &mut [u64]) {
    let digit = |key: u64, byte: u32| (key >> (8 * (FIRST + byte)) & 0xff) as usize;
    let mut counts = [[0u32; VALUES]; BYTES as usize];
    for &key in keys.iter() {
        (0..BYTES).for_each(|byte| counts[byte as usize][digit(key, byte)] += 1);
    }
    let (mut from, mut to, mut turns) = (keys, room, 0);
    for byte in 0..BYTES {
        let counts = &mut counts[byte as usize];
        if counts.iter().any(|&count| count as usize == from.len()) {
            continue;
        }
        let mut next = 0;
        for count in counts.iter_mut() {
            let here = *count;
            *count = next;
            next += here;
        }
        for &key in from.iter() {
            let place = &mut counts[digit(key, byte)];
            to[*place as usize] = key;
            *place += 1;
        }
        std::mem::swap(&mut from, &mut to);
        turns += 1;
    }
    if turns % 2 == 1 {
        to.copy_from_slice(from);
    }
}
