//! Bytes a device wants back in the next process, such as kernels its driver has built: under a name, replaced whole. One
//! that is damaged does not exist.

use crate::warning::{Warning, WarningKind};
use crate::wisdom::Wisdom;
use std::io::ErrorKind;

/// First bytes of a blob; the number counts changes of its form.
const MAGIC: &[u8; 12] = b"trimtab blob";
/// The largest blob that is kept.
const MAX_BLOB: usize = 64 << 20;
/// Bytes before the data: the first bytes and a checksum.
const HEADER: usize = MAGIC.len() + 4;
/// The most a store has to give back for one.
pub(crate) const MAX_STORED: u64 = (HEADER + MAX_BLOB) as u64;

impl Wisdom {
    /// What was kept under that name, if it is whole. One that somebody else can have written is not handed out: that is a warning.
    pub fn blob(&self, name: &str) -> Option<Vec<u8>> {
        let store = self.store.as_ref()?;
        let found = store.blob(&stored_name(name)).inspect_err(|error| {
            if error.kind() != ErrorKind::NotFound {
                let message = format!("{name} in {} is not used: {error}", store.place());
                self.state().warnings.add(Warning::new(WarningKind::Unreadable, message));
            }
        });
        let mut bytes = found.ok()?;
        let (header, data) = bytes.split_at_checked(HEADER)?;
        let sum = u32::from_le_bytes(header[MAGIC.len()..].try_into().ok()?);
        let whole = header.starts_with(MAGIC) && crc32fast::hash(data) == sum;
        whole.then(|| bytes.split_off(HEADER))
    }

    /// Whether something was kept under that name, whole or damaged.
    pub fn has_blob(&self, name: &str) -> bool {
        let found = self.store.as_ref().map(|store| store.blob(&stored_name(name)));
        found.is_some_and(|found| found.map_or_else(|error| error.kind() != ErrorKind::NotFound, |_| true))
    }

    /// Keeps bytes under a name, in place of what was there: whole or not at all, also with two writers. Without a
    /// store, and for more than 64 MiB, nothing is kept. An error says why.
    pub fn keep_blob(&self, name: &str, data: &[u8]) -> Result<(), String> {
        let Some(store) = self.store.as_ref().filter(|_| self.is_here()) else { return Ok(()) };
        if data.len() > MAX_BLOB {
            return Err(format!("{} bytes are more than the {MAX_BLOB} that are kept", data.len()));
        }
        let bytes = [MAGIC, crc32fast::hash(data).to_le_bytes().as_slice(), data].concat();
        let kept = store.put_blob(&stored_name(name), &bytes);
        kept.map_err(|error| format!("{name} could not be written to {}: {error}", store.place()))
    }
}

/// The name in the store, of characters that every store takes.
fn stored_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    // The sum keeps names apart that differ only in what a file name may not have.
    let name: String =
        format!("{name}-{:08x}", crc32fast::hash(name.as_bytes())).chars().map(plain).collect();
    name[name.len().saturating_sub(100)..].to_string()
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
        let path = dir.path().join("blobs").join(stored_name("gpu/a b")).with_extension("blob");
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
    fn without_a_store_nothing_is_kept_and_one_that_cannot_be_written_is_said() {
        assert_eq!(Wisdom::in_memory().keep_blob("a", b"x"), Ok(()));
        assert_eq!(Wisdom::in_memory().blob("a"), None);
        let dir = tempfile::tempdir().unwrap();
        let wisdom = Wisdom::open(dir.path());
        std::fs::write(dir.path().join("blobs"), b"in the way").unwrap();
        assert!(wisdom.keep_blob("a", b"x").unwrap_err().contains("could not be written"));
    }
}
