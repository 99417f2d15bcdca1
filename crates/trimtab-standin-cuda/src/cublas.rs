//! What trimtab-cuda calls of cuBLAS, and the products of cuBLASLt: products by plain loops, arguments checked as the library does.

use crate::device::put;
use crate::state::{DeviceState, code, on_device};
use std::ffi::{c_int, c_longlong, c_void};
use trimtab_ptx::GlobalMemory;

/// Codes of the library.
pub(crate) const INVALID_VALUE: i32 = 7;
const EXECUTION_FAILED: i32 = 13;
/// Nanoseconds of a multiply-add: made up.
const NANOSECONDS_EACH: f64 = 0.01;

/// The driver's codes become the library's own.
pub(crate) fn told(code: u32) -> c_int {
    if code == 0 { 0 } else { EXECUTION_FAILED }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasCreate_v2(to: *mut usize) -> c_int {
    told(on_device("cublasCreate_v2", |state, _| {
        let handle = state.handle();
        // SAFETY: the caller's pointer.
        unsafe { put(to, handle) }
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasDestroy_v2(_handle: usize) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasSetStream_v2(_handle: usize, _stream: usize) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasSetMathMode(_handle: usize, mode: c_int) -> c_int {
    // The library's modes, and the bit that keeps sums of halves out of halves.
    if matches!(mode & !16, 0..=3) { 0 } else { INVALID_VALUE }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasGetProperty(which: c_int, to: *mut c_int) -> c_int {
    let Some(value) = [12, 9, 3].get(which as usize) else { return INVALID_VALUE };
    // SAFETY: the caller's pointer.
    told(unsafe { put(to, *value) })
}

/// An element type by the library's number.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Number {
    F64,
    F32,
    F16,
    Bf16,
}

impl Number {
    pub(crate) fn of(code: c_int) -> Option<Number> {
        match code {
            0 => Some(Number::F32),
            1 => Some(Number::F64),
            2 => Some(Number::F16),
            14 => Some(Number::Bf16),
            _ => None,
        }
    }

    fn bytes(self) -> usize {
        match self {
            Number::F64 => 8,
            Number::F32 => 4,
            Number::F16 | Number::Bf16 => 2,
        }
    }

    fn read(self, bytes: &[u8]) -> f64 {
        let short = || u16::from_le_bytes([bytes[0], bytes[1]]);
        match self {
            Number::F64 => f64::from_le_bytes(std::array::from_fn(|at| bytes[at])),
            Number::F32 => f32::from_le_bytes(std::array::from_fn(|at| bytes[at])).into(),
            Number::Bf16 => f32::from_bits(u32::from(short()) << 16).into(),
            Number::F16 => half(short()),
        }
    }

    fn write(self, value: f64) -> Vec<u8> {
        match self {
            Number::F64 => value.to_le_bytes().to_vec(),
            Number::F32 => (value as f32).to_le_bytes().to_vec(),
            // The nearest of all: there are few.
            Number::F16 | Number::Bf16 => {
                // Infinity is where the next number would be.
                let (top, next) =
                    if self == Number::F16 { (0x7c00, 2f64.powi(16)) } else { (0x7f80, 2f64.powi(128)) };
                let of = |bits: u16| if bits == top { next } else { self.read(&bits.to_le_bytes()) };
                let magnitude = value.abs();
                let (mut low, mut high) = (0u16, top);
                while high - low > 1 {
                    let middle = low + (high - low) / 2;
                    if of(middle) <= magnitude { low = middle } else { high = middle }
                }
                let (below, above) = (magnitude - of(low), of(high) - magnitude);
                let up = above < below || above == below && low & 1 == 1;
                let bits = if value.is_nan() {
                    0x7fff
                } else if up {
                    high
                } else {
                    low
                };
                (bits | u16::from(value.is_sign_negative()) << 15).to_le_bytes().to_vec()
            }
        }
    }
}

/// The value of an IEEE half.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let size = match exponent {
        0 => fraction * 2f64.powi(-24),
        0x1f if fraction == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// One operand of a batch: where it starts, elements from a column to the next, elements from a matrix to the next.
pub(crate) struct Columns {
    pub address: u64,
    pub leading: u64,
    pub apart: u64,
}

/// A product as both libraries make it.
pub(crate) struct Gemm {
    pub number: Number,
    /// Whether factors are cut to 11 bits.
    pub rough: bool,
    /// Whether rows and columns of a factor change places.
    pub turned: [bool; 2],
    pub sizes: [u64; 3],
    pub batch: u64,
    pub scalars: [f64; 2],
    pub columns: [Columns; 3],
}

impl Gemm {
    /// Makes it on a device.
    pub(crate) fn make(&self, device: &mut DeviceState) -> u32 {
        let (Gemm { number, columns: [a, b, c], .. }, [m, n, k], [alpha, beta]) =
            (self, self.sizes, self.scalars);
        let (number, memory) = (*number, &mut device.memory);
        let seen = |value: f64| if self.rough { cut(value) } else { value };
        let turn = |turned: bool, [row, column]: [u64; 2]| if turned { [column, row] } else { [row, column] };
        for place in 0..self.batch * m * n {
            let (matrix, column, row) = (place / (m * n), place / m % n, place % m);
            let term = |memory: &GlobalMemory, i: u64| {
                let ([r, s], [t, u]) = (turn(self.turned[0], [row, i]), turn(self.turned[1], [i, column]));
                let left = a.read(memory, number, [matrix, r, s])?;
                Some(seen(left) * seen(b.read(memory, number, [matrix, t, u])?))
            };
            let sum: Option<f64> = (0..k).map(|i| term(memory, i)).sum();
            let old = if beta == 0.0 { Some(0.0) } else { c.read(memory, number, [matrix, row, column]) };
            let (Some(sum), Some(old)) = (sum, old) else { return code::ILLEGAL_ADDRESS };
            let bytes = number.write(alpha * sum + beta * old);
            if memory.write(c.element(number, [matrix, row, column]), &bytes).is_err() {
                return code::ILLEGAL_ADDRESS;
            }
        }
        device.clock_ns += ((self.batch * m * n * k) as f64 * NANOSECONDS_EACH) as u64 + 1;
        code::SUCCESS
    }
}

impl Columns {
    /// The bytes of an element, if they may be read.
    fn element(&self, number: Number, [matrix, row, column]: [u64; 3]) -> u64 {
        self.address + (matrix * self.apart + column * self.leading + row) * number.bytes() as u64
    }

    fn read(&self, memory: &GlobalMemory, number: Number, at: [u64; 3]) -> Option<f64> {
        let mut bytes = [0; 8];
        let bytes = bytes.get_mut(..number.bytes())?;
        memory.read(self.element(number, at), bytes).ok()?;
        Some(number.read(bytes))
    }
}

/// A value cut to the 11 bits a tensor core sees.
fn cut(value: f64) -> f64 {
    f64::from(f32::from_bits((value as f32).to_bits() & 0xffff_e000))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasGemmStridedBatchedEx(
    _handle: usize,
    turn_a: c_int,
    turn_b: c_int,
    m: c_int,
    n: c_int,
    k: c_int,
    alpha: *const c_void,
    a: u64,
    type_a: c_int,
    leading_a: c_int,
    apart_a: c_longlong,
    b: u64,
    type_b: c_int,
    leading_b: c_int,
    apart_b: c_longlong,
    beta: *const c_void,
    c: u64,
    type_c: c_int,
    leading_c: c_int,
    apart_c: c_longlong,
    batch: c_int,
    within: c_int,
    _algorithm: c_int,
) -> c_int {
    let [rows_a, rows_b] = [if turn_a == 0 { m } else { k }, if turn_b == 0 { k } else { n }];
    let legal = type_a == type_b && type_b == type_c && m >= 0 && n >= 0 && k >= 0 && batch >= 0;
    let leads = leading_a >= rows_a.max(1) && leading_b >= rows_b.max(1) && leading_c >= m.max(1);
    let (Some(number), true) = (Number::of(type_a), legal && leads) else { return INVALID_VALUE };
    // SAFETY: scalars of the type sums are made in, by the caller's word.
    let [alpha, beta] = unsafe {
        match within {
            70 => [alpha.cast::<f64>().read(), beta.cast::<f64>().read()],
            68 | 77 => [f64::from(alpha.cast::<f32>().read()), f64::from(beta.cast::<f32>().read())],
            _ => return INVALID_VALUE,
        }
    };
    let columns = |address: u64, leading: c_int, apart: c_longlong| Columns {
        address,
        leading: leading as u64,
        apart: apart as u64,
    };
    let gemm = Gemm {
        number,
        rough: within == 77,
        turned: [turn_a != 0, turn_b != 0],
        sizes: [m, n, k].map(|size| size as u64),
        batch: batch as u64,
        scalars: [alpha, beta],
        columns: [
            columns(a, leading_a, apart_a),
            columns(b, leading_b, apart_b),
            columns(c, leading_c, apart_c),
        ],
    };
    told(on_device("cublasGemmStridedBatchedEx", |state, at| gemm.make(&mut state.devices[at])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_read_and_written_to_the_nearest() {
        for (value, bits) in [
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (65504.0, 0x7bff),
            (65520.0, 0x7c00),
            (f64::NEG_INFINITY, 0xfc00),
            (6e-8, 1),
            (1.0 + 1.0 / 4096.0, 0x3c00),
        ] {
            assert_eq!(Number::F16.write(value), u16::to_le_bytes(bits), "{value}");
        }
        assert_eq!((half(0x3555), half(0x7c00)), (0.333251953125, f64::INFINITY));
        assert_eq!(Number::Bf16.write(1.0), [0x80, 0x3f]);
        assert!(Number::F16.read(&Number::F16.write(f64::NAN)).is_nan());
    }
}
