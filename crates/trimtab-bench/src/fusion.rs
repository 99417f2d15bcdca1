//! Several operations as one kernel against the same operations one after the other, and against a single one of them.
//!
//! Both sides are the runtime's own choice for each problem, tuned before; temporaries of the unfused side exist already.

use crate::turns::turns;
use crate::{Printer, fusion_gpu};
use anyhow::{Context, Result, bail};
use serde_json::{Map, json};
use trimtab::Runtime;
use trimtab::TuneRequest;
use trimtab::advanced::core::{
    Elementwise, Fused, Matmul, Nanos, Operand, Over, Patience, Problem, Reduce, Step, Varies,
};
use trimtab::advanced::cpu::{Element, Slice};
use trimtab::advanced::tune::Rules;

/// Elements of the chain that is promised, and of those beside it.
const CHAIN: &str = "fused.min(max(abs(sub(mul(relu(add(mul(a,#0),#1)),#2),#3)),#4),#5):f32:1x16777216:all";
/// More, without a promise: what is printed of them is `<name>_fused_vs_unfused`.
const OTHERS: [(&str, &str); 6] = [
    ("two_inputs", "fused.max(relu(sub(mul(add(mul(a,#0),b),#1),b)),#2):f32:1x16777216:all,all"),
    ("functions", "fused.mul(tanh(add(exp(mul(a,#0)),#1)),#2):f32:1x16777216:all"),
    ("square_sum", "fused.mul(sub(a,b),sub(a,b)):f32:1x16777216:all,all:sum"),
    ("softmax_rows", "fused.exp(sub(a,b)):f32:4096x4096:all,rows:sum.axis1"),
    ("bias_relu_256", "fused.relu(add(@,c)):f32:256x256x256:n,n,columns"),
    ("bias_relu_flat", "fused.relu(add(@,c)):f32:1024x1024x64:n,n,columns"),
];
/// Interleaved rounds; the minimum counts.
const ROUNDS: u32 = 15;
/// Least time of a measurement in a round: short calls are repeated.
const LEAST: Nanos = Nanos::from_millis(2);
/// Time for tuning one problem.
const TUNE_BUDGET: Nanos = Nanos::from_millis(20_000);

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let rt = Runtime::builder().device("cpu").ignore_environment().wisdom_in_memory().no_blas().build()?;
    let mut totals = Map::new();
    let chain = Times::of(&rt, CHAIN)?;
    printer.line(&chain.shown(CHAIN));
    for (name, text) in OTHERS {
        let times = Times::of(&rt, text)?;
        printer.line(&times.shown(text));
        totals.insert(format!("cpu_{name}_fused_vs_unfused"), json!(times.vs_unfused()));
    }
    totals.insert("cpu_fused_vs_single".to_string(), json!(chain.vs_single()));
    totals.insert("cpu_fused_vs_unfused".to_string(), json!(chain.vs_unfused()));
    match fusion_gpu::fused_vs_unfused()? {
        Some(line) => {
            printer.line(&line);
            totals.insert("gpu_fused_vs_unfused".to_string(), line["gpu_fused_vs_unfused"].clone());
        }
        None => eprintln!("there is no GPU: gpu_fused_vs_unfused is left out"),
    }
    printer.line(&totals.into());
    Ok(())
}

/// Nanoseconds of a recipe as one kernel, of its operations one by one together, and of its first operation alone.
struct Times {
    fused: f64,
    unfused: f64,
    single: f64,
    chosen: String,
}

impl Times {
    fn of(rt: &Runtime, text: &str) -> Result<Times> {
        let problem: Problem = text.parse()?;
        let Problem::Fused(recipe) = problem else { bail!("{text} is not a recipe") };
        let (parts, buffers) = parts(&recipe)?;
        let request =
            TuneRequest { rules: Rules::default(), ..TuneRequest::new(Patience::Measure, TUNE_BUDGET) };
        for problem in std::iter::once(&problem).chain(parts.iter().map(|part| &part.problem)) {
            rt.tune(problem, &request, &mut |_| ())?;
        }
        let lens = problem.input_lens();
        let values = |len: u64| (0..len).map(|at| 0.5 + (at % 1021) as f32 / 1024.0).collect::<Vec<f32>>();
        let inputs: Vec<Vec<f32>> = lens.as_slice().iter().map(|&len| values(len)).collect();
        let mut temporaries: Vec<Vec<f32>> = buffers.iter().map(|&len| vec![0.5; len]).collect();
        let mut out = vec![0.5f32; problem.out_len() as usize];
        let slices: Vec<Slice<'_>> = inputs.iter().map(|input| f32::erase(input)).collect();
        let best = turns::<3>(ROUNDS, LEAST, |which| match which {
            0 => Ok(rt.execute_inputs(&problem, &slices, f32::erase_mut(&mut out))?),
            1 => parts.iter().try_for_each(|part| part.run(rt, &inputs, &mut temporaries)),
            _ => parts.first().context("no operation")?.run(rt, &inputs, &mut temporaries),
        })?;
        let decision = rt.explain(&problem)?;
        let chosen = decision.winner().map(|rival| format!("{} {}", rival.name, rival.point_name));
        Ok(Times { fused: best[0], unfused: best[1], single: best[2], chosen: chosen.unwrap_or_default() })
    }

    /// Speed of the recipe against that of its first operation.
    fn vs_single(&self) -> f64 {
        self.single / self.fused
    }

    /// Speed of the recipe against that of its operations one by one.
    fn vs_unfused(&self) -> f64 {
        self.unfused / self.fused
    }

    fn shown(&self, text: &str) -> serde_json::Value {
        json!({
            "problem": text, "fused_ns": self.fused, "unfused_ns": self.unfused, "single_ns": self.single,
            "vs_single": self.vs_single(), "vs_unfused": self.vs_unfused(), "chosen": self.chosen,
        })
    }
}

/// Where an operation of the unfused side finds a value.
#[derive(Clone, Copy)]
enum Origin {
    /// An input of the recipe, or one of its numbers.
    Input(usize),
    Number(usize),
    /// What an operation before it left.
    Temporary(usize),
}

/// One operation by itself.
struct Part {
    problem: Problem,
    from: Vec<Origin>,
    to: usize,
}

impl Part {
    fn run(&self, rt: &Runtime, inputs: &[Vec<f32>], temporaries: &mut [Vec<f32>]) -> Result<()> {
        let mut out = std::mem::take(&mut temporaries[self.to]);
        let numbers = inputs.last().map_or(&[][..], Vec::as_slice);
        let slices: Vec<Slice<'_>> = self
            .from
            .iter()
            .map(|place| match *place {
                Origin::Input(at) => f32::erase(&inputs[at]),
                Origin::Number(at) => f32::erase(&numbers[at..at + 1]),
                Origin::Temporary(at) => f32::erase(&temporaries[at]),
            })
            .collect();
        rt.execute_inputs(&self.problem, &slices, f32::erase_mut(&mut out))?;
        drop(slices);
        temporaries[self.to] = out;
        Ok(())
    }
}

/// The operations of a recipe one by one, and the lengths of the temporaries they write to.
fn parts(recipe: &Fused) -> Result<(Vec<Part>, Vec<usize>)> {
    let mut parts = Vec::new();
    let mut buffers: Vec<usize> = Vec::new();
    let mut waiting: Vec<(Origin, Varies)> = Vec::new();
    let shape = |varies: Varies| {
        [if varies.outer() { recipe.outer() } else { 1 }, if varies.inner() { recipe.inner() } else { 1 }]
    };
    // A buffer no waiting value lies in, of that length.
    let free = |buffers: &mut Vec<usize>, held: &[(Origin, Varies)], len: u64| {
        let taken =
            |at: usize| held.iter().any(|(place, _)| matches!(place, Origin::Temporary(used) if *used == at));
        let found = (0..buffers.len()).find(|&at| !taken(at) && buffers[at] == len as usize);
        found.unwrap_or_else(|| {
            buffers.push(len as usize);
            buffers.len() - 1
        })
    };
    for step in recipe.steps() {
        let value = match step {
            Step::Input(at) => (Origin::Input(at.into()), recipe.varies(at.into())),
            Step::Number(at) => (Origin::Number(at.into()), Varies::Nowhere),
            Step::Product => {
                let product = recipe.product().context("there is no product")?;
                let side = |transposed| Operand { transposed, shared: false };
                let problem = Matmul::batched(
                    recipe.dtype,
                    1,
                    recipe.outer(),
                    recipe.inner(),
                    product.depth,
                    side(product.lhs_transposed),
                    side(product.rhs_transposed),
                )?;
                let to = free(&mut buffers, &waiting, recipe.len());
                let from = vec![Origin::Input(0), Origin::Input(1)];
                parts.push(Part { problem: problem.into(), from, to });
                (Origin::Temporary(to), Varies::All)
            }
            Step::Unary(op) => {
                let (place, varies) = waiting.pop().context("nothing waits")?;
                let problem = Elementwise::unary(op, recipe.dtype, &shape(varies))?;
                waiting.push((place, varies));
                let to = free(&mut buffers, &waiting, problem.out_len());
                waiting.pop();
                parts.push(Part { problem: problem.into(), from: vec![place], to });
                (Origin::Temporary(to), varies)
            }
            Step::Binary(op) => {
                let right = waiting.pop().context("nothing waits")?;
                let left = waiting.pop().context("nothing waits")?;
                let varies =
                    Varies::along(left.1.outer() || right.1.outer(), left.1.inner() || right.1.inner());
                let problem = Elementwise::binary(op, recipe.dtype, &shape(left.1), &shape(right.1))?;
                waiting.extend([left, right]);
                let to = free(&mut buffers, &waiting, problem.out_len());
                waiting.truncate(waiting.len() - 2);
                parts.push(Part { problem: problem.into(), from: vec![left.0, right.0], to });
                (Origin::Temporary(to), varies)
            }
        };
        waiting.push(value);
    }
    if let (Some((op, over)), Some((place, varies))) = (recipe.end(), waiting.pop()) {
        let axis = match over {
            Over::All => None,
            Over::Rows => Some(0),
            Over::Columns => Some(1),
        };
        let problem = Reduce::new(op, recipe.dtype, &shape(varies), axis)?;
        waiting.push((place, varies));
        let to = free(&mut buffers, &waiting, problem.out_len());
        parts.push(Part { problem: problem.into(), from: vec![place], to });
    }
    Ok((parts, buffers))
}
