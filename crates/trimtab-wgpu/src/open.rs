//! An adapter opened for work: the wgpu device and its queue, with every error caught and a lost device noticed.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trimtab_core::{LaunchError, Nanos, panic_message};

thread_local! {
    /// What wgpu complained about on this thread. wgpu reports errors on the thread that made the call, so this tells whose
    /// they are without the cost of an error scope for each launch.
    static COMPLAINT: RefCell<Option<wgpu::Error>> = const { RefCell::new(None) };
}

/// Why the device can no longer be used.
#[derive(Default)]
struct Lost {
    is: AtomicBool,
    reason: Mutex<Option<String>>,
}

impl Lost {
    fn note(&self, reason: String) {
        lock(&self.reason).get_or_insert(reason);
        self.is.store(true, Ordering::Release);
    }
}

/// A wgpu device and what went wrong with it.
pub(crate) struct Open {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    /// Where built pipelines can be kept.
    pub cache: Option<wgpu::PipelineCache>,
    lost: Arc<Lost>,
}

/// The data behind a mutex, also after a panic of another thread: nothing here is left half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Open {
    /// Opens the adapter with everything it offers that we use. `built` is what [`Open::cache`] gave in an earlier process.
    pub(crate) fn new(adapter: &wgpu::Adapter, built: Option<Vec<u8>>) -> Result<Open, String> {
        let wanted = wgpu::Features::TIMESTAMP_QUERY
            | wgpu::Features::SUBGROUP
            | wgpu::Features::SHADER_F16
            | wgpu::Features::SHADER_F64
            | wgpu::Features::PIPELINE_CACHE
            | wgpu::Features::MAPPABLE_PRIMARY_BUFFERS;
        let features = adapter.features() & wanted;
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("trimtab"),
            required_features: features,
            // The defaults cap a workgroup at 256 invocations and 16 KiB.
            required_limits: adapter.limits(),
            ..Default::default()
        };
        let (device, queue) =
            pollster::block_on(adapter.request_device(&descriptor)).map_err(|error| error.to_string())?;
        let lost = Arc::new(Lost::default());
        let note = Arc::clone(&lost);
        device.set_device_lost_callback(move |_, message| {
            note.note(format!("the device was lost: {}", one_line(&message)));
        });
        // Without a handler wgpu panics.
        device.on_uncaptured_error(Arc::new(|error: wgpu::Error| {
            COMPLAINT.with(|complaint| {
                complaint.borrow_mut().get_or_insert(error);
            });
        }));
        let mut open = Open { device, queue, cache: None, lost };
        if features.contains(wgpu::Features::PIPELINE_CACHE) {
            let make = |data: Option<&[u8]>| {
                let label = Some("trimtab");
                let descriptor = wgpu::PipelineCacheDescriptor { label, data, fallback: true };
                // SAFETY: the data is what `get_data` gave on this machine: wisdom hands it out only with the checksum it was
                // kept with, from a file that this process' user or root owns and nobody else may write to. wgpu checks its
                // header (adapter, driver, version, length) and starts afresh where that does not fit.
                open.caught(|| unsafe { open.device.create_pipeline_cache(&descriptor) })
            };
            open.cache = make(built.as_deref()).or_else(|_| make(None)).ok();
        }
        Ok(open)
    }

    /// Why the device can no longer be used.
    pub(crate) fn lost(&self) -> Option<String> {
        if !self.lost.is.load(Ordering::Acquire) {
            return None;
        }
        lock(&self.lost.reason).clone()
    }

    /// Runs something with every error of wgpu turned into a message. Costs next to nothing.
    pub(crate) fn caught<R>(&self, what: impl FnOnce() -> R) -> Result<R, LaunchError> {
        if let Some(lost) = self.lost() {
            return Err(LaunchError::Kernel(lost));
        }
        COMPLAINT.with(|complaint| complaint.borrow_mut().take());
        let result = catch_unwind(AssertUnwindSafe(what));
        let complaint = COMPLAINT.with(|complaint| complaint.borrow_mut().take());
        let message = match (result, complaint) {
            (Ok(result), None) => return Ok(result),
            (_, Some(wgpu::Error::OutOfMemory { .. })) => "the device is out of memory".to_string(),
            (_, Some(error)) => one_line(&error.to_string()),
            // wgpu panics where the driver fails in ways it does not expect.
            (Err(panic), None) => one_line(&panic_message(panic.as_ref())),
        };
        Err(LaunchError::Kernel(self.lost().unwrap_or(message)))
    }

    /// Records commands and hands them to the device.
    pub(crate) fn submit(
        &self,
        record: impl FnOnce(&mut wgpu::CommandEncoder),
    ) -> Result<wgpu::SubmissionIndex, LaunchError> {
        self.caught(|| {
            let mut encoder = self.device.create_command_encoder(&Default::default());
            record(&mut encoder);
            self.queue.submit([encoder.finish()])
        })
    }

    /// Waits for a submission, or for everything submitted so far; `false` if it takes longer than the time-out.
    pub(crate) fn wait(
        &self,
        submission: Option<wgpu::SubmissionIndex>,
        timeout: Nanos,
    ) -> Result<bool, LaunchError> {
        let timeout = Some(timeout.duration());
        let poll = wgpu::PollType::Wait { submission_index: submission, timeout };
        // wgpu panics here when the device is lost.
        match catch_unwind(AssertUnwindSafe(|| self.device.poll(poll))) {
            Ok(Ok(_)) => match self.lost() {
                Some(lost) => Err(LaunchError::Kernel(lost)),
                None => Ok(true),
            },
            Ok(Err(wgpu::PollError::Timeout)) => Ok(false),
            Ok(Err(error)) => Err(LaunchError::Kernel(self.lost().unwrap_or_else(|| error.to_string()))),
            Err(panic) => {
                let message = format!("the device was lost: {}", one_line(&panic_message(panic.as_ref())));
                self.lost.note(message.clone());
                Err(LaunchError::Kernel(message))
            }
        }
    }

    /// Handles what has finished, without waiting.
    pub(crate) fn poll(&self) {
        let _ = catch_unwind(AssertUnwindSafe(|| self.device.poll(wgpu::PollType::Poll)));
    }
}

/// wgpu's messages are trees over several lines.
fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}
