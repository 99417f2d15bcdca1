//! A tensor as text: rows under each other, the middle of long axes left out.

use super::Tensor;
use std::fmt::{self, Write};
use trimtab_operands::Element;

/// Tensors of at most so many elements are shown whole.
const WHOLE: usize = 1000;
/// Of longer axes so many are shown at each end.
const ENDS: usize = 3;
/// What stands for those between.
const BETWEEN: &str = "…";

/// As nested lists, one row to a line. Of more than 1000 elements the first and last three along each axis are shown. A precision
/// holds for every element.
///
/// ```
/// use trimtab::Tensor;
/// let a = Tensor::from_vec(vec![1.0f32, 20.0, 0.125, 4.0], &[2, 2])?;
/// assert_eq!(a.to_string(), "[[    1,    20],\n [0.125,     4]]");
/// assert_eq!(format!("{:.1}", a.slice(0, 0..1)?), "[[ 1.0, 20.0]]");
/// let long = Tensor::from_fn(&[2000], |i| i as i32)?;
/// assert_eq!(long.to_string(), "[   0,    1,    2, …, 1997, 1998, 1999]");
/// # Ok::<(), trimtab::Error>(())
/// ```
impl<T: Element> fmt::Display for Tensor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Err(error) = self.fetched() {
            return write!(f, "a tensor {:?} that cannot be read: {error}", self.shape());
        }
        let mut shown = Shown { tensor: self, precision: f.precision(), width: 0, index: Vec::new() };
        // Twice: the first time for the width of a column.
        shown.axis(&mut String::new())?;
        let mut text = String::new();
        shown.axis(&mut text)?;
        f.write_str(&text)
    }
}

struct Shown<'a, T> {
    tensor: &'a Tensor<T>,
    precision: Option<usize>,
    /// The longest element seen.
    width: usize,
    /// Where in the tensor this is.
    index: Vec<usize>,
}

impl<T: Element> Shown<'_, T> {
    /// Everything along the next axis.
    fn axis(&mut self, text: &mut String) -> fmt::Result {
        let Some(&size) = self.tensor.shape().get(self.index.len()) else { return self.element(text) };
        let is_row = self.index.len() + 1 == self.tensor.shape().len();
        let left_out = self.tensor.len() > WHOLE && size > 2 * ENDS;
        text.push('[');
        for at in 0..size {
            if left_out && (ENDS + 1..size - ENDS).contains(&at) {
                continue;
            }
            if at > 0 {
                text.push_str(if is_row { ", " } else { ",\n" });
            }
            if at > 0 && !is_row {
                text.extend(std::iter::repeat_n(' ', self.index.len() + 1));
            }
            if left_out && at == ENDS {
                text.push_str(BETWEEN);
                continue;
            }
            self.index.push(at);
            self.axis(text)?;
            self.index.pop();
        }
        text.push(']');
        Ok(())
    }

    fn element(&mut self, text: &mut String) -> fmt::Result {
        // Read before: `fetched` said so.
        let Some(element) = self.tensor.get(&self.index) else { return Ok(()) };
        let before = text.len();
        match self.precision {
            Some(precision) => write!(text, "{element:.precision$}")?,
            None => write!(text, "{element}")?,
        }
        let width = text[before..].chars().count();
        text.insert_str(before, &" ".repeat(self.width.saturating_sub(width)));
        self.width = self.width.max(width);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::Tensor;

    #[test]
    fn every_shape_has_a_text() {
        let text = |shape: &[usize]| Tensor::from_fn(shape, |i| i as i64).map(|tensor| tensor.to_string());
        assert_eq!(text(&[]), Ok("0".to_string()));
        assert_eq!(text(&[0]), Ok("[]".to_string()));
        assert_eq!(text(&[2, 0]), Ok("[[],\n []]".to_string()));
        assert_eq!(text(&[2, 1, 2]), Ok("[[[0, 1]],\n [[2, 3]]]".to_string()));
        let large = text(&[100, 100]).unwrap_or_default();
        assert_eq!(large.lines().count(), 7);
        assert_eq!(large.lines().nth(3), Some(" …,"));
        assert!(large.ends_with("[9900, 9901, 9902, …, 9997, 9998, 9999]]"), "{large}");
    }

    #[test]
    fn a_view_is_shown_as_it_is_seen() -> Result<(), crate::Error> {
        let turned = Tensor::from_vec(vec![1u8, 2, 3, 4], &[2, 2])?.transposed();
        assert_eq!(turned.to_string(), "[[1, 3],\n [2, 4]]");
        Ok(())
    }
}
