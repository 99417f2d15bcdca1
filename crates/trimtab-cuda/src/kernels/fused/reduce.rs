//! Recipes that end in a reduction: the kernels of reduce, which load through the recipe.

use super::recipe::{self, identity_within};
use crate::program::{Cuda, Program, StepArgument};
use trimtab_core::{Decline, DeviceFacts, Fused, LaunchError, Over, Reduce, Variant, Work};

/// A kernel of reduce that loads through a recipe.
#[derive(Debug)]
pub(super) struct Through<K>(pub K);

/// The reduction of what the steps give.
fn reduction(problem: &Fused) -> Result<Reduce, Decline> {
    let Some((op, over)) = problem.end() else {
        return Err(Decline::because("takes recipes that end in a reduction"));
    };
    let axis = match over {
        Over::All => None,
        Over::Rows => Some(0),
        Over::Columns => Some(1),
    };
    Reduce::new(op, problem.dtype, &[problem.outer(), problem.inner()], axis)
        .map_err(|error| Decline::from(error.to_string()))
}

impl<K: Variant<Cuda, Problem = Reduce>> Variant<Cuda> for Through<K> {
    type Problem = Fused;
    type Config = K::Config;

    identity_within!(version!());

    fn declines(&self, problem: &Fused, device: &DeviceFacts) -> Option<Decline> {
        match reduction(problem) {
            Ok(reduction) => {
                recipe::declines(problem, device).or_else(|| self.0.declines(&reduction, device))
            }
            Err(decline) => Some(decline),
        }
    }

    fn configs(&self, problem: &Fused, device: &DeviceFacts) -> Vec<K::Config> {
        reduction(problem).map_or_else(|_| Vec::new(), |reduction| self.0.configs(&reduction, device))
    }

    fn work(&self, problem: &Fused, config: K::Config, device: &DeviceFacts) -> Work {
        let Ok(reduction) = reduction(problem) else { return Work::default() };
        let unread = reduction.input_len().saturating_mul(problem.dtype.size());
        recipe::with_steps(problem, self.0.work(&reduction, config, device), unread)
    }

    fn launch(&self, problem: &Fused, config: K::Config, program: &mut Program) -> Result<(), LaunchError> {
        let reduction = reduction(problem).map_err(|decline| LaunchError::Kernel(decline.to_string()))?;
        self.0.launch(&reduction, config, program)?;
        let call = recipe::call(problem, None, ["index", "index / across", "index % across"]);
        // Elements are numbered row by row; the row is as long as `across` says.
        let defined = format!(
            "#define TAKES_FROM unsigned across{}\n#define LOADED(at) ([&](unsigned index) {{ return {call}; }}(at))\n",
            recipe::takes(problem)
        );
        let across = StepArgument::U32(problem.inner() as u32);
        for step in
            program.steps.iter_mut().filter(|step| step.given.first() == Some(&StepArgument::Input(0)))
        {
            recipe::within(problem, step, &defined)?;
            let read = [across].into_iter().chain(recipe::given(problem));
            step.given.splice(0..1, read);
        }
        Ok(())
    }
}
