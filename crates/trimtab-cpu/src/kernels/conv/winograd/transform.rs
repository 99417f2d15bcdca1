//! The transforms of Winograd's convolution along one axis, for tiles of 2 (points 0, 1, -1, ∞) and of 4 (0, 1, -1, 2, -2, ∞).

use crate::simd::FloatVector;

/// An input tile of `N` elements: `Bᵀ d`.
#[inline(always)]
fn input<T: Copy, V: FloatVector<T>, const N: usize>(d: [V; N], constant: impl Fn(f64) -> V) -> [V; N] {
    let mut v = d;
    if N == 4 {
        v[0] = d[0].sub(d[2]);
        v[1] = d[1].add(d[2]);
        v[2] = d[2].sub(d[1]);
        v[3] = d[1].sub(d[3]);
    } else {
        let (two, four, five) = (constant(2.0), constant(4.0), constant(5.0));
        let (even, odd) = (d[4].sub(four.mul(d[2])), d[3].sub(four.mul(d[1])));
        let (near, across) = (d[4].sub(d[2]), two.mul(d[3].sub(d[1])));
        v[0] = four.mul(d[0]).sub(five.mul(d[2])).add(d[4]);
        v[1] = even.add(odd);
        v[2] = even.sub(odd);
        v[3] = near.add(across);
        v[4] = near.sub(across);
        v[5] = four.mul(d[1]).sub(five.mul(d[3])).add(d[5]);
    }
    v
}

/// The results of a tile of `N` products: `Aᵀ m`, of which the first `N - 2` count.
#[inline(always)]
fn output<T: Copy, V: FloatVector<T>, const N: usize>(m: [V; N], constant: impl Fn(f64) -> V) -> [V; N] {
    let mut y = m;
    if N == 4 {
        y[0] = m[0].add(m[1].add(m[2]));
        y[1] = m[1].sub(m[2]).sub(m[3]);
    } else {
        let (two, four, eight) = (constant(2.0), constant(4.0), constant(8.0));
        let (near, near_off) = (m[1].add(m[2]), m[1].sub(m[2]));
        let (far, far_off) = (m[3].add(m[4]), m[3].sub(m[4]));
        y[0] = m[0].add(near).add(far);
        y[1] = near_off.add(two.mul(far_off));
        y[2] = near.add(four.mul(far));
        y[3] = near_off.add(eight.mul(far_off)).add(m[5]);
    }
    y
}

/// Three weights: `G g`.
#[inline(always)]
fn weights<const N: usize>(g: [f64; 3]) -> [f64; N] {
    let mut u = [0.0; N];
    if N == 4 {
        let (outer, middle) = ((g[0] + g[2]) / 2.0, g[1] / 2.0);
        u[0] = g[0];
        u[1] = outer + middle;
        u[2] = outer - middle;
        u[3] = g[2];
    } else {
        let (outer, far) = (-(g[0] + g[2]) / 6.0, g[0] / 24.0 + g[2] / 6.0);
        u[0] = g[0] / 4.0;
        u[1] = outer - g[1] / 6.0;
        u[2] = outer + g[1] / 6.0;
        u[3] = far + g[1] / 12.0;
        u[4] = far - g[1] / 12.0;
        u[5] = g[2];
    }
    u
}

/// Transforms an input tile of `N × N`: `load(row, column)`, `store(row * N + column, value)`.
#[inline(always)]
pub(super) fn inputs<T: Copy, V: FloatVector<T>, const N: usize>(
    zero: V,
    constant: impl Fn(f64) -> V,
    load: impl Fn(usize, usize) -> V,
    mut store: impl FnMut(usize, V),
) {
    let mut columns = [[zero; N]; N];
    for (j, column) in columns.iter_mut().enumerate() {
        for (i, d) in column.iter_mut().enumerate() {
            *d = load(i, j);
        }
        *column = input(*column, &constant);
    }
    for i in 0..N {
        let mut row = [zero; N];
        for (to, column) in row.iter_mut().zip(&columns) {
            *to = column[i];
        }
        let row = input(row, &constant);
        for (j, v) in row.into_iter().enumerate() {
            store(i * N + j, v);
        }
    }
}

/// Transforms the products of a tile back: `load(row * N + column)`, `store(row, column, value)` for the `N - 2` of each.
#[inline(always)]
pub(super) fn outputs<T: Copy, V: FloatVector<T>, const N: usize>(
    zero: V,
    constant: impl Fn(f64) -> V,
    load: impl Fn(usize) -> V,
    mut store: impl FnMut(usize, usize, V),
) {
    let mut columns = [[zero; N]; N];
    for (j, column) in columns.iter_mut().enumerate() {
        for (i, m) in column.iter_mut().enumerate() {
            *m = load(i * N + j);
        }
        *column = output(*column, &constant);
    }
    for i in 0..N - 2 {
        let mut row = [zero; N];
        for (to, column) in row.iter_mut().zip(&columns) {
            *to = column[i];
        }
        let row = output(row, &constant);
        for (j, y) in row.into_iter().enumerate().take(N - 2) {
            store(i, j, y);
        }
    }
}

/// The transform of 3 × 3 weights, in `f64`: the kernel rounds each once.
#[inline(always)]
pub(super) fn of_weights<const N: usize>(g: [f64; 9]) -> [[f64; N]; N] {
    let mut columns = [[0.0; N]; 3];
    for (j, column) in columns.iter_mut().enumerate() {
        *column = weights([g[j], g[3 + j], g[6 + j]]);
    }
    let mut all = [[0.0; N]; N];
    for (i, row) in all.iter_mut().enumerate() {
        *row = weights([columns[0][i], columns[1][i], columns[2][i]]);
    }
    all
}
