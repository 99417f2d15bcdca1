//! Products of 16-bit numbers against those of f32, and products of f32 under a tolerance against those without: every one tuned, then
//! called in turns.

use crate::Printer;
use anyhow::Result;
use serde_json::{Map, json};
use trimtab::Runtime;
use trimtab::TuneRequest;
use trimtab::advanced::cpu::{Operands, Slice};
use trimtab::advanced::tune::{Stopwatch, geomean};
use trimtab::{Constraints, DType, Nanos, Patience, Problem, Tolerance};

const SIZES: [&str; 9] = [
    "32x32x32",
    "64x64x64",
    "128x128x128",
    "256x256x256",
    "512x512x512",
    "1024x1024x1024",
    "1x1024x1024",
    "1024x64x256",
    "127x129x131",
];
/// The first is what the others are compared with.
const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];
/// What a caller may say where bf16 is exact enough.
const TOLERANCE: f64 = 1e-2;
const TUNE_BUDGET: Nanos = Nanos::from_millis(6_000);
/// Rounds in turns; the least counts.
const ROUNDS: u32 = 15;
/// Calls of a round take at least so long.
const ROUND: Nanos = Nanos::from_millis(4);

/// One of those compared: a problem with its operands, and who computes it.
struct Rival {
    rt: Runtime,
    problem: Problem,
    operands: Operands,
    calls: u32,
    least: f64,
}

impl Rival {
    fn new(rt: &Runtime, problem: Problem) -> Result<Rival> {
        rt.tune(&problem, &TuneRequest::new(Patience::Measure, TUNE_BUDGET), &mut |_| ())?;
        let mut rival =
            Rival { rt: rt.clone(), problem, operands: Operands::new(&problem), calls: 1, least: f64::MAX };
        rival.time()?;
        rival.calls = (ROUND.0 as f64 / rival.least).ceil().clamp(1.0, 1e6) as u32;
        rival.least = f64::MAX;
        Ok(rival)
    }

    fn time(&mut self) -> Result<()> {
        let Rival { rt, problem, operands, calls, least } = self;
        let inputs: Vec<Slice<'_>> = operands.inputs.iter().map(|data| data.slice()).collect();
        let stopwatch = Stopwatch::start();
        for _ in 0..*calls {
            rt.execute_inputs(problem, &inputs, operands.out.slice_mut())?;
        }
        *least = least.min(stopwatch.elapsed().0 as f64 / f64::from(*calls));
        Ok(())
    }

    fn chosen(&self) -> Result<String> {
        let decision = self.rt.explain(&self.problem)?;
        Ok(decision.winner().map(|winner| winner.name.to_string()).unwrap_or_default())
    }
}

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let rt = Runtime::builder().device("cpu").wisdom_in_memory().build()?;
    let tolerant = Constraints { tolerance: Some(Tolerance(TOLERANCE)), ..Constraints::default() };
    let tolerant = rt.constrained(tolerant)?;
    let mut ratios: Vec<Vec<f64>> = vec![Vec::new(); TYPES.len()];
    for size in SIZES {
        eprintln!("{size}");
        let problem = |dtype: DType| format!("matmul:{dtype}:{size}").parse::<Problem>();
        let mut rivals =
            TYPES.iter().map(|dtype| Rival::new(&rt, problem(*dtype)?)).collect::<Result<Vec<_>>>()?;
        rivals.push(Rival::new(&tolerant, problem(DType::F32)?)?);
        for _ in 0..ROUNDS {
            rivals.iter_mut().try_for_each(Rival::time)?;
        }
        let mut line = Map::new();
        line.insert("size".to_string(), json!(size));
        line.insert("f32_ns".to_string(), json!(rivals[0].least.round()));
        let names = ["f32", "f16", "bf16", "tolerant"];
        for (nth, (name, rival)) in names.iter().zip(&rivals).enumerate() {
            line.insert(format!("{name}_chosen"), json!(rival.chosen()?));
            if nth > 0 {
                let ratio = rivals[0].least / rival.least;
                ratios[nth - 1].push(ratio);
                line.insert(format!("{name}_vs_f32"), json!(ratio));
            }
        }
        printer.line(&line.into());
    }
    let worst = |all: &[f64]| all.iter().copied().reduce(f64::min);
    printer.line(&json!({
        "sizes": SIZES.len(),
        "f16_vs_f32": geomean(&ratios[0]), "f16_worst": worst(&ratios[0]),
        "bf16_vs_f32": geomean(&ratios[1]), "bf16_worst": worst(&ratios[1]),
        "tolerance": TOLERANCE, "tolerant_vs_f32": geomean(&ratios[2]),
    }));
    Ok(())
}
