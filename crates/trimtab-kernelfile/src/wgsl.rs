//! Kernels in WGSL, on an adapter of this machine. Parameters are values of its `override`s, or constants after its text.

use crate::job::{GivenArgument, Job};
use crate::language::words_of;
use crate::worker::{Refusal, Target};
use trimtab_study::{Failed, Fault, Setting};
use trimtab_wgpu::{BoundShader, Shader, ShaderBuffer, ShaderDevice, ShaderError};
use trimtab_wisdom::files;

/// Shaders that stay built: the point that is measured and the best so far.
const MAX_BUILT: usize = 4;
const MAX_SOURCE_BYTES: u64 = 16 << 20;

/// A shader, and the buffers it was bound to.
struct Built {
    text: String,
    constants: Vec<(String, f64)>,
    entry: String,
    shader: Shader,
    bound: Option<BoundShader>,
}

/// An adapter.
pub(crate) struct Wgsl {
    device: ShaderDevice,
    built: Vec<Built>,
    arguments: Vec<(usize, bool, ShaderBuffer)>,
}

impl Wgsl {
    pub(crate) fn open(device: Option<&str>) -> Result<Wgsl, String> {
        Ok(Wgsl { device: ShaderDevice::find(device)?, built: Vec::new(), arguments: Vec::new() })
    }
}

fn failed(error: ShaderError) -> Refusal {
    let (fault, message) = match error {
        ShaderError::Text(message) => (Fault::Compile, message),
        ShaderError::Device(message) => (Fault::Start, message),
    };
    let first = message.lines().next().unwrap_or_default().to_string();
    Failed::new(fault, first).with_output(message.as_bytes()).into()
}

/// The text as it is built, and the values of its overrides.
fn text_of(job: &Job) -> Result<(String, Vec<(String, f64)>), Failed> {
    let bytes = files::read(&job.source, MAX_SOURCE_BYTES).map_err(|error| {
        Failed::new(Fault::Compile, format!("{} cannot be read: {error}", job.source.display()))
    })?;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    let words: Vec<String> = words_of(&text).into_iter().map(str::to_string).collect();
    let is_override = |name: &str| words.windows(2).any(|pair| pair[0] == "override" && pair[1] == name);
    let mut constants = Vec::new();
    for (name, value) in &job.defines {
        if is_override(name) {
            let number = value.number().ok_or_else(|| {
                Failed::new(Fault::Compile, format!("`{name}` is an override, and takes no text: {value}"))
            })?;
            constants.push((name.clone(), number));
            continue;
        }
        // After the text: its lines keep their numbers, and `enable` stays first.
        let written = match value {
            Setting::Number(number) => format!("{number:?}"),
            value => value.to_string(),
        };
        text.push_str(&format!("\nconst {name} = {written};"));
    }
    Ok((text, constants))
}

impl Target for Wgsl {
    fn load(&mut self, job: &Job) -> Result<(), Refusal> {
        let (text, constants) = text_of(job)?;
        let is_it =
            |built: &Built| built.text == text && built.constants == constants && built.entry == job.entry;
        if let Some(at) = self.built.iter().position(is_it) {
            let found = self.built.remove(at);
            self.built.insert(0, found);
            return Ok(());
        }
        let shader = self.device.build(&text, &job.entry, &constants).map_err(failed)?;
        for place in shader.places() {
            if !job.arguments.iter().any(|given| given.name == place.name) {
                let reason = format!(
                    "the shader uses `{}` (group {}, binding {}), and there is no argument of that name",
                    place.name, place.group, place.binding
                );
                return Err(Refusal::All(reason));
            }
        }
        self.built.insert(0, Built { text, constants, entry: job.entry.clone(), shader, bound: None });
        self.built.truncate(MAX_BUILT);
        Ok(())
    }

    fn write(&mut self, at: usize, given: &GivenArgument, bytes: &[u8]) -> Result<(), Refusal> {
        let is_uniform = self
            .built
            .first()
            .and_then(|built| built.shader.places().iter().find(|place| place.name == given.name))
            .is_some_and(|place| place.is_uniform);
        let len = given.bytes();
        if self.arguments.get(at).is_none_or(|known| (known.0, known.1) != (len, is_uniform)) {
            self.arguments.truncate(at);
            let buffer = self.device.allocate(len, is_uniform).map_err(failed)?;
            self.arguments.push((len, is_uniform, buffer));
            // They were bound to what is gone.
            self.built.iter_mut().for_each(|built| built.bound = None);
        }
        self.device.write(&self.arguments[at].2, bytes).map_err(failed)
    }

    fn launch(&mut self, job: &Job) -> Result<f64, Refusal> {
        let Wgsl { device, built, arguments } = self;
        let Some(built) = built.first_mut() else {
            return Err(Failed::new(Fault::Start, "no shader is built").into());
        };
        if built.bound.is_none() {
            let argument = |name: &str| {
                let at = job.arguments.iter().position(|given| given.name == name)?;
                arguments.get(at).map(|(_, _, buffer)| buffer)
            };
            let places = built.shader.places().iter();
            let buffers: Vec<&ShaderBuffer> = places.filter_map(|place| argument(&place.name)).collect();
            built.bound = Some(device.bind(&built.shader, &buffers).map_err(failed)?);
        }
        let Some(bound) = &built.bound else {
            return Err(Failed::new(Fault::Start, "the shader's buffers are not bound").into());
        };
        let took = device.run(&built.shader, bound, job.groups).map_err(failed)?;
        Ok(took.0.max(1) as f64 / 1e9)
    }

    fn read(&mut self, at: usize, bytes: &mut [u8]) -> Result<(), Refusal> {
        match self.arguments.get(at) {
            Some((_, _, buffer)) => self.device.read(buffer, bytes).map_err(failed),
            None => Ok(()),
        }
    }
}
