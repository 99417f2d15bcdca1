override WIDTH: u32 = 64u;

// Row 0: blocks, blocks along a row, width and height of the result; 1: its depth, blocks over the channels of a group, groups, channels
// of a group of the result; 2: the window, channels of a group of the operand; 3: the operand's space; 4: stride; 5: padding;
// 6: dilation; 7: elements from one image, channel, plane and row of the operand to the next; 8: from one element, and of the
// weights from one output, channel and element of the window to the next; 9 and 10: as 7 and 8 for the result.
@compute @workgroup_size(WIDTH)
$MAIN
    var rest = number * WIDTH + invocation;
    if rest >= params[0].x {
        return;
    }
$FIND
    let first = block * $CHANNELSu;
    let first_output = group_number * params[1].w;
    let x = column * $PLACESu;
    let image = rest * params[7].x + group_number * params[2].w * params[7].y;
$OUTPUTS$SUMS
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
            let line = image + (plane - params[5].x) * params[7].z + (row - params[5].y) * params[7].w;
            for (var c = 0u; c < params[2].z; c++) {
$STARTS                var weight = ((a * params[2].y + b) * params[2].z + c) * params[8].w;
                for (var channel = 0u; channel < params[2].w; channel++) {
$LOADS$ROUND                    weight += params[8].z;
                }
            }
        }
    }
    let to = rest * params[9].x + z * params[9].z + y * params[9].w;
$STORES}
