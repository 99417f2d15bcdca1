//! One adapter, opened when first needed and shared by every runtime of the process: its buffers, pipelines and measurements.

use crate::build::{Author, Pipelines};
use crate::memory::{BufferUse, GpuBuffer, Memory};
use crate::open::{Open, lock};
use crate::prepare::{Buffers, Prepared};
use crate::probe;
use crate::program::{Program, STATUS_DIVISION, STATUS_INDEX, STATUS_OVERFLOW};
use crate::run::Clock;
use crate::transfer::TransferPath;
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};
use trimtab_core::{
    AdapterFacts, BinaryOp, DType, DeviceFacts, ElementwiseOp, LaunchError, Nanos, Problem, Rates, Transfers,
};

/// The longest a call waits for the device. Watchdogs of graphics drivers give up after 2 to 10 seconds.
pub(crate) const LONGEST_LAUNCH: Nanos = Nanos::from_millis(60_000);
/// How long a call waits for a device that is still busy with a kernel that was given up.
pub(crate) const GRACE: Nanos = Nanos::from_millis(200);
/// Bytes of the pattern results are overwritten with before a run that is checked.
const POISON_BYTES: u64 = 1 << 20;
/// The status' share of a staging buffer; the result follows.
pub(crate) const STATUS_BYTES: usize = 16;

/// An adapter of this machine.
pub(crate) struct Engine {
    pub facts: DeviceFacts,
    adapter: wgpu::Adapter,
    /// Pipelines of an earlier process, for when the adapter is opened.
    offered: Mutex<Option<Vec<u8>>>,
    open: OnceLock<Result<Open, String>>,
    pub pipelines: Pipelines,
    pub memory: Arc<Memory>,
    /// A submission that took longer than its time-out.
    pub abandoned: Mutex<Option<wgpu::SubmissionIndex>>,
    /// Work nobody has waited for, the oldest first.
    pub under_way: Mutex<VecDeque<wgpu::SubmissionIndex>>,
    /// Held while something is timed: two measurements on one device would time each other.
    pub measuring: Mutex<()>,
    pub clock: OnceLock<Option<Clock>>,
    pub transfers: OnceLock<Result<Transfers, LaunchError>>,
    pub rates: OnceLock<Rates>,
    /// Whether speeds were measured since they were last handed out for keeping.
    pub measured: AtomicBool,
    /// Patterns no kernel writes here: for floats, for integers.
    poison: [OnceLock<GpuBuffer>; 2],
}

/// Why something did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The device or wgpu said no.
    Refused(LaunchError),
    /// It did not finish in time.
    TimedOut,
    /// An earlier kernel, given up, still runs.
    Busy,
}

impl From<LaunchError> for Trouble {
    fn from(error: LaunchError) -> Trouble {
        Trouble::Refused(error)
    }
}

impl From<Trouble> for LaunchError {
    fn from(trouble: Trouble) -> LaunchError {
        match trouble {
            Trouble::Refused(error) => error,
            Trouble::TimedOut => LaunchError::Kernel(format!("no result within {LONGEST_LAUNCH}")),
            Trouble::Busy => LaunchError::Kernel(format!(
                "the device is still busy with a kernel that took too long; waited {GRACE}"
            )),
        }
    }
}

/// The adapters of this machine, looked for once, and what could not be used.
pub(crate) fn engines() -> &'static (Vec<Arc<Engine>>, Vec<String>) {
    static FOUND: OnceLock<(Vec<Arc<Engine>>, Vec<String>)> = OnceLock::new();
    FOUND.get_or_init(|| {
        let found = probe::find();
        let engine = |(adapter, facts)| {
            Arc::new(Engine {
                facts,
                adapter,
                offered: Mutex::new(None),
                open: OnceLock::new(),
                pipelines: Pipelines::default(),
                memory: Arc::default(),
                abandoned: Mutex::new(None),
                under_way: Mutex::default(),
                measuring: Mutex::new(()),
                clock: OnceLock::new(),
                transfers: OnceLock::new(),
                rates: OnceLock::new(),
                measured: AtomicBool::new(false),
                poison: Default::default(),
            })
        };
        (found.adapters.into_iter().map(engine).collect(), found.problems)
    })
}

/// The buffers of its own a launch has.
pub(crate) struct Own {
    scratch: Vec<GpuBuffer>,
    pub status: Option<GpuBuffer>,
}

impl Own {
    /// All the buffers of a launch.
    pub(crate) fn with<'a>(&'a self, inputs: &'a [&'a GpuBuffer], out: &'a GpuBuffer) -> Buffers<'a> {
        Buffers { inputs, out, status: self.status.as_ref(), scratch: &self.scratch }
    }
}

impl Engine {
    /// What the adapter told.
    pub(crate) fn told(&self) -> Result<&AdapterFacts, LaunchError> {
        let told = self.facts.adapter.as_deref();
        told.ok_or_else(|| LaunchError::Kernel("the adapter told nothing about itself".to_string()))
    }

    /// The opened adapter; opened now if need be (50 to 140 ms on software adapters).
    pub(crate) fn open(&self) -> Result<&Open, LaunchError> {
        let open = self.open.get_or_init(|| {
            let offered = lock(&self.offered).take();
            Open::new(&self.adapter, offered)
        });
        open.as_ref().map_err(|reason| LaunchError::Kernel(format!("{} refuses: {reason}", self.facts.id)))
    }

    /// Pipelines of an earlier process; ignored once the adapter is open.
    pub(crate) fn offer(&self, data: Option<Vec<u8>>) {
        *lock(&self.offered) = data;
    }

    /// What the driver wants kept; nothing of an adapter nobody opened.
    pub(crate) fn pipeline_data(&self) -> Option<Vec<u8>> {
        self.pipelines.data(self.open.get()?.as_ref().ok()?)
    }

    /// Why the adapter cannot be used, as far as is known without opening it.
    pub(crate) fn refusal(&self) -> Option<String> {
        match self.open.get()? {
            Ok(open) => open.lost(),
            Err(reason) => Some(format!("{} refuses: {reason}", self.facts.id)),
        }
    }

    /// A buffer from the pool.
    pub(crate) fn take(&self, kind: BufferUse, bytes: u64) -> Result<GpuBuffer, LaunchError> {
        let told = self.told()?;
        let in_place = self.path() == TransferPath::InPlace;
        self.memory.take(self.open()?, kind, bytes, told.max_buffer.0, in_place)
    }

    /// Builds a program.
    pub(crate) fn prepare(&self, program: &Program, author: Author) -> Result<Prepared, LaunchError> {
        Prepared::new(self.open()?, &self.pipelines, self.told()?, program, author)
    }

    /// Waits until nothing runs; a little for a kernel that was given up.
    pub(crate) fn idle(&self, open: &Open) -> Result<(), Trouble> {
        self.is_answering(open)?;
        let last = lock(&self.under_way).drain(..).next_back();
        match last {
            Some(last) => self.finish(open, &last, LONGEST_LAUNCH),
            None => Ok(()),
        }
    }

    /// Waits a little for a kernel that was given up.
    pub(crate) fn is_answering(&self, open: &Open) -> Result<(), Trouble> {
        let mut abandoned = lock(&self.abandoned);
        if let Some(submission) = &*abandoned {
            if !open.wait(Some(submission.clone()), GRACE)? {
                return Err(Trouble::Busy);
            }
            *abandoned = None;
        }
        Ok(())
    }

    /// Waits for a submission; one that takes too long is remembered.
    pub(crate) fn finish(
        &self,
        open: &Open,
        submission: &wgpu::SubmissionIndex,
        timeout: Nanos,
    ) -> Result<(), Trouble> {
        if open.wait(Some(submission.clone()), timeout)? {
            return Ok(());
        }
        *lock(&self.abandoned) = Some(submission.clone());
        Err(Trouble::TimedOut)
    }

    /// The buffers a program has of its own.
    pub(crate) fn own(&self, prepared: &Prepared) -> Result<Own, LaunchError> {
        let scratch = prepared.scratch.iter().map(|&bytes| self.take(BufferUse::Storage, bytes));
        let scratch = scratch.collect::<Result<_, _>>()?;
        let status = || self.take(BufferUse::Storage, STATUS_BYTES as u64);
        let status = prepared.has_status.then(status).transpose()?;
        Ok(Own { scratch, status })
    }

    /// Overwrites a result with values no kernel produces here, so that one that is not written shows.
    pub(crate) fn poison(&self, out: &GpuBuffer, dtype: Option<DType>) -> Result<(), LaunchError> {
        let open = self.open()?;
        // All ones is not a number in every float; as an integer it is -1, which kernels do write.
        let (slot, pattern) = match dtype {
            Some(DType::I32) => (&self.poison[1], (i32::MIN + 77).to_le_bytes()),
            _ => (&self.poison[0], [0xff; 4]),
        };
        if slot.get().is_none() {
            let buffer = self.take(BufferUse::Storage, POISON_BYTES)?;
            self.write_by(self.path(), &buffer, &pattern.repeat(POISON_BYTES as usize / 4))?;
            let _ = slot.set(buffer);
        }
        let Some(source) = slot.get() else { return Ok(()) };
        let whole = out.bytes().next_multiple_of(4);
        let submitted = open.submit(|encoder| {
            for first in (0..whole).step_by(POISON_BYTES as usize) {
                let bytes = POISON_BYTES.min(whole - first);
                encoder.copy_buffer_to_buffer(&source.buffer, 0, &out.buffer, first, bytes);
            }
        });
        submitted.map(drop)
    }

    /// Makes the device unusable, as a driver that crashed does.
    pub(crate) fn lose(&self) -> Result<(), LaunchError> {
        let open = self.open()?;
        open.device.destroy();
        open.poll();
        Ok(())
    }
}

/// What a status other than zero means.
pub(crate) fn status_error(status: u32, problem: &Problem) -> Result<(), LaunchError> {
    match status {
        0 => Ok(()),
        STATUS_DIVISION => {
            let what = match problem {
                Problem::Elementwise(p) if p.op == ElementwiseOp::Binary(BinaryOp::Pow) => {
                    "zero to a negative power"
                }
                _ => "division by zero",
            };
            Err(LaunchError::Data(format!("{what}; remove the zeros, or give operands of f64 elements")))
        }
        STATUS_OVERFLOW => Err(LaunchError::Overflow { dtype: "i32" }),
        STATUS_INDEX.. => {
            let (number, len) = (
                u32::MAX - status,
                match problem {
                    Problem::Gather(p) => p.len,
                    Problem::Scatter(p) => p.len,
                    _ => 0,
                },
            );
            Err(LaunchError::Data(format!(
                "number {number} of the indices is not in an axis of {len} elements; indices go from -{len} to {}",
                len as i64 - 1
            )))
        }
        other => Err(LaunchError::Kernel(format!("the kernel reports {other}, which means nothing"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{BindTarget, Binding, Dispatch, Needs};
    use crate::together::Ready;
    use crate::transfer::CHUNK_BYTES;

    /// Builds one pipeline with what an earlier process kept; gives what to keep.
    fn build_with(engine: &Engine, kept: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let open = Open::new(&engine.adapter, kept).unwrap();
        let pipelines = Pipelines::default();
        let step = Dispatch {
            text: "@group(0) @binding(0) var<storage, read_write> out: array<u32>;
                   @compute @workgroup_size(1) fn main() { out[0] = 2u; }"
                .into(),
            constants: vec![],
            needs: Needs::default(),
            workgroup: [1, 1, 1],
            workgroup_bytes: 0,
            groups: [1, 1, 1],
            bindings: vec![Binding::write(BindTarget::Out)],
            params: vec![],
        };
        let program = Program { steps: vec![step], scratch: vec![] };
        Prepared::new(&open, &pipelines, engine.told().unwrap(), &program, Author::Ours).unwrap();
        assert_eq!(pipelines.built(), 1);
        let data = pipelines.data(&open);
        assert_eq!(pipelines.data(&open), None, "nothing new was built");
        data
    }

    #[test]
    fn what_a_user_wrote_is_built_apart_from_the_same_text_of_ours_and_is_the_only_kind_with_checks() {
        let (engines, problems) = engines();
        assert!(!engines.is_empty(), "an adapter is needed: {problems:?}");
        for engine in engines {
            let (open, pipelines) = (engine.open().unwrap(), Pipelines::default());
            for (author, built) in
                [(Author::Ours, 1), (Author::Users, 2), (Author::Ours, 2), (Author::Users, 2)]
            {
                Prepared::new(open, &pipelines, engine.told().unwrap(), &counts(64), author).unwrap();
                assert_eq!(pipelines.built(), built, "{author:?}");
            }
        }
    }

    #[test]
    fn kept_pipelines_are_taken_and_damaged_ones_only_cost_what_they_would_have_saved() {
        let (engines, problems) = engines();
        assert!(!engines.is_empty(), "an adapter is needed: {problems:?}");
        for engine in engines.iter().filter(|engine| engine.told().unwrap().pipeline_cache) {
            let data = build_with(engine, None).unwrap();
            assert!(!data.is_empty());
            assert!(build_with(engine, Some(data.clone())).is_some());
            let mut flipped = data.clone();
            flipped.iter_mut().for_each(|byte| *byte ^= 0x5a);
            let mut longer = data.clone();
            longer.extend([7; 1000]);
            let half = data[..data.len() / 2].to_vec();
            for damaged in [flipped, longer, half, vec![], vec![0; 100_000], data[..1].to_vec()] {
                assert!(build_with(engine, Some(damaged)).is_some());
            }
        }
    }

    /// Adds one to every word; reports an overflow where one is seven.
    fn counts(words: u32) -> Program {
        let step = Dispatch {
            text: "@group(0) @binding(0) var<storage, read> lhs: array<u32>;
                   @group(0) @binding(1) var<storage, read_write> out: array<u32>;
                   @group(0) @binding(2) var<storage, read_write> status: array<u32>;
                   @group(0) @binding(4) var<uniform> params: array<vec4<u32>, 1>;
                   @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
                       if (id.x < params[0].x) {
                           out[id.x] = lhs[id.x] + 1u;
                           if (lhs[id.x] == 7u) { status[0] = 2u; }
                       }
                   }"
            .into(),
            constants: vec![],
            needs: Needs::default(),
            workgroup: [64, 1, 1],
            workgroup_bytes: 0,
            groups: [words.div_ceil(64), 1, 1],
            bindings: vec![
                Binding::read(BindTarget::Input(0)),
                Binding::write(BindTarget::Out),
                Binding::write(BindTarget::Status),
            ],
            params: vec![words],
        };
        Program { steps: vec![step], scratch: vec![] }
    }

    #[test]
    fn result_and_status_come_back_on_every_path_whether_they_fit_one_chunk_or_not() {
        for engine in &engines().0 {
            let paths = match engine.path() {
                TransferPath::InPlace => vec![TransferPath::InPlace, TransferPath::Staged],
                TransferPath::Staged => vec![TransferPath::Staged],
            };
            for words in [1u32, 1000, CHUNK_BYTES as u32 / 4, CHUNK_BYTES as u32 / 4 + 1] {
                let prepared = Arc::new(engine.prepare(&counts(words), Author::Ours).unwrap());
                for &path in &paths {
                    for (start, status) in [(8u32, 0), (7, STATUS_OVERFLOW)] {
                        let data: Vec<u32> = (start..start + words).collect();
                        let from = engine.take(BufferUse::Storage, 4 * u64::from(words)).unwrap();
                        let to = engine.take(BufferUse::Storage, 4 * u64::from(words)).unwrap();
                        engine.write_by(path, &from, bytemuck::cast_slice(&data)).unwrap();
                        let mut result = vec![0u32; words as usize];
                        let out = Some(bytemuck::cast_slice_mut(&mut result));
                        let prepared = Arc::clone(&prepared);
                        let launch = [Ready { prepared, inputs: vec![&from], out: &to }];
                        let ran = engine.run(&launch, out, true, engine.clock(), LONGEST_LAUNCH, path);
                        assert_eq!(ran.unwrap().0, [status], "{words} {path:?}");
                        assert!(data.iter().zip(&result).all(|(a, b)| a + 1 == *b), "{words} {path:?}");
                        let ran = engine.run(&launch, None, true, None, LONGEST_LAUNCH, path);
                        assert_eq!(ran.unwrap(), (vec![status], None), "{words} {path:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_batch_by_the_processors_clock_grows_until_its_time_says_something() {
        for engine in &engines().0 {
            let prepared = engine.prepare(&counts(64), Author::Ours).unwrap();
            let [from, to] = [0, 1].map(|_| engine.take(BufferUse::Storage, 256).unwrap());
            let own = engine.own(&prepared).unwrap();
            let groups = prepared.bind(engine.open().unwrap(), &own.with(&[&from], &to)).unwrap();
            let submit = engine.transfers().unwrap().submit;
            engine.batch(&prepared, &groups, 1, Nanos(1), LONGEST_LAUNCH).unwrap();
            // One run that the machine held up may say something by itself: then again.
            let grew = (0..10).any(|_| {
                let believed = engine.believe(false);
                let batch = engine.long_batch(&prepared, &groups, 1, Nanos(1), LONGEST_LAUNCH);
                engine.believe(believed);
                let (ran, runs) = batch.unwrap();
                assert_eq!(ran.device, None);
                assert!(ran.wall.0 >= 10 * submit.0, "{runs} runs in {}, {submit}", ran.wall);
                runs > 1
            });
            assert!(grew);
        }
    }

    #[test]
    fn a_status_is_told_in_the_words_of_the_processor() {
        let div: Problem = "elementwise.div:i32:8".parse().unwrap();
        let pow: Problem = "elementwise.pow:i32:8".parse().unwrap();
        assert_eq!(status_error(0, &div), Ok(()));
        let told = |status, problem: &Problem| status_error(status, problem).unwrap_err();
        assert!(told(STATUS_DIVISION, &div).to_string().starts_with("division by zero"));
        assert!(told(STATUS_DIVISION, &pow).to_string().starts_with("zero to a negative power"));
        assert_eq!(told(STATUS_OVERFLOW, &div), LaunchError::Overflow { dtype: "i32" });
        assert!(!told(77, &div).is_callers());
        let take: Problem = "gather:f32:8:count4".parse().unwrap();
        let told = told(u32::MAX - 3, &take);
        assert!(told.is_callers() && told.to_string().starts_with("number 3 of the indices"), "{told}");
    }
}
