//! `cargo xtask loom`: the lock-free pieces in every order of events that few threads can have.

use crate::cargo_with;
use anyhow::{Result, bail};
use std::path::Path;

const HELP: &str = "\
usage: cargo xtask loom [--preemptions N] [NAME]

Runs the models of the package `interleavings` (all, or those whose name contains NAME): the thread pool's board, the table of
plans and the feedback ring, compiled with loom's types, in every order of events with at most N involuntary switches
between threads (3). Prints how many orders there were. `cargo xtask test` runs them too.
";

pub fn run(root: &Path, words: &[&str]) -> Result<()> {
    let (mut preemptions, mut names, mut words) = (None, Vec::new(), words.iter());
    while let Some(word) = words.next() {
        match *word {
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(());
            }
            "--preemptions" => match words.next().map(|number| number.parse::<u8>()) {
                Some(Ok(number)) => preemptions = Some(number.to_string()),
                _ => bail!("--preemptions takes a number up to 255\n\n{HELP}"),
            },
            option if option.starts_with('-') => bail!("there is no option `{option}`\n\n{HELP}"),
            name => names.push(name),
        }
    }
    let mut arguments = vec!["test", "--quiet", "--package", "trimtab-interleavings", "--"];
    arguments.extend(["--nocapture"].into_iter().chain(names));
    let environment: Vec<_> =
        preemptions.iter().map(|number| ("LOOM_MAX_PREEMPTIONS", number.as_str())).collect();
    cargo_with(root, &arguments, &environment)
}
