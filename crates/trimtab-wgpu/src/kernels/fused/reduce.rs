//! Recipes that end in a reduction: the kernels of reduce, which load through the recipe.

use super::recipe::{self, At, identity_within};
use crate::kernels::reduce::fold::{FETCH, INPUT};
use crate::program::{BindTarget, Binding, Dispatch, Gpu, Launched, Writer};
use std::borrow::Cow;
use trimtab_core::{Config, Decline, DeviceFacts, Fused, LaunchError, Over, Reduce, Variant, Work};

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

/// Elements a kernel with these settings loads at once.
fn width<C: Config>(config: C) -> u64 {
    let at = C::AXES.iter().position(|&axis| axis == "width");
    let width = at.and_then(|at| config.to_point().values().get(at).copied());
    u64::from(width.unwrap_or(1).max(1))
}

/// The same on a device.
fn admitted(problem: &Fused, device: &DeviceFacts) -> Result<Reduce, Decline> {
    recipe::admits_part(reduction(problem), problem, device)
}

impl<K: Variant<Gpu, Problem = Reduce>> Variant<Gpu> for Through<K> {
    type Problem = Fused;
    type Config = K::Config;

    identity_within!(version!());

    fn declines(&self, problem: &Fused, device: &DeviceFacts) -> Option<Decline> {
        match admitted(problem, device) {
            Err(decline) => Some(decline),
            Ok(reduction) => self.0.declines(&reduction, device).or_else(|| {
                let inner = problem.inner();
                let none = self.configs(problem, device).is_empty();
                none.then(|| Decline::from(format!("no vectors fit rows of {inner} elements")))
            }),
        }
    }

    fn configs(&self, problem: &Fused, device: &DeviceFacts) -> Vec<K::Config> {
        let Ok(reduction) = admitted(problem, device) else { return Vec::new() };
        let mut configs = self.0.configs(&reduction, device);
        configs.retain(|&config| problem.inner().is_multiple_of(width(config)));
        configs
    }

    fn work(&self, problem: &Fused, config: K::Config, device: &DeviceFacts) -> Work {
        let Ok(reduction) = reduction(problem) else { return Work::default() };
        let unread = reduction.input_len().saturating_mul(problem.dtype.size());
        recipe::with_steps(problem, self.0.work(&reduction, config, device), unread)
    }

    fn launch(&self, problem: &Fused, config: K::Config, writer: Writer<'_>) -> Launched {
        let reduction = recipe::launched_part(reduction(problem), problem, &writer)?;
        if !problem.inner().is_multiple_of(width(config)) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let Writer { adapter, program } = writer;
        self.0.launch(&reduction, config, Writer { adapter, program: &mut *program })?;
        let operand = Binding::read(BindTarget::Input(0));
        for step in program.steps.iter_mut().filter(|step| step.bindings.first() == Some(&operand)) {
            load_through(problem, width(config) as u32, step)?;
        }
        Ok(())
    }
}

/// Lets a step read what the recipe gives instead of its operand. Its first buffer takes the operand's place, the others
/// come last.
fn load_through(problem: &Fused, width: u32, step: &mut Dispatch) -> Launched {
    let strange = || LaunchError::Kernel("a reduction does not load as expected".to_string());
    let (before, declaration) = step.text.split_once(INPUT).ok_or_else(strange)?;
    let (_, behind) = declaration.split_once('\n').ok_or_else(strange)?;
    let (between, behind) = behind.split_once(FETCH).ok_or_else(strange)?;
    let last = step.bindings.len();
    let place = |at: usize| if at == 0 { 0 } else { last + at - 1 };
    let [by_row, by_column] = recipe::places(problem);
    let over = problem.end().map_or(Over::All, |(_, over)| over);
    // Vectors of a row are in the last parameter. A row that is reduced is divided for once; only where rows follow each
    // other in one sum every load has to.
    let (mut row, mut column, mut found) = ("at", "base", String::new());
    let (mut kept, mut behind) = (String::new(), behind.to_string());
    match over {
        Over::Rows => (),
        Over::Columns => {
            (row, column) = ("walked_row", "at");
            if by_row {
                kept = "var<private> walked_row: u32;\n".to_string();
                let (head, body) = behind.split_once("-> Many {\n").ok_or_else(strange)?;
                behind = format!("{head}-> Many {{\n    walked_row = base / params[3].w;\n{body}");
            }
        }
        Over::All if by_row || by_column => {
            (row, column) = ("row", "index - row * params[3].w");
            found = "    let row = index / params[3].w;\n".to_string();
        }
        Over::All => (),
    }
    let call = recipe::call(problem, None, &At { all: "index", row, column });
    let once = recipe::read_once(problem);
    let fetch = format!(
        "{kept}fn fetch(s: Many, base: u32, at: u32, stride: u32) -> Many {{
    let index = base + at * stride;
{once}{found}    return take_many(s, {call});
}}
"
    );
    let text = [
        &recipe::elements(problem).types(width),
        before,
        &recipe::declared(problem, place),
        between,
        &recipe::functions(problem, width),
        &fetch,
        &behind,
    ]
    .concat();
    let mut bindings = recipe::bindings(problem).into_iter();
    if let (Some(operand), Some(first)) = (step.bindings.first_mut(), bindings.next()) {
        *operand = first;
    }
    step.bindings.extend(bindings);
    step.text = Cow::Owned(text);
    step.params.resize(15, 0);
    step.params.push((problem.inner() / u64::from(width)).max(1) as u32);
    Ok(())
}
