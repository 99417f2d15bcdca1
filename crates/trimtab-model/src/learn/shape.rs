//! A problem as numbers a model can learn from: logarithms of sizes, products, ratios, alignment, cache fits.

use super::Axes;
use crate::features::{Described, SIZES};
use trimtab_core::Problem;

/// Sizes of caches, in log2 of bytes: about a first-level, a second-level and a last-level cache. Models learn what
/// happens there; that the edges are not exactly those of the machine costs little.
const CACHES: [(&str, f64); 3] = [
    ("doublings beyond 32 KiB", 15.0),
    ("doublings beyond 1.4 MiB", 20.5),
    ("doublings beyond 32 MiB", 25.0),
];
/// Alignments that matter to vectors and cache lines go up to 2^6 elements.
const MOST_ALIGNED: u32 = 6;
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

fn describe(problem: &Problem, mut tell: impl FnMut(&str, f64)) {
    let Described { sizes, moved, element_bytes, kind } = Described::of(problem);
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
    tell("operation or layout", f64::from(kind));
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
