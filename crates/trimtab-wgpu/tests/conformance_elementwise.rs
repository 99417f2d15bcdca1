//! Every elementwise kernel at every legal point against the CPU's reference, and values no generated operand has.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "helpers shared by several test programs; clippy exempts only functions marked as tests"
)]

mod conform;

use trimtab_core::{BinaryOp, ElementwiseOp, KernelId, LaunchError, Operation, Problem, UnaryOp};
use trimtab_cpu::{CpuDevice, CpuOptions};
use trimtab_operands::{Data, Expected, Operands, f16};
use trimtab_wgpu::{Program, tolerance};

/// Compares, and says if fewer runs were compared than there are problems.
fn conforms(problems: &[&str]) {
    let compared = conform::conforms(Operation::Elementwise, problems);
    assert!(compared >= problems.len(), "{compared} runs of {} problems", problems.len());
}

#[test]
fn contiguous_operands_agree_with_the_reference_at_every_point() {
    conforms(&[
        "elementwise.add:f32:0",
        "elementwise.add:f32:1",
        "elementwise.add:f32:7",
        "elementwise.add:f32:1000",
        "elementwise.add:f32:4099",
        "elementwise.add:f32:65538",
        "elementwise.add:f32:131072",
        // More than 65535 workgroups of 32.
        "elementwise.neg:f32:2097185",
    ]);
}

#[test]
fn a_single_number_on_either_side_agrees_with_the_reference_at_every_point() {
    conforms(&["elementwise.sub:f32:4100,1", "elementwise.sub:f32:1,4100", "elementwise.div:f32:1,33"]);
}

#[test]
fn repeated_axes_agree_with_the_reference_at_every_point() {
    conforms(&[
        "elementwise.sub:f32:100x36,1x36",
        "elementwise.sub:f32:100x36,100x1",
        "elementwise.sub:f32:33x1,1x130",
        "elementwise.sub:f32:1x65537,2x1",
        "elementwise.sub:f32:3x5x7,1x5x1",
        "elementwise.sub:f32:0x4,1x4",
        "elementwise.sub:f32:2x3x4x5x6x7,1x3x1x5x1x7",
        "elementwise.sub:f32:2x1x4x1x6x1,1x3x1x5x1x8",
    ]);
}

#[test]
fn every_operation_of_every_type_agrees_with_the_reference() {
    let mut problems = Vec::new();
    for op in ElementwiseOp::names() {
        let binary = BinaryOp::parse(op).is_some();
        let integers = matches!(op, "neg" | "abs" | "relu") || binary;
        for dtype in ["f32", "f16", "i32", "f64"] {
            if dtype == "i32" && !integers {
                continue;
            }
            problems.push(format!("elementwise.{op}:{dtype}:45"));
            if binary && dtype != "f32" {
                problems.push(format!("elementwise.{op}:{dtype}:5x6,1x6"));
            }
        }
    }
    // Doubles have no functions in WGSL: those of the table are declined, the others must be compared.
    let declined = ["exp", "log", "sqrt", "tanh", "sigmoid", "gelu", "pow"];
    problems.retain(|text| !(text.contains(":f64:") && declined.iter().any(|op| text.contains(op))));
    let problems: Vec<&str> = problems.iter().map(String::as_str).collect();
    conforms(&problems);
}

/// Every kernel's result at its default point for operands of the caller's own.
fn at_defaults(text: &str, lhs: Data, rhs: Data) -> Vec<(String, Result<Operands, LaunchError>)> {
    let problem: Problem = text.parse().unwrap();
    let devices = conform::devices();
    let mut results = Vec::new();
    for device in &devices {
        for (number, kernel) in device.table().iter().enumerate() {
            let space = kernel.space(&problem, device.facts());
            let mut operands = Operands::new(&problem);
            operands.inputs = vec![lhs.clone(), rhs.clone()];
            operands.out.poison();
            for point in space.points().iter().take(1) {
                let (left, right) = (
                    operands.inputs[0].slice(),
                    operands.inputs.get(1).map_or(trimtab_operands::Slice::None, |data| data.slice()),
                );
                let out = operands.out.slice_mut();
                let ran = device.launch(KernelId(number as u32), &problem, point, &[left, right], out);
                let what = format!("{} {} {text}", device.facts().id, kernel.info().name);
                results.push((what, ran.map(|()| operands.clone())));
            }
        }
    }
    assert!(!results.is_empty(), "no kernel takes {text}");
    results
}

/// NaNs must be NaNs, infinities and zeros have the same sign, all else agrees within the tolerance.
fn same_as_the_reference(text: &str, lhs: Data, rhs: Data) {
    let problem: Problem = text.parse().unwrap();
    let cpu = CpuDevice::new(CpuOptions { threads: None, blas: None, ..CpuOptions::default() });
    let mut operands = Operands::new(&problem);
    operands.inputs = vec![lhs.clone(), rhs.clone()];
    let Expected::All { values: expected, .. } = Expected::new(&cpu, &problem, &operands).unwrap() else {
        panic!("elementwise problems are compared whole")
    };
    let exact_zero = !problem_is_a_function(&problem);
    for (what, ran) in at_defaults(text, lhs, rhs) {
        let operands = ran.unwrap();
        for index in 0..expected.len() {
            let (wanted, found) = (expected.at(index).unwrap(), operands.out.at(index).unwrap());
            let (a, b) = (operands.inputs[0].at(index), operands.inputs[1].at(index));
            let what = format!("{what}: of {a:?} and {b:?} found {found}, wanted {wanted}");
            if wanted.is_nan() {
                assert!(found.is_nan(), "{what}");
            } else if wanted.is_infinite() {
                assert_eq!(found, wanted, "{what}");
            } else {
                let error = (found - wanted).abs() / wanted.abs().max(1.0);
                assert!(error <= tolerance(&problem), "{what}");
                if wanted == 0.0 && exact_zero {
                    assert_eq!(found.is_sign_negative(), wanted.is_sign_negative(), "{what}");
                }
            }
        }
    }
}

fn problem_is_a_function(problem: &Problem) -> bool {
    matches!(problem, Problem::Elementwise(p) if p.op.is_function())
}

const SPECIAL: [f64; 24] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    3.0,
    -3.0,
    0.5,
    -0.5,
    88.0,
    89.5,
    -88.0,
    -110.0,
    1000.0,
    -1000.0,
    1e-3,
    60000.0,
    -60000.0,
    1.5,
    -2.5,
];

fn of_type(dtype: &str, values: &[f64]) -> Data {
    match dtype {
        "f16" => Data::F16(values.iter().map(|&value| f16::from_f64(value)).collect()),
        "f64" => Data::F64(values.to_vec()),
        _ => Data::F32(values.iter().map(|&value| value as f32).collect()),
    }
}

#[test]
fn functions_of_special_values_are_those_of_the_reference() {
    for dtype in ["f32", "f16", "f64"] {
        let mut values = SPECIAL.to_vec();
        if dtype != "f16" {
            // Finite only in wider types; the last is below the smallest normal number of f32.
            values.extend([1e30, -1e30, 3e38, -3e38, 1e-40]);
        }
        for op in UnaryOp::ALL {
            let exact = matches!(op, UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Relu);
            if dtype == "f64" && !exact {
                continue;
            }
            let text = format!("elementwise.{}:{dtype}:{}", op.name(), values.len());
            same_as_the_reference(&text, of_type(dtype, &values), Data::None);
        }
    }
}

#[test]
fn pairs_of_special_values_give_what_the_reference_gives() {
    let count = SPECIAL.len();
    let left: Vec<f64> = (0..count * count).map(|index| SPECIAL[index / count]).collect();
    let right: Vec<f64> = (0..count * count).map(|index| SPECIAL[index % count]).collect();
    for dtype in ["f32", "f16", "f64"] {
        for op in BinaryOp::ALL {
            if dtype == "f64" && op == BinaryOp::Pow {
                continue;
            }
            let text = format!("elementwise.{}:{dtype}:{}", op.name(), left.len());
            same_as_the_reference(&text, of_type(dtype, &left), of_type(dtype, &right));
        }
    }
}

#[test]
fn integers_at_the_ends_of_their_range_wrap_as_the_reference_does() {
    let values = [i32::MIN, i32::MIN + 1, -3, -2, -1, 1, 2, 3, 31, 32, i32::MAX - 1, i32::MAX];
    let count = values.len();
    let left: Vec<i32> = (0..count * count).map(|index| values[index / count]).collect();
    let right: Vec<i32> = (0..count * count).map(|index| values[index % count]).collect();
    for op in BinaryOp::ALL {
        let text = format!("elementwise.{}:i32:{}", op.name(), left.len());
        same_as_the_reference(&text, Data::I32(left.clone()), Data::I32(right.clone()));
    }
    for op in [UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Relu] {
        let text = format!("elementwise.{}:i32:{count}", op.name());
        same_as_the_reference(&text, Data::I32(values.to_vec()), Data::None);
    }
}

#[test]
fn an_integer_divided_by_zero_is_an_error_of_the_operands() {
    let mut divisors = vec![3; 700];
    divisors[699] = 0;
    let cases = [
        ("elementwise.div:i32:700", vec![5; 700], divisors.clone()),
        ("elementwise.div:i32:7x100,7x1", vec![5; 700], vec![1, 1, 1, 0, 1, 1, 1]),
        ("elementwise.pow:i32:700", divisors, vec![-1; 700]),
    ];
    for (text, lhs, rhs) in cases {
        for (what, ran) in at_defaults(text, Data::I32(lhs.clone()), Data::I32(rhs.clone())) {
            assert!(matches!(ran, Err(LaunchError::Data(_))), "{what}: {ran:?}");
        }
    }
}

#[test]
fn operands_larger_than_a_binding_are_computed_in_parts() {
    for text in ["elementwise.add:f32:67108864", "elementwise.add:f32:67108864,1"] {
        let problem: Problem = text.parse().unwrap();
        let devices = conform::devices();
        let facts = devices[0].facts();
        let adapter = facts.adapter.as_deref().unwrap();
        let kernel = devices[0].table().iter().find(|kernel| kernel.info().name == "gpu.elementwise.vector");
        let space = kernel.unwrap().space(&problem, facts);
        for point in space.points() {
            let program = Program::of(kernel.unwrap().as_ref(), &problem, point, adapter).unwrap();
            assert_eq!(program.check(adapter), Ok(()), "{}", space.name(point));
            assert!(program.steps.len() as u64 >= (256 << 20) / adapter.max_binding.0);
        }
    }
    let [lhs, rhs] =
        [1, 2].map(|salt| (0..1u32 << 26).map(|index| (index % 8191 * salt) as f32).collect::<Vec<_>>());
    for (what, ran) in at_defaults("elementwise.add:f32:67108864", Data::F32(lhs), Data::F32(rhs)) {
        let Data::F32(out) = ran.unwrap().out else { panic!("{what}: not f32") };
        let wrong = out.iter().enumerate().find(|(index, value)| **value != (3 * (index % 8191)) as f32);
        assert_eq!(wrong, None, "{what}");
    }
}

#[test]
fn what_cannot_be_computed_is_declined_with_the_reason() {
    let devices = conform::devices();
    let facts = devices[0].facts();
    let binding = facts.adapter.as_deref().unwrap().max_binding.0.min(1 << 30);
    let rows = binding / 4 / 1024 + 1;
    let over = format!("elementwise.add:f32:{rows}x1024,1x1024");
    let reason = format!("takes bindings up to {binding} bytes, lhs has {}", binding + 4096);
    let cases = [
        ("gpu.elementwise.vector", "elementwise.exp:f64:10", "WGSL has no exp of 64-bit floats".to_string()),
        (
            "gpu.elementwise.vector",
            "elementwise.sqrt:f64:10",
            "WGSL has no sqrt of 64-bit floats".to_string(),
        ),
        ("gpu.elementwise.broadcast", over.as_str(), reason),
    ];
    for (name, text, reason) in cases {
        let kernel = devices[0].table().iter().find(|kernel| kernel.info().name == name).unwrap();
        let declined = kernel.declines(&text.parse().unwrap(), facts).map(|decline| decline.to_string());
        assert_eq!(declined, Some(reason), "{text}");
    }
}
