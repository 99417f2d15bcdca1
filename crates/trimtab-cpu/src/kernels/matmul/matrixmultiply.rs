//! The crate `matrixmultiply`, one call for each part of the product.

use super::float::{Float, lanes, typed_launch, vector_bits};
use super::gemm::LibraryConfig;
use super::product::spread;
use crate::args::{Args, Cpu};
use crate::kernels::version::crate_version;
use std::borrow::Cow;
use trimtab_core::{Decline, DeviceFacts, KernelVersion, LaunchError, Matmul, Variant, VariantClass, Work};

/// The kernel `cpu.matmul.matrixmultiply`.
#[derive(Debug)]
pub(super) struct MatrixMultiply;

impl Variant<Cpu> for MatrixMultiply {
    type Problem = Matmul;
    type Config = LibraryConfig;

    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("cpu.matmul.matrixmultiply")
    }

    fn version(&self) -> KernelVersion {
        crate_version("0.3", &[include_str!("matrixmultiply.rs"), include_str!("gemm.rs")])
    }

    fn class(&self) -> VariantClass {
        VariantClass::Library
    }

    fn declines(&self, _: &Matmul, _: &DeviceFacts) -> Option<Decline> {
        None
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<LibraryConfig> {
        LibraryConfig::list(problem, device)
    }

    fn work(&self, problem: &Matmul, config: LibraryConfig, _: &DeviceFacts) -> Work {
        // It picks the widest vectors there are; its AVX-512 kernels were seen at work here.
        config.work(problem, lanes(problem, vector_bits()[0]))
    }

    fn launch(&self, problem: &Matmul, config: LibraryConfig, args: Args<'_>) -> Result<(), LaunchError> {
        typed_launch!(problem, launch, config, args)
    }
}

fn launch<T: Float>(problem: &Matmul, config: LibraryConfig, args: Args<'_>) -> Result<(), LaunchError> {
    spread::<T>(problem, config.spread(), args, T::matrixmultiply)
}
