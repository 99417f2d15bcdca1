//! What writing operations down and computing them as a whole costs: deciding, whatever the size; small expressions against the
//! same operations one by one; how large ones grow; and launches of one expression on the first GPU against one expression for each.

use crate::Printer;
use crate::turns::turns;
use anyhow::Result;
use serde_json::{Map, Value, json};
use trimtab::advanced::tune::Stopwatch;
use trimtab::advanced::wisdom::Filter;
use trimtab::{Axis, Builder, Error, Expression, Runtime, Tensor};
use trimtab::{Nanos, Patience};

/// Interleaved rounds; the minimum counts.
const ROUNDS: u32 = 60;
/// Rounds of decisions that are made anew.
const NEW_ROUNDS: u32 = 40;
/// Least time of a timed stretch.
const LEAST: Nanos = Nanos(200_000);
/// Side of the products of the chain on a GPU, and how many there are.
const GPU_SIDE: usize = 16;
const GPU_PRODUCTS: usize = 8;

pub(crate) fn run(printer: &Printer) -> Result<()> {
    printer.line(&deciding()?);
    printer.line(&small()?);
    printer.line(&crate::large::line(Some("cpu"))?);
    printer.line(&crate::large::line(None)?);
    match on_gpu()? {
        Some(line) => printer.line(&line),
        None => eprintln!("there is no GPU: gpu_expression_vs_launches is left out"),
    }
    Ok(())
}

fn builder() -> Builder {
    Runtime::builder().ignore_environment().wisdom_in_memory().no_blas()
}

fn numbers(side: usize) -> Result<Tensor<f32>, Error> {
    Tensor::from_fn(&[side, side], |at| 0.5 + (at % 1021) as f32 / 1024.0)
}

/// A layer and what is summed up of it.
fn layer(rt: &Runtime, x: &Tensor<f32>, bias: &Tensor<f32>) -> Expression<f32> {
    ((rt.lazy(x).matmul(x) + bias).relu() * 0.5 - 1.0).sum(Axis::All)
}

/// What deciding how to compute takes for operands of 16 × 16 and 4096 × 4096: expressions known and new, and single operations.
fn deciding() -> Result<Value> {
    let rt = builder().patience(Patience::Estimate).build()?;
    let operands = |side: usize| -> Result<(Tensor<f32>, Tensor<f32>)> {
        Ok((Tensor::zeros(&[side, side])?, Tensor::zeros(&[side])?))
    };
    let (small, large) = (operands(16)?, operands(4096)?);
    let decide = |(x, bias): &(Tensor<f32>, Tensor<f32>)| -> Result<()> {
        std::hint::black_box(layer(&rt, x, bias).explain()?);
        Ok(())
    };
    decide(&small)?;
    decide(&large)?;
    let known = turns::<2>(ROUNDS, LEAST, |which| decide([&small, &large][which]))?;
    let new = |rt: &Runtime| -> Result<[f64; 3]> {
        let operands = [operands(16)?, operands(1024)?, operands(4096)?];
        let mut best = [f64::INFINITY; 3];
        for _ in 0..NEW_ROUNDS {
            for ((x, bias), best) in operands.iter().zip(&mut best) {
                // Plans and schedules go; measured rates stay.
                rt.forget(&Filter::default());
                let stopwatch = Stopwatch::start();
                std::hint::black_box(layer(rt, x, bias).explain()?);
                *best = best.min(stopwatch.elapsed().0 as f64);
            }
        }
        Ok(best)
    };
    let here = new(&builder().device("cpu").patience(Patience::Estimate).build()?)?;
    let everywhere = new(&rt)?;
    // A single operation; how many kernels and settings there are to choose from depends on its size.
    let planner = rt.planner();
    let (mut planned, mut rivals) = ([f64::INFINITY; 2], [0; 2]);
    for _ in 0..ROUNDS {
        for (place, side) in [16, 4096].into_iter().enumerate() {
            let problem = format!("elementwise.add:f32:{side}x{side},{side}").parse()?;
            planner.forget(&Filter::default());
            let stopwatch = Stopwatch::start();
            planner.plan(&problem, Default::default())?;
            planned[place] = planned[place].min(stopwatch.elapsed().0 as f64);
            rivals[place] = rt.explain(&problem)?.rivals.len();
        }
    }
    let each = |place: usize| planned[place] / rivals[place] as f64;
    Ok(json!({
        "decide_ns_16": known[0], "decide_ns_4096": known[1], "decide_ratio": known[1] / known[0],
        "decide_new_ns_16": here[0], "decide_new_ns_1024": here[1], "decide_new_ns_4096": here[2],
        "decide_new_ratio": here[2] / here[0],
        "decide_new_all_devices_ns_16": everywhere[0], "decide_new_all_devices_ns_1024": everywhere[1],
        "decide_new_all_devices_ns_4096": everywhere[2],
        "plan_new_ns_16": planned[0], "plan_new_ns_4096": planned[1],
        "plan_new_rivals_16": rivals[0], "plan_new_rivals_4096": rivals[1],
        "plan_new_ratio_per_rival": each(1) / each(0),
    }))
}

/// Expressions against the same operations called one by one, on the processor.
fn small() -> Result<Value> {
    let rt = builder().device("cpu").build()?;
    let mut line = Map::new();
    for side in [16, 64, 1024] {
        let x = numbers(side)?;
        compared(&mut line, &format!("chain_{side}"), &|| lazy_chain(&rt, &x), &|| eager_chain(&rt, &x))?;
        // Each with a runtime that knows nothing but the machine's speeds.
        for (name, chain) in [("lazy", lazy_chain as fn(&Runtime, &Tensor<f32>) -> _), ("eager", eager_chain)]
        {
            let rt = builder().device("cpu").build()?;
            rt.add(&numbers(3)?, 1.0)?;
            let stopwatch = Stopwatch::start();
            std::hint::black_box(chain(&rt, &x)?);
            line.insert(format!("chain_{side}_{name}_first_ms"), json!(stopwatch.elapsed().0 as f64 / 1e6));
        }
    }
    let (x, bias) = (numbers(64)?, Tensor::full(&[64], -20.0f32)?);
    let lazy = || Ok((rt.lazy(&x).matmul(&x) + &bias).relu().eval()?);
    let eager = || Ok(rt.relu(&rt.add(&rt.matmul(&x, &x)?, &bias)?)?);
    compared(&mut line, "layer_64", &lazy, &eager)?;
    let ratio = line.get("chain_16_lazy_vs_eager").cloned();
    line.insert("small_lazy_vs_eager".to_string(), ratio.unwrap_or_default());
    Ok(line.into())
}

fn lazy_chain(rt: &Runtime, x: &Tensor<f32>) -> Result<Tensor<f32>> {
    let x = rt.lazy(x);
    Ok((((x * 1.5 - 0.25).relu() * 0.75 - 0.5).abs().maximum(0.125).minimum(0.875)).eval()?)
}

fn eager_chain(rt: &Runtime, x: &Tensor<f32>) -> Result<Tensor<f32>> {
    let scaled = rt.relu(&rt.sub(&rt.mul(x, 1.5)?, 0.25)?)?;
    let bent = rt.abs(&rt.sub(&rt.mul(&scaled, 0.75)?, 0.5)?)?;
    Ok(rt.minimum(&rt.maximum(&bent, 0.125)?, 0.875)?)
}

/// Times both and checks that they agree.
fn compared(
    line: &mut Map<String, Value>,
    name: &str,
    lazy: &dyn Fn() -> Result<Tensor<f32>>,
    eager: &dyn Fn() -> Result<Tensor<f32>>,
) -> Result<()> {
    let (own, other) = (lazy()?, eager()?);
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * b.abs().max(1.0);
    anyhow::ensure!(own.to_vec().iter().zip(&other.to_vec()).all(close), "{name}: both ways differ");
    let times = turns::<2>(ROUNDS, LEAST, |which| [lazy, eager][which]().map(drop))?;
    line.insert(format!("{name}_lazy_ns"), json!(times[0]));
    line.insert(format!("{name}_eager_ns"), json!(times[1]));
    line.insert(format!("{name}_lazy_vs_eager"), json!(times[0] / times[1]));
    Ok(())
}

/// A chain of products, which nothing can run as one, on the first GPU: as one expression, and one expression each with
/// everything resident. How many times as fast the former is.
fn on_gpu() -> Result<Option<Value>> {
    let Ok(rt) = builder().device("gpu0").patience(Patience::Estimate).build() else { return Ok(None) };
    let (x, w) = (numbers(GPU_SIDE)?, Tensor::full(&[GPU_SIDE, GPU_SIDE], 1.0 / GPU_SIDE as f32)?);
    let together = || -> Result<Tensor<f32>> {
        let mut chain = rt.lazy(&x);
        for _ in 0..GPU_PRODUCTS {
            chain = chain.matmul(&w);
        }
        Ok(chain.max(Axis::All).eval()?)
    };
    let apart = || -> Result<Tensor<f32>> {
        let mut value = x.clone();
        for _ in 0..GPU_PRODUCTS {
            value = rt.lazy(&value).matmul(&w).eval()?;
        }
        Ok(rt.lazy(&value).max(Axis::All).eval()?)
    };
    let both = [together()?.item()?, apart()?.item()?];
    anyhow::ensure!((both[0] - both[1]).abs() < 1e-3, "both ways differ: {both:?}");
    // Both end with reading: what is not read is not waited for, and would be counted to whatever is timed next.
    let read = |value: Result<Tensor<f32>>| -> Result<()> {
        std::hint::black_box(value?.item()?);
        Ok(())
    };
    let times = turns::<2>(ROUNDS, LEAST, |which| read(if which == 0 { together() } else { apart() }))?;
    Ok(Some(json!({
        "device": rt.devices()[1].facts().name, "launches": GPU_PRODUCTS + 1,
        "gpu_expression_ns": times[0], "gpu_launches_ns": times[1],
        "gpu_expression_vs_launches": times[1] / times[0],
    })))
}
