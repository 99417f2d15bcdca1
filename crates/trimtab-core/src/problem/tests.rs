//! Texts round-trip, bad ones are refused with a reason, different problems differ.

use super::*;

fn canonical(text: &str) -> String {
    match Problem::parse(text) {
        Ok(problem) => {
            let shown = problem.to_string();
            assert_eq!(Problem::parse(&shown), Ok(problem), "{text} → {shown} does not round-trip");
            shown
        }
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn a_problem_fits_in_a_cache_line() {
    assert!(std::mem::size_of::<Problem>() <= 64, "{}", std::mem::size_of::<Problem>());
}

#[test]
fn text_round_trips_and_merges_what_behaves_alike() {
    for (given, shown) in [
        ("matmul:f32:512x256x128", "matmul:f32:512x256x128"),
        ("matmul:f64:1x2x3x4:ns,t", "matmul:f64:2x3x4:n,t"),
        ("matmul:f64:5x2x3x4:n,ts", "matmul:f64:5x2x3x4:n,ts"),
        ("matmul:f32:0x0x0", "matmul:f32:0x0x0"),
        ("elementwise.exp:f32:4x5x6", "elementwise.exp:f32:120"),
        ("elementwise.add:f32:4x5", "elementwise.add:f32:20"),
        ("elementwise.add:f32:4x5,5", "elementwise.add:f32:4x5,1x5"),
        ("elementwise.add:f32:2x3x4x5,2x3x1x1", "elementwise.add:f32:6x20,6x1"),
        ("elementwise.max:i32:1,7", "elementwise.max:i32:1,7"),
        ("elementwise.max:i32:1x1", "elementwise.max:i32:1"),
        ("elementwise.add:f32:4x0,1x0", "elementwise.add:f32:4x0,1x0"),
        ("reduce.sum:f32:16x32", "reduce.sum:f32:512"),
        ("reduce.sum:f32:2x3x16x4x5:axis2", "reduce.sum:f32:6x16x20:axis1"),
        ("reduce.max:i32:16x4:axis0", "reduce.max:i32:16x4:axis0"),
        ("reduce.mean:f64:16x4:axis1", "reduce.mean:f64:16x4:axis1"),
        ("reduce.sum:f32:0", "reduce.sum:f32:0"),
        ("transpose:f32:512x256", "transpose:f32:512x256"),
        ("transpose:f32:2x3x4:0.1.2", "transpose:f32:24:0"),
        ("transpose:f32:8x512x64:0.2.1", "transpose:f32:8x512x64:0.2.1"),
        ("transpose:f32:8x1x64", "transpose:f32:8x64"),
        ("transpose:i32:2x3x4x5:2.3.0.1", "transpose:i32:6x20"),
        ("fused.relu(add(a,b)):f32:4x8:all,all", "fused.relu(add(a,b)):f32:1x32:all,all"),
        ("fused.add(mul(a,#0),b):f64:4x8:all,columns", "fused.add(mul(a,#0),b):f64:4x8:all,columns"),
        ("fused.add(a,b):f32:1x8:columns,rows", "fused.add(a,b):f32:1x8:all,one"),
        ("fused.exp(a):f32:4x8:all:sum.axis1", "fused.exp(a):f32:4x8:all:sum.axis1"),
        ("fused.exp(a):f32:4x8:all:sum", "fused.exp(a):f32:1x32:all:sum"),
        ("fused.exp(a):f32:4x1:all:max.axis0", "fused.exp(a):f32:1x4:all:max"),
        ("fused.relu(add(@,c)):f32:64x32x16:n,t,columns", "fused.relu(add(@,c)):f32:64x32x16:n,t,columns"),
        ("fused.max(mul(a,a),#0):i32:7x3:all", "fused.max(mul(a,a),#0):i32:1x21:all"),
        ("conv:f32:8x64x56x56,128x64x3x3:pad1", "conv:f32:8x64x56x56,128x64x3x3:pad1"),
        ("conv:f32:8x64x56x56,128x64x3x3:pad1x1,stride1", "conv:f32:8x64x56x56,128x64x3x3:pad1"),
        (
            "conv:f64:2x9x7x8,4x3x2x4:relu,bias,groups2,dilation2x1,pad1x0,stride2,nhwc",
            "conv:f64:2x9x7x8,4x3x2x4:nhwc,stride2,pad1x0,dilation2x1,groups2,bias,relu",
        ),
        ("conv:f32:1x3x100,8x3x9", "conv:f32:1x3x100,8x3x9"),
        ("conv:f16:1x3x8x8x8,8x3x1x2x3:pad1", "conv:f16:1x3x8x8x8,8x3x1x2x3:pad1"),
        ("conv:f32:0x3x8x8,4x3x3x3", "conv:f32:0x3x8x8,4x3x3x3"),
        ("pool.max:f32:2x3x8x8:window3x3,stride2,pad1", "pool.max:f32:2x3x8x8:window3x3,stride2,pad1"),
        ("pool.mean:f64:2x8x3:nhwc,window2", "pool.mean:f64:2x8x3:window2,nhwc"),
        ("attention:f32:8x128x256x64", "attention:f32:8x128x256x64"),
        ("attention:f64:1x3x5x4x4:causal", "attention:f64:1x3x5x4:causal"),
        ("attention:f32:2x3x5x4x7", "attention:f32:2x3x5x4x7"),
        ("rows.softmax:f32:64x1000", "rows.softmax:f32:64x1000:axis1"),
        ("rows.logsumexp:f32:7", "rows.logsumexp:f32:7"),
        ("rows.variance:f32:4x5x6:axis1", "rows.variance:f32:4x5x6:axis1"),
        ("rows.layer_norm:f32:4x5:shift,scale", "rows.layer_norm:f32:4x5:axis1,scale,shift"),
        ("rows.rms_norm:f64:2x4x5", "rows.rms_norm:f64:8x5:axis1"),
        ("scan.sum:i32:4x5:axis0,exclusive", "scan.sum:i32:4x5:axis0,exclusive"),
        ("scan.max:f32:0x5", "scan.max:f32:0x1:axis1"),
        ("sort:f32:64x100:descending", "sort:f32:64x100:axis1,descending"),
        ("sort:i32:1000", "sort:i32:1000"),
        ("arg.min:f32:64x100", "arg.min:f32:64x100:axis1"),
        ("arg.sort:i32:4x5:axis0,descending", "arg.sort:i32:4x5:axis0,descending"),
        ("arg.top:f32:2x3x100:count5", "arg.top:f32:6x100:axis1,count5"),
        ("cast:f32:4x5:bf16", "cast:f32:20:bf16"),
        ("cast:bool:7:complex64", "cast:bool:7:complex64"),
        ("gather:f32:1000x64:axis0,count32", "gather:f32:1000x64:axis0,count32"),
        ("gather:bool:2x3x9:i32,each,count4", "gather:bool:6x9:axis1,count4,each,i32"),
        ("gather:f32:0:count0", "gather:f32:0:count0"),
        ("scatter:i8:9:count100,i64", "scatter:i8:9:count100"),
        ("scatter:f16:3x5x7:axis1,count2,each", "scatter:f16:3x5x7:axis1,count2,each"),
        ("mask.lt:f32:4x5", "mask.lt:f32:20"),
        ("mask.ge:i64:4x5,5", "mask.ge:i64:4x5,1x5"),
        ("mask.where:f16:2x3x4,4,1", "mask.where:f16:6x4,1x4,1x1"),
        ("mask.where:bool:7", "mask.where:bool:7"),
        ("mask.eq:complex64:1,1", "mask.eq:complex64:1"),
        ("mask.ne:f32:0x5,5", "mask.ne:f32:0x5,1x5"),
        ("concat:f32:4x5,4x7", "concat:f32:4x5,4x7"),
        ("concat:u8:2x3x4,2x1x4:axis1", "concat:u8:2x12,2x4"),
        ("concat:f32:3,0,9", "concat:f32:1x3,1x0,1x9"),
        ("concat:f32:0x3,0x4", "concat:f32:0x0,0x0"),
        ("put:f32:10x20,4x5:at3x2", "put:f32:10x20,4x5:at3x2"),
        ("put:f32:8x10x20,8x4x20:at0x3x0,fill", "put:f32:8x200,8x80:at0x60,fill"),
        ("put:i8:1x7,1x7:at0x0", "put:i8:7,7:at0"),
        ("put:f32:4x5,0x5:at1x0", "put:f32:20,0:at0"),
        ("put:f32:0x5,0x5:at0x0", "put:f32:0,0:at0"),
        ("put:f32:3x5x4x6,1x2x3x6:at1x2x0x0", "put:f32:3x5x24,1x2x18:at1x2x0"),
        ("fft.forward:complex64:8x1024", "fft.forward:complex64:8x1024"),
        ("fft.forward:complex64:2x4x1024:1d", "fft.forward:complex64:8x1024"),
        ("fft.inverse:complex128:8x64x32:2d", "fft.inverse:complex128:8x64x32:2d"),
        ("fft.forward:complex64:64x1:2d", "fft.forward:complex64:64"),
        ("fft.forward:complex64:1x1x1:3d", "fft.forward:complex64:1"),
        ("fft.real:f32:4x5x1x6:3d", "fft.real:f32:4x5x6:2d"),
        ("fft.real:f64:5x1:2d", "fft.real:f64:5x1:2d"),
        ("fft.inverse_real:complex64:0x7", "fft.inverse_real:complex64:0x7"),
        ("matmul:i8:4x5x6", "matmul:i8:4x5x6"),
        ("reduce.sum:bool:4x5:axis1", "reduce.sum:bool:4x5:axis1"),
        ("custom.sort:1000", "custom.sort:1000"),
        ("custom.a.b-c", "custom.a.b-c"),
    ] {
        assert_eq!(canonical(given), shown, "{given}");
    }
}

#[test]
fn different_problems_mix_differently() {
    let mut texts: Vec<String> = Vec::new();
    for dtype in ["f32", "f64"] {
        texts.extend(["2x3x4x5", "2x3x5x4", "3x4x5"].map(|sizes| format!("matmul:{dtype}:{sizes}")));
        texts.extend(ElementwiseOp::names().map(|op| format!("elementwise.{op}:{dtype}:7")));
        texts.extend(
            ["4x5,1x5", "4x5,4x1", "1x5,4x5", "4,1", "1,4"].map(|s| format!("elementwise.add:{dtype}:{s}")),
        );
        texts.extend(ReduceOp::ALL.iter().map(|op| format!("reduce.{}:{dtype}:2x3x4:axis1", op.name())));
        texts.extend(["2x3:axis0", "2x3:axis1", "6"].map(|s| format!("reduce.sum:{dtype}:{s}")));
        texts.extend(
            ["2x3", "3x2", "2x3x4:0.2.1", "2x3x4:2.1.0", "24:0"].map(|s| format!("transpose:{dtype}:{s}")),
        );
    }
    texts.extend(
        [
            "relu(a):f32:2x3:all",
            "relu(a):f32:2x3:all:sum",
            "relu(a):f32:2x3:all:sum.axis0",
            "abs(a):f32:2x3:all",
        ]
        .map(|s| format!("fused.{s}")),
    );
    texts.extend(
        [
            "add(a,b):f32:2x3:all,rows",
            "add(a,b):f32:2x3:all,columns",
            "add(@,#0):f32:2x3x4:n,n",
            "add(@,#0):f32:2x3x4:n,t",
        ]
        .map(|s| format!("fused.{s}")),
    );
    texts.extend(["gather", "scatter"].iter().flat_map(|of| {
        ["9:count4", "9:count5", "9:count4,i32", "9:count4,each", "3x9:axis0,count4", "3x9:axis1,count4"]
            .map(|s| format!("{of}:f32:{s}"))
    }));
    texts.extend(MaskOp::ALL.iter().map(|op| format!("mask.{op}:f32:7")));
    texts.extend(["4x5,1x5", "4x5,4x1", "1x5,4x5"].map(|s| format!("mask.lt:f32:{s}")));
    texts.extend(["4x5,4x1", "4x1,4x5", "4x1,4x4,4x1", "20,4"].map(|s| format!("concat:f32:{s}")));
    texts.extend(
        [
            "4x5,2x2:at0x0",
            "4x5,2x2:at1x0",
            "4x5,2x2:at0x1",
            "4x5,2x1:at0x0",
            "4x5,2x2:at0x0,fill",
            "5x4,2x2:at0x0",
        ]
        .map(|s| format!("put:f32:{s}")),
    );
    texts.extend(
        [
            "forward:complex64:8x4",
            "forward:complex64:8x4:2d",
            "inverse:complex64:8x4",
            "forward:complex128:8x4",
        ]
        .map(|s| format!("fft.{s}")),
    );
    texts.extend(["a", "b", "a:1", "a:1x2", "a:2x1", "aa:1"].map(|s| format!("custom.{s}")));
    let mixed: std::collections::HashSet<u64> =
        texts.iter().map(|text| Problem::parse(text).unwrap().mix()).collect();
    assert_eq!(mixed.len(), texts.len());
}

#[test]
fn hand_made_sizes_saturate_and_do_not_pass_the_check() {
    let Ok(product) = Matmul::new(DType::F32, 1, 2, 2) else { unreachable!() };
    assert_eq!(Problem::from(product).check(), Ok(()));
    let product = Problem::from(Matmul { m: 1 << 63, ..product });
    assert_eq!((product.input_lens().as_slice(), product.out_len()), (&[u64::MAX, 4][..], u64::MAX));
    assert!(matches!(product.check(), Err(ProblemError::TooLarge { .. })));
    let Ok(sum) = Reduce::new(ReduceOp::Min, DType::F32, &[4], None) else { unreachable!() };
    let sum = Problem::from(Reduce { outer: 1 << 33, inner: 1 << 33, ..sum });
    assert_eq!((sum.input_lens().as_slice(), sum.out_len()), (&[u64::MAX][..], u64::MAX));
    assert!(matches!(sum.check(), Err(ProblemError::TooLarge { .. })));
    let Ok(mut spectra) = Fft::new(FftOp::Real, DType::F32, &[4, 8], 1) else { unreachable!() };
    assert_eq!(Problem::from(spectra).check(), Ok(()));
    spectra.batch = 1 << 62;
    let spectra = Problem::from(spectra);
    assert_eq!((spectra.input_lens().as_slice(), spectra.out_len()), (&[u64::MAX][..], u64::MAX));
    assert!(matches!(spectra.check(), Err(ProblemError::TooLarge { .. })));
}

#[test]
fn bad_text_says_what_is_wrong() {
    for (given, part) in [
        ("", "not an operation"),
        ("gemm:f32:1x1x1", "use one of: matmul"),
        ("matmul:f8:1x1x1", "use one of: f32, f64, f16, i32"),
        ("matmul:f32", "sizes are missing"),
        ("matmul:f32:1x1", "m x n x k"),
        ("matmul:f32:1x1x1:q,n", "a layout is two of"),
        ("matmul:f32:1x1x1:n,n:more", "too much"),
        ("matmul.fast:f32:1x1x1", "too much"),
        ("matmul:f32:-1x1x1", "`-1` is not a size"),
        ("matmul:f32:+1x1x1", "`+1` is not a size"),
        ("matmul:f32:99999999999999999999x1x1", "is not a size"),
        ("matmul:f32:4294967296x4294967296x1", "more bytes than this machine can address"),
        ("matmul:f32:0x1099511627776x1099511627776x1", "more bytes than this machine can address"),
        ("elementwise.neg:f32:1099511627776x1099511627776x0", "more bytes than this machine can address"),
        ("reduce.sum:f32:1099511627776x0x1099511627776:axis1", "more bytes than this machine can address"),
        ("transpose:f32:1099511627776x1099511627776x0", "more bytes than this machine can address"),
        ("matmul:i32:1x1x1", "not defined for i32"),
        ("elementwise.exp:i32:1", "not defined for i32"),
        ("elementwise:f32:1", "elementwise.OP"),
        ("elementwise.exp:f32:1,1", "takes one operand"),
        ("elementwise.add:f32:2x3,2", "neither equal nor one"),
        ("reduce.min:f32:0", "of no elements"),
        ("reduce.mean:i32:4", "not defined for i32"),
        ("reduce.sum:f32:4:axis7", "no such axis"),
        ("reduce.sum:f32:4:7", "not an axis"),
        ("transpose:f32:2x3:0.0", "named twice"),
        ("transpose:f32:2x3:0", "every axis once"),
        ("transpose:f32:2x3:a.b", "not a permutation"),
        ("fused:f32:1x1", "fused.RECIPE"),
        ("fused.relu(a:f32:1x1:all", "a `)` is missing"),
        ("fused.relu(a)b:f32:1x1:all", "too much"),
        ("fused.frob(a):f32:1x1:all", "not elementwise"),
        ("fused.relu(g):f32:1x1:all", "not an operand"),
        ("fused.relu(b):f32:1x1:all", "no input 1"),
        ("fused.relu(a):f32:1x1:all,all", "input 1 is not used"),
        ("fused.add(a,#1):f32:1x1:all", "numbered from zero"),
        ("fused.relu(a):f32:1x1x1:all", "rows x columns"),
        ("fused.relu(a):f32:1x1:most", "not all, rows"),
        ("fused.exp(a):i32:1x1:all", "not defined for i32"),
        ("fused.neg(a):i32:1x1:all:sum", "may not fit"),
        ("fused.relu(@):f32:1x1x1:n,t,all", "input 2 is not used"),
        ("fused.relu(@):f32:1x1x1", "not 2 to 6"),
        ("fused.relu(a):f32:0x4:all:max.axis0", "of no elements"),
        ("gather:f32:5", "count10"),
        ("gather:f32:5:count2,u8", "indices are i32 or i64"),
        ("gather:f32:0:count2", "of no elements"),
        ("gather:f32:5:count2,axis1", "no such axis"),
        ("gather:f32:5:count2,all", "not an axis"),
        ("gather:f32:5:count4611686018427387904", "more bytes than this machine can address"),
        ("scatter:bool:5:count2", "not defined for bool"),
        ("scatter.add:f32:5:count2", "too much"),
        ("mask.lt:complex64:3", "no order"),
        ("mask.frob:f32:3", "eq, ne, lt, le, gt, ge, where"),
        ("mask.lt:f32:3,4", "neither equal nor one"),
        ("mask.where:f32:3,3", "takes 3 operands"),
        ("concat:f32:3x4,3x5:axis0", "the same but along axis 0"),
        ("concat:f32:3,3:axis1", "no such axis"),
        ("concat:f32:1,1,1,1,1,1", "1 to 5 operands"),
        ("put:f32:4x5", "the result's sizes and the block's"),
        ("put:f32:4x5,2x2", "where the block begins"),
        ("put:f32:4x5,2x2:at3x0", "2 from 3 on do not fit 4 along axis 0"),
        ("put:f32:4x5,2:at0", "as many axes"),
        ("put:f32:4x5,2x2:at0x0,under", "not known of a block"),
        ("put:f32:9x9x9x9x9,2x2x2x2x2:at0x0x0x0x0", "at most 4 axes"),
        ("fft:complex64:8", "fft.OP"),
        ("fft.forward:f32:8", "fft.real"),
        ("fft.real:complex64:8", "not defined for complex64"),
        ("fft.real:f16:8", "cast the operand"),
        ("fft.forward:complex64:3x0", "of no elements"),
        ("fft.forward:complex64:8:2d", "not as many axes"),
        ("fft.forward:complex64:8x8:4d", "2d or 3d"),
        ("fft.inverse_real:complex128:1152921504606846976", "more bytes than this machine can address"),
        ("custom:1", "custom.NAME"),
        ("custom.a/b:1", "ASCII letters"),
        ("custom.a:1x2x3x4x5", "at most 4 sizes"),
    ] {
        let shown = canonical(given);
        assert!(shown.starts_with("error: ") && shown.contains(part), "{given}: {shown}");
    }
    assert!(canonical(&"x".repeat(10_000)).contains("longer than"));
}
