//! The two inner loops of a matrix times a vector: dot products of rows that lie together, and sums of scaled rows. One
//! body each, instantiated for each instruction set; reachable only through [`Lines`].

/// Several rows of a matrix that lie together in memory, and the vector that goes with them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows<T> {
    /// First element and elements from row to row.
    pub(super) start: *const T,
    pub(super) step: usize,
    /// Elements of a row.
    pub(super) len: usize,
    /// Dot products: the other factor, `len` elements. Scaled sums: one factor a row.
    pub(super) vector: *const T,
    /// Dot products: one result a row. Scaled sums: `len` results.
    pub(super) out: *mut T,
    /// Scaled sums: whether to add to `out` instead of overwriting it.
    pub(super) add: bool,
}

/// Computes as many rows as the function is made for.
///
/// # Safety
/// Everything [`Rows`] describes must be readable, and `out` writable and unshared, for as many rows as the function is made
/// for. The instruction set must be present, which holding the [`Lines`] the function came from proves.
pub(super) type RowsFn<T> = unsafe fn(&Rows<T>);

/// The loops of one instruction set.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernels) struct Lines<T: 'static> {
    dot: [RowsFn<T>; 3],
    scaled: [RowsFn<T>; 4],
}

impl<T> Lines<T> {
    /// Rows the dot-product loops are made for.
    pub(super) const DOT_ROWS: [usize; 3] = [1, 2, 4];
    /// Rows the scaled-sum loops are made for.
    pub(super) const SCALED_ROWS: [usize; 4] = [1, 2, 4, 8];

    /// Dot products of the largest number of rows that is at most `rows` (at least 1): (rows, function).
    #[inline]
    pub(super) fn dot(&self, rows: usize) -> (usize, RowsFn<T>) {
        let at = Self::DOT_ROWS.iter().rposition(|&made_for| made_for <= rows).unwrap_or(0);
        (Self::DOT_ROWS[at], self.dot[at])
    }

    /// The scaled sum of the largest number of rows that is at most `rows` (at least 1): (rows, function).
    #[inline]
    pub(super) fn scaled(&self, rows: usize) -> (usize, RowsFn<T>) {
        let at = Self::SCALED_ROWS.iter().rposition(|&made_for| made_for <= rows).unwrap_or(0);
        (Self::SCALED_ROWS[at], self.scaled[at])
    }
}

impl<T: Copy> Lines<T> {
    /// Dot products of a vector with as many rows of a matrix as there are results. Rows that are not there have none.
    pub(in crate::kernels) fn dots(&self, matrix: &[T], vector: &[T], out: &mut [T]) {
        let (len, count) = (vector.len(), out.len().min(matrix.len() / vector.len().max(1)));
        let mut row = 0;
        while row < count {
            let (rows, dot) = self.dot(count - row);
            let start = matrix[row * len..].as_ptr();
            let out = out[row..].as_mut_ptr();
            // SAFETY: so many rows, and places for results, are there; holding this proves the instruction set.
            unsafe { dot(&Rows { start, step: len, len, vector: vector.as_ptr(), out, add: false }) };
            row += rows;
        }
    }

    /// The sum of a matrix's rows, each times its weight. Rows that are not there are not added.
    pub(in crate::kernels) fn weighted(&self, matrix: &[T], weights: &[T], out: &mut [T]) {
        let (len, count) = (out.len(), weights.len().min(matrix.len() / out.len().max(1)));
        let mut row = 0;
        while row < count {
            let (rows, scaled) = self.scaled(count - row);
            let (start, vector) = (matrix[row * len..].as_ptr(), weights[row..].as_ptr());
            // SAFETY: so many rows, and weights, are there; holding this proves the instruction set.
            unsafe { scaled(&Rows { start, step: len, len, vector, out: out.as_mut_ptr(), add: row > 0 }) };
            row += rows;
        }
    }
}

macro_rules! lines {
    ($set:ident, $vectors:ident, $T:ty, $(#[$feature:meta])?) => {
        use super::super::vectors::$vectors as v;
        use super::{Lines, Rows};

        /// `R` rows that share the loads of the vector, `S` sums a row against the latency of the additions.
        $(#[$feature])?
        unsafe fn dot<const R: usize, const S: usize>(rows: &Rows<$T>) {
            let Rows { start, step, len, vector, out, .. } = *rows;
            let mut sums = [[v::zero(); S]; R];
            let mut at = 0;
            // SAFETY: all elements read are below `len` in one of the `R` rows or in the vector.
            unsafe {
                while at + S * v::LANES <= len {
                    for s in 0..S {
                        let factor = v::load(vector.add(at + s * v::LANES));
                        for r in 0..R {
                            sums[r][s] = v::fma(v::load(start.add(r * step + at + s * v::LANES)), factor, sums[r][s]);
                        }
                    }
                    at += S * v::LANES;
                }
                while at + v::LANES <= len {
                    let factor = v::load(vector.add(at));
                    for r in 0..R {
                        sums[r][0] = v::fma(v::load(start.add(r * step + at)), factor, sums[r][0]);
                    }
                    at += v::LANES;
                }
            }
            for r in 0..R {
                let mut lanes = [[0.0; v::LANES]; S];
                for s in 0..S {
                    // SAFETY: the array has the size of a vector.
                    unsafe { v::store(lanes[s].as_mut_ptr(), sums[r][s]) };
                }
                let mut total: [$T; v::LANES] = std::array::from_fn(|lane| lanes.iter().map(|lanes| lanes[lane]).sum());
                let mut half = v::LANES / 2;
                while half > 0 {
                    for lane in 0..half {
                        total[lane] += total[lane + half];
                    }
                    half /= 2;
                }
                let mut sum = total[0];
                for tail in at..len {
                    // SAFETY: tail < len.
                    sum += unsafe { *start.add(r * step + tail) * *vector.add(tail) };
                }
                // SAFETY: there is a result for each of the `R` rows.
                unsafe { *out.add(r) = sum };
            }
        }

        $(#[$feature])?
        unsafe fn scaled<const R: usize>(rows: &Rows<$T>) {
            let Rows { start, step, len, vector, out, add } = *rows;
            // SAFETY: there is a factor for each of the `R` rows.
            let factors: [$T; R] = std::array::from_fn(|r| unsafe { *vector.add(r) });
            let mut wide = [v::zero(); R];
            for r in 0..R {
                wide[r] = v::splat(factors[r]);
            }
            let mut at = 0;
            // SAFETY: all elements touched are below `len` in one of the `R` rows or in the result.
            unsafe {
                while at + v::LANES <= len {
                    let mut sum = if add { v::load(out.add(at)) } else { v::zero() };
                    for r in 0..R {
                        sum = v::fma(v::load(start.add(r * step + at)), wide[r], sum);
                    }
                    v::store(out.add(at), sum);
                    at += v::LANES;
                }
                for tail in at..len {
                    let mut sum = if add { *out.add(tail) } else { 0.0 };
                    for r in 0..R {
                        sum += *start.add(r * step + tail) * factors[r];
                    }
                    *out.add(tail) = sum;
                }
            }
        }

        pub(in super::super) const LINES: Lines<$T> = Lines {
            dot: [dot::<1, 4>, dot::<2, 4>, dot::<4, 2>],
            scaled: [scaled::<1>, scaled::<2>, scaled::<4>, scaled::<8>],
        };
    };
}
super::vectors::for_each_set!(lines);
