//! Fourier transforms of the last axes.

use super::{ProblemError, element_count, product, write_sizes};
use crate::DType;
use std::fmt;

/// The most axes that are transformed together.
pub const MAX_FFT_RANK: usize = 3;

crate::named! {
    /// Which transform. Sign and scale are NumPy's.
    #[repr(u8)]
    pub enum FftOp {
        /// Complex to complex, `Σ x·e^(-2πi·jk/n)`, not scaled.
        Forward = "forward",
        /// Complex to complex, `1/n·Σ x·e^(2πi·jk/n)`.
        Inverse = "inverse",
        /// Real to the first half of its spectrum, `n/2 + 1` numbers along the last axis; the others are their conjugates.
        Real = "real",
        /// The first half of a spectrum to the real numbers it is of, scaled as the inverse. What cannot be of real numbers, the
        /// imaginary parts of the first number along the last axis and of the last where the length is even, is not read.
        InverseReal = "inverse_real",
    }
}

impl FftOp {
    /// Whether it goes back from a spectrum.
    pub const fn is_inverse(self) -> bool {
        matches!(self, FftOp::Inverse | FftOp::InverseReal)
    }
}

/// A transform of the last one to three axes of a batch, dense and row-major. Other axes are brought to the end by a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fft {
    /// Which.
    pub op: FftOp,
    /// Element type of the operand.
    pub dtype: DType,
    rank: u8,
    /// Transforms.
    pub batch: u64,
    /// Of real numbers where one side has such; ones behind the last.
    sizes: [u64; MAX_FFT_RANK],
}

impl Fft {
    /// Of so many axes at the end of a shape. Where one side of the transform is real the shape is that side's: for
    /// [`FftOp::InverseReal`] that of the result, whose last size the operand does not tell.
    pub fn new(op: FftOp, dtype: DType, shape: &[u64], axes: usize) -> Result<Fft, ProblemError> {
        let (fits, hint) = match op {
            FftOp::Real => (
                matches!(dtype, DType::F32 | DType::F64),
                "cast the operand to f32 or f64 first, or transform complex numbers forward",
            ),
            _ => (
                dtype.is_complex(),
                "cast the operand to complex64 or complex128 first, or transform real numbers by fft.real",
            ),
        };
        if !fits {
            return Err(ProblemError::DType { operation: format!("fft.{op}"), dtype, hint });
        }
        let wrong =
            |reason: &'static str| ProblemError::Axes { axes: vec![axes], shape: shape.to_vec(), reason };
        if !(1..=MAX_FFT_RANK).contains(&axes) {
            return Err(wrong("a transform is of one to three axes"));
        }
        let Some(first) = shape.len().checked_sub(axes) else {
            return Err(wrong("there are not as many axes to transform"));
        };
        let (batch, along) = shape.split_at(first);
        if along.contains(&0) {
            return Err(ProblemError::Empty { op: "fft", shape: shape.to_vec() });
        }
        let complex = matches!(op, FftOp::Forward | FftOp::Inverse);
        let last = along.len() - 1;
        // Of a single number the transform is the number.
        let kept = along.iter().enumerate().filter(|&(at, &size)| size > 1 || (at == last && !complex));
        let mut sizes = [1; MAX_FFT_RANK];
        let mut rank = 0;
        for (_, &size) in kept {
            sizes[rank] = size;
            rank += 1;
        }
        let mut fft = Fft { op, dtype, rank: rank.max(1) as u8, batch: 1, sizes };
        // Both sides must be addressable, spectra too.
        for (dtype, half) in [(fft.dtype, op == FftOp::InverseReal), (fft.out_dtype(), op == FftOp::Real)] {
            let mut all = shape.to_vec();
            if let (true, Some(last)) = (half, all.last_mut()) {
                *last = *last / 2 + 1;
            }
            element_count(&all, dtype)?;
        }
        fft.batch = element_count(batch, dtype)?;
        Ok(fft)
    }

    /// The sizes transformed, of the real side where there is one: one to [`MAX_FFT_RANK`].
    pub fn sizes(&self) -> &[u64] {
        &self.sizes[..usize::from(self.rank).clamp(1, MAX_FFT_RANK)]
    }

    /// The length of the last axis, of the real side where there is one.
    pub fn last(&self) -> u64 {
        self.sizes().last().copied().unwrap_or(1)
    }

    /// Numbers along the last axis of a spectrum.
    pub fn bins(&self) -> u64 {
        match self.op {
            FftOp::Forward | FftOp::Inverse => self.last(),
            FftOp::Real | FftOp::InverseReal => self.last() / 2 + 1,
        }
    }

    /// Numbers of one transform: those of the real side where there is one.
    pub fn points(&self) -> u64 {
        product(self.sizes())
    }

    /// Complex numbers of one transform's spectrum.
    pub fn spectrum(&self) -> u64 {
        (self.points() / self.last().max(1)).saturating_mul(self.bins())
    }

    /// Element type of the result.
    pub const fn out_dtype(&self) -> DType {
        match (self.op, self.dtype) {
            (FftOp::Real, DType::F64) => DType::Complex128,
            (FftOp::Real, _) => DType::Complex64,
            (FftOp::InverseReal, DType::Complex128) => DType::F64,
            (FftOp::InverseReal, _) => DType::F32,
            (_, dtype) => dtype,
        }
    }

    /// Elements of the operand.
    pub fn input_len(&self) -> u64 {
        self.batch.saturating_mul(if self.op == FftOp::Real { self.points() } else { self.spectrum() })
    }

    /// Elements of the result.
    pub fn out_len(&self) -> u64 {
        self.batch.saturating_mul(if self.op == FftOp::InverseReal { self.points() } else { self.spectrum() })
    }

    /// Arithmetic operations as transforms are counted: `5·n·log₂ n`, half as many where one side is real.
    pub fn flops(&self) -> u64 {
        let points = self.points();
        let doublings = (points.max(2) as f64).log2();
        let each = (5.0 * points as f64 * doublings) as u64;
        let real = matches!(self.op, FftOp::Real | FftOp::InverseReal);
        self.batch.saturating_mul(if real { each / 2 } else { each })
    }

    #[inline]
    pub(super) fn mixed(&self) -> u64 {
        let head = u64::from(self.rank) << 24 | (self.op as u64) << 16 | (self.dtype as u64) << 8 | 13;
        super::mix(&[head, self.batch, self.sizes[0], self.sizes[1], self.sizes[2]])
    }
}

impl fmt::Display for Fft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fft.{}:{}:", self.op, self.dtype)?;
        let batch = Some(self.batch).filter(|&batch| batch != 1);
        let sizes: Vec<u64> = batch.into_iter().chain(self.sizes().iter().copied()).collect();
        write_sizes(f, &sizes)?;
        if self.rank > 1 { write!(f, ":{}d", self.rank) } else { Ok(()) }
    }
}
