//! Attention: for each query the values of all keys, weighted by how well the keys fit it.

use super::{ProblemError, element_count, write_sizes};
use crate::DType;
use std::fmt;

/// `softmax(q·kᵀ / √depth)·v` for each of `batch` heads, dense and row-major: queries are `batch × queries × depth`, keys `batch × keys ×
/// depth`, values `batch × keys × width`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attention {
    /// Element type of operands and result.
    pub dtype: DType,
    /// Whether a query sees only keys up to its own place. The last query sees all keys.
    pub causal: bool,
    /// Heads, of all sequences together.
    pub batch: u64,
    /// Queries of a head.
    pub queries: u64,
    /// Keys of a head, and values.
    pub keys: u64,
    /// Elements of a query and of a key.
    pub depth: u64,
    /// Elements of a value and of a result.
    pub width: u64,
}

impl Attention {
    /// Of sizes `[batch, queries, keys, depth, width]`.
    pub fn new(dtype: DType, sizes: [u64; 5], causal: bool) -> Result<Attention, ProblemError> {
        if !dtype.is_float() {
            let hint = "give operands of floats (nothing is converted by trimtab)";
            return Err(ProblemError::DType { operation: "attention".to_string(), dtype, hint });
        }
        let [batch, queries, keys, depth, width] = sizes;
        for [rows, columns] in
            [[queries, depth], [keys, depth], [keys, width], [queries, width], [queries, keys]]
        {
            element_count(&[batch, rows, columns], dtype)?;
        }
        let wrong = |reason: &str| {
            let (lhs, rhs) = (vec![batch, queries, depth], vec![batch, keys, depth]);
            Err(ProblemError::Shapes { lhs, rhs, reason: reason.to_string() })
        };
        if keys == 0 && batch > 0 && queries > 0 && width > 0 {
            return wrong("there is no key to look at");
        }
        if causal && queries > keys {
            return wrong(
                "with more queries than keys the first ones see none; leave out causal, or give as many keys",
            );
        }
        Ok(Attention { dtype, causal, batch, queries, keys, depth, width })
    }

    #[inline]
    pub(super) fn mixed(&self) -> u64 {
        let head = u64::from(self.causal) << 16 | (self.dtype as u64) << 8 | 17;
        super::mix(&[head, self.batch, self.queries, self.keys, self.depth, self.width])
    }

    /// Elements of the queries, the keys and the values.
    pub fn input_lens(&self) -> [u64; 3] {
        let of = |rows: u64, columns: u64| super::product(&[self.batch, rows, columns]);
        [of(self.queries, self.depth), of(self.keys, self.depth), of(self.keys, self.width)]
    }

    /// Elements of the result.
    pub fn out_len(&self) -> u64 {
        super::product(&[self.batch, self.queries, self.width])
    }

    /// Keys that the query of that place sees.
    pub fn seen(&self, query: u64) -> u64 {
        let hidden = if self.causal { self.queries.saturating_sub(query.saturating_add(1)) } else { 0 };
        self.keys.saturating_sub(hidden)
    }

    /// Pairs of a query and a key it sees, in all heads.
    pub fn pairs(&self) -> u64 {
        let hidden =
            if self.causal { self.queries.saturating_mul(self.queries.saturating_sub(1)) / 2 } else { 0 };
        self.queries.saturating_mul(self.keys).saturating_sub(hidden).saturating_mul(self.batch)
    }

    /// Arithmetic operations: two products, and four a pair between them.
    pub fn flops(&self) -> u64 {
        let each = self.depth.saturating_add(self.width).saturating_mul(2).saturating_add(4);
        self.pairs().saturating_mul(each)
    }
}

impl fmt::Display for Attention {
    /// `attention:f32:8x128x256x64`, heads × queries × keys × depth; a fifth size where values are not as wide as keys are deep.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attention:{}:", self.dtype)?;
        let sizes = [self.batch, self.queries, self.keys, self.depth, self.width];
        write_sizes(f, if self.width == self.depth { &sizes[..4] } else { &sizes })?;
        if self.causal { f.write_str(":causal") } else { Ok(()) }
    }
}
