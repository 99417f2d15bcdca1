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
        /// The upper half of an f32: eight bits of exponent, seven of fraction.
        Bf16 = "bf16",
        /// True or false, a byte each.
        Bool = "bool",
        /// 8-bit signed integer.
        I8 = "i8",
        /// 8-bit unsigned integer.
        U8 = "u8",
        /// 16-bit signed integer.
        I16 = "i16",
        /// 32-bit unsigned integer.
        U32 = "u32",
        /// 64-bit signed integer.
        I64 = "i64",
        /// Complex number of two f32, as NumPy's of that name.
        Complex64 = "complex64",
        /// Complex number of two f64.
        Complex128 = "complex128",
    }
}

impl DType {
    /// Bytes one element takes.
    pub const fn size(self) -> u64 {
        match self {
            DType::Bool | DType::I8 | DType::U8 => 1,
            DType::F16 | DType::Bf16 | DType::I16 => 2,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F64 | DType::I64 | DType::Complex64 => 8,
            DType::Complex128 => 16,
        }
    }

    /// Whether elements are real floating point.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64 | DType::F16 | DType::Bf16)
    }

    /// Whether elements are whole numbers.
    pub const fn is_integer(self) -> bool {
        matches!(self, DType::I8 | DType::U8 | DType::I16 | DType::I32 | DType::U32 | DType::I64)
    }

    /// Whether elements are complex numbers.
    pub const fn is_complex(self) -> bool {
        matches!(self, DType::Complex64 | DType::Complex128)
    }

    /// Real numbers in one element.
    pub const fn numbers(self) -> usize {
        if self.is_complex() { 2 } else { 1 }
    }

    /// The distance from one to the next larger number, for floats and the parts of complex numbers; zero for the rest, which is exact.
    pub const fn epsilon(self) -> f64 {
        match self {
            DType::F32 | DType::Complex64 => f32::EPSILON as f64,
            DType::F64 | DType::Complex128 => f64::EPSILON,
            DType::F16 => 1.0 / 1024.0,
            DType::Bf16 => 1.0 / 128.0,
            _ => 0.0,
        }
    }

    /// The smallest positive number with all its digits, for floats and the parts of complex numbers; zero for the rest.
    pub const fn smallest_normal(self) -> f64 {
        match self {
            DType::F32 | DType::Complex64 | DType::Bf16 => f32::MIN_POSITIVE as f64,
            DType::F64 | DType::Complex128 => f64::MIN_POSITIVE,
            DType::F16 => 1.0 / 16384.0,
            _ => 0.0,
        }
    }

    /// What whole numbers of this type there are; nothing for other types.
    pub const fn range(self) -> Option<(i64, i64)> {
        match self {
            DType::Bool => Some((0, 1)),
            DType::I8 => Some((i8::MIN as i64, i8::MAX as i64)),
            DType::U8 => Some((0, u8::MAX as i64)),
            DType::I16 => Some((i16::MIN as i64, i16::MAX as i64)),
            DType::I32 => Some((i32::MIN as i64, i32::MAX as i64)),
            DType::U32 => Some((0, u32::MAX as i64)),
            DType::I64 => Some((i64::MIN, i64::MAX)),
            _ => None,
        }
    }
}
