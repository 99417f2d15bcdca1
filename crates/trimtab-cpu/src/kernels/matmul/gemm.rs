//! The crate `gemm`, one thread of it for each part of the product.

use super::float::{Float, lanes, typed_launch, vector_bits};
use super::product::{Product, Spread, rereads, splits, spread, thread_counts};
use super::work;
use crate::args::{Args, Cpu, Launched};
use trimtab_core::{Bytes, Decline, DeviceFacts, Matmul, Variant, Work};

/// The kernel `cpu.matmul.gemm`.
#[derive(Debug)]
pub(in crate::kernels) struct Gemm;

trimtab_core::config! {
    /// Settings of a library kernel: threads, and whether they share columns (0), rows (1) or both (2).
    pub struct LibraryConfig { threads, split }
}

impl LibraryConfig {
    /// The settings worth trying, the default first.
    pub(in crate::kernels) fn list(problem: &Matmul, device: &DeviceFacts) -> Vec<LibraryConfig> {
        let with =
            |threads| splits(problem, threads).into_iter().map(move |split| LibraryConfig { threads, split });
        thread_counts(problem.flops(), device).into_iter().flat_map(with).collect()
    }

    /// Parts of at least a cache line of columns, so that no two threads write to one.
    pub(in crate::kernels) fn spread(self) -> Spread {
        Spread { threads: self.threads, split: self.split, quantum: (8, 16) }
    }

    /// What a packing library does: reads each operand once a part, writes and reads its packed copy, and writes the
    /// result. What it packs at a time is its own affair; we count one copy of the larger operand for each thread, and the slab that
    /// `gemm` keeps.
    /// It is taken to use the widest vectors there are.
    pub(in crate::kernels) fn work(self, problem: &Matmul, device: &DeviceFacts) -> Work {
        let (lhs_times, rhs_times) = rereads(problem, self.threads, self.split);
        let (lhs, rhs) = (problem.m * problem.k, problem.k * problem.n);
        let walked = lhs.saturating_mul(3 * lhs_times).saturating_add(rhs.saturating_mul(3 * rhs_times));
        let elements = walked.saturating_add(problem.m * problem.n);
        let mut work = work(problem, elements, lhs.max(rhs), self.threads, lanes(problem, vector_bits()[0]));
        work.scratch = Bytes(work.scratch.0.saturating_add(slabs(device, self.threads)));
        work
    }
}

/// Bytes that the crate `gemm` keeps for so many threads: each that ever called it has a slab as large as its second cache.
pub(in crate::kernels) fn slabs(device: &DeviceFacts, threads: u32) -> u64 {
    device.cache(2).map_or(1 << 20, |cache| cache.0).saturating_mul(threads.into())
}

/// What kernels of libraries share: their settings and what they do.
macro_rules! library {
    () => {
        type Problem = trimtab_core::Matmul;
        type Config = $crate::kernels::matmul::gemm::LibraryConfig;

        fn configs(&self, problem: &Self::Problem, device: &trimtab_core::DeviceFacts) -> Vec<Self::Config> {
            Self::Config::list(problem, device)
        }

        fn work(
            &self,
            problem: &Self::Problem,
            config: Self::Config,
            device: &trimtab_core::DeviceFacts,
        ) -> trimtab_core::Work {
            config.work(problem, device)
        }
    };
}
pub(super) use library;

impl Variant<Cpu> for Gemm {
    library!();
    identity!("cpu.matmul.gemm", Library);

    fn declines(&self, _: &Matmul, _: &DeviceFacts) -> Option<Decline> {
        None
    }

    fn launch(&self, problem: &Matmul, config: LibraryConfig, args: Args<'_>) -> Launched {
        typed_launch!(problem, launch, config, args)
    }
}

fn launch<T: Float>(problem: &Matmul, config: LibraryConfig, args: Args<'_>) -> Launched {
    spread::<T>(problem, config.spread(), args, multiply)
}

/// One product on the caller's thread.
pub(in crate::kernels) fn multiply<T: Float>(product: &Product<'_, T>) {
    let ((m, n, k), (out, out_row)) = (product.sizes(), product.out());
    let (lhs, rhs) = (product.lhs(), product.rhs());
    let stride = |elements: usize| elements as isize;
    // SAFETY: a product's views cover m × k, k × n and m × n elements, and its result is unshared; `read_dst` is
    // false, so the old result is not read.
    unsafe {
        ::gemm::gemm(
            m,
            n,
            k,
            out,
            1,
            stride(out_row),
            false,
            lhs.start,
            stride(lhs.col),
            stride(lhs.row),
            rhs.start,
            stride(rhs.col),
            stride(rhs.row),
            T::ZERO,
            T::ONE,
            false,
            false,
            false,
            ::gemm::Parallelism::None,
        );
    }
}
