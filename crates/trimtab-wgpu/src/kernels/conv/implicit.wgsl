override BM: u32;
override BN: u32;
override BK: u32;
// Invocations along the places and along the channels of the block.
override WX: u32;
override WY: u32;

// Four channels of the result, or four places, of one inner index each.
var<workgroup> left: array<$FOUR, BK * BM / 4u>;
var<workgroup> right: array<$FOUR, BK * BN / 4u>;

// Row 0: channels of a group of the result, places, inner steps, blocks; 1: blocks along the places, over the channels, elements of a
// plane and of the whole space of the result; 2: the window, channels of a group of the operand; 3: the operand's space, the result's
// width; 4: stride; 5: padding; 6: dilation; 7: elements from one image, channel, plane and row of the operand to the next;
// 8: from one element; and from one image, channel and place of the result to the next.

// Where the window of a place begins, padding counted, and its image. Places behind the last stand for the last.
fn place_of(number: u32) -> vec4<u32> {
    let place = min(number, params[0].y - 1u);
    let at = place % params[1].w;
    let x = at % params[3].w * params[4].z;
    let y = at % params[1].z / params[3].w * params[4].y;
    let z = at / params[1].z * params[4].x;
    return vec4<u32>(x, y, z, place / params[1].w * params[7].x);
}

$FUNCTIONS@compute @workgroup_size(WX, WY)
$MAIN
    // The same for all invocations of a workgroup, so that they all meet at the barriers.
    if number >= params[0].w {
        return;
    }
    let first_column = number % params[1].x * BN;
    let first_row = number / params[1].x % params[1].y * BM;
    let group_number = number / (params[1].x * params[1].y);
    let inner = params[0].z;
    let taps = params[2].x * params[2].y * params[2].z;
    let four = invocation % (BN / 4u);
$PLACES$SUMS
$BEGIN    for (var first = 0u; first < inner; first += BK) {
$TURN        for (var unit = invocation; unit < BK * (BM / 4u); unit += WX * WY) {
            let at = first + unit % BK;
            let row = first_row + unit / BK * 4u;
            var line = vec4<A>();
            if at < inner {
                let begin = group_number * params[0].x * inner + at;
                let last = params[0].x - 1u;
                line.x = A(weights[begin + min(row, last) * inner]);
                line.y = A(weights[begin + min(row + 1u, last) * inner]);
                line.z = A(weights[begin + min(row + 2u, last) * inner]);
                line.w = A(weights[begin + min(row + 3u, last) * inner]);
            }
            left[unit % BK * (BM / 4u) + unit / BK] = $LINE;
        }
        for (var depth = invocation / (BN / 4u); depth < BK; depth += WX * WY / (BN / 4u)) {
            let at = first + depth;
            var line = vec4<A>();
            if at < inner {
$FIND                let offset = vec3<u32>(tap / (params[2].y * params[2].z), tap / params[2].z % params[2].y, tap % params[2].z)
                    * params[6].xyz;
                let base = (group_number * params[2].w + channel) * params[7].y;
$LOADS            }
            right[depth * (BN / 4u) + four] = $LINE;
        }
        workgroupBarrier();
$STEPS        workgroupBarrier();
    }
$STORES}
