//! Indices of short lines in order by insertion, an invocation a line.

use super::is_extreme;
use crate::kernels::sort::network::{InsertionConfig, Sorted};
use crate::program::{Gpu, Launched, Writer};
use trimtab_core::{Arg, Decline, DeviceFacts, Variant, Work};

/// See the module.
#[derive(Debug)]
pub struct ArgInsertion;

impl Variant<Gpu> for ArgInsertion {
    type Problem = Arg;
    type Config = InsertionConfig;

    identity!("gpu.arg.insertion", Vectorized);

    fn declines(&self, problem: &Arg, device: &DeviceFacts) -> Option<Decline> {
        let extreme = || Decline::because("one index a line needs no order");
        is_extreme(problem).then(extreme).or_else(|| Sorted::from(problem).declines_insertion(device))
    }

    fn configs(&self, problem: &Arg, device: &DeviceFacts) -> Vec<InsertionConfig> {
        if is_extreme(problem) {
            return Vec::new();
        }
        InsertionConfig::all(&problem.into(), device)
    }

    fn work(&self, problem: &Arg, config: InsertionConfig, _: &DeviceFacts) -> Work {
        config.work(&problem.into())
    }

    fn launch(&self, problem: &Arg, config: InsertionConfig, args: Writer<'_>) -> Launched {
        config.launch(&problem.into(), args)
    }
}
