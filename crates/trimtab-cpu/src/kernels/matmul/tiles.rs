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

/// By vectors - 1, then rows - 1.
type Table<T> = [&'static [TileFn<T>]; MAX_VECTORS];

/// The tiles of one instruction set.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernels) struct Tiles<T: 'static> {
    lanes: usize,
    table: &'static Table<T>,
}

impl<T> Tiles<T> {
    /// Those of vectors of that many bits.
    #[inline]
    pub(super) fn of(bits: u32, table: &'static Table<T>) -> Tiles<T> {
        Tiles { lanes: bits as usize / 8 / size_of::<T>(), table }
    }

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

/// The tiles of an instruction set, by rows for each number of vectors.
macro_rules! table {
    // 32 registers: 12 × 2 and 8 × 3 sums leave room for the row of `rhs`. Taller tiles that are one vector wide bring
    // nothing, 12 sums already hide the latency of 4 cycles.
    (avx512) => { table!(1 2 3 4 5 6 7 8 9 10 11 12; 1 2 3 4 5 6 7 8 9 10 11 12; 1 2 3 4 5 6 7 8) };
    // 16 registers: 6 × 2 and 4 × 3 sums.
    (avx2) => { table!(1 2 3 4 5 6 7 8; 1 2 3 4 5 6; 1 2 3 4) };
    (portable) => { table!(1 2 3 4; 1 2 3 4;) };
    ($($one:literal)*; $($two:literal)*; $($three:literal)*) => {
        [&[$(tile::<$one, 1>),*], &[$(tile::<$two, 2>),*], &[$(tile::<$three, 3>),*]]
    };
}

macro_rules! tiles {
    ($set:ident, $vectors:ident, $T:ty, $(#[$feature:meta])?) => {
        use super::super::vectors::$vectors as v;
        use super::{Table, Tile};

        /// `UNIT`: rows of the left operand are neighbours, as in a packed panel; the addresses are then constants.
        /// `EDGE`: the last vector is not full.
        $(#[$feature])?
        #[inline]
        unsafe fn body<const MR: usize, const NV: usize, const UNIT: bool, const EDGE: bool>(tile: &Tile<$T>) {
            let Tile { k, mut lhs, lhs_row, lhs_col, mut rhs, rhs_row, out, out_row, cols, add } = *tile;
            let lhs_row = if UNIT { 1 } else { lhs_row };
            let mask = v::mask(if EDGE { cols - (NV - 1) * v::LANES } else { v::LANES });
            let mut sums = [[v::zero(); NV]; MR];
            // SAFETY: step p reads row p of `rhs`, of the last vector only the columns in the mask, and column p of `lhs`,
            // which the caller of the tile promises to be readable; pointers move past the end without being read.
            unsafe {
                for _ in 0..k {
                    let mut row = [v::zero(); NV];
                    for v in 0..NV {
                        let at = rhs.add(v * v::LANES);
                        row[v] = if EDGE && v == NV - 1 { v::masked_load(at, mask) } else { v::load(at) };
                    }
                    for i in 0..MR {
                        let factor = v::splat(*lhs.add(i * lhs_row));
                        for v in 0..NV {
                            sums[i][v] = v::fma(factor, row[v], sums[i][v]);
                        }
                    }
                    lhs = lhs.wrapping_add(lhs_col);
                    rhs = rhs.wrapping_add(rhs_row);
                }
                for i in 0..MR {
                    for v in 0..NV {
                        let at = out.add(i * out_row + v * v::LANES);
                        if EDGE && v == NV - 1 {
                            let sum = if add { v::add(sums[i][v], v::masked_load(at, mask)) } else { sums[i][v] };
                            v::masked_store(at, mask, sum);
                        } else {
                            let sum = if add { v::add(sums[i][v], v::load(at)) } else { sums[i][v] };
                            v::store(at, sum);
                        }
                    }
                }
            }
        }

        $(#[$feature])?
        unsafe fn tile<const MR: usize, const NV: usize>(tile: &Tile<$T>) {
            // SAFETY: as promised by the caller; the flags say what the tile says.
            unsafe {
                match (tile.lhs_row == 1, tile.cols == NV * v::LANES) {
                    (true, true) => body::<MR, NV, true, false>(tile),
                    (true, false) => body::<MR, NV, true, true>(tile),
                    (false, true) => body::<MR, NV, false, false>(tile),
                    (false, false) => body::<MR, NV, false, true>(tile),
                }
            }
        }

        pub(in super::super) const TABLE: Table<$T> = table!($set);
    };
}
super::vectors::for_each_set!(tiles);
