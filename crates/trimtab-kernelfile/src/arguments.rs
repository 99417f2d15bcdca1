//! What arguments hold: made up, counted, constant, or read from a file.

use crate::job::{GivenArgument, GivenData};
use crate::spec::Fill;
use half::{bf16, f16};
use std::io::Read;
use std::path::Path;
use trimtab_core::{DType, RandomNumbers};
use trimtab_operands::npy;
use trimtab_wisdom::files;

/// The bytes of an argument before a run.
pub(crate) fn bytes_of(given: &GivenArgument) -> Result<Vec<u8>, String> {
    let (dtype, count) = (given.dtype, given.count());
    let mut bytes = Vec::with_capacity(given.bytes());
    match &given.data {
        GivenData::Local(_) => {}
        GivenData::Values(values) => values.iter().for_each(|value| push(&mut bytes, dtype, *value)),
        GivenData::Array { shape, fill, .. } => match fill {
            // Of floats all ones is not a number.
            Fill::Poison if dtype.is_float() || dtype.is_complex() => bytes.resize(given.bytes(), 0xff),
            Fill::Poison => bytes.resize(given.bytes(), 0xa5),
            Fill::Constant(value) => {
                (0..count * dtype.numbers()).for_each(|_| push(&mut bytes, dtype, *value))
            }
            Fill::Count => (0..count).for_each(|at| {
                push(&mut bytes, dtype, at as f64);
                if dtype.is_complex() {
                    push(&mut bytes, dtype, 0.0);
                }
            }),
            Fill::Random { least, most, seed } => {
                let mut numbers = RandomNumbers::new(*seed);
                for _ in 0..count * dtype.numbers() {
                    let share = (numbers.bits() >> 11) as f64 / (1u64 << 53) as f64;
                    let number = least + share * (most - least);
                    push(
                        &mut bytes,
                        dtype,
                        if dtype.is_integer() || dtype == DType::Bool { number.floor() } else { number },
                    );
                }
            }
            Fill::File(path) => bytes = elements_of(path, dtype, shape)?,
        },
    }
    Ok(bytes)
}

/// Appends a number as one of an element's.
fn push(bytes: &mut Vec<u8>, dtype: DType, value: f64) {
    match dtype {
        DType::F32 | DType::Complex64 => bytes.extend((value as f32).to_ne_bytes()),
        DType::F64 | DType::Complex128 => bytes.extend(value.to_ne_bytes()),
        DType::F16 => bytes.extend(f16::from_f64(value).to_ne_bytes()),
        DType::Bf16 => bytes.extend(bf16::from_f64(value).to_ne_bytes()),
        DType::I8 => bytes.extend((value as i8).to_ne_bytes()),
        DType::U8 => bytes.extend((value as u8).to_ne_bytes()),
        DType::Bool => bytes.push(u8::from(value != 0.0)),
        DType::I16 => bytes.extend((value as i16).to_ne_bytes()),
        DType::I32 => bytes.extend((value as i32).to_ne_bytes()),
        DType::U32 => bytes.extend((value as u32).to_ne_bytes()),
        DType::I64 => bytes.extend((value as i64).to_ne_bytes()),
    }
}

/// The numbers in an element's bytes: two of a complex one.
pub(crate) fn numbers_of(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    fn all<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        bytes.as_chunks::<N>().0.iter().map(|chunk| number(*chunk)).collect()
    }
    match dtype {
        DType::F32 | DType::Complex64 => all(bytes, |chunk| f64::from(f32::from_ne_bytes(chunk))),
        DType::F64 | DType::Complex128 => all(bytes, f64::from_ne_bytes),
        DType::F16 => all(bytes, |chunk| f16::from_ne_bytes(chunk).to_f64()),
        DType::Bf16 => all(bytes, |chunk| bf16::from_ne_bytes(chunk).to_f64()),
        DType::I8 => all(bytes, |chunk| f64::from(i8::from_ne_bytes(chunk))),
        DType::U8 | DType::Bool => all(bytes, |chunk| f64::from(u8::from_ne_bytes(chunk))),
        DType::I16 => all(bytes, |chunk| f64::from(i16::from_ne_bytes(chunk))),
        DType::I32 => all(bytes, |chunk| f64::from(i32::from_ne_bytes(chunk))),
        DType::U32 => all(bytes, |chunk| f64::from(u32::from_ne_bytes(chunk))),
        DType::I64 => all(bytes, |chunk| i64::from_ne_bytes(chunk) as f64),
    }
}

/// The elements of a `.npy` file, or of one that holds nothing else.
pub(crate) fn elements_of(path: &Path, dtype: DType, shape: &[usize]) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let told = |reason: String| format!("{shown}: {reason}");
    let wanted = shape.iter().product::<usize>() * dtype.size() as usize;
    let mut file = files::open(path).map_err(|error| told(error.to_string()))?;
    if path.extension().is_some_and(|ending| ending == "npy") {
        let (header, _) = npy::Header::read(&mut file).map_err(told)?;
        if header.dtype != npy::name(dtype) || header.shape != shape || header.is_column_major {
            return Err(told(format!(
                "it holds `{}` of the shape {:?}, wanted are `{}` ({dtype}) of {shape:?}, row-major",
                header.dtype,
                header.shape,
                npy::name(dtype)
            )));
        }
    }
    let mut bytes = Vec::new();
    file.take(wanted as u64 + 1).read_to_end(&mut bytes).map_err(|error| told(error.to_string()))?;
    if bytes.len() != wanted {
        return Err(told(format!("shape {shape:?} needs {wanted} bytes, there are {}", bytes.len())));
    }
    if cfg!(target_endian = "big") {
        let word = dtype.size() as usize / dtype.numbers();
        bytes.chunks_mut(word).for_each(<[u8]>::reverse);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(dtype: DType, fill: Fill) -> GivenArgument {
        let data = GivenData::Array { shape: vec![2, 3], fill, is_output: false };
        GivenArgument { name: "a".into(), dtype, data, compared: None }
    }

    #[test]
    fn arguments_hold_what_they_are_filled_with() {
        for dtype in DType::ALL {
            let bytes = bytes_of(&array(dtype, Fill::Constant(1.0))).unwrap();
            assert_eq!(bytes.len(), 6 * dtype.size() as usize, "{dtype}");
            assert!(numbers_of(dtype, &bytes).iter().all(|number| *number == 1.0), "{dtype}");
        }
        let counted = bytes_of(&array(DType::I32, Fill::Count)).unwrap();
        assert_eq!(numbers_of(DType::I32, &counted), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let random = |seed| {
            let fill = Fill::Random { least: -2.0, most: 3.0, seed };
            numbers_of(DType::F32, &bytes_of(&array(DType::F32, fill)).unwrap())
        };
        assert_eq!(random(1), random(1));
        assert_ne!(random(1), random(2));
        assert!(random(3).iter().all(|number| (-2.0..3.0).contains(number)));
        let poison = bytes_of(&array(DType::F16, Fill::Poison)).unwrap();
        assert!(numbers_of(DType::F16, &poison).iter().all(|number| number.is_nan()));
    }

    #[test]
    fn files_must_have_the_type_and_shape_that_are_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        let mut bytes = npy::header(DType::F32, &[2, 2]);
        bytes.extend([1.0f32, 2.0, 3.0, 4.0].iter().flat_map(|number| number.to_le_bytes()));
        std::fs::write(&path, &bytes).unwrap();
        let read = elements_of(&path, DType::F32, &[2, 2]).unwrap();
        assert_eq!(numbers_of(DType::F32, &read), [1.0, 2.0, 3.0, 4.0]);
        assert!(elements_of(&path, DType::F32, &[4]).unwrap_err().contains("shape [2, 2]"));
        assert!(elements_of(&path, DType::I32, &[2, 2]).unwrap_err().contains("<i4"));
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(elements_of(&path, DType::F32, &[2, 2]).unwrap_err().contains("needs 16 bytes"));
        assert!(elements_of(&dir.path().join("b.npy"), DType::F32, &[1]).is_err());
    }
}
