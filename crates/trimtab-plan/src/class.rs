//! Classes of operations whose calls cost alike by size: what thresholds are set for and what is calibrated.

use trimtab_core::{ArgOp, DType, ElementwiseOp, Problem, Step};

/// A product whose longest side is more than this many times its shortest costs by its bytes, not by its arithmetic.
const LONGEST_SIDE: u64 = 8;
/// Rows more than so many times as long as there are many, or the other way round, are computed in other ways than those in between.
const LONGEST_ROW: u64 = 64;
/// A convolution of fewer arithmetic operations for each element of its operands and result costs by its bytes.
const LEAST_FLOPS: u64 = 16;
/// Pooling looks at elements of the operand this often at most; more often, it costs by its arithmetic.
const MOST_LOOKS: u64 = 8;

trimtab_core::named! {
    /// A class of operations.
    pub enum Class {
        /// One operand, element by element.
        Unary = "unary",
        /// Two operands or a chain, element by element.
        Elementwise = "elementwise",
        /// Many elements to one.
        Reduction = "reduction",
        /// Reordering of axes.
        Transpose = "transpose",
        /// Matrix products.
        Matmul = "matmul",
        /// Convolutions.
        Conv = "conv",
        /// Pooling.
        Pool = "pool",
        /// What needs all elements along an axis: softmax, norms, variance.
        Rows = "rows",
        /// Every element with those before it.
        Scan = "scan",
        /// Sorting.
        Sort = "sort",
        /// Elements by index, taken or added.
        Index = "index",
        /// Fourier transforms.
        Fft = "fft",
    }
}

impl Class {
    /// What its sizes count.
    pub const fn unit(self) -> &'static str {
        match self {
            Class::Matmul | Class::Conv => "flops",
            _ => "elements",
        }
    }

    /// A problem's class and size: elements of its largest operand, or arithmetic operations of a product or convolution. None for
    /// operations only the user knows.
    pub fn of(problem: &Problem) -> Option<(Class, u64)> {
        let lens = problem.input_lens();
        let elements = lens.as_slice().iter().copied().fold(problem.out_len(), u64::max);
        Some(match problem {
            Problem::Elementwise(p) => match p.op {
                ElementwiseOp::Unary(_) => (Class::Unary, elements),
                ElementwiseOp::Binary(_) => (Class::Elementwise, elements),
            },
            Problem::Reduce(_) => (Class::Reduction, elements),
            Problem::Transpose(_) => (Class::Transpose, elements),
            Problem::Matmul(p) => (Class::Matmul, p.flops()),
            Problem::Attention(p) => (Class::Matmul, p.flops()),
            Problem::Fused(p) if p.product().is_some() => (Class::Matmul, p.flops()),
            Problem::Fused(p) if p.end().is_some() => (Class::Reduction, elements),
            Problem::Fused(p) if p.steps().any(|step| matches!(step, Step::Binary(_))) => {
                (Class::Elementwise, elements)
            }
            Problem::Fused(_) => (Class::Unary, elements),
            Problem::Conv(p) => (Class::Conv, p.flops()),
            Problem::Pool(_) => (Class::Pool, elements),
            Problem::Rows(_) => (Class::Rows, elements),
            Problem::Scan(_) => (Class::Scan, elements),
            Problem::Sort(_) => (Class::Sort, elements),
            Problem::Gather(p) => (Class::Index, p.along_count()),
            Problem::Scatter(p) => (Class::Index, p.along_count()),
            Problem::Mask(_) | Problem::Concat(_) | Problem::Put(_) => (Class::Elementwise, elements),
            Problem::Fft(_) => (Class::Fft, elements),
            Problem::Arg(p) => match p.op {
                ArgOp::Min | ArgOp::Max => (Class::Reduction, elements),
                ArgOp::Sort | ArgOp::Top => (Class::Sort, elements),
            },
            Problem::Cast(_) => (Class::Unary, elements),
            Problem::Custom(_) => return None,
        })
    }

    /// The class and size of a problem that a calibration speaks of: 32-bit floats, products about as wide as deep, convolutions that
    /// cost by their arithmetic, rows about as long as many, nothing fused.
    pub fn calibrated(problem: &Problem) -> Option<(Class, u64)> {
        let are_alike = |len: u64, outer: u64, inner: u64| {
            let count = outer.saturating_mul(inner);
            len.max(count) <= len.min(count).saturating_mul(LONGEST_ROW)
        };
        let alike = match problem {
            Problem::Matmul(p) => {
                let (least, most) = (p.m.min(p.n).min(p.k), p.m.max(p.n).max(p.k));
                p.batch == 1 && most <= least.saturating_mul(LONGEST_SIDE)
            }
            Problem::Conv(p) => {
                let elements = problem.input_lens().as_slice().iter().fold(p.out_len(), |all, len| all + len);
                p.groups() == 1 && p.flops() >= elements.saturating_mul(LEAST_FLOPS)
            }
            Problem::Pool(p) => p.flops() <= p.operand_len().saturating_mul(MOST_LOOKS),
            Problem::Rows(p) => are_alike(p.len, p.outer, p.inner),
            Problem::Scan(p) => are_alike(p.len, p.outer, p.inner),
            Problem::Sort(p) => are_alike(p.len, p.outer, p.inner),
            // Tables of a few rows, or of far more than are asked for, cost by other caches.
            Problem::Gather(p) => !p.each && are_alike(p.count, p.len, 1),
            Problem::Scatter(_) | Problem::Mask(_) | Problem::Concat(_) | Problem::Put(_) => false,
            // Powers of two; other lengths take up to ten times as long.
            Problem::Fft(p) => p.points().is_power_of_two() && are_alike(p.points(), p.batch, 1),
            Problem::Fused(_) | Problem::Attention(_) | Problem::Arg(_) | Problem::Cast(_) => false,
            _ => true,
        };
        let single = matches!(problem.dtype(), Some(DType::F32 | DType::Complex64));
        Class::of(problem).filter(|(class, size)| {
            alike
                && *size > 0
                && single
                && (*class == Class::Fft) == (problem.dtype() == Some(DType::Complex64))
        })
    }

    /// The problems a calibration measures, smallest first: sizes grow fourfold, products eightfold.
    pub fn ladder(self, quick: bool) -> Vec<Problem> {
        let powers = match (self, quick) {
            (Class::Matmul, true) => 4..=9,
            (Class::Matmul, false) => 4..=11,
            (Class::Conv, true) => 2..=7,
            (Class::Conv, false) => 2..=9,
            (_, true) => 5..=10,
            (_, false) => 5..=12,
        };
        let text = |power: u32| {
            let side = 1u64 << power;
            let all = side * side;
            match self {
                Class::Unary => format!("elementwise.exp:f32:{all}"),
                Class::Elementwise => format!("elementwise.add:f32:{all}"),
                Class::Reduction => format!("reduce.sum:f32:{all}"),
                Class::Transpose => format!("transpose:f32:{side}x{side}"),
                Class::Matmul => format!("matmul:f32:{side}x{side}x{side}"),
                Class::Conv => format!("conv:f32:1x32x{side}x{side},32x32x3x3:pad1"),
                // In sixteen channels.
                Class::Pool => format!("pool.max:f32:1x16x{0}x{0}:window3x3,stride2,pad1", side / 4),
                Class::Rows => format!("rows.softmax:f32:{side}x{side}:axis1"),
                Class::Scan => format!("scan.sum:f32:{side}x{side}:axis1"),
                Class::Sort => format!("sort:f32:{side}x{side}:axis1"),
                // Rows of a table.
                Class::Index => format!("gather:f32:{side}x{side}:axis0,count{side},i32"),
                Class::Fft => format!("fft.forward:complex64:{side}x{side}"),
            }
        };
        powers.filter_map(|power| Problem::parse(&text(power)).ok()).collect()
    }

    /// How many times larger the next size of the ladder is.
    pub const fn step(self) -> f64 {
        match self {
            Class::Matmul => 8.0,
            _ => 4.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ladders_are_of_their_class_and_grow_by_its_step() {
        for class in Class::ALL {
            assert_eq!(Class::parse(class.name()), Some(class));
            let sizes: Vec<u64> =
                class.ladder(false).iter().map(|problem| Class::calibrated(problem).unwrap().1).collect();
            assert_eq!(Class::calibrated(&class.ladder(true)[0]).unwrap().0, class);
            assert!(sizes.windows(2).all(|two| two[1] as f64 == two[0] as f64 * class.step()), "{sizes:?}");
            assert!(class.ladder(true).len() < sizes.len() && sizes.len() >= 8);
        }
    }

    #[test]
    fn every_operation_of_ours_has_a_class() {
        for (text, class) in [
            ("arg.max:f32:64x1024", Class::Reduction),
            ("arg.min:f32:1024", Class::Reduction),
            ("arg.sort:f32:1024", Class::Sort),
            ("arg.top:f32:64x1024:count10", Class::Sort),
            ("cast:f32:1024:f16", Class::Unary),
            ("attention:f32:4x100x300x32", Class::Matmul),
            ("concat:f32:512x300,512x200", Class::Elementwise),
        ] {
            assert_eq!(Class::of(&text.parse().unwrap()).unwrap().0, class, "{text}");
        }
    }

    #[test]
    fn a_calibration_does_not_speak_of_what_it_did_not_try() {
        for text in [
            "matmul:f32:1x512x512",
            "matmul:f64:64x64x64",
            "elementwise.add:i32:1000",
            "conv:f32:1x32x64x64,32x1x3x3:pad1,groups32",
            "conv:f32:1x3x64x64,4x3x1x1",
            "pool.mean:f32:1x8x64x64:window7x7",
            "rows.softmax:f32:1x65536",
            "sort:f32:1000000",
            "fft.forward:complex64:1000x1000",
            "fft.real:f32:1024x1024",
            "arg.sort:f32:1024x1024",
            "cast:f32:1024:f16",
        ] {
            assert_eq!(Class::calibrated(&text.parse().unwrap()), None, "{text}");
        }
        let wide: Problem = "matmul:f32:1x512x512".parse().unwrap();
        assert_eq!(Class::of(&wide), Some((Class::Matmul, 2 * 512 * 512)));
    }
}
