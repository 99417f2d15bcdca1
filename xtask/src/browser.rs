//! Looks at the page of `trimtab report`, or of a study, in a real browser.

use anyhow::{Context, Result, anyhow, bail};
use std::path::{Path, PathBuf};
use trimtab_testing::browser::{self, BROWSERS, Wanted, Window};

/// A phone and a desk, in both colours.
const WINDOWS: [Window; 4] = [(390, false), (390, true), (1200, false), (1200, true)];

/// The page of `trimtab report`: plots of classes, more where there is more to draw.
const REPORT: Wanted = Wanted { sections: 7..=7, plots: 10 };
/// That of `trimtab study report`: a section a size.
const STUDY: Wanted = Wanted { sections: 1..=usize::MAX, plots: 1 };

/// Checks a page, or one that is made now.
pub fn check(root: &Path, file: Option<&str>) -> Result<()> {
    let Some(browser) = browser::find() else {
        bail!("browser check did NOT run: none of {} is installed", BROWSERS.join(", "));
    };
    let dir = std::env::temp_dir().join(format!("trimtab-browser-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let outcome = look(root, browser, file, &dir);
    let _ = std::fs::remove_dir_all(&dir);
    outcome
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
    let wanted = if text.contains("<title>trimtab study ") { STUDY } else { REPORT };
    for line in browser::check(browser, &text, dir, &wanted, &WINDOWS).map_err(|reason| anyhow!(reason))? {
        println!("browser check, {line}");
    }
    println!("browser check passed in {browser}");
    Ok(())
}
