//! Tensors in files, in NumPy's form (`.npy`): saved whole or not at all, read with every length checked first.

use crate::error::Error;
use crate::tensor::{AnyTensor, Tensor, allocate, element_count};
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use trimtab_core::DType;
use trimtab_operands::npy::{Header, header, name};
use trimtab_operands::{Element, Slice, SliceMut};
use trimtab_wisdom::files;

/// The largest file that is loaded; what memory there is decides long before.
const MAX_FILE_BYTES: u64 = 1 << 38;
/// Bytes written at a time where they are turned around: a multiple of every word.
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
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let dir = tempfile::tempdir()?;
    /// let path = dir.path().join("numbers.npy");
    /// Tensor::from(vec![1.0f32, 2.0]).save(&path)?;
    /// assert_eq!(Tensor::<f32>::load(&path)?.to_vec(), [1.0, 2.0]);
    /// assert!(Tensor::<f64>::load(&path).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn load(path: impl AsRef<Path>) -> Result<Tensor<T>, Error> {
        load(path.as_ref(), Some(T::DTYPE)).map(Tensor::wrap)
    }
}

impl AnyTensor {
    /// Writes the tensor to a file, as [`Tensor::save`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let dir = tempfile::tempdir()?;
    /// use trimtab::AnyTensor;
    /// let path = dir.path().join("numbers.npy");
    /// AnyTensor::zeros(DType::F64, &[2, 3])?.save(&path)?;
    /// assert_eq!(Tensor::<f64>::load(&path)?.shape(), [2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let dir = tempfile::tempdir()?;
    /// use trimtab::AnyTensor;
    /// let path = dir.path().join("numbers.npy");
    /// Tensor::from(vec![1i64, 2]).save(&path)?;
    /// assert_eq!(AnyTensor::load(&path)?.dtype(), DType::I64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
    if cfg!(target_endian = "little") {
        return file.write_all(elements.bytes());
    }
    let word = elements.dtype().map_or(1, word_bytes);
    let mut bytes = Vec::with_capacity(CHUNK_BYTES);
    for chunk in elements.bytes().chunks(CHUNK_BYTES) {
        bytes.clear();
        bytes.extend_from_slice(chunk);
        bytes.chunks_mut(word).for_each(<[u8]>::reverse);
        file.write_all(&bytes)?;
    }
    Ok(())
}

fn read(file: &mut impl Read, elements: SliceMut<'_>) -> std::io::Result<()> {
    let word = word_bytes(elements.dtype());
    elements.with_bytes(|bytes| {
        file.read_exact(bytes)?;
        if cfg!(target_endian = "big") {
            bytes.chunks_mut(word).for_each(<[u8]>::reverse);
        }
        Ok(())
    })
}

/// Bytes of each number of an element.
fn word_bytes(dtype: DType) -> usize {
    dtype.size() as usize / dtype.numbers()
}
