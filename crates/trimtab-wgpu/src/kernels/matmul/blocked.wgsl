override BM: u32;
override BN: u32;
override BK: u32;
// Invocations along a row and along a column of the block.
override WX: u32;
override WY: u32;

// Four rows, or four columns, of one inner index each.
var<workgroup> left: array<vec4<A>, BK * BM / 4u>;
var<workgroup> right: array<vec4<A>, BK * BN / 4u>;

@compute @workgroup_size(WX, WY)
$MAIN
$TILE
    let first_row = tile.row * BM;
    let first_column = tile.column * BN;
$SUMS
    for (var first = 0u; first < inner; first += BK) {
$LEFT$RIGHT        workgroupBarrier();
        for (var at = 0u; at < BK; at += $UNROLLu) {
$ROUND        }
        workgroupBarrier();
    }
$STORES}
