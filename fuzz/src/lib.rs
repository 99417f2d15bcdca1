//! What fuzz targets share: inputs as text, in parts, and in files for parsers that read nothing else.

use std::path::{Path, PathBuf};

/// Between the parts of an input: a byte that neither JSON nor our own texts hold as it is.
pub const APART: u8 = 0x1e;

/// The input as text; of what is none, as much as there is.
pub fn text(data: &[u8]) -> &str {
    match std::str::from_utf8(data) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&data[..error.valid_up_to()]).unwrap_or_default(),
    }
}

/// The first so many parts of an input; those that are missing are empty.
pub fn parts<const N: usize>(data: &[u8]) -> [&[u8]; N] {
    let mut parts = data.splitn(N, |byte| *byte == APART);
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

/// A directory of this process, empty at first.
pub fn place(target: &str) -> PathBuf {
    let place = std::env::temp_dir().join(format!("trimtab-fuzz-{target}-{}", std::process::id()));
    std::fs::create_dir_all(&place).expect("there is room for the files of a fuzz target");
    place
}

/// Writes a file.
pub fn put(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("there is room for the files of a fuzz target");
}
