//! Indices in order by bitonic sorting of elements with their indices.

use super::is_extreme;
use crate::kernels::sort::network::{BitonicConfig, Sorted};
use crate::program::{Gpu, Launched, Writer};
use trimtab_core::{Arg, Decline, DeviceFacts, Variant, Work};

/// See the module.
#[derive(Debug)]
pub struct ArgBitonic;

impl Variant<Gpu> for ArgBitonic {
    type Problem = Arg;
    type Config = BitonicConfig;

    identity!("gpu.arg.bitonic", Parallel);

    fn declines(&self, problem: &Arg, device: &DeviceFacts) -> Option<Decline> {
        let extreme = || Decline::because("one index a line needs no order");
        is_extreme(problem).then(extreme).or_else(|| Sorted::from(problem).declines_bitonic(device))
    }

    fn configs(&self, problem: &Arg, device: &DeviceFacts) -> Vec<BitonicConfig> {
        if is_extreme(problem) {
            return Vec::new();
        }
        BitonicConfig::all(&problem.into(), device)
    }

    fn work(&self, problem: &Arg, config: BitonicConfig, _: &DeviceFacts) -> Work {
        config.work(&problem.into())
    }

    fn launch(&self, problem: &Arg, config: BitonicConfig, args: Writer<'_>) -> Launched {
        config.launch(&problem.into(), args)
    }
}
