//! What the command line looks like. Reads words; what they mean is the commands' business.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use trimtab::core::{Nanos, Problem, ProblemError};
use trimtab::plan::{StrategyName, TuneMode};
use trimtab::{VARIABLES, parse_duration};

const PROBLEMS: &str = "\
Problems are written OPERATION:TYPE:SIZES, types are f32, f64, f16, i32:
  matmul:f32:512x256x128          m x n x k
  matmul:f64:8x64x64x64:n,t       batch x m x n x k; t transposed, s shared by the batch
  elementwise.gelu:f32:1048576    neg abs exp log sqrt tanh sigmoid relu gelu
  elementwise.add:f32:64x1024,1024   add sub mul div min max pow, with broadcasting
  reduce.sum:f32:64x1024:axis1    sum mean min max prod, of everything or along an axis
  transpose:f32:8x512x64:0.2.1    the order of axes; reversed if left out";

/// Chooses kernel, settings and device for tensor operations by measuring, remembers on this machine, and says why.
#[derive(Debug, Parser)]
#[command(name = "trimtab", version, propagate_version = true, after_help = overview(), max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command. They win over the environment.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// One JSON object a line instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// The device to use: cpu, gpu, gpu0, part of a name, or auto (for `wisdom`: the device whose facts are meant, also by fingerprint)
    #[arg(long, global = true, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Most threads a kernel may use
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(trimtab::cpu::MAX_THREADS)))]
    pub threads: Option<u32>,
    /// Where measurements are kept, or off
    #[arg(long, global = true, value_name = "DIR")]
    pub wisdom_dir: Option<PathBuf>,
    /// Effort for a new problem: off, estimate, measure, exhaustive; or a search strategy, which means measure with it
    #[arg(long, global = true, value_name = "MODE", value_parser = mode)]
    pub tune: Option<TuneMode>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the devices: facts, state, measured speeds, kernels
    #[command(after_help = "Examples:\n  trimtab devices\n  trimtab devices --json | jq .rates")]
    Devices,
    /// Measure problems and remember the best plan of each
    #[command(after_help = tune_examples())]
    Tune(Tune),
    /// Say which plan a problem has, why, and what else there is; measures nothing
    #[command(after_help = explain_examples())]
    Explain(Explain),
    /// Measure every rival of a problem side by side
    #[command(after_help = bench_examples())]
    Bench(Bench),
    /// Look at, carry and forget what is remembered
    #[command(subcommand, after_help = WISDOM_EXAMPLES)]
    Wisdom(Wisdom),
    /// Compute a problem on generated data, check the result, show plan and time
    #[command(after_help = run_examples())]
    Run(Run),
}

#[derive(Args, Debug)]
pub struct Tune {
    /// Problems to tune; without any a representative set
    #[arg(value_name = "PROBLEM")]
    pub problems: Vec<String>,
    /// Only this operation of the representative set: matmul, elementwise, reduce.sum, …
    #[arg(long, value_name = "OP", conflicts_with = "problems")]
    pub op: Vec<String>,
    /// Time for all problems together; what one does not need the next may use
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub budget: Nanos,
    /// Race every legal setting of every kernel
    #[arg(long, conflicts_with_all = ["strategy", "evals", "good_enough"])]
    pub exhaustive: bool,
    /// How settings are searched: auto, model, hill, evolve, anneal, halving (also race), natural, random, sweep
    #[arg(long, value_name = "NAME", value_parser = strategy)]
    pub strategy: Option<StrategyName>,
    /// Most settings measured per problem
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub evals: Option<u32>,
    /// Ends when the best reaches this share of the device's roofline: 0.9 or 90%
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub good_enough: Option<f64>,
}

#[derive(Args, Debug)]
pub struct Explain {
    /// The problem
    #[arg(value_name = "PROBLEM")]
    pub problem: String,
    /// Every setting of every kernel, not only the best of each kernel
    #[arg(long)]
    pub all: bool,
}

#[derive(Args, Debug)]
pub struct Bench {
    /// Problems to measure
    #[arg(value_name = "PROBLEM", required = true)]
    pub problems: Vec<String>,
    /// Every setting of every kernel, not only the best known of each kernel
    #[arg(long)]
    pub points: bool,
    /// Samples of each rival
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rounds: u32,
    /// Time for all problems together
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub budget: Nanos,
}

#[derive(Args, Debug)]
pub struct Run {
    /// The problem
    #[arg(value_name = "PROBLEM")]
    pub problem: String,
}

#[derive(Debug, Subcommand)]
pub enum Wisdom {
    /// Print where it is kept
    Path,
    /// Print the facts, one a line
    List(Filter),
    /// Write facts and verdicts as text, for `import` elsewhere
    Export {
        /// The file to write; standard output without one, or with `-`
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        filter: Filter,
    },
    /// Show what exported facts would change here; with --commit take them in
    Import {
        /// The file to read; `-` for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Take the facts in; they count at once
        #[arg(long)]
        commit: bool,
    },
    /// Forget facts for good; what rested on them is measured anew
    Forget {
        #[command(flatten)]
        filter: Filter,
        /// Everything
        #[arg(long)]
        all: bool,
    },
    /// Merge the files of finished processes into one
    Compact,
}

/// Names a part of wisdom together with --device; everything given must match.
#[derive(Args, Clone, Debug, Default)]
pub struct Filter {
    /// Facts about this kernel, in any version
    #[arg(long, value_name = "KERNEL")]
    pub kernel: Option<String>,
    /// Facts about this problem
    #[arg(long, value_name = "PROBLEM")]
    pub problem: Option<String>,
    /// Facts about this operation: matmul, reduce, reduce.sum
    #[arg(long, value_name = "OP")]
    pub op: Option<String>,
}

/// The problem of that text.
pub fn problem(text: &str) -> Result<Problem, ProblemError> {
    Problem::parse(text)
}

fn mode(text: &str) -> Result<TuneMode, String> {
    text.parse::<TuneMode>().map_err(|error| error.to_string())
}

fn strategy(text: &str) -> Result<StrategyName, String> {
    text.parse::<StrategyName>().map_err(|error| error.to_string())
}

/// A share above zero and up to one, also in percent.
fn share(text: &str) -> Result<f64, String> {
    let (number, whole) = text.trim().strip_suffix('%').map_or((text.trim(), 1.0), |number| (number, 100.0));
    let share = number.trim_end().parse::<f64>().ok().map(|number| number / whole);
    share
        .filter(|share| *share > 0.0 && *share <= 1.0)
        .ok_or_else(|| "write a share above 0 and up to 1, such as 0.9 or 90%".to_string())
}

fn duration(text: &str) -> Result<Nanos, String> {
    parse_duration(text).ok_or_else(|| "write a time with its unit, such as 500ms, 30s or 2m".to_string())
}

fn overview() -> String {
    let width = VARIABLES.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = "Environment:\n".to_string();
    for (name, meaning) in VARIABLES {
        text.push_str(&format!("  {name:width$}  {meaning}\n"));
    }
    format!(
        "{text}\n{PROBLEMS}\n\nExamples:\n  trimtab tune                          measure what is typical on this machine\n  \
         trimtab explain matmul:f32:512x512x512\n  trimtab bench matmul:f32:1x4096x4096\n\n\
         Exit codes: 0 done, 1 the operation or a check failed, 2 wrong usage or input."
    )
}

fn tune_examples() -> String {
    format!(
        "A problem that is tuned already is not measured again.\n\n{PROBLEMS}\n\nExamples:\n  trimtab tune\n  \
         trimtab tune --op reduce --op transpose\n  trimtab tune matmul:f32:1024x1024x1024 --budget 5s --exhaustive\n  \
         trimtab tune matmul:f32:1024x1024x1024 --strategy hill --evals 60"
    )
}

fn explain_examples() -> String {
    format!(
        "{PROBLEMS}\n\nExamples:\n  trimtab explain matmul:f32:512x512x512\n  \
         trimtab explain matmul:f32:512x512x512 --threads 1 --all\n  \
         trimtab explain reduce.sum:f32:64x1024:axis1 --json | jq '.rivals[] | .kernel'"
    )
}

fn bench_examples() -> String {
    format!(
        "Rivals run interleaved, so that drift of the machine hits all alike. Nothing is remembered.\n\n{PROBLEMS}\n\n\
         Examples:\n  trimtab bench matmul:f32:256x256x256\n  \
         trimtab bench matmul:f32:64x64x64 transpose:f32:512x512 --points --rounds 30"
    )
}

fn run_examples() -> String {
    format!(
        "{PROBLEMS}\n\nExamples:\n  trimtab run matmul:f32:100x200x300\n  trimtab run matmul:f64:8x64x64x64:n,t --tune off"
    )
}

const WISDOM_EXAMPLES: &str = "\
Examples:
  trimtab wisdom list --op matmul
  trimtab wisdom export | ssh other trimtab wisdom import - --commit
  trimtab wisdom forget --kernel cpu.matmul.blocked";
