//! Programs made ready: compiled or taken from what is compiled, loaded, and kept.

use crate::build_id::BuildId;
use crate::bundle::bundled;
use crate::context::{Context, Function, Module, Resources};
use crate::cublas::LibraryProduct;
use crate::error::CudaError;
use crate::kept::{KeptKernel, KeptKernels};
use crate::nvrtc::{Compiled, Nvrtc, NvrtcError};
use crate::program::{LaunchStep, Program, StepArgument};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    /// Its name.
    pub entry: &'static str,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub given: Vec<StepArgument>,
}

/// A program that can be run.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub steps: Vec<ReadyStep>,
    /// Bytes the steps leave to each other.
    pub scratch: u64,
    /// Whether a step may tell that there is no answer.
    pub has_status: bool,
    /// A product a library makes instead.
    pub product: Option<LibraryProduct>,
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

/// Kernels that are loaded, the oldest first in `order`.
#[derive(Default)]
struct Loaded {
    functions: HashMap<BuildId, Function>,
    order: VecDeque<BuildId>,
}

/// Compiles and keeps what it compiled.
pub(crate) struct Builder {
    /// The compiler, or why there is none: then there is what is bundled.
    nvrtc: Result<Arc<Nvrtc>, NvrtcError>,
    loaded: Mutex<Loaded>,
    kept: Mutex<KeptKernels>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Builder {
    pub(crate) fn new(nvrtc: Result<Arc<Nvrtc>, NvrtcError>) -> Builder {
        Builder { nvrtc, loaded: Mutex::default(), kept: Mutex::default() }
    }

    /// Why a program cannot be built at all, if it cannot.
    pub(crate) fn missing(&self, program: &Program) -> Option<&NvrtcError> {
        let error = self.nvrtc.as_ref().err()?;
        let has_all = program.steps.iter().all(|step| bundled(step).is_some());
        (!has_all).then_some(error)
    }

    /// Whether every program can be built.
    pub(crate) fn has_compiler(&self) -> bool {
        self.nvrtc.is_ok()
    }

    pub(crate) fn kept(&self) -> MutexGuard<'_, KeptKernels> {
        lock(&self.kept)
    }

    /// What a compiler made of a step, if one did, in this process or an earlier one.
    pub(crate) fn known(&self, step: &LaunchStep) -> Option<Resources> {
        self.kept().get(self.id(step)).map(|kernel| kernel.resources)
    }

    pub(crate) fn prepare(&self, context: &Arc<Context>, program: &Program) -> Result<Prepared, NotReady> {
        let (watch, mut built) = (Stopwatch::start(), false);
        let mut steps = Vec::with_capacity(program.steps.len());
        for step in &program.steps {
            let (function, is_new) = self.function(context, step)?;
            built |= is_new;
            let LaunchStep { entry, grid, block, given, .. } = step;
            steps.push(ReadyStep { function, entry, grid: *grid, block: *block, given: given.clone() });
        }
        let built_in = built.then(|| watch.elapsed());
        let Program { scratch, product, .. } = *program;
        Ok(Prepared { steps, scratch, has_status: program.has_status(), product, built_in })
    }

    /// Another compiler makes other code of the same text.
    fn id(&self, step: &LaunchStep) -> BuildId {
        let by = match &self.nvrtc {
            Ok(nvrtc) => format!("NVRTC {}.{}", nvrtc.version().0, nvrtc.version().1),
            Err(_) => "bundled".to_string(),
        };
        BuildId::of(step).and(&by)
    }

    fn function(&self, context: &Arc<Context>, step: &LaunchStep) -> Result<(Function, bool), NotReady> {
        let id = self.id(step);
        if let Some(function) = lock(&self.loaded).functions.get(&id) {
            return Ok((function.clone(), false));
        }
        let function = match self.load_kept(context, step, id) {
            Some(function) => function,
            None => {
                let (module, image) = self.build(context, step)?;
                let function = context.function(&module, step.entry)?;
                self.kept().add(id, KeptKernel { resources: function.resources(), image: image.into() });
                function
            }
        };
        let mut loaded = lock(&self.loaded);
        if loaded.functions.insert(id, function.clone()).is_none() {
            loaded.order.push_back(id);
        }
        while loaded.order.len() > MAX_LOADED {
            if let Some(oldest) = loaded.order.pop_front() {
                loaded.functions.remove(&oldest);
            }
        }
        Ok((function, true))
    }

    /// What an earlier process compiled, if the driver still takes it.
    fn load_kept(&self, context: &Arc<Context>, step: &LaunchStep, id: BuildId) -> Option<Function> {
        let image = Arc::clone(&self.kept().get(id)?.image);
        let found = context.load(&image).and_then(|module| context.function(&module, step.entry));
        match found {
            Ok(function) => Some(function),
            Err(_) => {
                self.kept().remove(id);
                None
            }
        }
    }

    fn build(&self, context: &Arc<Context>, step: &LaunchStep) -> Result<(Arc<Module>, Vec<u8>), NotReady> {
        let capability = context.info().capability;
        let nvrtc = match (&self.nvrtc, bundled(step)) {
            (Ok(nvrtc), _) => nvrtc,
            (Err(_), Some(ptx)) => {
                let image = Compiled::Ptx(ptx.to_string()).image();
                return Ok((context.load(&image)?, image));
            }
            (Err(error), None) => return Err(error.clone().into()),
        };
        let options = nvrtc.options_of(step);
        let (compiled, ptx) = nvrtc.compile_both(capability, &step.source, &options)?;
        let image = compiled.image();
        match (context.load(&image), ptx) {
            (Err(error), Some(ptx)) if REFUSED_CODE.contains(&error.code) => {
                let image = Compiled::Ptx(ptx).image();
                Ok((context.load(&image)?, image))
            }
            (loaded, _) => Ok((loaded?, image)),
        }
    }
}
