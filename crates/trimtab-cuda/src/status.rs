//! What kernels tell of operands there is no answer for, in a word each launch has.

use trimtab_core::{BinaryOp, ElementwiseOp, LaunchError, Problem};

/// A division by zero, or zero to a negative power.
pub(crate) const DIVISION: u32 = 1;
/// The exact result does not fit the type.
pub(crate) const OVERFLOW: u32 = 2;
/// An index is not there: as many below the largest number as its number among the indices, so that the first of them is the largest word.
pub(crate) const INDEX: u32 = 1 << 31;

/// What a word means, in the words of the processor.
pub(crate) fn error(word: u32, problem: &Problem) -> Result<(), LaunchError> {
    match word {
        0 => Ok(()),
        DIVISION => {
            let power =
                matches!(problem, Problem::Elementwise(p) if p.op == ElementwiseOp::Binary(BinaryOp::Pow));
            let what = if power { "zero to a negative power" } else { "division by zero" };
            Err(LaunchError::Data(format!("{what}; remove the zeros, or give operands of f64 elements")))
        }
        OVERFLOW => Err(LaunchError::Overflow { dtype: "i32" }),
        INDEX.. => {
            let len = match problem {
                Problem::Gather(p) => p.len,
                Problem::Scatter(p) => p.len,
                _ => 0,
            };
            let number = u32::MAX - word;
            Err(LaunchError::Data(format!(
                "number {number} of the indices is not in an axis of {len} elements; indices go from -{len} to {}",
                len as i64 - 1
            )))
        }
        other => Err(LaunchError::Kernel(format!("a kernel left the status {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_told_as_the_processor_tells_it() {
        let of = |word: u32, text: &str| error(word, &text.parse().unwrap());
        assert_eq!(of(0, "gather:f32:8:count4"), Ok(()));
        let told = of(u32::MAX - 3, "gather:f32:8:count4").unwrap_err();
        assert!(told.is_callers() && told.to_string().starts_with("number 3 of the indices"), "{told}");
        assert_eq!(of(OVERFLOW, "reduce.sum:i32:8"), Err(LaunchError::Overflow { dtype: "i32" }));
        assert!(
            of(DIVISION, "elementwise.div:i32:8").unwrap_err().to_string().starts_with("division by zero")
        );
        assert!(!of(77, "elementwise.div:i32:8").unwrap_err().is_callers());
    }
}
