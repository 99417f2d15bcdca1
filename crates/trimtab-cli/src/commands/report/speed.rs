//! How fast products are computed, by size and kernel, against what the device's rates allow.

use super::chart::{
    Axis, HEIGHT, LEFT, RIGHT, TOP, WIDTH, axis_count, drawing, frame, legend, mark, plot_bottom,
};
use crate::markup::{Markup, polyline};
use crate::output::times;
use serde::Serialize;
use std::collections::BTreeMap;
use trimtab::Runtime;
use trimtab::advanced::core::{Basis, Operation, Problem};
use trimtab::advanced::plan::{Decision, least_ns};

/// Kernels drawn of a device: those that are the fastest most often.
const KERNELS: usize = 4;

/// A kernel's best measured time on a product, as a speed.
#[derive(Serialize)]
pub(super) struct SpeedView {
    pub problem: String,
    pub device: String,
    pub kernel: String,
    pub flops: u64,
    pub gflops: f64,
    /// What the device's rates allow for that work, everything in the cache.
    pub roof_gflops: f64,
}

/// The speeds of a decision about a product; nothing for other operations.
pub(super) fn of(runtime: &Runtime, problem: &Problem, decision: &Decision) -> Vec<SpeedView> {
    let Some(dtype) = problem.dtype().filter(|_| problem.operation() == Operation::Matmul) else {
        return Vec::new();
    };
    let speed = |rival: &&trimtab::advanced::plan::Rival| {
        let time = rival.estimate().filter(|estimate| matches!(estimate.basis, Basis::Measured(_)))?.time;
        let device = runtime.devices().get(rival.device as usize)?;
        let (flops, least) = (problem.flops(), least_ns(&rival.work, dtype.size(), &device.rates()));
        (time.0 > 0 && least > 0.0).then(|| SpeedView {
            problem: problem.to_string(),
            device: rival.device_id.to_string(),
            kernel: rival.name.to_string(),
            flops,
            gflops: flops as f64 / time.0 as f64,
            roof_gflops: flops as f64 / least,
        })
    };
    decision.best_per_kernel().iter().filter_map(speed).collect()
}

/// The devices that have speeds, in their order.
pub(super) fn devices(speeds: &[SpeedView]) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for speed in speeds {
        if !found.contains(&speed.device.as_str()) {
            found.push(&speed.device);
        }
    }
    found
}

/// Draws the speeds of a device; nothing if there are none.
pub(super) fn draw(markup: &mut Markup, device: &str, speeds: &[SpeedView]) -> Option<()> {
    let its: Vec<&SpeedView> = speeds.iter().filter(|speed| speed.device == device).collect();
    let x = Axis::over(its.iter().map(|speed| speed.flops as f64), LEFT, WIDTH - RIGHT)?;
    let y = its.iter().flat_map(|speed| [speed.gflops, speed.roof_gflops]);
    let y = Axis::over(y, plot_bottom(), TOP)?;
    let kernels = most_often_fastest(&its);
    let fastest = its.iter().max_by(|a, b| a.gflops.total_cmp(&b.gflops))?;
    let told = format!(
        "The fastest is {} at {}: {:.1} GFLOP/s, {} of what the rates allow.",
        fastest.kernel,
        fastest.problem,
        fastest.gflops,
        times(fastest.gflops / fastest.roof_gflops)
    );
    let title = format!("{device}: speed of products by size and kernel");
    drawing(markup, (WIDTH, HEIGHT), &format!("plot-speed-{device}"), (&title, &told), |svg| {
        let speed = |gflops: f64| format!("{}", (gflops * 100.0).round() / 100.0);
        frame(svg, (&x, "arithmetic operations", &axis_count), (&y, "GFLOP/s", &speed));
        polyline(svg, roof(&its).into_iter().map(|(size, roof)| (x.at(size), y.at(roof))), "fit c0 expected");
        for one in &its {
            let Some(colour) = kernels.iter().position(|kernel| *kernel == one.kernel) else { continue };
            svg.within("g", &[], |svg| {
                let shown = format!("{}: {}, {:.1} GFLOP/s", one.problem, one.kernel, one.gflops);
                svg.leaf("title", &[], &shown);
                let place = (x.at(one.flops as f64), y.at(one.gflops));
                mark(svg, place, 3.0, colour % 2 == 0, &format!("mark c{colour}"));
            });
        }
        let short = |kernel: &str| kernel.rsplit('.').next().unwrap_or(kernel).to_string();
        let named = |(colour, kernel): (usize, &&str)| (short(kernel), colour, colour % 2 == 0);
        legend(svg, &kernels.iter().enumerate().map(named).collect::<Vec<_>>());
    });
    Some(())
}

/// The highest roof of each size.
fn roof(its: &[&SpeedView]) -> Vec<(f64, f64)> {
    let mut roofs: BTreeMap<u64, f64> = BTreeMap::new();
    for speed in its {
        let roof = roofs.entry(speed.flops).or_default();
        *roof = roof.max(speed.roof_gflops);
    }
    roofs.into_iter().map(|(flops, roof)| (flops as f64, roof)).collect()
}

/// The kernels that win most problems, most first.
fn most_often_fastest<'a>(its: &[&'a SpeedView]) -> Vec<&'a str> {
    let mut best: BTreeMap<&str, &SpeedView> = BTreeMap::new();
    for speed in its {
        let known = best.entry(&speed.problem).or_insert(speed);
        if speed.gflops > known.gflops {
            *known = speed;
        }
    }
    let mut wins: BTreeMap<&'a str, usize> = its.iter().map(|speed| (speed.kernel.as_str(), 0)).collect();
    for speed in
        its.iter().filter(|speed| best.get(speed.problem.as_str()).is_some_and(|b| b.kernel == speed.kernel))
    {
        *wins.entry(&speed.kernel).or_default() += 1;
    }
    let mut kernels: Vec<(&str, usize)> = wins.into_iter().collect();
    kernels.sort_by_key(|(_, wins)| std::cmp::Reverse(*wins));
    kernels.into_iter().take(KERNELS).map(|(kernel, _)| kernel).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speed(kernel: &str, flops: u64, gflops: f64) -> SpeedView {
        let problem = format!("matmul:f32:{flops}");
        SpeedView { problem, device: "cpu".into(), kernel: kernel.into(), flops, gflops, roof_gflops: 100.0 }
    }

    #[test]
    fn speeds_are_drawn_below_their_roof_with_the_kernels_that_win() {
        let mut speeds =
            vec![speed("a.slow", 1000, 1.0), speed("a.fast", 1000, 10.0), speed("a.fast", 8000, 50.0)];
        speeds.extend(["b", "c", "d"].map(|kernel| speed(kernel, 8000, 5.0)));
        let mut markup = Markup::default();
        draw(&mut markup, "cpu", &speeds).unwrap();
        let text = markup.finish();
        assert!(text.contains("a.fast at matmul:f32:8000: 50.0 GFLOP/s, 0.50"), "{text}");
        assert_eq!(text.matches("class=\"mark c0\"").count(), 2 + 1, "its marks and the legend's: {text}");
        assert_eq!(text.matches("<polyline").count(), 1);
        assert!(!text.contains("NaN") && draw(&mut Markup::default(), "gpu0", &speeds).is_none());
        assert_eq!((devices(&speeds), roof(&speeds.iter().collect::<Vec<_>>()).len()), (vec!["cpu"], 2));
    }
}
