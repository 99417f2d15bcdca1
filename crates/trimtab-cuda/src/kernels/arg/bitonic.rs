//! Indices in order by bitonic sorting of elements with their indices.

use super::is_extreme;
use crate::kernels::sort::network::{BitonicConfig, Sorted};
use crate::program::{Cuda, Program};
use trimtab_core::{Arg, Decline, DeviceFacts, LaunchError, Variant, Work};

/// See the module.
#[derive(Debug)]
pub struct ArgBitonic;

impl Variant<Cuda> for ArgBitonic {
    type Problem = Arg;
    type Config = BitonicConfig;

    identity!("cuda.arg.bitonic", Parallel);

    fn declines(&self, problem: &Arg, device: &DeviceFacts) -> Option<Decline> {
        let extreme = || Decline::because("one index a line needs no order");
        is_extreme(problem).then(extreme).or_else(|| Sorted::from(problem).declines(device))
    }

    fn configs(&self, problem: &Arg, device: &DeviceFacts) -> Vec<BitonicConfig> {
        BitonicConfig::all(&problem.into(), device)
    }

    fn work(&self, problem: &Arg, config: BitonicConfig, _: &DeviceFacts) -> Work {
        config.work(&problem.into())
    }

    fn launch(&self, problem: &Arg, config: BitonicConfig, program: &mut Program) -> Result<(), LaunchError> {
        config.launch(&problem.into(), program)
    }
}
