// An invocation has a query in registers, a workgroup shares blocks of keys and values. What was summed before is corrected when a larger
// score turns up.
override WIDTH: u32 = 64u;
const BLOCK: u32 = $BLOCKu;
const DEPTH: u32 = $DEPTHu;
const SPAN: u32 = $SPANu;

@group(0) @binding(0) var<storage, read> queries: array<S>;
@group(0) @binding(1) var<storage, read> keys: array<S>;
@group(0) @binding(2) var<storage, read> values: array<S>;
@group(0) @binding(3) var<storage, read_write> output: array<S>;
// Queries, keys, workgroups of a head, keys that the first query sees; the factor of scores, whether causal.
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 2>;

var<workgroup> some_keys: array<vec4<f32>, BLOCK * DEPTH>;
var<workgroup> some_values: array<vec4<f32>, BLOCK * SPAN>;

@compute @workgroup_size(WIDTH)
$MAIN
    // Workgroups beyond the last head have nothing to do, all of them alike.
    let head = number / params[0].z;
    if (head >= params[1].z) {
        return;
    }
    let row = number % params[0].z * WIDTH + invocation;
    let there = row < params[0].x;
    let count = params[0].y;
    let factor = bitcast<f32>(params[1].x);
    var seen = count;
    if (params[1].y == 1u) {
        seen = min(count, params[0].w + row);
    }
    let start = (head * params[0].x + row) * DEPTH;
$LOAD
    var most = -3.4e38;
    var sum = 0.0;
    var odd = false;
    var what = 0.0;
    for (var begin = 0u; begin < count; begin += BLOCK) {
        for (var at = invocation; at < BLOCK * DEPTH; at += WIDTH) {
            if (begin + at / DEPTH < count) {
                some_keys[at] = vec4<f32>(keys[(head * count + begin) * DEPTH + at]);
            }
        }
        for (var at = invocation; at < BLOCK * SPAN; at += WIDTH) {
            if (begin + at / SPAN < count) {
                some_values[at] = vec4<f32>(values[(head * count + begin) * SPAN + at]);
            }
        }
        workgroupBarrier();
        if (there) {
            let some = min(BLOCK, select(0u, seen - begin, seen > begin));
            for (var key = 0u; key < some; key++) {
                let k = key * DEPTH;
                let score = factor * ($SCORE);
                if ((bitcast<u32>(score) & 0x7fffffffu) > 0x7f800000u) {
                    odd = true;
                    what = score;
                    continue;
                }
                if (score > most) {
                    let before = exp(max(most - score, -104.0));
                    sum *= before;
$CORRECT
                    most = score;
                }
                let weight = exp(max(score - most, -104.0));
                sum += weight;
                let v = key * SPAN;
$ADD
            }
        }
        workgroupBarrier();
    }
    if (!there) {
        return;
    }
    let end = (head * params[0].x + row) * SPAN;
    if (odd) {
$ODD
        return;
    }
    let by = 1.0 / max(sum, 1.0);
$STORE
}
