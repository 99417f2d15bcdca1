//! Every kernel at every point answers as NumPy where definitions have corners: `data/corners.py` wrote down what that says.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod conform;

use conform::{device, kernels_of};
use std::collections::BTreeMap;
use trimtab_core::{DType, Device, Operation, Problem};
use trimtab_operands::{Data, by_dtype};

const CORNERS: &str = include_str!("data/corners.txt");

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
fn same(found: &Data, wanted: &Data, moved: bool) -> bool {
    let Some(dtype) = wanted.dtype() else { return found.is_empty() };
    found.len() == wanted.len()
        && by_dtype!(dtype, T => {
            let each = |data: &Data| -> Vec<T> { <T as trimtab_operands::Element>::owned(data.clone()).unwrap() };
            each(found).iter().zip(each(wanted)).all(|(found, wanted)| {
                let numbers = |value: T| trimtab_operands::Element::numbers(value)[0];
                let (a, b) = (numbers(*found), numbers(wanted));
                let equal = *found == wanted || (a.is_nan() && b.is_nan());
                equal && (!moved || a.is_nan() || a.is_sign_negative() == b.is_sign_negative())
            })
        })
}

#[test]
fn every_kernel_says_what_numpy_says_where_definitions_have_corners() {
    let device = device();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in CORNERS.lines() {
        let mut parts = line.split('\t');
        let problem: Problem = parts.next().unwrap().parse().unwrap();
        let mut given: Vec<&str> = parts.collect();
        let wanted = read(problem.out_dtype().unwrap(), given.pop().unwrap());
        let of = |(place, text): (usize, &&str)| read(problem.input_dtype(place).unwrap(), text);
        let inputs: Vec<Data> = given.iter().enumerate().map(of).collect();
        let lens: Vec<u64> = inputs.iter().map(|input| input.len() as u64).collect();
        assert_eq!(lens, problem.input_lens().as_slice(), "{line}");
        assert_eq!(wanted.len() as u64, problem.out_len(), "{line}");
        let operation = problem.operation();
        let moved = match (operation, &problem) {
            (Operation::Gather | Operation::Concat | Operation::Put, _) => true,
            (_, Problem::Mask(mask)) => mask.op == trimtab_core::MaskOp::Where,
            _ => false,
        };
        for (id, info) in kernels_of(&device, operation) {
            if device.declines(id, &problem).is_some() {
                continue;
            }
            for point in device.space(id, &problem).points() {
                let mut out = Data::zeros(problem.out_dtype().unwrap(), wanted.len());
                out.poison();
                let slices: Vec<_> = inputs.iter().map(Data::slice).collect();
                let ran = device.launch(id, &problem, point, &slices, out.slice_mut());
                assert_eq!(ran, Ok(()), "{} {line}", info.name);
                assert!(same(&out, &wanted, moved), "{} {point:?} {line}: {out:?}", info.name);
            }
            *counts.entry(operation.name()).or_default() += 1;
        }
    }
    println!("{counts:?}");
    let asked: Vec<&str> = counts.keys().copied().collect();
    assert_eq!(asked, ["arg", "concat", "fused", "gather", "mask", "put", "scatter", "sort"]);
    // Several kernels each, the reference among them.
    assert!(counts.values().all(|count| *count >= 6), "{counts:?}");
}
