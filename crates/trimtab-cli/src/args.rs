//! What the command line looks like. Reads words; what they mean is the commands' business.

pub mod study;

use crate::terminal::Colour;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use trimtab::advanced::core::{Constraints, Nanos, Problem, ProblemError, Terms, Tolerance};
use trimtab::advanced::cpu::Isolation;
use trimtab::advanced::plan::{KernelRules, StrategyName, TuneMode};
use trimtab::{VARIABLES, parse_duration};
use trimtab_kernelfile::Language;

/// What `-h` leaves to `--help`.
const MORE: &str = "`--help` says more: variables, how problems are written, exit codes.";

/// The narrowest width tables are made for.
const LEAST_COLUMNS: i64 = 20;

/// The longest search that is simulated.
const MOST_EVALUATIONS: usize = 100_000;

/// Chooses kernel, settings and device for tensor operations by measuring, remembers on this machine, and says why.
#[derive(Debug, Parser)]
#[command(name = "trimtab", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = MORE, after_long_help = overview())]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    /// Without one: the five commands to begin with.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Options of every command. They win over the environment.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// One JSON object a line instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// The device to use: cpu, gpu, gpu0, part of a name, or auto
    ///
    /// For `wisdom`: the device whose facts are meant, also by fingerprint; for `recording import`: the device that was measured; for `simulate`: the device whose recordings are searched.
    #[arg(long, global = true, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Most threads a kernel may use
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(trimtab::advanced::cpu::MAX_THREADS)))]
    pub threads: Option<u32>,
    /// How far a product or convolution may be off, such as 1e-2
    ///
    /// As a share of what is added up for an element. Opens kernels that cut operands short (1e-2) or round more often (1e-4).
    #[arg(long, global = true, value_name = "SHARE", value_parser = tolerance)]
    pub tolerance: Option<Tolerance>,
    /// Where measurements are kept, or off
    #[arg(long, global = true, value_name = "DIR")]
    pub wisdom_dir: Option<PathBuf>,
    /// Effort for a new problem: off, estimate, measure, exhaustive
    ///
    /// Or a search strategy, which means measure with it.
    #[arg(long, global = true, value_name = "MODE", value_parser = mode)]
    pub tune: Option<TuneMode>,
    /// Width of tables and lines [default: the terminal's; in a pipe nothing is broken]
    #[arg(long, global = true, hide_short_help = true, value_name = "N", value_parser = clap::value_parser!(u16).range(LEAST_COLUMNS..))]
    pub columns: Option<u16>,
    /// When text is bold or coloured
    #[arg(long, global = true, hide_short_help = true, value_name = "WHEN", default_value = "auto")]
    pub color: Colour,
}

/// Which kernels may run. Wins over the environment.
#[derive(Args, Clone, Debug, Default)]
pub struct Named {
    /// Only this kernel may run; with a minus it may not
    ///
    /// Of the operation it serves: -cpu.matmul.gemm, -cpu.matmul.*; also several, separated by commas.
    #[arg(long = "kernel", value_name = "[-]NAME", allow_hyphen_values = true, value_parser = kernels)]
    pub kernels: Vec<KernelRules>,
    /// Run kernels for the first time in a child process, which alone ends if one crashes
    ///
    /// Kernels of the processor: auto (users' and suspects), all, off (Linux; without a word: all).
    #[arg(long, hide_short_help = true, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "all", value_parser = isolation)]
    pub isolate: Option<Isolation>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the devices: facts, state, measured speeds, kernels
    #[command(
        after_help = "Examples:\n  trimtab devices\n  trimtab devices -v\n  trimtab devices --json | jq .rates"
    )]
    Devices(Devices),
    /// Measure problems and remember the best plan of each
    #[command(after_help = examples(include_str!("help/tune.txt")), after_long_help = help(include_str!("help/tune.txt")))]
    Tune(Tune),
    /// Measure what whole calls take on each device, and from which size on a GPU is worth it
    #[command(after_help = examples(include_str!("help/calibrate.txt")), after_long_help = help(include_str!("help/calibrate.txt")))]
    Calibrate(Calibrate),
    /// Choose which problems to measure, so that others can be answered from them; the same as tune --active
    #[command(name = "calibrate-shapes", after_help = examples(include_str!("help/tune.txt")), after_long_help = help(include_str!("help/tune.txt")))]
    CalibrateShapes(Tune),
    /// Say which plan a problem has, why, and what else there is; measures nothing
    #[command(after_help = examples(include_str!("help/explain.txt")), after_long_help = help(include_str!("help/explain.txt")))]
    Explain(Explain),
    /// Measure every rival of a problem side by side
    #[command(after_help = examples(include_str!("help/bench.txt")), after_long_help = help(include_str!("help/bench.txt")))]
    Bench(Bench),
    /// Measure the settings of kernels and write the times down as recordings, to be replayed anywhere
    #[command(after_help = examples(include_str!("help/record.txt")), after_long_help = help(include_str!("help/record.txt")))]
    Record(Record),
    /// List recordings, and exchange them with other tuners as T4 results
    #[command(subcommand, after_help = examples(include_str!("help/recording.txt")), after_long_help = help(include_str!("help/recording.txt")))]
    Recording(Recording),
    /// Replay search strategies on recordings and say how near to the best setting they come
    #[command(after_help = examples(include_str!("help/simulate.txt")), after_long_help = help(include_str!("help/simulate.txt")))]
    Simulate(Simulate),
    /// Show how much is known, what is used, and how good choices and predictions were
    #[command(after_help = examples(include_str!("help/stats.txt")), after_long_help = help(include_str!("help/stats.txt")))]
    Stats(Stats),
    /// Show everything that decides where problems run: devices, calibration, crossovers, rules, decisions, how good they were
    #[command(after_help = examples(include_str!("help/report.txt")), after_long_help = help(include_str!("help/report.txt")))]
    Report(Report),
    /// Judge every kind of model on what was measured here: how much a learned choice loses on problems it has not seen
    #[command(after_help = examples(include_str!("help/models.txt")), after_long_help = help(include_str!("help/models.txt")))]
    Models(Models),
    /// Look at, carry and forget what is remembered
    #[command(subcommand, after_help = examples(include_str!("help/wisdom.txt")), after_long_help = help(include_str!("help/wisdom.txt")))]
    Wisdom(Wisdom),
    /// Compute a problem on generated data, check the result, show plan and time
    #[command(after_help = examples(include_str!("help/run.txt")), after_long_help = help(include_str!("help/run.txt")))]
    Run(Run),
    /// Check and time every kernel of every device, as a result to hand in
    #[command(name = "selftest", after_help = examples(include_str!("help/selftest.txt")), after_long_help = help(include_str!("help/selftest.txt")))]
    SelfTest(SelfTest),
    /// Find the best settings of any command by running it
    #[command(name = "tune-command", after_help = examples(include_str!("help/tune-command.txt")), after_long_help = help(include_str!("help/tune-command.txt")))]
    TuneAny(Box<study::TuneCommand>),
    /// Find the best settings of a kernel in a file: WGSL, OpenCL C, CUDA C, C, C++, Rust
    #[command(name = "tune-kernel", hide = true, override_usage = "trimtab tune [OPTIONS] --space <FILE> <KERNEL>", after_help = examples(include_str!("help/tune-kernel.txt")), after_long_help = help(include_str!("help/tune-kernel.txt")))]
    TuneKernel(Box<study::TuneKernel>),
    /// Runs kernels for a `trimtab tune FILE` that started it
    #[command(name = "kernel-worker", hide = true)]
    KernelWorker,
    /// Let others drive a search: JSON lines on standard input and output
    #[command(name = "ask-tell", after_help = examples(include_str!("help/ask-tell.txt")), after_long_help = help(include_str!("help/ask-tell.txt")))]
    AskTell(study::AskTell),
    /// Print the best settings a search found, for people, shells, compilers and serving engines
    #[command(after_help = examples(include_str!("help/best.txt")), after_long_help = help(include_str!("help/best.txt")))]
    Best(study::Best),
    /// List studies, show what they found, exchange them as T4 results
    #[command(subcommand)]
    Study(study::Study),
    /// Print what makes a shell complete our words
    #[command(after_help = examples(include_str!("help/completions.txt")), after_long_help = help(include_str!("help/completions.txt")))]
    Completions(Completions),
    /// Print the manual page, or write those of all commands
    #[command(after_help = examples(include_str!("help/man.txt")), after_long_help = help(include_str!("help/man.txt")))]
    Man(Man),
}

#[derive(Args, Debug)]
pub struct Devices {
    /// Every kernel with its class and version
    #[arg(long, short)]
    pub verbose: bool,
}

#[derive(Args, Debug)]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

#[derive(Args, Debug)]
pub struct Man {
    /// Write a page for each command here: trimtab.1, trimtab-tune.1, …
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct SelfTest {
    /// Time for each device
    #[arg(long, value_name = "TIME", default_value = "2min", value_parser = duration)]
    pub budget: Nanos,
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
    /// Choose which problems to measure, so that others can be answered from them, until a learned choice is expected to
    /// lose less than 2 % or the budget ends; --op says of which operation [default: matmul]
    #[arg(long, conflicts_with_all = ["problems", "exhaustive"])]
    pub active: bool,
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
    #[command(flatten)]
    pub named: Named,
}

#[derive(Args, Debug)]
pub struct Calibrate {
    /// Measure again what was calibrated earlier
    #[arg(long)]
    pub refresh: bool,
    /// Fewer and smaller sizes
    #[arg(long)]
    pub quick: bool,
    /// Take times from a profile file, or from what --json printed on a machine like this, instead of measuring; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "refresh")]
    pub from: Option<PathBuf>,
    /// Show only; keep and change nothing [default with --from]
    #[arg(long, conflicts_with = "commit")]
    pub dry_run: bool,
    /// Keep it and put it in force [default without --from]
    #[arg(long)]
    pub commit: bool,
}

#[derive(Args, Debug)]
pub struct Explain {
    /// The problem
    #[arg(value_name = "PROBLEM")]
    pub problem: String,
    /// Every setting of every kernel, not only the best of each kernel
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub named: Named,
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
pub struct Record {
    /// Problems to measure kernels on
    #[arg(value_name = "PROBLEM", required = true)]
    pub problems: Vec<String>,
    /// Where recordings are kept; those of the same kernel, problem and device are replaced
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Only these kernels; without, all that have settings to choose among
    #[arg(long, value_name = "KERNEL", value_delimiter = ',')]
    pub kernel: Vec<String>,
    /// Most settings of a kernel to measure, drawn at random where there are more [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub evals: Option<u32>,
    /// Times each setting is measured
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeats: u32,
    /// Time for everything together
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    pub budget: Nanos,
    /// Decides which settings are drawn, and their order
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

#[derive(Debug, Subcommand)]
pub enum Recording {
    /// Print the recordings of a directory
    List {
        /// Where recordings are kept
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
    },
    /// Take in T4 results, as Kernel Tuner and other tuners write them
    Import {
        /// The file to read, compressed or not; `-` for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Where recordings are kept
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// The recording's name [default: what the file says, or kernel and device, numbered where there is one]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// Put it in the place of a recording of the same name
        #[arg(long)]
        replace: bool,
        /// The kernel that was measured: recordings of one kernel help each other [default: what the file says]
        #[arg(long, value_name = "KERNEL")]
        kernel: Option<String>,
        /// The file has every legal setting, not a sample of them
        #[arg(long)]
        complete: bool,
    },
    /// Write a recording as T4 results
    Export {
        /// The recording
        #[arg(value_name = "SPACE")]
        space: String,
        /// The file to write; standard output without one, or with `-`
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// Where recordings are kept
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
    },
}

#[derive(Args, Debug)]
pub struct Simulate {
    /// Where recordings are kept: a directory with index.json
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Recordings to search; without, those in which every legal setting was measured
    #[arg(long, value_name = "SPACE", value_delimiter = ',', num_args = 1..)]
    pub space: Vec<String>,
    /// Strategies to try [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', num_args = 1..)]
    pub strategy: Vec<String>,
    /// Report after so many settings measured
    #[arg(long, value_name = "N", value_delimiter = ',', num_args = 1.., default_value = "20,50,100,200", value_parser = evaluations)]
    pub evals: Vec<usize>,
    /// Searches of each strategy on each recording
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub seeds: u64,
    /// The first seed; the same seed is the same search everywhere
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// A measurement is one recorded repeat, not the mean of all; settings near the best are measured a few times more,
    /// and what was found is scored by its mean
    #[arg(long)]
    pub noise: bool,
    /// Start from what these recordings teach; `others`: all of the same kernel on other devices
    #[arg(long, value_name = "SPACE", value_delimiter = ',', num_args = 1..)]
    pub warm_from: Vec<String>,
    /// Also recordings of which only a sample was measured, or each setting once
    #[arg(long, conflicts_with = "space")]
    pub all: bool,
    /// Draw quality against evaluations
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct Stats {
    /// Only this operation: matmul, reduce, reduce.sum
    #[arg(long, value_name = "OP")]
    pub op: Option<String>,
}

#[derive(Args, Debug)]
pub struct Report {
    /// Write a page for a browser: one file with everything in it; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct Models {
    /// Only this operation: matmul, elementwise, reduce.sum, …
    #[arg(long, value_name = "OP")]
    pub op: Vec<String>,
    /// Draw how fast each model's choices are, problem by problem
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct Run {
    /// The problem
    #[arg(value_name = "PROBLEM")]
    pub problem: String,
    #[command(flatten)]
    pub named: Named,
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
    /// Forget facts for good; what rested on them is decided anew at the next call
    Forget {
        #[command(flatten)]
        filter: Filter,
        /// Everything
        #[arg(long)]
        all: bool,
    },
    /// What is barred or suspect, why and since when
    #[command(subcommand)]
    Quarantine(Quarantine),
    /// Merge the files of finished processes into one
    Compact,
}

#[derive(Debug, Subcommand)]
pub enum Quarantine {
    /// Print every point that failed, timed out, gave a wrong result or ran when a process died
    List {
        /// Of this kernel only
        #[arg(long, value_name = "KERNEL")]
        kernel: Option<String>,
    },
    /// Forget that, so that it is tried again
    Lift {
        /// Of this kernel only
        #[arg(long, value_name = "KERNEL")]
        kernel: Option<String>,
    },
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

/// A tolerance that says something.
fn tolerance(text: &str) -> Result<Tolerance, String> {
    let share: f64 = text.trim().parse().map_err(|_| "use a number such as 1e-2".to_string())?;
    let constraints = Constraints { tolerance: Some(Tolerance(share)), ..Constraints::default() };
    let checked = Terms { constraints, ..Terms::default() }.check();
    checked.map(|()| Tolerance(share)).map_err(|wrong| wrong.to_string())
}

fn mode(text: &str) -> Result<TuneMode, String> {
    text.parse::<TuneMode>().map_err(|error| error.to_string())
}

fn isolation(text: &str) -> Result<Isolation, String> {
    let valid = || format!("use one of: {}", Isolation::ALL.map(Isolation::name).join(", "));
    Isolation::parse(text).ok_or_else(valid)
}

fn kernels(text: &str) -> Result<KernelRules, String> {
    text.parse::<KernelRules>().map_err(|error| error.to_string())
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

fn evaluations(text: &str) -> Result<usize, String> {
    let number = text.parse::<usize>().ok().filter(|number| (1..=MOST_EVALUATIONS).contains(number));
    number.ok_or_else(|| format!("write numbers from 1 to {MOST_EVALUATIONS}, such as 20,50,100,200"))
}

/// `trimtab tune FILE` is a command of its own, told by the ending of a file: it has other options than `trimtab tune PROBLEM`.
pub fn words(mut words: Vec<OsString>) -> Vec<OsString> {
    let is_kernel = |word: &OsString| {
        let text = word.to_string_lossy();
        !text.starts_with('-') && !text.contains(':') && Language::of(Path::new(word)).is_some()
    };
    // `--kernel NAME` may end like a file.
    let named = |at: usize| words.get(at.wrapping_sub(1)).is_some_and(|before| before == "--kernel");
    if let Some(tune) = words.iter().position(|word| word == "tune")
        && words.iter().enumerate().skip(tune).any(|(at, word)| is_kernel(word) && !named(at))
    {
        words[tune] = OsString::from("tune-kernel");
    }
    words
}

/// What `-h` shows after the options: the examples alone.
fn examples(text: &str) -> String {
    text.find("Examples:").and_then(|at| text.get(at..)).unwrap_or_default().trim_end().to_string()
}

/// A text shown after the options of a command; what it says of problems is the same everywhere.
fn help(text: &str) -> String {
    text.trim_end().replace("{PROBLEMS}", include_str!("help/problems.txt").trim_end())
}

fn overview() -> String {
    let width = VARIABLES.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, meaning): &(&str, &str)| format!("  {name:width$}  {meaning}");
    let variables: Vec<String> = VARIABLES.iter().map(line).collect();
    help(include_str!("help/overview.txt")).replace("{VARIABLES}", &variables.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// What `-h` shows of a command and of those below it.
    fn shown(command: &clap::Command, into: &mut String) {
        let mut own = command.clone().term_width(80);
        let name = own.get_bin_name().unwrap_or("trimtab").to_string();
        into.push_str(&format!("==== {name}\n{}\n", own.render_help()));
        for inner in
            command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
        {
            shown(inner, into);
        }
    }

    #[test]
    fn short_help_of_every_command_is_as_reviewed_at_80_columns() {
        let mut command = Cli::command().term_width(80);
        command.build();
        let mut text = String::new();
        shown(&command, &mut text);
        let wide: Vec<&str> =
            text.lines().filter(|line| line.chars().count() > 80 && !line.contains("trimtab ")).collect();
        assert!(wide.is_empty(), "{wide:?}");
        expect_test::expect_file!["../tests/golden/help.txt"].assert_eq(&text);
    }
}
