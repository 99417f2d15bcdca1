//! A multilayer perceptron of 784, 256, 128 and 10 units by trimtab, call by call and as one expression, by ndarray and by candle: what a
//! call takes, in turns, a line for each batch, and whether what is promised holds.

use anyhow::{Result, bail, ensure};
use candle_core::{Device, Tensor as Candle};
use ndarray::{Array1, Array2};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use trimtab::prelude::*;

const UNITS: [usize; 4] = [784, 256, 128, 10];
const BATCHES: [usize; 3] = [1, 32, 256];
const NAMES: [&str; 4] = ["eager", "lazy", "ndarray", "candle"];
/// Rounds whose medians are compared.
const ROUNDS: usize = 41;
/// Calls of a program before any is timed, twice: before plans are settled and after.
const WARM: usize = 300;
/// As long as plans are settled in the background, nobody is timed: it would be timed beside races. That long at most.
const SETTLING: Duration = Duration::from_secs(30);
/// A round of a program takes that long.
const ROUND_NS: f64 = 20e6;
/// How far results may be apart: sums of hundreds of products in another order.
const APART: f32 = 1e-3;

/// Small numbers of both signs, the same in every run.
fn number(index: usize, seed: usize) -> f32 {
    ((index * 7919 + seed * 104_729) % 2_001) as f32 / 1_000.0 - 1.0
}

fn numbers(count: usize, seed: usize, scale: f32) -> Vec<f32> {
    (0..count).map(|index| number(index, seed) * scale).collect()
}

/// Weights and bias of a layer, as each library holds them.
struct Layer {
    ours: (Tensor<f32>, Tensor<f32>),
    ndarray: (Array2<f32>, Array1<f32>),
    candle: (Candle, Candle),
}

impl Layer {
    fn new(inputs: usize, outputs: usize, seed: usize) -> Result<Layer> {
        let weights = numbers(inputs * outputs, seed, 1.0 / (inputs as f32).sqrt());
        let bias = numbers(outputs, seed + 31, 0.1);
        let cpu = &Device::Cpu;
        Ok(Layer {
            ours: (
                Tensor::from_vec(weights.clone(), &[inputs, outputs])?,
                Tensor::from_vec(bias.clone(), &[outputs])?,
            ),
            ndarray: (
                Array2::from_shape_vec((inputs, outputs), weights.clone())?,
                Array1::from_vec(bias.clone()),
            ),
            candle: (
                Candle::from_vec(weights, (inputs, outputs), cpu)?,
                Candle::from_vec(bias, outputs, cpu)?,
            ),
        })
    }
}

fn eager(rt: &Runtime, layers: &[Layer], x: &Tensor<f32>) -> Result<Vec<f32>> {
    let mut y = x.clone();
    for (depth, Layer { ours: (weights, bias), .. }) in layers.iter().enumerate() {
        y = rt.add(&rt.matmul(&y, weights)?, bias)?;
        if depth + 1 < layers.len() {
            y = rt.relu(&y)?;
        }
    }
    Ok(y.to_vec())
}

fn lazy(rt: &Runtime, layers: &[Layer], x: &Tensor<f32>) -> Result<Vec<f32>> {
    let mut y = rt.lazy(x);
    for (depth, Layer { ours: (weights, bias), .. }) in layers.iter().enumerate() {
        y = y.matmul(weights) + bias;
        if depth + 1 < layers.len() {
            y = y.relu();
        }
    }
    Ok(y.eval()?.to_vec())
}

fn with_ndarray(layers: &[Layer], x: &Array2<f32>) -> Vec<f32> {
    // The input is not copied: the others do not copy theirs.
    let mut y = Array2::zeros((0, 0));
    for (depth, Layer { ndarray: (weights, bias), .. }) in layers.iter().enumerate() {
        y = if depth == 0 { x.dot(weights) } else { y.dot(weights) };
        y += bias;
        if depth + 1 < layers.len() {
            y.mapv_inplace(|value| value.max(0.0));
        }
    }
    y.into_raw_vec_and_offset().0
}

fn with_candle(layers: &[Layer], x: &Candle) -> Result<Vec<f32>> {
    let mut y = x.clone();
    for (depth, Layer { candle: (weights, bias), .. }) in layers.iter().enumerate() {
        y = y.matmul(weights)?.broadcast_add(bias)?;
        if depth + 1 < layers.len() {
            y = y.relu()?;
        }
    }
    Ok(y.flatten_all()?.to_vec1()?)
}

/// Waits until nothing is left to settle; how many plans still are.
fn settled(rt: &Runtime) -> u64 {
    let started = Instant::now();
    while rt.stats().unsettled > 0 && started.elapsed() < SETTLING {
        std::thread::sleep(Duration::from_millis(100));
    }
    rt.stats().unsettled
}

/// What a call of each takes in turns, as medians of rounds, in nanoseconds.
fn medians(call: &dyn Fn(usize) -> Result<Vec<f32>>) -> Result<[f64; NAMES.len()]> {
    let mut repeats = [1usize; NAMES.len()];
    for (which, repeats) in repeats.iter_mut().enumerate() {
        let started = Instant::now();
        for _ in 0..10 {
            call(which)?;
        }
        *repeats = (ROUND_NS / (started.elapsed().as_nanos() as f64 / 10.0)).ceil().max(1.0) as usize;
    }
    let mut times: [Vec<f64>; NAMES.len()] = Default::default();
    for _ in 0..ROUNDS {
        for (which, times) in times.iter_mut().enumerate() {
            let started = Instant::now();
            for _ in 0..repeats[which] {
                std::hint::black_box(call(which)?);
            }
            times.push(started.elapsed().as_nanos() as f64 / repeats[which] as f64);
        }
    }
    Ok(times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }))
}

/// What is promised of a batch and does not hold.
fn broken(batch: usize, [eager, lazy, ndarray, candle]: [f64; NAMES.len()]) -> Vec<String> {
    let mut broken = Vec::new();
    for (name, ours) in [("eager", eager), ("lazy", lazy)] {
        for (rival, theirs) in [("ndarray", ndarray), ("candle", candle)] {
            if ours > theirs {
                broken.push(format!("{name} is behind {rival} at batch {batch}"));
            }
        }
    }
    if batch == 1 && lazy > eager {
        broken.push("lazy is behind eager at batch 1".to_string());
    }
    broken
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let json = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--json"] => true,
        _ => bail!("usage: cargo xtask bench mlp [--json]"),
    };
    let print = |line: Value| match line.as_object().filter(|_| !json) {
        None => println!("{line}"),
        Some(parts) => {
            let shown = |(name, value): (&String, &Value)| match value.as_f64().filter(|_| value.is_f64()) {
                Some(number) => format!("{name} {number:.3}"),
                None => format!("{name} {value}"),
            };
            println!("{}", parts.iter().map(shown).collect::<Vec<_>>().join("  "));
        }
    };
    // What a program gets that was built without GPUs and has no BLAS installed: neither have the others.
    let rt = Runtime::builder().ignore_environment().device("cpu").wisdom_in_memory().no_blas().build()?;
    let layers: Vec<Layer> = UNITS
        .windows(2)
        .enumerate()
        .map(|(seed, units)| Layer::new(units[0], units[1], seed))
        .collect::<Result<_>>()?;
    let mut all = Vec::new();
    for batch in BATCHES {
        let inputs = numbers(batch * UNITS[0], 7, 1.0);
        let ours = Tensor::from_vec(inputs.clone(), &[batch, UNITS[0]])?;
        let theirs = Array2::from_shape_vec((batch, UNITS[0]), inputs.clone())?;
        let candle = Candle::from_vec(inputs, (batch, UNITS[0]), &Device::Cpu)?;
        let call = |which: usize| match which {
            0 => eager(&rt, &layers, &ours),
            1 => lazy(&rt, &layers, &ours),
            2 => Ok(with_ndarray(&layers, &theirs)),
            _ => with_candle(&layers, &candle),
        };
        let expected = call(2)?;
        for (which, name) in NAMES.iter().enumerate() {
            let apart = call(which)?.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            ensure!(apart < APART, "{name} is {apart} off");
            (0..WARM).try_for_each(|_| call(which).map(drop))?;
        }
        let unsettled = settled(&rt);
        for which in 0..NAMES.len() {
            (0..WARM).try_for_each(|_| call(which).map(drop))?;
        }
        let medians = medians(&call)?;
        let [eager, lazy, ndarray, candle] = medians;
        print(json!({
            "batch": batch, "eager_us": eager / 1e3, "lazy_us": lazy / 1e3, "ndarray_us": ndarray / 1e3, "candle_us": candle / 1e3,
            "eager_vs_ndarray": ndarray / eager, "eager_vs_candle": candle / eager,
            "lazy_vs_ndarray": ndarray / lazy, "lazy_vs_candle": candle / lazy, "lazy_vs_eager": eager / lazy,
            "unsettled": unsettled,
        }));
        all.extend(broken(batch, medians));
    }
    print(json!({ "holds": all.is_empty(), "broken": all }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_that_does_not_hold_is_named() {
        assert_eq!(broken(1, [3.0, 2.0, 4.0, 5.0]), Vec::<String>::new());
        assert_eq!(broken(32, [2.0, 3.0, 4.0, 5.0]), Vec::<String>::new());
        assert_eq!(broken(1, [2.0, 3.0, 4.0, 5.0]), ["lazy is behind eager at batch 1"]);
        assert_eq!(broken(32, [2.0, 5.0, 4.0, 6.0]), ["lazy is behind ndarray at batch 32"]);
    }
}
