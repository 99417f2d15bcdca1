//! The walk over two-dimensional tiles of a permutation: the axis along which the operand is contiguous against the axis
//! along which the result is.

use super::Axes;
use crate::args::Typed;
use crate::disjoint::Disjoint;
use crate::pool::MAX_THREADS;
use trimtab_core::MAX_RANK;

/// One tile: `wide` elements contiguous in the operand, `high` contiguous in the result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile<T> {
    /// Its first element in the operand; rows are `from_stride` apart.
    pub(super) from: *const T,
    pub(super) from_stride: usize,
    /// Its first element in the result; rows are `to_stride` apart.
    pub(super) to: *mut T,
    pub(super) to_stride: usize,
    /// Elements along the operand's contiguous axis.
    pub(super) wide: usize,
    /// Elements along the result's contiguous axis.
    pub(super) high: usize,
}

/// Parts per thread, so that a late thread does not hold up the rest.
const PARTS_PER_THREAD: usize = 4;

/// Calls `body` once for every tile on at most `threads` threads. `typed` must have the lengths of the problem the axes are of.
/// The tiles lie within the slices and no two overlap in the result; `body` may use nothing beyond its tile.
pub(super) fn for_tiles<T: Send + Sync + Copy>(
    axes: &Axes,
    typed: Typed<'_, T>,
    tile: usize,
    threads: u32,
    body: impl Fn(Tile<T>) + Sync,
) {
    if typed.out.is_empty() || axes.rank < 2 {
        return;
    }
    let last = axes.rank - 1;
    // The operand's contiguous axis, as an axis of the result.
    let wide_axis = (0..axes.rank).find(|&axis| axes.from[axis] == 1).unwrap_or(0);
    let (mut order, mut others) = ([0; MAX_RANK], 0);
    for axis in (0..last).filter(|&axis| axis != wide_axis) {
        order[others] = axis;
        others += 1;
    }
    let order = &order[..others];
    let planes: usize = order.iter().map(|&axis| axes.dims[axis]).product();
    let (wide, high) = (axes.dims[wide_axis], axes.dims[last]);
    let (across, down) = (wide.div_ceil(tile), high.div_ceil(tile));
    let tiles = planes * across * down;
    let (input, out) = (typed.lhs, Disjoint::new(typed.out));
    // Of a point that names more threads than there can be, products of tiles and parts would wrap, and parts overlap.
    let most = threads.min(MAX_THREADS) as usize * PARTS_PER_THREAD;
    let parts = if threads > 1 { tiles.min(most) } else { 1 };
    typed.pool.run(threads, parts, &|part| {
        let range = tiles * part / parts..tiles * (part + 1) / parts;
        let mut plane = (usize::MAX, (0, 0));
        for index in range {
            // Along the result first: its lines are finished while they are in the cache.
            let (down_index, rest) = (index % down, index / down);
            let (across_index, plane_index) = (rest % across, rest / across);
            if plane.0 != plane_index {
                plane = (plane_index, axes.offsets(order, plane_index));
            }
            let (x, y) = (across_index * tile, down_index * tile);
            let (from, to) = plane.1;
            let from = from + x + y * axes.from[last];
            let to = to + x * axes.to[wide_axis] + y;
            body(Tile {
                // SAFETY: the offset of an element of the operand.
                from: unsafe { input.as_ptr().add(from) },
                from_stride: axes.from[last],
                // SAFETY: the offset of an element of the result.
                to: unsafe { out.as_mut_ptr().add(to) },
                to_stride: axes.to[wide_axis],
                wide: tile.min(wide - x),
                high: tile.min(high - y),
            });
        }
    });
}

/// A tile element by element.
///
/// # Safety
/// The tile must lie within live slices, and nobody else may use its part of the result.
#[inline(always)]
pub(super) unsafe fn copy_tile<T: Copy>(tile: Tile<T>) {
    for x in 0..tile.wide {
        for y in 0..tile.high {
            // SAFETY: within the tile.
            unsafe { *tile.to.add(x * tile.to_stride + y) = *tile.from.add(x + y * tile.from_stride) };
        }
    }
}
