//! Elements by index, masks and blocks on a GPU against the processor: every kernel, every legal point, indices of every sort, and indices that
//! are not there.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "helpers shared by several test programs; clippy exempts only functions marked as tests"
)]

mod conform;

use trimtab_core::{DType, KernelId, LaunchError, Operation, Problem};
use trimtab_operands::{Data, Expected, Numbers, Operands, Slice, bf16, f16};
use trimtab_wgpu::tolerance;

fn all_of(detail: &str, dtypes: &[&str], shapes: &[&str]) -> Vec<String> {
    let each = |dtype: &&str| {
        shapes.iter().map(move |shape| format!("{detail}:{dtype}:{shape}")).collect::<Vec<_>>()
    };
    dtypes.iter().flat_map(each).collect()
}

fn conforms(operation: Operation, texts: &[String], points: usize) -> usize {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    conform::conforms_at_first(operation, &texts, points)
}

const SHAPES: [&str; 10] = [
    "1:count1",
    "7:count5,i32",
    "1025:count1023",
    "2:count5001,i32",
    "33x65:axis0,count31",
    "300x8:axis0,count301,i32",
    "33x65:axis1,count129,each",
    "7x30x33:axis1,count29,i32",
    "7x30x33:axis1,count29,each,i32",
    "0x5:axis1,count3",
];

#[test]
fn every_kernel_that_gathers_agrees_with_the_processor() {
    let compared = conforms(Operation::Gather, &all_of("gather", &["f32"], &SHAPES), usize::MAX)
        + conforms(Operation::Gather, &all_of("gather", &["f16", "f64", "i32"], &SHAPES), 2);
    assert!(compared > 100, "{compared}");
}

#[test]
fn every_kernel_that_scatters_agrees_with_the_processor() {
    let compared = conforms(Operation::Scatter, &all_of("scatter", &["f32"], &SHAPES), usize::MAX)
        + conforms(Operation::Scatter, &all_of("scatter", &["f16", "f64", "i32"], &SHAPES), 2);
    assert!(compared > 100, "{compared}");
}

#[test]
fn every_kernel_of_masks_agrees_with_the_processor() {
    let pairs = [
        "1",
        "13",
        "4099",
        "1025,1",
        "7x33,33",
        "65x1,1x63",
        "2x1x3x1,1x5x1x7",
        "2x3x4x5x6x2,1x3x1x5x1x2",
        "0x5,5",
    ];
    let threes =
        ["1", "13", "4099", "1025,1,1025", "1,1025,1", "7x33,33,7x1", "2x1x3x1,1x5x1x7,2x5x1x1", "0x5,5,1"];
    let mut compared = 0;
    for op in ["eq", "ne", "lt", "le", "gt", "ge"] {
        compared += conforms(
            Operation::Mask,
            &all_of(&format!("mask.{op}"), &["f32", "f16", "f64", "i32"], &pairs),
            2,
        );
    }
    compared +=
        conforms(Operation::Mask, &all_of("mask.lt", &["f32"], &["70001", "300x301,301"]), usize::MAX);
    compared += conforms(Operation::Mask, &all_of("mask.where", &["f32", "f16", "f64", "i32"], &threes), 2);
    compared +=
        conforms(Operation::Mask, &all_of("mask.where", &["f32"], &["70001", "300x301,301,1"]), usize::MAX);
    assert!(compared > 300, "{compared}");
}

#[test]
fn every_kernel_of_blocks_agrees_with_the_processor() {
    let side_by_side =
        ["1", "7,5", "1,1,1,1,1", "257x3,257x1,257x5", "5x4099,5x17", "70001,1", "63x64,65x64:axis0", "3,0"];
    let put = [
        "1,1:at0",
        "7,3:at2",
        "70001,40000:at30001",
        "9x33,9x30:at0x3",
        "33x17,31x15:at1x2,fill",
        "3x5x7,2x3x5:at1x2x2,fill",
        "4x9x5x8,2x3x5x6:at1x6x0x2",
        "7,0:at3",
    ];
    let types = ["f32", "f16", "f64", "i32"];
    let compared = conforms(Operation::Concat, &all_of("concat", &types, &side_by_side), 3)
        + conforms(Operation::Put, &all_of("put", &types, &put), 3);
    assert!(compared > 100, "{compared}");
}

/// Runs every kernel at its first and last point on operands, and says what each answered.
fn each_kernel(
    problem: &Problem,
    operands: &Operands,
    mut told: impl FnMut(&str, Result<(), LaunchError>, &Data),
) {
    let mut ran = 0;
    for device in conform::devices() {
        for (number, kernel) in device.table().iter().enumerate() {
            let space = kernel.space(problem, device.facts());
            for point in space.points().first().into_iter().chain(space.points().last()) {
                let mut out = operands.out.clone();
                out.poison();
                let inputs: Vec<Slice<'_>> = operands.inputs.iter().map(Data::slice).collect();
                let answer = device.launch(KernelId(number as u32), problem, point, &inputs, out.slice_mut());
                told(&format!("{} {}", kernel.info().name, space.name(point)), answer, &out);
                ran += 1;
            }
        }
    }
    assert!(ran > 1, "{problem}");
}

#[test]
fn indices_in_order_and_all_the_same_come_out_as_from_the_processor() {
    let cpu = conform::processor();
    for text in [
        "gather:f32:300x17:axis0,count900",
        "scatter:f32:300x16:axis0,count900,i32",
        "scatter:i32:50:count3000",
    ] {
        let problem: Problem = text.parse().unwrap();
        for numbers in [Numbers::Whole, Numbers::Special] {
            let operands = Operands::of(&problem, numbers);
            let expected = Expected::new(cpu.as_ref(), &problem, &operands).unwrap();
            each_kernel(&problem, &operands, |kernel, answer, out| {
                assert_eq!(answer, Ok(()), "{text} {kernel}");
                assert_eq!(
                    expected.check_within(&problem, out, tolerance(&problem)),
                    Ok(()),
                    "{text} {kernel}"
                );
            });
        }
    }
}

#[test]
fn an_index_that_is_not_there_is_told_with_its_number() {
    for (text, wrong) in [
        ("gather:f32:300x17:axis0,count900", 300i64),
        ("gather:f32:300:count900", -301),
        ("gather:f32:9x70x5:axis1,count30,each", i64::MAX),
        ("scatter:f32:300x17:axis0,count900", -301),
        ("scatter:i32:300:count900", 1 << 32),
        ("scatter:f32:300:count900", i64::MIN),
    ] {
        let problem: Problem = text.parse().unwrap();
        let mut operands = Operands::new(&problem);
        let Data::I64(indices) = &mut operands.inputs[1] else { unreachable!() };
        indices[123] = wrong;
        indices[799] = wrong;
        each_kernel(&problem, &operands, |kernel, answer, _| {
            let told = matches!(&answer, Err(error @ LaunchError::Data(_)) if error.to_string().contains("number 123 of"));
            assert!(told, "{text} {kernel}: {answer:?}");
        });
    }
}

#[test]
fn every_cast_rounds_and_ends_as_on_the_processor() {
    let types = ["f32", "f16", "bf16", "i32"];
    let mut texts = Vec::new();
    for from in types {
        for to in types.into_iter().filter(|to| *to != from) {
            texts.extend(["1", "2", "7", "1025", "70001"].map(|len| format!("cast:{from}:{len}:{to}")));
        }
    }
    let compared = conforms(Operation::Cast, &texts, 3);
    assert!(compared > 100, "{compared}");
}

#[test]
fn casts_of_every_half_and_of_numbers_between_two_of_them_agree_with_the_processor() {
    let halves: Vec<u16> = (0..=u16::MAX).collect();
    let mut floats: Vec<f32> = Vec::new();
    for &bits in &halves {
        let (half, brain) = (f16::from_bits(bits).to_f32(), bf16::from_bits(bits).to_f32());
        // Each, halfway to the next, and one to either side of that.
        for (number, step) in [(half, 1u32 << 12), (brain, 1 << 15)] {
            let middle = number.to_bits().wrapping_add(step);
            floats.extend([middle.wrapping_sub(1), middle, middle.wrapping_add(1)].map(f32::from_bits));
        }
    }
    let wholes: Vec<i32> = (0..31)
        .flat_map(|shift| {
            let power = 1i32 << shift;
            let near = [power.wrapping_sub(1), power, power.wrapping_add(1), power.wrapping_add(power >> 8)];
            near.into_iter().chain([power.wrapping_add(power >> 9), power.wrapping_add((power >> 9) + 1)])
        })
        .flat_map(|whole| [whole, whole.wrapping_neg()])
        .chain([0, i32::MIN, i32::MAX, 16_777_217, 33_554_435])
        .collect();
    let sources = [
        Data::F16(halves.iter().map(|bits| f16::from_bits(*bits)).collect()),
        Data::Bf16(halves.iter().map(|bits| bf16::from_bits(*bits)).collect()),
        Data::F32(floats),
        Data::I32(wholes),
    ];
    let (cpu, mut compared) = (conform::processor(), 0);
    for data in sources {
        let from = data.slice().dtype().unwrap();
        for to in [DType::F32, DType::F16, DType::Bf16, DType::I32].into_iter().filter(|to| *to != from) {
            let problem: Problem = format!("cast:{from}:{}:{to}", data.slice().len()).parse().unwrap();
            let mut operands = Operands::new(&problem);
            operands.inputs = vec![data.clone()];
            let expected = Expected::new(cpu.as_ref(), &problem, &operands).unwrap();
            for device in conform::devices() {
                for (number, kernel) in device.table().iter().enumerate() {
                    let Some(point) = kernel.space(&problem, device.facts()).points().first().copied() else {
                        continue;
                    };
                    operands.out.poison();
                    let inputs = [operands.inputs[0].slice()];
                    let id = KernelId(number as u32);
                    assert_eq!(
                        device.launch(id, &problem, &point, &inputs, operands.out.slice_mut()),
                        Ok(())
                    );
                    // Nothing is allowed to differ.
                    assert_eq!(expected.check_within(&problem, &operands.out, 0.0), Ok(()), "{problem}");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared >= 12 * conform::devices().len(), "{compared}");
}
