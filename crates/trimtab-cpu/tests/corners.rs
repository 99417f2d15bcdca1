//! Every kernel at every point answers as NumPy where definitions have corners: `data/corners.py` wrote down what that says.

mod conform;
#[path = "data/numpy.rs"]
mod numpy;

use conform::{device, kernels_of};
use numpy::{Corner, corners, same};
use std::collections::BTreeMap;
use trimtab_core::Device;
use trimtab_operands::Data;

#[test]
fn every_kernel_says_what_numpy_says_where_definitions_have_corners() {
    let device = device();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for Corner { problem, inputs, wanted } in corners() {
        let operation = problem.operation();
        for (id, info) in kernels_of(&device, operation) {
            if device.declines(id, &problem).is_some() {
                continue;
            }
            for point in device.space(id, &problem).points() {
                let mut out = Data::zeros(problem.out_dtype().unwrap(), wanted.len());
                out.poison();
                let slices: Vec<_> = inputs.iter().map(Data::slice).collect();
                let ran = device.launch(id, &problem, point, &slices, out.slice_mut());
                assert_eq!(ran, Ok(()), "{} {problem}", info.name);
                let what = format!("{} {point:?} {problem} of {inputs:?}: {out:?}", info.name);
                assert!(same(&problem, &out, &wanted), "{what}, not {wanted:?}");
            }
            *counts.entry(operation.name()).or_default() += 1;
        }
    }
    println!("{counts:?}");
    let asked: Vec<&str> = counts.keys().copied().collect();
    let all = [
        "arg", "concat", "fused", "gather", "mask", "pool", "put", "reduce", "rows", "scan", "scatter",
        "sort",
    ];
    assert_eq!(asked, all);
    // Several kernels each, the reference among them.
    assert!(counts.values().all(|count| *count >= 6), "{counts:?}");
}
