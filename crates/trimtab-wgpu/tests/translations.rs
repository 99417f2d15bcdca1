//! Every text any kernel writes is plain WGSL, declares what its step says, and translates to SPIR-V, MSL and HLSL.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "helpers shared by several test programs; clippy exempts only functions marked as tests"
)]

mod translate;

use trimtab_core::{ElementwiseOp, MaskOp, Operation, Problem, ReduceOp, RowsOp, ScanOp};

/// Fewest different texts and constants an operation's kernels have over the problems below; raised with the kernels.
const MATMUL_TEXTS: usize = 200;
const ELEMENTWISE_TEXTS: usize = 200;
const REDUCE_TEXTS: usize = 200;
const TRANSPOSE_TEXTS: usize = 30;
const FUSED_TEXTS: usize = 200;
const CONV_TEXTS: usize = 200;
const POOL_TEXTS: usize = 20;
const ROWS_TEXTS: usize = 400;
const SCAN_TEXTS: usize = 1500;
const SORT_TEXTS: usize = 450;
const ARG_TEXTS: usize = 500;
const CAST_TEXTS: usize = 12;
const INDEX_TEXTS: usize = 140;
const MASK_TEXTS: usize = 100;
const BLOCK_TEXTS: usize = 30;
const FFT_TEXTS: usize = 100;

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

/// Short and long lines, side by side or not, and whole vectors of them or not.
const LINES: [&str; 7] =
    ["7x33", "300x64", "3x70001", "1048576", "5x100x7:axis1", "5x100x8:axis1", "300x1000:axis0"];

/// The same with words behind the axis.
fn lines(words: &'static str) -> impl Iterator<Item = String> {
    LINES.into_iter().map(move |shape| match (words, shape.contains(':')) {
        ("", _) => shape.to_string(),
        (_, true) => format!("{shape},{words}"),
        (_, false) => format!("{shape}:{words}"),
    })
}

#[test]
fn rows_translate_on_every_adapter() {
    let each = |op: &RowsOp| {
        let op = op.name();
        DTYPES.into_iter().flat_map(move |dtype| {
            let words = ["", "scale", "scale,shift"];
            let shapes = words.into_iter().flat_map(lines);
            shapes.map(move |shape| format!("rows.{op}:{dtype}:{shape}"))
        })
    };
    let texts = translated(Operation::Rows, RowsOp::ALL.iter().flat_map(each));
    println!("{texts} texts of rows");
    assert!(texts >= ROWS_TEXTS, "{texts}");
}

#[test]
fn attention_translates_on_every_adapter() {
    let shapes = ["1x1x1x4", "8x128x256x64", "2x33x65x128:causal", "3x17x900x8x24"];
    let each = |dtype: &'static str| shapes.map(move |shape| format!("attention:{dtype}:{shape}"));
    let texts = translated(Operation::Attention, ["f32", "f16"].into_iter().flat_map(each));
    println!("{texts} texts of attention");
    assert!(texts >= 20, "{texts}");
}

#[test]
fn scans_translate_on_every_adapter() {
    let each = |op: &ScanOp| {
        let op = op.name();
        DTYPES.into_iter().flat_map(move |dtype| {
            let shapes = ["", "exclusive"].into_iter().flat_map(lines);
            shapes.map(move |shape| format!("scan.{op}:{dtype}:{shape}"))
        })
    };
    let texts = translated(Operation::Scan, ScanOp::ALL.iter().flat_map(each));
    println!("{texts} texts of scans");
    assert!(texts >= SCAN_TEXTS, "{texts}");
}

#[test]
fn sorting_translates_on_every_adapter() {
    let each = |dtype: &'static str| {
        let shapes = ["", "descending"].into_iter().flat_map(lines);
        shapes.map(move |shape| format!("sort:{dtype}:{shape}"))
    };
    let texts = translated(Operation::Sort, DTYPES.into_iter().flat_map(each));
    println!("{texts} texts of sorting");
    assert!(texts >= SORT_TEXTS, "{texts}");
}

#[test]
fn indices_and_casts_translate_on_every_adapter() {
    let each = |dtype: &'static str| {
        let extremes = ["min", "max"]
            .into_iter()
            .flat_map(move |op| lines("").map(move |shape| format!("arg.{op}:{dtype}:{shape}")));
        let ordered = ["", "descending"]
            .into_iter()
            .flat_map(move |words| lines(words).map(move |shape| format!("arg.sort:{dtype}:{shape}")));
        extremes.chain(ordered).chain(lines("count7").map(move |shape| format!("arg.top:{dtype}:{shape}")))
    };
    let texts = translated(Operation::Arg, DTYPES.into_iter().flat_map(each));
    println!("{texts} texts of indices");
    assert!(texts >= ARG_TEXTS, "{texts}");
    let types = ["f32", "f16", "bf16", "i32"];
    let casts = types.into_iter().flat_map(|from| types.map(|to| format!("cast:{from}:1001:{to}")));
    let texts = translated(Operation::Cast, casts);
    println!("{texts} texts of casts");
    assert!(texts >= CAST_TEXTS, "{texts}");
}

#[test]
fn what_finds_elements_by_index_translates_on_every_adapter() {
    let shapes = [
        "1000:count300",
        "1000x64:axis0,count300,i32",
        "9x70x5:axis1,count30,each",
        "9x70x5:axis1,count3,each,i32",
    ];
    let mut texts = 0;
    for (operation, name) in [(Operation::Gather, "gather"), (Operation::Scatter, "scatter")] {
        let each = |dtype: &'static str| shapes.map(|shape| format!("{name}:{dtype}:{shape}"));
        texts += translated(operation, DTYPES.into_iter().flat_map(each));
    }
    println!("{texts} texts of elements by index");
    assert!(texts >= INDEX_TEXTS, "{texts}");
}

#[test]
fn masks_translate_on_every_adapter() {
    let each = |op: &MaskOp| {
        let (op, more) = (op.name(), if *op == MaskOp::Where { ",1" } else { "" });
        DTYPES.into_iter().flat_map(move |dtype| {
            ["7x33,33", "65x1,1x63", "70001,1"].map(|shape| format!("mask.{op}:{dtype}:{shape}{more}"))
        })
    };
    let texts = translated(Operation::Mask, MaskOp::ALL.iter().flat_map(each));
    println!("{texts} texts of masks");
    assert!(texts >= MASK_TEXTS, "{texts}");
}

#[test]
fn blocks_translate_on_every_adapter() {
    let concat =
        |dtype: &'static str| ["257x3,257x1,257x5", "70001,1"].map(|shape| format!("concat:{dtype}:{shape}"));
    let put = |dtype: &'static str| {
        ["9x33,9x30:at0x3", "33x17,31x15:at1x2,fill"].map(|shape| format!("put:{dtype}:{shape}"))
    };
    let texts = translated(Operation::Concat, DTYPES.into_iter().flat_map(concat))
        + translated(Operation::Put, DTYPES.into_iter().flat_map(put));
    println!("{texts} texts of blocks");
    assert!(texts >= BLOCK_TEXTS, "{texts}");
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

#[test]
fn convolutions_translate_on_every_adapter() {
    let all = DTYPES.into_iter().flat_map(|dtype| {
        let texts = [
            "conv:T:8x64x56x56,128x64x3x3:pad1",
            "conv:T:8x64x56x56,128x64x3x3:pad1,bias,relu",
            "conv:T:8x56x56x64,128x3x3x64:nhwc,pad1,bias,gelu",
            "conv:T:1x3x224x224,64x3x7x7:stride2,pad3,bias,tanh",
            "conv:T:4x32x28x28,32x1x3x3:pad1,groups32,bias,sigmoid",
            "conv:T:1x28x28x32,64x3x3x16:nhwc,groups2",
            "conv:T:2x16x1000,33x16x5:stride3,dilation2",
            "conv:T:1x4x9x16x17,12x4x3x3x3:pad1,bias",
            "conv:T:1x1x5x5,1x1x3x3",
            "conv:T:0x3x8x8,4x3x3x3",
        ];
        texts.map(move |text| text.replace(":T:", &format!(":{dtype}:")))
    });
    let texts = translated(Operation::Conv, all);
    println!("{texts} texts of convolution");
    assert!(texts >= CONV_TEXTS, "{texts}");
}

#[test]
fn pooling_translates_on_every_adapter() {
    let all = DTYPES.into_iter().flat_map(|dtype| {
        let texts = [
            "pool.max:T:8x64x56x56:window3x3,stride2,pad1",
            "pool.mean:T:8x56x56x64:window2x2,stride2,nhwc",
            "pool.max:T:1x3x1001:window5",
            "pool.mean:T:1x3x9x9x9:window3x3x3,pad1,dilation2",
        ];
        texts.map(move |text| text.replace(":T:", &format!(":{dtype}:")))
    });
    let texts = translated(Operation::Pool, all);
    println!("{texts} texts of pooling");
    assert!(texts >= POOL_TEXTS, "{texts}");
}

#[test]
fn transforms_translate_on_every_adapter() {
    let sizes = ["2", "8", "64", "100x1024", "4096", "1048576", "64x64:2d", "3x16x32x8:3d", "1000", "1"];
    let each = |op: &'static str| sizes.into_iter().map(move |sizes| format!("fft.{op}:{sizes}"));
    let ops = [
        "forward:complex64",
        "inverse:complex64",
        "real:f32",
        "inverse_real:complex64",
        "forward:complex128",
    ];
    let texts = translated(Operation::Fft, ops.into_iter().flat_map(each));
    println!("{texts} texts of transforms");
    assert!(texts >= FFT_TEXTS, "{texts}");
}
