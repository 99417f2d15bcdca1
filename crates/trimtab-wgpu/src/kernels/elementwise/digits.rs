//! Positions as digits, one an axis: found by division once, then advanced by adding the digits of a step.

/// The statements that find the digits of `at`, for axes in parameters from row 2 on.
pub(super) fn digits(rank: usize) -> String {
    let mut text = "    var rest = at;\n".to_string();
    for axis in (1..rank).rev() {
        let size = format!("params[{}].x", axis + 2);
        text.push_str(&format!("    var digit{axis} = rest % {size};\n    rest = rest / {size};\n"));
    }
    text + "    var digit0 = rest;"
}

/// The statements that add the step's digits; each axis but the outermost carries at most once.
pub(super) fn advance(rank: usize) -> String {
    let mut text = String::new();
    for axis in (0..rank).rev() {
        let row = axis + 2;
        text.push_str(&format!("        digit{axis} += params[{row}].w;\n"));
        if axis > 0 {
            text.push_str(&format!(
                "        if digit{axis} >= params[{row}].x {{\n            digit{axis} -= params[{row}].x;\n            \
                 digit{} += 1u;\n        }}\n",
                axis - 1
            ));
        }
    }
    text
}

/// The offset of the digits' position, by strides that are that part of the axes' parameters.
pub(crate) fn offset(rank: usize, part: &str) -> String {
    let term = |axis: usize| format!("digit{axis} * params[{}].{part}", axis + 2);
    (0..rank).map(term).collect::<Vec<_>>().join(" + ")
}

/// A step's digits over axes of these sizes, outermost first; the outermost takes what is left.
pub(super) fn step_digits(sizes: &[u64], step: u32) -> Vec<u32> {
    let mut rest = u64::from(step);
    let mut digits = vec![0; sizes.len()];
    for axis in (0..sizes.len()).rev() {
        let size = sizes[axis].max(1);
        digits[axis] = if axis == 0 { rest } else { rest % size } as u32;
        rest /= size;
    }
    digits
}
