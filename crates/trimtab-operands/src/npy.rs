//! The header of NumPy's files (`.npy`): element type, order and shape. Reads and writes no file itself.

use std::io::Read;
use trimtab_core::DType;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// What data starts at a multiple of.
const ALIGNMENT: usize = 64;
/// The longest header anybody writes for a tensor.
const LONGEST_HEADER: usize = 1 << 16;

/// An element type in NumPy's words. NumPy has no bf16 of its own: what others call so is saved by it as two bytes of anything.
pub fn name(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::Bf16 => "<V2",
        DType::Bool => "|b1",
        DType::I8 => "|i1",
        DType::U8 => "|u1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::U32 => "<u4",
        DType::I64 => "<i8",
        DType::Complex64 => "<c8",
        DType::Complex128 => "<c16",
    }
}

/// Everything before the data.
pub fn header(dtype: DType, shape: &[usize]) -> Vec<u8> {
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
pub struct Header {
    /// The element type in NumPy's words.
    pub dtype: String,
    /// Whether the first index changes fastest.
    pub is_column_major: bool,
    /// The sizes.
    pub shape: Vec<usize>,
}

impl Header {
    /// The header, and where the data starts.
    pub fn read(file: &mut impl Read) -> Result<(Header, u64), String> {
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
