//! Products of 16-bit floats and of bytes through f32: operands are widened once, which costs a share that shrinks with the sizes, and
//! multiplied by the crate `gemm`, small ones
//! by the kernel of small products.

use super::gemm::{Gemm, LibraryConfig};
use super::small::{Small, SmallConfig};
use crate::args::{Args, Cpu, Launched};
use crate::kernels::elements::not_here;
use crate::kernels::halves::Half;
use crate::kernels::room::{MOST_ROOM, with_room};
use trimtab_core::{Bytes, DType, Decline, DeviceFacts, LaunchError, Matmul, Operand, Variant, Work};
use trimtab_operands::{Slice, SliceMut};

/// Terms that are added up in f32 at a time: products of bytes are at most 2¹⁴, and whole numbers up to 2²⁴ are exact.
const EXACT_TERMS: u64 = 1 << 10;

/// Elements of f32 beside the operands.
fn room(problem: &Matmul) -> u64 {
    problem.lhs_len().saturating_add(problem.rhs_len()).saturating_add(problem.out_len())
}

fn too_large(problem: &Matmul) -> Option<Decline> {
    let needed = room(problem);
    let large = || Decline::from(format!("needs room for {needed} elements, has {MOST_ROOM}"));
    (needed > MOST_ROOM as u64).then(large)
}

fn widened_work(problem: &Matmul, config: LibraryConfig, device: &DeviceFacts) -> Work {
    let Work { bytes, scratch, .. } = config.work(problem, device);
    let copied = room(problem).saturating_mul(4 + problem.dtype.size());
    let scratch = Bytes(room(problem).saturating_mul(4).saturating_add(scratch.0));
    Work {
        bytes: Bytes(bytes.0.saturating_mul(2).saturating_add(copied)),
        scratch,
        ..config.work(problem, device)
    }
}

/// The kernel `cpu.matmul.halves`.
#[derive(Debug)]
pub(super) struct Halves;

impl Variant<Cpu> for Halves {
    type Problem = Matmul;
    type Config = LibraryConfig;

    identity!("cpu.matmul.halves", Library);

    fn takes(&self, dtype: DType) -> bool {
        matches!(dtype, DType::F16 | DType::Bf16)
    }

    fn declines(&self, problem: &Matmul, _: &DeviceFacts) -> Option<Decline> {
        let other = || Decline::from(format!("{} is multiplied as it is", problem.dtype));
        (!self.takes(problem.dtype)).then(other).or_else(|| too_large(problem))
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<LibraryConfig> {
        LibraryConfig::list(problem, device)
    }

    fn work(&self, problem: &Matmul, config: LibraryConfig, device: &DeviceFacts) -> Work {
        widened_work(problem, config, device)
    }

    fn launch(&self, problem: &Matmul, config: LibraryConfig, args: Args<'_>) -> Launched {
        let launch = |wide: &Matmul, args: Args<'_>| Gemm.launch(wide, config, args);
        by_half!(problem.dtype, T => halves::<T>(problem, config.threads, args, launch))
    }
}

/// The kernel `cpu.matmul.small_halves`: the same with the kernel of small products.
#[derive(Debug)]
pub(super) struct SmallHalves;

impl Variant<Cpu> for SmallHalves {
    type Problem = Matmul;
    type Config = SmallConfig;

    identity!("cpu.matmul.small_halves", Vectorized);

    fn takes(&self, dtype: DType) -> bool {
        Halves.takes(dtype)
    }

    fn declines(&self, problem: &Matmul, device: &DeviceFacts) -> Option<Decline> {
        Halves.declines(problem, device).or_else(|| Small.declines(&wide(problem), device))
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<SmallConfig> {
        Small.configs(&wide(problem), device)
    }

    fn work(&self, problem: &Matmul, config: SmallConfig, device: &DeviceFacts) -> Work {
        let work = Small.work(&wide(problem), config, device);
        let bytes = work.bytes.0.saturating_add(room(problem).saturating_mul(4 + problem.dtype.size()));
        let scratch = work.scratch.0.saturating_add(room(problem).saturating_mul(4));
        Work { bytes: Bytes(bytes), scratch: Bytes(scratch), ..work }
    }

    fn launch(&self, problem: &Matmul, config: SmallConfig, args: Args<'_>) -> Launched {
        let launch = |wide: &Matmul, args: Args<'_>| Small.launch(wide, config, args);
        by_half!(problem.dtype, T => halves::<T>(problem, config.threads, args, launch))
    }
}

/// The same product of f32.
pub(super) fn wide(problem: &Matmul) -> Matmul {
    Matmul { dtype: DType::F32, ..*problem }
}

/// Elements that are converted by one thread at a time.
const CONVERTED: usize = 16 << 10;

/// Widens operands, has `launch` multiply them, and narrows the result.
fn halves<T: Half>(
    problem: &Matmul,
    threads: u32,
    args: Args<'_>,
    launch: impl Fn(&Matmul, Args<'_>) -> Launched,
) -> Launched {
    if too_large(problem).is_some() {
        return Err(LaunchError::Kernel(format!("{problem} is too large to be widened")));
    }
    let typed = args.typed::<T>([problem.lhs_len(), problem.rhs_len(), problem.out_len()])?;
    let (wide, pool) = (wide(problem), typed.pool);
    let mut outcome = Ok(());
    with_room(room(problem) as usize, |room: &mut [f32]| {
        let (lhs, rest) = room.split_at_mut(typed.lhs.len());
        let (rhs, out) = rest.split_at_mut(typed.rhs.len());
        for (from, to) in [(typed.lhs, &mut *lhs), (typed.rhs, &mut *rhs)] {
            pool.for_chunks(threads, to, CONVERTED, |start, to| T::widen(&from[start..start + to.len()], to));
        }
        let inputs = [Slice::F32(lhs), Slice::F32(rhs)];
        outcome = launch(&wide, Args { inputs: &inputs, out: SliceMut::F32(out), pool });
        pool.for_chunks(threads, typed.out, CONVERTED, |start, to| {
            T::narrow(&out[start..start + to.len()], to)
        });
    });
    outcome
}

/// The kernel `cpu.matmul.bytes`.
#[derive(Debug)]
pub(super) struct BytesKernel;

impl Variant<Cpu> for BytesKernel {
    type Problem = Matmul;
    type Config = LibraryConfig;

    identity!("cpu.matmul.bytes", Library);

    fn takes(&self, dtype: DType) -> bool {
        dtype == DType::I8
    }

    fn declines(&self, problem: &Matmul, _: &DeviceFacts) -> Option<Decline> {
        let other = || Decline::from(format!("multiplies i8, not {}", problem.dtype));
        (!self.takes(problem.dtype)).then(other).or_else(|| too_large(problem))
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<LibraryConfig> {
        LibraryConfig::list(problem, device)
    }

    fn work(&self, problem: &Matmul, config: LibraryConfig, device: &DeviceFacts) -> Work {
        widened_work(problem, config, device)
    }

    fn launch(&self, problem: &Matmul, config: LibraryConfig, args: Args<'_>) -> Launched {
        if problem.dtype != DType::I8 || too_large(problem).is_some() {
            return Err(not_here(problem.dtype));
        }
        bytes(problem, config, args)
    }
}

/// The operands of a product of bytes, checked.
pub(super) fn of_bytes<'a>(problem: &Matmul, args: &Args<'a>) -> Result<[&'a [i8]; 2], LaunchError> {
    let lens = [problem.lhs_len(), problem.rhs_len()];
    let input = |place: usize| {
        let slice = args.inputs.get(place).copied().unwrap_or(Slice::None);
        match slice {
            Slice::I8(slice) if slice.len() as u64 == lens[place] => Ok(slice),
            Slice::None if lens[place] == 0 => Ok(&[][..]),
            _ => Err(LaunchError::Operand {
                operand: ["lhs", "rhs"][place],
                dtype: slice.dtype().map_or("nothing", DType::name),
                found: slice.len(),
                needed: lens[place] as usize,
            }),
        }
    };
    Ok([input(0)?, input(1)?])
}

/// Its result, checked.
pub(super) fn sums<'a>(problem: &Matmul, out: SliceMut<'a>) -> Result<&'a mut [i32], LaunchError> {
    let (found, dtype) = (out.len(), out.dtype().name());
    match out {
        SliceMut::I32(out) if out.len() as u64 == problem.out_len() => Ok(out),
        _ => Err(LaunchError::Operand { operand: "out", dtype, found, needed: problem.out_len() as usize }),
    }
}

/// Where an element of a matrix of `rows × columns` is stored.
fn stored(operand: Operand, [rows, columns]: [usize; 2], row: usize, column: usize) -> usize {
    if operand.transposed { column * rows + row } else { row * columns + column }
}

fn bytes(problem: &Matmul, config: LibraryConfig, args: Args<'_>) -> Launched {
    let [lhs, rhs] = of_bytes(problem, &args)?;
    let (out, pool) = (sums(problem, args.out)?, args.pool);
    let [batch, m, n, k] = [problem.batch, problem.m, problem.n, problem.k].map(|size| size as usize);
    if out.is_empty() {
        return Ok(());
    }
    out.fill(0);
    let mut outcome = Ok(());
    for nth in 0..batch {
        let lhs = &lhs[if problem.lhs.shared { 0 } else { nth * m * k }..][..m * k];
        let rhs = &rhs[if problem.rhs.shared { 0 } else { nth * k * n }..][..k * n];
        let out = &mut out[nth * m * n..(nth + 1) * m * n];
        for first in (0..k).step_by(EXACT_TERMS as usize) {
            let terms = (k - first).min(EXACT_TERMS as usize);
            with_room((m + n) * terms + m * n, |room: &mut [f32]| {
                let (left, rest) = room.split_at_mut(m * terms);
                let (right, sums) = rest.split_at_mut(terms * n);
                pool.for_chunks(config.threads, left, terms, |start, row| {
                    let at = start / terms;
                    for (term, value) in row.iter_mut().enumerate() {
                        *value = f32::from(lhs[stored(problem.lhs, [m, k], at, first + term)]);
                    }
                });
                pool.for_chunks(config.threads, right, n, |start, row| {
                    let at = first + start / n;
                    for (column, value) in row.iter_mut().enumerate() {
                        *value = f32::from(rhs[stored(problem.rhs, [k, n], at, column)]);
                    }
                });
                let part = Matmul {
                    dtype: DType::F32,
                    lhs: Operand::PLAIN,
                    rhs: Operand::PLAIN,
                    batch: 1,
                    k: terms as u64,
                    ..*problem
                };
                let inputs = [Slice::F32(left), Slice::F32(right)];
                let launched =
                    Gemm.launch(&part, config, Args { inputs: &inputs, out: SliceMut::F32(sums), pool });
                if launched.is_err() {
                    outcome = launched;
                }
                // Sums that leave 32 bits wrap; of fewer than 2¹⁷ terms none does.
                out.iter_mut().zip(sums.iter()).for_each(|(out, sum)| *out = out.wrapping_add(*sum as i32));
            });
        }
    }
    outcome
}

/// One sum after the other: the yardstick of bytes.
pub(super) fn reference(problem: &Matmul, args: Args<'_>) -> Launched {
    if problem.dtype != DType::I8 {
        return Err(not_here(problem.dtype));
    }
    let [lhs, rhs] = of_bytes(problem, &args)?;
    let out = sums(problem, args.out)?;
    let [m, n, k] = [problem.m, problem.n, problem.k].map(|size| size as usize);
    for (at, out) in out.iter_mut().enumerate() {
        let (nth, row, column) = (at / (m * n), at / n % m, at % n);
        let left = if problem.lhs.shared { 0 } else { nth * m * k };
        let right = if problem.rhs.shared { 0 } else { nth * k * n };
        *out = (0..k).fold(0i32, |sum, term| {
            let a = lhs[left + stored(problem.lhs, [m, k], row, term)];
            let b = rhs[right + stored(problem.rhs, [k, n], term, column)];
            sum.wrapping_add(i32::from(a) * i32::from(b))
        });
    }
    Ok(())
}
