//! Methods of expressions for Fourier transforms.

use super::node::Node;
use super::{AnyExpression, Expression};
use crate::ops::calls;
use std::sync::Arc;
use trimtab_core::FftOp;
use trimtab_operands::{Complex, Element};

/// Transforms, by what they make of elements.
macro_rules! transforms {
    ($($from:ty => $to:ty { $($(#[$doc:meta])* $name:ident($($with:ident: $type:ty),*) = |$of:ident| $call:expr;)* })*) => {
        impl AnyExpression {
            $($($(#[$doc])*
            pub fn $name(&self, $($with: $type),*) -> AnyExpression {
                let $of = self.node.spec();
                self.with(Node::called($call, vec![Arc::clone(&self.node)]))
            })*)*
        }
        $(impl<T: Element> Expression<$from>
        where
            Complex<T>: Element,
        {
            $($(#[$doc])*
            pub fn $name(&self, $($with: $type),*) -> Expression<$to> {
                Expression::wrap(self.any().$name($($with),*))
            })*
        })*
    };
}

transforms! {
    Complex<T> => Complex<T> {
        /// The spectrum of the last axis, as [`Runtime::fft`](crate::Runtime::fft).
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// use trimtab::Complex;
        /// let x = Tensor::from_fn(&[2, 2], |i| Complex::new(i as f32, 0.0))?;
        /// assert_eq!(rt.lazy(&x).fft().to_vec()?[..2], [Complex::new(1.0, 0.0), Complex::new(-1.0, 0.0)]);
        /// assert_eq!(rt.lazy(&x).any().fft().shape(), [2, 2]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        fft() = |x| calls::fft(FftOp::Forward, x, 1, 0);
        /// What has that spectrum along the last axis, as [`Runtime::ifft`](crate::Runtime::ifft).
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// use trimtab::Complex;
        /// let x = Tensor::from_fn(&[2, 2], |i| Complex::new(i as f32, 0.0))?;
        /// assert_eq!(rt.lazy(&x).fft().ifft().to_vec()?[3], Complex::new(3.0, 0.0));
        /// assert_eq!(rt.lazy(&x).any().ifft().shape(), [2, 2]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ifft() = |x| calls::fft(FftOp::Inverse, x, 1, 0);
        /// The spectrum of the last one to three axes, as [`Runtime::fftn`](crate::Runtime::fftn).
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// use trimtab::Complex;
        /// let x = Tensor::from_fn(&[2, 2], |i| Complex::new(i as f32, 0.0))?;
        /// assert_eq!(rt.lazy(&x).fftn(2).to_vec()?[0], Complex::new(6.0, 0.0)); // the sum
        /// assert_eq!(rt.lazy(&x).any().fftn(2).shape(), [2, 2]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        fftn(axes: usize) = |x| calls::fft(FftOp::Forward, x, axes, 0);
        /// What has that spectrum along the last one to three axes, as [`Runtime::ifftn`](crate::Runtime::ifftn).
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// use trimtab::Complex;
        /// let x = Tensor::from_fn(&[2, 2], |i| Complex::new(i as f32, 0.0))?;
        /// assert_eq!(rt.lazy(&x).fftn(2).ifftn(2).to_vec()?[3], Complex::new(3.0, 0.0));
        /// assert_eq!(rt.lazy(&x).any().ifftn(2).shape(), [2, 2]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ifftn(axes: usize) = |x| calls::fft(FftOp::Inverse, x, axes, 0);
    }
    T => Complex<T> {
        /// Half the spectrum of real numbers along the last axis, as [`Runtime::rfft`](crate::Runtime::rfft).
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// use trimtab::Complex;
        /// let x = Tensor::from_fn(&[2, 2], |i| i as f32)?;
        /// assert_eq!(rt.lazy(&x).rfft().to_vec()?[..2], [Complex::new(1.0, 0.0), Complex::new(-1.0, 0.0)]);
        /// assert_eq!(rt.lazy(&x).any().rfft().shape(), [2, 2]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        rfft() = |x| calls::fft(FftOp::Real, x, 1, 0);
        /// Half the spectrum of real numbers along the last one to three axes, as [`Runtime::rfftn`](crate::Runtime::rfftn).
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// use trimtab::Complex;
        /// let x = Tensor::from_fn(&[2, 2], |i| i as f32)?;
        /// assert_eq!(rt.lazy(&x).rfftn(2).to_vec()?[0], Complex::new(6.0, 0.0)); // the sum
        /// assert_eq!(rt.lazy(&x).any().rfftn(2).shape(), [2, 2]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        rfftn(axes: usize) = |x| calls::fft(FftOp::Real, x, axes, 0);
    }
    Complex<T> => T {
        /// The `len` real numbers that have that spectrum along the last axis, as [`Runtime::irfft`](crate::Runtime::irfft).
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// use trimtab::Complex;
        /// let x = Tensor::from(vec![Complex::new(6.0f32, 0.0), Complex::new(-2.0, 0.0)]);
        /// assert_eq!(rt.lazy(&x).irfft(2).to_vec()?, [2.0, 4.0]);
        /// assert_eq!(rt.lazy(&x).any().irfft(3).shape(), [3]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        irfft(len: usize) = |x| calls::fft(FftOp::InverseReal, x, 1, len);
        /// The real numbers that have that spectrum, `len` along the last axis, as [`Runtime::irfftn`](crate::Runtime::irfftn).
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// let x = Tensor::from_fn(&[2, 2], |i| i as f32)?;
        /// let spectrum = rt.lazy(&x).rfftn(2);
        /// assert_eq!(spectrum.irfftn(2, 2).to_vec()?, [0.0, 1.0, 2.0, 3.0]);
        /// assert_eq!(spectrum.any().irfftn(2, 2).shape(), [2, 2]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        irfftn(axes: usize, len: usize) = |x| calls::fft(FftOp::InverseReal, x, axes, len);
    }
}
