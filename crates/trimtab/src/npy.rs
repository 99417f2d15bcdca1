//! Tensors in files, in NumPy's form (`.npy`): saved whole or not at all, read with every length checked first.

use crate::error::Error;
use crate::tensor::{AnyTensor, Tensor, allocate, element_count};
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use trimtab_core::DType;
use trimtab_operands::{Element, Slice, SliceMut, f16};
use trimtab_wisdom::files;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// What data starts at a multiple of.
const ALIGNMENT: usize = 64;
/// The longest header anybody writes for a tensor.
const LONGEST_HEADER: usize = 1 << 16;
/// The largest file that is loaded; what memory there is decides long before.
const MAX_FILE_BYTES: u64 = 1 << 38;
/// Bytes read at a time.
const CHUNK_BYTES: usize = 1 << 16;

impl<T: Element> Tensor<T> {
    /// Writes the tensor to a file that NumPy reads (`numpy.load`): version 1.0, little endian, row-major. The file is there as a
    /// whole or not at all; one of that name is replaced.
    ///
    /// ```
    /// use trimtab::Tensor;
    /// let path = std::env::temp_dir().join(format!("trimtab-doc-{}.npy", std::process::id()));
    /// let tensor = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
    /// tensor.save(&path)?;
    /// assert_eq!(Tensor::<f32>::load(&path)?, tensor);
    /// # let _ = std::fs::remove_file(&path);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.any.save(path)
    }

    /// Reads a tensor from a file in NumPy's form. The element type must be the file's: nothing is converted. A file in column-major
    /// order becomes a transposed view.
    pub fn load(path: impl AsRef<Path>) -> Result<Tensor<T>, Error> {
        load(path.as_ref(), Some(T::DTYPE)).map(Tensor::wrap)
    }
}

impl AnyTensor {
    /// Writes the tensor to a file, as [`Tensor::save`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let dense;
        let elements = match self.fetched()?.as_slice() {
            Some(slice) => slice,
            None => {
                dense = self.gathered()?;
                dense.slice()
            }
        };
        whole(path, |file| {
            file.write_all(&header(self.dtype(), self.shape()))?;
            write(file, elements)
        })
        .map_err(|error| wrong(path, error.to_string()))
    }

    /// Reads a tensor of whatever element type a file in NumPy's form has, as [`Tensor::load`].
    pub fn load(path: impl AsRef<Path>) -> Result<AnyTensor, Error> {
        load(path.as_ref(), None)
    }
}

/// Reads a tensor; of that element type, if one is asked for.
fn load(path: &Path, asked: Option<DType>) -> Result<AnyTensor, Error> {
    let wrong = |reason: String| wrong(path, reason);
    let mut file = files::open(path).map_err(|error| wrong(error.to_string()))?;
    let known = file.metadata().map_err(|error| wrong(error.to_string()))?;
    if known.len() > MAX_FILE_BYTES {
        let reason =
            format!("it has {} bytes, and at most {MAX_FILE_BYTES} are loaded; split it", known.len());
        return Err(wrong(reason));
    }
    let (header, start) = Header::read(&mut file).map_err(wrong)?;
    let (mut shape, found) = (header.shape, header.dtype);
    let is_its = |dtype: &DType| name(*dtype) == found && asked.is_none_or(|asked| asked == *dtype);
    let Some(dtype) = DType::ALL.into_iter().find(is_its) else {
        let asked = match asked {
            Some(asked) => format!("asked for is `{}` ({asked})", name(asked)),
            None => format!("known are `{}`", DType::ALL.map(name).join("`, `")),
        };
        return Err(wrong(format!("its elements are `{found}`, {asked}")));
    };
    let count = element_count(dtype, &shape)?;
    // Before memory is asked for: a damaged header may claim anything.
    let (needed, found) = (count as u64 * dtype.size(), known.len().saturating_sub(start));
    if needed != found {
        return Err(wrong(format!("shape {shape:?} needs {needed} bytes, {found} follow the header")));
    }
    let mut data = allocate(dtype, count)?;
    read(&mut file, data.slice_mut()).map_err(|error| wrong(error.to_string()))?;
    if header.is_column_major {
        shape.reverse();
        return Ok(AnyTensor::from_data(data, dtype, &shape)?.transposed());
    }
    AnyTensor::from_data(data, dtype, &shape)
}

fn wrong(path: &Path, reason: String) -> Error {
    Error::File { path: path.display().to_string(), reason }
}

/// An element type in NumPy's words.
fn name(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::I32 => "<i4",
    }
}

/// Everything before the data.
fn header(dtype: DType, shape: &[usize]) -> Vec<u8> {
    let sizes: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let sizes = if shape.len() == 1 { sizes.trim_end() } else { sizes.trim_end_matches(", ") };
    let mut text = format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({sizes}), }}", name(dtype));
    let before = MAGIC.len() + 4;
    let end = (before + text.len() + 1).next_multiple_of(ALIGNMENT);
    text.extend(std::iter::repeat_n(' ', end - before - text.len() - 1));
    text.push('\n');
    let length = (text.len() as u16).to_le_bytes();
    [MAGIC.as_slice(), &[1, 0], &length, text.as_bytes()].concat()
}

/// What a file says about its data.
#[derive(Debug, PartialEq)]
struct Header {
    dtype: String,
    is_column_major: bool,
    shape: Vec<usize>,
}

impl Header {
    /// The header, and where the data starts.
    fn read(file: &mut impl Read) -> Result<(Header, u64), String> {
        let mut start = [0u8; 8];
        let short = |_| "it ends within its header".to_string();
        file.read_exact(&mut start).map_err(short)?;
        if !start.starts_with(MAGIC) {
            return Err("it does not begin as NumPy's files do".to_string());
        }
        let (length, before) = match start[6] {
            1 => {
                let mut length = [0u8; 2];
                file.read_exact(&mut length).map_err(short)?;
                (usize::from(u16::from_le_bytes(length)), 10)
            }
            2 | 3 => {
                let mut length = [0u8; 4];
                file.read_exact(&mut length).map_err(short)?;
                (u32::from_le_bytes(length) as usize, 12)
            }
            other => return Err(format!("it has version {other} of the form, known are 1 to 3")),
        };
        if length > LONGEST_HEADER {
            return Err(format!("its header has {length} bytes; it is damaged"));
        }
        let mut text = vec![0u8; length];
        file.read_exact(&mut text).map_err(short)?;
        let text = String::from_utf8(text).map_err(|_| "its header is not text".to_string())?;
        let header =
            Header::parse(&text).ok_or_else(|| format!("its header is not understood: {}", text.trim()));
        header.map(|header| (header, (before + length) as u64))
    }

    /// `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`, in any order; nothing else.
    fn parse(text: &str) -> Option<Header> {
        let mut rest = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim_start();
        let (mut dtype, mut is_column_major, mut shape) = (None, None, None);
        while !rest.is_empty() {
            let (key, after) = quoted(rest)?;
            let after = after.trim_start().strip_prefix(':')?.trim_start();
            rest = match key {
                "descr" => {
                    let (value, after) = quoted(after)?;
                    dtype.replace(value.to_string()).is_none().then_some(after)?
                }
                "fortran_order" => {
                    let yes = after.strip_prefix("True").map(|after| (true, after));
                    let (value, after) = yes.or_else(|| Some((false, after.strip_prefix("False")?)))?;
                    is_column_major.replace(value).is_none().then_some(after)?
                }
                "shape" => {
                    let (sizes, after) = after.strip_prefix('(')?.split_once(')')?;
                    let sizes = sizes.trim();
                    let sizes = sizes.strip_suffix(',').unwrap_or(sizes);
                    let size = |size: &str| size.trim().parse::<usize>().ok();
                    let sizes = match sizes.trim() {
                        "" => Some(Vec::new()),
                        sizes => sizes.split(',').map(size).collect(),
                    };
                    shape.replace(sizes?).is_none().then_some(after)?
                }
                _ => return None,
            };
            rest = rest.trim_start();
            rest = rest.strip_prefix(',').or(rest.is_empty().then_some(rest))?.trim_start();
        }
        Some(Header { dtype: dtype?, is_column_major: is_column_major?, shape: shape? })
    }
}

/// A word in quotation marks, and what follows.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let mark = text.chars().next().filter(|mark| matches!(mark, '\'' | '"'))?;
    text[1..].split_once(mark)
}

/// Writes a file beside the one that is wanted and gives it the name when it is complete.
fn whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> std::io::Result<()>,
) -> std::io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let beside: PathBuf = path.with_file_name(format!(".{name}.{}.{number}", std::process::id()));
    let written = File::create_new(&beside).and_then(|file| {
        let mut buffered = BufWriter::new(&file);
        write(&mut buffered)?;
        buffered.flush()?;
        drop(buffered);
        file.sync_all()?;
        std::fs::rename(&beside, path)
    });
    if written.is_err() {
        // What is left of the attempt is of no use to anyone, and may never have been made.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

fn write(file: &mut impl Write, elements: Slice<'_>) -> std::io::Result<()> {
    match elements {
        Slice::None => Ok(()),
        Slice::F16(elements) => write_all(file, elements, f16::to_le_bytes),
        Slice::F32(elements) => write_all(file, elements, f32::to_le_bytes),
        Slice::F64(elements) => write_all(file, elements, f64::to_le_bytes),
        Slice::I32(elements) => write_all(file, elements, i32::to_le_bytes),
    }
}

fn write_all<T: Copy, const N: usize>(
    file: &mut impl Write,
    elements: &[T],
    bytes_of: impl Fn(T) -> [u8; N],
) -> std::io::Result<()> {
    let mut bytes = Vec::with_capacity(CHUNK_BYTES);
    for chunk in elements.chunks(CHUNK_BYTES / N) {
        bytes.clear();
        chunk.iter().for_each(|&own| bytes.extend(bytes_of(own)));
        file.write_all(&bytes)?;
    }
    Ok(())
}

fn read(file: &mut impl Read, elements: SliceMut<'_>) -> std::io::Result<()> {
    match elements {
        SliceMut::F16(elements) => read_all(file, elements, f16::from_le_bytes),
        SliceMut::F32(elements) => read_all(file, elements, f32::from_le_bytes),
        SliceMut::F64(elements) => read_all(file, elements, f64::from_le_bytes),
        SliceMut::I32(elements) => read_all(file, elements, i32::from_le_bytes),
    }
}

fn read_all<T, const N: usize>(
    file: &mut impl Read,
    elements: &mut [T],
    of_bytes: impl Fn([u8; N]) -> T,
) -> std::io::Result<()> {
    let mut bytes = vec![0u8; CHUNK_BYTES];
    for chunk in elements.chunks_mut(CHUNK_BYTES / N) {
        let bytes = &mut bytes[..chunk.len() * N];
        file.read_exact(bytes)?;
        for (own, word) in chunk.iter_mut().zip(bytes.as_chunks().0) {
            *own = of_bytes(*word);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_what_numpy_writes_and_every_part_of_it_is_needed() {
        let bytes = header(DType::F32, &[3, 4]);
        assert_eq!(bytes.len() % ALIGNMENT, 0);
        let start = b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }";
        assert!(bytes.starts_with(start) && bytes.ends_with(b" \n"));
        for shape in [vec![], vec![7], vec![0], vec![1, 2, 3], vec![usize::MAX; 8]] {
            let bytes = header(DType::I32, &shape);
            let (read, start) = Header::read(&mut bytes.as_slice()).unwrap();
            let expected = Header { dtype: "<i4".to_string(), is_column_major: false, shape };
            assert_eq!((read, start), (expected, bytes.len() as u64));
        }
        let any_order = "{\"shape\":(2,), 'fortran_order': True,'descr':'<f8'}\n";
        let expected = Header { dtype: "<f8".to_string(), is_column_major: true, shape: vec![2] };
        assert_eq!(Header::parse(any_order), Some(expected));
        for damaged in [
            "",
            "{}",
            "{'descr': '<f4', 'fortran_order': False, }",
            "{'descr': '<f4', 'shape': (3,), }",
            "{'fortran_order': False, 'shape': (3,), }",
            "{'descr': '<f4', 'fortran_order': None, 'shape': (3,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3 4), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3, }",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }",
            "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
        ] {
            assert_eq!(Header::parse(damaged), None, "{damaged}");
        }
    }
}
