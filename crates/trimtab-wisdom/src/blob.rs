//! Bytes a device wants back in the next process, such as kernels its driver has built. A file a name, replaced whole; one
//! that is damaged does not exist.

use crate::store::Wisdom;
use std::io::Write;
use std::path::PathBuf;

/// Where blobs lie in wisdom's directory.
const FOLDER: &str = "blobs";
/// First bytes of a file; the number counts changes of its form.
const MAGIC: &[u8; 12] = b"trimtab blob";
/// The largest blob that is kept.
const MAX_BLOB: usize = 64 << 20;
/// Bytes before the data: the first bytes and a checksum.
const HEADER: usize = MAGIC.len() + 4;

impl Wisdom {
    /// What was kept under that name, if it is whole.
    pub fn blob(&self, name: &str) -> Option<Vec<u8>> {
        let bytes = std::fs::read(self.blob_path(name)?).ok()?;
        let (header, data) = bytes.split_at_checked(HEADER)?;
        let sum = u32::from_le_bytes(header[MAGIC.len()..].try_into().ok()?);
        (header.starts_with(MAGIC) && crc32fast::hash(data) == sum).then(|| data.to_vec())
    }

    /// Whether something was kept under that name, whole or damaged.
    pub fn has_blob(&self, name: &str) -> bool {
        self.blob_path(name).is_some_and(|path| path.exists())
    }

    /// Keeps bytes under a name, in place of what was there: whole or not at all, also with two writers. Without a
    /// directory, and for more than 64 MiB, nothing is kept. An error says why.
    pub fn keep_blob(&self, name: &str, data: &[u8]) -> Result<(), String> {
        let Some(path) = self.blob_path(name) else { return Ok(()) };
        if data.len() > MAX_BLOB {
            return Err(format!("{} bytes are more than the {MAX_BLOB} that are kept", data.len()));
        }
        // Named by this process: two writers do not meet in one temporary file.
        let temporary = path.with_extension(format!("{}.tmp", self.origin()));
        let write = || -> std::io::Result<()> {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            let mut file = std::fs::File::create(&temporary)?;
            file.write_all(MAGIC)?;
            file.write_all(&crc32fast::hash(data).to_le_bytes())?;
            file.write_all(data)?;
            drop(file);
            std::fs::rename(&temporary, &path)
        };
        write().map_err(|error| {
            let _ = std::fs::remove_file(&temporary);
            format!("{} could not be written: {error}", path.display())
        })
    }

    fn blob_path(&self, name: &str) -> Option<PathBuf> {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        // The sum keeps names apart that differ only in what a file name may not have.
        let name: String = format!("{}-{:08x}", name, crc32fast::hash(name.as_bytes()));
        let name: String = name.chars().map(plain).collect();
        let name = name.get(name.len().saturating_sub(100)..)?;
        Some(self.dir()?.join(FOLDER).join(name).with_extension("blob"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_comes_back_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let wisdom = Wisdom::open(dir.path());
        assert_eq!(wisdom.blob("gpu/a b"), None);
        wisdom.keep_blob("gpu/a b", b"first").unwrap();
        wisdom.keep_blob("gpu/a b", b"second").unwrap();
        wisdom.keep_blob("gpu/a_b", b"other").unwrap();
        let again = Wisdom::open(dir.path());
        assert_eq!(again.blob("gpu/a b").as_deref(), Some(&b"second"[..]));
        assert_eq!(again.blob("gpu/a_b").as_deref(), Some(&b"other"[..]));
        let path = wisdom.blob_path("gpu/a b").unwrap();
        let whole = std::fs::read(&path).unwrap();
        for damaged in [&whole[..whole.len() - 1], &whole[..7], &[], b"something else entirely"] {
            std::fs::write(&path, damaged).unwrap();
            assert!(again.has_blob("gpu/a b"));
            assert_eq!(again.blob("gpu/a b"), None);
        }
        // The folder does not disturb wisdom itself.
        assert!(Wisdom::open(dir.path()).warnings().is_empty());
    }

    #[test]
    fn without_a_directory_nothing_is_kept_and_one_that_cannot_be_written_is_said() {
        assert_eq!(Wisdom::in_memory().keep_blob("a", b"x"), Ok(()));
        assert_eq!(Wisdom::in_memory().blob("a"), None);
        let dir = tempfile::tempdir().unwrap();
        let wisdom = Wisdom::open(dir.path());
        std::fs::write(dir.path().join(FOLDER), b"in the way").unwrap();
        assert!(wisdom.keep_blob("a", b"x").unwrap_err().contains("could not be written"));
    }
}
