//! From a program's text to pipelines, each built once in a process.

use crate::open::{Open, lock};
use crate::program::{Binding, Dispatch, Needs, PARAMS_BINDING, binding_number};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use trimtab_core::{LaunchError, Nanos};
use trimtab_tune::Stopwatch;

/// Pipelines kept before those nobody uses are dropped. Programs that are prepared hold theirs, and there are 1,024 of them at most.
const MAX_PIPELINES: usize = 4_096;

/// A pipeline and the layout its bind groups have.
#[derive(Debug)]
pub(crate) struct Built {
    pub pipeline: wgpu::ComputePipeline,
    pub layout: wgpu::BindGroupLayout,
}

/// Who wrote a program. A user's is built with wgpu's checks: nobody has tested that it stays within its buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Author {
    Ours,
    Users,
}

/// What makes two pipelines different.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    author: Author,
    text: String,
    constants: Vec<(&'static str, u64)>,
    writes: Vec<bool>,
    has_params: bool,
}

/// Where a pipeline is or will be; held while it is built, so that it is built once.
type Slot = Arc<Mutex<Option<Arc<Built>>>>;

/// Every pipeline of a device.
#[derive(Default)]
pub(crate) struct Pipelines {
    slots: Mutex<FxHashMap<Key, Slot>>,
    built: AtomicU64,
    /// Nanoseconds of the quickest build; zero before the first.
    quickest: AtomicU64,
    /// How many were built when the driver's data was last handed out.
    handed_out: AtomicU64,
}

/// The text with the `enable` lines an implementation asks for. naga refuses `enable subgroups;`, browsers require it.
pub fn full_text(text: &str, needs: Needs, for_browser: bool) -> String {
    let mut lines = String::new();
    if needs.f16 {
        lines.push_str("enable f16;\n");
    }
    if needs.subgroups && for_browser {
        lines.push_str("enable subgroups;\n");
    }
    lines + text
}

impl Pipelines {
    /// The pipeline of a step, built now if need be, and whether it was.
    pub(crate) fn get(
        &self,
        open: &Open,
        step: &Dispatch,
        author: Author,
    ) -> Result<(Arc<Built>, bool), LaunchError> {
        let key = Key {
            author,
            text: full_text(&step.text, step.needs, false),
            constants: step.constants.iter().map(|(name, value)| (*name, value.to_bits())).collect(),
            writes: step.bindings.iter().map(|binding| binding.writes).collect(),
            has_params: !step.params.is_empty(),
        };
        let slot = self.slot(&key);
        let mut slot = lock(&slot);
        if let Some(known) = &*slot {
            return Ok((Arc::clone(known), false));
        }
        let watch = Stopwatch::start();
        let new = Arc::new(open.caught(|| build(open, &key.text, step, author))?);
        let took = watch.elapsed().0.max(1);
        let shorter = |known: u64| (known == 0 || took < known).then_some(took);
        let _ = self.quickest.fetch_update(Ordering::Relaxed, Ordering::Relaxed, shorter);
        self.built.fetch_add(1, Ordering::Relaxed);
        *slot = Some(Arc::clone(&new));
        Ok((new, true))
    }

    /// Where the pipeline of a key is or will be. With too many, those go that no prepared program and nobody else holds.
    fn slot(&self, key: &Key) -> Slot {
        let mut slots = lock(&self.slots);
        if slots.len() >= MAX_PIPELINES && !slots.contains_key(key) {
            let is_used = |slot: &mut Slot| match Arc::get_mut(slot).map(Mutex::get_mut) {
                Some(Ok(Some(built))) => Arc::strong_count(built) > 1,
                Some(_) => false,
                None => true,
            };
            slots.retain(|_, slot| is_used(slot));
        }
        Arc::clone(slots.entry(key.clone()).or_default())
    }

    /// What the quickest build took, once there was one.
    pub(crate) fn least_build(&self) -> Option<Nanos> {
        match self.quickest.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Nanos(nanos)),
        }
    }

    /// How many were built.
    pub(crate) fn built(&self) -> u64 {
        self.built.load(Ordering::Relaxed)
    }

    /// What the driver wants kept for the next process; nothing if nothing was built since it was last asked.
    pub(crate) fn data(&self, open: &Open) -> Option<Vec<u8>> {
        let cache = open.cache.as_ref()?;
        let built = self.built();
        if self.handed_out.swap(built, Ordering::Relaxed) == built {
            return None;
        }
        open.caught(|| cache.get_data()).ok().flatten()
    }
}

fn build(open: &Open, text: &str, step: &Dispatch, author: Author) -> Built {
    let device = &open.device;
    let entry = |binding: u32, ty: wgpu::BufferBindingType| wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
        count: None,
    };
    let storage = |(number, binding): (usize, &Binding)| {
        entry(binding_number(number), wgpu::BufferBindingType::Storage { read_only: !binding.writes })
    };
    let mut entries: Vec<_> = step.bindings.iter().enumerate().map(storage).collect();
    if !step.params.is_empty() {
        entries.push(entry(PARAMS_BINDING, wgpu::BufferBindingType::Uniform));
    }
    let layout =
        device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
    let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: None,
        bind_group_layouts: &[Some(&layout)],
        immediate_size: 0,
    });
    let descriptor =
        wgpu::ShaderModuleDescriptor { label: None, source: wgpu::ShaderSource::Wgsl(text.into()) };
    let module = match author {
        // SAFETY: the text comes from the device's own kernels, which keep their indices within the bindings and end their
        // loops; guard bands and conformance tests check it. With wgpu's checks a barrier kernel took up to 100 times as long.
        Author::Ours => unsafe {
            device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
        },
        Author::Users => device.create_shader_module(descriptor),
    };
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: Some(&pipeline_layout),
        module: &module,
        entry_point: Some("main"),
        compilation_options: wgpu::PipelineCompilationOptions {
            constants: &step.constants,
            zero_initialize_workgroup_memory: author == Author::Users,
        },
        cache: open.cache.as_ref(),
    });
    Built { pipeline, layout }
}
