//! Fourier transforms of the last axes, with NumPy's signs and scales.

use super::calls::{self, Given};
use crate::error::Error;
use crate::runtime::Runtime;
use crate::tensor::Tensor;
use trimtab_core::FftOp;
use trimtab_operands::{Complex, Element};

impl Runtime {
    /// The spectrum of the last axis, `Σ x·e^(-2πi·jk/n)`, as NumPy's `fft`. For another axis give a view in which it is the last
    /// ([`Tensor::permuted`]).
    ///
    /// ```
    /// use trimtab::{Complex, Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_fn(&[2, 4], |i| Complex::new(i as f32, 0.0))?;
    /// let spectra = rt.fft(&x)?;
    /// assert_eq!(spectra.to_vec()[..2], [Complex::new(6.0, 0.0), Complex::new(-2.0, 2.0)]);
    /// assert_eq!(rt.ifft(&spectra)?.to_vec()[7], Complex::new(7.0, 0.0));
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn fft<T: Element>(&self, tensor: &Tensor<Complex<T>>) -> Result<Tensor<Complex<T>>, Error>
    where
        Complex<T>: Element,
    {
        self.fftn(tensor, 1)
    }

    /// What has that spectrum, `1/n·Σ x·e^(2πi·jk/n)` along the last axis, as NumPy's `ifft`.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::Complex;
    /// let spectrum = Tensor::from(vec![Complex::new(6.0f32, 0.0), Complex::new(-2.0, 0.0)]);
    /// assert_eq!(rt.ifft(&spectrum)?.to_vec(), [Complex::new(2.0, 0.0), Complex::new(4.0, 0.0)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ifft<T: Element>(&self, tensor: &Tensor<Complex<T>>) -> Result<Tensor<Complex<T>>, Error>
    where
        Complex<T>: Element,
    {
        self.ifftn(tensor, 1)
    }

    /// The spectrum of real numbers along the last axis: its first `n/2 + 1` numbers, of which the others are the conjugates, as
    /// NumPy's `rfft`.
    ///
    /// ```
    /// use trimtab::{Complex, Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![1.0f32, 2.0, 3.0]);
    /// let spectrum = rt.rfft(&x)?;
    /// assert_eq!((spectrum.shape(), spectrum.to_vec()[0]), (&[2][..], Complex::new(6.0, 0.0)));
    /// // Of three numbers or of two there are as many bins: the length is said.
    /// let back = rt.irfft(&spectrum, 3)?.to_vec();
    /// assert!(back.iter().zip([1.0, 2.0, 3.0]).all(|(x, y)| (x - y).abs() < 1e-6));
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn rfft<T: Element>(&self, tensor: &Tensor<T>) -> Result<Tensor<Complex<T>>, Error>
    where
        Complex<T>: Element,
    {
        self.rfftn(tensor, 1)
    }

    /// The `len` real numbers that have that spectrum along the last axis, as NumPy's `irfft`. Imaginary parts that such a
    /// spectrum cannot have are not read.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::Complex;
    /// let spectrum = Tensor::from(vec![Complex::new(6.0f32, 0.0), Complex::new(-2.0, 0.0)]);
    /// assert_eq!(rt.irfft(&spectrum, 2)?.to_vec(), [2.0, 4.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn irfft<T: Element>(&self, tensor: &Tensor<Complex<T>>, len: usize) -> Result<Tensor<T>, Error>
    where
        Complex<T>: Element,
    {
        self.irfftn(tensor, 1, len)
    }

    /// The spectrum of the last one to three axes together, as NumPy's `fftn`.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::Complex;
    /// let x = Tensor::from_fn(&[2, 2], |i| Complex::new(i as f32, 0.0))?;
    /// assert_eq!(rt.fftn(&x, 2)?.to_vec()[0], Complex::new(6.0, 0.0)); // the sum
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fftn<T: Element>(
        &self,
        tensor: &Tensor<Complex<T>>,
        axes: usize,
    ) -> Result<Tensor<Complex<T>>, Error>
    where
        Complex<T>: Element,
    {
        self.transform(FftOp::Forward, tensor, axes, 0)
    }

    /// What has that spectrum along the last one to three axes, as NumPy's `ifftn`.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::Complex;
    /// let x = Tensor::from_fn(&[2, 2], |i| Complex::new(i as f32, 0.0))?;
    /// assert_eq!(rt.ifftn(&rt.fftn(&x, 2)?, 2)?.to_vec()[3], Complex::new(3.0, 0.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ifftn<T: Element>(
        &self,
        tensor: &Tensor<Complex<T>>,
        axes: usize,
    ) -> Result<Tensor<Complex<T>>, Error>
    where
        Complex<T>: Element,
    {
        self.transform(FftOp::Inverse, tensor, axes, 0)
    }

    /// The spectrum of real numbers along the last one to three axes, the first half of it along the last, as NumPy's `rfftn`.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::Complex;
    /// let x = Tensor::from_fn(&[4, 4], |i| i as f32)?;
    /// let spectrum = rt.rfftn(&x, 2)?;
    /// assert_eq!((spectrum.shape(), spectrum.to_vec()[0]), (&[4, 3][..], Complex::new(120.0, 0.0)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rfftn<T: Element>(&self, tensor: &Tensor<T>, axes: usize) -> Result<Tensor<Complex<T>>, Error>
    where
        Complex<T>: Element,
    {
        self.transform(FftOp::Real, tensor, axes, 0)
    }

    /// The real numbers that have that spectrum along the last one to three axes, `len` of them along the last, as NumPy's `irfftn`.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_fn(&[2, 2], |i| i as f32)?;
    /// assert_eq!(rt.irfftn(&rt.rfftn(&x, 2)?, 2, 2)?.to_vec(), [0.0, 1.0, 2.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn irfftn<T: Element>(
        &self,
        tensor: &Tensor<Complex<T>>,
        axes: usize,
        len: usize,
    ) -> Result<Tensor<T>, Error>
    where
        Complex<T>: Element,
    {
        self.transform(FftOp::InverseReal, tensor, axes, len)
    }

    fn transform<T: Element, U: Element>(
        &self,
        op: FftOp,
        tensor: &Tensor<T>,
        axes: usize,
        len: usize,
    ) -> Result<Tensor<U>, Error> {
        let call = calls::fft(op, tensor.spec(), axes, len)?;
        self.call(&call, &[Given::Tensor(&tensor.any)])?.try_into()
    }
}
