//! Short lines by insertion, an invocation each: no barriers, good where there are many lines; neighbours read neighbours where
//! lines lie side by side. See [`super::network`].

use super::network::{InsertionConfig, Sorted};
use crate::program::{Gpu, Launched, Writer};
use trimtab_core::{Decline, DeviceFacts, Sort, Variant, Work};

/// See the module.
#[derive(Debug)]
pub struct InsertionKernel;

impl Variant<Gpu> for InsertionKernel {
    type Problem = Sort;
    type Config = InsertionConfig;

    identity!("gpu.sort.insertion", Vectorized);

    fn declines(&self, problem: &Sort, device: &DeviceFacts) -> Option<Decline> {
        Sorted::from(problem).declines_insertion(device)
    }

    fn configs(&self, problem: &Sort, device: &DeviceFacts) -> Vec<InsertionConfig> {
        InsertionConfig::all(&problem.into(), device)
    }

    fn work(&self, problem: &Sort, config: InsertionConfig, _: &DeviceFacts) -> Work {
        config.work(&problem.into())
    }

    fn launch(&self, problem: &Sort, config: InsertionConfig, args: Writer<'_>) -> Launched {
        config.launch(&problem.into(), args)
    }
}
