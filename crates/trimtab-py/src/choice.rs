//! Choosing among Python's callables by sizes: the facade's choice, whose options call back into the interpreter.

use crate::current::Unlocked;
use crate::errors::{raised, wrong_value};
use crate::runtime::NativeRuntime;
use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::Arc;
use trimtab::Choice;

/// The arguments of a call: shared, because options may run on copies of them on other threads.
#[derive(Clone)]
struct Arguments(Arc<(Py<PyTuple>, Option<Py<PyDict>>)>);

/// An exception is an answer: the caller's mistake is the caller's to hear of. One that only some options raise is a disagreement.
type Answer = Result<Py<PyAny>, PyErr>;

/// An option's name, its time in nanoseconds, and why it is out.
type Explained = (String, Option<u64>, Option<String>);

/// A choice among callables.
#[pyclass(frozen, module = "trimtab._native")]
pub struct NativeChoice {
    inner: Unlocked<Choice<Arguments, Answer>>,
}

#[pymethods]
impl NativeChoice {
    /// Options by name, the first of which says what is right; `agree` compares two results.
    #[new]
    fn new(
        runtime: &Bound<'_, NativeRuntime>,
        name: &str,
        version: &str,
        options: Vec<(String, Py<PyAny>)>,
        agree: Py<PyAny>,
    ) -> PyResult<NativeChoice> {
        let mut builder = runtime.get().inner().choose::<Arguments, Answer>(name).version(version);
        for (option, callable) in options {
            builder = builder.option(&option, move |arguments: Arguments| {
                // The background may still try an option while the interpreter ends.
                let called = Python::try_attach(|py| {
                    let (positional, named) = &*arguments.0;
                    let named = named.as_ref().map(|named| named.bind(py));
                    callable.bind(py).call(positional.bind(py), named).map(Bound::unbind)
                });
                called.unwrap_or_else(|| Err(PyRuntimeError::new_err("the interpreter ends")))
            });
        }
        let builder = builder.agree(move |a: &Answer, b: &Answer| match (a, b) {
            (Ok(a), Ok(b)) => Python::try_attach(|py| {
                agree.bind(py).call1((a, b)).and_then(|said| said.is_truthy()).unwrap_or(false)
            })
            .unwrap_or(false),
            (Err(_), Err(_)) => true,
            // Ctrl-C says nothing about the option it met.
            (Err(one), Ok(_)) | (Ok(_), Err(one)) => {
                Python::try_attach(|py| !one.is_instance_of::<PyException>(py)).unwrap_or(true)
            }
        });
        Ok(NativeChoice { inner: Unlocked::new(builder.build().map_err(raised)?) })
    }

    /// Runs the best option for these sizes.
    #[pyo3(signature = (sizes, args, kwargs=None))]
    fn run(
        &self,
        py: Python<'_>,
        sizes: Vec<u64>,
        args: Py<PyTuple>,
        kwargs: Option<Py<PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let arguments = Arguments(Arc::new((args, kwargs)));
        py.detach(|| self.inner.run(&sizes, arguments)).map_err(raised)?
    }

    /// The name of the option that would run for these sizes, if that is known.
    fn chosen(&self, sizes: Vec<u64>) -> PyResult<Option<String>> {
        Ok(self.inner.chosen(&sizes).map_err(raised)?.map(str::to_string))
    }

    /// Every option with its time in nanoseconds, or why it is out.
    fn explain(&self, py: Python<'_>, sizes: Vec<u64>) -> PyResult<Vec<Explained>> {
        let decision = py.detach(|| self.inner.explain(&sizes)).map_err(raised)?;
        if decision.rivals.is_empty() {
            return Err(wrong_value("there are no options"));
        }
        let short = |name: &str| name.rsplit('.').next().unwrap_or(name).to_string();
        let view = |rival: &trimtab::advanced::plan::Rival| {
            let time = rival.estimate().map(|estimate| estimate.time.0);
            (short(&rival.name), time, rival.out_because())
        };
        Ok(decision.rivals.iter().map(view).collect())
    }
}
