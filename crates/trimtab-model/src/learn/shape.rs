//! The sizes of a problem as numbers a model can learn from: logarithms, products, ratios, alignment, cache fits.

use super::Axes;

/// Sizes of caches, in log2 of bytes: about a first-level, a second-level and a last-level cache. Models learn what
/// happens there; that the edges are not exactly those of the machine costs little.
const CACHES: [f64; 3] = [15.0, 20.5, 25.0];
/// Alignments that matter to vectors and cache lines go up to 2^6 elements.
const MOST_ALIGNED: u32 = 6;
/// Widths in elements that kernels' tiles round up to.
const TILES: [u64; 2] = [8, 32];

/// Numbers that describe a matrix product of these sizes and this size of an element, in the order of [`matmul_axes`].
pub fn matmul_shape(m: u64, n: u64, k: u64, element_bytes: u64) -> Vec<f64> {
    let mut at = Vec::new();
    describe([m, n, k], element_bytes, |_, value| at.push(value));
    at
}

/// What the numbers of [`matmul_shape`] are.
pub fn matmul_axes() -> Axes {
    let mut names = Vec::new();
    describe([1, 1, 1], 4, |name, _| names.push(name.to_string()));
    Axes { names, near: 3, prior: 0 }
}

fn describe(sizes: [u64; 3], element_bytes: u64, mut tell: impl FnMut(&'static str, f64)) {
    let [m, n, k] = sizes.map(|size| size.max(1));
    let log = |value: u64| (value as f64).log2();
    let [lm, ln, lk] = [log(m), log(n), log(k)];
    for (name, value) in [("log2 m", lm), ("log2 n", ln), ("log2 k", lk)] {
        tell(name, value);
    }
    tell("log2 mn", lm + ln);
    tell("log2 mk", lm + lk);
    tell("log2 nk", ln + lk);
    tell("log2 mnk", lm + ln + lk);
    tell("log2 m/n", lm - ln);
    tell("log2 m/k", lm - lk);
    tell("log2 n/k", ln - lk);
    tell("log2 of the shortest side", lm.min(ln).min(lk));
    tell("log2 of the longest side", lm.max(ln).max(lk));
    let elements = (lm + ln).exp2() + (lm + lk).exp2() + (ln + lk).exp2();
    let bytes = (elements * element_bytes.max(1) as f64).log2();
    tell("log2 of operations a byte", lm + ln + lk - bytes);
    let names =
        ["beyond the first-level cache", "beyond the second-level cache", "beyond the last-level cache"];
    for (name, cache) in names.into_iter().zip(CACHES) {
        tell(name, (bytes - cache).max(0.0));
    }
    for (name, size) in [("alignment of m", m), ("alignment of n", n), ("alignment of k", k)] {
        tell(name, f64::from(size.trailing_zeros().min(MOST_ALIGNED)));
    }
    let padded = |size: u64, tile: u64| (size.next_multiple_of(tile) as f64 / size as f64).log2();
    for (name, size, tile) in [
        ("padding of m to 8", m, TILES[0]),
        ("padding of n to 8", n, TILES[0]),
        ("padding of m to 32", m, TILES[1]),
        ("padding of n to 32", n, TILES[1]),
    ] {
        tell(name, padded(size, tile));
    }
}
