//! An adapter opened for work: the wgpu device and its queue, with every error caught and a lost device noticed.

use std::sync::{Arc, Mutex};
use trimtab_core::LaunchError;

/// A wgpu device and what went wrong with it.
pub(crate) struct Open {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    lost: Arc<Mutex<Option<String>>>,
}

impl Open {
    /// Opens the adapter with everything it offers that we use.
    pub(crate) fn new(adapter: &wgpu::Adapter) -> Result<Open, String> {
        let wanted = wgpu::Features::TIMESTAMP_QUERY
            | wgpu::Features::SUBGROUP
            | wgpu::Features::SHADER_F16
            | wgpu::Features::SHADER_F64
            | wgpu::Features::PIPELINE_CACHE
            | wgpu::Features::MAPPABLE_PRIMARY_BUFFERS;
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("trimtab"),
            required_features: adapter.features() & wanted,
            // The defaults cap a workgroup at 256 invocations and 16 KiB.
            required_limits: adapter.limits(),
            ..Default::default()
        };
        let (device, queue) =
            pollster::block_on(adapter.request_device(&descriptor)).map_err(|error| error.to_string())?;
        let lost = Arc::new(Mutex::new(None));
        let note = Arc::clone(&lost);
        device.set_device_lost_callback(move |reason, message| {
            if let (Ok(mut lost), false) = (note.lock(), reason == wgpu::DeviceLostReason::Destroyed) {
                *lost = Some(format!("the device was lost: {message}"));
            }
        });
        let note = Arc::clone(&lost);
        // Without a handler wgpu panics. What gets here was not asked for by anyone who could be told.
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            if let Ok(mut lost) = note.lock() {
                lost.get_or_insert_with(|| format!("the device failed: {error}"));
            }
        }));
        Ok(Open { device, queue, lost })
    }

    /// Why the device can no longer be used.
    pub(crate) fn lost(&self) -> Option<String> {
        self.lost.lock().ok().and_then(|lost| lost.clone())
    }

    /// Runs something with every error of wgpu turned into a message.
    pub(crate) fn caught<R>(&self, what: impl FnOnce() -> R) -> Result<R, LaunchError> {
        if let Some(lost) = self.lost() {
            return Err(LaunchError::Kernel(lost));
        }
        let filters =
            [wgpu::ErrorFilter::Validation, wgpu::ErrorFilter::OutOfMemory, wgpu::ErrorFilter::Internal];
        let scopes = filters.map(|filter| self.device.push_error_scope(filter));
        let result = what();
        let mut failed = None;
        for scope in scopes.into_iter().rev() {
            let error = pollster::block_on(scope.pop());
            failed = failed.or(error);
        }
        match failed {
            None => Ok(result),
            Some(wgpu::Error::OutOfMemory { .. }) => {
                Err(LaunchError::Kernel("the device is out of memory".to_string()))
            }
            Some(error) => Err(LaunchError::Kernel(one_line(&error.to_string()))),
        }
    }
}

/// wgpu's messages are trees over several lines.
fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}
