//! Recipes that begin with a product: the kernels of matmul, which finish each sum by the recipe before they store it.

use super::recipe::{self, identity_within};
use crate::program::{Cuda, Program, StepArgument};
use trimtab_core::{Decline, DeviceFacts, Fused, LaunchError, Matmul, Operand, Variant, Work};

/// A kernel of matmul that finishes its sums by a recipe.
#[derive(Debug)]
pub(super) struct Finished<K>(pub K);

/// The product the steps begin with.
fn product(problem: &Fused) -> Result<Matmul, Decline> {
    let Some(product) = problem.product() else {
        return Err(Decline::because("takes recipes that begin with a product"));
    };
    let operand = |transposed: bool| Operand { transposed, ..Operand::PLAIN };
    let (lhs, rhs) = (operand(product.lhs_transposed), operand(product.rhs_transposed));
    Matmul::batched(problem.dtype, 1, problem.outer(), problem.inner(), product.depth, lhs, rhs)
        .map_err(|error| Decline::from(error.to_string()))
}

impl<K: Variant<Cuda, Problem = Matmul>> Variant<Cuda> for Finished<K> {
    type Problem = Fused;
    type Config = K::Config;

    identity_within!(version!());

    fn declines(&self, problem: &Fused, device: &DeviceFacts) -> Option<Decline> {
        match product(problem) {
            Ok(product) => recipe::declines(problem, device).or_else(|| self.0.declines(&product, device)),
            Err(decline) => Some(decline),
        }
    }

    fn configs(&self, problem: &Fused, device: &DeviceFacts) -> Vec<K::Config> {
        product(problem).map_or_else(|_| Vec::new(), |product| self.0.configs(&product, device))
    }

    fn work(&self, problem: &Fused, config: K::Config, device: &DeviceFacts) -> Work {
        match product(problem) {
            Ok(product) => recipe::with_steps(problem, self.0.work(&product, config, device), 0),
            Err(_) => Work::default(),
        }
    }

    fn launch(&self, problem: &Fused, config: K::Config, program: &mut Program) -> Result<(), LaunchError> {
        let product = product(problem).map_err(|decline| LaunchError::Kernel(decline.to_string()))?;
        self.0.launch(&product, config, program)?;
        let call = recipe::call(problem, Some("(sum)"), ["(u64)(row) * n + (column)", "row", "column"]);
        let more = recipe::takes(problem);
        let defined = format!("#define MORE {more}\n#define FINISHED(sum, row, column) {call}\n");
        // Sums of parts are finished when they are added up.
        for step in program.steps.iter_mut().filter(|step| step.given.contains(&StepArgument::Out)) {
            recipe::within(problem, step, &defined)?;
            step.given.extend(recipe::given(problem));
        }
        Ok(())
    }
}
