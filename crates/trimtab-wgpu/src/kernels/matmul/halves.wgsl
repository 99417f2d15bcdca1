override BM: u32;
override BN: u32;
override BK: u32;
// Invocations along a row and along a column of the block.
override WX: u32;
override WY: u32;

// Four rows, or four columns, of one inner index each, 256 times as large.
var<workgroup> left: array<vec4<f16>, BK * BM / 4u>;
var<workgroup> right: array<vec4<f16>, BK * BN / 4u>;
$KEPT
@compute @workgroup_size(WX, WY)
$MAIN
$TILE
    let first_row = tile.row * BM;
    let first_column = tile.column * BN;
    if (invocation == 0u) {
        atomicStore(&odd, 0u);
    }
    workgroupBarrier();
$SUMS
    for (var first = 0u; first < inner; first += BK) {
        let turn = first / BK + 1u;
$LEFT$RIGHT        workgroupBarrier();
        if (atomicLoad(&odd) == turn) {
            for (var at = first; at < min(first + BK, inner); at += 1u) {
$WHOLE            }
        } else {
            for (var at = 0u; at < BK; at += $UNROLLu) {
$ROUND            }
        }
        workgroupBarrier();
    }
$STORES}
