//! `trimtab tune-command`: the best settings of any command, by running it. Opens no device.

use super::search::{self, Asked, Sizes, sizes};
use super::{donors, goals, space};
use crate::args::Global;
use crate::args::study::TuneCommand;
use crate::failure::bad_input;
use anyhow::Result;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use trimtab::advanced::study::{CommandRunner, Commands, Effort, Metric, ParameterSpace, Template};

pub fn run(global: &Global, args: &TuneCommand) -> Result<ExitCode> {
    let request = Request::read(args)?;
    let (measures_time, is_wall) = (request.commands.measures_time, request.commands.metric.is_time());
    let usual = Effort::usual(measures_time);
    let asked = Asked {
        donors: donors(&args.search, &request.space)?,
        space: Arc::clone(&request.space),
        sizes: request.sizes,
        size_texts: &args.sizes,
        goals: goals(&args.search, request.numbers)?,
        search: &args.search,
        kept: &args.kept,
        name: args.name.as_deref(),
        program: args.command.split_whitespace().next().unwrap_or_default().to_string(),
        what: request.what,
        unit: if is_wall { "s" } else { "" },
        times_processes: is_wall,
        evals: args.evals,
        budget: args.budget,
        workers: args.workers as usize,
        effort: Effort {
            repeats: args.repeats.unwrap_or(usual.repeats),
            warmup: args.warmup.unwrap_or(usual.warmup),
            retries: args.retries,
        },
        build_ahead: !args.no_compile_ahead,
    };
    search::run(global, &asked, &|sizes, place, stop| {
        let sizes = sizes.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
        let mut commands = request.commands.clone();
        commands.worker_dirs = args.workdir_per_worker.then(|| place.to_path_buf());
        Box::new(CommandRunner::new(commands, sizes, place.join(search::BUILT), Arc::clone(stop)))
    })
}

/// Everything the options ask for, read before anything runs.
struct Request {
    space: Arc<ParameterSpace>,
    commands: Commands,
    sizes: Vec<Sizes>,
    numbers: Vec<String>,
    what: Value,
}

impl Request {
    fn read(args: &TuneCommand) -> Result<Request> {
        let space = Arc::new(space(&args.space)?);
        let template = |role: &str, text: &String| {
            let read = if args.shell { Template::for_shell(text) } else { Template::parse(text) };
            read.map_err(|reason| bad_input(format!("{role}: {reason}")))
        };
        let optional =
            |role: &str, text: &Option<String>| text.as_ref().map(|text| template(role, text)).transpose();
        let mut numbers = Vec::new();
        for text in &args.also {
            let (name, metric) = text.split_once('=').ok_or_else(|| {
                bad_input(format!("--also '{text}' has no metric; write NAME=regex:PATTERN, NAME=json:POINTER or NAME=file:PATH"))
            })?;
            let metric =
                Metric::parse(metric).map_err(|reason| bad_input(format!("--also {name}: {reason}")))?;
            numbers.push((name.trim().to_string(), metric));
        }
        let mut environment = Vec::new();
        for text in &args.env {
            let (name, value) =
                text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
                    bad_input(format!(
                        "--env '{text}' has no value; write NAME=VALUE, such as OMP_NUM_THREADS={{threads}}"
                    ))
                })?;
            // One word: a value with spaces is one value.
            let quoted = format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""));
            let value =
                Template::parse(&quoted).map_err(|reason| bad_input(format!("--env {name}: {reason}")))?;
            environment.push((name.to_string(), value));
        }
        let commands = Commands {
            run: template("the command", &args.command)?,
            prepare: optional("--prepare", &args.prepare)?,
            compile: optional("--compile", &args.compile)?,
            check: optional("--check", &args.check)?,
            environment,
            depends: args.depends.clone(),
            metric: Metric::parse(&args.metric).map_err(|reason| bad_input(format!("--metric: {reason}")))?,
            measures_time: false,
            numbers,
            time_limit: Some(args.timeout),
            build_limit: Some(args.timeout),
            memory_limit: args.memory,
            // Where they are is known when the study is.
            worker_dirs: args.workdir_per_worker.then(PathBuf::new),
        };
        let is_time = commands.metric.is_time() || args.is_time;
        // Which is the slowest is no race: then the middle of several runs counts.
        let commands = Commands { measures_time: is_time && !args.search.maximise, ..commands };
        if args.workers > 1 && is_time {
            return Err(bad_input(
                "--workers runs points side by side, and each would slow the others down: the times would be wrong. Use one worker, or a metric that is no time (regex:, json:, file:)",
            ));
        }
        commands.check_files(args.workers as usize).map_err(bad_input)?;
        let sizes = sizes(&args.sizes, &space)?;
        let size_names: Vec<String> = sizes[0].iter().map(|(name, _)| name.clone()).collect();
        commands.check_holes(&space, &size_names).map_err(bad_input)?;
        let numbers = commands.numbers.iter().map(|(name, _)| name.clone()).collect();
        let here = std::env::current_dir().map(|dir| dir.display().to_string()).unwrap_or_default();
        let mut what = json!({ "command": args.command, "metric": args.metric, "dir": here, "timeout_s": args.timeout.0 as f64 / 1e9 });
        let lists = [("also", &args.also), ("env", &args.env)];
        let texts = [("prepare", &args.prepare), ("compile", &args.compile), ("check", &args.check)];
        lists.iter().filter(|(_, list)| !list.is_empty()).for_each(|(name, list)| what[*name] = json!(list));
        texts.iter().filter(|(_, text)| text.is_some()).for_each(|(name, text)| what[*name] = json!(text));
        if let Some(memory) = args.memory {
            what["memory_bytes"] = json!(memory);
        }
        if args.is_time {
            what["is_time"] = json!(true);
        }
        if args.shell {
            what["shell"] = json!(true);
        }
        if let Some(repeats) = args.repeats {
            what["repeats"] = json!(repeats);
        }
        Ok(Request { space, commands, sizes, numbers, what })
    }
}
