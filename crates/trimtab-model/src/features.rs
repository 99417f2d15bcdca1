//! A problem and a point as numbers between which distances make sense: sizes and settings in doublings.

use trimtab_core::{ElementwiseOp, Fused, Point, Problem};

/// Numbers a problem and a point are described by.
pub const FEATURES: usize = 9;

const SIZES: usize = 4;
/// Where the kind of operation and the layout are told apart.
const KIND: usize = SIZES;
const SETTINGS: usize = KIND + 1;
/// Problems of different operations or layouts are this many doublings apart: neighbours only if there is nobody else.
const FAR: f64 = 8.0;
/// A doubled setting matters about half as much as a doubled size.
const SETTING_WEIGHT: f64 = 0.5;

/// Where a problem at a point lies: log2 of its sizes, its kind and layout, log2 of the first settings.
pub fn features(problem: &Problem, point: &Point) -> [f64; FEATURES] {
    let mut features = [0.0; FEATURES];
    let mut sizes = [0u64; SIZES];
    let kind = match problem {
        Problem::Matmul(p) => {
            sizes = [p.m, p.n, p.k, p.batch];
            u32::from(p.lhs.transposed) + 2 * u32::from(p.rhs.transposed)
        }
        Problem::Elementwise(p) => {
            sizes = [p.lhs_len(), p.rhs_len(), p.out_len(), 0];
            ElementwiseOp::names().position(|name| name == p.op.name()).unwrap_or(0) as u32
        }
        Problem::Reduce(p) => {
            sizes = [p.outer, p.len, p.inner, 0];
            p.op as u32
        }
        Problem::Transpose(p) => {
            for (slot, size) in sizes.iter_mut().zip(p.dims()) {
                *slot = *size;
            }
            // The last two axes of the result decide which side is walked with a stride.
            let tail = p.permutation().iter().rev().take(2);
            tail.fold(0, |code, axis| code * 8 + u32::from(*axis))
        }
        Problem::Fused(p) => {
            let depth = p.product().map_or(0, |product| product.depth);
            sizes = [p.outer(), p.inner(), depth, p.inputs() as u64];
            recipe(p)
        }
        Problem::Custom(p) => {
            for (slot, size) in sizes.iter_mut().zip(p.sizes()) {
                *slot = *size;
            }
            0
        }
    };
    for (slot, size) in features.iter_mut().zip(sizes) {
        *slot = (1.0 + size as f64).log2();
    }
    features[KIND] = FAR * f64::from(kind);
    for (slot, value) in features[SETTINGS..].iter_mut().zip(point.values()) {
        *slot = SETTING_WEIGHT * (1.0 + f64::from(*value)).log2();
    }
    features
}

/// A number for a recipe: those of one recipe are alike, whatever the sizes.
pub(crate) fn recipe(fused: &Fused) -> u32 {
    let text = fused.to_string();
    let without_sizes =
        text.split(':').enumerate().filter(|(part, _)| *part != 2).flat_map(|(_, part)| part.bytes());
    // Few enough bits to stay exact beside the other numbers.
    without_sizes.fold(0u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into())) & 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, point: &[u32]) -> [f64; FEATURES] {
        features(&text.parse().unwrap(), &Point::new(point))
    }

    fn distance(a: [f64; FEATURES], b: [f64; FEATURES]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    #[test]
    fn a_doubled_size_is_nearer_than_another_operation() {
        let here = of("elementwise.add:f32:1024,1024", &[]);
        let doubled = of("elementwise.add:f32:2048,2048", &[]);
        let other = of("elementwise.mul:f32:1024,1024", &[]);
        assert!(distance(here, doubled) < distance(here, other));
    }

    #[test]
    fn settings_tell_points_of_one_problem_apart() {
        let problem = "matmul:f32:512x512x512";
        assert!(distance(of(problem, &[64, 1]), of(problem, &[128, 1])) > 0.4);
        assert_eq!(of(problem, &[64, 1]), of(problem, &[64, 1]));
    }

    #[test]
    fn every_kind_of_problem_has_finite_features() {
        let most = [u32::MAX; 16];
        for text in ["matmul:f64:0x1x5", "reduce.sum:f32:64x1024:axis1", "transpose:f32:512x256"] {
            assert!(of(text, &most).iter().all(|value| value.is_finite()), "{text}");
        }
    }
}
