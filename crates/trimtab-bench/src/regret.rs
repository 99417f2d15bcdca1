//! How much slower the learned choice is than the oracle on shapes that were not measured, model by model.

use crate::Printer;
use crate::times::Times;
use anyhow::{Result, bail};
use serde_json::{Value, json};
use trimtab::advanced::core::{DType, Matmul, Problem, RandomNumbers};
use trimtab::advanced::tune::Stopwatch;
use trimtab_model::learn::{FEWEST_PROBLEMS, Learned, ModelKind, Table, axes, shape};

/// Numbers of measured shapes.
const MEASURED: [usize; 5] = [20, 50, 100, 200, 400];
/// Shapes that must be left to judge by.
const LEAST_LEFT: usize = 50;
/// Random ways of choosing which shapes are measured; more for the default, whose expected losses are compared with actual ones: those are
/// mostly small, and the few large ones make the mean of a fifth of ten splits a matter of luck.
const SPLITS: u64 = 10;
const SPLITS_OF_DEFAULT: u64 = 60;
/// Extrapolating: trained on products of at most so many multiplications, judged on up to ten times as many.
const DECADES: [f64; 5] = [1e4, 1e5, 1e6, 1e7, 1e8];
/// Rows of the refit that is timed, and how often; the least counts.
const REFIT_ROWS: usize = 1000;
const REFITS: u32 = 9;
/// Decades need so many shapes on either side.
const LEAST_IN_DECADE: usize = 20;

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let times = Times::get(&printer.options)?;
    let judged = Judged::new(&times)?;
    let measured: Vec<usize> =
        MEASURED.into_iter().filter(|count| count + LEAST_LEFT <= judged.table.len()).collect();
    if measured.is_empty() {
        bail!(
            "{} shapes are too few to judge a model by: {} are needed",
            judged.table.len(),
            MEASURED[0] + LEAST_LEFT
        );
    }
    for model in ModelKind::ALL.map(Some).into_iter().chain([None]) {
        for &count in &measured {
            printer.line(&judged.line(model, count));
        }
    }
    printer.line(&json!({ "refit_rows": REFIT_ROWS, "refit_ms_1000": judged.refit_ms() }));
    for &count in &measured {
        let (geomean, p95) = judged.best_single(count);
        printer.line(
            &json!({ "model": "best single variant", "measured": count, "geomean": geomean, "p95": p95 }),
        );
    }
    Ok(())
}

/// A table of times, and the times themselves to judge by.
pub(crate) struct Judged {
    pub(crate) table: Table,
    pub(crate) times: Vec<Vec<f64>>,
    work: Vec<f64>,
}

/// Losses in doublings: what was expected, what it was.
type Losses = Vec<(f64, f64)>;

impl Judged {
    pub(crate) fn new(times: &Times) -> Result<Judged> {
        let product = |[m, n, k]: [u64; 3]| Matmul::new(DType::F32, m, n, k).map(Problem::Matmul);
        let mut judged = Judged {
            table: Table::new(axes(&product([1; 3])?), times.variants.len()),
            times: Vec::new(),
            work: Vec::new(),
        };
        for (sizes, ns) in &times.rows {
            if judged.table.push(&shape(&product(*sizes)?), ns, 1.0) {
                judged.times.push(ns.clone());
                judged.work.push(sizes.iter().map(|size| *size as f64).product());
            }
        }
        Ok(judged)
    }

    /// What a choice loses on a row, in doublings, among the variants that were `known` when it was made.
    pub(crate) fn loss(&self, row: usize, chosen: usize, known: impl Fn(usize) -> bool) -> f64 {
        let ns = &self.times[row];
        let taken = (0..ns.len()).filter(|&variant| ns[variant].is_finite() && known(variant));
        let best = taken.fold(f64::INFINITY, |best, variant| best.min(ns[variant]));
        (ns[chosen] / best).log2()
    }

    /// Learned from some rows, judged on others: nanoseconds a choice and allocations of all. A variant counts where it was
    /// measured often enough to be learned.
    fn judge(
        &self,
        learned: &Learned,
        measured: &[usize],
        others: &[usize],
        losses: &mut Losses,
    ) -> (f64, u64) {
        let counts =
            |variant: usize| measured.iter().filter(|&&row| self.times[row][variant].is_finite()).count();
        let known: Vec<bool> =
            (0..self.table.rivals()).map(|variant| counts(variant) >= FEWEST_PROBLEMS).collect();
        let mut buffers = learned.buffers();
        losses.reserve(others.len());
        let allocations = crate::allocations::count();
        let stopwatch = Stopwatch::start();
        for &row in others {
            let taken = |variant: usize| self.times[row][variant].is_finite() && known[variant];
            if let Some(choice) = learned.choose(self.table.at(row), taken, &mut buffers) {
                losses.push((choice.expected_log2, self.loss(row, choice.rival, |variant| known[variant])));
            }
        }
        let ns = stopwatch.elapsed().0 as f64 / others.len().max(1) as f64;
        (ns, crate::allocations::count() - allocations)
    }

    fn line(&self, model: Option<ModelKind>, count: usize) -> Value {
        let fit = |rows: &[usize], seed: u64| {
            let part = self.table.part(rows);
            let stopwatch = Stopwatch::start();
            let learned = match model {
                Some(kind) => Learned::fit(kind, &part, seed),
                None => Learned::auto(&part, seed),
            };
            (learned, stopwatch.elapsed().0 as f64 / 1e6)
        };
        let (mut losses, mut fit_ms, mut predict_ns, mut cross_validated) =
            (Losses::new(), f64::INFINITY, f64::INFINITY, 0.0);
        let (mut picked, mut allocations) = (Vec::new(), 0);
        let splits = if model == Some(ModelKind::Default) { SPLITS_OF_DEFAULT } else { SPLITS };
        for split in 0..splits {
            let order = RandomNumbers::new(split).order(self.table.len());
            let (measured, others) = order.split_at(count);
            let (Some(learned), ms) = fit(measured, split) else { continue };
            let (ns, allocated) = self.judge(&learned, measured, others, &mut losses);
            predict_ns = predict_ns.min(ns);
            allocations += allocated;
            fit_ms = fit_ms.min(ms);
            cross_validated += learned.regret().log2() / splits as f64;
            picked.push(learned.model().name());
        }
        let mut extrapolated = Losses::new();
        for (nth, decade) in DECADES.into_iter().enumerate() {
            let order = RandomNumbers::new(nth as u64).order(self.table.len());
            let of = |low: f64, high: f64| -> Vec<usize> {
                order.iter().copied().filter(|&row| self.work[row] > low && self.work[row] <= high).collect()
            };
            let (mut measured, others) = (of(0.0, decade), of(decade, 10.0 * decade));
            measured.truncate(count);
            if measured.len() < LEAST_IN_DECADE || others.len() < LEAST_IN_DECADE {
                continue;
            }
            if let (Some(learned), _) = fit(&measured, nth as u64) {
                self.judge(&learned, &measured, &others, &mut extrapolated);
            }
        }
        let actual = |losses: &Losses| losses.iter().map(|loss| loss.1).collect::<Vec<f64>>();
        let (geomean, p95) = summary(actual(&losses));
        let quintiles = quintiles(losses);
        let off = |[expected, actual]: &[f64; 2]| f64::max(expected / actual, actual / expected);
        let mut value = json!({
            "model": model.map_or("auto", ModelKind::name), "measured": count, "geomean": geomean, "p95": p95,
            "extrapolated_geomean": summary(actual(&extrapolated)).0, "cross_validated": cross_validated.exp2(),
            "worst_quintile_factor": quintiles.iter().map(off).fold(1.0, f64::max),
            "expected_vs_actual": quintiles, "fit_ms": fit_ms, "predict_ns": predict_ns,
            "predict_allocations": allocations,
        });
        if model.is_none() {
            value["picked"] = json!(picked);
        }
        value
    }

    /// Milliseconds of fitting the default to a thousand rows, its cross-validation included: the rows at hand over and over, each moved a
    /// little, so that no two are alike.
    fn refit_ms(&self) -> f64 {
        let mut dice = RandomNumbers::new(0);
        let mut table = Table::new(self.table.axes().clone(), self.table.rivals());
        for nth in 0..REFIT_ROWS {
            let row = nth % self.table.len();
            let at: Vec<f64> = self.table.at(row).iter().map(|value| value + 0.1 * dice.unit()).collect();
            table.push(&at, &self.times[row], 1.0);
        }
        let mut least = f64::INFINITY;
        for _ in 0..REFITS {
            let stopwatch = Stopwatch::start();
            let learned = Learned::fit(ModelKind::Default, &table, 0);
            least = least.min(stopwatch.elapsed().0 as f64 / 1e6);
            drop(learned);
        }
        least
    }

    /// The variant that takes every shape and was best over the measured ones, used for all others.
    fn best_single(&self, count: usize) -> (f64, f64) {
        let mut losses = Vec::new();
        for split in 0..SPLITS {
            let order = RandomNumbers::new(split).order(self.table.len());
            let (measured, others) = order.split_at(count);
            let total = |variant: usize| -> f64 {
                measured.iter().map(|&row| self.loss(row, variant, |_| true)).sum()
            };
            let always = |variant: &usize| self.times.iter().all(|ns| ns[*variant].is_finite());
            let best = (0..self.table.rivals()).filter(always).min_by(|&a, &b| total(a).total_cmp(&total(b)));
            if let Some(best) = best {
                losses.extend(others.iter().map(|&row| self.loss(row, best, |_| true)));
            }
        }
        summary(losses)
    }
}

/// Geometric mean and 95th percentile of slowdowns, from doublings; not numbers without any.
pub(crate) fn summary(mut losses: Vec<f64>) -> (f64, f64) {
    losses.sort_by(f64::total_cmp);
    let mean = losses.iter().sum::<f64>() / losses.len() as f64;
    (mean.exp2(), losses.get(losses.len() * 95 / 100).map_or(f64::NAN, |loss| loss.exp2()))
}

/// The mean expected and the mean actual loss in per cent, by fifths of the expected one.
fn quintiles(mut losses: Losses) -> Vec<[f64; 2]> {
    losses.sort_by(|a, b| a.0.total_cmp(&b.0));
    let percent = |sum: f64, count: usize| ((sum / count.max(1) as f64).exp2() - 1.0) * 100.0;
    let fifth = |nth: usize| {
        let part = &losses[nth * losses.len() / 5..(nth + 1) * losses.len() / 5];
        let sum = part.iter().fold((0.0, 0.0), |sum, loss| (sum.0 + loss.0, sum.1 + loss.1));
        [percent(sum.0, part.len()), percent(sum.1, part.len())]
    };
    (0..5).map(fifth).collect()
}
