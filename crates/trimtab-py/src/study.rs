//! Ask and tell: a search of any settings, kept on disk where there is a path. Python's class around it says what things are called.

use crate::errors::wrong_value;
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trimtab::advanced::study::{
    Asked, Definition, Evaluation, Failed, Fault, Goals, Outcome, Parameter, ParameterSpace, Ran, Setting,
    SpaceDefinition, StudyFile, convergence, effects,
};

/// A study. What goes in and out beside numbers is JSON.
#[pyclass(frozen, module = "trimtab._native")]
pub struct NativeStudy {
    space: Arc<ParameterSpace>,
    file: Mutex<StudyFile>,
}

/// Parameters by name with their values, in order, as Python writes them: a list of pairs.
fn definition(
    space: &str,
    constraints: Vec<String>,
    listed: Option<Vec<Vec<u16>>>,
) -> PyResult<SpaceDefinition> {
    let named: Vec<(String, Vec<Value>)> = serde_json::from_str(space)
        .map_err(|_| wrong_value("a space is a dict of names and lists of values"))?;
    let mut parameters = Vec::new();
    for (name, values) in &named {
        let settings: Option<Vec<Setting>> = values.iter().map(Setting::of_json).collect();
        let settings = settings.ok_or_else(|| {
            wrong_value(format!("`{name}` has a value that is no number, text or truth value"))
        })?;
        parameters.push(Parameter::new(name, settings).map_err(wrong_value)?);
    }
    Ok(SpaceDefinition { parameters, constraints, listed })
}

/// The space a search of that many points and parameters runs in.
pub fn space_of(
    space: &str,
    constraints: Vec<String>,
    listed: Option<Vec<Vec<u16>>>,
) -> PyResult<Arc<ParameterSpace>> {
    let made = ParameterSpace::new(definition(space, constraints, listed)?);
    made.map(Arc::new).map_err(|error| wrong_value(error.reason))
}

impl NativeStudy {
    fn held(&self) -> MutexGuard<'_, StudyFile> {
        // Every change is whole, also if somebody panicked after one.
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn evaluation(&self, known: &Evaluation) -> Value {
        let mut view = json!({
            "id": known.at, "point": self.space.point(known.at).to_json(),
            "repeats": known.repeats, "seconds": known.seconds,
        });
        match &known.outcome {
            Outcome::Ran(ran) => {
                view["value"] = json!(ran.value);
                view["samples"] = json!(ran.samples);
            }
            Outcome::Failed(failed) => {
                view["failure"] = json!(failed.message);
                view["failure_kind"] = json!(failed.fault.name());
            }
        }
        view
    }
}

#[pymethods]
impl NativeStudy {
    #[new]
    #[pyo3(signature = (space, *, constraints, listed, strategy, seed, maximise, limits, path, fresh, what, unit))]
    #[expect(clippy::too_many_arguments, reason = "they are what a study is about, by name in Python")]
    fn new(
        py: Python<'_>,
        space: &str,
        constraints: Vec<String>,
        listed: Option<Vec<Vec<u16>>>,
        strategy: String,
        seed: u64,
        maximise: bool,
        limits: Vec<String>,
        path: Option<PathBuf>,
        fresh: bool,
        what: String,
        unit: String,
    ) -> PyResult<NativeStudy> {
        let space = py.detach(|| space_of(space, constraints, listed))?;
        let definition = Definition {
            space: space.definition().clone(),
            goals: Goals { maximise, limits, ..Goals::default() },
            strategy,
            seed,
            sizes: Vec::new(),
            unit,
            what: if what.is_empty() { Value::Null } else { Value::String(what) },
        };
        let opened = py.detach(|| match path {
            Some(path) => StudyFile::open(&path, definition, Arc::clone(&space), Vec::new(), fresh),
            None => StudyFile::in_memory(definition, Arc::clone(&space), Vec::new()),
        });
        Ok(NativeStudy { space, file: Mutex::new(opened.map_err(wrong_value)?) })
    }

    /// The next point as (id, JSON); what was asked for before an interruption comes first. Nothing when the space is spent.
    fn ask(&self, py: Python<'_>) -> PyResult<Option<(usize, String)>> {
        let asked = py.detach(|| self.held().ask());
        let asked: Option<Asked> = asked.map_err(wrong_value)?;
        Ok(asked.map(|asked| (asked.at, asked.point.to_json().to_string())))
    }

    /// Points that were asked for and never told, by an earlier process too.
    fn left_over(&self) -> Vec<(usize, String)> {
        let left = self.held().left_over();
        left.into_iter().map(|asked| (asked.at, asked.point.to_json().to_string())).collect()
    }

    /// The id of a point, as JSON.
    fn find(&self, point: &str) -> PyResult<usize> {
        match serde_json::from_str(point) {
            Ok(Value::Object(named)) => self.space.find(&named).map_err(wrong_value),
            _ => Err(wrong_value("a point is a dict of names and values")),
        }
    }

    /// What came of a point: samples and what they say together, or how it failed.
    #[pyo3(signature = (id, value, samples, failure, kind, seconds))]
    #[expect(clippy::too_many_arguments, reason = "they are one evaluation, by name in Python")]
    fn tell(
        &self,
        py: Python<'_>,
        id: usize,
        value: Option<f64>,
        samples: Vec<f64>,
        failure: Option<String>,
        kind: &str,
        seconds: f64,
    ) -> PyResult<()> {
        let outcome = match (value, failure) {
            (Some(value), None) if value.is_finite() => {
                let mut ran = Ran::of(value);
                if !samples.is_empty() {
                    ran.samples = samples;
                }
                Outcome::Ran(ran)
            }
            (Some(value), None) => Outcome::Failed(Failed::new(
                Fault::Unreadable,
                format!("the value is {value}, which is no number"),
            )),
            (_, failure) => {
                let fault = Fault::parse(kind).unwrap_or(Fault::Told);
                Outcome::Failed(Failed::new(fault, failure.unwrap_or_else(|| "it failed".to_string())))
            }
        };
        let repeats = match &outcome {
            Outcome::Ran(ran) => ran.samples.len().max(1) as u32,
            Outcome::Failed(_) => 1,
        };
        py.detach(|| {
            let mut file = self.held();
            let seconds = file.seconds().max(seconds);
            file.tell(id, outcome, repeats, seconds).map(drop)
        })
        .map_err(wrong_value)
    }

    /// Further samples of a point that ran, and what all of them say together.
    fn again(&self, py: Python<'_>, id: usize, samples: Vec<f64>, value: f64) -> PyResult<()> {
        py.detach(|| self.held().again(id, samples, value)).map_err(wrong_value)
    }

    /// The best point, as JSON.
    fn best(&self) -> Option<String> {
        let file = self.held();
        file.study.best().map(|best| self.evaluation(best).to_string())
    }

    /// Everything that was told, as JSON.
    fn evaluations(&self) -> String {
        let file = self.held();
        Value::Array(file.study.evaluations().iter().map(|known| self.evaluation(known)).collect())
            .to_string()
    }

    /// How much each parameter matters, as JSON: by name, the share of the spread of times it explains.
    fn effects(&self) -> String {
        let file = self.held();
        let (singles, pairs) = effects(&file.study);
        json!(singles.iter().chain(&pairs).collect::<Vec<_>>()).to_string()
    }

    /// The best value after each evaluation.
    fn convergence(&self) -> Vec<Option<f64>> {
        convergence(&self.held().study)
    }

    /// How many were told, by earlier processes too.
    #[getter]
    fn told(&self) -> usize {
        self.held().study.evaluations().len()
    }

    #[getter]
    fn size(&self) -> usize {
        self.space.len()
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.held().path().to_path_buf()
    }
}
