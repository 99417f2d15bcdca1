//! Recipes that begin with a product: the kernels of matmul, which finish each sum by the recipe before they write it.

use super::recipe::{self, At, identity_within};
use crate::kernels::matmul::layout::finished;
use crate::program::{Dispatch, Gpu, Launched, Writer};
use std::borrow::Cow;
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

/// The same on a device. A kernel of matmul cuts what a binding does not hold; then rows are not where inputs have them.
fn admitted(problem: &Fused, device: &DeviceFacts) -> Result<Matmul, Decline> {
    recipe::admits_part(product(problem), problem, device)
}

impl<K: Variant<Gpu, Problem = Matmul>> Variant<Gpu> for Finished<K> {
    type Problem = Fused;
    type Config = K::Config;

    identity_within!(version!());

    fn declines(&self, problem: &Fused, device: &DeviceFacts) -> Option<Decline> {
        match admitted(problem, device) {
            Ok(product) => self.0.declines(&product, device),
            Err(decline) => Some(decline),
        }
    }

    fn configs(&self, problem: &Fused, device: &DeviceFacts) -> Vec<K::Config> {
        admitted(problem, device).map_or_else(|_| Vec::new(), |product| self.0.configs(&product, device))
    }

    fn work(&self, problem: &Fused, config: K::Config, device: &DeviceFacts) -> Work {
        match product(problem) {
            Ok(product) => recipe::with_steps(problem, self.0.work(&product, config, device), 0),
            Err(_) => Work::default(),
        }
    }

    fn launch(&self, problem: &Fused, config: K::Config, writer: Writer<'_>) -> Launched {
        let product = recipe::launched_part(product(problem), problem, &writer)?;
        let Writer { adapter, program } = writer;
        self.0.launch(&product, config, Writer { adapter, program: &mut *program })?;
        program.steps.iter_mut().try_for_each(|step| finish(problem, step))
    }
}

/// Lets a step finish its sums by the recipe. The buffers of its inputs come behind the product's.
fn finish(problem: &Fused, step: &mut Dispatch) -> Launched {
    let found = [true, false].into_iter().find_map(|vector| {
        let (before, behind) = step.text.split_once(finished(vector))?;
        Some((vector, before, behind))
    });
    let Some((vector, before, behind)) = found else {
        return Err(LaunchError::Kernel("a product does not store as expected".to_string()));
    };
    let first = step.bindings.len();
    let (width, sums, by) = if vector { (4, "vec4<A>", " / 4u") } else { (1, "A", "") };
    let (all, column) = (format!("(row * params[1].w + column){by}"), format!("column{by}"));
    let call = recipe::call(problem, Some("sum"), &At { all: &all, row: "row", column: &column });
    let once = recipe::read_once(problem);
    let text = [
        before,
        "\nalias V = P;\n",
        &recipe::declared(problem, |at| first + at),
        &recipe::functions(problem, width),
        &format!("\nfn finished(sum: {sums}, row: u32, column: u32) -> P {{\n{once}    return {call};\n}}\n"),
        behind,
    ]
    .concat();
    step.bindings.extend(recipe::bindings(problem));
    step.text = Cow::Owned(text);
    Ok(())
}
