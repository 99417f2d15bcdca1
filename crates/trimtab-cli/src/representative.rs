//! The problems `trimtab tune` measures when none are named: from tiny to large, the usual shapes of each operation.

use trimtab::Problem;

/// Operation and type, with the sizes and layouts of each problem.
const PROBLEMS: [(&str, &str); 62] = [
    ("matmul:f32", "1x1x1 2x2x2 4x4x4 8x8x8 13x13x13 16x16x16 24x24x24 32x32x32 48x48x48 64x64x64 96x96x96"),
    ("matmul:f32", "100x100x100 128x128x128 192x192x192 256x256x256 384x384x384 512x512x512 768x768x768"),
    ("matmul:f32", "1024x1024x1024 2048x2048x2048"),
    ("matmul:f32", "1x64x64 1x1024x1024 1x2048x2048 64x1x64 1024x1x1024 2048x1x2048 1024x1024x1"),
    ("matmul:f32", "8x1024x1024 1024x8x1024 1024x1024x8 2048x64x64 64x2048x64 64x64x2048"),
    ("matmul:f32", "512x512x512:n,t 512x512x512:t,n 64x64x64:n,t 64x16x16x16 16x128x128x128"),
    ("matmul:f64", "16x16x16 128x128x128 512x512x512 1x1024x1024"),
    ("elementwise.add:f32", "256 16384 1048576 16777216 1024x1024,1024"),
    ("elementwise.mul:f32", "16384 1048576 1024x1024,1024x1 1048576,1"),
    ("elementwise.relu:f32", "16384 1048576 16777216"),
    ("elementwise.exp:f32", "256 16384 1048576"),
    ("elementwise.tanh:f32", "1048576"),
    ("elementwise.gelu:f32", "16384 1048576"),
    ("elementwise.add:f64", "1048576"),
    ("elementwise.exp:f64", "1048576"),
    ("elementwise.add:i32", "1048576"),
    ("reduce.sum:f32", "256 16384 1048576 16777216 1024x1024:axis0 1024x1024:axis1 64x128x64:axis1"),
    ("reduce.mean:f32", "1024x1024:axis1"),
    ("reduce.max:f32", "1048576 1024x1024:axis1"),
    ("reduce.sum:f64", "1048576"),
    ("reduce.sum:i32", "1048576"),
    ("transpose:f32", "16x16 64x64 512x512 1024x64 2048x2048 4096x4096 8x512x64:0.2.1 16x128x8x64:0.2.1.3"),
    ("transpose:f64", "1024x1024"),
    ("conv:f32", "1x3x224x224,64x3x7x7:stride2,pad3 1x64x56x56,64x64x3x3:pad1 1x64x56x56,256x64x1x1"),
    (
        "conv:f32",
        "1x512x7x7,512x512x3x3:pad1 1x32x112x112,32x1x3x3:pad1,groups32 1x28x28x128,128x3x3x128:nhwc,pad1",
    ),
    ("conv:f32", "8x64x1024,64x64x3:pad1 1x16x16x32x32,16x16x3x3x3:pad1"),
    ("pool.max:f32", "1x64x112x112:window3x3,stride2,pad1"),
    ("pool.mean:f32", "1x64x56x56:window2x2,stride2"),
    ("rows.softmax:f32", "64x64 128x1000 16x65536 1024x1024:axis0"),
    ("rows.log_softmax:f32", "128x1000"),
    ("rows.variance:f32", "1024x1024"),
    ("rows.layer_norm:f32", "128x768:scale,shift"),
    ("rows.rms_norm:f32", "32x4096:scale"),
    ("attention:f32", "8x128x128x64 8x1x1024x64 4x512x512x64:causal"),
    ("scan.sum:f32", "1024 1048576 1024x1024 1024x1024:axis0"),
    ("scan.max:f32", "1048576"),
    ("sort:f32", "100 10000 1000000 1000x100 1000x100:axis0"),
    ("arg.max:f32", "128x1000 1048576"),
    ("arg.min:f64", "100000"),
    ("arg.sort:f32", "100000 1000x100"),
    ("arg.top:f32", "64x10000:count10"),
    ("cast:f32", "1048576:bf16"),
    ("fft.forward:complex64", "64 1024 1000x64 100x1024 65536 1048576 1000 1009 512x512:2d 64x64x64:3d"),
    ("fft.inverse:complex128", "4096 100x1000"),
    ("fft.real:f32", "1024 100x4096 1048576 480x640:2d"),
    ("fft.inverse_real:complex64", "1024 100x4096"),
    ("matmul:bf16", "512x512x512 1x2048x2048"),
    ("matmul:f16", "512x512x512"),
    ("matmul:i8", "512x512x512"),
    ("elementwise.add:bf16", "1048576"),
    ("reduce.sum:u8", "1048576"),
    ("fused.relu(add(mul(a,#0),b)):f32", "256x1024:all,columns"),
    ("fused.tanh(add(mul(a,b),#0)):f32", "1x1048576:all,all"),
    ("fused.mul(sub(a,b),sub(a,b)):f32", "1x4194304:all,all:sum"),
    ("gather:f32", "30000x768:axis0,count512 1000000:count100000"),
    ("scatter:f32", "10000x64:axis0,count4096 1000:count100000"),
    ("mask.lt:f32", "1048576 1024x1024,1024"),
    ("mask.where:f32", "1048576,1048576,1"),
    ("concat:f32", "1024x512,1024x512 100000x3,100000x1"),
    ("put:f32", "1x64x58x58,1x64x56x56:at0x0x1x1,fill 1024x1024,512x512:at256x256"),
    ("fused.exp(sub(a,b)):f32", "512x1024:all,rows:sum.axis1"),
    ("fused.relu(add(@,c)):f32", "256x256x256:n,n,columns"),
];

/// Every problem of the set, operation by operation.
pub fn problems() -> Vec<Problem> {
    texts().filter_map(|text| text.parse().ok()).collect()
}

fn texts() -> impl Iterator<Item = String> {
    let each = |(what, sizes): (&'static str, &'static str)| {
        sizes.split(' ').map(move |sizes| format!("{what}:{sizes}"))
    };
    PROBLEMS.into_iter().flat_map(each)
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
        let mut seen: Vec<String> = problems().iter().map(Problem::to_string).collect();
        seen.sort();
        seen.dedup();
        assert_eq!((seen.len(), texts().count()), (162, 162));
    }

    #[test]
    fn at_least_thirty_products_of_f32_are_tuned() {
        assert!(texts().filter(|text| is_of(text, "matmul:f32")).count() >= 30);
    }
}
