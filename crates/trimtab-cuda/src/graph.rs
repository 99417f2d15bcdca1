//! Batches of launches that come again: made once as a graph of the driver's, they are launched by one call.

use crate::api::Handle;
use crate::context::{Argument, Context, Function};
use crate::error::CudaError;
use std::collections::{HashMap, VecDeque};
use std::ffi::c_uint;
use std::sync::{Arc, Mutex, PoisonError};

/// Launches a batch has at least: one call instead of two saves nothing worth a graph.
const LEAST_LAUNCHES: usize = 3;
/// Batches that are remembered; of more the oldest are forgotten.
const MAX_KNOWN: usize = 64;
/// `CU_STREAM_NON_BLOCKING`: while a stream that waits for the default stream is captured, nobody in the process may use that one.
const NON_BLOCKING: c_uint = 1;
/// Captures that see what this thread launches, on the stream that is captured.
const THIS_THREAD: u32 = 1;

/// A launch as it is handed to the driver.
#[derive(Clone, Debug)]
pub(crate) struct BoundStep {
    pub function: Function,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub arguments: Vec<Argument>,
}

impl BoundStep {
    /// Launches it on a stream.
    ///
    /// # Safety
    /// As [`Context::launch`]; the stream is of that context.
    unsafe fn launch(&self, context: &Context, stream: Handle) -> Result<(), CudaError> {
        let BoundStep { function, grid, block, arguments } = self;
        // SAFETY: the caller's promise.
        unsafe { context.launch_on(stream, function, (*grid, *block, 0), arguments) }
    }
}

/// A graph that is ready, and the kernels it launches: they stay loaded.
struct Graph {
    context: Arc<Context>,
    made: Handle,
    _functions: Vec<Function>,
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made by this context and destroyed once; the driver waits for launches of it. What fails costs a handle.
        let _ = self.context.call("cuGraphExecDestroy", |f| unsafe { (f.graph_made_destroy)(self.made) });
    }
}

/// What is known of a batch.
enum Batch {
    /// It was there once.
    Seen,
    Made(Graph),
    /// The driver makes no graph of it.
    Refused,
}

/// Batches that were launched, by everything the driver is told of them.
#[derive(Default)]
pub(crate) struct Graphs {
    known: Mutex<KnownBatches>,
}

#[derive(Default)]
struct KnownBatches {
    batches: HashMap<Vec<u64>, Batch>,
    order: VecDeque<Vec<u64>>,
}

/// Everything the driver is told. Two batches of one key are the same to it.
fn key(steps: &[BoundStep]) -> Vec<u64> {
    let mut words = Vec::with_capacity(16 * steps.len());
    for step in steps {
        words.push(step.function.handle() as u64);
        words.extend(step.grid.iter().chain(&step.block).map(|size| u64::from(*size)));
        words.push(step.arguments.len() as u64);
        words.extend(step.arguments.iter().map(|argument| u64::from_ne_bytes(argument.bytes())));
    }
    words
}

/// How a batch is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaunchedBy {
    /// One launch after the other.
    Launches,
    /// As a graph where there is one: making one is the processor's work and no part of what is timed.
    KnownGraphs,
    /// As a graph, which is made when the batch comes the second time.
    Graphs,
}

impl Graphs {
    /// Launches steps in order, by graphs where that is wanted.
    ///
    /// # Safety
    /// As [`Context::launch`] of every step.
    pub(crate) unsafe fn launch(
        &self,
        context: &Arc<Context>,
        steps: &[BoundStep],
        by: LaunchedBy,
    ) -> Result<(), CudaError> {
        if by != LaunchedBy::Launches && steps.len() >= LEAST_LAUNCHES {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the caller's promise.
            if let Some(launched) = unsafe { known.launch(context, steps, by) } {
                return launched;
            }
        }
        // SAFETY: the caller's promise.
        steps.iter().try_for_each(|step| unsafe { step.launch(context, context.stream()) })
    }
}

impl KnownBatches {
    /// Launches a batch as a graph, if it is one or becomes one.
    ///
    /// # Safety
    /// As [`Context::launch`] of every step.
    unsafe fn launch(
        &mut self,
        context: &Arc<Context>,
        steps: &[BoundStep],
        by: LaunchedBy,
    ) -> Option<Result<(), CudaError>> {
        let key = key(steps);
        match self.batches.get_mut(&key) {
            None => {
                self.order.push_back(key.clone());
                self.batches.insert(key, Batch::Seen);
                if self.order.len() > MAX_KNOWN
                    && let Some(oldest) = self.order.pop_front()
                {
                    self.batches.remove(&oldest);
                }
                None
            }
            Some(Batch::Refused) => None,
            Some(Batch::Seen) if by == LaunchedBy::KnownGraphs => None,
            Some(batch) => {
                if matches!(batch, Batch::Seen) {
                    // SAFETY: the caller's promise; nothing runs while it is captured.
                    *batch = unsafe { capture(context, steps) }.map_or(Batch::Refused, Batch::Made);
                }
                let Batch::Made(graph) = batch else { return None };
                let (made, stream) = (graph.made, context.stream());
                // SAFETY: a graph of this context whose kernels are loaded, and the caller's promise for what they use.
                Some(context.call("cuGraphLaunch", |f| unsafe { (f.graph_launch)(made, stream) }))
            }
        }
    }
}

/// Makes a graph of launches, on a stream of its own: others may launch on the device's meanwhile.
///
/// # Safety
/// As [`Context::launch`] of every step.
unsafe fn capture(context: &Arc<Context>, steps: &[BoundStep]) -> Result<Graph, CudaError> {
    let stream = context.new_stream(NON_BLOCKING)?;
    // SAFETY: the caller's promise.
    let captured = unsafe { captured_on(context, stream, steps) };
    context.destroy_stream(stream);
    let graph = captured?;
    let mut made = 0;
    // SAFETY: a graph that was just captured.
    let answer =
        context.call("cuGraphInstantiateWithFlags", |f| unsafe { (f.graph_make)(&mut made, graph, 0) });
    // SAFETY: made by this context, and destroyed once; what was made of it stays.
    let _ = context.call("cuGraphDestroy", |f| unsafe { (f.graph_destroy)(graph) });
    answer?;
    let functions = steps.iter().map(|step| step.function.clone()).collect();
    Ok(Graph { context: Arc::clone(context), made, _functions: functions })
}

/// # Safety
/// As [`Context::launch`] of every step; the stream is of that context.
unsafe fn captured_on(context: &Context, stream: Handle, steps: &[BoundStep]) -> Result<Handle, CudaError> {
    // SAFETY: a stream of ours that nobody else uses.
    context.call("cuStreamBeginCapture", |f| unsafe { (f.capture_begin)(stream, THIS_THREAD) })?;
    // SAFETY: the caller's promise.
    let launched = steps.iter().try_for_each(|step| unsafe { step.launch(context, stream) });
    let mut graph = 0;
    // Ended also where a launch was refused: a stream that is captured is of no other use.
    // SAFETY: the capture was begun above.
    let ended = context.call("cuStreamEndCapture", |f| unsafe { (f.capture_end)(stream, &mut graph) });
    if launched.is_err() && ended.is_ok() {
        // SAFETY: captured just now, and nobody else has it.
        let _ = context.call("cuGraphDestroy", |f| unsafe { (f.graph_destroy)(graph) });
    }
    launched.and(ended).map(|()| graph)
}
