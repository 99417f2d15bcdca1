// What every product has: T is the stored element, A the type sums are kept in, L, R and P what one index of a buffer
// holds: an element or four in a row.
@group(0) @binding(0) var<storage, read> lhs: array<L>;
@group(0) @binding(1) var<storage, read> rhs: array<R>;
@group(0) @binding(2) var<storage, read_write> product: array<P>;
// m, n, k, workgroups
// first element of lhs, of rhs, of the product; elements from one row of the product to the next
// elements from one matrix to the next: lhs, rhs, product; tiles along a row
// elements from one row of lhs to the next, one inner index of lhs, one inner index of rhs, one column of rhs
// tiles along a column
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 5>;

struct Tile {
    row: u32,
    column: u32,
    // First element of this product's matrices.
    left: u32,
    right: u32,
    result: u32,
}

fn tile_of(number: u32) -> Tile {
    let rest = number / params[2].w;
    let matrix = rest / params[4].x;
    var tile: Tile;
    tile.column = number % params[2].w;
    tile.row = rest % params[4].x;
    tile.left = params[1].x + matrix * params[2].x;
    tile.right = params[1].y + matrix * params[2].y;
    tile.result = params[1].z + matrix * params[2].z;
    return tile;
}
