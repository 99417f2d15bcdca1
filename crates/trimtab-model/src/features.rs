//! A problem and a point as numbers between which distances make sense: sizes and settings in doublings.

use trimtab_core::{ElementwiseOp, Fused, MAX_SPACE, Point, Problem};

/// Numbers a problem and a point are described by.
pub const FEATURES: usize = 9;

/// Sizes a problem is described by; of a problem with more, the first ones.
pub(crate) const SIZES: usize = 4;
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
    let Described { sizes, kind, .. } = Described::of(problem);
    for (slot, (_, size)) in features.iter_mut().zip(sizes) {
        *slot = (1.0 + size as f64).log2();
    }
    features[KIND] = FAR * f64::from(kind);
    for (slot, value) in features[SETTINGS..].iter_mut().zip(point.values()) {
        *slot = SETTING_WEIGHT * (1.0 + f64::from(*value)).log2();
    }
    features
}

/// What tells problems of one operation apart.
pub(crate) struct Described {
    /// Names of sizes and the sizes; one where there are fewer.
    pub(crate) sizes: [(&'static str, u64); SIZES],
    /// Elements moved, and the bytes of one.
    pub(crate) moved: f64,
    pub(crate) element_bytes: u64,
    /// The function, the layout or the recipe.
    pub(crate) kind: u32,
}

impl Described {
    pub(crate) fn of(problem: &Problem) -> Described {
        let product = |sizes: &[u64]| sizes.iter().map(|size| *size as f64).product::<f64>();
        let (sizes, moved, kind) = match problem {
            Problem::Matmul(p) => {
                let moved = product(&[p.m, p.n]) + product(&[p.m, p.k]) + product(&[p.n, p.k]);
                let layout = u32::from(p.lhs.transposed) + 2 * u32::from(p.rhs.transposed);
                let sizes = [("m", p.m), ("n", p.n), ("k", p.k), ("batch", p.batch)];
                (sizes, p.batch as f64 * moved, layout)
            }
            Problem::Elementwise(p) => {
                let sizes = [("left", p.lhs_len()), ("right", p.rhs_len()), ("out", p.out_len()), ("", 1)];
                let moved = p.lhs_len() as f64 + p.rhs_len() as f64 + p.out_len() as f64;
                let op = ElementwiseOp::names().position(|name| name == p.op.name()).unwrap_or(0);
                (sizes, moved, op as u32)
            }
            Problem::Reduce(p) => {
                let sizes = [("outer", p.outer), ("length", p.len), ("inner", p.inner), ("", 1)];
                (sizes, product(&[p.outer, p.len, p.inner]), p.op as u32)
            }
            Problem::Transpose(p) => {
                // The last two axes of the result decide which side is walked with a stride.
                let tail = p.permutation().iter().rev().take(2);
                let tail = tail.fold(0, |code, axis| code * 8 + u32::from(*axis));
                (numbered(p.dims()), 2.0 * product(p.dims()), tail)
            }
            Problem::Conv(p) => {
                let space = p.window.out().map(|size| size as u64);
                let places = p.batch() as u64 * space.iter().product::<u64>();
                let sizes = [
                    ("places", places),
                    ("outputs", p.outputs() as u64),
                    ("depth", p.depth()),
                    ("groups", p.groups() as u64),
                ];
                let moved = p.operand_len() as f64 + p.weights_len() as f64 + p.out_len() as f64;
                // Layout and the sort of window: one element, small at every place, others.
                let [_, rows, columns] = p.window.kernel();
                let window = match (rows * columns, p.window.stride() == [1; MAX_SPACE]) {
                    (1, true) => 0,
                    (9, true) => 1,
                    (_, true) => 2,
                    (_, false) => 3,
                };
                (sizes, moved, 4 * (p.channels as u32) + window)
            }
            Problem::Pool(p) => {
                let window = p.window.kernel().iter().product::<usize>() as u64;
                let sizes = [
                    ("in", p.operand_len()),
                    ("out", p.out_len()),
                    ("window", window),
                    ("channels", p.count() as u64),
                ];
                (sizes, p.operand_len() as f64 + p.out_len() as f64, 2 * (p.channels as u32) + p.op as u32)
            }
            Problem::Rows(p) => {
                let sizes = [("outer", p.outer), ("length", p.len), ("inner", p.inner), ("", 1)];
                (sizes, (p.input_len() + p.out_len()) as f64, p.op as u32)
            }
            Problem::Attention(p) => {
                let sizes =
                    [("queries", p.queries), ("keys", p.keys), ("depth", p.depth), ("heads", p.batch)];
                let moved = p.input_lens().iter().map(|&len| len as f64).sum::<f64>() + p.out_len() as f64;
                (sizes, moved, u32::from(p.causal))
            }
            Problem::Scan(p) => {
                let sizes = [("outer", p.outer), ("length", p.len), ("inner", p.inner), ("", 1)];
                (sizes, 2.0 * p.len() as f64, 2 * (p.op as u32) + u32::from(p.exclusive))
            }
            Problem::Sort(p) => {
                let sizes = [("outer", p.outer), ("length", p.len), ("inner", p.inner), ("", 1)];
                (sizes, 2.0 * p.len() as f64, u32::from(p.descending))
            }
            Problem::Arg(p) => {
                let sizes = [("outer", p.outer), ("length", p.len), ("inner", p.inner), ("count", p.count)];
                (sizes, (p.input_len() + p.out_len()) as f64, 2 * (p.op as u32) + u32::from(p.descending))
            }
            Problem::Cast(p) => (numbered(&[p.len]), 2.0 * p.len as f64, p.to as u32),
            Problem::Fft(p) => {
                let last = p.last();
                let before = p.points() / last.max(1);
                let factor = largest_factor(last);
                let sizes = [("batch", p.batch), ("length", last), ("other axes", before), ("prime", factor)];
                (sizes, (p.input_len() + p.out_len()) as f64, 4 * (p.sizes().len() as u32) + p.op as u32)
            }
            Problem::Fused(p) => {
                let depth = p.product().map_or(1, |product| product.depth);
                let sizes = [("rows", p.outer()), ("columns", p.inner()), ("depth", depth), ("", 1)];
                let inputs: f64 = (0..p.inputs()).map(|input| p.input_len(input) as f64).sum();
                (sizes, inputs + p.out_len() as f64, recipe(p))
            }
            Problem::Gather(p) => {
                let sizes = [("outer", p.outer), ("length", p.len), ("inner", p.inner), ("count", p.count)];
                (sizes, 2.0 * p.along_count() as f64, 2 * (p.index as u32) + u32::from(p.each))
            }
            Problem::Scatter(p) => {
                let sizes = [("outer", p.outer), ("length", p.len), ("inner", p.inner), ("count", p.count)];
                let moved = 2.0 * p.input_len() as f64 + 3.0 * p.along_count() as f64;
                (sizes, moved, 2 * (p.index as u32) + u32::from(p.each))
            }
            Problem::Mask(p) => {
                let moved: f64 = (0..p.operands()).map(|place| p.operand_len(place) as f64).sum();
                // Which operands are repeated along the last axis.
                let last = p.dims().len() - 1;
                let kind =
                    (0..3).fold(p.op as u32, |kind, place| 2 * kind + u32::from(p.varies(place, last)));
                (numbered(p.dims()), moved + p.out_len() as f64, kind)
            }
            Problem::Concat(p) => {
                let [least, most] =
                    [u64::min, u64::max].map(|of| p.parts().iter().copied().reduce(of).unwrap_or(0));
                let sizes = [("rows", p.outer()), ("row", p.row()), ("least", least), ("most", most)];
                (sizes, 2.0 * p.out_len() as f64, p.parts().len() as u32)
            }
            Problem::Put(p) => {
                let row = p.size().last().copied().unwrap_or(0);
                let sizes = [("all", p.out_len()), ("block", p.block_len()), ("row", row.into()), ("", 1)];
                (sizes, 2.0 * p.out_len() as f64, 8 * u32::from(p.fill) + p.dims().len() as u32)
            }
            Problem::Custom(p) => (numbered(p.sizes()), product(p.sizes()), 0),
        };
        Described { sizes, moved, element_bytes: problem.dtype().map_or(1, |dtype| dtype.size()), kind }
    }
}

/// The largest prime factor of a length, or what is left beside those below 256: lengths of small factors are faster.
fn largest_factor(mut len: u64) -> u64 {
    let mut factor = 2;
    while factor < 256 && factor < len {
        if len.is_multiple_of(factor) { len /= factor } else { factor += 1 }
    }
    len
}

/// Sizes without names.
fn numbered(sizes: &[u64]) -> [(&'static str, u64); SIZES] {
    let mut named = [("first", 1), ("second", 1), ("third", 1), ("fourth", 1)];
    for (slot, size) in named.iter_mut().zip(sizes) {
        slot.1 = *size;
    }
    named
}

/// A number for a recipe: those of one recipe are alike, whatever the sizes.
fn recipe(fused: &Fused) -> u32 {
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
        for text in [
            "matmul:f64:0x1x5",
            "reduce.sum:f32:64x1024:axis1",
            "transpose:f32:512x256",
            "conv:f32:0x3x8x8,4x3x3x3",
            "pool.max:f32:2x3x8x8:window3x3",
            "rows.softmax:f32:64x1000",
            "scan.sum:f32:1000",
            "sort:f32:1000",
            "gather:f32:1000x64:axis0,count300",
            "scatter:f32:0:count0",
            "mask.where:f32:0x5,5,1",
            "concat:f32:0x3,0x4",
            "put:f32:0x5,0x5:at0x0",
            "fft.real:f32:0x7x1000:2d",
        ] {
            assert!(of(text, &most).iter().all(|value| value.is_finite()), "{text}");
        }
    }
}
