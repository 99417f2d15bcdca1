//! `trimtab completions`, `trimtab man`, and what the bare command says: made of the command's own parser.

use crate::args::{Cli, Completions, Global, Man};
use crate::output::{Output, counted};
use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_mangen::Man as Page;
use serde_json::json;
use std::process::ExitCode;

/// The five commands that matter.
pub fn first(global: &Global) -> Result<ExitCode> {
    let out = Output::new(global);
    let text = include_str!("../help/first.txt").replace("{VERSION}", env!("CARGO_PKG_VERSION"));
    text.lines().try_for_each(|line| out.verbatim(line))?;
    Ok(ExitCode::SUCCESS)
}

/// What makes a shell complete our words.
pub fn completions(global: &Global, args: &Completions) -> Result<ExitCode> {
    let (out, mut script) = (Output::new(global), Vec::new());
    clap_complete::generate(args.shell, &mut Cli::command(), "trimtab", &mut script);
    let script = String::from_utf8(script)?;
    let object = json!({ "shell": args.shell.to_string(), "script": script });
    out.either(&object, || script.lines().try_for_each(|line| out.written(line)))?;
    Ok(ExitCode::SUCCESS)
}

/// The manual page of the command, or those of all commands as files.
pub fn man(global: &Global, args: &Man) -> Result<ExitCode> {
    let (out, pages) = (Output::new(global), pages(Cli::command())?);
    let Some(dir) = &args.dir else {
        let Some((name, page)) = pages.into_iter().next() else { return Ok(ExitCode::SUCCESS) };
        let object = json!({ "name": name, "page": page });
        out.either(&object, || page.lines().try_for_each(|line| out.written(line)))?;
        return Ok(ExitCode::SUCCESS);
    };
    let shown = dir.display().to_string();
    std::fs::create_dir_all(dir).with_context(|| format!("{shown} could not be made"))?;
    for (name, page) in &pages {
        let file = dir.join(name);
        std::fs::write(&file, page).with_context(|| format!("{} could not be written", file.display()))?;
    }
    let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    out.either(&json!({ "dir": shown, "pages": names }), || {
        out.line(format!("wrote {} to {shown}", counted(names.len(), "page")))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Every page with the name of its file, the command's own first.
fn pages(command: clap::Command) -> Result<Vec<(String, String)>> {
    let mut command = command.disable_help_subcommand(true);
    // So that options of every command are in each page, under the full name.
    command.build();
    let mut pages = Vec::new();
    let mut left = vec![command];
    while let Some(command) = left.pop() {
        let inner =
            command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help");
        left.extend(inner.cloned());
        let mut page = Vec::new();
        let name = command.get_display_name().unwrap_or(command.get_name()).to_string();
        // What `-h` leaves out, a page has room for; without this it names such options and says nothing of them.
        Page::new(command.mut_args(|arg| arg.hide_short_help(false))).render(&mut page)?;
        pages.push((format!("{name}.1"), String::from_utf8(page)?));
    }
    Ok(pages)
}
