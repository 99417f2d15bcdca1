//! The figures trimtab promises, each measured as a ratio within one run: `cargo xtask bench NAME [--json]`.
//!
//! Absolute times on shared machines mean little; what is compared is interleaved, and the minimum counts.

mod allocations;
mod bandwidth;
mod by_hand;
mod cold;
mod gpu;
mod gpu_start;
mod matmul;
mod overhead;
mod reload;
mod search;

use anyhow::{Result, bail};
use serde_json::Value;

#[global_allocator]
static COUNTER: allocations::Counting = allocations::Counting;

/// Prints a result: one JSON object a line, or `name value` for people.
pub(crate) struct Printer {
    json: bool,
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

const BENCHES: [(&str, &str, Bench); 8] = [
    ("overhead", "a warm call against the kernel called directly", overhead::run),
    ("matmul", "the tuned choice against every rival, size by size", matmul::run),
    ("bandwidth", "add and sum of 64 Mi f32 against a copy", bandwidth::run),
    ("cold", "the first call of a new problem, nothing remembered", cold::run),
    ("reload", "opening 10,000 facts and choosing again without measuring", reload::run),
    ("search", "deciding the next setting among 10,000, and what a million take", search::run),
    ("gpu", "tuned against default and exhaustive on gpu0, and a launch against one by hand", gpu::run),
    ("gpu-start", "a process's first product on gpu0 against a program by hand", gpu_start::run),
];

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [gpu_start::OURS, dir] => return gpu_start::start(std::path::Path::new(dir)),
        [gpu_start::BY_HAND, _] => return by_hand::start(),
        _ => (),
    }
    let json = words.iter().any(|word| word == "--json");
    let names: Vec<&String> = words.iter().filter(|word| *word != "--json").collect();
    let known = || BENCHES.map(|(name, what, _)| format!("  {name:<10} {what}")).join("\n");
    if names.is_empty() {
        bail!("which benchmark? all, or some of:\n{}", known());
    }
    let printer = Printer { json };
    for name in names {
        let chosen: Vec<&(&str, &str, Bench)> =
            BENCHES.iter().filter(|bench| name == "all" || bench.0 == name.as_str()).collect();
        if chosen.is_empty() {
            bail!("there is no benchmark `{name}`; there are:\n{}", known());
        }
        for (_, _, run) in chosen {
            run(&printer)?;
        }
    }
    Ok(())
}
