//! Recipes of elementwise steps alone: one pass, nothing between the steps is stored.

use super::recipe;
use crate::kernels::elementwise::OPS;
use crate::kernels::elementwise::walk::WalkConfig;
use crate::kernels::{NUMBER, of_number};
use crate::program::{Cuda, Program, StepArgument};
use trimtab_core::{Bytes, Decline, DeviceFacts, Fused, LaunchError, Variant, Work};

/// See the module.
#[derive(Debug)]
pub struct ChainKernel;

impl Variant<Cuda> for ChainKernel {
    type Problem = Fused;
    type Config = WalkConfig;

    identity!("cuda.fused.walk", Parallel);

    fn declines(&self, problem: &Fused, device: &DeviceFacts) -> Option<Decline> {
        if problem.end().is_some() || problem.product().is_some() {
            return Some(Decline::because("takes elementwise steps alone"));
        }
        recipe::declines(problem, device)
    }

    fn configs(&self, _: &Fused, device: &DeviceFacts) -> Vec<WalkConfig> {
        WalkConfig::all(device)
    }

    fn work(&self, problem: &Fused, config: WalkConfig, _: &DeviceFacts) -> Work {
        let work = Work {
            bytes: Bytes(problem.len().saturating_mul(problem.dtype.size())),
            launches: 1,
            threads: 1,
            lanes: 1,
            invocations: problem.len().div_ceil(config.each.max(1).into()),
            ..Work::default()
        };
        recipe::with_steps(problem, work, 0)
    }

    fn launch(&self, problem: &Fused, config: WalkConfig, program: &mut Program) -> Result<(), LaunchError> {
        if problem.end().is_some() || problem.product().is_some() {
            return Err(LaunchError::Kernel("the steps are not elementwise alone".to_string()));
        }
        let (settings, grid) = config.shape(problem.len())?;
        let mut macros = of_number(problem.dtype);
        macros.extend(settings);
        let call = recipe::call(problem, None, ["index", "index / across", "index % across"]);
        let defined = format!("#define MORE {}\n#define RESULT {call}\n", recipe::takes(problem));
        let source = [NUMBER, OPS, &recipe::function(problem), &defined, include_str!("walk.cu")].concat();
        let mut given = vec![StepArgument::Out];
        given.extend([problem.len(), problem.inner()].map(|size| StepArgument::U32(size as u32)));
        given.extend(recipe::given(problem));
        program.push(source, "fused_walk", macros, grid, [config.width, 1, 1], given)
    }
}
