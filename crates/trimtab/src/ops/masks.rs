//! Comparisons, choices by them, and limits.

use super::calls::{self, Given};
use super::elementwise::Operand;
use crate::error::Error;
use crate::runtime::Runtime;
use crate::tensor::Tensor;
use trimtab_core::MaskOp;
use trimtab_operands::Element;

macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => {
        impl Runtime {
            $($(#[$doc])*
            pub fn $name<T: Element>(&self, a: impl Operand<T>, b: impl Operand<T>) -> Result<Tensor<bool>, Error> {
                self.mask(MaskOp::$op, a, b)
            })*
        }
    };
}

comparisons! {
    /// Whether `a = b`, element by element. What is not a number is equal to nothing; zeros are equal.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![-1.0f32, 0.0, 2.0]);
    /// assert_eq!(rt.eq(&x, 0.0)?.to_vec(), [false, true, false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    eq = Eq;
    /// Whether `a ≠ b`.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![-1.0f32, 0.0, 2.0]);
    /// assert_eq!(rt.ne(&x, 0.0)?.to_vec(), [true, false, true]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ne = Ne;
    /// Whether `a < b`.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![-1.0f32, f32::NAN, 2.0]);
    /// let negative = rt.lt(&x, 0.0)?;
    /// assert_eq!(negative.to_vec(), [true, false, false]);
    /// assert_eq!(rt.select(&negative, 0.0, 1.0)?.to_vec(), [0.0, 1.0, 1.0]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    lt = Lt;
    /// Whether `a ≤ b`.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![-1.0f32, 0.0, 2.0]);
    /// assert_eq!(rt.le(&x, 0.0)?.to_vec(), [true, true, false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    le = Le;
    /// Whether `a > b`.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![-1.0f32, 0.0, 2.0]);
    /// assert_eq!(rt.gt(&x, 0.0)?.to_vec(), [false, false, true]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    gt = Gt;
    /// Whether `a ≥ b`.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![-1.0f32, 0.0, 2.0]);
    /// assert_eq!(rt.ge(&x, 0.0)?.to_vec(), [false, true, true]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ge = Ge;
}

impl Runtime {
    /// Any comparison by name; shapes are aligned at the last axis, sizes equal or one.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::advanced::core::MaskOp;
    /// let x = Tensor::from(vec![1.0f32, 3.0]);
    /// assert_eq!(rt.mask(MaskOp::Gt, &x, 2.0)?.to_vec(), [false, true]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn mask<T: Element>(
        &self,
        op: MaskOp,
        a: impl Operand<T>,
        b: impl Operand<T>,
    ) -> Result<Tensor<bool>, Error> {
        let (a, b) = (a.tensor(), b.tensor());
        let call = calls::compare(op, a.spec(), b.spec())?;
        self.call(&call, &[Given::Tensor(&a.any), Given::Tensor(&b.any)])?.typed()
    }

    /// The element of `yes` where the mask is true, of `no` elsewhere: NumPy's `where`. Shapes are aligned at the last axis, sizes equal or one.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![-1.0f32, 3.0]);
    /// assert_eq!(rt.select(&rt.gt(&x, 0.0)?, &x, 7.0)?.to_vec(), [7.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn select<T: Element>(
        &self,
        mask: &Tensor<bool>,
        yes: impl Operand<T>,
        no: impl Operand<T>,
    ) -> Result<Tensor<T>, Error> {
        let (yes, no) = (yes.tensor(), no.tensor());
        let call = calls::select(mask.spec(), yes.spec(), no.spec())?;
        self.call(&call, &[&mask.any, &yes.any, &no.any].map(Given::Tensor))?.typed()
    }

    /// `min(max(x, low), high)`; a NaN stays. Where `low` is above `high`, `high` wins.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// assert_eq!(rt.clip(&Tensor::from(vec![-3, 0, 9]), -1, 5)?.to_vec(), [-1, 0, 5]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn clip<T: Element>(
        &self,
        x: &Tensor<T>,
        low: impl Operand<T>,
        high: impl Operand<T>,
    ) -> Result<Tensor<T>, Error> {
        // One pass where that is faster.
        self.lazy(x).maximum(&low.tensor()).minimum(&high.tensor()).eval()
    }
}
