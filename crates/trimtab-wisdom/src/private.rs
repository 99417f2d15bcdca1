//! Who may read and write what lies in a directory. Only its owner, unless the directory is shared on purpose: others may write to it, or it
//! hands its group on (setgid). Then readers may read files too; what goes to a driver is checked file by file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// Makes a directory, its parents too, for its owner alone.
pub(crate) fn make(dir: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

#[cfg(unix)]
pub(crate) use unix::{for_new, tighten, trusted};

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};

    /// Others may write.
    const OTHERS_WRITE: u32 = 0o022;
    /// Others may read.
    const OTHERS_READ: u32 = 0o044;
    /// New files have the directory's group.
    const SETGID: u32 = 0o2000;

    /// Takes a directory of ours from others: versions before made it readable for all. One that is shared on purpose stays as it is.
    pub(crate) fn tighten(dir: &Path) {
        let Ok(found) = fs::metadata(dir) else { return };
        let shared = found.mode() & (OTHERS_WRITE | SETGID) != 0;
        if found.is_dir() && is_ours(&found) && !shared && found.mode() & 0o077 != 0 {
            // On a disk that cannot be written it stays; nobody can change anything there.
            let _ = fs::set_permissions(dir, fs::Permissions::from_mode(0o700));
        }
    }

    /// How a new file in that directory is opened: for its owner alone, and for the readers of a directory that is shared.
    pub(crate) fn for_new(dir: &Path) -> OpenOptions {
        let readers = fs::metadata(dir).map_or(0, |found| found.mode() & OTHERS_READ);
        let mut options = OpenOptions::new();
        options.mode(0o600 | readers);
        options
    }

    fn is_ours(found: &fs::Metadata) -> bool {
        found.uid() == rustix::process::geteuid().as_raw()
    }

    /// Whether nobody but us, or root, can have written a file; else what is wrong and what to do.
    pub(crate) fn trusted(file: &File) -> io::Result<()> {
        let found = file.metadata()?;
        let (owner, mode) = (found.uid(), found.mode() & 0o7777);
        let why = if owner != 0 && !is_ours(&found) {
            let ours = rustix::process::geteuid().as_raw();
            format!(
                "it belongs to user {owner} and this process to user {ours}: remove it, or give it to user {ours}"
            )
        } else if mode & OTHERS_WRITE != 0 {
            format!(
                "others than its owner may write to it (mode {mode:o}): `chmod go-w` it if you trust it, or remove it"
            )
        } else {
            return Ok(());
        };
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }
}

#[cfg(not(unix))]
pub(crate) fn tighten(_: &Path) {}

#[cfg(not(unix))]
pub(crate) fn for_new(_: &Path) -> OpenOptions {
    OpenOptions::new()
}

#[cfg(not(unix))]
pub(crate) fn trusted(_: &File) -> io::Result<()> {
    Ok(())
}
