//! A shader somebody brings: any WGSL with bindings of its own, looked at, checked against the adapter's limits, run and timed. Nothing
//! here plans.

use crate::engine::{Engine, Trouble, engines};
use crate::memory::{BufferUse, GpuBuffer};
use crate::run::Timing;
use std::sync::Arc;
use trimtab_core::{LaunchError, Nanos};
use trimtab_tune::Stopwatch;
use wgpu::naga;

/// Uniform buffers are whole vectors.
const UNIFORM_ALIGNMENT: usize = 16;

/// An adapter that runs shaders somebody brings.
pub struct ShaderDevice {
    engine: Arc<Engine>,
}

/// Where a shader expects a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShaderPlace {
    /// The variable's name.
    pub name: String,
    /// Its `@group`.
    pub group: u32,
    /// Its `@binding`.
    pub binding: u32,
    /// Whether it is `var<uniform>`.
    pub is_uniform: bool,
}

/// A shader that was built.
#[derive(Debug)]
pub struct Shader {
    pipeline: wgpu::ComputePipeline,
    places: Vec<ShaderPlace>,
    workgroup: [u32; 3],
}

impl Shader {
    /// The buffers its entry point uses.
    pub fn places(&self) -> &[ShaderPlace] {
        &self.places
    }

    /// Invocations of a workgroup.
    pub fn workgroup(&self) -> [u32; 3] {
        self.workgroup
    }
}

/// Memory a shader can use.
#[derive(Debug)]
pub enum ShaderBuffer {
    /// Read and written as storage.
    Storage(GpuBuffer),
    /// A few constants.
    Uniform(wgpu::Buffer),
}

/// A shader with its buffers.
#[derive(Debug)]
pub struct BoundShader {
    groups: Vec<(u32, wgpu::BindGroup)>,
}

/// Why a shader cannot be built or run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShaderError {
    /// The text is wrong.
    Text(String),
    /// The adapter cannot, or did not.
    Device(String),
}

impl From<LaunchError> for ShaderError {
    fn from(error: LaunchError) -> ShaderError {
        ShaderError::Device(error.to_string())
    }
}

impl From<Trouble> for ShaderError {
    fn from(trouble: Trouble) -> ShaderError {
        LaunchError::from(trouble).into()
    }
}

impl std::fmt::Debug for ShaderDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShaderDevice({})", self.engine.facts.fingerprint)
    }
}

impl ShaderDevice {
    /// The first adapter, or the first whose short name or model contains the words; else why there is none, and what to do.
    pub fn find(words: Option<&str>) -> Result<ShaderDevice, String> {
        let (engines, problems) = engines();
        let is_meant = |engine: &&Arc<Engine>| {
            words.is_none_or(|words| {
                let words = words.to_lowercase();
                let facts = &engine.facts;
                words == "gpu" || facts.id == words || facts.name.to_lowercase().contains(&words)
            })
        };
        let found = engines.iter().find(is_meant).cloned();
        found.map(|engine| ShaderDevice { engine }).ok_or_else(|| {
            let known: Vec<String> =
                engines.iter().map(|engine| format!("{} ({})", engine.facts.id, engine.facts.name)).collect();
            match (words, known.is_empty()) {
                (Some(words), false) => {
                    format!("no adapter is called `{words}`; there are: {}", known.join(", "))
                }
                _ => problems.join("; "),
            }
        })
    }

    /// Its model.
    pub fn name(&self) -> &str {
        &self.engine.facts.name
    }

    /// Builds an entry point; `constants` are values of the text's `override`s.
    pub fn build(&self, text: &str, entry: &str, constants: &[(String, f64)]) -> Result<Shader, ShaderError> {
        let (places, workgroup, memory) = looked_at(text, entry, constants)?;
        let told = self.engine.told()?;
        let invocations = workgroup.iter().map(|&side| u64::from(side)).product::<u64>();
        let mut measures = vec![
            ("a workgroup has", invocations, u64::from(told.max_invocations)),
            ("bytes of workgroup memory are", memory, told.workgroup_memory.0),
        ];
        for (side, most) in workgroup.iter().zip(told.max_workgroup) {
            measures.push(("a side of a workgroup is", u64::from(*side), u64::from(most)));
        }
        // Vulkan drivers do not refuse these: they crash, or write nothing.
        if let Some((what, found, most)) = measures.into_iter().find(|(_, found, most)| found > most) {
            return Err(ShaderError::Device(format!("{what} {found}, the adapter's limit is {most}")));
        }
        let open = self.engine.open()?;
        let constants: Vec<(&str, f64)> =
            constants.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let pipeline = open
            .caught(|| {
                let source = wgpu::ShaderSource::Wgsl(text.into());
                let module =
                    open.device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
                open.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                    label: None,
                    layout: None,
                    module: &module,
                    entry_point: Some(entry),
                    compilation_options: wgpu::PipelineCompilationOptions {
                        constants: &constants,
                        zero_initialize_workgroup_memory: true,
                    },
                    cache: open.cache.as_ref(),
                })
            })
            .map_err(|error| ShaderError::Text(error.to_string()))?;
        Ok(Shader { pipeline, places, workgroup })
    }

    /// Memory of so many bytes.
    pub fn allocate(&self, bytes: usize, is_uniform: bool) -> Result<ShaderBuffer, ShaderError> {
        if !is_uniform {
            return Ok(ShaderBuffer::Storage(self.engine.take(BufferUse::Storage, bytes as u64)?));
        }
        let open = self.engine.open()?;
        let buffer = open.caught(|| {
            open.device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: bytes.next_multiple_of(UNIFORM_ALIGNMENT).max(UNIFORM_ALIGNMENT) as u64,
                usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        })?;
        Ok(ShaderBuffer::Uniform(buffer))
    }

    /// Writes the first bytes of a buffer. What runs afterwards sees them.
    pub fn write(&self, to: &ShaderBuffer, bytes: &[u8]) -> Result<(), ShaderError> {
        match to {
            ShaderBuffer::Storage(buffer) => Ok(self.engine.write_by(self.engine.path(), buffer, bytes)?),
            ShaderBuffer::Uniform(buffer) => {
                let open = self.engine.open()?;
                let mut whole = bytes.to_vec();
                whole.resize(bytes.len().next_multiple_of(UNIFORM_ALIGNMENT), 0);
                Ok(open.caught(|| open.queue.write_buffer(buffer, 0, &whole))?)
            }
        }
    }

    /// Reads the first bytes of a buffer, after everything that was run.
    pub fn read(&self, from: &ShaderBuffer, bytes: &mut [u8]) -> Result<(), ShaderError> {
        match from {
            ShaderBuffer::Storage(buffer) => Ok(self.engine.read_by(self.engine.path(), buffer, bytes)?),
            ShaderBuffer::Uniform(_) => Err(ShaderError::Device("a uniform buffer is not read back".into())),
        }
    }

    /// Binds a buffer to each place of a shader, in their order.
    pub fn bind(&self, shader: &Shader, buffers: &[&ShaderBuffer]) -> Result<BoundShader, ShaderError> {
        let open = self.engine.open()?;
        let mut numbers: Vec<u32> = shader.places.iter().map(|place| place.group).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let groups = open.caught(|| {
            let group = |number: u32| {
                let entries: Vec<wgpu::BindGroupEntry<'_>> = shader
                    .places
                    .iter()
                    .zip(buffers)
                    .filter(|(place, _)| place.group == number)
                    .map(entry)
                    .collect();
                let layout = shader.pipeline.get_bind_group_layout(number);
                let descriptor =
                    wgpu::BindGroupDescriptor { label: None, layout: &layout, entries: &entries };
                (number, open.device.create_bind_group(&descriptor))
            };
            numbers.into_iter().map(group).collect()
        })?;
        Ok(BoundShader { groups })
    }

    /// Runs a shader once and waits for it: how long it took by the device's clock, or by the processor's where that one is not believed.
    pub fn run(&self, shader: &Shader, bound: &BoundShader, groups: [u32; 3]) -> Result<Nanos, ShaderError> {
        let most = self.engine.told()?.max_groups;
        if let Some(over) = groups.iter().find(|count| **count > most) {
            let message = format!("the number of workgroups is {over}, the adapter's limit is {most}");
            return Err(ShaderError::Device(message));
        }
        let open = self.engine.open()?;
        let timing = self.engine.clock().map(|clock| self.engine.timing(clock)).transpose()?;
        let commands = open.caught(|| {
            let mut encoder = open.device.create_command_encoder(&Default::default());
            let descriptor = timing.as_ref().map(Timing::descriptor).unwrap_or_default();
            let mut pass = encoder.begin_compute_pass(&descriptor);
            pass.set_pipeline(&shader.pipeline);
            for (number, group) in &bound.groups {
                pass.set_bind_group(*number, group, &[]);
            }
            pass.dispatch_workgroups(groups[0], groups[1], groups[2]);
            drop(pass);
            if let Some(timing) = &timing {
                timing.resolve(&mut encoder);
            }
            encoder.finish()
        })?;
        let watch = Stopwatch::start();
        let submission = open.caught(|| open.queue.submit([commands]))?;
        // Whoever gives up ends the process: nobody else may wait for this device.
        while !open.wait(Some(submission.clone()), crate::engine::LONGEST_LAUNCH)? {}
        let wall = watch.elapsed();
        let device = match &timing {
            Some(timing) => timing.elapsed(open, submission, wall)?,
            None => None,
        };
        Ok(device.unwrap_or(wall))
    }
}

fn entry<'a>((place, buffer): (&ShaderPlace, &&'a ShaderBuffer)) -> wgpu::BindGroupEntry<'a> {
    let resource = match buffer {
        ShaderBuffer::Uniform(buffer) => buffer.as_entire_binding(),
        ShaderBuffer::Storage(buffer) => wgpu::BindingResource::Buffer(wgpu::BufferBinding {
            buffer: &buffer.buffer,
            offset: 0,
            size: std::num::NonZeroU64::new(buffer.bound_bytes()),
        }),
    };
    wgpu::BindGroupEntry { binding: place.binding, resource }
}

/// What an entry point uses: its buffers, its workgroup and the bytes of workgroup memory.
fn looked_at(
    text: &str,
    entry: &str,
    constants: &[(String, f64)],
) -> Result<(Vec<ShaderPlace>, [u32; 3], u64), ShaderError> {
    let wrong = |message: String| ShaderError::Text(message);
    let module = naga::front::wgsl::parse_str(text).map_err(|error| wrong(error.emit_to_string(text)))?;
    let all = (naga::valid::ValidationFlags::all(), naga::valid::Capabilities::all());
    let info = naga::valid::Validator::new(all.0, all.1)
        .validate(&module)
        .map_err(|error| wrong(error.emit_to_string(text)))?;
    let known: naga::back::PipelineConstants = constants.iter().cloned().collect();
    let stage = naga::ShaderStage::Compute;
    let at = module.entry_points.iter().position(|known| known.name == entry && known.stage == stage);
    if at.is_none() {
        let known: Vec<&str> = module.entry_points.iter().map(|entry| entry.name.as_str()).collect();
        return Err(wrong(format!(
            "there is no compute entry point `{entry}`; there are: {}",
            known.join(", ")
        )));
    }
    let (module, info) =
        naga::back::pipeline_constants::process_overrides(&module, &info, Some((stage, entry)), &known)
            .map_err(|error| wrong(format!("its overrides: {error}")))?;
    // Entry points that were not asked for may be gone.
    let at = module.entry_points.iter().position(|known| known.name == entry).unwrap_or(0);
    let (used, mut layouter) = (info.get_entry_point(at), naga::proc::Layouter::default());
    layouter.update(module.to_ctx()).map_err(|error| wrong(error.to_string()))?;
    let (mut places, mut memory) = (Vec::new(), 0u64);
    for (handle, variable) in module.global_variables.iter() {
        if used[handle].is_empty() {
            continue;
        }
        if variable.space == naga::AddressSpace::WorkGroup {
            memory += u64::from(layouter[variable.ty].size);
        }
        if let Some(binding) = &variable.binding {
            places.push(ShaderPlace {
                name: variable.name.clone().unwrap_or_default(),
                group: binding.group,
                binding: binding.binding,
                is_uniform: variable.space == naga::AddressSpace::Uniform,
            });
        }
    }
    Ok((places, module.entry_points[at].workgroup_size, memory))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
        override SIDE = 4;
        struct Sizes { n: u32, m: u32 }
        @group(0) @binding(0) var<storage, read> given: array<f32>;
        @group(0) @binding(7) var<storage, read_write> out: array<f32>;
        @group(1) @binding(2) var<uniform> sizes: Sizes;
        @group(0) @binding(3) var<storage, read> unused: array<f32>;
        var<workgroup> tile: array<f32, 64>;
        @compute @workgroup_size(SIDE, 2)
        fn scale(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) local: u32) {
            tile[local] = 2.0;
            if (at.x < sizes.n) { out[at.x] = given[at.x] * tile[local] + f32(sizes.m); }
        }";

    #[test]
    fn a_shader_is_looked_at_before_any_driver_sees_it() {
        let (places, workgroup, memory) = looked_at(TEXT, "scale", &[("SIDE".to_string(), 16.0)]).unwrap();
        assert_eq!((workgroup, memory), ([16, 2, 1], 256));
        let names: Vec<(&str, u32, u32, bool)> =
            places.iter().map(|p| (p.name.as_str(), p.group, p.binding, p.is_uniform)).collect();
        assert_eq!(names, [("given", 0, 0, false), ("out", 0, 7, false), ("sizes", 1, 2, true)]);
        assert!(
            matches!(looked_at(TEXT, "other", &[]), Err(ShaderError::Text(text)) if text.contains("there are: scale"))
        );
        assert!(matches!(looked_at("fn {", "f", &[]), Err(ShaderError::Text(_))));
    }

    #[test]
    fn a_users_shader_runs_and_a_workgroup_over_the_limit_is_refused() {
        let device = ShaderDevice::find(None).unwrap();
        let shader = device.build(TEXT, "scale", &[("SIDE".to_string(), 8.0)]).unwrap();
        let [given, out, sizes] = [(64, false), (64, false), (8, true)]
            .map(|(bytes, is_uniform)| device.allocate(bytes, is_uniform).unwrap());
        let data: Vec<f32> = (0..16).map(|i| i as f32).collect();
        device.write(&given, bytemuck::cast_slice(&data)).unwrap();
        device.write(&sizes, bytemuck::cast_slice(&[16u32, 3])).unwrap();
        let bound = device.bind(&shader, &[&given, &out, &sizes]).unwrap();
        assert!(device.run(&shader, &bound, [2, 1, 1]).unwrap() > Nanos(0));
        let mut got = [0f32; 16];
        device.read(&out, bytemuck::cast_slice_mut(&mut got)).unwrap();
        assert_eq!(got[5], 13.0);
        let over = device.build(TEXT, "scale", &[("SIDE".to_string(), 8_192.0)]).unwrap_err();
        assert!(matches!(&over, ShaderError::Device(text) if text.contains("limit")), "{over:?}");
        assert!(ShaderDevice::find(Some("no such adapter")).unwrap_err().contains("there are"));
    }
}
