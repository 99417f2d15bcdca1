//! A table of measured times: problems by variants, read from a CSV or measured on this machine.

use crate::Options;
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::path::Path;
use trimtab::Runtime;
use trimtab::advanced::core::{KernelId, Nanos, Point, Problem, RandomNumbers, VariantClass};
use trimtab::advanced::tune::{Budget, Candidate, Rules, race};

/// Shapes measured when nobody says how many.
const SHAPES: usize = 400;
/// Sizes of the shapes, drawn evenly by logarithm.
const SIZES: (f64, f64) = (4.0, 2048.0);
/// One shape in so many has one side of at most `SKINNY_SIDE`, and one in so many has sides that are multiples of sixteen.
const SKINNY_ONE_IN: usize = 4;
const SKINNY_SIDE: f64 = 16.0;
const ROUND_ONE_IN: usize = 3;
/// Passes over all shapes, and interleaved rounds of each in a pass; the minimum counts. Passes lie minutes apart, so that a
/// time when the other core was busy does not make two threads look slow on the shapes it happened to meet.
const PASSES: u32 = 4;
const ROUNDS: u32 = 3;
/// Time a shape may take at most in a pass.
const BUDGET: Nanos = Nanos::from_millis(6_000);
const SEED: u64 = 5;

/// Times of variants on problems.
pub(crate) struct Times {
    /// The variants' names.
    pub(crate) variants: Vec<String>,
    /// Per problem its sizes m, n, k and each variant's nanoseconds; not a number where it was not measured.
    pub(crate) rows: Vec<([u64; 3], Vec<f64>)>,
}

impl Times {
    /// From the file the options name, or measured here; kept in a file where the options ask for it.
    pub(crate) fn get(options: &Options) -> Result<Times> {
        let times = match &options.csv {
            Some(path) => Times::read(path)?,
            None => measure(options.shapes.unwrap_or(SHAPES))?,
        };
        if let Some(path) = &options.save {
            std::fs::write(path, times.text()).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(times)
    }

    fn read(path: &Path) -> Result<Times> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        Times::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    /// A table from `m,n,k,<variant>…` and a line a problem. An empty cell was not measured.
    pub(crate) fn parse(text: &str) -> Result<Times> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let header: Vec<&str> = lines.next().map_or(Vec::new(), |(_, line)| line.trim().split(',').collect());
        if header.len() < 5 || header[..3] != ["m", "n", "k"] {
            bail!("the header must be m,n,k and at least two variants, this one is `{}`", header.join(","));
        }
        let variants: Vec<String> = header[3..].iter().map(|name| name.to_string()).collect();
        let mut rows = Vec::new();
        for (number, line) in lines {
            let cells: Vec<&str> = line.trim().split(',').collect();
            let number = number + 1;
            if cells.len() != header.len() {
                bail!("line {number} has {} cells, the header {}", cells.len(), header.len());
            }
            let mut sizes = [0u64; 3];
            for (size, cell) in sizes.iter_mut().zip(&cells) {
                *size = cell
                    .parse::<f64>()
                    .ok()
                    .filter(|value| *value >= 1.0)
                    .with_context(|| format!("line {number}: `{cell}` is not a size"))?
                    as u64;
            }
            let mut times = Vec::with_capacity(variants.len());
            for cell in &cells[3..] {
                let time = if cell.is_empty() {
                    f64::NAN
                } else {
                    cell.parse().with_context(|| format!("line {number}: `{cell}` is not a time"))?
                };
                times.push(if time > 0.0 && f64::is_finite(time) { time } else { f64::NAN });
            }
            if times.iter().any(|time| time.is_finite()) {
                rows.push((sizes, times));
            }
        }
        if rows.is_empty() {
            bail!("there is no line with a time");
        }
        Ok(Times { variants, rows })
    }

    fn text(&self) -> String {
        let mut text = format!("m,n,k,{}\n", self.variants.join(","));
        for ([m, n, k], times) in &self.rows {
            let _ = write!(text, "{m},{n},{k}");
            for time in times {
                let _ = if time.is_finite() { write!(text, ",{time:.1}") } else { write!(text, ",") };
            }
            text.push('\n');
        }
        text
    }
}

/// Random shapes, no two alike.
fn shapes(count: usize) -> Vec<[u64; 3]> {
    let mut numbers = RandomNumbers::new(SEED);
    let mut found: Vec<[u64; 3]> = Vec::with_capacity(count);
    let draw = |numbers: &mut RandomNumbers, most: f64| {
        let (low, high) = (SIZES.0.log2(), most.log2());
        (low + numbers.unit() * (high - low)).exp2().round()
    };
    while found.len() < count {
        let mut shape = [0.0; 3];
        for size in &mut shape {
            *size = draw(&mut numbers, SIZES.1);
        }
        if numbers.below(SKINNY_ONE_IN) == 0 {
            shape[numbers.below(3)] = draw(&mut numbers, SKINNY_SIDE);
        }
        if numbers.below(ROUND_ONE_IN) == 0 {
            shape = shape.map(|size: f64| (size / 16.0).ceil() * 16.0);
        }
        let shape = shape.map(|size| size as u64);
        if !found.contains(&shape) {
            found.push(shape);
        }
    }
    found
}

/// A kernel at its default settings on one thread or two.
struct Contender {
    name: String,
    kernel: KernelId,
    threads: u32,
}

impl Contender {
    /// The default settings for a problem on that many threads, if it takes the problem.
    fn point(&self, rt: &Runtime, problem: &Problem) -> Option<Point> {
        let space = rt.devices().first()?.space(self.kernel, problem);
        let axis = space.axes().iter().position(|axis| axis == "threads");
        let threads = |point: &Point| axis.map_or(1, |axis| point.values()[axis]);
        space.points().iter().find(|point| threads(point) == self.threads).copied()
    }
}

/// Every kernel of this machine on one and on two threads, interleaved, on random shapes.
fn measure(count: usize) -> Result<Times> {
    let rt = Runtime::builder().device("cpu").ignore_environment().wisdom_in_memory().build()?;
    let device = rt.devices().first().context("there is always the processor")?;
    let mut contenders = Vec::new();
    for (at, kernel) in device.kernels().iter().enumerate() {
        let matmul = kernel.name.contains(".matmul.") && kernel.class != VariantClass::Reference;
        for threads in [1, 2].into_iter().filter(|_| matmul) {
            let name = format!("{}@{threads}", kernel.name);
            contenders.push(Contender { name, kernel: KernelId(at as u32), threads });
        }
    }
    let rules = Rules { min_samples: ROUNDS, max_samples: ROUNDS, ..Rules::thorough() };
    let mut rows: Vec<([u64; 3], Vec<f64>)> =
        shapes(count).into_iter().map(|shape| (shape, vec![f64::NAN; contenders.len()])).collect();
    for _ in 0..PASSES {
        for (shape, times) in &mut rows {
            let problem: Problem = format!("matmul:f32:{}x{}x{}", shape[0], shape[1], shape[2]).parse()?;
            let taking: Vec<(usize, Point)> = contenders
                .iter()
                .enumerate()
                .filter_map(|(at, contender)| Some((at, contender.point(&rt, &problem)?)))
                .collect();
            let candidates: Vec<Candidate> = taking
                .iter()
                .map(|(at, point)| Candidate {
                    kernel: contenders[*at].kernel,
                    point: *point,
                    expected: None,
                })
                .collect();
            let budget = Budget::time(BUDGET);
            let Ok(mut bench) = device.bench(&problem, budget.left()) else { continue };
            let report = race(bench.as_mut(), &candidates, None, &rules, &budget, &mut |_| ());
            for ((at, _), raced) in taking.iter().zip(&report.rivals) {
                if let (Some(ns), None) = (raced.min(), &raced.failure) {
                    times[*at] = times[*at].min(ns);
                }
            }
        }
    }
    rows.retain(|(_, times)| times.iter().any(|time| time.is_finite()));
    // A variant that never ran is no variant.
    let ran: Vec<usize> =
        (0..contenders.len()).filter(|at| rows.iter().any(|(_, times)| times[*at].is_finite())).collect();
    for (_, times) in &mut rows {
        *times = ran.iter().map(|at| times[*at]).collect();
    }
    let variants = ran.iter().map(|at| contenders[*at].name.clone()).collect();
    Ok(Times { variants, rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_as_it_was_written_and_mistakes_are_told_with_their_line() {
        let text = "m,n,k,a,b\n4,8,16,10.5,\n1,1,1,3.0,4.0\n";
        assert_eq!(Times::parse(text).unwrap().text(), text);
        for (text, part) in [
            ("m,n,k,a\n1,1,1,1\n", "at least two"),
            ("m,n,k,a,b\n1,1,1,1\n", "line 2 has 4 cells"),
            ("m,n,k,a,b\n\n1,0,1,1,2\n", "line 3: `0` is not a size"),
            ("m,n,k,a,b\n1,1,1,1,x\n", "`x` is not a time"),
            ("m,n,k,a,b\n1,1,1,,\n", "no line with a time"),
        ] {
            let error = format!("{:#}", Times::parse(text).map(|_| ()).unwrap_err());
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn drawn_shapes_are_the_same_every_time_and_cover_the_range() {
        let drawn = shapes(300);
        assert_eq!(drawn, shapes(300));
        let sides = || drawn.iter().flatten();
        assert!(sides().all(|side| (4..=2048).contains(side)));
        assert!(sides().any(|side| *side < 6) && sides().any(|side| *side > 1800));
    }
}
