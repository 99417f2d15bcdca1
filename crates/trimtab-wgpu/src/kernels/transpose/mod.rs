//! The kernels of the operation transpose. Elements are moved as their bits, so that doubles need no 64-bit arithmetic.

mod naive;
mod registers;
mod tiled;

use crate::kernels::{Kernels, adapter_with, over, with_main};
use crate::program::{BindTarget, Binding, Needs};
use trimtab_core::{AdapterClass, AdapterFacts, DType, Decline, DeviceFacts, Transpose, erase};

/// In order of preference.
pub fn kernels() -> Kernels {
    vec![erase(registers::RegistersKernel), erase(tiled::TiledKernel), erase(naive::NaiveKernel)]
}

/// The operand and the result as shaders see them, by vectors of that many elements.
fn declared(problem: &Transpose, vector: u32) -> String {
    let element = match problem.dtype {
        DType::F64 => "vec2<u32>",
        DType::F16 => "f16",
        _ => "u32",
    };
    let of = if vector == 1 { element.to_string() } else { format!("vec{vector}<{element}>") };
    format!(
        "alias V = {of};
@group(0) @binding(0) var<storage, read> operand: array<V>;
@group(0) @binding(1) var<storage, read_write> result: array<V>;
"
    )
}

/// The text of a kernel of planes: what all share, and its own.
fn of_planes(problem: &Transpose, vector: u32, main: &str) -> String {
    declared(problem, vector) + include_str!("planes.wgsl") + &with_main(main)
}

fn needs(problem: &Transpose) -> Needs {
    Needs { f64: false, ..Needs::of(problem.dtype) }
}

/// The operand and the result, each whole.
fn bindings() -> Vec<Binding> {
    vec![Binding::read(BindTarget::Input(0)), Binding::write(BindTarget::Out)]
}

/// Why no kernel takes a problem on a device.
fn declines(problem: &Transpose, device: &DeviceFacts) -> Option<Decline> {
    let adapter = match adapter_with(needs(problem), device) {
        Ok(adapter) => adapter,
        Err(decline) => return Some(decline),
    };
    // Indices stay far below 2^32.
    let limit = adapter.max_binding.0.min(adapter.max_buffer.0).min(1 << 30);
    over([("the operand", problem.len())], problem.dtype, limit, "bindings")
}

/// Whether the adapter is the processor, which has caches rather than lanes to feed.
fn is_software(adapter: &AdapterFacts) -> bool {
    adapter.class == AdapterClass::Software
}

/// An axis with its strides in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    size: u64,
    from: u64,
    to: u64,
}

/// The axes in the order of the result.
fn axes(problem: &Transpose) -> Vec<Axis> {
    let (dims, permutation) = (problem.dims(), problem.permutation());
    let stride = |axis: usize| dims[axis + 1..].iter().product::<u64>();
    let mut axes: Vec<Axis> = permutation
        .iter()
        .map(|&axis| Axis { size: dims[axis as usize], from: stride(axis as usize), to: 0 })
        .collect();
    let mut to = 1;
    for axis in axes.iter_mut().rev() {
        axis.to = to;
        to *= axis.size;
    }
    axes
}

/// A problem as planes: the operand's last axis against the result's, repeated along at most four others.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Planes {
    /// The operand's last axis: one apart in the operand.
    wide: Axis,
    /// The result's last axis: one apart in the result.
    high: Axis,
    others: Vec<Axis>,
}

impl Planes {
    /// `None` where the last axis stays last.
    fn new(problem: &Transpose) -> Option<Planes> {
        let mut others = axes(problem);
        let high = others.pop()?;
        let wide = others.iter().position(|axis| axis.from == 1)?;
        let wide = others.remove(wide);
        (high.from != 1).then_some(Planes { wide, high, others })
    }

    /// How many planes there are.
    fn count(&self) -> u64 {
        self.others.iter().map(|axis| axis.size).product()
    }

    /// Blocks of these sides over all planes: along the operand's last axis, along the result's, and altogether.
    fn blocks(&self, wide: u64, high: u64) -> [u64; 3] {
        let (columns, rows) = (self.wide.size.div_ceil(wide), self.high.size.div_ceil(high));
        [columns, rows, columns * rows * self.count()]
    }

    /// The parameters, counted in squares of that side, for blocks of these sides.
    fn params(&self, side: u32, [block_wide, block_high]: [u32; 2]) -> Vec<u32> {
        let [columns, rows, count] = self.blocks(block_wide.into(), block_high.into());
        let squares = [block_wide / side, block_high / side];
        let side = u64::from(side);
        let mut words = vec![self.wide.size / side, self.high.size / side, columns, rows];
        words.extend([self.high.from, self.wide.to, count, 0]);
        for number in 0..4 {
            let axis = self.others.get(number).copied().unwrap_or(Axis { size: 1, from: 0, to: 0 });
            words.extend([axis.size, axis.from / side, axis.to / side, 0]);
        }
        words.into_iter().map(|word| word as u32).chain(squares).chain([0, 0]).collect()
    }
}

/// Why a kernel of planes does not take a problem.
fn declines_planes(problem: &Transpose, device: &DeviceFacts) -> Option<Decline> {
    if Planes::new(problem).is_none() {
        return Some(Decline::because("the last axis stays last: there is nothing to turn"));
    }
    declines(problem, device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batched_permutation_is_planes_with_strides_in_both() {
        let problem = Transpose::new(DType::F32, &[2, 3, 5, 7], &[2, 0, 3, 1]).unwrap();
        let planes = Planes::new(&problem).unwrap();
        assert_eq!(planes.wide, Axis { size: 7, from: 1, to: 3 });
        assert_eq!(planes.high, Axis { size: 3, from: 35, to: 1 });
        assert_eq!(planes.others, [Axis { size: 5, from: 7, to: 42 }, Axis { size: 2, from: 105, to: 21 }]);
        assert_eq!(planes.blocks(4, 2), [2, 2, 40]);
    }

    #[test]
    fn a_permutation_that_keeps_the_last_axis_has_no_planes() {
        let problem = Transpose::new(DType::F32, &[2, 3, 5], &[1, 0, 2]).unwrap();
        assert_eq!(Planes::new(&problem), None);
    }
}
