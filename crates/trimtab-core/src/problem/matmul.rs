//! Matrix products.

use super::{ProblemError, element_count, mix, write_sizes};
use crate::DType;
use std::fmt;

/// How one operand of a matrix product lies in memory. Without flags: row-major, one matrix per batch entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Operand {
    /// The stored matrix is the transpose of the one multiplied.
    pub transposed: bool,
    /// One matrix serves the whole batch.
    pub shared: bool,
}

impl Operand {
    /// Row-major, one matrix per batch entry.
    pub const PLAIN: Operand = Operand { transposed: false, shared: false };
    /// Stored transposed.
    pub const TRANSPOSED: Operand = Operand { transposed: true, shared: false };

    pub(crate) fn code(self) -> &'static str {
        match (self.transposed, self.shared) {
            (false, false) => "n",
            (true, false) => "t",
            (false, true) => "ns",
            (true, true) => "ts",
        }
    }

    pub(crate) fn parse(code: &str) -> Option<Operand> {
        [false, true]
            .into_iter()
            .flat_map(|transposed| [false, true].map(|shared| Operand { transposed, shared }))
            .find(|operand| operand.code() == code)
    }
}

/// `out[b] = lhs[b] · rhs[b]` with `lhs[b]` m × k, `rhs[b]` k × n and `out[b]` m × n, all dense and row-major.
#[derive(Clone, Copy, Debug, Eq)]
pub struct Matmul {
    /// Element type of the operands: a float, or i8, whose products are added up and given as i32.
    pub dtype: DType,
    /// How `lhs` is stored.
    pub lhs: Operand,
    /// How `rhs` is stored.
    pub rhs: Operand,
    /// Number of products.
    pub batch: u64,
    /// Rows of the result.
    pub m: u64,
    /// Columns of the result.
    pub n: u64,
    /// Length of the inner products.
    pub k: u64,
}

impl PartialEq for Matmul {
    /// All fields at once: a branch a field took twice as long on the way to a known plan.
    #[inline]
    fn eq(&self, other: &Matmul) -> bool {
        let sizes = (self.batch ^ other.batch) | (self.m ^ other.m) | (self.n ^ other.n) | (self.k ^ other.k);
        sizes | (self.flags() ^ other.flags()) == 0
    }
}

impl std::hash::Hash for Matmul {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        [self.flags(), self.batch, self.m, self.n, self.k].hash(state);
    }
}

impl Matmul {
    // Layouts are left out: few problems differ in nothing else, and comparing tells those apart.
    #[inline]
    pub(super) fn mixed(&self) -> u64 {
        mix(&[(self.dtype as u64) << 8 | 1, self.batch, self.m, self.n, self.k])
    }

    #[inline]
    fn flags(&self) -> u64 {
        let bytes = [
            self.dtype as u8,
            u8::from(self.lhs.transposed),
            u8::from(self.lhs.shared),
            u8::from(self.rhs.transposed),
            u8::from(self.rhs.shared),
            0,
            0,
            0,
        ];
        u64::from_le_bytes(bytes)
    }

    /// One product of plain operands.
    pub fn new(dtype: DType, m: u64, n: u64, k: u64) -> Result<Matmul, ProblemError> {
        Matmul::batched(dtype, 1, m, n, k, Operand::PLAIN, Operand::PLAIN)
    }

    /// The general case.
    pub fn batched(
        dtype: DType,
        batch: u64,
        m: u64,
        n: u64,
        k: u64,
        lhs: Operand,
        rhs: Operand,
    ) -> Result<Matmul, ProblemError> {
        if !dtype.is_float() && dtype != DType::I8 {
            let hint = "cast the operands to f32, f64, f16, bf16 or i8 first (nothing is converted unasked)";
            return Err(ProblemError::DType { operation: "matmul".to_string(), dtype, hint });
        }
        // Sharing means nothing without a batch; one form per meaning keeps keys equal.
        let share = |operand: Operand| Operand { shared: operand.shared && batch > 1, ..operand };
        let problem = Matmul { dtype, lhs: share(lhs), rhs: share(rhs), batch, m, n, k };
        // At least one matrix each: a batch of none is no excuse for matrices that cannot be addressed.
        let batch = batch.max(1);
        for (sizes, dtype) in
            [([batch, m, k], dtype), ([batch, k, n], dtype), ([batch, m, n], problem.out_dtype())]
        {
            element_count(&sizes, dtype)?;
        }
        Ok(problem)
    }

    /// Element type of the result: that of the operands, but i32 for products of i8.
    pub const fn out_dtype(&self) -> DType {
        match self.dtype {
            DType::I8 => DType::I32,
            dtype => dtype,
        }
    }

    /// Elements of the stored left operand.
    pub fn lhs_len(&self) -> u64 {
        super::product(&[self.m, self.k, if self.lhs.shared { 1 } else { self.batch }])
    }

    /// Elements of the stored right operand.
    pub fn rhs_len(&self) -> u64 {
        super::product(&[self.k, self.n, if self.rhs.shared { 1 } else { self.batch }])
    }

    /// Elements of the result.
    pub fn out_len(&self) -> u64 {
        super::product(&[self.batch, self.m, self.n])
    }

    /// Multiplications and additions.
    pub fn flops(&self) -> u64 {
        2u64.saturating_mul(self.batch).saturating_mul(self.m).saturating_mul(self.n).saturating_mul(self.k)
    }
}

impl fmt::Display for Matmul {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "matmul:{}:", self.dtype)?;
        let sizes = [self.batch, self.m, self.n, self.k];
        write_sizes(f, if self.batch == 1 { &sizes[1..] } else { &sizes })?;
        if (self.lhs, self.rhs) != (Operand::PLAIN, Operand::PLAIN) {
            write!(f, ":{},{}", self.lhs.code(), self.rhs.code())?;
        }
        Ok(())
    }
}
