//! What NumPy says where definitions have corners, as `corners.py` and `fft.py` wrote it down; read by the tests of every device.
#![allow(dead_code, reason = "every test program uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot read its data has failed")]

use trimtab_core::{DType, MaskOp, Operation, Problem};
use trimtab_operands::{Data, by_dtype};

const CORNERS: &str = include_str!("corners.txt");
const TRANSFORMS: &str = include_str!("fft.csv");

/// A problem, its operands, and what comes out.
pub struct Corner {
    pub problem: Problem,
    pub inputs: Vec<Data>,
    pub wanted: Data,
}

/// Every line of `corners.txt`.
pub fn corners() -> Vec<Corner> {
    let corner = |line: &str| {
        let mut parts = line.split('\t');
        let problem: Problem = parts.next().unwrap().parse().unwrap();
        let mut given: Vec<&str> = parts.collect();
        let wanted = read(problem.out_dtype().unwrap(), given.pop().unwrap());
        let of = |(place, text): (usize, &&str)| read(problem.input_dtype(place).unwrap(), text);
        let inputs: Vec<Data> = given.iter().enumerate().map(of).collect();
        let lens: Vec<u64> = inputs.iter().map(|input| input.len() as u64).collect();
        assert_eq!(lens, problem.input_lens().as_slice(), "{line}");
        assert_eq!(wanted.len() as u64, problem.out_len(), "{line}");
        Corner { problem, inputs, wanted }
    };
    CORNERS.lines().map(corner).collect()
}

/// Every line of `fft.csv`, in both precisions.
pub fn transforms() -> Vec<Corner> {
    let numbers = |dtype: DType, text: &str| {
        let numbers: Vec<f64> = text.split(' ').map(|number| number.parse().unwrap()).collect();
        Data::of_numbers(dtype, &numbers)
    };
    let mut found = Vec::new();
    for line in TRANSFORMS.lines().filter(|line| !line.starts_with('#')) {
        let [text, given, made] = line.split(',').collect::<Vec<_>>()[..] else { panic!("{line}") };
        for text in [text.to_string(), text.replace("complex128", "complex64").replace(":f64:", ":f32:")] {
            let problem: Problem = text.parse().unwrap();
            let inputs = vec![numbers(problem.dtype().unwrap(), given)];
            found.push(Corner { problem, inputs, wanted: numbers(problem.out_dtype().unwrap(), made) });
        }
    }
    found
}

/// How far a transform is off, and how far it may be: by the largest number, because what is checked is the definition, not the last digit.
pub fn off(problem: &Problem, found: &Data, wanted: &Data) -> (f64, f64) {
    let each = || (0..wanted.numbers()).map(|at| (found.at(at).unwrap(), wanted.at(at).unwrap()));
    let largest = each().fold(0.0, |most: f64, (_, wanted)| most.max(wanted.abs()));
    let off = each()
        .map(|(found, wanted)| (found - wanted).abs())
        .fold(0.0, |most: f64, off| if off.is_nan() { off } else { most.max(off) });
    (off, 64.0 * problem.out_dtype().unwrap().epsilon() * largest)
}

/// Elements as they are written.
fn read(dtype: DType, text: &str) -> Data {
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    if words.is_empty() {
        return Data::None;
    }
    match dtype {
        DType::Bool => Data::Bool(words.iter().map(|word| *word != "0").collect()),
        // Large ones are no doubles.
        DType::I64 => Data::I64(words.iter().map(|word| word.parse().unwrap()).collect()),
        _ => {
            let numbers: Vec<f64> = words.iter().map(|word| word.parse().unwrap()).collect();
            Data::of_numbers(dtype, &numbers)
        }
    }
}

/// Whether elements are the same: bit by bit where they were only moved, but for what is not a number; else zeros are equal.
pub fn same(problem: &Problem, found: &Data, wanted: &Data) -> bool {
    let moved = match (problem.operation(), problem) {
        (Operation::Gather | Operation::Concat | Operation::Put, _) => true,
        (_, Problem::Mask(mask)) => mask.op == MaskOp::Where,
        _ => false,
    };
    // Functions are rounded as everyone likes.
    let is_near = problem.operation() == Operation::Rows;
    let Some(dtype) = wanted.dtype() else { return found.is_empty() };
    found.len() == wanted.len()
        && by_dtype!(dtype, T => {
            let each = |data: &Data| -> Vec<T> { <T as trimtab_operands::Element>::owned(data.clone()).unwrap() };
            each(found).iter().zip(each(wanted)).all(|(found, wanted)| {
                let numbers = |value: T| trimtab_operands::Element::numbers(value)[0];
                let (a, b) = (numbers(*found), numbers(wanted));
                let near = is_near && b.is_finite() && (a - b).abs() <= 1e-5 * b.abs().max(1.0);
                let equal = *found == wanted || (a.is_nan() && b.is_nan()) || near;
                equal && (!moved || a.is_nan() || a.is_sign_negative() == b.is_sign_negative())
            })
        })
}
