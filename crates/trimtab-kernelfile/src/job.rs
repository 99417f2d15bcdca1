//! What the child is asked and what it answers: one kernel at one point with every expression worked out, as a line of JSON.

use crate::language::Language;
use crate::spec::Fill;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::path::PathBuf;
use trimtab_core::DType;
use trimtab_study::{Failed, Setting};

/// A kernel at a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub language: Language,
    pub source: PathBuf,
    pub entry: String,
    /// What was compiled of it, where it is compiled ahead.
    pub library: Option<PathBuf>,
    /// Names the text is given, with their values.
    pub defines: Vec<(String, Setting)>,
    /// Words for the compiler of a driver.
    pub flags: Vec<String>,
    /// Part of the name of the device.
    pub device: Option<String>,
    pub groups: [u32; 3],
    pub workgroup: Option<[u32; 3]>,
    pub arguments: Vec<GivenArgument>,
}

/// An argument at a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GivenArgument {
    pub name: String,
    #[serde(serialize_with = "dtype_name", deserialize_with = "dtype_of")]
    pub dtype: DType,
    pub data: GivenData,
    /// What is compared after a run.
    pub compared: Option<Compared>,
}

/// What an argument holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum GivenData {
    /// A number, or a few for a uniform buffer.
    Values(Vec<f64>),
    /// Memory with that many elements along each axis.
    Array { shape: Vec<usize>, fill: Fill, is_output: bool },
    /// Memory of a workgroup, so many elements.
    Local(usize),
}

/// What an output is held against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Compared {
    /// A `.npy` file, or plain elements.
    pub with: PathBuf,
    pub tolerance: f64,
}

impl GivenArgument {
    /// Elements.
    pub(crate) fn count(&self) -> usize {
        match &self.data {
            GivenData::Values(values) => values.len(),
            GivenData::Array { shape, .. } => shape.iter().product(),
            GivenData::Local(count) => *count,
        }
    }

    /// Bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.count() * self.dtype.size() as usize
    }

    pub(crate) fn is_output(&self) -> bool {
        matches!(self.data, GivenData::Array { is_output: true, .. })
    }
}

fn dtype_name<S: Serializer>(dtype: &DType, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(dtype.name())
}

fn dtype_of<'de, D: Deserializer<'de>>(from: D) -> Result<DType, D::Error> {
    let name = String::deserialize(from)?;
    DType::parse(&name).ok_or_else(|| serde::de::Error::custom(format!("there is no type `{name}`")))
}

/// A question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Question {
    /// Run it and say how long it took; check its results first.
    Run { job: Job, check: bool },
    /// Build it and launch one workgroup of it: the driver then has it.
    Warm { job: Job },
    /// Run it once and write its outputs, elements only, to these files in the order of arguments.
    Make { job: Job, outputs: Vec<(usize, PathBuf)> },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The shortest launch, and how many there were.
    Ran {
        seconds: f64,
        launches: u32,
    },
    Made,
    Failed(Failed),
    /// No point can work here.
    Fatal(String),
}
