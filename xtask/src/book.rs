//! `cargo xtask book`: the book of `docs`, built by mdBook as a library. `tidy` looks at its sources, this at the pages.

use crate::cargo;
use anyhow::Result;
use std::path::Path;

/// Builds the book into target/book and follows the links of its pages. mdBook is compiled the first time: about 90 s of one core.
pub fn build(root: &Path) -> Result<()> {
    let place = ["--manifest-path", "book/Cargo.toml", "--target-dir", "target/mdbook"];
    cargo(root, &[&["run", "--quiet", "--locked"], &place[..], &["--", "docs", "target/book"]].concat())
}
