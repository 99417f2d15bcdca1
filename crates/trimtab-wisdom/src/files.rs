//! Files from outside, read with a limit: a pipe would be waited for, a device read for ever, and a few bytes can unpack to any number.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Opens a file for reading; an error if it is no regular file, because a pipe would be waited for and a device read for ever.
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    // What is there may become a pipe between looking and opening.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    #[cfg(not(unix))]
    is_regular(&fs::metadata(path)?)?;
    let file = options.open(path)?;
    is_regular(&file.metadata()?)?;
    Ok(file)
}

fn is_regular(found: &fs::Metadata) -> io::Result<()> {
    let what = "it is not a regular file; give the name of a file, not of a pipe, device or folder";
    if found.is_file() { Ok(()) } else { Err(io::Error::other(what)) }
}

/// The content of a regular file of at most so many bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let size = file.metadata()?.len();
    if size > most {
        return Err(too_large(&format!("it has {size} bytes"), most));
    }
    read_at_most(file, most)
}

/// Everything a reader gives, at most so many bytes: standard input, or what a packed file unpacks to.
pub fn read_at_most(reader: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more than is allowed tells that there is more.
    reader.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(too_large("there is more", most));
    }
    Ok(bytes)
}

/// Makes a directory, its parents too, for its owner alone.
pub fn make_private(dir: &Path) -> io::Result<()> {
    crate::private::make(dir)
}

/// Opens a file to read it and to write behind its end; it is made if need be, for those who may read its directory.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    let dir = path.parent().unwrap_or(Path::new("."));
    crate::private::for_new(dir).read(true).append(true).create(true).open(path)
}

/// Writes a whole file: its readers see the one before or this one, never a part.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let beside = path.with_extension("new");
    let mut file = crate::private::for_new(dir).write(true).create(true).truncate(true).open(&beside)?;
    io::Write::write_all(&mut file, bytes)?;
    fs::rename(&beside, path)
}

fn too_large(what: &str, most: u64) -> io::Error {
    io::Error::new(
        ErrorKind::FileTooLarge,
        format!("{what}, and at most {most} bytes are read; give a part of it"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_what_is_read_and_one_byte_more_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, b"12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        let error = read(&path, 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("it has 5 bytes, and at most 4 bytes are read"), "{error}");
        assert_eq!(read_at_most(io::repeat(7).take(5), 5).unwrap(), [7; 5]);
        assert_eq!(read_at_most(io::repeat(7), 5).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }

    #[cfg(unix)]
    #[test]
    fn pipes_devices_and_folders_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [&pipe, dir.path(), Path::new("/dev/zero")] {
            let error = read(path, 1 << 20).unwrap_err();
            assert!(error.to_string().contains("not a regular file"), "{}: {error}", path.display());
        }
        // It takes no room, and nobody would want to read it.
        let large = dir.path().join("large");
        File::create(&large).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(read(&large, 1 << 20).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }
}
