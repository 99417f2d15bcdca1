//! A program made ready to run: pipelines built, parameters on the device, bind groups kept for the buffers it last met.

use crate::build::{Author, Built, Pipelines};
use crate::memory::GpuBuffer;
use crate::open::{Open, lock};
use crate::program::{BindTarget, Binding, MAX_SCRATCH, PARAMS_BINDING, Program, binding_number};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use trimtab_core::{AdapterFacts, LaunchError, MAX_INPUTS, Nanos};
use trimtab_tune::Stopwatch;

/// The most sets of buffers a program keeps bind groups for.
const MAX_BOUND: usize = 8;
/// The buffers a program sees: the inputs and the numbers, the result, the status, and its own.
const PLACES: usize = MAX_INPUTS + 3 + MAX_SCRATCH;

/// The buffers of one launch.
pub(crate) struct Buffers<'a> {
    pub inputs: &'a [&'a GpuBuffer],
    pub out: &'a GpuBuffer,
    pub status: Option<&'a GpuBuffer>,
    pub scratch: &'a [GpuBuffer],
}

/// Which buffers a bind group is for: number and bytes of each.
type Bound = [(u64, u64); PLACES];

struct Ready {
    built: Arc<Built>,
    groups: [u32; 3],
    bindings: Vec<Binding>,
    /// Where its parameters are.
    params: Option<(u64, u64)>,
}

/// See the module.
pub(crate) struct Prepared {
    steps: Vec<Ready>,
    params: Option<wgpu::Buffer>,
    /// Bytes of the buffers of its own.
    pub scratch: Vec<u64>,
    pub has_status: bool,
    /// Nanoseconds building its pipelines took, until someone was told; zero if all were there.
    built_in: AtomicU64,
    bound: Mutex<Vec<(Bound, Arc<[wgpu::BindGroup]>)>>,
}

impl Prepared {
    /// Checks the program against the adapter's limits and builds what is not built yet.
    pub(crate) fn new(
        open: &Open,
        pipelines: &Pipelines,
        adapter: &AdapterFacts,
        program: &Program,
        author: Author,
    ) -> Result<Prepared, LaunchError> {
        program.check(adapter)?;
        let watch = Stopwatch::start();
        let mut steps = Vec::with_capacity(program.steps.len());
        let alignment = u64::from(open.device.limits().min_uniform_buffer_offset_alignment.max(4));
        let (mut words, mut built_any) = (Vec::<u32>::new(), false);
        for step in &program.steps {
            let (built, is_new) = pipelines.get(open, step, author)?;
            built_any |= is_new;
            let first = (4 * words.len() as u64).next_multiple_of(alignment);
            let params = (!step.params.is_empty()).then(|| {
                words.resize((first / 4) as usize, 0);
                words.extend(&step.params);
                words.resize((first / 4) as usize + step.params.len().next_multiple_of(4), 0);
                (first, 4 * step.params.len().next_multiple_of(4) as u64)
            });
            steps.push(Ready { built, groups: step.groups, bindings: step.bindings.clone(), params });
        }
        let params = match words.is_empty() {
            true => None,
            false => Some(open.caught(|| {
                let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
                let size = 4 * words.len() as u64;
                let descriptor =
                    wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
                let buffer = open.device.create_buffer(&descriptor);
                open.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&words));
                buffer
            })?),
        };
        Ok(Prepared {
            steps,
            params,
            scratch: program.scratch.clone(),
            has_status: program.has_status(),
            built_in: AtomicU64::new(if built_any { watch.elapsed().0 } else { 0 }),
            bound: Mutex::new(Vec::new()),
        })
    }

    /// What building its pipelines took, if they were built for it and nobody was told before.
    pub(crate) fn built_in(&self) -> Option<Nanos> {
        match self.built_in.swap(0, Ordering::Relaxed) {
            0 => None,
            nanos => Some(Nanos(nanos)),
        }
    }

    /// The bind groups of the steps for these buffers, made now if need be.
    pub(crate) fn bind(
        &self,
        open: &Open,
        buffers: &Buffers<'_>,
    ) -> Result<Arc<[wgpu::BindGroup]>, LaunchError> {
        let name = |buffer: &GpuBuffer| (buffer.id, buffer.bound_bytes());
        let mut key: Bound = [(u64::MAX, 0); PLACES];
        key[0] = name(buffers.out);
        key[1] = buffers.status.map_or(key[1], name);
        let others = buffers.inputs.iter().copied().chain(buffers.scratch);
        for (slot, buffer) in key[2..].iter_mut().zip(others) {
            *slot = name(buffer);
        }
        let mut bound = lock(&self.bound);
        if let Some(at) = bound.iter().rposition(|(known, _)| *known == key) {
            let last = bound.len() - 1;
            bound.swap(at, last);
            return Ok(Arc::clone(&bound[last].1));
        }
        let groups = self.steps.iter().map(|step| self.group(open, step, buffers));
        let groups: Arc<[wgpu::BindGroup]> = groups.collect::<Result<_, _>>()?;
        if bound.len() >= MAX_BOUND {
            bound.remove(0);
        }
        bound.push((key, Arc::clone(&groups)));
        Ok(groups)
    }

    fn group(
        &self,
        open: &Open,
        step: &Ready,
        buffers: &Buffers<'_>,
    ) -> Result<wgpu::BindGroup, LaunchError> {
        let mut entries: Vec<wgpu::BindGroupEntry<'_>> = Vec::with_capacity(step.bindings.len() + 1);
        for (number, binding) in step.bindings.iter().enumerate() {
            let buffer = match binding.place {
                BindTarget::Input(at) => buffers.inputs.get(at as usize).copied(),
                BindTarget::Out => Some(buffers.out),
                BindTarget::Scratch(at) => buffers.scratch.get(at as usize),
                BindTarget::Status => buffers.status,
            };
            let Some(buffer) = buffer else {
                return Err(LaunchError::Kernel(format!("there is no buffer {:?}", binding.place)));
            };
            let (offset, bytes) = binding.part.unwrap_or((0, buffer.bound_bytes()));
            // The pool's buffers are larger than what was asked for; beyond that is not the kernel's.
            if offset.saturating_add(bytes) > buffer.bound_bytes() {
                let (end, found) = (offset.saturating_add(bytes), buffer.bound_bytes());
                let message = format!("{:?} is bound up to byte {end}, it has {found}", binding.place);
                return Err(LaunchError::Kernel(message));
            }
            let size = wgpu::BufferSize::new(bytes);
            let buffer = wgpu::BufferBinding { buffer: &buffer.buffer, offset, size };
            let resource = wgpu::BindingResource::Buffer(buffer);
            entries.push(wgpu::BindGroupEntry { binding: binding_number(number), resource });
        }
        if let (Some((offset, bytes)), Some(buffer)) = (step.params, &self.params) {
            let size = wgpu::BufferSize::new(bytes);
            let resource = wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer, offset, size });
            entries.push(wgpu::BindGroupEntry { binding: PARAMS_BINDING, resource });
        }
        let layout = &step.built.layout;
        let descriptor = wgpu::BindGroupDescriptor { label: None, layout, entries: &entries };
        open.caught(|| open.device.create_bind_group(&descriptor))
    }

    /// Writes the steps into a pass, with or without their work.
    pub(crate) fn encode(&self, pass: &mut wgpu::ComputePass<'_>, groups: &[wgpu::BindGroup], works: bool) {
        for (step, group) in self.steps.iter().zip(groups) {
            pass.set_pipeline(&step.built.pipeline);
            pass.set_bind_group(0, group, &[]);
            let [x, y, z] = if works { step.groups } else { [0, 1, 1] };
            pass.dispatch_workgroups(x, y, z);
        }
    }
}
