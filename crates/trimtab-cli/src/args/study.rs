//! The options of commands that tune anything: tune-command, ask-tell, best, study.

use super::duration;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use trimtab::Nanos;
use trimtab::advanced::study::Format;

/// What is searched.
#[derive(Args, Clone, Debug, Default)]
pub struct Space {
    /// The space: a TOML file, a T1 input file, or T4 results whose configurations are the points
    #[arg(long, value_name = "FILE", conflicts_with_all = ["params", "constraints"])]
    pub space: Option<PathBuf>,
    /// A parameter: block=16,32,64, unroll=1..8, tile=8..256:*2 (doubling), x=0..1:0.1 (steps), fast=true,false
    #[arg(long = "param", value_name = "NAME=VALUES")]
    pub params: Vec<String>,
    /// What must hold between parameters: 'block*unroll<=256'
    #[arg(long = "where", value_name = "EXPRESSION")]
    pub constraints: Vec<String>,
}

/// What is looked for, and how.
#[derive(Args, Clone, Debug, Default)]
pub struct Search {
    /// More of the metric is better
    #[arg(long)]
    pub maximise: bool,
    /// A further number that is an objective too, min:NAME or max:NAME: the answer is then a Pareto front
    #[arg(long, value_name = "[min:|max:]NAME")]
    pub objective: Vec<String>,
    /// What must hold of the numbers: 'p99_ms<20'; the metric itself is `value`
    #[arg(long, value_name = "EXPRESSION")]
    pub limit: Vec<String>,
    /// How points are searched: auto, model, hill, evolve, anneal, halving, natural, random, sweep
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub strategy: String,
    /// The same seed tries the same points, given the same answers
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Start from what these T4 results of others teach
    #[arg(long, value_name = "FILE")]
    pub seed_from: Vec<PathBuf>,
}

/// Where a study is kept.
#[derive(Args, Clone, Debug, Default)]
pub struct KeptWhere {
    /// Where studies are kept [default: `studies` in the wisdom directory]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Forget what is known of this study and begin anew
    #[arg(long)]
    pub fresh: bool,
}

#[derive(Args, Debug)]
#[command(args_override_self = true)]
pub struct TuneCommand {
    /// The command, with {name} where the value of a parameter goes, and {name:+text} for a text where a flag is on. Split into words as a shell would, but run without one
    #[arg(value_name = "COMMAND")]
    pub command: String,
    #[command(flatten)]
    pub space: Space,
    /// What is minimised: wall (seconds), regex:PATTERN (the last match in the output, its first group), json:POINTER, file:PATH
    #[arg(long, value_name = "METRIC", default_value = "wall")]
    pub metric: String,
    /// The number is a time that the command takes itself: its runs are raced as wall times are, and the smallest counts
    #[arg(long, conflicts_with = "maximise")]
    pub is_time: bool,
    /// A further number, for limits, objectives and the report: p99_ms=regex:'p99 ([0-9.]+)'
    #[arg(long, value_name = "NAME=METRIC")]
    pub also: Vec<String>,
    #[command(flatten)]
    pub search: Search,
    /// Most points [default: 100 unless there is a budget]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub evals: Option<u64>,
    /// Most time, that of earlier runs of the same study included
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub budget: Option<Nanos>,
    /// A run is ended after that, and the point has failed
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    pub timeout: Nanos,
    /// A run is ended when it and its children hold more memory: 500M, 4G (Linux)
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub memory: Option<u64>,
    /// Most runs of a point that count [default: 5 of times, which end sooner when the time is known; 1 of others, more give the median]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: Option<u32>,
    /// Runs of a point before those that count [default: 1 of times, 0 of others]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub warmup: Option<u32>,
    /// How often a point that failed is tried again; one that then runs is flaky
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub retries: u32,
    /// Runs before each run and is not timed
    #[arg(long, value_name = "COMMAND")]
    pub prepare: Option<String>,
    /// Makes {out} for a point, in a place of its own; the same words and files are compiled once, and ahead, while another point is measured
    #[arg(long, value_name = "COMMAND")]
    pub compile: Option<String>,
    /// A file that compiling depends on besides those its command names
    #[arg(long, value_name = "FILE")]
    pub depends: Vec<PathBuf>,
    /// Compile nothing while a point is measured
    #[arg(long)]
    pub no_compile_ahead: bool,
    /// Says by its exit code whether the result is right; runs after the first run of a point
    #[arg(long, value_name = "COMMAND")]
    pub check: Option<String>,
    /// A variable for all of these commands: OMP_NUM_THREADS={threads}
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// Points at once; only where the metric is no time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: u32,
    /// Run in a directory for each worker, instead of this one
    #[arg(long)]
    pub workdir_per_worker: bool,
    /// Run the commands by sh -c; values are in its environment, never in its text
    #[arg(long)]
    pub shell: bool,
    /// A size of the problem, each with a search of its own that starts from the others: batch=1,2,4,8
    #[arg(long = "size", value_name = "NAME=VALUES")]
    pub sizes: Vec<String>,
    /// The name of the study [default: made of the program and everything that is asked]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    pub kept: KeptWhere,
}

#[derive(Args, Debug)]
#[command(args_override_self = true)]
pub struct TuneKernel {
    /// The kernel: .wgsl, .cl (OpenCL C), .c, .cpp, .rs
    #[arg(value_name = "KERNEL")]
    pub file: PathBuf,
    /// Its space and how it is run: a TOML file with [parameters], [kernel] and [[arguments]]
    #[arg(long, value_name = "FILE")]
    pub space: PathBuf,
    /// A size of the problem in the place of the file's; several are searched each by itself: n=256,1024
    #[arg(long = "size", value_name = "NAME=VALUES")]
    pub sizes: Vec<String>,
    #[command(flatten)]
    pub search: Search,
    /// Most points [default: 100 unless there is a budget]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub evals: Option<u64>,
    /// Most time, that of earlier runs of the same study included
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub budget: Option<Nanos>,
    /// A run is ended after that, and the point has failed; compiling, and the reference, after two minutes at least
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub timeout: Nanos,
    /// A run is ended when its process holds more memory: 500M, 4G [default: three quarters of the machine's] (Linux)
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub memory: Option<u64>,
    /// Most runs of a point that count; they end sooner when the time is known. A run is launches for 15 ms, the shortest counts [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: Option<u32>,
    /// Runs of a point before those that count [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub warmup: Option<u32>,
    /// How often a point that failed is tried again; one that then runs is flaky
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub retries: u32,
    /// The compiler of C, C++ or Rust [default: cc, c++, rustc, or what the file says]
    #[arg(long, value_name = "PROGRAM")]
    pub compiler: Option<String>,
    /// Compile nothing while a point is measured
    #[arg(long)]
    pub no_compile_ahead: bool,
    /// The name of the study [default: made of the file and everything that is asked]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    pub kept: KeptWhere,
}

#[derive(Args, Debug)]
pub struct AskTell {
    #[command(flatten)]
    pub space: Space,
    /// A further number that is told with each point, for limits and objectives
    #[arg(long, value_name = "NAME")]
    pub also: Vec<String>,
    #[command(flatten)]
    pub search: Search,
    /// The name under which the study is kept; without one it is forgotten at the end
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    pub kept: KeptWhere,
}

#[derive(Args, Debug)]
pub struct Best {
    /// The study
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The sizes that are meant; without, all that were searched: batch=16,seq=128
    #[arg(long, value_name = "NAME=N", value_delimiter = ',')]
    pub sizes: Vec<String>,
    /// How it is written: table, json, env, c-header, toml, args; of a study by batch size also vllm, sglang
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = format)]
    pub format: Format,
    /// Where studies are kept [default: `studies` in the wisdom directory]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Study {
    /// Print the studies that are kept
    List {
        /// Where studies are kept [default: `studies` in the wisdom directory]
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Show what a study found: how fast, every point, which parameters matter, what failed and why
    Report {
        /// The study
        #[arg(value_name = "NAME")]
        name: String,
        /// Write a page for a browser: one file with everything in it; `-` for standard output
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
        /// Where studies are kept [default: `studies` in the wisdom directory]
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Write a study as T4 results
    Export {
        /// The study
        #[arg(value_name = "NAME")]
        name: String,
        /// The file to write; standard output without one, or with `-`
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// Where studies are kept [default: `studies` in the wisdom directory]
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

fn format(text: &str) -> Result<Format, String> {
    let valid = || format!("use one of: {}", Format::ALL.map(Format::name).join(", "));
    Format::parse(text).ok_or_else(valid)
}

/// A number of bytes, also in thousands of 1024: 500M, 4G.
fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || "write a number of bytes, such as 500M or 4G".to_string();
    let (digits, unit) = match text.trim().strip_suffix(['K', 'M', 'G', 'T']) {
        Some(digits) => (digits, text.trim().chars().last()),
        None => (text.trim(), None),
    };
    let shift = match unit {
        Some('K') => 10,
        Some('M') => 20,
        Some('G') => 30,
        Some('T') => 40,
        _ => 0,
    };
    let number: u64 = digits.trim().parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0).ok_or_else(wrong)
}
