//! Runtimes as Python has them: set up by keywords, entered by `with`, asked for tables.

use crate::current::{self, Unlocked};
use crate::errors::{raised, wrong_value};
use crate::kernel::LOOK;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use trimtab::Runtime;
use trimtab::TuneRequest;
use trimtab::parse_duration;
use trimtab::{Bytes, Constraints, Nanos, Patience, Problem, Tolerance};
use trimtab_cli::{Form, Question, answer};

/// A runtime, perhaps under terms of its own. The class of Python around it says what the keywords are.
#[pyclass(frozen, module = "trimtab._native")]
pub struct NativeRuntime {
    inner: Unlocked<Runtime>,
}

fn duration(text: &str) -> PyResult<Nanos> {
    parse_duration(text).ok_or_else(|| wrong_value(format!("`{text}` is no time; write 50ms, 2s or 1m")))
}

#[pymethods]
impl NativeRuntime {
    #[new]
    #[pyo3(signature = (*, device=None, threads=None, wisdom=None, mode=None, budget=None, blas=true))]
    fn new(
        py: Python<'_>,
        device: Option<&str>,
        threads: Option<u32>,
        wisdom: Option<PathBuf>,
        mode: Option<&str>,
        budget: Option<&str>,
        blas: bool,
    ) -> PyResult<NativeRuntime> {
        let mut builder = Runtime::builder();
        if let Some(device) = device {
            builder = builder.device(device);
        }
        if let Some(threads) = threads {
            if !(1..=trimtab::advanced::cpu::MAX_THREADS).contains(&threads) {
                return Err(wrong_value(format!("{threads} threads are not possible; give 1 or more")));
            }
            builder = builder.threads(threads);
        }
        match wisdom {
            Some(dir) if dir.as_os_str() == "off" => builder = builder.wisdom_in_memory(),
            Some(dir) => builder = builder.wisdom_dir(dir),
            None => (),
        }
        if let Some(mode) = mode {
            builder = builder.patience(mode.parse::<Patience>().map_err(wrong_value)?);
        }
        if let Some(budget) = budget {
            builder = builder.budget(duration(budget)?);
        }
        if !blas {
            builder = builder.no_blas();
        }
        let inner = py.detach(|| builder.build()).map_err(raised)?;
        current::tell(py, &inner)?;
        Ok(NativeRuntime::of(inner))
    }

    /// The runtime that calls of this thread use now.
    #[staticmethod]
    fn current(py: Python<'_>) -> PyResult<NativeRuntime> {
        Ok(NativeRuntime::of(current::runtime(py)?.clone()))
    }

    /// The same runtime under constraints.
    #[pyo3(signature = (*, threads=None, memory=None, latency=None, tolerance=None))]
    fn constrained(
        &self,
        threads: Option<u32>,
        memory: Option<u64>,
        latency: Option<&str>,
        tolerance: Option<f64>,
    ) -> PyResult<NativeRuntime> {
        let known = self.inner.terms().constraints;
        let constraints = Constraints {
            threads_max: threads.or(known.threads_max),
            memory_max: memory.map(Bytes).or(known.memory_max),
            latency_max: latency.map(duration).transpose()?.or(known.latency_max),
            tolerance: tolerance.map(Tolerance).or(known.tolerance),
        };
        Ok(NativeRuntime::of(self.inner.constrained(constraints).map_err(raised)?))
    }

    fn enter(&self) {
        current::enter(Runtime::clone(&self.inner));
    }

    #[staticmethod]
    fn leave() {
        current::leave();
    }

    /// Answers `explain`, `devices` or `report` as text, JSON or a page.
    #[pyo3(signature = (question, form, problem="", all=false))]
    fn answer(
        &self,
        py: Python<'_>,
        question: &str,
        form: &str,
        problem: &str,
        all: bool,
    ) -> PyResult<String> {
        let question = match question {
            "explain" => Question::Explain { problem: problem.to_string(), all },
            "devices" => Question::Devices,
            "report" => Question::Report,
            other => return Err(wrong_value(format!("there is no question `{other}`"))),
        };
        let form = match form {
            "text" => Form::Text,
            "json" => Form::Json,
            "page" => Form::Page,
            other => return Err(wrong_value(format!("there is no form `{other}`"))),
        };
        py.detach(|| answer(&self.inner, &question, form)).map_err(|error| wrong_value(format!("{error:#}")))
    }

    /// Measures a problem now and puts the winner in force: its kernel's name.
    fn tune(&self, py: Python<'_>, problem: &str, budget: &str) -> PyResult<Option<String>> {
        let problem: Problem =
            problem.parse().map_err(|error: trimtab::advanced::core::ProblemError| raised(error.into()))?;
        let request = TuneRequest::new(Patience::Measure, duration(budget)?);
        // On a thread of its own, so that Ctrl-C is heard at once. A race cannot be ended from outside: it goes on for its budget, and what
        // it finds is kept.
        let (runtime, (told, mut tuned)) = (Runtime::clone(&self.inner), mpsc::channel());
        std::thread::spawn(move || told.send(runtime.tune(&problem, &request, &mut |_| ())));
        let decision = loop {
            let waiting = &mut tuned;
            match py.detach(move || waiting.recv_timeout(LOOK)) {
                Ok(tuned) => break tuned.map_err(raised)?,
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PyRuntimeError::new_err("tuning panicked"));
                }
            }
        };
        Ok(decision.winner().map(|winner| winner.name.to_string()))
    }

    /// Writes what was learned.
    fn flush(&self, py: Python<'_>) {
        py.detach(|| self.inner.planner().drain());
    }

    /// Where what is learned is kept; nothing where it is not.
    #[getter]
    fn wisdom_dir(&self) -> Option<PathBuf> {
        self.inner.wisdom().dir()
    }

    #[getter]
    fn terms(&self) -> String {
        self.inner.terms().to_string()
    }

    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.inner.warnings().to_vec()
    }
}

impl NativeRuntime {
    fn of(runtime: Runtime) -> NativeRuntime {
        NativeRuntime { inner: Unlocked::new(runtime) }
    }

    /// The runtime itself.
    pub fn inner(&self) -> &Runtime {
        &self.inner
    }
}
