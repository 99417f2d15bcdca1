//! Every text any kernel writes is plain WGSL, declares what its step says, and translates to SPIR-V, MSL and HLSL.

mod translate;

use trimtab_core::Operation;

/// Fewest different texts and constants an operation's kernels have over the problems below; raised with the kernels.
const MATMUL_TEXTS: usize = 200;
const ELEMENTWISE_TEXTS: usize = 0;
const REDUCE_TEXTS: usize = 0;
const TRANSPOSE_TEXTS: usize = 0;

#[test]
fn matmul_translates_on_every_adapter() {
    let texts = translate::all(
        Operation::Matmul,
        &[
            "matmul:f32:512x512x512",
            "matmul:f32:511x513x67",
            "matmul:f32:512x512x512:t,n",
            "matmul:f32:512x512x512:n,t",
            "matmul:f32:65x67x63:t,t",
            "matmul:f32:3x64x64x64:ns,t",
            "matmul:f16:512x512x512",
            "matmul:f16:65x67x63:n,t",
            "matmul:f64:512x512x512",
            "matmul:f64:65x67x63:t,n",
            "matmul:f32:1x1024x1024",
            "matmul:f32:1024x1x1024",
            "matmul:f32:3x1025x1023:n,t",
            "matmul:f16:8x1024x1024",
            "matmul:f64:1x1024x1024:n,t",
            "matmul:f32:16x16x0",
            "matmul:f32:0x16x16",
            "matmul:f32:1x1x1",
            // Cut into parts: rows, columns, and the batch.
            "matmul:f32:300000x64x128",
            "matmul:f32:64x300000x128:n,t",
            "matmul:f32:8193x8195x16",
            "matmul:f32:70x1024x512x1024",
            "matmul:f32:200000x2x3x5",
        ],
    );
    println!("{texts} texts of matmul");
    assert!(texts >= MATMUL_TEXTS, "{texts}");
}

#[test]
fn elementwise_translates_on_every_adapter() {
    let texts = translate::all(
        Operation::Elementwise,
        &["elementwise.add:f32:1048576", "elementwise.add:f32:1000x1,1000x37", "elementwise.relu:f32:1001"],
    );
    assert!(texts >= ELEMENTWISE_TEXTS, "{texts}");
}

#[test]
fn reduce_translates_on_every_adapter() {
    let texts = translate::all(
        Operation::Reduce,
        &["reduce.sum:f32:1048576", "reduce.max:f32:1000x1000:axis0", "reduce.sum:i32:1001x37:axis1"],
    );
    assert!(texts >= REDUCE_TEXTS, "{texts}");
}

#[test]
fn transpose_translates_on_every_adapter() {
    let texts = translate::all(
        Operation::Transpose,
        &["transpose:f32:1024x1024", "transpose:f32:3x1001x37:0.2.1", "transpose:i32:1001x37"],
    );
    assert!(texts >= TRANSPOSE_TEXTS, "{texts}");
}
