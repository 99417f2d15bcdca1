//! Element types a problem can be about.

use std::fmt;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DType {
    /// 32-bit IEEE float.
    F32,
    /// 64-bit IEEE float.
    F64,
    /// 16-bit IEEE float: five bits of exponent, ten of fraction.
    F16,
    /// 32-bit signed integer.
    I32,
}

impl DType {
    /// Every element type, in the order they are listed to people.
    pub const ALL: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::I32];

    /// Bytes one element takes.
    pub const fn size(self) -> u64 {
        match self {
            DType::F32 | DType::I32 => 4,
            DType::F64 => 8,
            DType::F16 => 2,
        }
    }

    /// Whether elements are floating point.
    pub const fn is_float(self) -> bool {
        !matches!(self, DType::I32)
    }

    /// The name used in a problem's text form.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::F16 => "f16",
            DType::I32 => "i32",
        }
    }

    /// The element type of that name.
    pub fn parse(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|dtype| dtype.name() == name)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
