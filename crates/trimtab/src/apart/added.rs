//! Devices that users add, asked on threads that can be left behind: one that never answers costs its time, not the caller.
//!
//! What crosses to such a thread is owned: operands are copied, and buffers are shared by those who use them. Once a request is known to
//! hang, nothing more is asked of the device: it keeps the threads of requests that were under way, not one for every call.

use super::{Threads, copied, limit};
use crate::buffers;
use crate::tensor::allocate_result;
use rustc_hash::FxHashMap;
use std::any::Any;
use std::future::ready;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, OnceLock};
use trimtab_core::{
    Bench, Bytes, Decline, Device, DeviceFacts, Failure, FailureKind, KernelId, KernelInfo, LaunchError,
    Nanos, Point, Problem, Rates, Sample, Space, State, Transfers, Work, panic_message,
};
use trimtab_operands::{
    Batch, Buffer, Data, Executor, HostLaunch, Keeps, Launch, Pending, Slice, SliceMut, Wait, fits,
};
use trimtab_tune::{Sandbox, Session, Stopwatch};

/// What a check, or a run that is measured, may take beyond what it was given: operands are made and moved, and kernels built.
const GATE_MORE: Nanos = Nanos::from_millis(5_000);
/// Problems whose times are kept; with more it starts over.
const MAX_KNOWN: usize = 4096;

/// A buffer of the device, shared with a thread that may be left behind.
struct SharedBuffer(Arc<dyn Buffer>);

impl Buffer for SharedBuffer {
    fn bytes(&self) -> Bytes {
        self.0.bytes()
    }
}

fn shared(buffer: &dyn Buffer) -> Result<Arc<dyn Buffer>, LaunchError> {
    let any: &dyn Any = buffer;
    let wrong = || LaunchError::Kernel("the operand is in the memory of another device".to_string());
    any.downcast_ref::<SharedBuffer>().map(|buffer| Arc::clone(&buffer.0)).ok_or_else(wrong)
}

/// A launch with its operands shared.
struct OwnLaunch {
    kernel: KernelId,
    problem: Problem,
    point: Point,
    inputs: Vec<Arc<dyn Buffer>>,
    out: Arc<dyn Buffer>,
}

impl OwnLaunch {
    fn new(launch: &Launch<'_>) -> Result<OwnLaunch, LaunchError> {
        let Launch { kernel, problem, point, .. } = *launch;
        let inputs = launch.inputs.iter().map(|input| shared(*input)).collect::<Result<_, _>>()?;
        Ok(OwnLaunch { kernel, problem: *problem, point: *point, inputs, out: shared(launch.out)? })
    }

    fn launch(&self) -> Launch<'_> {
        Launch {
            kernel: self.kernel,
            problem: &self.problem,
            point: &self.point,
            inputs: self.inputs.iter().map(AsRef::as_ref).collect(),
            out: self.out.as_ref(),
        }
    }
}

/// A device that a user added.
pub(crate) struct Added {
    device: Arc<dyn Executor>,
    threads: Threads,
    /// What a request has whose time nobody knows.
    unknown: Nanos,
    /// The longest that launches took.
    known: Mutex<FxHashMap<(KernelId, Problem), Nanos>>,
    rates: OnceLock<Rates>,
    transfers: OnceLock<Option<Transfers>>,
}

impl Added {
    pub(crate) fn new(device: Arc<dyn Executor>, unknown: Nanos) -> Added {
        let (threads, known) = (Threads::default(), Mutex::default());
        Added { device, threads, unknown, known, rates: OnceLock::new(), transfers: OnceLock::new() }
    }

    /// Why nothing is asked of it now.
    fn why(&self) -> Option<String> {
        let id = &self.device.facts().id;
        let hangs = self.threads.hanging() > 0;
        hangs.then(|| {
            format!("{id} has not come back from an earlier request; it is asked again when it does")
        })
    }

    /// Asks the device on a thread that is left behind if it takes too long.
    fn ask<R: Send + 'static>(
        &self,
        limit: Nanos,
        ask: impl FnOnce(&dyn Executor) -> R + Send + 'static,
    ) -> Result<R, Failure> {
        if let Some(why) = self.why() {
            return Err(Failure::new(FailureKind::Untried, why));
        }
        let device = Arc::clone(&self.device);
        self.threads.run(limit, move || ask(device.as_ref()))
    }

    /// The same for what can fail.
    fn request<R: Send + 'static>(
        &self,
        limit: Nanos,
        ask: impl FnOnce(&dyn Executor) -> Result<R, LaunchError> + Send + 'static,
    ) -> Result<R, LaunchError> {
        self.ask(limit, ask).map_err(|failure| match failure.kind {
            // Like one that is lost: whatever it was to do, it does not do now.
            FailureKind::Untried => LaunchError::Kernel(failure.message),
            _ => LaunchError::Failed(failure),
        })?
    }

    /// How long launches may take, together.
    fn limit<'a>(&self, launches: impl Iterator<Item = (KernelId, &'a Problem)>) -> Nanos {
        let time = |(kernel, problem): (KernelId, &Problem)| {
            let known = *self.known.lock().ok()?.get(&(kernel, *problem))?;
            Some(known.0.saturating_add(self.transfer_overhead(problem).0))
        };
        let times = launches.map(time).sum::<Option<u64>>();
        limit(times.map(Nanos), self.unknown)
    }

    /// Keeps what a launch took.
    fn took(&self, kernel: KernelId, problem: &Problem, time: Nanos) {
        let Ok(mut known) = self.known.lock() else { return };
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        let longest = known.entry((kernel, *problem)).or_default();
        *longest = time.max(*longest);
    }
}

fn copy_of(slice: &Slice<'_>) -> Result<Data, LaunchError> {
    copied(slice).map_err(|error| LaunchError::Kernel(error.to_string()))
}

fn room_for(out: &SliceMut<'_>) -> Result<Data, LaunchError> {
    allocate_result(out.dtype(), out.len()).map_err(|error| LaunchError::Kernel(error.to_string()))
}

/// Gives the caller what was computed.
fn deliver(result: Data, out: SliceMut<'_>) {
    // It was made for it: of the same type and length.
    let _ = out.copy_from(result.slice());
    buffers::give(result);
}

impl Executor for Added {
    fn allocate(&self, bytes: Bytes) -> Result<Box<dyn Buffer>, LaunchError> {
        let buffer = self.request(self.unknown, move |device| device.allocate(bytes))?;
        Ok(Box::new(SharedBuffer(Arc::from(buffer))))
    }

    fn upload(&self, data: Slice<'_>, to: &dyn Buffer) -> Result<(), LaunchError> {
        let (data, to) = (copy_of(&data)?, shared(to)?);
        self.request(self.unknown, move |device| {
            device.upload(data.slice(), to.as_ref())?;
            buffers::give(data);
            Ok(())
        })
    }

    fn download<'a>(&'a self, from: &'a dyn Buffer, to: SliceMut<'a>) -> Pending<'a> {
        let download = || -> Result<(), LaunchError> {
            let (from, mut data) = (shared(from)?, room_for(&to)?);
            let data = self.request(self.unknown, move |device| {
                pollster::block_on(device.download(from.as_ref(), data.slice_mut()))?;
                Ok(data)
            })?;
            deliver(data, to);
            Ok(())
        };
        Box::pin(ready(download()))
    }

    fn run(&self, batch: Batch<'_>) -> Result<Option<Nanos>, LaunchError> {
        let Batch { launches, read, wait } = batch;
        let limit = self.limit(launches.iter().map(|launch| (launch.kernel, launch.problem)));
        let own = launches.iter().map(OwnLaunch::new).collect::<Result<Vec<_>, _>>()?;
        let mut result = read.as_ref().map(room_for).transpose()?;
        let (time, result, took) = self.request(limit, move |device| {
            let launches: Vec<Launch<'_>> = own.iter().map(OwnLaunch::launch).collect();
            let (read, watch) = (result.as_mut().map(Data::slice_mut), Stopwatch::start());
            let time = device.run(Batch { launches: &launches, read, wait })?;
            Ok((time, result, watch.elapsed()))
        })?;
        if let ([launch], true) = (launches, wait != Wait::Later) {
            self.took(launch.kernel, launch.problem, took);
        }
        result.zip(read).into_iter().for_each(|(result, out)| deliver(result, out));
        Ok(time)
    }

    fn wait(&self) -> Result<(), LaunchError> {
        self.request(self.unknown, |device| device.wait())
    }

    fn launch_host(
        &self,
        launch: HostLaunch<'_>,
        out: SliceMut<'_>,
        timed: bool,
    ) -> Result<Option<Nanos>, LaunchError> {
        let HostLaunch { kernel, problem, point, inputs } = launch;
        fits(problem, inputs, &out)?;
        let limit = self.limit([(kernel, problem)].into_iter());
        let inputs = inputs.iter().map(copy_of).collect::<Result<Vec<Data>, _>>()?;
        let (own, point, mut result) = (*problem, *point, room_for(&out)?);
        let (time, result, took) = self.request(limit, move |device| {
            let slices: Vec<Slice<'_>> = inputs.iter().map(Data::slice).collect();
            let watch = Stopwatch::start();
            let launch = HostLaunch { kernel, problem: &own, point: &point, inputs: &slices };
            let time = device.launch_host(launch, result.slice_mut(), timed)?;
            let took = watch.elapsed();
            inputs.into_iter().for_each(buffers::give);
            Ok((time, result, took))
        })?;
        self.took(kernel, problem, took);
        deliver(result, out);
        Ok(time)
    }

    fn tolerance(&self, problem: &Problem) -> f64 {
        self.device.tolerance(problem)
    }

    fn keeps(&self) -> Option<&dyn Keeps> {
        self.device.keeps()
    }
}

impl Device for Added {
    fn facts(&self) -> &DeviceFacts {
        self.device.facts()
    }

    fn rates(&self) -> Rates {
        match self.rates.get() {
            Some(rates) => *rates,
            // Measured again when it answers.
            None => match self.ask(self.unknown, |device| device.rates()) {
                Ok(rates) => *self.rates.get_or_init(|| rates),
                Err(_) => Rates::default(),
            },
        }
    }

    fn state(&self) -> State {
        self.device.state()
    }

    fn kernels(&self) -> &[KernelInfo] {
        self.device.kernels()
    }

    fn declines(&self, kernel: KernelId, problem: &Problem) -> Option<Decline> {
        self.why().map(Decline::from).or_else(|| self.device.declines(kernel, problem))
    }

    fn space(&self, kernel: KernelId, problem: &Problem) -> Space {
        self.device.space(kernel, problem)
    }

    fn work(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Work {
        self.device.work(kernel, problem, point)
    }

    fn transfer_overhead(&self, problem: &Problem) -> Nanos {
        match self.transfers() {
            // Measured by now, so that it answers at once.
            Some(_) => {
                let moving = self.device.transfer_overhead(problem);
                Nanos(moving.0.saturating_add(self.threads.hand_over().0))
            }
            None => self.threads.hand_over(),
        }
    }

    fn transfers(&self) -> Option<Transfers> {
        if let Some(known) = self.transfers.get() {
            return *known;
        }
        let mut measured = self.ask(self.unknown, |device| device.transfers()).ok()?;
        // Every request is handed over, besides.
        measured.iter_mut().for_each(|measured| measured.submit.0 += self.threads.hand_over().0);
        *self.transfers.get_or_init(|| measured)
    }

    fn reasoning(&self, problem: &Problem) -> Vec<String> {
        self.device.reasoning(problem)
    }

    fn compiled(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Option<String> {
        let (problem, point) = (*problem, *point);
        self.ask(self.unknown, move |device| device.compiled(kernel, &problem, &point)).ok()?
    }

    fn distrust(&self, kernel: KernelId) {
        self.device.distrust(kernel);
    }

    fn verify(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
        timeout: Nanos,
    ) -> Result<(), Failure> {
        let (problem, point, limit) = (*problem, *point, Nanos(timeout.0.saturating_add(GATE_MORE.0)));
        self.ask(limit, move |device| device.verify(kernel, &problem, &point, timeout))?
    }

    fn bench(&self, problem: &Problem, limit: Nanos) -> Result<Box<dyn Bench + '_>, Decline> {
        if let Some(why) = self.why() {
            return Err(Decline::from(why));
        }
        let untried = |failure: Failure| Decline::from(failure.to_string());
        let (device, problem) = (Arc::clone(&self.device), *problem);
        let sandbox = Sandbox::new(Arc::clone(self.threads.abandoned()));
        let serve = move |asked, answer| measure(device.as_ref(), &problem, limit, asked, answer);
        let mut session = sandbox.serve(serve).map_err(untried)?;
        match session.ask(Nanos(limit.0.saturating_add(GATE_MORE.0)), None).map_err(untried)? {
            Answer::Ready(Ok(())) => Ok(Box::new(AddedBench { device: self, problem, session })),
            Answer::Ready(Err(decline)) => Err(decline),
            Answer::Ran(_) => Err(Decline::because("the device answers what it was not asked")),
        }
    }
}

/// A run to be measured; nothing asks whether measuring is ready.
type Question = Option<(KernelId, Point, u32, Nanos)>;

enum Answer {
    Ready(Result<(), Decline>),
    Ran(Result<Sample, Failure>),
}

/// Measures for as long as somebody asks. What measures borrows from the device, so that it lives on this thread.
fn measure(
    device: &dyn Executor,
    problem: &Problem,
    limit: Nanos,
    asked: Receiver<Question>,
    answer: SyncSender<Answer>,
) {
    let mut bench = device.bench(problem, limit);
    for question in asked {
        let given = match (&mut bench, question) {
            (Err(decline), _) => Answer::Ready(Err(decline.clone())),
            (Ok(_), None) => Answer::Ready(Ok(())),
            (Ok(bench), Some((kernel, point, iterations, timeout))) => {
                let run = || bench.run(kernel, &point, iterations, timeout);
                let panicked = |panic: Box<dyn Any + Send>| {
                    let message = format!("panicked: {}", panic_message(panic.as_ref()));
                    Err(Failure::new(FailureKind::Launch, message))
                };
                Answer::Ran(catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(panicked))
            }
        };
        if answer.send(given).is_err() {
            return;
        }
    }
}

struct AddedBench<'a> {
    device: &'a Added,
    problem: Problem,
    session: Session<Question, Answer>,
}

impl Bench for AddedBench<'_> {
    fn run(
        &mut self,
        kernel: KernelId,
        point: &Point,
        iterations: u32,
        timeout: Nanos,
    ) -> Result<Sample, Failure> {
        let limit = Nanos(timeout.0.saturating_add(GATE_MORE.0));
        match self.session.ask(limit, Some((kernel, *point, iterations, timeout)))? {
            Answer::Ran(ran) => {
                if let Ok(sample) = &ran {
                    let time = Nanos(sample.elapsed.0 / u64::from(sample.iterations.max(1)));
                    self.device.took(kernel, &self.problem, time);
                }
                ran
            }
            Answer::Ready(_) => Err(Failure::new(FailureKind::Launch, "the device did not measure")),
        }
    }
}
