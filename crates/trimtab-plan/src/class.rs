//! Classes of operations whose calls cost alike by size: what thresholds are set for and what is calibrated.

use trimtab_core::{DType, ElementwiseOp, Problem, Step};

/// A product whose longest side is more than this many times its shortest costs by its bytes, not by its arithmetic.
const LONGEST_SIDE: u64 = 8;

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
    }
}

impl Class {
    /// What its sizes count.
    pub const fn unit(self) -> &'static str {
        match self {
            Class::Matmul => "flops",
            _ => "elements",
        }
    }

    /// A problem's class and size: elements of its largest operand, or arithmetic operations of a product. None for operations that no
    /// calibration measures, and those only the user knows.
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
            Problem::Fused(p) if p.product().is_some() => (Class::Matmul, p.flops()),
            Problem::Fused(p) if p.end().is_some() => (Class::Reduction, elements),
            Problem::Fused(p) if p.steps().any(|step| matches!(step, Step::Binary(_))) => {
                (Class::Elementwise, elements)
            }
            Problem::Fused(_) => (Class::Unary, elements),
            Problem::Conv(_)
            | Problem::Pool(_)
            | Problem::Rows(_)
            | Problem::Scan(_)
            | Problem::Sort(_)
            | Problem::Custom(_) => return None,
        })
    }

    /// The class and size of a problem that a calibration speaks of: 32-bit floats, products about as wide as deep, nothing fused.
    pub fn calibrated(problem: &Problem) -> Option<(Class, u64)> {
        let alike = match problem {
            Problem::Matmul(p) => {
                let (least, most) = (p.m.min(p.n).min(p.k), p.m.max(p.n).max(p.k));
                p.batch == 1 && most <= least.saturating_mul(LONGEST_SIDE)
            }
            Problem::Fused(_) => false,
            _ => true,
        };
        Class::of(problem).filter(|(_, size)| alike && *size > 0 && problem.dtype() == Some(DType::F32))
    }

    /// The problems a calibration measures, smallest first: sizes grow fourfold, products eightfold.
    pub fn ladder(self, quick: bool) -> Vec<Problem> {
        let powers = match (self, quick) {
            (Class::Matmul, true) => 4..=9,
            (Class::Matmul, false) => 4..=11,
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
    fn a_calibration_does_not_speak_of_what_it_did_not_try() {
        for text in ["matmul:f32:1x512x512", "matmul:f64:64x64x64", "elementwise.add:i32:1000"] {
            assert_eq!(Class::calibrated(&text.parse().unwrap()), None, "{text}");
        }
        let wide: Problem = "matmul:f32:1x512x512".parse().unwrap();
        assert_eq!(Class::of(&wide), Some((Class::Matmul, 2 * 512 * 512)));
    }
}
