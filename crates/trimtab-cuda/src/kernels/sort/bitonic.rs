//! Bitonic sorting of elements: see [`super::network`].

use super::network::{BitonicConfig, Sorted};
use crate::program::{Cuda, Program};
use trimtab_core::{Decline, DeviceFacts, LaunchError, Sort, Variant, Work};

/// See the module.
#[derive(Debug)]
pub struct BitonicKernel;

impl Variant<Cuda> for BitonicKernel {
    type Problem = Sort;
    type Config = BitonicConfig;

    identity!("cuda.sort.bitonic", Parallel);

    fn declines(&self, problem: &Sort, device: &DeviceFacts) -> Option<Decline> {
        Sorted::from(problem).declines(device)
    }

    fn configs(&self, problem: &Sort, device: &DeviceFacts) -> Vec<BitonicConfig> {
        BitonicConfig::all(&problem.into(), device)
    }

    fn work(&self, problem: &Sort, config: BitonicConfig, _: &DeviceFacts) -> Work {
        config.work(&problem.into())
    }

    fn launch(
        &self,
        problem: &Sort,
        config: BitonicConfig,
        program: &mut Program,
    ) -> Result<(), LaunchError> {
        config.launch(&problem.into(), program)
    }
}
