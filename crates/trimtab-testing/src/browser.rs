//! Looks at a page of ours in a real browser: whole, nothing from outside, no error, nothing wider than the window.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::Command;

/// Browsers that are looked for, in this order.
pub const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Asks the page within a frame of that width, and writes the answer where `--dump-dom` shows it.
const QUESTIONS: &str = r##"
const frame = document.querySelector('iframe');
frame.addEventListener('load', () => {
  const page = frame.contentDocument, view = frame.contentWindow;
  const told = {
    sections: page.querySelectorAll('main > section > h2').length,
    plots: page.querySelectorAll('svg').length,
    loaded: view.performance.getEntriesByType('resource').length,
    wider: page.documentElement.scrollWidth - page.documentElement.clientWidth,
    scripts: page.scripts.length,
    outside: page.querySelectorAll('[src], [srcset], link, object, embed, iframe, image, [href]:not([href^="#"])').length,
    dark: view.matchMedia('(prefers-color-scheme: dark)').matches,
    paper: view.getComputedStyle(page.documentElement).backgroundColor,
  };
  document.body.textContent = 'TOLD ' + Object.entries(told).map(([name, value]) => name + '=' + value).join(';') + ' END';
});"##;

/// What a page must have.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Sections with a heading.
    pub sections: RangeInclusive<usize>,
    /// The fewest drawings.
    pub plots: usize,
}

/// A window: its width in pixels, and whether dark colours are asked for.
pub type Window = (u32, bool);

/// The browser of this machine.
pub fn find() -> Option<&'static str> {
    let runs = |browser: &&str| {
        Command::new(browser).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    BROWSERS.into_iter().find(runs)
}

/// Looks at a page in these windows: a line for each, or what is wrong. The directory is for what the browser writes.
pub fn check(
    browser: &str,
    page: &str,
    dir: &Path,
    wanted: &Wanted,
    windows: &[Window],
) -> Result<Vec<String>, String> {
    let escaped = page.replace('&', "&amp;").replace('"', "&quot;");
    let mut lines = Vec::new();
    for &(width, dark) in windows {
        let frame = dir.join("frame.html");
        let style = format!("width:{width}px;height:4000px;border:0");
        let text = format!(
            "<!DOCTYPE html><meta charset=utf-8><body><iframe style=\"{style}\" srcdoc=\"{escaped}\"></iframe><script>{QUESTIONS}</script>"
        );
        std::fs::write(&frame, text).map_err(|error| error.to_string())?;
        let told = ask(browser, &frame, dir, dark)?;
        let number = |name: &str| told.get(name).and_then(|value| value.parse::<usize>().ok());
        let dark_told = told.get("dark").map(String::as_str);
        let wrong: Vec<&str> = [
            (
                number("sections").is_none_or(|count| !wanted.sections.contains(&count)),
                "sections are missing",
            ),
            (number("plots").is_none_or(|plots| plots < wanted.plots), "plots are missing"),
            (number("loaded") != Some(0), "something was loaded from outside"),
            (number("wider") != Some(0), "it is wider than the window"),
            (number("scripts") != Some(0), "it has scripts"),
            (number("outside") != Some(0), "it asks for something outside"),
            (dark_told != Some(if dark { "true" } else { "false" }), "wrong colours"),
        ]
        .into_iter()
        .filter_map(|(is_wrong, what)| is_wrong.then_some(what))
        .collect();
        let shown = format!("{width} px, {}: {told:?}", if dark { "dark" } else { "light" });
        if !wrong.is_empty() {
            return Err(format!("{}: {shown}", wrong.join(", ")));
        }
        lines.push(shown);
    }
    Ok(lines)
}

/// What the page answered; an error if the browser complained of anything in it.
fn ask(browser: &str, frame: &Path, dir: &Path, dark: bool) -> Result<BTreeMap<String, String>, String> {
    let colours = if dark { "0" } else { "1" };
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--virtual-time-budget=5000",
        ])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg(format!("--blink-settings=preferredColorScheme={colours}"))
        .args(["--window-size=1400,4200", "--dump-dom"])
        .arg(format!("file://{}", frame.display()))
        .output()
        .map_err(|error| format!("running {browser}: {error}"))?;
    let (shown, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if let Some(line) = log.lines().find(|line| line.contains("CONSOLE")) {
        return Err(format!("the browser complains: {line}"));
    }
    let told = shown.split_once("TOLD ").and_then(|(_, rest)| rest.split_once(" END"));
    let Some((told, _)) = told else {
        return Err(format!("the page did not answer; the browser said: {log}"));
    };
    let pairs = told.split(';').filter_map(|pair| pair.split_once('='));
    Ok(pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect())
}
