//! Programs made ready: compiled, loaded, and kept.

use crate::context::{Context, Function};
use crate::error::CudaError;
use crate::nvrtc::{Compiled, Nvrtc, NvrtcError};
use crate::program::{LaunchStep, Program, StepArgument};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use trimtab_core::Nanos;
use trimtab_tune::Stopwatch;

/// The most kernels that stay loaded.
pub const MAX_LOADED: usize = 1024;

/// Machine code of another architecture, or of a newer compiler than the driver knows: PTX may still do.
const REFUSED_CODE: [u32; 3] = [200, 209, 222];

/// A kernel that is loaded, and how it is launched.
#[derive(Clone, Debug)]
pub(crate) struct ReadyStep {
    pub function: Function,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub given: Vec<StepArgument>,
}

/// A program that can be run.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub steps: Vec<ReadyStep>,
    /// How long compiling and loading took, where it was not done before.
    pub built_in: Option<Nanos>,
}

/// Why a program is not ready.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotReady {
    #[error("{0}")]
    Compiler(#[from] NvrtcError),
    #[error("{0}")]
    Driver(#[from] CudaError),
}

/// What a kernel is compiled from: two with the same text and options are one.
type BuildKey = (String, Vec<String>);

/// CudaKernels that are loaded, the oldest first in `order`.
#[derive(Default)]
struct Loaded {
    functions: HashMap<BuildKey, Function>,
    order: VecDeque<BuildKey>,
}

/// Compiles and keeps what it compiled.
pub(crate) struct Builder {
    nvrtc: Arc<Nvrtc>,
    loaded: Mutex<Loaded>,
}

impl Builder {
    pub(crate) fn new(nvrtc: Arc<Nvrtc>) -> Builder {
        Builder { nvrtc, loaded: Mutex::default() }
    }

    pub(crate) fn prepare(&self, context: &Arc<Context>, program: &Program) -> Result<Prepared, NotReady> {
        let (watch, mut built) = (Stopwatch::start(), false);
        let mut steps = Vec::with_capacity(program.steps.len());
        for step in &program.steps {
            let (function, is_new) = self.function(context, step)?;
            built |= is_new;
            let LaunchStep { grid, block, given, .. } = step;
            steps.push(ReadyStep { function, grid: *grid, block: *block, given: given.clone() });
        }
        Ok(Prepared { steps, built_in: built.then(|| watch.elapsed()) })
    }

    fn function(&self, context: &Arc<Context>, step: &LaunchStep) -> Result<(Function, bool), NotReady> {
        let key = (step.source.to_string(), step.options());
        if let Some(function) = self.lock().functions.get(&key) {
            return Ok((function.clone(), false));
        }
        let capability = context.info().capability;
        let compiled = self.nvrtc.compile_for(capability, &step.source, &key.1)?;
        let module = match (context.load(&compiled.image()), compiled) {
            (Err(error), Compiled::Cubin(_)) if REFUSED_CODE.contains(&error.code) => {
                let text = self.nvrtc.ptx(capability, &step.source, &key.1)?;
                context.load(&Compiled::Ptx(text).image())?
            }
            (loaded, _) => loaded?,
        };
        let function = context.function(&module, step.entry)?;
        let mut loaded = self.lock();
        if loaded.functions.insert(key.clone(), function.clone()).is_none() {
            loaded.order.push_back(key);
        }
        while loaded.order.len() > MAX_LOADED {
            if let Some(oldest) = loaded.order.pop_front() {
                loaded.functions.remove(&oldest);
            }
        }
        Ok((function, true))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Loaded> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
