//! Matrix products of vectors, matrices and batches.

use super::Float;
use crate::error::Error;
use crate::runtime::Runtime;
use crate::tensor::Tensor;
use trimtab_core::{Matmul, Operand};
use trimtab_operands::Slice;

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
        match plain(a, b)? {
            Some((problem, inputs)) => {
                let shape = [problem.m as usize, problem.n as usize];
                self.compute(&problem, &inputs, T::DTYPE, &shape).map(Tensor::wrap)
            }
            None => self.lazy(a).matmul(b).eval(),
        }
    }

    /// The matrix product of bytes, added up in i32: as [`Runtime::matmul`], with another type of result.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let a = Tensor::full(&[2, 300], -128i8)?;
    /// assert_eq!(rt.matmul_bytes(&a, &a.transposed())?.to_vec(), [128 * 128 * 300; 4]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn matmul_bytes(&self, a: &Tensor<i8>, b: &Tensor<i8>) -> Result<Tensor<i32>, Error> {
        let b = crate::tensor::AnyTensor::from(b.clone());
        self.lazy_any(&a.any).matmul(&b).eval()?.typed()
    }

    /// The matrix product written into a tensor that exists; allocates nothing when the operands are dense matrices.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let a = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// let mut out = Tensor::zeros(&[2, 2])?;
    /// rt.matmul_into(&a, &a, &mut out)?;
    /// assert_eq!(out.to_vec(), [7.0, 10.0, 15.0, 22.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn matmul_into<T: Float>(
        &self,
        a: &Tensor<T>,
        b: &Tensor<T>,
        out: &mut Tensor<T>,
    ) -> Result<(), Error> {
        let plain = plain(a, b)?;
        if let (Some((problem, inputs)), [rows, columns]) = (&plain, out.shape())
            && (problem.m, problem.n) == (*rows as u64, *columns as u64)
        {
            return self.execute_inputs(problem, inputs, out.as_mut_slice());
        }
        let product = self.matmul(a, b)?;
        if out.shape() != product.shape() {
            return Err(Error::Output { needed: product.shape().to_vec(), found: out.shape().to_vec() });
        }
        // What nobody else has is taken over as it is.
        *out = product;
        Ok(())
    }
}

/// The product of two matrices whose elements lie in the processor's memory alone, by rows or by columns, and fit.
#[inline]
fn plain<'a, T: Float>(
    a: &'a Tensor<T>,
    b: &'a Tensor<T>,
) -> Result<Option<(Matmul, [Slice<'a>; 2])>, Error> {
    let ([m, k], [rows, n]) = (a.shape(), b.shape()) else { return Ok(None) };
    let (Some((lhs, left)), Some((rhs, right))) = (a.any.matrix_on_host(), b.any.matrix_on_host()) else {
        return Ok(None);
    };
    // What is wrong with shapes is said by the expression.
    if k != rows {
        return Ok(None);
    }
    let operand = |transposed| Operand { transposed, shared: false };
    let (m, n, k) = (*m as u64, *n as u64, *k as u64);
    let problem = Matmul::batched(T::DTYPE, 1, m, n, k, operand(left), operand(right))?;
    Ok(Some((problem, [lhs, rhs])))
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
