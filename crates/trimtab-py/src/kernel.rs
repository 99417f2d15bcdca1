//! Kernels in files as candidates of a study: each point is built, run in a child process, checked and timed.

use crate::errors::{wrong_type, wrong_value};
use crate::study::space_of;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use trimtab::Nanos;
use trimtab::advanced::study::{Effort, Outcome, ParameterSpace, Rival, Trouble, measure};
use trimtab::advanced::wisdom::files;
use trimtab_kernelfile::{KernelRunner, read_spec};

/// The largest description of a kernel.
const MOST_BYTES: u64 = 1 << 20;
/// How often somebody looks whether Ctrl-C was pressed.
pub const LOOK: Duration = Duration::from_millis(20);

/// A kernel in a file.
#[pyclass(frozen, module = "trimtab._native")]
pub struct NativeKernel {
    runner: KernelRunner,
    space: Arc<ParameterSpace>,
    stop: Arc<AtomicBool>,
}

#[pymethods]
impl NativeKernel {
    /// `described` is the file with the tables about the kernel (docs/tuning.md), `child` the words that start this package's command.
    #[new]
    #[pyo3(signature = (kernel, described, space, *, constraints, listed, child, built, timeout))]
    #[expect(clippy::too_many_arguments, reason = "they are what a kernel needs, by name in Python")]
    fn new(
        kernel: PathBuf,
        described: PathBuf,
        space: &str,
        constraints: Vec<String>,
        listed: Option<Vec<Vec<u16>>>,
        child: Vec<String>,
        built: PathBuf,
        timeout: f64,
    ) -> PyResult<NativeKernel> {
        if !(timeout > 0.0 && timeout < 1e9) {
            return Err(wrong_value(format!("a timeout of {timeout} s is not possible")));
        }
        let space = space_of(space, constraints, listed)?;
        let bytes = files::read(&described, MOST_BYTES).map_err(wrong_value)?;
        let spec = read_spec(&bytes, &described, &kernel, &space, &[]).map_err(wrong_value)?;
        let fixed =
            spec.sizes.iter().filter_map(|(name, values)| Some((name.clone(), values.first()?.clone())));
        let (sizes, stop) = (fixed.collect(), Arc::new(AtomicBool::new(false)));
        let limits = trimtab_cli::kernel_limits(Nanos((timeout * 1e9) as u64));
        let child = child.into_iter().chain([trimtab_cli::KERNEL_WORKER.to_string()]).collect();
        let runner = KernelRunner::new(spec, sizes, limits, child, built, Arc::clone(&stop));
        Ok(NativeKernel { runner, space, stop })
    }

    /// Runs a point once: files with its outputs' plain elements, by their places among the arguments.
    fn outputs(&self, py: Python<'_>, point: usize) -> PyResult<Vec<(usize, PathBuf)>> {
        if point >= self.space.len() {
            return Err(wrong_type(format!("there is no point {point}")));
        }
        py.detach(|| self.runner.outputs(&self.space.point(point))).map_err(|trouble| match trouble {
            Trouble::Failed(failed) => PyRuntimeError::new_err(
                [failed.to_string()].into_iter().chain(failed.output).collect::<Vec<_>>().join("\n"),
            ),
            Trouble::Fatal(reason) => PyRuntimeError::new_err(reason),
            Trouble::Stopped => PyRuntimeError::new_err("it was stopped"),
        })
    }

    /// Measures a point: JSON with `samples` in seconds, or with `failure`. The best so far and its time run in turns with what comes
    /// close.
    #[pyo3(signature = (point, repeats, rival=None))]
    fn measure(
        &self,
        py: Python<'_>,
        point: usize,
        repeats: u32,
        rival: Option<(usize, f64, usize)>,
    ) -> PyResult<String> {
        if point >= self.space.len() {
            return Err(wrong_type(format!("there is no point {point}")));
        }
        let rival = rival.map(|(at, best, runs)| Rival { at, point: self.space.point(at), best, runs });
        let effort = Effort { repeats, ..Effort::usual(true) };
        let point = self.space.point(point);
        self.stop.store(false, Ordering::Relaxed);
        // On a thread of its own, so that Ctrl-C is heard: it ends the child, and the point is not told.
        let measured = std::thread::scope(|scope| {
            let task = scope.spawn(|| measure(&self.runner, &point, 0, effort, rival.as_ref()));
            loop {
                let done = py.detach(|| {
                    std::thread::sleep(LOOK);
                    task.is_finished()
                });
                if let Err(interrupt) = py.check_signals() {
                    self.stop.store(true, Ordering::Relaxed);
                    let _ = py.detach(|| task.join());
                    return Err(interrupt);
                }
                if done {
                    return py
                        .detach(|| task.join())
                        .map_err(|_| PyRuntimeError::new_err("measuring panicked"));
                }
            }
        })?;
        match measured {
            Ok(measured) => {
                let mut view = match measured.outcome {
                    Outcome::Ran(ran) => json!({ "value": ran.value, "samples": ran.samples }),
                    Outcome::Failed(failed) => json!({
                        "failure": failed.message, "failure_kind": failed.fault.name(), "output": failed.output,
                    }),
                };
                view["rival"] = json!(measured.rival);
                Ok(view.to_string())
            }
            Err(Trouble::Failed(failed)) => Ok(json!({
                "failure": failed.message, "failure_kind": failed.fault.name(), "output": failed.output, "rival": Value::Null,
            })
            .to_string()),
            Err(Trouble::Fatal(reason)) => Err(PyRuntimeError::new_err(reason)),
            Err(Trouble::Stopped) => Err(PyRuntimeError::new_err("it was stopped before it was known")),
        }
    }
}
