//! The figures trimtab promises, each measured as a ratio within one run: `cargo xtask bench NAME [--json]`.
//!
//! Absolute times on shared machines mean little; what is compared is interleaved, and the minimum counts.

mod allocations;
mod bandwidth;
mod by_hand;
mod caution;
mod chaos;
mod cold;
mod cost;
mod expressions;
mod fusion;
mod fusion_gpu;
mod gpu;
mod gpu_start;
mod judge;
mod large;
mod matmul;
mod narrow;
mod offload;
mod online;
mod operations;
mod overhead;
mod placement;
mod problems;
mod recorded;
mod regret;
mod reload;
mod search;
mod times;
mod trap;
mod turns;
mod underload;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::PathBuf;

#[global_allocator]
static COUNTER: allocations::Counting = allocations::Counting;

/// Prints a result: one JSON object a line, or `name value` for people.
pub(crate) struct Printer {
    json: bool,
    /// What else was asked for.
    pub(crate) options: Options,
}

/// Options some of the benchmarks take.
#[derive(Default)]
pub(crate) struct Options {
    /// `--csv FILE`: times measured elsewhere, instead of measuring.
    pub(crate) csv: Option<PathBuf>,
    /// `--save FILE`: where to keep the times that were measured.
    pub(crate) save: Option<PathBuf>,
    /// `--shapes N`: how many shapes to measure.
    pub(crate) shapes: Option<usize>,
    /// `--operation NAME`: which operation to measure.
    pub(crate) operation: Option<String>,
    /// `--data DIR`: where published recordings are, instead of `TRIMTAB_DATA` or beside the checkout.
    pub(crate) data: Option<PathBuf>,
}

impl Printer {
    pub(crate) fn line(&self, value: &Value) {
        if self.json {
            println!("{value}");
            return;
        }
        let Some(object) = value.as_object() else { return };
        let parts: Vec<String> = object
            .iter()
            .map(|(name, value)| match value {
                Value::Number(number) if number.is_f64() => {
                    format!("{name} {:.3}", number.as_f64().unwrap_or(f64::NAN))
                }
                Value::String(text) => format!("{name} {text}"),
                other => format!("{name} {other}"),
            })
            .collect();
        println!("{}", parts.join("  "));
    }
}

type Bench = fn(&Printer) -> Result<()>;

const BENCHES: [(&str, &str, Bench); 20] = [
    ("overhead", "a warm call against the kernel called directly", overhead::run),
    ("matmul", "the tuned choice against every rival, size by size", matmul::run),
    ("narrow", "products of f16 and bf16, and under a tolerance, against those of f32", narrow::run),
    (
        "operations",
        "every operation: the tuned choice against the best rival and the best single kernel  [--operation NAME] [--shapes N]",
        operations::run,
    ),
    ("bandwidth", "add and sum of 64 Mi f32 against a copy", bandwidth::run),
    ("fusion", "several operations as one against one by one, and against a single one", fusion::run),
    (
        "expressions",
        "deciding at every size, and expressions against the same operations one by one",
        expressions::run,
    ),
    ("cold", "the first call of a new problem, nothing remembered", cold::run),
    (
        "reload",
        "opening 100,000 facts, and using what is remembered for the first time  [--shapes N]",
        reload::run,
    ),
    ("search", "deciding the next setting among 10,000, and what a million take", search::run),
    ("gpu", "tuned against default and exhaustive on gpu0, and a launch against one by hand", gpu::run),
    ("gpu-start", "a process's first product on gpu0 against a program by hand", gpu_start::run),
    ("regret", "the learned choice against the oracle on shapes never measured  [--csv FILE]", regret::run),
    (
        "online",
        "the first calls of a shape never measured, learning from live calls  [--csv FILE]",
        online::run,
    ),
    (
        "placement",
        "whole expressions on simulated machines against every placement and greedy rules",
        placement::run,
    ),
    ("offload", "the device a call is given to against the better one, size by size", offload::run),
    (
        "underload",
        "what was tuned beside busy processes against the best rival once it is quiet  [--shapes N]",
        underload::run,
    ),
    (
        "trap",
        "how soon a choice finds the fastest of four closures, and at what cost  [--shapes N]",
        trap::run,
    ),
    (
        "problems",
        "what a million problems make a process grow by, and a warm call among many plans  [--shapes N]",
        problems::run,
    ),
    ("recorded", "the models on published recordings of other devices  [--data DIR]", recorded::run),
];

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let texts: Vec<&str> = words.iter().map(String::as_str).collect();
    if let Some(ended) = chaos::start(&texts) {
        return ended;
    }
    match texts.as_slice() {
        ["chaos", ..] => return chaos::run(&words[1..]),
        [gpu_start::OURS, dir] => return gpu_start::start(std::path::Path::new(dir)),
        [gpu_start::BY_HAND, _] => return by_hand::start(),
        [underload::BUSY] => return underload::spin(),
        _ => (),
    }
    let (names, printer) = parse(words)?;
    let known = || BENCHES.map(|(name, what, _)| format!("  {name:<10} {what}")).join("\n");
    if names.is_empty() {
        bail!("which benchmark? all, or some of:\n{}", known());
    }
    for name in &names {
        let chosen: Vec<&(&str, &str, Bench)> =
            BENCHES.iter().filter(|bench| name == "all" || bench.0 == name).collect();
        if chosen.is_empty() {
            bail!("there is no benchmark `{name}`; there are:\n{}", known());
        }
        for (_, _, run) in chosen {
            run(&printer)?;
        }
    }
    Ok(())
}

/// The benchmarks' names, and how to run and print them.
fn parse(words: Vec<String>) -> Result<(Vec<String>, Printer)> {
    let mut names = Vec::new();
    let mut printer = Printer { json: false, options: Options::default() };
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("what follows `{word}`?"));
        match word.as_str() {
            "--json" => printer.json = true,
            "--csv" => printer.options.csv = Some(value()?.into()),
            "--data" => printer.options.data = Some(value()?.into()),
            "--operation" => printer.options.operation = Some(value()?),
            "--save" => printer.options.save = Some(value()?.into()),
            "--shapes" => {
                let count = value()?;
                let parsed = count.parse().with_context(|| format!("`{count}` is not a number of shapes"))?;
                printer.options.shapes = Some(parsed);
            }
            other if other.starts_with('-') => bail!("there is no option `{other}`"),
            _ => names.push(word),
        }
    }
    Ok((names, printer))
}
