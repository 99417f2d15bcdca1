//! What moving a value between the host and a device takes. Two devices reach each other through the host.

use trimtab_core::{Nanos, Transfers};

/// Times to move values, per device. Device 0 is the host.
#[derive(Clone, Debug)]
pub struct Moves {
    transfers: Vec<Option<Transfers>>,
}

impl Moves {
    /// From the measured transfers of each device, as [`Device::transfers`](trimtab_core::Device::transfers) gives them; a
    /// device without any shares the host's memory. What is said of device 0 does not matter.
    pub fn new(transfers: &[Option<Transfers>]) -> Moves {
        Moves { transfers: transfers.to_vec() }
    }

    /// Nanoseconds from the host to a device.
    pub fn up(&self, device: usize, bytes: u64) -> f64 {
        let Some(transfers) = self.of(device) else { return 0.0 };
        time(transfers.upload_latency, transfers.upload_bytes_per_s, bytes)
    }

    /// Nanoseconds from a device to the host. A value that was `made` there is waited for first.
    pub fn down(&self, device: usize, bytes: u64, made: bool) -> f64 {
        let Some(transfers) = self.of(device) else { return 0.0 };
        let waiting = if made { transfers.submit.0 as f64 } else { 0.0 };
        waiting + time(transfers.download_latency, transfers.download_bytes_per_s, bytes)
    }

    fn of(&self, device: usize) -> Option<&Transfers> {
        self.transfers.get(device).filter(|_| device > 0)?.as_ref()
    }
}

/// As [`Transfers::transfer_overhead`]: nothing takes no time, and a rate that could not be measured does not count.
fn time(latency: Nanos, bytes_per_s: f64, bytes: u64) -> f64 {
    let moving = if bytes_per_s > 0.0 { bytes as f64 / bytes_per_s * 1e9 } else { 0.0 };
    if bytes == 0 { 0.0 } else { latency.0 as f64 + moving }
}
