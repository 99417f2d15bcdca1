//! Element types a problem can be about.

crate::named! {
    /// The type of a tensor's elements.
    #[repr(u8)]
    pub enum DType {
        /// 32-bit IEEE float.
        F32 = "f32",
        /// 64-bit IEEE float.
        F64 = "f64",
        /// 16-bit IEEE float: five bits of exponent, ten of fraction.
        F16 = "f16",
        /// 32-bit signed integer.
        I32 = "i32",
    }
}

impl DType {
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
}
