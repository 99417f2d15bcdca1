//! Fourier transforms of the last axes. Sign and scale are NumPy's: forward `e^(-2πi·jk/n)` and not scaled, inverse scaled by `1/n`.
//!
//! Semantics every kernel shares: twiddle factors are computed in `f64` and rounded, each by itself; of a half spectrum, imaginary
//! parts that real numbers cannot have are not read; what is not a number stays within its transform.

mod fftw;
mod lines;
mod passes;
mod plans;
mod reference;
mod rust;
mod split;
mod stockham;
mod turns;

use crate::args::Args;
use crate::fftw::Fftw;
use crate::kernels::Kernels;
use crate::kernels::room::MOST_ROOM;
use crate::pool::Pool;
use crate::simd::{FloatVector, Lane, Levels, Simd, Woven};
use rustfft::FftNum;
use trimtab_core::{Bytes, Decline, Fft, FftOp, Flops, LaunchError, Problem, erase};
use trimtab_operands::Complex;

/// The kernels in order of preference, the reference last.
pub fn kernels() -> Kernels {
    kernels_with(Fftw::find())
}

/// The same with a library that was looked for.
pub(crate) fn kernels_with(fftw: Option<Fftw>) -> Kernels {
    let mut kernels =
        vec![erase(stockham::StockhamKernel { levels: Levels::detect() }), erase(rust::RustKernel)];
    kernels.extend(fftw.map(|library| erase(fftw::FftwKernel(library))));
    kernels.push(erase(reference::ReferenceKernel));
    kernels
}

/// What parts of complex numbers are: f32 and f64.
pub(super) trait Real: Lane + FftNum + bytemuck::Pod {
    /// The operand and the result of a launch as their parts, if types and lengths are the problem's.
    fn sides<'a>(
        problem: &Fft,
        args: Args<'a>,
    ) -> Result<(&'a [Self], &'a mut [Self], &'a Pool), LaunchError>;
    /// Its vector, whose lanes change places.
    type V<S: Simd>: FloatVector<Self, Token = S> + Woven;
    /// Rounded.
    fn of(value: f64) -> Self;
}

macro_rules! reals {
    ($($type:ty: $vector:ident,)*) => {$(
        impl Real for $type {
            type V<S: Simd> = S::$vector;
            fn sides<'a>(
                problem: &Fft,
                args: Args<'a>,
            ) -> Result<(&'a [$type], &'a mut [$type], &'a Pool), LaunchError> {
                let lens = [problem.input_len(), problem.out_len()];
                Ok(match problem.op {
                    FftOp::Forward | FftOp::Inverse => {
                        let (input, out, pool) = args.mixed::<Complex<$type>, Complex<$type>>(lens)?;
                        (bytemuck::cast_slice(input), bytemuck::cast_slice_mut(out), pool)
                    }
                    FftOp::Real => {
                        let (input, out, pool) = args.mixed::<$type, Complex<$type>>(lens)?;
                        (input, bytemuck::cast_slice_mut(out), pool)
                    }
                    FftOp::InverseReal => {
                        let (input, out, pool) = args.mixed::<Complex<$type>, $type>(lens)?;
                        (bytemuck::cast_slice(input), out, pool)
                    }
                })
            }
            fn of(value: f64) -> $type {
                value as $type
            }
        }
    )*};
}
reals! { f32: F32, f64: F64, }

/// An expression with a type as what the parts of the problem's numbers are.
macro_rules! by_part {
    ($problem:expr, $type:ident => $run:expr) => {
        match $problem.dtype {
            trimtab_core::DType::F32 | trimtab_core::DType::Complex64 => {
                type $type = f32;
                $run
            }
            trimtab_core::DType::F64 | trimtab_core::DType::Complex128 => {
                type $type = f64;
                $run
            }
            dtype => Err($crate::kernels::elements::not_here(dtype)),
        }
    };
}
use by_part;

/// What a transform's numbers are multiplied with at the end.
fn scale(problem: &Fft) -> f64 {
    if problem.op.is_inverse() { 1.0 / problem.points().max(1) as f64 } else { 1.0 }
}

/// Why a kernel that keeps whole transforms beside the operands does not take one.
fn too_large(problem: &Fft) -> Option<Decline> {
    let most = MOST_ROOM as u64 / 8;
    let points = problem.points();
    (points > most).then(|| {
        Decline::from(format!("keeps up to {most} numbers beside the operands, {points} are transformed"))
    })
}

/// Arithmetic, and operands walked over once for every axis.
fn counted(problem: &Fft) -> (Flops, Bytes) {
    let bytes = Problem::from(*problem).operand_bytes().0;
    (Flops(problem.flops()), Bytes(bytes.saturating_mul(problem.sizes().len() as u64)))
}

/// What threads keep beside the operands: so many times the longest line each, some of them side by side, and of spectra that are
/// written over a whole one.
fn scratch(problem: &Fft, times: u64, threads: u32) -> Bytes {
    let longest = problem.sizes().iter().copied().max().unwrap_or(1);
    let each = problem.out_dtype().size().max(problem.dtype.size());
    let columns = if problem.sizes().len() > 1 { 33 } else { 0 };
    let whole = if problem.op == FftOp::InverseReal && columns > 0 { problem.spectrum() } else { 0 };
    let numbers = longest.saturating_mul(times + columns).saturating_add(whole);
    Bytes(numbers.saturating_mul(each).saturating_mul(threads.into()))
}
