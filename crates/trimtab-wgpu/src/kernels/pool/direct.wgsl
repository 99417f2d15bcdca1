override WIDTH: u32 = 64u;

// Row 0: results, results of an invocation, channels behind the space, the result's width; 1: its height and depth; 2: the window;
// 3: the operand's space; 4: stride; 5: padding; 6: dilation.
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 7>;

// With one more element, of which so many were seen before.
fn with_one(before: A, value: A, seen: u32) -> A {
    $STEP
}

fn pooled(at: u32) -> T {
    let channel = at % params[0].z;
    var rest = at / params[0].z;
    let x = rest % params[0].w;
    rest = rest / params[0].w;
    let y = rest % params[1].x;
    rest = rest / params[1].x;
    let z = rest % params[1].y;
    let image = rest / params[1].y * params[3].x;
    var value = A();
    var seen = 0u;
    for (var a = 0u; a < params[2].x; a++) {
        let plane = z * params[4].x + a * params[6].x;
        if plane < params[5].x || plane - params[5].x >= params[3].x {
            continue;
        }
        for (var b = 0u; b < params[2].y; b++) {
            let row = y * params[4].y + b * params[6].y;
            if row < params[5].y || row - params[5].y >= params[3].y {
                continue;
            }
            let line = ((image + plane - params[5].x) * params[3].y + row - params[5].y) * params[3].z;
            for (var c = 0u; c < params[2].z; c++) {
                let column = x * params[4].z + c * params[6].z;
                if column >= params[5].z && column - params[5].z < params[3].z {
                    value = with_one(value, A(operand[(line + column - params[5].z) * params[0].z + channel]), seen);
                    seen++;
                }
            }
        }
    }
    return T($LAST);
}

@compute @workgroup_size(WIDTH)
$MAIN
    for (var item = 0u; item < params[0].y; item++) {
        let at = (number * params[0].y + item) * WIDTH + invocation;
        if at < params[0].x {
            result[at] = pooled(at);
        }
    }
}
