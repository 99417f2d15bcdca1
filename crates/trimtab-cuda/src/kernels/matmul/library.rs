//! cuBLAS and cuBLASLt, where the machine has them.

use super::{declines, work};
use crate::cublas::LibraryProduct;
use crate::cublaslt::WORKSPACE_BYTES;
use crate::program::{Cuda, Program, capability};
use std::borrow::Cow;
use trimtab_core::{
    Bytes, DType, Decline, DeviceFacts, KernelVersion, LaunchError, Matmul, Variant, VariantClass, Work,
};

trimtab_core::config! {
    /// There is nothing to set: the library chooses.
    pub struct LibraryConfig {}
}

/// A tile the library is assumed to work by, to count what it reads.
const TILE: [u32; 2] = [128, 128];
/// Factors of 11 bits. The library does not promise to round: cut off, each is off by a unit, and a product by 2⁻⁹ of its size and a little.
const ROUGH_ERROR: f64 = 2e-3;
/// The first architecture with tensor cores for f32.
const ROUGH_SINCE: u32 = 80;

/// Products by the library of that version.
#[derive(Debug)]
pub struct CublasKernel {
    /// Its version.
    pub version: String,
    /// Whether factors of f32 may be cut to 11 bits.
    pub rough: bool,
}

impl Variant<Cuda> for CublasKernel {
    type Problem = Matmul;
    type Config = LibraryConfig;

    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed(if self.rough { "cuda.matmul.cublas_tf32" } else { "cuda.matmul.cublas" })
    }

    fn version(&self) -> KernelVersion {
        // The library's, and ours of calling it.
        KernelVersion::of_sources(&[&version!().0, &self.version])
    }

    fn class(&self) -> VariantClass {
        VariantClass::Library
    }

    fn declines(&self, problem: &Matmul, device: &DeviceFacts) -> Option<Decline> {
        if self.rough && problem.dtype != DType::F32 {
            return Some(Decline::from(format!("takes f32, not {}", problem.dtype)));
        }
        if self.rough && capability(device) < ROUGH_SINCE {
            return Some(Decline::from(format!("tensor cores take f32 from sm_{ROUGH_SINCE} on")));
        }
        let large =
            LibraryProduct { problem: *problem, rough: self.rough, suggestion: None }.sizes().is_none();
        declines(problem, device)
            .or_else(|| large.then_some(Decline::because("sizes are larger than the library counts")))
    }

    fn configs(&self, _: &Matmul, _: &DeviceFacts) -> Vec<LibraryConfig> {
        vec![LibraryConfig {}]
    }

    fn work(&self, problem: &Matmul, _: LibraryConfig, _: &DeviceFacts) -> Work {
        let (Matmul { m, n, k, .. }, [rows, columns]) = (*problem, TILE);
        let walked = m * k * n.div_ceil(columns.into()) + k * n * m.div_ceil(rows.into()) + m * n;
        let mut work = work(problem, walked, TILE, 256, k.div_ceil(16));
        work.error = if self.rough { ROUGH_ERROR } else { 0.0 };
        work
    }

    fn launch(&self, problem: &Matmul, _: LibraryConfig, program: &mut Program) -> Result<(), LaunchError> {
        program.product = Some(LibraryProduct { problem: *problem, rough: self.rough, suggestion: None });
        Ok(())
    }
}

trimtab_core::config! {
    /// Which of the library's suggestions is taken, the one it thinks best first.
    pub struct SuggestionConfig { suggestion }
}

/// Suggestions that are tried: of a few the library's order is seldom wrong.
const SUGGESTIONS: u32 = 4;

/// Products by cuBLASLt of that version, which leaves the choice of its algorithms to us.
#[derive(Debug)]
pub struct CublasLtKernel {
    /// Its version.
    pub version: String,
    /// Whether factors of f32 may be cut to 11 bits.
    pub rough: bool,
}

impl CublasLtKernel {
    /// The same as cuBLAS makes it: both take and do the same.
    fn plain(&self) -> CublasKernel {
        CublasKernel { version: self.version.clone(), rough: self.rough }
    }
}

impl Variant<Cuda> for CublasLtKernel {
    type Problem = Matmul;
    type Config = SuggestionConfig;

    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed(if self.rough { "cuda.matmul.cublaslt_tf32" } else { "cuda.matmul.cublaslt" })
    }

    fn version(&self) -> KernelVersion {
        KernelVersion::of_sources(&[&version!().0, &self.version])
    }

    fn class(&self) -> VariantClass {
        VariantClass::Library
    }

    fn declines(&self, problem: &Matmul, device: &DeviceFacts) -> Option<Decline> {
        self.plain().declines(problem, device)
    }

    fn configs(&self, _: &Matmul, _: &DeviceFacts) -> Vec<SuggestionConfig> {
        (0..SUGGESTIONS).map(|suggestion| SuggestionConfig { suggestion }).collect()
    }

    fn work(&self, problem: &Matmul, _: SuggestionConfig, device: &DeviceFacts) -> Work {
        Work { scratch: Bytes(WORKSPACE_BYTES), ..self.plain().work(problem, LibraryConfig {}, device) }
    }

    fn launch(
        &self,
        problem: &Matmul,
        config: SuggestionConfig,
        program: &mut Program,
    ) -> Result<(), LaunchError> {
        let suggestion = Some(config.suggestion);
        program.product = Some(LibraryProduct { problem: *problem, rough: self.rough, suggestion });
        program.scratch = WORKSPACE_BYTES;
        Ok(())
    }
}
