//! Convolution: a window of weights moves over an operand.

use super::window::{Channels, MAX_SPACE, Moves, Sizes, Window};
use super::{ProblemError, UnaryOp, element_count};
use crate::DType;
use std::fmt;

/// A forward convolution (a cross-correlation, as in every library of networks) in one to three dimensions of space, dense and
/// row-major, perhaps with a bias for each channel of the result and a function of each element at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conv {
    /// Element type of operands and result.
    pub dtype: DType,
    /// Where the channels lie.
    pub channels: Channels,
    /// Whether a number a channel is added to the result.
    pub bias: bool,
    /// What is done to each element of the result at the end.
    pub act: Option<UnaryOp>,
    batch: u32,
    groups: u32,
    inputs: u32,
    outputs: u32,
    /// The window of weights.
    pub window: Window,
}

impl Conv {
    /// The same of another number of operands; nothing of more than there can be.
    pub fn of_batch(self, batch: u64) -> Option<Conv> {
        Some(Conv { batch: u32::try_from(batch).ok()?, ..self })
    }

    /// Of an operand and weights: `N C H W` and `K C R S`, or `N H W C` and `K R S C`; with groups the weights have that
    /// part of the channels.
    pub fn new(
        dtype: DType,
        channels: Channels,
        operand: &[u64],
        weights: &[u64],
        moves: Moves<'_>,
        groups: u64,
    ) -> Result<Conv, ProblemError> {
        let wrong = |reason: String| {
            Err(ProblemError::Shapes { lhs: operand.to_vec(), rhs: weights.to_vec(), reason })
        };
        if !dtype.is_float() {
            let hint = "give operands of f32 or f64 elements (nothing is converted by trimtab)";
            return Err(ProblemError::DType { operation: "conv".to_string(), dtype, hint });
        }
        let rank = operand.len();
        if !(3..=2 + MAX_SPACE).contains(&rank) || weights.len() != rank {
            return wrong(
                "a convolution has a batch, channels and one to three dimensions of space".to_string(),
            );
        }
        let split = |shape: &[u64]| match channels {
            Channels::First => (shape[0], shape[1], shape[2..].to_vec()),
            Channels::Last => (shape[0], shape[rank - 1], shape[1..rank - 1].to_vec()),
        };
        let ((batch, inputs, size), (outputs, of_group, kernel)) = (split(operand), split(weights));
        if groups == 0 || inputs % groups != 0 || outputs % groups != 0 || inputs / groups != of_group {
            return wrong(format!(
                "{inputs} channels in {groups} groups need weights of {} channels, and a multiple of {groups} of results",
                inputs.checked_div(groups).unwrap_or(0)
            ));
        }
        let window = Window::new(&size, &kernel, moves)?;
        let narrow = |size: u64| u32::try_from(size).ok();
        let (Some(batch), Some(groups), Some(inputs), Some(outputs)) =
            (narrow(batch), narrow(groups), narrow(inputs), narrow(outputs))
        else {
            return wrong("sizes are below 2³²".to_string());
        };
        let conv = Conv { dtype, channels, bias: false, act: None, batch, groups, inputs, outputs, window };
        element_count(operand, dtype)?;
        element_count(weights, dtype)?;
        element_count(&conv.out_shape(), dtype)?;
        Ok(conv)
    }

    /// The same with a bias and a function at the end: one that does not enlarge errors.
    pub fn ending(self, bias: bool, act: Option<UnaryOp>) -> Result<Conv, ProblemError> {
        let ends =
            |op: UnaryOp| matches!(op, UnaryOp::Relu | UnaryOp::Tanh | UnaryOp::Sigmoid | UnaryOp::Gelu);
        match act.filter(|op| !ends(*op)) {
            None => Ok(Conv { bias, act, ..self }),
            Some(op) => {
                let reason = format!("a convolution ends with relu, tanh, sigmoid or gelu, not with {op}");
                Err(ProblemError::Shapes { lhs: self.operand_shape(), rhs: self.weights_shape(), reason })
            }
        }
    }

    /// Operands that are convolved apart.
    pub fn batch(&self) -> usize {
        self.batch as usize
    }

    /// Groups of channels that do not see each other.
    pub fn groups(&self) -> usize {
        self.groups as usize
    }

    /// Channels of the operand.
    pub fn inputs(&self) -> usize {
        self.inputs as usize
    }

    /// Channels of the result.
    pub fn outputs(&self) -> usize {
        self.outputs as usize
    }

    /// Channels of the operand that a channel of the result sees.
    pub fn group_inputs(&self) -> usize {
        (self.inputs / self.groups.max(1)) as usize
    }

    /// Channels of the result of each group.
    pub fn group_outputs(&self) -> usize {
        (self.outputs / self.groups.max(1)) as usize
    }

    /// Products an element of the result is the sum of.
    pub fn depth(&self) -> u64 {
        super::product(&self.window.kernels()).saturating_mul(self.group_inputs() as u64)
    }

    fn shape(&self, first: u32, channels: u32, space: Vec<u64>) -> Vec<u64> {
        let (first, channels) = (u64::from(first), u64::from(channels));
        match self.channels {
            Channels::First => [vec![first, channels], space].concat(),
            Channels::Last => [vec![first], space, vec![channels]].concat(),
        }
    }

    /// The operand's shape.
    pub fn operand_shape(&self) -> Vec<u64> {
        self.shape(self.batch, self.inputs, self.window.sizes())
    }

    /// The weights' shape.
    pub fn weights_shape(&self) -> Vec<u64> {
        self.shape(self.outputs, self.group_inputs() as u32, self.window.kernels())
    }

    /// The result's shape.
    pub fn out_shape(&self) -> Vec<u64> {
        let out = self.window.out().map(|size| size as u64);
        self.shape(self.batch, self.outputs, self.window.axes(out))
    }

    /// Elements of the operand.
    pub fn operand_len(&self) -> u64 {
        super::product(&self.operand_shape())
    }

    /// Elements of the weights.
    pub fn weights_len(&self) -> u64 {
        super::product(&self.weights_shape())
    }

    /// Elements of the result.
    pub fn out_len(&self) -> u64 {
        super::product(&self.out_shape())
    }

    /// Multiplications and additions, padding included.
    pub fn flops(&self) -> u64 {
        self.out_len().saturating_mul(self.depth()).saturating_mul(2)
    }

    /// The same for so many operands at most, and fewer channels and elements: `cut` says how many of so many stay.
    pub fn shrunk(&self, batch: u64, cut: impl Fn(u64) -> u64) -> Conv {
        let fewer = |size: u32| cut(size.into()).clamp(u64::from(size > 0), size.into()) as u32;
        let (of_group, to_group) = (fewer(self.group_inputs() as u32), fewer(self.group_outputs() as u32));
        let groups = fewer(self.groups);
        Conv {
            batch: u64::from(self.batch).min(batch) as u32,
            groups,
            inputs: of_group * groups,
            outputs: to_group * groups,
            window: self.window.shrunk(&cut),
            ..*self
        }
    }

    #[inline]
    pub(super) fn mixed(&self) -> u64 {
        let act = self.act.map_or(0, |act| act as u64 + 1);
        let head = act << 32
            | u64::from(self.bias) << 24
            | (self.channels as u64) << 16
            | (self.dtype as u64) << 8
            | 7;
        let [size, kernel, pad, moves] = self.window.mixed();
        let pair = |a: u32, b: u32| u64::from(a) << 32 | u64::from(b);
        super::mix(&[
            head,
            pair(self.batch, self.groups),
            pair(self.inputs, self.outputs),
            size,
            kernel,
            pad,
            moves,
        ])
    }
}

impl fmt::Display for Conv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operand, weights) = (self.operand_shape(), self.weights_shape());
        write!(f, "conv:{}:{},{}", self.dtype, Sizes(&operand), Sizes(&weights))?;
        let mut words = Vec::new();
        if self.channels == Channels::Last {
            words.push(self.channels.name().to_string());
        }
        self.window.write(&mut words);
        if self.groups != 1 {
            words.push(format!("groups{}", self.groups));
        }
        words.extend(self.bias.then(|| "bias".to_string()));
        words.extend(self.act.map(|act| act.name().to_string()));
        if words.is_empty() { Ok(()) } else { write!(f, ":{}", words.join(",")) }
    }
}
