//! Every text any kernel writes is plain WGSL, declares what its step says, and translates to SPIR-V, MSL and HLSL.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "helpers shared by several test programs; clippy exempts only functions marked as tests"
)]

mod translate;

use trimtab_core::{ElementwiseOp, Operation, Problem, ReduceOp};

/// Fewest different texts and constants an operation's kernels have over the problems below; raised with the kernels.
const MATMUL_TEXTS: usize = 200;
const ELEMENTWISE_TEXTS: usize = 200;
const REDUCE_TEXTS: usize = 200;
const TRANSPOSE_TEXTS: usize = 30;
const FUSED_TEXTS: usize = 200;

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

/// The problems among these texts: not every operation is defined for every element type.
fn translated(operation: Operation, texts: impl Iterator<Item = String>) -> usize {
    let texts: Vec<String> = texts.filter(|text| text.parse::<Problem>().is_ok()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    translate::all(operation, &texts)
}

const DTYPES: [&str; 4] = ["f32", "i32", "f16", "f64"];

#[test]
fn elementwise_translates_on_every_adapter() {
    let each = |op: &'static str| {
        DTYPES.into_iter().flat_map(move |dtype| {
            let sizes = ["4096", "1001", "4096,1", "1,1001", "64x100,1x100", "64x100,64x1", "7x3x5,1x3x1"];
            sizes.into_iter().map(move |sizes| format!("elementwise.{op}:{dtype}:{sizes}"))
        })
    };
    let texts = translated(Operation::Elementwise, ElementwiseOp::names().flat_map(each));
    println!("{texts} texts of elementwise");
    assert!(texts >= ELEMENTWISE_TEXTS, "{texts}");
}

#[test]
fn reduce_translates_on_every_adapter() {
    let each = |op: &ReduceOp| {
        let op = op.name();
        DTYPES.into_iter().flat_map(move |dtype| {
            let sizes =
                ["1048576", "1001", "1000x1000:axis0", "1001x37:axis1", "8x4096:axis1", "5x100x7:axis1"];
            sizes.into_iter().map(move |sizes| format!("reduce.{op}:{dtype}:{sizes}"))
        })
    };
    let texts = translated(Operation::Reduce, ReduceOp::ALL.iter().flat_map(each));
    println!("{texts} texts of reduce");
    assert!(texts >= REDUCE_TEXTS, "{texts}");
}

#[test]
fn transpose_translates_on_every_adapter() {
    let each = |dtype: &'static str| {
        let sizes = ["1024x1024", "1001x37", "3x1001x37:0.2.1", "16x128x8x64:0.2.1.3", "3x4x5x6x7:4.2.0.3.1"];
        sizes.into_iter().map(move |sizes| format!("transpose:{dtype}:{sizes}"))
    };
    let texts = translated(Operation::Transpose, DTYPES.into_iter().flat_map(each));
    println!("{texts} texts of transpose");
    assert!(texts >= TRANSPOSE_TEXTS, "{texts}");
}

#[test]
fn recipes_translate_on_every_adapter() {
    let all = DTYPES.into_iter().flat_map(|dtype| {
        let elementwise = [
            "fused.relu(a):T:1x4096:all",
            "fused.neg(sub(max(a,b),min(a,#0))):T:1x1001:all,one",
            "fused.abs(relu(max(a,b))):T:64x100:all,columns",
            "fused.relu(add(mul(a,#0),b)):T:64x102:all,columns",
            "fused.tanh(pow(exp(a),sigmoid(gelu(sqrt(log(b)))))):T:33x7:rows,columns",
            "fused.max(add(add(a,b),add(c,d)),mul(mul(e,f),#7)):T:64x100:all,rows,columns,one,all,rows",
            "fused.max(add(add(a,b),add(c,d)),mul(mul(mul(mul(mul(mul(mul(mul(e,f),#0),#1),#2),#3),#4),#5),\
             add(#6,#7))):T:64x100:all,rows,columns,one,all,rows",
            // Cut into parts: elements, and rows.
            "fused.add(a,#0):T:1x70000002:all",
            "fused.add(a,b):T:70000x1001:all,rows",
        ];
        let ends = ["sum", "max", "mean.axis1", "min.axis0", "prod.axis1", "sum.axis0"];
        let ended = ends.into_iter().flat_map(|end| {
            [
                format!("fused.mul(a,#0):T:1x65536:all:{end}"),
                format!("fused.abs(neg(a)):T:60x1024:all:{end}"),
                format!("fused.sub(mul(a,b),add(c,d)):T:100x64:all,rows,columns,one:{end}"),
                format!("fused.max(a,b):T:77x51:rows,columns:{end}"),
                format!(
                    "fused.add(add(add(a,b),add(c,d)),add(add(e,f),#0)):T:99x128:all,rows,columns,one,all,all:{end}"
                ),
            ]
        });
        let products = [
            "fused.relu(add(@,c)):T:128x128x128:n,n,columns",
            "fused.mul(max(@,c),@):T:65x67x63:n,t,rows",
            "fused.add(add(add(@,c),add(d,e)),mul(f,#0)):T:64x64x64:t,n,all,rows,columns,one",
            "fused.neg(@):T:1x512x512:n,n",
            "fused.add(@,c):T:512x4x512:t,t,all",
            "fused.add(@,#0):T:5x7x0:n,n",
        ];
        let texts = elementwise.into_iter().chain(products).map(str::to_string).chain(ended);
        texts.map(move |text| text.replace(":T:", &format!(":{dtype}:")))
    });
    let texts = translated(Operation::Fused, all);
    println!("{texts} texts of recipes");
    assert!(texts >= FUSED_TEXTS, "{texts}");
}
