//! The problems `trimtab tune` measures when none are named: from tiny to large, the usual shapes of each operation.

use trimtab::core::{Operation, Problem};

const MATMUL: &[&str] = &[
    "matmul:f32:1x1x1",
    "matmul:f32:2x2x2",
    "matmul:f32:4x4x4",
    "matmul:f32:8x8x8",
    "matmul:f32:13x13x13",
    "matmul:f32:16x16x16",
    "matmul:f32:24x24x24",
    "matmul:f32:32x32x32",
    "matmul:f32:48x48x48",
    "matmul:f32:64x64x64",
    "matmul:f32:96x96x96",
    "matmul:f32:100x100x100",
    "matmul:f32:128x128x128",
    "matmul:f32:192x192x192",
    "matmul:f32:256x256x256",
    "matmul:f32:384x384x384",
    "matmul:f32:512x512x512",
    "matmul:f32:768x768x768",
    "matmul:f32:1024x1024x1024",
    "matmul:f32:2048x2048x2048",
    "matmul:f32:1x64x64",
    "matmul:f32:1x1024x1024",
    "matmul:f32:1x2048x2048",
    "matmul:f32:64x1x64",
    "matmul:f32:1024x1x1024",
    "matmul:f32:2048x1x2048",
    "matmul:f32:1024x1024x1",
    "matmul:f32:8x1024x1024",
    "matmul:f32:1024x8x1024",
    "matmul:f32:1024x1024x8",
    "matmul:f32:2048x64x64",
    "matmul:f32:64x2048x64",
    "matmul:f32:64x64x2048",
    "matmul:f32:512x512x512:n,t",
    "matmul:f32:512x512x512:t,n",
    "matmul:f32:64x64x64:n,t",
    "matmul:f32:64x16x16x16",
    "matmul:f32:16x128x128x128",
    "matmul:f64:16x16x16",
    "matmul:f64:128x128x128",
    "matmul:f64:512x512x512",
    "matmul:f64:1x1024x1024",
];

const ELEMENTWISE: &[&str] = &[
    "elementwise.add:f32:256",
    "elementwise.add:f32:16384",
    "elementwise.add:f32:1048576",
    "elementwise.add:f32:16777216",
    "elementwise.mul:f32:16384",
    "elementwise.mul:f32:1048576",
    "elementwise.add:f32:1024x1024,1024",
    "elementwise.mul:f32:1024x1024,1024x1",
    "elementwise.mul:f32:1048576,1",
    "elementwise.relu:f32:16384",
    "elementwise.relu:f32:1048576",
    "elementwise.relu:f32:16777216",
    "elementwise.exp:f32:256",
    "elementwise.exp:f32:16384",
    "elementwise.exp:f32:1048576",
    "elementwise.tanh:f32:1048576",
    "elementwise.gelu:f32:16384",
    "elementwise.gelu:f32:1048576",
    "elementwise.add:f64:1048576",
    "elementwise.exp:f64:1048576",
    "elementwise.add:i32:1048576",
];

const REDUCE: &[&str] = &[
    "reduce.sum:f32:256",
    "reduce.sum:f32:16384",
    "reduce.sum:f32:1048576",
    "reduce.sum:f32:16777216",
    "reduce.sum:f32:1024x1024:axis0",
    "reduce.sum:f32:1024x1024:axis1",
    "reduce.sum:f32:64x128x64:axis1",
    "reduce.mean:f32:1024x1024:axis1",
    "reduce.max:f32:1048576",
    "reduce.max:f32:1024x1024:axis1",
    "reduce.sum:f64:1048576",
    "reduce.sum:i32:1048576",
];

const TRANSPOSE: &[&str] = &[
    "transpose:f32:16x16",
    "transpose:f32:64x64",
    "transpose:f32:512x512",
    "transpose:f32:1024x64",
    "transpose:f32:2048x2048",
    "transpose:f32:4096x4096",
    "transpose:f32:8x512x64:0.2.1",
    "transpose:f32:16x128x8x64:0.2.1.3",
    "transpose:f64:1024x1024",
];

const FUSED: &[&str] = &[
    "fused.relu(add(mul(a,#0),b)):f32:256x1024:all,columns",
    "fused.tanh(add(mul(a,b),#0)):f32:1x1048576:all,all",
    "fused.mul(sub(a,b),sub(a,b)):f32:1x4194304:all,all:sum",
    "fused.exp(sub(a,b)):f32:512x1024:all,rows:sum.axis1",
    "fused.relu(add(@,c)):f32:256x256x256:n,n,columns",
];

/// The problems of an operation.
fn texts(operation: Operation) -> &'static [&'static str] {
    match operation {
        Operation::Matmul => MATMUL,
        Operation::Elementwise => ELEMENTWISE,
        Operation::Reduce => REDUCE,
        Operation::Transpose => TRANSPOSE,
        Operation::Fused => FUSED,
        Operation::Custom => &[],
    }
}

/// Every problem of the set, operation by operation.
pub fn problems() -> Vec<Problem> {
    let all = Operation::ALL.into_iter().flat_map(texts);
    all.filter_map(|text| text.parse().ok()).collect()
}

/// Whether a problem's text begins with these words: `reduce` or `reduce.sum`.
pub fn is_of(problem: &str, operation: &str) -> bool {
    problem.strip_prefix(operation).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_representative_problem_can_be_read_and_is_there_once() {
        let all: usize = Operation::ALL.iter().map(|&operation| texts(operation).len()).sum();
        let mut seen: Vec<String> = problems().iter().map(Problem::to_string).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), all);
    }

    #[test]
    fn at_least_thirty_products_of_f32_are_tuned() {
        assert!(MATMUL.iter().filter(|text| is_of(text, "matmul") && text.contains(":f32:")).count() >= 30);
    }
}
