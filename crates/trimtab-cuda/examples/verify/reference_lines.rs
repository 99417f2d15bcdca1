//! What goes along lines: scans, order, indices.

use std::cmp::Ordering;
use trimtab_core::{Arg, ArgOp, DType, Scan, ScanOp, Sort};

/// Each line of `outer × len × inner`: where its elements are.
fn lines([outer, len, inner]: [u64; 3]) -> impl Iterator<Item = Vec<usize>> {
    let [outer, len, inner] = [outer, len, inner].map(|size| size as usize);
    (0..outer * inner)
        .map(move |line| (0..len).map(|at| (line / inner * len + at) * inner + line % inner).collect())
}

pub fn scanned(p: &Scan, input: &[f64]) -> Vec<f64> {
    let whole = p.dtype == DType::I32;
    let (least, most) = match whole {
        true => (f64::from(i32::MIN), f64::from(i32::MAX)),
        false => (f64::NEG_INFINITY, f64::INFINITY),
    };
    let wrapped = |value: f64| if whole { f64::from(value as i64 as i32) } else { value };
    let mut out = vec![f64::NAN; input.len()];
    for places in lines([p.outer, p.len, p.inner]) {
        let mut before = match p.op {
            ScanOp::Sum => 0.0,
            ScanOp::Prod => 1.0,
            ScanOp::Max => least,
            ScanOp::Min => most,
        };
        for place in places {
            let x = input[place];
            let after = match p.op {
                ScanOp::Sum => wrapped(before + x),
                ScanOp::Prod => wrapped(before * x),
                ScanOp::Max if before.is_nan() || before > x => before,
                ScanOp::Min if before.is_nan() || before < x => before,
                ScanOp::Max | ScanOp::Min => x,
            };
            out[place] = if p.exclusive { before } else { after };
            before = after;
        }
    }
    out
}

/// What is no number comes last, whichever way.
fn order(a: f64, b: f64, descending: bool) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) if descending => b.partial_cmp(&a).unwrap_or(Ordering::Equal),
        (false, false) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
        (a, b) => a.cmp(&b),
    }
}

pub fn sorted(p: &Sort, input: &[f64]) -> Vec<f64> {
    let mut out = input.to_vec();
    for places in lines([p.outer, p.len, p.inner]) {
        let mut values: Vec<f64> = places.iter().map(|place| input[*place]).collect();
        values.sort_by(|a, b| order(*a, *b, p.descending));
        places.into_iter().zip(values).for_each(|(place, value)| out[place] = value);
    }
    out
}

pub fn indices(p: &Arg, input: &[f64]) -> Vec<f64> {
    let mut out = vec![f64::NAN; p.out_len() as usize];
    let from = lines([p.outer, p.len, p.inner]);
    for (places, to) in from.zip(lines([p.outer, p.count, p.inner])) {
        let value = |at: usize| input[places[at]];
        let mut all: Vec<usize> = (0..places.len()).collect();
        match p.op {
            // What is no number comes first of all.
            ArgOp::Min | ArgOp::Max => all.sort_by(|a, b| {
                let nan = value(*b).is_nan().cmp(&value(*a).is_nan());
                nan.then(order(value(*a), value(*b), p.op == ArgOp::Max))
            }),
            ArgOp::Sort | ArgOp::Top => {
                all.sort_by(|a, b| order(value(*a), value(*b), p.descending || p.op == ArgOp::Top))
            }
        }
        to.into_iter().zip(all).for_each(|(place, at)| out[place] = at as f64);
    }
    out
}
