//! Bitonic sorting of elements: see [`super::network`].

use super::network::{BitonicConfig, Sorted};
use crate::program::{Gpu, Launched, Writer};
use trimtab_core::{Decline, DeviceFacts, Sort, Variant, Work};

/// See the module.
#[derive(Debug)]
pub struct BitonicKernel;

impl Variant<Gpu> for BitonicKernel {
    type Problem = Sort;
    type Config = BitonicConfig;

    identity!("gpu.sort.bitonic", Parallel);

    fn declines(&self, problem: &Sort, device: &DeviceFacts) -> Option<Decline> {
        Sorted::from(problem).declines_bitonic(device)
    }

    fn configs(&self, problem: &Sort, device: &DeviceFacts) -> Vec<BitonicConfig> {
        BitonicConfig::all(&problem.into(), device)
    }

    fn work(&self, problem: &Sort, config: BitonicConfig, _: &DeviceFacts) -> Work {
        config.work(&problem.into())
    }

    fn launch(&self, problem: &Sort, config: BitonicConfig, args: Writer<'_>) -> Launched {
        config.launch(&problem.into(), args)
    }
}
