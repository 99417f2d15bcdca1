//! Builds a book with mdBook and follows every link of what was built: a page that is not there, an anchor that mdBook names otherwise, or a
//! picture that was not copied is an error.

mod links;

use anyhow::{Context, Result, bail};
use mdbook_driver::MDBook;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Pages that are made of the others, or shown where there is none. Links in them are right elsewhere.
const MADE: [&str; 3] = ["404.html", "print.html", "toc.html"];

fn main() -> Result<()> {
    let words: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [from, to] = &words[..] else { bail!("usage: trimtab-book DOCS TARGET") };
    let mut book = MDBook::load(from).with_context(|| format!("reading {}", from.display()))?;
    book.config.build.build_dir = std::path::absolute(to)?;
    book.build().context("building the book")?;
    let (mut pages, mut others) = (BTreeMap::new(), Vec::new());
    gather(to, to, &mut pages, &mut others)?;
    let problems = links::broken(&pages, &others);
    if !problems.is_empty() {
        bail!("links of the book:\n  {}", problems.join("\n  "));
    }
    let count: usize = pages.values().map(|page| links::targets(page).count()).sum();
    println!("the book is in {}: {} pages, {count} links lead somewhere", to.display(), pages.len());
    Ok(())
}

/// Pages with their text, and the names of all other files, by their path inside the book.
fn gather(
    root: &Path,
    place: &Path,
    pages: &mut BTreeMap<String, String>,
    others: &mut Vec<String>,
) -> Result<()> {
    for entry in std::fs::read_dir(place)? {
        let path = entry?.path();
        if path.is_dir() {
            gather(root, &path, pages, others)?;
            continue;
        }
        let name = path.strip_prefix(root)?.to_string_lossy().replace('\\', "/");
        match name.strip_suffix(".html").filter(|_| !MADE.contains(&name.as_str())) {
            Some(_) => drop(pages.insert(name, std::fs::read_to_string(&path)?)),
            None => others.push(name),
        }
    }
    Ok(())
}
