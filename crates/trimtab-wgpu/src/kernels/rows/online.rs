//! A workgroup a row, looked at once: each invocation its share, then halves upon halves in workgroup memory (an online softmax, merged
//! variances), and a second walk for the results.

use super::shader::{Family, RowsView, admits, counted};
use crate::kernels::lines::{fits, workgroups};
use crate::kernels::reduce::stage::LONGEST_WALK;
use crate::kernels::{in_a_row, with_main};
use crate::program::{Dispatch, Gpu, Launched, Needs, Writer, spread_groups};
use trimtab_core::{AdapterFacts, DType, Decline, DeviceFacts, LaunchError, Rows, Variant, Work};

trimtab_core::config! {
    /// Invocations of a workgroup: a power of two; and elements loaded at once.
    pub struct OnlineConfig { workgroup, width }
}

/// Elements of a row worth sharing.
const LEAST: u64 = 32;

/// See the module.
#[derive(Debug)]
pub struct OnlineKernel;

impl OnlineConfig {
    fn view(self, problem: &Rows) -> RowsView {
        RowsView { problem: *problem, width: self.width }
    }

    fn workgroup_bytes(self, problem: &Rows) -> u64 {
        let state = match (Family::of(problem.op), problem.dtype) {
            (Family::Squares, _) => 4,
            (_, DType::F64) => 24,
            _ => 12,
        };
        state * u64::from(self.workgroup)
    }

    fn is_legal(self, problem: &Rows, adapter: &AdapterFacts) -> bool {
        let view = self.view(problem);
        let rounds = view.steps().div_ceil(u64::from(self.workgroup.max(1)));
        matches!(self.width, 1 | 4)
            && self.workgroup.is_power_of_two()
            && view.is_readable()
            && !view.is_aside()
            && 2 * rounds <= LONGEST_WALK
            && fits(self.workgroup, self.workgroup_bytes(problem), view.units(), adapter)
    }
}

impl Variant<Gpu> for OnlineKernel {
    type Problem = Rows;
    type Config = OnlineConfig;

    identity!("gpu.rows.online", Parallel);

    fn declines(&self, problem: &Rows, device: &DeviceFacts) -> Option<Decline> {
        let len = problem.len;
        let short = || Decline::from(format!("a workgroup shares {LEAST} elements or more, rows have {len}"));
        let long =
            || Decline::from(format!("an invocation makes up to {LONGEST_WALK} steps, rows have {len}"));
        let declined = admits(problem, device).err();
        declined
            .or_else(|| (len < LEAST).then(short))
            .or_else(|| self.configs(problem, device).is_empty().then(long))
    }

    fn configs(&self, problem: &Rows, device: &DeviceFacts) -> Vec<OnlineConfig> {
        let Ok(adapter) = admits(problem, device) else { return Vec::new() };
        let mut configs = Vec::new();
        for width in [4, 1] {
            for workgroup in workgroups(adapter) {
                let config = OnlineConfig { workgroup, width };
                let is_idle = workgroup > 32 && u64::from(workgroup / 2) >= config.view(problem).steps();
                if problem.len >= LEAST && !is_idle && config.is_legal(problem, adapter) {
                    configs.push(config);
                }
            }
        }
        configs
    }

    fn work(&self, problem: &Rows, config: OnlineConfig, _: &DeviceFacts) -> Work {
        let (mut flops, bytes) = counted(problem, if problem.op.reduces() { 1 } else { 2 });
        if problem.op == trimtab_core::RowsOp::Softmax {
            flops.0 = flops.0.saturating_mul(2);
        }
        let groups = config.view(problem).units();
        Work {
            flops,
            bytes,
            launches: 1,
            threads: 1,
            lanes: config.width,
            barriers: groups * u64::from(config.workgroup.max(1).ilog2() + 1),
            invocations: groups * u64::from(config.workgroup),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Rows, config: OnlineConfig, args: Writer<'_>) -> Launched {
        let illegal = || LaunchError::Point(format!("{config:?}"));
        if !config.is_legal(problem, args.adapter) {
            return Err(illegal());
        }
        let view = config.view(problem);
        let write = if problem.op.reduces() {
            format!("    if (invocation == 0u) {{\n        {}\n    }}", view.write_one())
        } else {
            "    for (var at = invocation; at < steps; at += WIDTH) {
        let place = first + at * stride;
        output[place] = S(value(row, V(input[place]), at));
    }"
            .to_string()
        };
        let main = with_main(include_str!("online.wgsl")).replace("$WRITE", &write);
        let text = view.text() + &states(problem, config.width) + &main;
        let groups = spread_groups(view.units(), args.adapter).ok_or_else(illegal)?;
        let needs = Needs::of(problem.dtype);
        let step = in_a_row(text.into(), config.workgroup, groups, needs, view.bindings(), view.params());
        args.program.push(Dispatch { workgroup_bytes: config.workgroup_bytes(problem) as u32, ..step });
        Ok(())
    }
}

/// What is known of a part of a row, of one element (`One`) and of as many side by side as a vector has (`Many`).
fn states(problem: &Rows, width: u32) -> String {
    let (state, take, fields, conclusion) = match Family::of(problem.op) {
        Family::Exponentials => (
            include_str!("online_exponentials.wgsl"),
            include_str!("take_exponentials.wgsl"),
            &["most", "sum", "odd"][..],
            "conclude(V(s.most), V(s.sum), U(s.odd))",
        ),
        Family::Moments => (
            include_str!("online_moments.wgsl"),
            include_str!("take_moments.wgsl"),
            &["count", "mean", "squares"][..],
            "conclude(V(s.mean), V(s.squares))",
        ),
        Family::Squares => (
            include_str!("online_squares.wgsl"),
            include_str!("take_squares.wgsl"),
            &["squares"][..],
            "conclude(V(0.0), V(s.squares))",
        ),
    };
    let mut text = String::new();
    for (name, ending, number, word) in [("One", "one", "A", "u32"), ("Many", "many", "V", "U")] {
        text += &state.replace("$S", name).replace("$N", ending).replace("$V", number).replace("$U", word);
    }
    // The count is the same for all lanes.
    let lane = |lane: usize| {
        let component = if width == 1 { "" } else { [".x", ".y", ".z", ".w"][lane] };
        let field =
            |field: &&str| if *field == "count" { "s.count".into() } else { format!("s.{field}{component}") };
        format!("One({})", fields.iter().map(field).collect::<Vec<String>>().join(", "))
    };
    let together = match width {
        1 => lane(0),
        _ => {
            let pair = |first: usize| format!("merge_one({}, {})", lane(first), lane(first + 1));
            format!("merge_one({}, {})", pair(0), pair(2))
        }
    };
    text + take
        + &format!(
            "fn together(s: Many) -> One {{\n    return {together};\n}}\n
fn conclude_one(s: One) -> Row {{\n    return {conclusion};\n}}\n\n"
        )
}
