//! What moves over the space of an operand: a window of some sizes, in steps, over edges that may be widened.

use super::{ProblemError, write_sizes};
use std::fmt;

/// Dimensions of space a window has at most: depth, height, width.
pub const MAX_SPACE: usize = 3;

crate::named! {
    /// Where the channels of an operand lie.
    #[repr(u8)]
    pub enum Channels {
        /// Before the space: `N C H W`; weights `K C R S`.
        First = "nchw",
        /// Behind it: `N H W C`; weights `K R S C`.
        Last = "nhwc",
    }
}

/// A window over depth, height and width; of fewer dimensions the first are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    rank: u8,
    stride: [u8; MAX_SPACE],
    dilation: [u8; MAX_SPACE],
    kernel: [u16; MAX_SPACE],
    pad: [u16; MAX_SPACE],
    size: [u32; MAX_SPACE],
}

/// How a window moves, by axis; what is left out is one everywhere, and no padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves<'a> {
    /// Elements from one window to the next.
    pub stride: &'a [u64],
    /// Elements put before and behind the operand: zeros, or nothing where the largest is looked for.
    pub pad: &'a [u64],
    /// Elements from one of the window to its next.
    pub dilation: &'a [u64],
}

impl Window {
    /// A window over an operand's space. One value of how it moves holds for every axis.
    pub fn new(size: &[u64], kernel: &[u64], moves: Moves<'_>) -> Result<Window, ProblemError> {
        let wrong = |reason: String| {
            Err(ProblemError::Window { size: size.to_vec(), kernel: kernel.to_vec(), reason })
        };
        let rank = size.len();
        if rank == 0 || rank > MAX_SPACE || kernel.len() != rank {
            return wrong(format!("operand and window have the same one to {MAX_SPACE} dimensions of space"));
        }
        let each = |given: &[u64], axis: usize, none: u64| match *given {
            [] => Some(none),
            [one] => Some(one),
            _ => given.get(axis).copied().filter(|_| given.len() == rank),
        };
        let mut window = Window {
            rank: rank as u8,
            stride: [1; MAX_SPACE],
            dilation: [1; MAX_SPACE],
            kernel: [1; MAX_SPACE],
            pad: [0; MAX_SPACE],
            size: [1; MAX_SPACE],
        };
        for axis in 0..rank {
            let at = MAX_SPACE - rank + axis;
            let Moves { stride, pad, dilation } = moves;
            let (Some(stride), Some(pad), Some(dilation)) =
                (each(stride, axis, 1), each(pad, axis, 0), each(dilation, axis, 1))
            else {
                return wrong(
                    "stride, padding and dilation are one number, or one for each axis".to_string(),
                );
            };
            let fields = (u8::try_from(stride), u16::try_from(pad), u8::try_from(dilation));
            let (Ok(stride @ 1..), Ok(pad), Ok(dilation @ 1..)) = fields else {
                return wrong("stride and dilation are 1 to 255, padding at most 65535".to_string());
            };
            let (Ok(size), Ok(kernel @ 1..)) = (u32::try_from(size[axis]), u16::try_from(kernel[axis]))
            else {
                return wrong("sizes are below 2³², those of a window 1 to 65535".to_string());
            };
            (window.stride[at], window.pad[at], window.dilation[at]) = (stride, pad, dilation);
            (window.size[at], window.kernel[at]) = (size, kernel);
            if window.reach(at) > window.widened(at) {
                let (reach, widened) = (window.reach(at), window.widened(at));
                return wrong(format!(
                    "the window reaches over {reach} elements, with padding there are {widened}"
                ));
            }
        }
        Ok(window)
    }

    /// Dimensions of space.
    pub fn rank(&self) -> usize {
        usize::from(self.rank)
    }

    fn of<T: Copy + Into<u64>>(all: [T; MAX_SPACE]) -> [usize; MAX_SPACE] {
        all.map(|one| one.into() as usize)
    }

    /// The operand's space: depth, height, width.
    pub fn size(&self) -> [usize; MAX_SPACE] {
        Window::of(self.size)
    }

    /// The window's own sizes.
    pub fn kernel(&self) -> [usize; MAX_SPACE] {
        Window::of(self.kernel)
    }

    /// Elements from one window to the next.
    pub fn stride(&self) -> [usize; MAX_SPACE] {
        Window::of(self.stride)
    }

    /// Elements put before and behind the operand.
    pub fn pad(&self) -> [usize; MAX_SPACE] {
        Window::of(self.pad)
    }

    /// Elements from one of the window to its next.
    pub fn dilation(&self) -> [usize; MAX_SPACE] {
        Window::of(self.dilation)
    }

    /// The result's space.
    pub fn out(&self) -> [usize; MAX_SPACE] {
        let one = |at: usize| (self.widened(at) - self.reach(at)) / u64::from(self.stride[at]) + 1;
        [0, 1, 2].map(|at| one(at) as usize)
    }

    /// Whether every window is one element, at every element.
    pub fn is_single(&self) -> bool {
        self.kernel == [1; MAX_SPACE] && self.stride == [1; MAX_SPACE] && self.pad == [0; MAX_SPACE]
    }

    /// The same with the space cut off at so many elements of each axis, as far as the window allows it.
    pub fn shrunk(&self, cut: impl Fn(u64) -> u64) -> Window {
        let mut window = *self;
        for at in 0..MAX_SPACE {
            let least = self.reach(at).saturating_sub(2 * u64::from(self.pad[at])).max(1);
            let size = cut(self.size[at].into()).max(least).min(self.size[at].into());
            window.size[at] = size as u32;
        }
        window
    }

    fn reach(&self, at: usize) -> u64 {
        u64::from(self.dilation[at]) * (u64::from(self.kernel[at]) - 1) + 1
    }

    fn widened(&self, at: usize) -> u64 {
        u64::from(self.size[at]) + 2 * u64::from(self.pad[at])
    }

    /// Those of the axes there are.
    pub(super) fn axes<T: Copy + Into<u64>>(&self, all: [T; MAX_SPACE]) -> Vec<u64> {
        all[MAX_SPACE - self.rank()..].iter().map(|one| (*one).into()).collect()
    }

    pub(super) fn sizes(&self) -> Vec<u64> {
        self.axes(self.size)
    }

    pub(super) fn kernels(&self) -> Vec<u64> {
        self.axes(self.kernel)
    }

    pub(super) fn mixed(&self) -> [u64; 4] {
        let pack = |all: [u64; MAX_SPACE], bits: u32| all.iter().fold(0, |sum, one| (sum << bits) | one);
        [
            pack(self.size.map(u64::from), 21) ^ u64::from(self.size[0]).rotate_left(50),
            pack(self.kernel.map(u64::from), 16) | u64::from(self.rank) << 48,
            pack(self.pad.map(u64::from), 16),
            pack(self.stride.map(u64::from), 8) | pack(self.dilation.map(u64::from), 8) << 24,
        ]
    }

    /// What is not as it is when nothing is said: `stride2`, `pad1x0`, `dilation2`.
    pub(super) fn write(&self, words: &mut Vec<String>) {
        let mut word = |name: &str, all: Vec<u64>, none: u64| {
            if all.iter().any(|one| *one != none) {
                let same = all.iter().all(|one| *one == all[0]);
                words.push(format!("{name}{}", Sizes(if same { &all[..1] } else { &all })));
            }
        };
        word("stride", self.axes(self.stride), 1);
        word("pad", self.axes(self.pad), 0);
        word("dilation", self.axes(self.dilation), 1);
    }
}

/// Sizes joined by `x`.
pub(super) struct Sizes<'a>(pub &'a [u64]);

impl fmt::Display for Sizes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_sizes(f, self.0)
    }
}
