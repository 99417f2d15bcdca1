//! What a call with operands in the processor's memory pays around the kernel.

use super::program;
use crate::build::Author;
use crate::engine::{Engine, LONGEST_LAUNCH, Trouble};
use crate::memory::BufferUse;
use crate::open::lock;
use crate::together::Ready;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use trimtab_core::{LaunchError, Nanos, Transfers};
use trimtab_tune::Stopwatch;

/// The two sizes transfers are measured at.
const SMALL_BYTES: usize = 4 << 10;
const LARGE_BYTES: usize = 4 << 20;
/// Times each is measured; the shortest counts.
const REPEATS: usize = 5;
/// A device on which nothing can be timed moves this much.
const FASTEST_BYTES_PER_S: f64 = 1e12;

/// One word written by one invocation: the least a dispatch can do.
const NEXT_TO_NOTHING: &str = "
@group(0) @binding(0) var<storage, read_write> out: array<u32>;
@compute @workgroup_size(1)
fn main() {
    out[0] = 1u;
}
";

/// Time of a few bytes, and bytes a second beyond them.
fn line(small: Nanos, large: Nanos) -> (Nanos, f64) {
    let more = large.saturating_sub(small).0.max(1) as f64;
    let bytes_per_s = (LARGE_BYTES - SMALL_BYTES) as f64 / more * 1e9;
    (small, bytes_per_s.min(FASTEST_BYTES_PER_S))
}

impl Engine {
    /// Measured when first asked for.
    pub(crate) fn transfers(&self) -> Result<Transfers, LaunchError> {
        if let Some(known) = self.transfers.get() {
            return known.clone();
        }
        let _alone = lock(&self.measuring);
        self.transfers_alone().map_err(LaunchError::from)
    }

    /// For who holds the device for measuring already.
    pub(crate) fn transfers_alone(&self) -> Result<Transfers, Trouble> {
        if let Some(known) = self.transfers.get() {
            return known.clone().map_err(Trouble::from);
        }
        self.idle(self.open()?)?;
        self.measured.store(true, Ordering::Relaxed);
        let measured = self.measure_transfers();
        // A device that is busy may be free the next time.
        if matches!(measured, Err(Trouble::Busy | Trouble::TimedOut)) {
            return measured;
        }
        let measured = measured.map_err(LaunchError::from);
        self.transfers.get_or_init(|| measured).clone().map_err(Trouble::from)
    }

    fn measure_transfers(&self) -> Result<Transfers, Trouble> {
        let open = self.open()?;
        let path = self.path();
        let mut times = [[Nanos::MAX; 2]; 2];
        for (number, bytes) in [SMALL_BYTES, LARGE_BYTES].into_iter().enumerate() {
            let buffer = self.take(BufferUse::Storage, bytes as u64)?;
            let mut data = vec![1u8; bytes];
            // The first of each makes buffers and touches pages.
            for repeat in 0..=REPEATS {
                let watch = Stopwatch::start();
                self.write_by(path, &buffer, &data)?;
                if !open.wait(None, LONGEST_LAUNCH)? {
                    return Err(Trouble::TimedOut);
                }
                let up = watch.elapsed();
                let watch = Stopwatch::start();
                self.read_by(path, &buffer, &mut data)?;
                let down = watch.elapsed();
                if repeat > 0 {
                    times[0][number] = times[0][number].min(up);
                    times[1][number] = times[1][number].min(down);
                }
            }
        }
        let (upload_latency, upload_bytes_per_s) = line(times[0][0], times[0][1]);
        let (download_latency, download_bytes_per_s) = line(times[1][0], times[1][1]);
        let submit = self.measure_submit()?;
        Ok(Transfers { upload_latency, upload_bytes_per_s, download_latency, download_bytes_per_s, submit })
    }

    fn measure_submit(&self) -> Result<Nanos, Trouble> {
        let prepared = Arc::new(self.prepare(&program(NEXT_TO_NOTHING, 1, 1, vec![], false), Author::Ours)?);
        let buffer = self.take(BufferUse::Storage, 16)?;
        let launch = [Ready { prepared, inputs: vec![], out: &buffer }];
        let mut shortest = Nanos::MAX;
        for repeat in 0..=4 * REPEATS {
            let watch = Stopwatch::start();
            self.run(&launch, None, true, None, LONGEST_LAUNCH, self.path())?;
            if repeat > 0 {
                shortest = shortest.min(watch.elapsed());
            }
        }
        Ok(shortest)
    }
}
