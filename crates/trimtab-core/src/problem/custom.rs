//! The user's own operations: a name and sizes.

use super::{ProblemError, write_sizes};
use std::fmt;

/// The longest name of a custom operation.
pub const MAX_NAME_BYTES: usize = 22;
/// The most sizes a custom problem carries.
pub const MAX_SIZES: usize = 4;

/// A problem trimtab knows only by name and sizes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Custom {
    name: [u8; MAX_NAME_BYTES],
    name_len: u8,
    size_count: u8,
    sizes: [u64; MAX_SIZES],
}

impl Custom {
    /// A problem of this name (letters, digits, `_`, `-`, `.`) and these sizes.
    pub fn new(name: &str, sizes: &[u64]) -> Result<Custom, ProblemError> {
        let wrong = |reason: String| Err(ProblemError::Custom { name: name.to_string(), reason });
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return wrong(format!("a name has 1 to {MAX_NAME_BYTES} bytes, this one has {}", name.len()));
        }
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)) {
            return wrong("a name is made of ASCII letters, digits, `_`, `-` and `.`".to_string());
        }
        if sizes.len() > MAX_SIZES {
            return wrong(format!("at most {MAX_SIZES} sizes are kept, {} were given", sizes.len()));
        }
        let mut problem = Custom {
            name: [0; MAX_NAME_BYTES],
            name_len: name.len() as u8,
            size_count: sizes.len() as u8,
            sizes: [0; MAX_SIZES],
        };
        problem.name[..name.len()].copy_from_slice(name.as_bytes());
        problem.sizes[..sizes.len()].copy_from_slice(sizes);
        Ok(problem)
    }

    #[inline]
    pub(super) fn mixed(&self) -> u64 {
        let name =
            self.name.iter().fold(0u64, |word, &byte| word.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte));
        let [a, b, c, d] = self.sizes;
        super::mix(&[u64::from(self.size_count) << 8 | 5, name, a, b, c, d])
    }

    /// The operation's name.
    pub fn name(&self) -> &str {
        // Only ASCII gets in, so this never falls back.
        std::str::from_utf8(&self.name[..self.name_len as usize]).unwrap_or_default()
    }

    /// The sizes.
    pub fn sizes(&self) -> &[u64] {
        &self.sizes[..self.size_count as usize]
    }
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Custom({self})")
    }
}

impl fmt::Display for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "custom.{}", self.name())?;
        if !self.sizes().is_empty() {
            f.write_str(":")?;
            write_sizes(f, self.sizes())?;
        }
        Ok(())
    }
}
