//! One adapter, opened when first needed and shared by every runtime of the process: its buffers, pipelines and programs.

use crate::build::{Built, Pipelines};
use crate::open::Open;
use crate::probe;
use crate::program::{Place, Program, STATUS_DIVISION};
use std::sync::{Arc, OnceLock};
use trimtab_core::{AdapterFacts, DeviceFacts, LaunchError};

/// An adapter of this machine.
pub(crate) struct Engine {
    pub facts: DeviceFacts,
    adapter: wgpu::Adapter,
    open: OnceLock<Result<Open, String>>,
    pipelines: Pipelines,
}

/// The adapters of this machine, looked for once, and what could not be used.
pub(crate) fn engines() -> &'static (Vec<Arc<Engine>>, Vec<String>) {
    static FOUND: OnceLock<(Vec<Arc<Engine>>, Vec<String>)> = OnceLock::new();
    FOUND.get_or_init(|| {
        let found = probe::find();
        let engine = |(adapter, facts)| {
            Arc::new(Engine { facts, adapter, open: OnceLock::new(), pipelines: Pipelines::default() })
        };
        (found.adapters.into_iter().map(engine).collect(), found.problems)
    })
}

impl Engine {
    /// What the adapter told.
    pub(crate) fn told(&self) -> Result<&AdapterFacts, LaunchError> {
        let told = self.facts.adapter.as_deref();
        told.ok_or_else(|| LaunchError::Kernel("the adapter told nothing about itself".to_string()))
    }

    pub(crate) fn open(&self) -> Result<&Open, LaunchError> {
        let open = self.open.get_or_init(|| Open::new(&self.adapter));
        open.as_ref().map_err(|reason| LaunchError::Kernel(format!("{} refuses: {reason}", self.facts.id)))
    }

    /// Runs a program on operands in the caller's memory.
    pub(crate) fn run(
        &self,
        program: &Program,
        lhs: &[u8],
        rhs: &[u8],
        out: &mut [u8],
    ) -> Result<(), LaunchError> {
        program.check(self.told()?)?;
        let open = self.open()?;
        let built: Vec<Arc<Built>> =
            program.steps.iter().map(|step| self.pipelines.get(open, step)).collect::<Result<_, _>>()?;
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let make = |bytes: u64, usage: wgpu::BufferUsages| {
            open.device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: bytes.next_multiple_of(4).max(16),
                usage,
                mapped_at_creation: false,
            })
        };
        let status = open.caught(|| {
            let upload = |data: &[u8]| {
                let buffer = make(data.len() as u64, usage);
                let mut padded = data.to_vec();
                padded.resize(data.len().next_multiple_of(4), 0);
                open.queue.write_buffer(&buffer, 0, &padded);
                buffer
            };
            let (left, right, result) = (upload(lhs), upload(rhs), make(out.len() as u64, usage));
            let scratch: Vec<wgpu::Buffer> =
                program.scratch.iter().map(|&bytes| make(bytes, usage)).collect();
            let status = make(16, usage);
            let mut encoder = open.device.create_command_encoder(&Default::default());
            {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                for (step, built) in program.steps.iter().zip(&built) {
                    let mut entries: Vec<wgpu::BindGroupEntry<'_>> = Vec::new();
                    for (number, binding) in step.bindings.iter().enumerate() {
                        let buffer = match binding.place {
                            Place::Lhs => &left,
                            Place::Rhs => &right,
                            Place::Out => &result,
                            Place::Scratch(at) => &scratch[at as usize],
                            Place::Status => &status,
                        };
                        let (offset, size) = match binding.part {
                            Some((first, bytes)) => (first, wgpu::BufferSize::new(bytes)),
                            None => (0, None),
                        };
                        let resource =
                            wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer, offset, size });
                        entries.push(wgpu::BindGroupEntry { binding: number as u32, resource });
                    }
                    let mut words = step.params.clone();
                    words.resize(words.len().next_multiple_of(4), 0);
                    let params = make(
                        4 * words.len() as u64,
                        wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
                    );
                    if !words.is_empty() {
                        open.queue.write_buffer(&params, 0, bytemuck::cast_slice(&words));
                        entries.push(wgpu::BindGroupEntry {
                            binding: crate::program::PARAMS_BINDING,
                            resource: params.as_entire_binding(),
                        });
                    }
                    let group = open.device.create_bind_group(&wgpu::BindGroupDescriptor {
                        label: None,
                        layout: &built.layout,
                        entries: &entries,
                    });
                    pass.set_pipeline(&built.pipeline);
                    pass.set_bind_group(0, &group, &[]);
                    pass.dispatch_workgroups(step.groups[0], step.groups[1], step.groups[2]);
                }
            }
            let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
            let whole = (out.len() as u64).next_multiple_of(4);
            let staging = make(whole + 4, usage);
            encoder.copy_buffer_to_buffer(&result, 0, &staging, 0, whole);
            encoder.copy_buffer_to_buffer(&status, 0, &staging, whole, 4);
            open.queue.submit([encoder.finish()]);
            staging.map_async(wgpu::MapMode::Read, .., |_| ());
            let _ = open.device.poll(wgpu::PollType::wait_indefinitely());
            let view = staging.get_mapped_range(..);
            let Ok(view) = view else { return u32::MAX };
            out.copy_from_slice(&view[..out.len()]);
            let word = &view[whole as usize..whole as usize + 4];
            u32::from_le_bytes([word[0], word[1], word[2], word[3]])
        })?;
        match status {
            0 => Ok(()),
            STATUS_DIVISION => Err(LaunchError::Data("an integer is divided by zero".to_string())),
            crate::program::STATUS_OVERFLOW => Err(LaunchError::Overflow { dtype: "i32" }),
            other => Err(LaunchError::Kernel(format!("the result could not be read ({other})"))),
        }
    }
}
