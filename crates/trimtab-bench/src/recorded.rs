//! The models on published recordings of devices we do not have: where to run, and how long a matrix product takes.

use crate::Printer;
use crate::caution::Cautious;
use crate::cost::{Cost, Sample, tiles};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use trimtab::advanced::core::{Bytes, Flops, Nanos, Problem, RandomNumbers, Rates, Work};
use trimtab::advanced::tune::median;
use trimtab_model::learn::{Axes, Table};
use trimtab_model::roofline;

/// Parts the kernels, or the shapes, are split into; each is predicted from the others.
const FOLDS: usize = 10;
/// Random ways of splitting.
const SPLITS: u64 = 5;
/// The same for the times of products, which are dearer to fit.
const GEMM_SPLITS: u64 = 2;
const MS: f64 = 1e6;

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let data = match printer.options.data.clone().map_or_else(trimtab_testing::find_data, Ok) {
        Ok(data) => data,
        // Part of `all`, wherever that is run.
        Err(why) => {
            printer.line(&json!({ "recorded": "skipped", "why": why }));
            return Ok(());
        }
    };
    for (name, file) in [
        ("synthetic", "offload/opencl_synthetic_amd.csv.gz"),
        ("programs", "offload/opencl_benchmarks_amd.csv"),
    ] {
        let runs = Run::all(&Sheet::read(&data.join(file))?)?;
        offload(printer, name, "kernel", &runs, |run| run.kernel.clone());
        if name == "programs" {
            // Kernels of one program are alike; leaving out all of them at once is harder than what is asked.
            let program =
                |run: &Run| run.kernel.rsplit_once('-').map_or(&*run.kernel, |parts| parts.0).to_string();
            offload(printer, name, "program", &runs, program);
        }
    }
    gemm(printer, &Sheet::read(&data.join("selection/deepbench_gemm_times.csv"))?)
}

/// A table of text with named columns.
struct Sheet {
    columns: BTreeMap<String, usize>,
    rows: Vec<Vec<String>>,
}

impl Sheet {
    fn read(path: &Path) -> Result<Sheet> {
        let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        let mut text = String::new();
        if path.extension().is_some_and(|extension| extension == "gz") {
            flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text)
        } else {
            bytes.as_slice().read_to_string(&mut text)
        }
        .with_context(|| format!("reading {}", path.display()))?;
        Sheet::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    fn parse(text: &str) -> Result<Sheet> {
        let mut lines = text.lines();
        let header = cells(lines.next().context("the file is empty")?);
        let rows: Vec<Vec<String>> = lines.map(cells).collect();
        if let Some(at) = rows.iter().position(|row| row.len() != header.len()) {
            bail!("line {} has {} cells, the header {}", at + 2, rows[at].len(), header.len());
        }
        Ok(Sheet { columns: header.into_iter().enumerate().map(|(at, name)| (name, at)).collect(), rows })
    }

    fn text<'a>(&self, row: &'a [String], column: &str) -> Result<&'a str> {
        let at = self.columns.get(column).with_context(|| format!("there is no column `{column}`"))?;
        Ok(&row[*at])
    }

    fn number(&self, row: &[String], column: &str) -> Result<f64> {
        let text = self.text(row, column)?;
        text.parse().with_context(|| format!("`{text}` in column `{column}` is not a number"))
    }
}

/// The cells of a line; a comma between quotation marks belongs to its cell.
fn cells(line: &str) -> Vec<String> {
    let (mut found, mut quoted) = (vec![String::new()], false);
    for letter in line.trim_end().chars() {
        match (letter, found.last_mut()) {
            ('"', _) => quoted = !quoted,
            (',', _) if !quoted => found.push(String::new()),
            (letter, Some(cell)) => cell.push(letter),
            (_, None) => (),
        }
    }
    found
}

/// One kernel at one size on both devices.
struct Run {
    kernel: String,
    at: Vec<(&'static str, f64)>,
    /// Processor, GPU.
    ns: [f64; 2],
}

impl Run {
    fn all(sheet: &Sheet) -> Result<Vec<Run>> {
        sheet.rows.iter().map(|row| Run::new(sheet, row)).collect()
    }

    fn new(sheet: &Sheet, row: &[String]) -> Result<Run> {
        let log = |value: f64| (1.0 + value.max(0.0)).log2();
        let of = |column: &str| sheet.number(row, column);
        let (compute, memory, moved) = (of("comp")?, of("mem")?, of("transfer")?);
        let (local, coalesced, group) = (of("localmem")?, of("coalesced")?, of("wgsize")?);
        let per_access = |value: f64| value / memory.max(1.0);
        let mut at = vec![
            ("log2 bytes moved", log(moved)),
            ("log2 workgroup", log(group)),
            ("log2 operations", log(compute)),
            ("log2 accesses", log(memory)),
            ("log2 rational operations", log(of("rational")?)),
            ("log2 local accesses", log(local)),
            ("log2 coalesced accesses", log(coalesced)),
            ("log2 atomic operations", log(of("atomic")?)),
            ("log2 bytes moved an operation", log(moved) - log(compute + memory)),
            ("coalesced share", per_access(coalesced)),
            ("local share", per_access(local)),
            ("operations an access", per_access(compute)),
            ("log2 bytes moved a workgroup item", log(moved) - log(group)),
            ("log2 bytes moved times operations", log(moved) + log(compute)),
        ];
        // Generated kernels tell how many items they ran on; programs only name their inputs.
        if let Ok(items) = sheet.number(row, "dataset") {
            at.extend([
                ("log2 items", log(items)),
                ("log2 operations of all items", log(items * compute)),
                ("log2 accesses of all items", log(items * memory)),
                ("log2 bytes moved an item", log(moved) - log(items)),
            ]);
        }
        let ns = [of("runtime_cpu")? * MS, of("runtime_gpu")? * MS];
        Ok(Run { kernel: sheet.text(row, "benchmark")?.to_string(), at, ns })
    }
}

/// Processor or GPU, by a model of other kernels.
fn offload(printer: &Printer, name: &str, by: &str, runs: &[Run], group: impl Fn(&Run) -> String) {
    let Some(first) = runs.first() else { return };
    let names = first.at.iter().map(|(name, _)| name.to_string()).collect();
    // The eight counts are coordinates; what is made of them is not.
    let axes = Axes { names, near: 8 };
    let places: Vec<Vec<f64>> =
        runs.iter().map(|run| run.at.iter().map(|(_, value)| *value).collect()).collect();
    let mut groups: Vec<String> = runs.iter().map(&group).collect();
    groups.sort();
    groups.dedup();
    let oracle: f64 = runs.iter().map(|run| run.ns[0].min(run.ns[1])).sum();
    let fixed = [0, 1].map(|device| runs.iter().map(|run| run.ns[device]).sum::<f64>());
    let better = fixed[0].min(fixed[1]);
    // With caution, as devices are chosen, and by the prediction alone.
    let mut all: [Vec<Tally>; 2] = [Vec::new(), Vec::new()];
    for split in 0..SPLITS {
        let order = RandomNumbers::new(split).order(groups.len());
        let fold_of: BTreeMap<&str, usize> =
            groups.iter().zip(&order).map(|(group, at)| (group.as_str(), at % FOLDS)).collect();
        let folds: Vec<usize> =
            runs.iter().map(|run| fold_of.get(group(run).as_str()).copied().unwrap_or(0)).collect();
        let mut tallies = [Tally::default(); 2];
        for fold in 0..FOLDS {
            let (left_out, others): (Vec<usize>, Vec<usize>) =
                (0..runs.len()).partition(|at| folds[*at] == fold);
            let mut table = Table::new(axes.clone(), 2);
            let (mut ns, mut kin) = (Vec::new(), Vec::new());
            for at in others {
                let run = &runs[at];
                if table.push(&places[at], &run.ns, 1.0) {
                    ns.push(run.ns.to_vec());
                    kin.push(groups.binary_search(&group(run)).unwrap_or(0));
                }
            }
            let learned = Cautious::fit(&table, &ns, &kin, split);
            for at in left_out {
                let ns = &runs[at].ns;
                let choices = learned.choose(&places[at], 2);
                for (tally, choice) in tallies.iter_mut().zip(choices) {
                    tally.enter(ns[0].min(ns[1]), ns[choice]);
                }
            }
        }
        for (all, tally) in all.iter_mut().zip(tallies) {
            all.push(tally);
        }
    }
    let fixed_mean = [0, 1].map(|device| {
        runs.iter().map(|run| run.ns[0].min(run.ns[1]) / run.ns[device]).sum::<f64>() / runs.len() as f64
    });
    for (choice, tallies) in ["with caution", "prediction alone"].into_iter().zip(all) {
        let means: Vec<f64> = tallies.iter().map(|tally| tally.score / runs.len() as f64).collect();
        let sums: Vec<f64> = tallies.iter().map(|tally| tally.sum / better).collect();
        let without: Vec<f64> = tallies.iter().map(|tally| (tally.sum - tally.worst) / better).collect();
        printer.line(&json!({
            "recorded": "offload", "data": name, "left_out_by": by, "choice": choice, "runs": runs.len(),
            "mean_of_oracle": means.iter().sum::<f64>() / means.len() as f64,
            "worst_split": means.iter().copied().fold(f64::INFINITY, f64::min),
            "summed_vs_better_fixed": sums, "summed_without_the_worst_loss": without,
            "oracle_vs_better_fixed": oracle / better, "processor_mean": fixed_mean[0],
            "gpu_mean": fixed_mean[1],
        }));
    }
}

/// What the choices of one split came to.
#[derive(Clone, Copy, Default)]
struct Tally {
    score: f64,
    sum: f64,
    worst: f64,
}

impl Tally {
    fn enter(&mut self, best: f64, chosen: f64) {
        self.score += best / chosen;
        self.sum += chosen;
        self.worst = self.worst.max(chosen - best);
    }
}

/// A product on one device.
struct Timed {
    /// Its sizes and layouts, by which it is found among other devices' recordings.
    key: String,
    sample: Sample,
}

/// The time of a product by what other shapes took on the same device, and by what other devices took for the same shape as well.
fn gemm(printer: &Printer, sheet: &Sheet) -> Result<()> {
    let mut devices: BTreeMap<String, Vec<Timed>> = BTreeMap::new();
    for row in &sheet.rows {
        let number = |column: &str| sheet.number(row, column);
        let (m, n, k) = (number("m")?, number("n")?, number("k")?);
        let precision = sheet.text(row, "precision")?;
        let size = match precision {
            "fp32" => 4.0,
            "fp16" => 2.0,
            _ => 1.0,
        };
        let layout = |column: &str| sheet.text(row, column).map(|text| if text == "1" { "t" } else { "n" });
        let key = format!("matmul:f32:{m}x{n}x{k}:{},{}", layout("a_t")?, layout("b_t")?);
        let problem: Problem = key.parse().with_context(|| format!("`{key}` is no problem"))?;
        let Problem::Matmul(product) = &problem else { bail!("`{key}` is no product") };
        let work = Work {
            flops: Flops((2.0 * m * n * k) as u64),
            bytes: Bytes((size * (m * n + m * k + n * k)) as u64),
            launches: 1,
            threads: 1,
            lanes: 1,
            ..Work::default()
        };
        let sample = Sample {
            roofline: roofline(&work, 4, &RATES),
            at: tiles(product),
            elsewhere_ns: f64::NAN,
            ns: number("time_ms")? * MS,
        };
        let device = format!("{} {} {precision}", sheet.text(row, "device")?, sheet.text(row, "mode")?);
        devices.entry(device).or_default().push(Timed { key, sample });
    }
    let known: BTreeMap<&String, BTreeMap<&str, f64>> = devices
        .iter()
        .map(|(device, all)| {
            (device, all.iter().map(|timed| (timed.key.as_str(), timed.sample.ns)).collect())
        })
        .collect();
    for (device, all) in &devices {
        let others: Vec<&BTreeMap<&str, f64>> =
            known.iter().filter(|(other, _)| **other != device).map(|(_, times)| times).collect();
        // Of a few shapes each is left out alone.
        let folds = if all.len() < 5 * FOLDS { all.len() } else { FOLDS };
        let mut errors = [Vec::new(), Vec::new()];
        for (split, fold) in (0..GEMM_SPLITS).flat_map(|split| (0..folds).map(move |fold| (split, fold))) {
            let order = RandomNumbers::new(split).order(all.len());
            let of = |mine: bool| -> Vec<&Timed> {
                let chosen = order.iter().enumerate().filter(|(nth, _)| (nth % folds == fold) == mine);
                chosen.map(|(_, &at)| &all[at]).collect()
            };
            let (measured, left_out) = (of(false), of(true));
            for (errors, other) in errors.iter_mut().zip([None, alike(&measured, &others)]) {
                let with = |timed: &&Timed| {
                    let elsewhere = other.and_then(|times| times.get(timed.key.as_str()));
                    Sample { elsewhere_ns: elsewhere.copied().unwrap_or(f64::NAN), ..timed.sample.clone() }
                };
                let Some(cost) = Cost::fit(&measured.iter().map(with).collect::<Vec<_>>()) else { continue };
                for timed in &left_out {
                    if let Some(expected) = cost.predict(&with(timed)) {
                        errors.push((expected / timed.sample.ns - 1.0).abs());
                    }
                }
            }
        }
        printer.line(&json!({
            "recorded": "gemm", "device": device, "shapes": all.len(), "median_error": median(&errors[1]),
            "median_error_by_own_shapes_alone": median(&errors[0]),
        }));
    }
    Ok(())
}

/// Of the other devices' recordings those whose times are most nearly proportional to what was measured here; of few shapes in common
/// nothing is known.
fn alike<'a>(measured: &[&Timed], others: &[&'a BTreeMap<&str, f64>]) -> Option<&'a BTreeMap<&'a str, f64>> {
    let apart = |times: &BTreeMap<&str, f64>| {
        let proportion = |timed: &&Timed| Some((timed.sample.ns / times.get(timed.key.as_str())?).log2());
        let proportions: Vec<f64> = measured.iter().filter_map(proportion).collect();
        let middle = median(&proportions)?;
        let off: Vec<f64> = proportions.iter().map(|proportion| (proportion - middle).abs()).collect();
        median(&off).filter(|_| 2 * proportions.len() > measured.len())
    };
    let known = others.iter().filter_map(|times| Some((apart(times)?, *times)));
    known.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, times)| times)
}

/// Rates of some GPU: the fit finds each device's own, only the proportion of arithmetic to memory gives it a start.
const RATES: Rates = Rates {
    flops_per_s: 10e12,
    lanes: 1,
    bytes_per_s: 400e9,
    bytes_per_s_all: 400e9,
    cached_bytes_per_s: 400e9,
    cached_up_to: Bytes(0),
    launch: Nanos(5_000),
    barrier_ns: 0.0,
    filled_by: 0,
};

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAMS: &str = "benchmark,dataset,comp,rational,mem,localmem,coalesced,atomic,transfer,wgsize,runtime_cpu,runtime_gpu
a-b-c,default,98,8,13,11,2,0,2048,255,3.25,1.5
a-b-d,1024,12,2,6,0,6,0,131072,256,0.125,0.25
";

    #[test]
    fn runs_are_read_with_their_times_in_nanoseconds_and_sizes_where_there_are_any() {
        let sheet = Sheet::parse(PROGRAMS).unwrap();
        let runs = Run::all(&sheet).unwrap();
        assert_eq!(runs[0].ns, [3.25e6, 1.5e6]);
        assert_eq!((runs[0].kernel.as_str(), runs[0].at.len() + 4), ("a-b-c", runs[1].at.len()));
        assert!(runs.iter().flat_map(|run| &run.at).all(|(_, value)| value.is_finite()));
    }

    #[test]
    fn what_is_missing_or_no_number_is_told() {
        let sheet = Sheet::parse("a,b\n1,x\n").unwrap();
        let told = |column: &str| format!("{:#}", sheet.number(&sheet.rows[0], column).unwrap_err());
        assert!(told("c").contains("no column `c`"));
        assert!(told("b").contains("`x` in column `b`"));
        assert!(Sheet::parse("a,b\n1\n").is_err() && Sheet::parse("").is_err());
        assert_eq!(cells("a,\"b, c\",d"), ["a", "b, c", "d"]);
    }
}
