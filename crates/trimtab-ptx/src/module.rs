//! Modules and kernels: PTX text, understood.

use crate::fault::LoadError;
use crate::op::Instruction;
use crate::parse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where variables of a module lie in the generic address space.
pub(crate) const VARIABLES: u64 = 0x00fd_0000_0000_0000;

/// A PTX module whose kernels can be launched.
#[derive(Clone, Debug)]
pub struct Module {
    pub(crate) version: String,
    pub(crate) target: u32,
    pub(crate) kernels: BTreeMap<String, Kernel>,
}

impl Module {
    /// Understands PTX text, or says which line is not modelled.
    pub fn parse(text: &str) -> Result<Self, LoadError> {
        parse::module(text)
    }

    /// The PTX version, as in `8.7`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The architecture it was compiled for: 80 for `sm_80`.
    pub fn target(&self) -> u32 {
        self.target
    }

    /// A kernel by its name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.get(name)
    }

    /// All kernels, by name.
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.kernels.values()
    }
}

/// A parameter of a kernel: where its bytes lie among all parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Offset in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub bytes: usize,
}

/// A kernel (`.entry`) of a module.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(crate) name: String,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) instructions: Vec<Instruction>,
    /// Bytes of each register.
    pub(crate) registers: Vec<u8>,
    pub(crate) shared_bytes: usize,
    pub(crate) local_bytes: usize,
    pub(crate) max_threads: Option<u32>,
    pub(crate) required_threads: Option<[u32; 3]>,
    /// Bytes of the narrowest access: races are found at this grain.
    pub(crate) grain: usize,
    pub(crate) variables: Arc<[u8]>,
    pub(crate) lines: Arc<[String]>,
}

impl Kernel {
    /// Its name in the module.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its parameters, in order.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Bytes of all parameters together.
    pub fn parameter_bytes(&self) -> usize {
        self.parameters.last().map_or(0, |last| last.offset + last.bytes)
    }

    /// Bytes of shared memory it declares; what a launch adds is not among them.
    pub fn shared_bytes(&self) -> usize {
        self.shared_bytes
    }

    /// Bytes of local memory of each thread.
    pub fn local_bytes(&self) -> usize {
        self.local_bytes
    }

    /// Threads a block may have, where the kernel says so (`__launch_bounds__`).
    pub fn max_threads(&self) -> Option<u32> {
        self.max_threads
    }
}
