//! Kernels in CUDA C, on a GPU of NVIDIA's: compiled by NVRTC, run by the driver, both found at run time. Parameters are `-D` definitions; times are the device's own.

use crate::job::{GivenArgument, GivenData, Job};
use crate::shim::define;
use crate::worker::{Refusal, Target};
use std::sync::Arc;
use trimtab_core::Nanos;
use trimtab_cuda::{Allocation, Argument, Compiled, Context, CudaError, Driver, Function, Nvrtc, NvrtcError};
use trimtab_study::{Failed, Fault};
use trimtab_wisdom::files;

/// Kernels that stay loaded: the point that is measured and the best so far.
const MAX_BUILT: usize = 4;
const MAX_SOURCE_BYTES: u64 = 16 << 20;
/// How long a launch is waited for; who started this process ends it earlier.
const LONGEST: Nanos = Nanos(3_600_000_000_000);
/// Bytes of the largest value that is no array.
const VALUE_BYTES: usize = 8;

/// Source, entry point and options.
type BuildKey = (String, String, Vec<String>);

/// An argument as the device has it.
enum Placed {
    Memory(Allocation),
    Value([u8; VALUE_BYTES]),
}

/// A device.
pub(crate) struct Cuda {
    context: Arc<Context>,
    nvrtc: Nvrtc,
    /// What was made of each; the next launch is of the first.
    built: Vec<(BuildKey, Function)>,
    arguments: Vec<Placed>,
}

impl Cuda {
    /// The first device, or the first whose name contains the words.
    pub(crate) fn open(words: Option<&str>) -> Result<Cuda, String> {
        let driver = Driver::find().map_err(|error| error.to_string())?;
        let nvrtc = Nvrtc::find().map_err(|error| error.to_string())?;
        let words = words.map(str::to_lowercase);
        let mut names = Vec::new();
        for ordinal in 0..driver.devices() {
            let info = driver.info(ordinal).map_err(|error| error.to_string())?;
            let name = format!("cuda{ordinal} {}", info.name);
            if words.as_ref().is_none_or(|words| name.to_lowercase().contains(words)) {
                let context = Context::open(&driver, ordinal).map_err(|error| error.to_string())?;
                return Ok(Cuda { context, nvrtc, built: Vec::new(), arguments: Vec::new() });
            }
            names.push(name);
        }
        let words = words.unwrap_or_default();
        Err(format!("no CUDA device is called `{words}`; there are: {}", names.join(", ")))
    }

    fn build(&self, job: &Job, source: &str, options: &[String]) -> Result<Function, Refusal> {
        let compiled = match self.nvrtc.compile_for(self.context.info().capability, source, options) {
            Ok(compiled) => compiled,
            Err(NvrtcError::Compile(log)) => {
                let first = log.lines().next().unwrap_or_default().to_string();
                return Err(Failed::new(Fault::Compile, first).with_output(log.as_bytes()).into());
            }
            Err(error) => return Err(Failed::new(Fault::Compile, error.to_string()).into()),
        };
        let machine = self.context.load(&compiled.image());
        let module = match (machine, compiled) {
            (Err(_), Compiled::Cubin(_)) => {
                // Machine code of a newer CUDA than the driver's: PTX may still do.
                let text = self.nvrtc.ptx(self.context.info().capability, source, options);
                let text = text.map_err(|error| Failed::new(Fault::Compile, error.to_string()))?;
                self.context.load(&Compiled::Ptx(text).image())
            }
            (loaded, _) => loaded,
        };
        let module = module.map_err(|error| failed(Fault::Compile, &error))?;
        self.context.function(&module, &job.entry).map_err(|error| {
            let hint = "write extern \"C\" before __global__, so that its name stays";
            let message = format!("there is no kernel `{}` in it ({error}); {hint}", job.entry);
            Refusal::Point(Failed::new(Fault::Compile, message))
        })
    }
}

fn failed(fault: Fault, error: &CudaError) -> Refusal {
    match error.is_lost() {
        // Only a new process has the device again.
        true => Failed::new(Fault::Exit, format!("it cost the device: {error}")).into(),
        false => Failed::new(fault, error.to_string()).into(),
    }
}

impl Target for Cuda {
    fn load(&mut self, job: &Job) -> Result<(), Refusal> {
        let bytes = files::read(&job.source, MAX_SOURCE_BYTES).map_err(|error| {
            Failed::new(Fault::Compile, format!("{} cannot be read: {error}", job.source.display()))
        })?;
        let source = String::from_utf8_lossy(&bytes).into_owned();
        let mut options: Vec<String> = job.defines.iter().map(|(name, value)| define(name, value)).collect();
        options.extend(job.flags.iter().cloned());
        if let Some(dir) = job.source.parent().and_then(|dir| dir.to_str()) {
            options.push(format!("-I{dir}"));
        }
        let key = (source, job.entry.clone(), options);
        if let Some(at) = self.built.iter().position(|(known, _)| *known == key) {
            let found = self.built.remove(at);
            self.built.insert(0, found);
            return Ok(());
        }
        let function = self.build(job, &key.0, &key.2)?;
        self.built.insert(0, (key, function));
        self.built.truncate(MAX_BUILT);
        Ok(())
    }

    fn write(&mut self, at: usize, given: &GivenArgument, bytes: &[u8]) -> Result<(), Refusal> {
        let fits = match (self.arguments.get(at), &given.data) {
            (Some(Placed::Memory(known)), GivenData::Array { .. }) => known.bytes() == bytes.len() as u64,
            (Some(Placed::Value(_)), GivenData::Values(_)) => true,
            _ => false,
        };
        if !fits {
            self.arguments.truncate(at);
            self.arguments.push(match given.data {
                GivenData::Array { .. } => {
                    let memory = self.context.allocate(bytes.len() as u64);
                    Placed::Memory(memory.map_err(|error| failed(Fault::Start, &error))?)
                }
                _ => Placed::Value([0; VALUE_BYTES]),
            });
        }
        match self.arguments.get_mut(at) {
            Some(Placed::Memory(memory)) => {
                self.context.upload(memory, bytes).map_err(|error| failed(Fault::Start, &error))
            }
            Some(Placed::Value(value)) => {
                let Some(to) = value.get_mut(..bytes.len()) else {
                    let message =
                        format!("`{}` is a value of {} bytes, not of up to 8", given.name, bytes.len());
                    return Err(Failed::new(Fault::Start, message).into());
                };
                to.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(Failed::new(Fault::Start, "arguments are given one after the other").into()),
        }
    }

    fn launch(&mut self, job: &Job) -> Result<f64, Refusal> {
        let Some((_, function)) = self.built.first() else {
            return Err(Failed::new(Fault::Start, "no kernel is built").into());
        };
        let block = job.workgroup.unwrap_or([1; 3]);
        let arguments: Vec<Argument> = self
            .arguments
            .iter()
            .take(job.arguments.len())
            .map(|placed| match placed {
                Placed::Memory(memory) => Argument::Address(memory.address()),
                Placed::Value(bytes) => Argument::Bytes(*bytes),
            })
            .collect();
        // SAFETY: what a user's kernel does with its arguments nobody knows: it runs in a process of its own, which is started anew when it ends.
        let launch = || unsafe { self.context.launch(function, job.groups, block, 0, &arguments) };
        let time = self.context.timed(LONGEST, launch).map_err(|error| failed(Fault::Start, &error))?;
        Ok(time.0.max(1) as f64 / 1e9)
    }

    fn read(&mut self, at: usize, bytes: &mut [u8]) -> Result<(), Refusal> {
        match self.arguments.get(at) {
            Some(Placed::Memory(memory)) => {
                self.context.download(memory, bytes).map_err(|error| failed(Fault::Exit, &error))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::language::Language;
    use crate::spec::Fill;
    use trimtab_core::DType;
    use trimtab_study::Setting;
    // Built with the tests; `cargo xtask cuda` lets it be found as the driver.
    use trimtab_standin_cuda as _;

    const SOURCE: &str = r#"
        extern "C" __global__ void add(const float* a, const float* b, float* out, unsigned n) {
            unsigned i = blockIdx.x * TILE + threadIdx.x;
            if (i < n) out[i] = a[i] + b[i];
        }"#;

    fn given(name: &str, data: GivenData, dtype: DType) -> GivenArgument {
        GivenArgument { name: name.to_string(), dtype, data, compared: None }
    }

    fn array(name: &str) -> GivenArgument {
        given(
            name,
            GivenData::Array { shape: vec![100], fill: Fill::Poison, is_output: name == "out" },
            DType::F32,
        )
    }

    #[test]
    #[ignore = "takes NVRTC and a driver: cargo xtask cuda brings both"]
    fn a_users_kernel_is_compiled_for_its_point_and_computes() {
        let mut target = Cuda::open(None).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("add.cu");
        std::fs::write(&source, SOURCE).unwrap();
        let n = given("n", GivenData::Values(vec![100.0]), DType::I32);
        let job = |tile: u32, entry: &str| Job {
            language: Language::Cuda,
            source: source.clone(),
            entry: entry.to_string(),
            library: None,
            defines: vec![("TILE".to_string(), Setting::Integer(tile.into()))],
            flags: Vec::new(),
            device: None,
            groups: [100u32.div_ceil(tile), 1, 1],
            workgroup: Some([tile, 1, 1]),
            arguments: vec![array("a"), array("b"), array("out"), n.clone()],
        };
        let floats = |value: f32| -> Vec<u8> { [value; 100].iter().flat_map(|x| x.to_le_bytes()).collect() };
        let values = [floats(1.5), floats(2.0), floats(0.0), 100u32.to_le_bytes().to_vec()];
        for tile in [32, 64] {
            let job = job(tile, "add");
            assert!(target.load(&job).is_ok());
            for (at, bytes) in values.iter().enumerate() {
                assert!(target.write(at, &job.arguments[at], bytes).is_ok());
            }
            assert!(target.launch(&job).is_ok_and(|seconds| seconds > 0.0));
            let mut read = floats(0.0);
            assert!(target.read(2, &mut read).is_ok());
            assert_eq!(read, floats(3.5));
        }
        // What does not compile, and what is not in it, costs the point and says why.
        let refused = |answer: Result<(), Refusal>| match answer {
            Err(Refusal::Point(failed)) => failed.to_string(),
            _ => String::new(),
        };
        assert!(refused(target.load(&job(32, "missing"))).contains("extern \"C\""));
        std::fs::write(&source, "nonsense").unwrap();
        assert!(!refused(target.load(&job(32, "add"))).is_empty());
    }
}
