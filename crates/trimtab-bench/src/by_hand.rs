//! What a programmer would write with wgpu alone, to compare with: one dispatch again and again, and a program that
//! multiplies two matrices and ends.

use anyhow::{Result, anyhow, bail};
use std::sync::Arc;
use trimtab::advanced::core::{Device, KernelId, Problem};
use trimtab::advanced::cpu::{CpuDevice, CpuOptions};
use trimtab::advanced::tune::{Stopwatch, median, minimum};
use trimtab::advanced::wgpu::{Dispatch, GpuDevice, GpuOptions, Program, full_text};

/// Size of the product of the start-up comparison.
pub(crate) const START_SIZE: usize = 256;
/// What is dispatched to compare launches: long enough to be real, short enough for an overhead to show.
const LAUNCHED: &str = "elementwise.add:f32:4096";
/// Launches of each, one by one in turn; the least counts.
const LAUNCHES: usize = 6000;

/// wgpu set up by hand.
struct Hand {
    device: wgpu::Device,
    queue: wgpu::Queue,
}

impl Hand {
    fn new() -> Result<Hand> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
        let adapter = adapters.into_iter().next().ok_or_else(|| anyhow!("there is no adapter"))?;
        let descriptor = wgpu::DeviceDescriptor {
            required_features: adapter.features() & wgpu::Features::SHADER_F16,
            required_limits: adapter.limits(),
            ..Default::default()
        };
        let (device, queue) = pollster::block_on(adapter.request_device(&descriptor))?;
        Ok(Hand { device, queue })
    }

    fn buffer(&self, bytes: u64, usage: wgpu::BufferUsages) -> wgpu::Buffer {
        self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: bytes,
            usage,
            mapped_at_creation: false,
        })
    }

    fn pipeline(&self, text: &str, constants: &[(&str, f64)]) -> wgpu::ComputePipeline {
        let source = wgpu::ShaderSource::Wgsl(text.into());
        let descriptor = wgpu::ShaderModuleDescriptor { label: None, source };
        // SAFETY: the text is one of trimtab's kernels or the plain product below; both stay inside their buffers.
        let module = unsafe {
            self.device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
        };
        self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                constants,
                zero_initialize_workgroup_memory: false,
            },
            cache: None,
        })
    }

    fn group(&self, pipeline: &wgpu::ComputePipeline, buffers: &[(u32, &wgpu::Buffer)]) -> wgpu::BindGroup {
        let entries: Vec<wgpu::BindGroupEntry<'_>> = buffers
            .iter()
            .map(|(binding, buffer)| wgpu::BindGroupEntry {
                binding: *binding,
                resource: buffer.as_entire_binding(),
            })
            .collect();
        self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries,
        })
    }

    fn dispatch(
        &self,
        pipeline: &wgpu::ComputePipeline,
        group: &wgpu::BindGroup,
        [x, y, z]: [u32; 3],
    ) -> Result<()> {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, group, &[]);
            pass.dispatch_workgroups(x, y, z);
        }
        self.queue.submit([encoder.finish()]);
        self.device.poll(wgpu::PollType::wait_indefinitely())?;
        Ok(())
    }
}

/// What our launch takes and what the same dispatch by hand takes.
pub(crate) struct Launch {
    /// Of the middle times.
    pub ratio: f64,
    /// Of the least times.
    pub least_ratio: f64,
    pub by_hand_ns: f64,
    pub ours_ns: f64,
}

/// Launches of one kernel with resident operands, ours and by hand, interleaved.
pub(crate) fn launch_overhead() -> Result<Launch> {
    let cpu = Arc::new(CpuDevice::new(CpuOptions { threads: Some(1), blas: None, ..CpuOptions::default() }));
    let (devices, trouble) = GpuDevice::all(GpuOptions { reference: cpu, kernels: vec![] });
    let ours = devices.into_iter().next().ok_or_else(|| anyhow!("there is no GPU: {trouble:?}"))?;
    let problem: Problem = LAUNCHED.parse()?;
    let takes = |at: &u32| ours.declines(KernelId(*at), &problem).is_none();
    let at = (0..ours.kernels().len() as u32).find(takes).ok_or_else(|| anyhow!("no kernel takes it"))?;
    let kernel = KernelId(at);
    let point = *ours.space(kernel, &problem).points().first().ok_or_else(|| anyhow!("no settings"))?;
    let adapter = ours.facts().adapter.as_deref().ok_or_else(|| anyhow!("no adapter"))?;
    let program = Program::of(ours.table()[at as usize].as_ref(), &problem, &point, adapter)?;
    let [step] = program.steps.as_slice() else { bail!("the kernel takes more than one step") };

    let bytes = 4 * problem.input_lens().as_slice()[0];
    let zeros = vec![0u8; bytes as usize];
    let (left, right) = (ours.upload(&zeros)?, ours.upload(&zeros)?);
    let result = ours.allocate(bytes)?;

    let hand = Hand::new()?;
    let (pipeline, group) = prepared(&hand, step, bytes);
    let mut times = [Vec::with_capacity(LAUNCHES), Vec::with_capacity(LAUNCHES)];
    for _ in 0..LAUNCHES {
        let stopwatch = Stopwatch::start();
        hand.dispatch(&pipeline, &group, step.groups)?;
        times[0].push(stopwatch.elapsed().0 as f64);
        let stopwatch = Stopwatch::start();
        ours.launch_on(kernel, &problem, &point, &[&left, &right], &result)?;
        times[1].push(stopwatch.elapsed().0 as f64);
    }
    let [by_hand_ns, ours_ns] = [0, 1].map(|which| median(&times[which]).unwrap_or(f64::NAN));
    let [least_by_hand, least_ours] = [0, 1].map(|which| minimum(&times[which]).unwrap_or(f64::NAN));
    Ok(Launch { ratio: ours_ns / by_hand_ns, least_ratio: least_ours / least_by_hand, by_hand_ns, ours_ns })
}

/// The same pipeline on buffers of its own: what a program that dispatches one thing would keep.
fn prepared(hand: &Hand, step: &Dispatch, bytes: u64) -> (wgpu::ComputePipeline, wgpu::BindGroup) {
    let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST;
    let pipeline = hand.pipeline(&full_text(&step.text, step.needs, false), &step.constants);
    let storage: Vec<wgpu::Buffer> = step.bindings.iter().map(|_| hand.buffer(bytes, usage)).collect();
    let mut words = step.params.clone();
    words.resize(words.len().next_multiple_of(4).max(4), 0);
    let params =
        hand.buffer(4 * words.len() as u64, wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST);
    let raw: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    hand.queue.write_buffer(&params, 0, &raw);
    let mut buffers: Vec<(u32, &wgpu::Buffer)> = storage.iter().zip(0..).map(|(b, at)| (at, b)).collect();
    if !step.params.is_empty() {
        buffers.push((trimtab::advanced::wgpu::PARAMS_BINDING, &params));
    }
    let group = hand.group(&pipeline, &buffers);
    (pipeline, group)
}

const PRODUCT: &str = "
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
const N = 256u;
@compute @workgroup_size(16, 16) fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    var sum = 0.0;
    for (var k = 0u; k < N; k++) {
        sum += a[at.y * N + k] * b[k * N + at.x];
    }
    c[at.y * N + at.x] = sum;
}";

/// The program by hand: from nothing to the checked product of two matrices of ones.
pub(crate) fn start() -> Result<()> {
    let hand = Hand::new()?;
    let bytes = 4 * (START_SIZE * START_SIZE) as u64;
    let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
    let (a, b, c) = (hand.buffer(bytes, usage), hand.buffer(bytes, usage), hand.buffer(bytes, usage));
    let ones: Vec<u8> =
        std::iter::repeat_n(1.0f32.to_le_bytes(), START_SIZE * START_SIZE).flatten().collect();
    hand.queue.write_buffer(&a, 0, &ones);
    hand.queue.write_buffer(&b, 0, &ones);
    let pipeline = hand.pipeline(PRODUCT, &[]);
    let group = hand.group(&pipeline, &[(0, &a), (1, &b), (2, &c)]);
    let groups = (START_SIZE / 16) as u32;
    hand.dispatch(&pipeline, &group, [groups, groups, 1])?;
    let staging = hand.buffer(bytes, wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST);
    let mut encoder = hand.device.create_command_encoder(&Default::default());
    encoder.copy_buffer_to_buffer(&c, 0, &staging, 0, bytes);
    hand.queue.submit([encoder.finish()]);
    staging.map_async(wgpu::MapMode::Read, .., |_| ());
    hand.device.poll(wgpu::PollType::wait_indefinitely())?;
    let view = staging.get_mapped_range(..)?;
    if view[..4] != (START_SIZE as f32).to_le_bytes() {
        bail!("the product by hand is wrong");
    }
    Ok(())
}
