//! Pooling: of every window one element stays.

use super::window::{Channels, MAX_SPACE, Moves, Sizes, Window};
use super::{ProblemError, element_count};
use crate::DType;
use std::fmt;

crate::named! {
    /// What stays of a window.
    #[repr(u8)]
    pub enum PoolOp {
        /// The largest; a NaN wins. Padding is not looked at.
        Max = "max",
        /// The arithmetic mean of those that are not padding.
        Mean = "mean",
    }
}

/// One element for every window and channel, dense and row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    /// How.
    pub op: PoolOp,
    /// Element type of operand and result.
    pub dtype: DType,
    /// Where the channels lie.
    pub channels: Channels,
    batch: u32,
    count: u32,
    /// The window.
    pub window: Window,
}

impl Pool {
    /// The same of another number of operands; nothing of more than there can be.
    pub fn of_batch(self, batch: u64) -> Option<Pool> {
        Some(Pool { batch: u32::try_from(batch).ok()?, ..self })
    }

    /// Of an operand `N C H W` or `N H W C` with one to three dimensions of space. The padding must leave some of every window.
    pub fn new(
        op: PoolOp,
        dtype: DType,
        channels: Channels,
        operand: &[u64],
        window: &[u64],
        moves: Moves<'_>,
    ) -> Result<Pool, ProblemError> {
        let wrong = |reason: &str| {
            Err(ProblemError::Window {
                size: operand.to_vec(),
                kernel: window.to_vec(),
                reason: reason.to_string(),
            })
        };
        if !dtype.is_float() {
            let hint = "give an operand of f32 or f64 elements (nothing is converted by trimtab)";
            return Err(ProblemError::DType { operation: "pool".to_string(), dtype, hint });
        }
        let rank = operand.len();
        if !(3..=2 + MAX_SPACE).contains(&rank) {
            return wrong("an operand has a batch, channels and one to three dimensions of space");
        }
        let (count, size) = match channels {
            Channels::First => (operand[1], &operand[2..]),
            Channels::Last => (operand[rank - 1], &operand[1..rank - 1]),
        };
        let window = Window::new(size, window, moves)?;
        for ((pad, kernel), dilation) in window.pad().into_iter().zip(window.kernel()).zip(window.dilation())
        {
            if pad > dilation * (kernel - 1) {
                return wrong("the padding would leave nothing of some windows");
            }
        }
        if window.size().contains(&0) {
            return wrong("there is nothing in the windows");
        }
        let (Ok(batch), Ok(count)) = (u32::try_from(operand[0]), u32::try_from(count)) else {
            return wrong("sizes are below 2³²");
        };
        let pool = Pool { op, dtype, channels, batch, count, window };
        element_count(operand, dtype)?;
        element_count(&pool.out_shape(), dtype)?;
        Ok(pool)
    }

    /// Operands that are pooled apart.
    pub fn batch(&self) -> usize {
        self.batch as usize
    }

    /// Channels.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    fn shape(&self, space: Vec<u64>) -> Vec<u64> {
        let (batch, count) = (u64::from(self.batch), u64::from(self.count));
        match self.channels {
            Channels::First => [vec![batch, count], space].concat(),
            Channels::Last => [vec![batch], space, vec![count]].concat(),
        }
    }

    /// The operand's shape.
    pub fn operand_shape(&self) -> Vec<u64> {
        self.shape(self.window.sizes())
    }

    /// The result's shape.
    pub fn out_shape(&self) -> Vec<u64> {
        self.shape(self.window.axes(self.window.out().map(|size| size as u64)))
    }

    /// Elements of the operand.
    pub fn operand_len(&self) -> u64 {
        super::product(&self.operand_shape())
    }

    /// Elements of the result.
    pub fn out_len(&self) -> u64 {
        super::product(&self.out_shape())
    }

    /// One for every element of every window.
    pub fn flops(&self) -> u64 {
        self.out_len().saturating_mul(super::product(&self.window.kernels()))
    }

    /// The same for so many operands at most, and fewer channels and elements: `cut` says how many of so many stay.
    pub fn shrunk(&self, batch: u64, cut: impl Fn(u64) -> u64) -> Pool {
        let fewer = |size: u32| cut(size.into()).clamp(u64::from(size > 0), size.into()) as u32;
        Pool {
            batch: u64::from(self.batch).min(batch) as u32,
            count: fewer(self.count),
            window: self.window.shrunk(&cut),
            ..*self
        }
    }

    #[inline]
    pub(super) fn mixed(&self) -> u64 {
        let head = (self.op as u64) << 24 | (self.channels as u64) << 16 | (self.dtype as u64) << 8 | 8;
        let [size, kernel, pad, moves] = self.window.mixed();
        super::mix(&[head, u64::from(self.batch) << 32 | u64::from(self.count), size, kernel, pad, moves])
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window = self.window.kernels();
        let mut words = vec![format!("window{}", Sizes(&window))];
        if self.channels == Channels::Last {
            words.push(self.channels.name().to_string());
        }
        self.window.write(&mut words);
        write!(f, "pool.{}:{}:{}:{}", self.op, self.dtype, Sizes(&self.operand_shape()), words.join(","))
    }
}
