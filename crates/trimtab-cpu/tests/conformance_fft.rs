//! Every kernel of Fourier transforms, at every point, against the reference; and the reference against NumPy.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests; clippy exempts only functions marked as tests"
)]

mod conform;
#[path = "data/numpy.rs"]
mod numpy;

use conform::conform;
use numpy::{Corner, off, transforms};
use trimtab_core::{DType, Device, Operation, Problem};
use trimtab_operands::{Data, Expected, Operands};

/// One, two, primes, powers of two and their neighbours, composites; none, one and several transforms; two and three axes.
const SHAPES: [&str; 43] = [
    "0x8",
    "1",
    "2",
    "3",
    "4",
    "5",
    "7",
    "8",
    "9",
    "15",
    "16",
    "17",
    "31",
    "32",
    "33",
    "61",
    "63",
    "64",
    "65",
    "97",
    "127",
    "128",
    "255",
    "256",
    "257",
    "1000",
    "1009",
    "1023",
    "1024",
    "1025",
    "2048",
    "4096",
    "3x1",
    "5x7",
    "3x64",
    "17x16",
    "9x128",
    "5x1000",
    "33x2048",
    "3x5x7:2d",
    "16x64:2d",
    "2x32x8x16:3d",
    "6x10x15:3d",
];

/// Larger ones, of single precision only: references take their time.
const LARGE: [&str; 7] =
    ["65536", "16381", "3x32768", "256x512:2d", "100x60:2d", "10x129x128:3d", "2x127x33:2d"];

/// Every operation on them, by the types of real and of complex numbers.
fn all(shapes: &[&str], types: &[(&str, &str)]) -> Vec<String> {
    let ops = types.iter().flat_map(|&(real, complex)| {
        [("forward", complex), ("inverse", complex), ("real", real), ("inverse_real", complex)]
    });
    ops.flat_map(|(op, dtype)| shapes.iter().map(move |shape| format!("fft.{op}:{dtype}:{shape}"))).collect()
}

#[test]
fn every_kernel_of_transforms_at_every_point_agrees_with_the_reference() {
    let mut problems = all(&SHAPES, &[("f32", "complex64"), ("f64", "complex128")]);
    problems.extend(all(&LARGE, &[("f32", "complex64")]));
    conform(Operation::Fft, &problems);
}

#[test]
fn every_kernel_has_the_signs_scales_and_half_spectra_of_numpy() {
    let device = conform::device();
    let kernels = conform::kernels_of(&device, Operation::Fft);
    let mut runs = 0;
    for Corner { problem, inputs, wanted } in transforms() {
        for (id, info) in &kernels {
            for point in device.space(*id, &problem).points() {
                let mut out = wanted.clone();
                out.poison();
                let launched = device.launch(*id, &problem, point, &[inputs[0].slice()], out.slice_mut());
                assert_eq!(launched, Ok(()), "{} on {problem}", info.name);
                let (off, allowed) = off(&problem, &out, &wanted);
                assert!(off <= allowed, "{} on {problem}: off by {off:e}, allowed {allowed:e}", info.name);
                runs += 1;
            }
        }
    }
    assert!(runs > 500, "{runs}");
}

/// Operands of a batch of two, the second of which has something that is not a number.
fn with_a_nan(problem: &Problem) -> Operands {
    let mut operands = Operands::new(problem);
    let input = &mut operands.inputs[0];
    let each = input.numbers() / input.len();
    // All parts of a number: of a spectrum's, one alone may not reach all real numbers.
    let place = each * (input.len() / 2 + 3);
    let numbers: Vec<f64> = (0..input.numbers())
        .map(|at| if (place..place + each).contains(&at) { f64::NAN } else { input.at(at).unwrap() })
        .collect();
    *input = Data::of_numbers(problem.dtype().unwrap(), &numbers);
    operands
}

#[test]
fn what_is_not_a_number_fills_its_transform_and_stays_out_of_others() {
    let device = conform::device();
    for text in ["forward:complex64", "inverse:complex128", "real:f32", "inverse_real:complex64"] {
        for shape in ["2x128", "2x1000", "2x17", "2x8x64:2d"] {
            let problem: Problem = format!("fft.{text}:{shape}").parse().unwrap();
            let operands = with_a_nan(&problem);
            for (id, info) in conform::kernels_of(&device, Operation::Fft) {
                for point in device.space(id, &problem).points() {
                    let mut out = operands.out.clone();
                    let launched = device.launch(id, &problem, point, &operands.slices(), out.slice_mut());
                    assert_eq!(launched, Ok(()), "{} on {problem}", info.name);
                    let each = out.numbers() / out.len();
                    let is_nan = |element: usize| {
                        (0..each).any(|part| out.at(each * element + part).unwrap().is_nan())
                    };
                    for element in 0..out.len() {
                        assert_eq!(
                            is_nan(element),
                            2 * element >= out.len(),
                            "{} on {problem}: {element}",
                            info.name
                        );
                    }
                }
            }
        }
    }
}

/// A transform of a power of two in single precision, its twiddle factors each made from the one before.
fn by_recurrence(line: &[[f32; 2]]) -> Vec<[f32; 2]> {
    let len = line.len();
    if len == 1 {
        return line.to_vec();
    }
    let part = |first: usize| by_recurrence(&line.iter().skip(first).step_by(2).copied().collect::<Vec<_>>());
    let times = |a: [f32; 2], b: [f32; 2]| [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]];
    let (evens, odds) = (part(0), part(1));
    let angle = -2.0 * std::f32::consts::PI / len as f32;
    let (step, mut turn) = ([angle.cos(), angle.sin()], [1.0f32, 0.0]);
    let mut made = vec![[0.0; 2]; len];
    for at in 0..len / 2 {
        let odd = times(turn, odds[at]);
        made[at] = [evens[at][0] + odd[0], evens[at][1] + odd[1]];
        made[at + len / 2] = [evens[at][0] - odd[0], evens[at][1] - odd[1]];
        turn = times(turn, step);
    }
    made
}

#[test]
fn twiddle_factors_made_from_each_other_are_not_exact_enough() {
    let device = conform::device();
    for len in [1024usize, 4096, 65_536] {
        let problem: Problem = format!("fft.forward:complex64:{len}").parse().unwrap();
        let mut operands = Operands::new(&problem);
        let expected = Expected::new(&device, &problem, &operands).unwrap();
        let input: Vec<[f32; 2]> = (0..len)
            .map(|at| [0, 1].map(|part| operands.inputs[0].at(2 * at + part).unwrap() as f32))
            .collect();
        let made: Vec<f64> = by_recurrence(&input).concat().iter().map(|&x| f64::from(x)).collect();
        operands.out = Data::of_numbers(DType::Complex64, &made);
        let wrong = expected.check(&problem, &operands.out).unwrap_err();
        println!("{len}: {wrong}");
    }
}
