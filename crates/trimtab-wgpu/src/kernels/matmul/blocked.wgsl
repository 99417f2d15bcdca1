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
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let number = group.y * groups.x + group.x;
    if (number >= params[0].w) {
        return;
    }
    let tile = tile_of(number);
    let rows = params[0].x;
    let columns = params[0].y;
    let inner = params[0].z;
    let first_row = tile.row * BM;
    let first_column = tile.column * BN;
    let invocation = local.y * WX + local.x;
$SUMS
    for (var first = 0u; first < inner; first += BK) {
$LEFT$RIGHT        workgroupBarrier();
        for (var at = 0u; at < BK; at += $UNROLLu) {
$ROUND        }
        workgroupBarrier();
    }
$STORES}
