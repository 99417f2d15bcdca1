//! One launch or several in one submission, waited for once.

use crate::engine::{Engine, Own, STATUS_BYTES, Trouble};
use crate::memory::{BufferUse, GpuBuffer};
use crate::open::{Open, lock};
use crate::prepare::Prepared;
use crate::run::{Clock, Timing};
use crate::transfer::{CHUNK_BYTES, Mapping, TransferPath};
use std::sync::Arc;
use trimtab_core::{LaunchError, Nanos};
use trimtab_tune::Stopwatch;

/// Submissions nobody waits for at most: their operands take memory until they are over.
const MOST_UNDER_WAY: usize = 8;

/// A launch with everything it needs.
pub(crate) struct Ready<'a> {
    pub prepared: Arc<Prepared>,
    pub inputs: Vec<&'a GpuBuffer>,
    pub out: &'a GpuBuffer,
}

impl Engine {
    /// Runs programs once each, in order, and reads the result of the last where asked. Gives the status of each and, with a
    /// clock, the device's time. Without `wait` they may still run afterwards, unless one of them has something to tell.
    pub(crate) fn run(
        &self,
        launches: &[Ready<'_>],
        result: Option<&mut [u8]>,
        wait: bool,
        clock: Option<&Clock>,
        timeout: Nanos,
        path: TransferPath,
    ) -> Result<(Vec<u32>, Option<Nanos>), Trouble> {
        let Some(last) = launches.last() else { return Ok((Vec::new(), None)) };
        let open = self.open()?;
        // One launch that is waited for runs alone, and is read in the way that is best for one.
        let alone = wait && launches.len() == 1;
        let in_place = alone && path == TransferPath::InPlace;
        if alone {
            self.idle(open)?
        } else {
            self.is_answering(open)?
        }
        let own = launches.iter().map(|launch| self.own(&launch.prepared));
        let own = own.collect::<Result<Vec<Own>, LaunchError>>()?;
        let bound = launches
            .iter()
            .zip(&own)
            .map(|(launch, own)| launch.prepared.bind(open, &own.with(&launch.inputs, launch.out)));
        let bound = bound.collect::<Result<Vec<_>, LaunchError>>()?;
        // Statuses and a result that is not too long leave through one staging buffer: first the words, then the result.
        let statuses: Vec<Option<&GpuBuffer>> = own.iter().map(|own| own.status.as_ref()).collect();
        let words = (4 * launches.len()).next_multiple_of(STATUS_BYTES);
        let words = if statuses.iter().any(Option::is_some) { words } else { 0 };
        let bytes = result.as_ref().map_or(0, |result| result.len());
        let along = if bytes <= CHUNK_BYTES { bytes } else { 0 };
        let staging = match words + along {
            0 => None,
            _ if in_place => None,
            bytes => Some(self.take(BufferUse::Down, bytes as u64)?),
        };
        let timing = clock.map(|clock| self.timing(clock)).transpose()?;
        let watch = Stopwatch::start();
        let submission = open.submit(|encoder| {
            for status in statuses.iter().flatten() {
                encoder.clear_buffer(&status.buffer, 0, None);
            }
            let descriptor = timing.as_ref().map(Timing::descriptor).unwrap_or_default();
            let mut pass = encoder.begin_compute_pass(&descriptor);
            for (launch, groups) in launches.iter().zip(&bound) {
                launch.prepared.encode(&mut pass, groups, true);
            }
            drop(pass);
            if let Some(timing) = &timing {
                timing.resolve(encoder);
            }
            if let Some(staging) = &staging {
                for (number, status) in statuses.iter().enumerate() {
                    if let Some(status) = status {
                        let to = 4 * number as u64;
                        encoder.copy_buffer_to_buffer(&status.buffer, 0, &staging.buffer, to, 4);
                    }
                }
                if along > 0 {
                    let whole = (along as u64).next_multiple_of(4);
                    encoder.copy_buffer_to_buffer(&last.out.buffer, 0, &staging.buffer, words as u64, whole);
                }
            }
        })?;
        if !wait && words == 0 && result.is_none() {
            self.runs_on(open, submission, timeout)?;
            return Ok((vec![0; launches.len()], None));
        }
        self.finish(open, &submission, timeout)?;
        let elapsed = match &timing {
            Some(timing) => timing.elapsed(open, submission.clone(), watch.elapsed())?,
            None => None,
        };
        let mut told = vec![0u8; words];
        let mut result = result;
        if let Some(staging) = staging {
            let mapping = Mapping::request(open, &staging, wgpu::MapMode::Read, words + along)?;
            let mapped = mapping.wait(open, Some(submission))?;
            if words > 0 {
                mapped.read(0..words, &mut told)?;
            }
            if let Some(result) = result.take_if(|_| along > 0) {
                mapped.read(words..words + along, result)?;
            }
        } else {
            for (status, word) in statuses.iter().zip(told.chunks_mut(4)) {
                status.map_or(Ok(()), |status| self.read_by(path, status, word))?;
            }
        }
        if let Some(result) = result {
            self.read_by(path, last.out, result)?;
        }
        let word = |number: usize| told.get(4 * number..4 * number + 4)?.try_into().ok();
        // What nobody wrote to is whatever was there before.
        let status =
            |number: usize| statuses[number].and_then(|_| word(number)).map_or(0, u32::from_le_bytes);
        Ok(((0..launches.len()).map(status).collect(), elapsed))
    }

    /// Remembers work that is not waited for now; of much of it the oldest is.
    fn runs_on(&self, open: &Open, submission: wgpu::SubmissionIndex, timeout: Nanos) -> Result<(), Trouble> {
        let oldest = {
            let mut under_way = lock(&self.under_way);
            under_way.push_back(submission);
            if under_way.len() > MOST_UNDER_WAY { under_way.pop_front() } else { None }
        };
        match oldest {
            Some(oldest) => self.finish(open, &oldest, timeout),
            None => {
                open.poll();
                Ok(())
            }
        }
    }
}
