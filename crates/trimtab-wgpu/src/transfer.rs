//! Operands to a device and results back: through pooled staging buffers in chunks, or by mapping the buffer itself where the
//! processor and the device share memory.

use crate::engine::{Engine, LONGEST_LAUNCH};
use crate::memory::{BufferUse, GpuBuffer};
use crate::open::Open;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use trimtab_core::{LaunchError, Nanos};
use trimtab_tune::Stopwatch;

/// Bytes of a staging buffer; larger operands move in chunks of this size.
pub(crate) const CHUNK_BYTES: usize = 8 << 20;
/// Chunks on their way at once: while the device copies one, the processor fills the next.
const CHUNKS_AT_ONCE: usize = 2;

/// How operands reach a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransferPath {
    /// Copied through staging buffers.
    Staged,
    /// Written and read in place; needs memory shared by processor and device.
    InPlace,
}

/// The longest another thread takes to hand over an answer that is there.
const HANDED_OVER: Nanos = Nanos::from_millis(5_000);

const PENDING: u8 = 0;
const MAPPED: u8 = 1;
const REFUSED: u8 = 2;

/// A buffer on its way to being readable or writable by the processor.
pub(crate) struct Mapping<'a> {
    buffer: &'a GpuBuffer,
    state: Arc<AtomicU8>,
}

impl<'a> Mapping<'a> {
    /// Asks for the first bytes of a buffer.
    pub(crate) fn request(
        open: &Open,
        buffer: &'a GpuBuffer,
        mode: wgpu::MapMode,
        bytes: usize,
    ) -> Result<Mapping<'a>, LaunchError> {
        let state = Arc::new(AtomicU8::new(PENDING));
        let told = Arc::clone(&state);
        let range = 0..(bytes as u64).next_multiple_of(4).max(4);
        open.caught(|| {
            buffer.buffer.map_async(mode, range, move |outcome| {
                told.store(if outcome.is_ok() { MAPPED } else { REFUSED }, Ordering::Release);
            });
        })?;
        Ok(Mapping { buffer, state })
    }

    /// Waits until it is there.
    pub(crate) fn wait(
        self,
        open: &Open,
        submission: Option<wgpu::SubmissionIndex>,
    ) -> Result<Mapped<'a>, LaunchError> {
        open.poll();
        if self.state.load(Ordering::Acquire) == PENDING && !open.wait(submission, LONGEST_LAUNCH)? {
            // Takes the request back: the buffer returns to the pool.
            self.buffer.buffer.unmap();
            return Err(LaunchError::Kernel(format!("the device did not answer within {LONGEST_LAUNCH}")));
        }
        // Another thread's waiting may have taken our answer and be about to hand it over.
        let watch = Stopwatch::start();
        loop {
            match self.state.load(Ordering::Acquire) {
                MAPPED => return Ok(Mapped(self.buffer)),
                PENDING if watch.elapsed() < HANDED_OVER => {
                    open.poll();
                    std::thread::yield_now();
                }
                state => {
                    if state == PENDING {
                        self.buffer.buffer.unmap();
                    }
                    return Err(LaunchError::Kernel("a buffer could not be mapped".to_string()));
                }
            }
        }
    }
}

/// A buffer the processor can reach until this is dropped.
pub(crate) struct Mapped<'a>(&'a GpuBuffer);

impl Mapped<'_> {
    pub(crate) fn write(&self, data: &[u8]) -> Result<(), LaunchError> {
        let range = 0..(data.len() as u64).next_multiple_of(4);
        let view = self.0.buffer.get_mapped_range_mut(range);
        view.map_err(refused)?.slice(..data.len()).copy_from_slice(data);
        Ok(())
    }

    pub(crate) fn read(&self, from: Range<usize>, out: &mut [u8]) -> Result<(), LaunchError> {
        let range = from.start as u64..(from.end as u64).next_multiple_of(4);
        let view = self.0.buffer.get_mapped_range(range).map_err(refused)?;
        out.copy_from_slice(&view[..out.len()]);
        Ok(())
    }
}

fn refused(error: impl std::fmt::Display) -> LaunchError {
    LaunchError::Kernel(error.to_string())
}

impl Drop for Mapped<'_> {
    fn drop(&mut self) {
        self.0.buffer.unmap();
    }
}

impl Engine {
    /// How operands move on this adapter.
    pub(crate) fn path(&self) -> TransferPath {
        match self.facts.adapter.as_ref().is_some_and(|told| told.unified_memory) {
            true => TransferPath::InPlace,
            false => TransferPath::Staged,
        }
    }

    /// Writes the first bytes of a buffer. Launches made afterwards see them.
    pub(crate) fn write_by(
        &self,
        path: TransferPath,
        to: &GpuBuffer,
        data: &[u8],
    ) -> Result<(), LaunchError> {
        let open = self.open()?;
        fits(to, data.len())?;
        if data.is_empty() {
            return Ok(());
        }
        if path == TransferPath::InPlace {
            let mapping = Mapping::request(open, to, wgpu::MapMode::Write, data.len())?;
            return mapping.wait(open, None)?.write(data);
        }
        let mut slots: [Option<(GpuBuffer, wgpu::SubmissionIndex)>; CHUNKS_AT_ONCE] = Default::default();
        for (number, chunk) in data.chunks(CHUNK_BYTES).enumerate() {
            let slot = &mut slots[number % CHUNKS_AT_ONCE];
            let (staging, last) = match slot.take() {
                Some((staging, last)) => (staging, Some(last)),
                None => (self.take(BufferUse::Up, chunk.len() as u64)?, None),
            };
            let mapping = Mapping::request(open, &staging, wgpu::MapMode::Write, chunk.len())?;
            mapping.wait(open, last)?.write(chunk)?;
            let submission = open.submit(|encoder| {
                let bytes = (chunk.len() as u64).next_multiple_of(4);
                let first = (number * CHUNK_BYTES) as u64;
                encoder.copy_buffer_to_buffer(&staging.buffer, 0, &to.buffer, first, bytes);
            })?;
            *slot = Some((staging, submission));
        }
        Ok(())
    }

    /// Reads the first bytes of a buffer, after every launch made before.
    pub(crate) fn read_by(
        &self,
        path: TransferPath,
        from: &GpuBuffer,
        out: &mut [u8],
    ) -> Result<(), LaunchError> {
        let open = self.open()?;
        fits(from, out.len())?;
        if out.is_empty() {
            return Ok(());
        }
        if path == TransferPath::InPlace {
            let mapping = Mapping::request(open, from, wgpu::MapMode::Read, out.len())?;
            let bytes = out.len();
            return mapping.wait(open, None)?.read(0..bytes, out);
        }
        let total = out.len();
        let mut on_their_way: VecDeque<(GpuBuffer, wgpu::SubmissionIndex)> = VecDeque::new();
        let (mut asked, mut chunks) = (0, out.chunks_mut(CHUNK_BYTES));
        loop {
            while asked < total && on_their_way.len() < CHUNKS_AT_ONCE {
                let bytes = CHUNK_BYTES.min(total - asked);
                let staging = self.take(BufferUse::Down, bytes as u64)?;
                let submission = open.submit(|encoder| {
                    let whole = (bytes as u64).next_multiple_of(4);
                    encoder.copy_buffer_to_buffer(&from.buffer, asked as u64, &staging.buffer, 0, whole);
                })?;
                asked += bytes;
                on_their_way.push_back((staging, submission));
            }
            let (Some((staging, submission)), Some(chunk)) = (on_their_way.pop_front(), chunks.next()) else {
                return Ok(());
            };
            let mapping = Mapping::request(open, &staging, wgpu::MapMode::Read, chunk.len())?;
            let bytes = chunk.len();
            mapping.wait(open, Some(submission))?.read(0..bytes, chunk)?;
        }
    }
}

fn fits(buffer: &GpuBuffer, bytes: usize) -> Result<(), LaunchError> {
    if bytes as u64 > buffer.bytes() {
        let message = format!("{bytes} bytes do not fit a buffer of {}", buffer.bytes());
        return Err(LaunchError::Kernel(message));
    }
    Ok(())
}
