//! Register tiles: a few rows by a few vectors of the result, held in registers over the whole inner product. One body,
//! instantiated for each instruction set; reachable only through [`Tiles`], which exists only where the set does.

/// Most vectors a tile is wide.
pub(super) const MAX_VECTORS: usize = 3;

/// Where a tile's operands are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile<T> {
    /// Length of the inner products.
    pub(super) k: usize,
    /// First element of the left operand, elements from row to row and from column to column.
    pub(super) lhs: *const T,
    pub(super) lhs_row: usize,
    pub(super) lhs_col: usize,
    /// First element of the right operand and elements from row to row; its columns lie together.
    pub(super) rhs: *const T,
    pub(super) rhs_row: usize,
    /// First element of the result and elements from row to row.
    pub(super) out: *mut T,
    pub(super) out_row: usize,
    /// Columns: more than `(vectors - 1) * lanes`, at most `vectors * lanes`.
    pub(super) cols: usize,
    /// Whether to add to the result instead of overwriting it.
    pub(super) add: bool,
}

/// Computes one tile.
///
/// # Safety
/// With `rows` of the function: `lhs` must be readable as rows × k, `rhs` as k × cols, `out` readable (if `add`) and writable
/// as rows × cols, and `cols` must be in the range [`Tile::cols`] gives for the function's vectors. The instruction set
/// must be present, which holding the [`Tiles`] the function came from proves.
pub(super) type TileFn<T> = unsafe fn(&Tile<T>);

/// The tiles of one instruction set.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernels) struct Tiles<T: 'static> {
    lanes: usize,
    /// By vectors - 1, then rows - 1.
    table: &'static [&'static [TileFn<T>]; MAX_VECTORS],
}

impl<T> Tiles<T> {
    /// Elements of a vector.
    #[inline]
    pub(super) fn lanes(self) -> usize {
        self.lanes
    }

    /// Most rows of a tile that many vectors wide; 0 if there is none.
    #[inline]
    pub(super) fn max_rows(self, vectors: usize) -> usize {
        self.table.get(vectors.wrapping_sub(1)).map_or(0, |rows| rows.len())
    }

    /// The tile of that many rows and vectors.
    #[inline]
    pub(super) fn get(self, rows: usize, vectors: usize) -> Option<TileFn<T>> {
        self.table.get(vectors.wrapping_sub(1))?.get(rows.wrapping_sub(1)).copied()
    }
}

/// One tile body. `$masked_load` and `$masked_store` take the mask `$mask` makes of a number of columns.
macro_rules! tile_body {
    ($(#[$feature:meta])? $T:ty, $V:ty, $L:expr, $zero:path, $splat:path, $load:path, $store:path, $fma:path, $add:path,
     $mask:path, $masked_load:path, $masked_store:path) => {
        /// `UNIT`: rows of the left operand are neighbours, as in a packed panel; the addresses are then constants.
        /// `EDGE`: the last vector is not full.
        $(#[$feature])?
        #[inline]
        unsafe fn body<const MR: usize, const NV: usize, const UNIT: bool, const EDGE: bool>(tile: &Tile<$T>) {
            let Tile { k, mut lhs, lhs_row, lhs_col, mut rhs, rhs_row, out, out_row, cols, add } = *tile;
            let lhs_row = if UNIT { 1 } else { lhs_row };
            let mask = $mask(if EDGE { cols - (NV - 1) * $L } else { $L });
            let mut sums = [[$zero(); NV]; MR];
            // SAFETY: step p reads row p of `rhs`, of the last vector only the columns in the mask, and column p of `lhs`,
            // which the caller of the tile promises to be readable; pointers move past the end without being read.
            unsafe {
                for _ in 0..k {
                    let mut row = [$zero(); NV];
                    for v in 0..NV {
                        let at = rhs.add(v * $L);
                        row[v] = if EDGE && v == NV - 1 { $masked_load(at, mask) } else { $load(at) };
                    }
                    for i in 0..MR {
                        let factor = $splat(*lhs.add(i * lhs_row));
                        for v in 0..NV {
                            sums[i][v] = $fma(factor, row[v], sums[i][v]);
                        }
                    }
                    lhs = lhs.wrapping_add(lhs_col);
                    rhs = rhs.wrapping_add(rhs_row);
                }
                for i in 0..MR {
                    for v in 0..NV {
                        let at = out.add(i * out_row + v * $L);
                        if EDGE && v == NV - 1 {
                            let sum = if add { $add(sums[i][v], $masked_load(at, mask)) } else { sums[i][v] };
                            $masked_store(at, mask, sum);
                        } else {
                            let sum = if add { $add(sums[i][v], $load(at)) } else { sums[i][v] };
                            $store(at, sum);
                        }
                    }
                }
            }
        }

        $(#[$feature])?
        unsafe fn tile<const MR: usize, const NV: usize>(tile: &Tile<$T>) {
            // SAFETY: as promised by the caller; the flags say what the tile says.
            unsafe {
                match (tile.lhs_row == 1, tile.cols == NV * $L) {
                    (true, true) => body::<MR, NV, true, false>(tile),
                    (true, false) => body::<MR, NV, true, true>(tile),
                    (false, true) => body::<MR, NV, false, false>(tile),
                    (false, false) => body::<MR, NV, false, true>(tile),
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    /// 32 registers: 12 × 2 and 8 × 3 sums leave room for the row of `rhs`. Taller tiles that are one vector wide bring
    /// nothing, 12 sums already hide the latency of 4 cycles.
    macro_rules! table {
        ($T:ty) => {
            pub(in super::super) static TABLE: [&[TileFn<$T>]; MAX_VECTORS] = [
                &[
                    tile::<1, 1>,
                    tile::<2, 1>,
                    tile::<3, 1>,
                    tile::<4, 1>,
                    tile::<5, 1>,
                    tile::<6, 1>,
                    tile::<7, 1>,
                    tile::<8, 1>,
                    tile::<9, 1>,
                    tile::<10, 1>,
                    tile::<11, 1>,
                    tile::<12, 1>,
                ],
                &[
                    tile::<1, 2>,
                    tile::<2, 2>,
                    tile::<3, 2>,
                    tile::<4, 2>,
                    tile::<5, 2>,
                    tile::<6, 2>,
                    tile::<7, 2>,
                    tile::<8, 2>,
                    tile::<9, 2>,
                    tile::<10, 2>,
                    tile::<11, 2>,
                    tile::<12, 2>,
                ],
                &[
                    tile::<1, 3>,
                    tile::<2, 3>,
                    tile::<3, 3>,
                    tile::<4, 3>,
                    tile::<5, 3>,
                    tile::<6, 3>,
                    tile::<7, 3>,
                    tile::<8, 3>,
                ],
            ];
        };
    }

    pub(super) mod f32 {
        use super::super::{MAX_VECTORS, Tile, TileFn};
        use std::arch::x86_64::*;

        #[target_feature(enable = "avx512f")]
        #[inline]
        fn mask(columns: usize) -> __mmask16 {
            (u32::MAX >> (32 - columns.min(16)).min(31)) as __mmask16
        }
        #[target_feature(enable = "avx512f")]
        #[inline]
        unsafe fn masked_load(at: *const f32, mask: __mmask16) -> __m512 {
            // SAFETY: the caller promises that the elements in the mask are readable.
            unsafe { _mm512_maskz_loadu_ps(mask, at) }
        }
        tile_body!(
            #[target_feature(enable = "avx512f")]
            f32,
            __m512,
            16,
            _mm512_setzero_ps,
            _mm512_set1_ps,
            _mm512_loadu_ps,
            _mm512_storeu_ps,
            _mm512_fmadd_ps,
            _mm512_add_ps,
            mask,
            masked_load,
            _mm512_mask_storeu_ps
        );
        table!(f32);
    }

    pub(super) mod f64 {
        use super::super::{MAX_VECTORS, Tile, TileFn};
        use std::arch::x86_64::*;

        #[target_feature(enable = "avx512f")]
        #[inline]
        fn mask(columns: usize) -> __mmask8 {
            (u32::MAX >> (32 - columns.min(8)).min(31)) as __mmask8
        }
        #[target_feature(enable = "avx512f")]
        #[inline]
        unsafe fn masked_load(at: *const f64, mask: __mmask8) -> __m512d {
            // SAFETY: the caller promises that the elements in the mask are readable.
            unsafe { _mm512_maskz_loadu_pd(mask, at) }
        }
        tile_body!(
            #[target_feature(enable = "avx512f")]
            f64,
            __m512d,
            8,
            _mm512_setzero_pd,
            _mm512_set1_pd,
            _mm512_loadu_pd,
            _mm512_storeu_pd,
            _mm512_fmadd_pd,
            _mm512_add_pd,
            mask,
            masked_load,
            _mm512_mask_storeu_pd
        );
        table!(f64);
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    /// 16 registers: 6 × 2 and 4 × 3 sums.
    macro_rules! table {
        ($T:ty) => {
            pub(in super::super) static TABLE: [&[TileFn<$T>]; MAX_VECTORS] = [
                &[
                    tile::<1, 1>,
                    tile::<2, 1>,
                    tile::<3, 1>,
                    tile::<4, 1>,
                    tile::<5, 1>,
                    tile::<6, 1>,
                    tile::<7, 1>,
                    tile::<8, 1>,
                ],
                &[tile::<1, 2>, tile::<2, 2>, tile::<3, 2>, tile::<4, 2>, tile::<5, 2>, tile::<6, 2>],
                &[tile::<1, 3>, tile::<2, 3>, tile::<3, 3>, tile::<4, 3>],
            ];
        };
    }

    pub(super) mod f32 {
        use super::super::{MAX_VECTORS, Tile, TileFn};
        use std::arch::x86_64::*;

        #[target_feature(enable = "avx2,fma")]
        #[inline]
        fn mask(columns: usize) -> __m256i {
            _mm256_cmpgt_epi32(_mm256_set1_epi32(columns as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
        }
        tile_body!(
            #[target_feature(enable = "avx2,fma")]
            f32,
            __m256,
            8,
            _mm256_setzero_ps,
            _mm256_set1_ps,
            _mm256_loadu_ps,
            _mm256_storeu_ps,
            _mm256_fmadd_ps,
            _mm256_add_ps,
            mask,
            _mm256_maskload_ps,
            _mm256_maskstore_ps
        );
        table!(f32);
    }

    pub(super) mod f64 {
        use super::super::{MAX_VECTORS, Tile, TileFn};
        use std::arch::x86_64::*;

        #[target_feature(enable = "avx2,fma")]
        #[inline]
        fn mask(columns: usize) -> __m256i {
            _mm256_cmpgt_epi64(_mm256_set1_epi64x(columns as i64), _mm256_setr_epi64x(0, 1, 2, 3))
        }
        tile_body!(
            #[target_feature(enable = "avx2,fma")]
            f64,
            __m256d,
            4,
            _mm256_setzero_pd,
            _mm256_set1_pd,
            _mm256_loadu_pd,
            _mm256_storeu_pd,
            _mm256_fmadd_pd,
            _mm256_add_pd,
            mask,
            _mm256_maskload_pd,
            _mm256_maskstore_pd
        );
        table!(f64);
    }
}

/// Plain code over short arrays, which compilers turn into 128-bit vectors.
mod portable {
    macro_rules! portable {
        ($T:ident, $L:expr) => {
            pub(super) mod $T {
                use super::super::{MAX_VECTORS, Tile, TileFn};

                type Vector = [$T; $L];

                #[inline(always)]
                fn zero() -> Vector {
                    [0.0; $L]
                }
                #[inline(always)]
                fn splat(value: $T) -> Vector {
                    [value; $L]
                }
                #[inline(always)]
                unsafe fn load(at: *const $T) -> Vector {
                    // SAFETY: the caller promises that a whole vector is readable; an array needs no more alignment.
                    unsafe { at.cast::<Vector>().read() }
                }
                #[inline(always)]
                unsafe fn store(at: *mut $T, vector: Vector) {
                    // SAFETY: the caller promises that a whole vector is writable.
                    unsafe { at.cast::<Vector>().write(vector) }
                }
                // Not `mul_add`: without the instruction that is a call into the C library.
                #[inline(always)]
                fn multiply_add(a: Vector, b: Vector, sum: Vector) -> Vector {
                    std::array::from_fn(|lane| a[lane] * b[lane] + sum[lane])
                }
                #[inline(always)]
                fn add(a: Vector, b: Vector) -> Vector {
                    std::array::from_fn(|lane| a[lane] + b[lane])
                }
                #[inline(always)]
                fn mask(columns: usize) -> usize {
                    columns
                }
                #[inline(always)]
                unsafe fn masked_load(at: *const $T, columns: usize) -> Vector {
                    // SAFETY: the caller promises that that many elements are readable.
                    std::array::from_fn(|lane| if lane < columns { unsafe { *at.add(lane) } } else { 0.0 })
                }
                #[inline(always)]
                unsafe fn masked_store(at: *mut $T, columns: usize, vector: Vector) {
                    for (lane, value) in vector.into_iter().enumerate().take(columns) {
                        // SAFETY: the caller promises that that many elements are writable.
                        unsafe { *at.add(lane) = value };
                    }
                }
                tile_body!(
                    $T,
                    Vector,
                    $L,
                    zero,
                    splat,
                    load,
                    store,
                    multiply_add,
                    add,
                    mask,
                    masked_load,
                    masked_store
                );
                pub(in super::super) static TABLE: [&[TileFn<$T>]; MAX_VECTORS] = [
                    &[tile::<1, 1>, tile::<2, 1>, tile::<3, 1>, tile::<4, 1>],
                    &[tile::<1, 2>, tile::<2, 2>, tile::<3, 2>, tile::<4, 2>],
                    &[],
                ];
            }
        };
    }
    portable!(f32, 4);
    portable!(f64, 2);
}

macro_rules! constructor {
    ($T:ident) => {
        /// The tiles of vectors of that many bits, if this processor has them.
        #[inline]
        pub(super) fn $T(bits: u32) -> Option<Tiles<$T>> {
            let lanes = bits as usize / 8 / size_of::<$T>();
            match bits {
                #[cfg(target_arch = "x86_64")]
                512 if std::arch::is_x86_feature_detected!("avx512f") => {
                    Some(Tiles { lanes, table: &avx512::$T::TABLE })
                }
                #[cfg(target_arch = "x86_64")]
                256 if std::arch::is_x86_feature_detected!("avx2")
                    && std::arch::is_x86_feature_detected!("fma") =>
                {
                    Some(Tiles { lanes, table: &avx2::$T::TABLE })
                }
                128 => Some(Tiles { lanes, table: &portable::$T::TABLE }),
                _ => None,
            }
        }
    };
}
constructor!(f32);
constructor!(f64);
