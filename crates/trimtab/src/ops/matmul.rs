//! Matrix products of vectors, matrices and batches.

use super::{Float, broadcast};
use crate::error::Error;
use crate::runtime::Runtime;
use crate::tensor::{Tensor, allocate_result};
use trimtab_core::{Matmul, Operand};

/// One operand as the problem sees it: a batch of dense matrices, possibly stored transposed.
struct Side<T> {
    tensor: Tensor<T>,
    operand: Operand,
    rows: usize,
    columns: usize,
    batch: Vec<usize>,
}

/// The problem, the shape of the result, and both operands.
type Product<T> = (Matmul, Vec<usize>, Side<T>, Side<T>);

impl Runtime {
    /// The matrix product over the last two axes; leading axes are batches and may be repeated. A vector on the left is
    /// a row, on the right a column, and the axis it adds is not in the result.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let a = Tensor::from_fn(&[3, 2], |i| i as f64)?;
    /// let gram = rt.matmul(&a.transposed(), &a)?; // a view, not a copy
    /// assert_eq!(gram.to_vec(), [20.0, 26.0, 26.0, 35.0]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn matmul<T: Float>(&self, a: &Tensor<T>, b: &Tensor<T>) -> Result<Tensor<T>, Error> {
        let (problem, shape, lhs, rhs) = self.product(a, b)?;
        let mut out = allocate_result(problem.out_len() as usize)?;
        self.multiply(problem, &lhs, &rhs, &mut out)?;
        Tensor::from_vec(out, &shape)
    }

    /// The matrix product written into a tensor that exists; allocates nothing when the operands are dense.
    pub fn matmul_into<T: Float>(
        &self,
        a: &Tensor<T>,
        b: &Tensor<T>,
        out: &mut Tensor<T>,
    ) -> Result<(), Error> {
        // The common case without a list of sizes on the heap: two dense matrices.
        if let ([m, k], [k2, n], [rows, columns]) = (a.shape(), b.shape(), out.shape())
            && (k, m, n) == (k2, rows, columns)
            && let (Some(lhs), Some(rhs)) = (a.as_slice(), b.as_slice())
        {
            let problem = Matmul::new(T::DTYPE, *m as u64, *n as u64, *k as u64)?;
            return self.execute(&problem, lhs, rhs, out.as_mut_slice());
        }
        let (problem, shape, lhs, rhs) = self.product(a, b)?;
        if out.shape() != shape {
            return Err(Error::Output { needed: shape, found: out.shape().to_vec() });
        }
        self.multiply(problem, &lhs, &rhs, out.as_mut_slice())
    }

    fn multiply<T: Float>(
        &self,
        problem: Matmul,
        lhs: &Side<T>,
        rhs: &Side<T>,
        out: &mut [T],
    ) -> Result<(), Error> {
        // A batch of no products may have operands: one matrix for all of them.
        if out.is_empty() {
            return Ok(());
        }
        let stored = |side: &Side<T>| {
            let tensor = if side.operand.transposed { swapped(&side.tensor) } else { side.tensor.clone() };
            self.dense(&tensor).map(|data| data.into_owned())
        };
        // Dense operands, the usual case, are borrowed; what is copied was a view nobody could use in place.
        let (left, right);
        let lhs = match plain(lhs) {
            Some(slice) => slice,
            None => {
                left = stored(lhs)?;
                &left
            }
        };
        let rhs = match plain(rhs) {
            Some(slice) => slice,
            None => {
                right = stored(rhs)?;
                &right
            }
        };
        self.execute(&problem, lhs, rhs, out)
    }

    fn product<T: Float>(&self, a: &Tensor<T>, b: &Tensor<T>) -> Result<Product<T>, Error> {
        let wrong = |reason: String| Error::Shapes {
            operation: "matmul",
            lhs: a.shape().to_vec(),
            rhs: b.shape().to_vec(),
            reason,
        };
        if a.shape().is_empty() || b.shape().is_empty() {
            return Err(wrong("a number has no rows; use mul".to_string()));
        }
        let row = if a.shape().len() == 1 { a.reshaped(&[1, a.len()])? } else { a.clone() };
        let column = if b.shape().len() == 1 { b.reshaped(&[b.len(), 1])? } else { b.clone() };
        let (mut lhs, mut rhs) = (side(row), side(column));
        if lhs.columns != rhs.rows {
            return Err(wrong(format!(
                "the left has {} columns, the right has {} rows",
                lhs.columns, rhs.rows
            )));
        }
        let batch = broadcast(&lhs.batch, &rhs.batch)
            .ok_or_else(|| wrong("leading axes must be equal or one, aligned at the last".to_string()))?;
        self.repeat(&mut lhs, &batch)?;
        self.repeat(&mut rhs, &batch)?;
        let mut shape = batch.clone();
        if a.shape().len() > 1 {
            shape.push(lhs.rows);
        }
        if b.shape().len() > 1 {
            shape.push(rhs.columns);
        }
        crate::tensor::element_count::<T>(&batch)?;
        let count: usize = batch.iter().product();
        let (m, n, k) = (lhs.rows as u64, rhs.columns as u64, lhs.columns as u64);
        // One matrix on the right for a batch of plain rows is one taller product.
        let problem = if count > 1 && rhs.operand.shared && !lhs.operand.shared && !lhs.operand.transposed {
            let right = Operand { shared: false, ..rhs.operand };
            Matmul::batched(T::DTYPE, 1, m.saturating_mul(count as u64), n, k, lhs.operand, right)?
        } else {
            Matmul::batched(T::DTYPE, count as u64, m, n, k, lhs.operand, rhs.operand)?
        };
        Ok((problem, shape, lhs, rhs))
    }

    /// Makes an operand fit the batch: as it is, shared by all, or repeated in memory.
    fn repeat<T: Float>(&self, side: &mut Side<T>, batch: &[usize]) -> Result<(), Error> {
        if side.batch == batch {
            return Ok(());
        }
        if side.batch.iter().product::<usize>() == 1 {
            side.operand.shared = true;
            return Ok(());
        }
        let mut shape = batch.to_vec();
        shape.extend([side.rows, side.columns]);
        side.tensor = self.contiguous(&side.tensor.broadcast_to(&shape)?)?;
        side.operand.transposed = false;
        Ok(())
    }
}

fn side<T: Float>(tensor: Tensor<T>) -> Side<T> {
    let rank = tensor.shape().len();
    let (rows, columns) = (tensor.shape()[rank - 2], tensor.shape()[rank - 1]);
    let batch = tensor.shape()[..rank - 2].to_vec();
    let transposed = !tensor.is_contiguous() && swapped(&tensor).is_contiguous();
    Side { tensor, operand: Operand { transposed, shared: false }, rows, columns, batch }
}

/// The operand's elements as stored, if they lie dense in memory.
fn plain<T: Float>(side: &Side<T>) -> Option<&[T]> {
    if side.operand.transposed {
        side.tensor.as_permutation().map(|(_, _, data)| data)
    } else {
        side.tensor.as_slice()
    }
}

fn swapped<T: Float>(tensor: &Tensor<T>) -> Tensor<T> {
    let rank = tensor.shape().len();
    let mut axes: Vec<usize> = (0..rank).collect();
    axes.swap(rank - 2, rank - 1);
    // A swap of two axes is a permutation, so this never falls back.
    tensor.permuted(&axes).unwrap_or_else(|_| tensor.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_of_no_products_is_empty_whichever_side_is_shared() -> Result<(), Error> {
        let rt = Runtime::builder().ignore_environment().wisdom_in_memory().no_blas().build()?;
        let (matrix, none) = (Tensor::full(&[3, 3], 1.0f32)?, Tensor::<f32>::zeros(&[0, 3, 3])?);
        for (lhs, rhs) in [(&matrix, &none), (&none, &matrix), (&none, &none)] {
            assert_eq!(rt.matmul(lhs, rhs)?.shape(), [0, 3, 3]);
        }
        Ok(())
    }
}
