//! One invocation a row, pass by pass: no barriers, good where there are many rows; neighbours read neighbours where rows lie
//! side by side.

use super::shader::{Family, RowsView, admits, counted};
use crate::kernels::lines::{alone, fits};
use crate::kernels::reduce::stage::LONGEST_WALK;
use crate::kernels::{in_a_row, with_main};
use crate::program::{Gpu, Launched, Needs, Writer, spread_groups};
use trimtab_core::{AdapterFacts, Decline, DeviceFacts, LaunchError, Rows, Variant, Work};

trimtab_core::config! {
    /// Invocations of a workgroup, and elements loaded at once.
    pub struct SerialConfig { workgroup, width }
}

/// See the module.
#[derive(Debug)]
pub struct SerialKernel;

impl SerialConfig {
    fn view(self, problem: &Rows) -> RowsView {
        RowsView { problem: *problem, width: self.width }
    }

    fn groups(self, problem: &Rows) -> u64 {
        self.view(problem).units().div_ceil(self.workgroup.max(1).into())
    }

    fn is_legal(self, problem: &Rows, adapter: &AdapterFacts) -> bool {
        let view = self.view(problem);
        matches!(self.width, 1 | 4)
            && view.is_readable()
            && view.steps().saturating_mul(passes(problem)) <= LONGEST_WALK
            && fits(self.workgroup, 0, self.groups(problem), adapter)
    }
}

/// Times a row is read.
fn passes(problem: &Rows) -> u64 {
    let looks = if Family::of(problem.op) == Family::Squares { 1 } else { 2 };
    looks + u64::from(!problem.op.reduces())
}

impl Variant<Gpu> for SerialKernel {
    type Problem = Rows;
    type Config = SerialConfig;

    identity!("gpu.rows.serial", Vectorized);

    fn declines(&self, problem: &Rows, device: &DeviceFacts) -> Option<Decline> {
        let (len, most) = (problem.len, LONGEST_WALK / passes(problem));
        let long = || Decline::from(format!("an invocation makes up to {most} steps, rows have {len}"));
        let declined = admits(problem, device).err();
        declined.or_else(|| self.configs(problem, device).is_empty().then(long))
    }

    fn configs(&self, problem: &Rows, device: &DeviceFacts) -> Vec<SerialConfig> {
        let Ok(adapter) = admits(problem, device) else { return Vec::new() };
        let mut configs = Vec::new();
        for width in [4, 1] {
            let units = RowsView { problem: *problem, width }.units();
            configs.extend(alone(units).map(|workgroup| SerialConfig { workgroup, width }));
        }
        configs.retain(|config| config.is_legal(problem, adapter));
        configs
    }

    fn work(&self, problem: &Rows, config: SerialConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = counted(problem, passes(problem));
        let invocations = config.groups(problem) * u64::from(config.workgroup);
        Work { flops, bytes, launches: 1, threads: 1, lanes: config.width, invocations, ..Work::default() }
    }

    fn launch(&self, problem: &Rows, config: SerialConfig, args: Writer<'_>) -> Launched {
        let illegal = || LaunchError::Point(format!("{config:?}"));
        if !config.is_legal(problem, args.adapter) {
            return Err(illegal());
        }
        let view = config.view(problem);
        let write = if problem.op.reduces() {
            format!("    {}", view.write_one())
        } else {
            "    for (var at = 0u; at < steps; at++) {
        let place = first + at * stride;
        output[place] = S(value(row, V(input[place]), at));
    }"
            .to_string()
        };
        let text =
            view.text() + &look(problem) + &with_main(include_str!("serial.wgsl")).replace("$WRITE", &write);
        let groups = spread_groups(config.groups(problem), args.adapter).ok_or_else(illegal)?;
        let needs = Needs::of(problem.dtype);
        let step = in_a_row(text.into(), config.workgroup, groups, needs, view.bindings(), view.params());
        args.program.push(step);
        Ok(())
    }
}

/// The passes before the results.
fn look(problem: &Rows) -> String {
    let sum = |name: &str, term: &str| include_str!("sum.wgsl").replace("$NAME", name).replace("$TERM", term);
    match Family::of(problem.op) {
        Family::Exponentials => {
            let finite = "(bitcast<U>(x) & U(0x7fffffffu)) < U(0x7f800000u)";
            sum("sum_exps", &format!("select(V(0.0), exp_of(x - less), {finite})"))
                + include_str!("look_exponentials.wgsl")
        }
        Family::Moments => {
            sum("sum_all", "x")
                + &sum("sum_squares", "(x - less) * (x - less)")
                + include_str!("look_moments.wgsl")
        }
        Family::Squares => {
            sum("sum_squares", "x * x")
                + "fn look(first: u32, steps: u32, stride: u32) -> Row {
    return conclude(V(0.0), lanes_sum(sum_squares(first, steps, stride, V(0.0))));
}
"
        }
    }
}
