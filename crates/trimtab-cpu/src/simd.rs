//! Vectors of three widths behind one set of traits, so that a kernel body is written once and compiled per
//! instruction set. Only values of a token prove that the processor has the instructions, and only
//! [`Levels::detect`] makes tokens; nothing here knows about operations or tensors.

use trimtab_operands::Element;

/// A vector of `T`s. A value of it exists only where its instructions do.
pub(crate) trait Vector<T: Copy>: Copy {
    /// The proof that the instructions exist.
    type Token: Copy;
    /// Elements in one vector.
    const LANES: usize;
    /// All lanes the same.
    fn splat(token: Self::Token, value: T) -> Self;
    /// Reads [`Self::LANES`] elements, aligned or not.
    ///
    /// # Safety
    /// `from` must be readable for that many elements.
    unsafe fn load(token: Self::Token, from: *const T) -> Self;
    /// Writes the lanes, aligned or not.
    ///
    /// # Safety
    /// `to` must be writable for that many elements.
    unsafe fn store(self, to: *mut T);
    /// Writes the lanes past the caches where the processor can.
    ///
    /// # Safety
    /// As `store`, and `to` must be aligned to the size of the vector.
    unsafe fn stream(self, to: *mut T);
    /// All lanes the same; any vector at hand is the proof.
    fn set(self, value: T) -> Self;
    /// Lanewise sum; wraps for integers.
    fn add(self, other: Self) -> Self;
    /// Lanewise difference; wraps for integers.
    fn sub(self, other: Self) -> Self;
    /// Lanewise product; wraps for integers.
    fn mul(self, other: Self) -> Self;
    /// `if self < other { self } else { other }`: the second where a lane is not a number.
    fn lower(self, other: Self) -> Self;
    /// `if self > other { self } else { other }`: the second where a lane is not a number.
    fn upper(self, other: Self) -> Self;
    /// The smaller; a NaN wins.
    fn min(self, other: Self) -> Self;
    /// The larger; a NaN wins.
    fn max(self, other: Self) -> Self;
    /// Without sign; wraps for integers.
    fn abs(self) -> Self;
    /// With the other sign; wraps for integers.
    fn neg(self) -> Self;
}

/// What vectors of floats can do beyond integers. Bitwise operations are on the representation.
pub(crate) trait FloatVector<T: Copy>: Vector<T> {
    /// Lanewise quotient.
    fn div(self, other: Self) -> Self;
    /// Lanewise square root, correctly rounded.
    fn sqrt(self) -> Self;
    /// `self × factor + term`, with one rounding where the processor can (not on baseline x86).
    fn fma(self, factor: Self, term: Self) -> Self;
    /// Bitwise and.
    fn and(self, other: Self) -> Self;
    /// Bitwise or.
    fn or(self, other: Self) -> Self;
    /// The representation shifted right by the bits of the mantissa: sign and exponent as a small integer.
    fn exponent_down(self) -> Self;
    /// The representation shifted left by the bits of the mantissa.
    fn exponent_up(self) -> Self;
    /// Lanes of `yes` where `self < other`, else of `no`.
    fn where_less(self, other: Self, yes: Self, no: Self) -> Self;
    /// Lanes of `yes` where `self == other`, else of `no`.
    fn where_equal(self, other: Self, yes: Self, no: Self) -> Self;
}

/// Vectors whose lanes change places.
pub(crate) trait Woven: Copy {
    /// Lanes of this one and another in turn: the first half of them, and the second.
    fn weave(self, other: Self) -> (Self, Self);
    /// Of the lanes of this one and another behind it the first of every two, and the second.
    fn part(self, other: Self) -> (Self, Self);
}

/// Work compiled once per instruction set. `run` must be `#[inline(always)]`.
pub(crate) trait Task {
    /// What it answers.
    type Out;
    /// Does it with the vectors of `S`.
    fn run<S: Simd>(self, simd: S) -> Self::Out;
}

/// An instruction set: the types of its vectors and the way into functions compiled for it.
pub(crate) trait Simd: Copy + Send + Sync + 'static {
    /// Vector of `f32`.
    type F32: FloatVector<f32, Token = Self> + Woven;
    /// Vector of `f64`, half as many lanes.
    type F64: FloatVector<f64, Token = Self> + Woven;
    /// Vector of `i32`.
    type I32: Vector<i32, Token = Self>;
    /// Vector registers there are.
    const REGISTERS: usize;
    /// Runs a task compiled for this instruction set.
    fn vectorize<K: Task>(self, task: K) -> K::Out;
    /// The lower and the upper half of the lanes, exact.
    fn widen(self, value: Self::F32) -> (Self::F64, Self::F64);
    /// Back, rounded.
    fn narrow(self, lower: Self::F64, upper: Self::F64) -> Self::F32;
    /// Orders streamed stores before what follows.
    fn fence(self);
}

/// An element type with vectors.
pub(crate) trait Lane: Element {
    /// Its vector in an instruction set.
    type Vec<S: Simd>: Vector<Self, Token = S>;
}

impl Lane for f32 {
    type Vec<S: Simd> = S::F32;
}
impl Lane for f64 {
    type Vec<S: Simd> = S::F64;
}
impl Lane for i32 {
    type Vec<S: Simd> = S::I32;
}

/// The widest `f32` lanes any level has.
pub(crate) const MAX_LANES: usize = 16;

/// One instruction set of this processor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Level {
    /// 512-bit vectors.
    #[cfg(target_arch = "x86_64")]
    Avx512(x86::Avx512),
    /// 256-bit vectors with fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2(x86::Avx2),
    /// 128-bit vectors as arrays; the compiler uses what every processor of the architecture has.
    Portable(Portable),
}

impl Level {
    /// Runs a task with this level's vectors.
    #[inline]
    pub(crate) fn vectorize<K: Task>(self, task: K) -> K::Out {
        match self {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(simd) => simd.vectorize(task),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(simd) => simd.vectorize(task),
            Level::Portable(simd) => simd.vectorize(task),
        }
    }
}

/// The instruction sets of this processor by their `f32` lanes: 16, 8, 4.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Levels {
    #[cfg(target_arch = "x86_64")]
    avx512: Option<x86::Avx512>,
    #[cfg(target_arch = "x86_64")]
    avx2: Option<x86::Avx2>,
}

impl Levels {
    /// What this processor has.
    pub(crate) fn detect() -> Levels {
        Levels {
            #[cfg(target_arch = "x86_64")]
            avx512: x86::Avx512::detect(),
            #[cfg(target_arch = "x86_64")]
            avx2: x86::Avx2::detect(),
        }
    }

    /// The level of that many `f32` lanes, if the processor has it.
    #[inline]
    pub(crate) fn get(&self, lanes: u32) -> Option<Level> {
        match lanes {
            #[cfg(target_arch = "x86_64")]
            16 => self.avx512.map(Level::Avx512),
            #[cfg(target_arch = "x86_64")]
            8 => self.avx2.map(Level::Avx2),
            4 => Some(Level::Portable(Portable)),
            _ => None,
        }
    }

    /// The lanes there are, widest first, none wider than the device's vectors.
    pub(crate) fn lanes(&self, vector_bytes: Option<u32>) -> impl Iterator<Item = u32> {
        let widest = vector_bytes.map_or(u32::MAX, |bytes| bytes / 4).max(4);
        let levels = *self;
        [16, 8, 4].into_iter().filter(move |&lanes| lanes <= widest && levels.get(lanes).is_some())
    }

    /// The widest level and its lanes.
    pub(crate) fn widest(&self) -> (Level, u32) {
        let found = self.lanes(None).find_map(|lanes| Some((self.get(lanes)?, lanes)));
        found.unwrap_or((Level::Portable(Portable), 4))
    }

    /// Whether streamed stores of that many lanes differ from others.
    pub(crate) fn streams(&self, lanes: u32) -> bool {
        lanes >= 8 && self.get(lanes).is_some()
    }
}

/// Plain arrays of 16 bytes: correct everywhere, and vector code where the compiler finds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

/// An array as a vector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array<T, const N: usize>([T; N]);

impl<T: Copy, const N: usize> Array<T, N> {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(T, T) -> T) -> Self {
        Array(std::array::from_fn(|lane| f(self.0[lane], other.0[lane])))
    }
    #[inline(always)]
    fn map(self, f: impl Fn(T) -> T) -> Self {
        Array(self.0.map(f))
    }
    /// Lanes of `yes` where the condition holds, else of `no`.
    #[inline(always)]
    fn pick(self, other: Self, yes: Self, no: Self, condition: impl Fn(T, T) -> bool) -> Self {
        let lane =
            |lane: usize| if condition(self.0[lane], other.0[lane]) { yes.0[lane] } else { no.0[lane] };
        Array(std::array::from_fn(lane))
    }
}

impl<T: Copy, const N: usize> Woven for Array<T, N> {
    #[inline(always)]
    fn weave(self, other: Self) -> (Self, Self) {
        let lane = |at: usize| if at.is_multiple_of(2) { self.0[at / 2] } else { other.0[at / 2] };
        (Array(std::array::from_fn(lane)), Array(std::array::from_fn(|at| lane(N + at))))
    }
    #[inline(always)]
    fn part(self, other: Self) -> (Self, Self) {
        let lane = |at: usize| if at < N { self.0[at] } else { other.0[at - N] };
        (Array(std::array::from_fn(|at| lane(2 * at))), Array(std::array::from_fn(|at| lane(2 * at + 1))))
    }
}

/// Methods that are one expression each.
macro_rules! methods {
    ($($name:ident($self:ident $(, $arg:ident: $type:ty)*) -> $out:ty = $body:expr;)*) => {
        $(
            #[inline(always)]
            fn $name($self $(, $arg: $type)*) -> $out {
                $body
            }
        )*
    };
}

macro_rules! array_vector {
    ($item:ty, $add:expr, $sub:expr, $mul:expr, $abs:expr, $neg:expr, $min:expr, $max:expr) => {
        impl<const N: usize> Vector<$item> for Array<$item, N> {
            type Token = Portable;
            const LANES: usize = N;
            #[inline(always)]
            fn splat(_: Portable, value: $item) -> Self {
                Array([value; N])
            }
            #[inline(always)]
            unsafe fn load(_: Portable, from: *const $item) -> Self {
                // SAFETY: readable for N elements, the caller's promise.
                Array(unsafe { from.cast::<[$item; N]>().read_unaligned() })
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $item) {
                // SAFETY: writable for N elements, the caller's promise.
                unsafe { to.cast::<[$item; N]>().write_unaligned(self.0) }
            }
            #[inline(always)]
            unsafe fn stream(self, to: *mut $item) {
                // SAFETY: the caller promises more than `store` needs.
                unsafe { self.store(to) }
            }
            methods! {
                set(self, value: $item) -> Self = Array([value; N]);
                add(self, other: Self) -> Self = self.zip(other, $add);
                sub(self, other: Self) -> Self = self.zip(other, $sub);
                mul(self, other: Self) -> Self = self.zip(other, $mul);
                lower(self, other: Self) -> Self = self.zip(other, |a, b| if a < b { a } else { b });
                upper(self, other: Self) -> Self = self.zip(other, |a, b| if a > b { a } else { b });
                min(self, other: Self) -> Self = self.zip(other, $min);
                max(self, other: Self) -> Self = self.zip(other, $max);
                abs(self) -> Self = self.map($abs);
                neg(self) -> Self = self.map($neg);
            }
        }
    };
}

macro_rules! array_float {
    ($item:ty, $mantissa:literal) => {
        array_vector!(
            $item,
            |a, b| a + b,
            |a, b| a - b,
            |a, b| a * b,
            <$item>::abs,
            |a: $item| -a,
            |a, b| if a.is_nan() || a < b { a } else { b },
            |a, b| if a.is_nan() || a > b { a } else { b }
        );
        impl<const N: usize> FloatVector<$item> for Array<$item, N> {
            methods! {
                div(self, other: Self) -> Self = self.zip(other, |a, b| a / b);
                sqrt(self) -> Self = self.map(<$item>::sqrt);
                fma(self, factor: Self, term: Self) -> Self = {
                    // Without the instruction `mul_add` is a library call: 30 times slower than two roundings.
                    let fused = cfg!(any(target_feature = "fma", target_arch = "aarch64"));
                    Array(std::array::from_fn(|lane| {
                        let (a, b, c) = (self.0[lane], factor.0[lane], term.0[lane]);
                        if fused { a.mul_add(b, c) } else { a * b + c }
                    }))
                };
                and(self, other: Self) -> Self =
                    self.zip(other, |a, b| <$item>::from_bits(a.to_bits() & b.to_bits()));
                or(self, other: Self) -> Self =
                    self.zip(other, |a, b| <$item>::from_bits(a.to_bits() | b.to_bits()));
                exponent_down(self) -> Self = self.map(|a| <$item>::from_bits(a.to_bits() >> $mantissa));
                exponent_up(self) -> Self = self.map(|a| <$item>::from_bits(a.to_bits() << $mantissa));
                where_less(self, other: Self, yes: Self, no: Self) -> Self =
                    self.pick(other, yes, no, |a, b| a < b);
                where_equal(self, other: Self, yes: Self, no: Self) -> Self =
                    self.pick(other, yes, no, |a, b| a == b);
            }
        }
    };
}
array_float!(f32, 23);
array_float!(f64, 52);
array_vector!(
    i32,
    i32::wrapping_add,
    i32::wrapping_sub,
    i32::wrapping_mul,
    i32::wrapping_abs,
    i32::wrapping_neg,
    |a, b| if a < b { a } else { b },
    |a, b| if a > b { a } else { b }
);

impl Simd for Portable {
    type F32 = Array<f32, 4>;
    type F64 = Array<f64, 2>;
    type I32 = Array<i32, 4>;
    const REGISTERS: usize = if cfg!(target_arch = "x86_64") { 16 } else { 32 };
    // As with the others a function of its own: where it may be inlined, every unit that names it is given a copy of all its code, which
    // was a quarter of the crate's.
    #[inline(never)]
    fn vectorize<K: Task>(self, task: K) -> K::Out {
        task.run(self)
    }
    #[inline(always)]
    fn widen(self, Array([a, b, c, d]): Self::F32) -> (Self::F64, Self::F64) {
        (Array([f64::from(a), f64::from(b)]), Array([f64::from(c), f64::from(d)]))
    }
    #[inline(always)]
    fn narrow(self, Array([a, b]): Self::F64, Array([c, d]): Self::F64) -> Self::F32 {
        Array([a as f32, b as f32, c as f32, d as f32])
    }
    #[inline(always)]
    fn fence(self) {}
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;
