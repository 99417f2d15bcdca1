//! Every kernel that finds elements by index, compares, chooses, or moves blocks × every point × a table of problems agrees with the reference, on indices by chance, in order and
//! all the same; an index that is not there is an error of the operands, with its place.

mod conform;

use conform::{conform, device, kernels_of};
use trimtab_core::{DType, Device, LaunchError, MaskOp, Operation, Problem, VariantClass};
use trimtab_operands::{Data, Expected, Numbers, Operands};

/// Sizes, axes and numbers of indices.
const SHAPES: [&str; 20] = [
    "1:count1",
    "1:count0",
    "0:count0",
    "7:count5",
    "17:count64",
    "1025:count1023",
    "70001:count65537",
    "2:count70001",
    "3x7:axis0,count4",
    "33x65:axis0,count31",
    "300x8:axis0,count301",
    "257x3:axis0,count1000",
    "64x129:axis0,count127",
    "5x4099:axis1,count17",
    "33x65:axis1,count129",
    "5x9x3:axis1,count11",
    "7x30x33:axis1,count29",
    "2x65x129:axis1,count2",
    "300x300:axis0,count300",
    "0x5:axis1,count3",
];

fn texts(operation: &str, dtypes: &[DType]) -> Vec<String> {
    let mut texts = Vec::new();
    for dtype in dtypes {
        // Types of one size are moved by one function: every shape for some, a few for the others.
        let thorough = matches!(dtype, DType::F32 | DType::I32);
        let (shapes, words) = match thorough {
            true => (&SHAPES[..], &["", ",i32", ",each", ",each,i32"][..]),
            false => (&SHAPES[4..15], &["", ",each,i32"][..]),
        };
        for shape in shapes {
            texts.extend(words.iter().map(|words| format!("{operation}:{dtype}:{shape}{words}")));
        }
    }
    texts
}

#[test]
fn every_kernel_that_gathers_agrees_with_the_reference_at_every_point() {
    conform(Operation::Gather, &texts("gather", &DType::ALL));
}

#[test]
fn every_kernel_that_scatters_agrees_with_the_reference_at_every_point() {
    let all: Vec<DType> = DType::ALL.into_iter().filter(|dtype| *dtype != DType::Bool).collect();
    conform(Operation::Scatter, &texts("scatter", &all));
}

#[test]
fn every_kernel_of_masks_agrees_with_the_reference_at_every_point() {
    let pairs = [
        "0",
        "1",
        "13",
        "64",
        "129",
        "4099",
        "70001",
        "1025,1",
        "1,1025",
        "7x33,33",
        "33,7x33",
        "7x1,7x33",
        "65x1,1x63",
        "3x5x17,5x1",
        "2x1x3x1,1x5x1x7",
        "2x3x4x5x6x2,1x3x1x5x1x2",
        "0x5,5",
        "257x129,129",
        "30001x3,1x3",
        "3x40001,3x1",
    ];
    let threes = [
        "0",
        "1",
        "13",
        "129",
        "70001",
        "1025,1,1025",
        "1,1025,1",
        "1025,1,1",
        "7x33,33,7x1",
        "7x1,7x33,1x33",
        "1x33,7x1,1",
        "3x5x17,5x1,17",
        "2x1x3x1,1x5x1x7,2x5x1x1",
        "0x5,5,1",
        "30001x3,1x3,30001x1",
        "3x40001,3x1,40001",
        "1,9,9",
    ];
    let mut problems = Vec::new();
    for dtype in DType::ALL {
        for op in MaskOp::ALL {
            let shapes: &[&str] = if op == MaskOp::Where { &threes } else { &pairs };
            let thorough = matches!(dtype, DType::F32 | DType::I64);
            let shapes = if thorough { shapes } else { &shapes[2..10] };
            let all = shapes.iter().map(|shape| format!("mask.{op}:{dtype}:{shape}"));
            // Complex numbers have no order.
            problems.extend(all.filter(|text| text.parse::<Problem>().is_ok()));
        }
    }
    conform(Operation::Mask, &problems);
}

#[test]
fn every_kernel_of_blocks_agrees_with_the_reference_at_every_point() {
    let side_by_side = [
        "0x3,0x4",
        "1",
        "7,5",
        "3,0,9",
        "1,1,1,1,1",
        "33x1,33x2",
        "257x3,257x1,257x5",
        "20001x1,20001x1",
        "5x4099,5x17",
        "70001,1",
        "3x40001,3x1,3x30000",
        "63x64,65x64:axis0",
        "2x3x5,2x4x5:axis1",
        "30001x2,30001x0,30001x3",
    ];
    let put = [
        "0,0:at0",
        "1,1:at0",
        "7,3:at2",
        "7,7:at0",
        "7,0:at3",
        "70001,40000:at30001",
        "70001,1:at0",
        "9x33,4x33:at5x0",
        "9x33,9x30:at0x3",
        "33x17,31x15:at1x2",
        "5x4099,2x4097:at3x1",
        "3x5x7,2x3x5:at1x2x2",
        "4x9x5x8,2x3x5x6:at1x6x0x2",
        "3x4x5x6x7,3x2x5x6x7:at0x1x0x0x0",
        "300x301,299x300:at1x0",
        "20001x3,20001x1:at0x2",
    ];
    let mut problems = Vec::new();
    for dtype in DType::ALL {
        problems.extend(side_by_side.iter().map(|shapes| format!("concat:{dtype}:{shapes}")));
        problems
            .extend(put.iter().flat_map(|put| ["", ",fill"].map(|fill| format!("put:{dtype}:{put}{fill}"))));
    }
    let (put, side_by_side): (Vec<String>, Vec<String>) =
        problems.into_iter().partition(|text| text.starts_with("put"));
    conform(Operation::Concat, &side_by_side);
    conform(Operation::Put, &put);
}

/// Runs every kernel at every point on operands, and says what each answered.
fn each_kernel(
    problem: &Problem,
    operands: &Operands,
    mut told: impl FnMut(&str, Result<(), LaunchError>, &Data),
) {
    let device = device();
    for (id, info) in kernels_of(&device, problem.operation()) {
        if device.declines(id, problem).is_some() {
            continue;
        }
        for point in device.space(id, problem).points() {
            let mut out = operands.out.clone();
            out.poison();
            let answer = device.launch(id, problem, point, &operands.slices(), out.slice_mut());
            told(&format!("{} {point:?}", info.name), answer, &out);
        }
    }
}

#[test]
fn sorted_repeated_and_equal_indices_come_out_as_from_the_reference() {
    let device = device();
    for text in [
        "gather:f32:1000x17:axis0,count3000",
        "gather:f32:40001:count80003,i32",
        "gather:i32:9x700x5:axis1,count300,each",
        "scatter:f32:1000x17:axis0,count3000",
        "scatter:f32:40001:count80003,i32",
        "scatter:f64:9x700x5:axis1,count300,each",
        "scatter:i64:3:count50000,i32",
        "scatter:i32:9x700x5:axis1,count300",
    ] {
        let problem: Problem = text.parse().unwrap();
        for numbers in [Numbers::Real, Numbers::Whole, Numbers::Special] {
            let operands = Operands::of(&problem, numbers);
            let expected = Expected::new(&device, &problem, &operands).unwrap();
            each_kernel(&problem, &operands, |kernel, answer, out| {
                assert_eq!(answer, Ok(()), "{text} {kernel} {numbers:?}");
                assert_eq!(expected.check(&problem, out), Ok(()), "{text} {kernel} {numbers:?}");
            });
        }
    }
}

#[test]
fn whole_numbers_add_up_to_the_same_whatever_the_order() {
    let problem: Problem = "scatter:f32:100x9:axis0,count5000".parse().unwrap();
    let mut operands = Operands::of(&problem, Numbers::Whole);
    let indices: Vec<i64> = (0..5000).map(|at| [99, -1, 7, 7, -100][at % 5]).collect();
    operands.inputs[1] = Data::I64(indices);
    let mut first: Option<Vec<u32>> = None;
    each_kernel(&problem, &operands, |kernel, answer, out| {
        assert_eq!(answer, Ok(()), "{kernel}");
        let Data::F32(out) = out else { unreachable!() };
        let bits: Vec<u32> = out.iter().map(|value| value.to_bits()).collect();
        assert_eq!(first.get_or_insert_with(|| bits.clone()), &bits, "{kernel}");
    });
}

#[test]
fn kernels_that_keep_the_order_of_indices_give_the_same_bits() {
    let problem: Problem = "scatter:f32:50x3:axis0,count40000".parse().unwrap();
    let operands = Operands::of(&problem, Numbers::Real);
    let mut first: Option<Data> = None;
    each_kernel(&problem, &operands, |kernel, answer, out| {
        assert_eq!(answer, Ok(()), "{kernel}");
        if kernel.contains("owned") || kernel.contains("sorted") {
            let before = first.get_or_insert_with(|| out.clone());
            assert_eq!(before.slice().bytes(), out.slice().bytes(), "{kernel}");
        }
    });
}

#[test]
fn an_index_that_is_not_there_is_told_by_every_kernel_and_nothing_else_happens() {
    for (text, wrong) in [
        ("gather:f32:1000x17:axis0,count3000", 1000i64),
        ("gather:f32:40001:count80003", -40002),
        ("gather:f32:9x700x5:axis1,count300,each", i64::MAX),
        ("scatter:f32:1000x17:axis0,count3000", -1001),
        ("scatter:i64:40001:count80003", 40001),
        ("scatter:f64:9x700x5:axis1,count300,each", i64::MIN),
    ] {
        let problem: Problem = text.parse().unwrap();
        let mut operands = Operands::new(&problem);
        let Data::I64(indices) = &mut operands.inputs[1] else { unreachable!() };
        indices[1234] = wrong;
        indices[2999] = wrong;
        let expected = format!("index {wrong}, number 1234 of the indices");
        each_kernel(&problem, &operands, |kernel, answer, _| match answer {
            Err(error @ LaunchError::Data(_)) if error.to_string().contains(&expected) => (),
            other => panic!("{text} {kernel}: {other:?}"),
        });
    }
}

#[test]
fn elements_of_another_type_are_refused_before_anything_is_read() {
    let problem: Problem = "gather:f32:8:count4".parse().unwrap();
    let mut operands = Operands::new(&problem);
    operands.inputs[1] = Data::I32(vec![0; 4]);
    each_kernel(&problem, &operands, |kernel, answer, _| {
        assert!(matches!(answer, Err(LaunchError::Operand { .. })), "{kernel}: {answer:?}");
    });
}

#[test]
fn there_is_one_reference_of_each() {
    let device = device();
    let all = [Operation::Gather, Operation::Scatter, Operation::Mask, Operation::Concat, Operation::Put];
    for operation in all {
        let kernels = kernels_of(&device, operation);
        assert!(kernels.len() >= 3, "{operation:?}");
        assert_eq!(kernels.iter().filter(|(_, info)| info.class == VariantClass::Reference).count(), 1);
    }
}
