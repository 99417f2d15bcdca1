//! A problem as numbers a model can learn from: logarithms of sizes, products, ratios, alignment, cache fits.

use super::Axes;
use crate::features::recipe;
use trimtab_core::{ElementwiseOp, Problem};

/// Sizes of caches, in log2 of bytes: about a first-level, a second-level and a last-level cache. Models learn what
/// happens there; that the edges are not exactly those of the machine costs little.
const CACHES: [(&str, f64); 3] = [
    ("doublings beyond 32 KiB", 15.0),
    ("doublings beyond 1.4 MiB", 20.5),
    ("doublings beyond 32 MiB", 25.0),
];
/// Alignments that matter to vectors and cache lines go up to 2^6 elements.
const MOST_ALIGNED: u32 = 6;
/// Sizes a problem is described by; of a problem with more, the first ones.
const SIZES: usize = 4;

/// The numbers that describe a problem, in the order of [`axes`]. As many for every problem of one operation.
pub fn shape(problem: &Problem) -> Vec<f64> {
    let mut at = Vec::new();
    describe(problem, |_, value| at.push(value));
    at
}

/// What the numbers of [`shape`] are, for problems of this one's operation. The first four are log2 of sizes: coordinates.
pub fn axes(problem: &Problem) -> Axes {
    let mut names = Vec::new();
    describe(problem, |name, _| names.push(name.to_string()));
    Axes { names, near: SIZES }
}

/// Names of sizes and the sizes, elements moved, bytes of one, and what else tells problems of the operation apart.
type Described = ([(&'static str, u64); SIZES], f64, u64, u32);

fn described(problem: &Problem) -> Described {
    let bytes = problem.dtype().map_or(1, |dtype| dtype.size());
    match problem {
        Problem::Matmul(p) => {
            let (m, n, k) = (p.m as f64, p.n as f64, p.k as f64);
            let layout = u32::from(p.lhs.transposed) + 2 * u32::from(p.rhs.transposed);
            let sizes = [("m", p.m), ("n", p.n), ("k", p.k), ("batch", p.batch)];
            (sizes, p.batch as f64 * (m * n + m * k + n * k), bytes, layout)
        }
        Problem::Elementwise(p) => {
            let sizes = [("left", p.lhs_len()), ("right", p.rhs_len()), ("out", p.out_len()), ("", 1)];
            let moved = p.lhs_len() as f64 + p.rhs_len() as f64 + p.out_len() as f64;
            let op = ElementwiseOp::names().position(|name| name == p.op.name()).unwrap_or(0) as u32;
            (sizes, moved, bytes, op)
        }
        Problem::Reduce(p) => {
            let sizes = [("outer", p.outer), ("length", p.len), ("inner", p.inner), ("", 1)];
            (sizes, p.outer as f64 * p.len as f64 * p.inner as f64, bytes, p.op as u32)
        }
        Problem::Transpose(p) => {
            let mut sizes = [("first", 1), ("second", 1), ("third", 1), ("fourth", 1)];
            for (slot, size) in sizes.iter_mut().zip(p.dims()) {
                slot.1 = *size;
            }
            let moved = 2.0 * p.dims().iter().map(|size| *size as f64).product::<f64>();
            let tail = p.permutation().iter().rev().take(2).fold(0, |code, axis| code * 8 + u32::from(*axis));
            (sizes, moved, bytes, tail)
        }
        Problem::Fused(p) => {
            let depth = p.product().map_or(1, |product| product.depth);
            let sizes = [("rows", p.outer()), ("columns", p.inner()), ("depth", depth), ("", 1)];
            let inputs: f64 = (0..p.inputs()).map(|input| p.input_len(input) as f64).sum();
            (sizes, inputs + p.out_len() as f64, bytes, recipe(p))
        }
        Problem::Custom(p) => {
            let mut sizes = [("first", 1), ("second", 1), ("third", 1), ("fourth", 1)];
            for (slot, size) in sizes.iter_mut().zip(p.sizes()) {
                slot.1 = *size;
            }
            let moved = p.sizes().iter().map(|size| *size as f64).product::<f64>();
            (sizes, moved, bytes, 0)
        }
    }
}

fn describe(problem: &Problem, mut tell: impl FnMut(&str, f64)) {
    let (sizes, moved, element_bytes, sort) = described(problem);
    let logs = sizes.map(|(_, size)| (size.max(1) as f64).log2());
    let names = sizes.map(|(name, _)| name);
    for (name, log) in names.iter().zip(logs) {
        tell(&format!("log2 {name}"), log);
    }
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        tell(&format!("log2 {}·{}", names[a], names[b]), logs[a] + logs[b]);
        tell(&format!("log2 {}/{}", names[a], names[b]), logs[a] - logs[b]);
    }
    let all: f64 = logs.iter().sum();
    tell("log2 of all sizes", all);
    tell("log2 of the shortest side", logs[..3].iter().copied().fold(f64::INFINITY, f64::min));
    tell("log2 of the longest side", logs.iter().copied().fold(0.0, f64::max));
    let bytes = (moved.max(1.0) * element_bytes.max(1) as f64).log2();
    tell("log2 of operations a byte", all - bytes);
    for (name, cache) in CACHES {
        tell(name, (bytes - cache).max(0.0));
    }
    for (name, size) in &sizes[..3] {
        tell(&format!("alignment of {name}"), f64::from(size.max(&1).trailing_zeros().min(MOST_ALIGNED)));
    }
    // What tiles of eight and of thirty-two compute in vain.
    for (name, size) in &sizes[..2] {
        for tile in [8.0, 32.0] {
            let size = (*size).max(1) as f64;
            tell(&format!("padding of {name} to {tile}"), ((size / tile).ceil() * tile / size).log2());
        }
    }
    tell("operation or layout", f64::from(sort));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_of_one_operation_have_the_same_finite_numbers_and_names() {
        for (one, other) in [
            ("matmul:f32:512x100x7", "matmul:f64:1x1x1"),
            ("elementwise.add:f32:1024,1024", "elementwise.neg:f64:3"),
            ("reduce.sum:f32:64x1024:axis1", "reduce.max:f32:5x5:axis0"),
            ("transpose:f32:512x256", "transpose:f32:8x16x32:0.2.1"),
            ("fused.relu(add(a,b)):f32:8x16:all,rows", "fused.exp(a):f32:1x9:all:sum"),
        ] {
            let (one, other): (Problem, Problem) = (one.parse().unwrap(), other.parse().unwrap());
            assert_eq!(axes(&one), axes(&other));
            for problem in [one, other] {
                let at = shape(&problem);
                assert_eq!(at.len(), axes(&problem).names.len());
                assert!(at.iter().all(|value| value.is_finite()), "{problem} {at:?}");
            }
        }
    }

    #[test]
    fn numbers_say_what_their_names_do() {
        let problem: Problem = "matmul:f32:512x100x7".parse().unwrap();
        let (at, axes) = (shape(&problem), axes(&problem));
        let of = |name: &str| at[axes.names.iter().position(|known| known == name).unwrap()];
        assert_eq!((of("log2 m"), of("alignment of n"), of("alignment of m")), (9.0, 2.0, 6.0));
        assert_eq!(of("padding of n to 32"), (128.0f64 / 100.0).log2());
        assert!((of("log2 of all sizes") - (512.0f64 * 700.0).log2()).abs() < 1e-12);
        let bytes = 4.0 * (512.0 * 100.0 + 512.0 * 7.0 + 100.0 * 7.0);
        assert!((of("doublings beyond 32 KiB") - (bytes / 32768.0f64).log2()).abs() < 1e-12);
    }
}
