//! Looks at the page of `trimtab report` in a real browser: whole, nothing from outside, no error, nothing wider than a phone.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Browsers that are looked for, in this order.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/// Widths that are looked at: a phone and a desk.
const WIDTHS: [u32; 2] = [390, 1200];
/// What the page must have.
const SECTIONS: usize = 7;
/// Plots of classes; more where there is more to draw.
const PLOTS: usize = 5;

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

/// Checks a page, or one that is made now.
pub fn check(root: &Path, file: Option<&str>) -> Result<()> {
    let Some(browser) = BROWSERS.iter().find(|name| runs(name)) else {
        bail!("browser check did NOT run: none of {} is installed", BROWSERS.join(", "));
    };
    let dir = std::env::temp_dir().join(format!("trimtab-browser-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let outcome = look(root, browser, file, &dir);
    let _ = std::fs::remove_dir_all(&dir);
    outcome
}

fn runs(browser: &str) -> bool {
    Command::new(browser).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn look(root: &Path, browser: &str, file: Option<&str>, dir: &Path) -> Result<()> {
    let page: PathBuf = match file {
        Some(file) => file.into(),
        None => {
            let page = dir.join("report.html");
            let shown = page.display().to_string();
            let run = ["run", "--quiet", "--package", "trimtab-cli", "--"];
            crate::cargo(root, &[&run[..], &["report", "--html", &shown]].concat())?;
            page
        }
    };
    let text = std::fs::read_to_string(&page).with_context(|| format!("reading {}", page.display()))?;
    let escaped = text.replace('&', "&amp;").replace('"', "&quot;");
    for width in WIDTHS {
        for dark in [false, true] {
            let frame = dir.join("frame.html");
            let style = format!("width:{width}px;height:4000px;border:0");
            std::fs::write(
                &frame,
                format!(
                    "<!DOCTYPE html><meta charset=utf-8><body><iframe style=\"{style}\" srcdoc=\"{escaped}\"></iframe><script>{QUESTIONS}</script>"
                ),
            )?;
            let told = ask(browser, &frame, dir, dark)?;
            let number = |name: &str| told.get(name).and_then(|value| value.parse::<usize>().ok());
            let wrong: Vec<&str> = [
                (number("sections") != Some(SECTIONS), "sections are missing"),
                (number("plots").is_none_or(|plots| plots < PLOTS), "plots are missing"),
                (number("loaded") != Some(0), "something was loaded from outside"),
                (number("wider") != Some(0), "it is wider than the window"),
                (number("scripts") != Some(0), "it has scripts"),
                (number("outside") != Some(0), "it asks for something outside"),
                (
                    told.get("dark").map(String::as_str) != Some(if dark { "true" } else { "false" }),
                    "wrong colours",
                ),
            ]
            .into_iter()
            .filter_map(|(is_wrong, what)| is_wrong.then_some(what))
            .collect();
            let shown = format!("{width} px, {}: {told:?}", if dark { "dark" } else { "light" });
            if !wrong.is_empty() {
                bail!("{}: {shown}", wrong.join(", "));
            }
            println!("browser check, {shown}");
        }
    }
    println!("browser check passed in {browser}");
    Ok(())
}

/// What the page answered; an error if the browser complained of anything in it.
fn ask(
    browser: &str,
    frame: &Path,
    dir: &Path,
    dark: bool,
) -> Result<std::collections::BTreeMap<String, String>> {
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
        .with_context(|| format!("running {browser}"))?;
    let (shown, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if let Some(line) = log.lines().find(|line| line.contains("CONSOLE")) {
        bail!("the browser complains: {line}");
    }
    let told = shown.split_once("TOLD ").and_then(|(_, rest)| rest.split_once(" END"));
    let Some((told, _)) = told else { bail!("the page did not answer; the browser said: {log}") };
    let pairs = told.split(';').filter_map(|pair| pair.split_once('='));
    Ok(pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect())
}
