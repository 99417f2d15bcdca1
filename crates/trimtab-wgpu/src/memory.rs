//! Buffers of a device: taken from a bounded pool, given back when dropped.

use crate::open::{Open, lock};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use trimtab_core::{Bytes, LaunchError};

/// The most bytes of unused buffers that are kept for the next taker.
pub const MAX_POOLED_BYTES: u64 = 512 << 20;
/// The most unused buffers that are kept.
pub const MAX_POOLED_BUFFERS: usize = 256;
/// The smallest buffer: what uniform offsets are aligned to on every adapter.
const SMALLEST_BYTES: u64 = 256;
/// The fewest bytes a binding shows a kernel: one `vec4<f32>`.
const SMALLEST_BINDING: u64 = 16;

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferUse {
    /// Operands, results, scratch.
    Storage,
    /// From the processor to the device.
    Up,
    /// From the device to the processor.
    Down,
}

/// Memory of a device, on the device. Given back to the device's pool when dropped.
pub struct GpuBuffer {
    pub(crate) buffer: wgpu::Buffer,
    pub(crate) id: u64,
    kind: BufferUse,
    bytes: u64,
    size: u64,
    memory: Arc<Memory>,
}

impl std::fmt::Debug for GpuBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GpuBuffer({})", Bytes(self.bytes))
    }
}

impl GpuBuffer {
    /// The bytes that were asked for.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What a kernel sees of it: whole words, at least one `vec4`.
    pub(crate) fn bound_bytes(&self) -> u64 {
        self.bytes.next_multiple_of(4).max(SMALLEST_BINDING)
    }
}

impl Drop for GpuBuffer {
    fn drop(&mut self) {
        let unused = Unused { buffer: self.buffer.clone(), id: self.id, kind: self.kind, size: self.size };
        self.memory.give_back(unused);
    }
}

/// How much memory of a device is in use by this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes of buffers someone holds.
    pub live_bytes: u64,
    /// Buffers someone holds.
    pub live_buffers: u64,
    /// Bytes of unused buffers that are kept.
    pub pooled_bytes: u64,
    /// Unused buffers that are kept.
    pub pooled_buffers: u64,
    /// Buffers the driver was asked for since the process started.
    pub created: u64,
}

struct Unused {
    buffer: wgpu::Buffer,
    id: u64,
    kind: BufferUse,
    size: u64,
}

/// The pool. The last returned is taken first, so that a loop of launches meets the same buffers and their bind groups.
#[derive(Default)]
pub(crate) struct Memory {
    pool: Mutex<Pool>,
    live_bytes: AtomicU64,
    live_buffers: AtomicU64,
    created: AtomicU64,
}

#[derive(Default)]
struct Pool {
    /// The last returned comes last.
    unused: Vec<Unused>,
    bytes: u64,
}

/// The size of the buffer that serves so many bytes: four steps a doubling, so at most a quarter is wasted.
fn size_class(bytes: u64, largest: u64) -> u64 {
    let bytes = bytes.max(SMALLEST_BYTES);
    let step = (1u64 << bytes.ilog2()) / 4;
    let largest = largest / SMALLEST_BYTES * SMALLEST_BYTES;
    bytes.next_multiple_of(step).min(largest.max(bytes.next_multiple_of(4)))
}

impl Memory {
    /// A buffer of at least so many bytes. `in_place` makes operands mappable.
    pub(crate) fn take(
        self: &Arc<Memory>,
        open: &Open,
        kind: BufferUse,
        bytes: u64,
        largest: u64,
        in_place: bool,
    ) -> Result<GpuBuffer, LaunchError> {
        let largest = largest / 4 * 4;
        if bytes > largest {
            let message = format!("a buffer of {bytes} bytes is asked for, the largest is {largest}");
            return Err(LaunchError::Kernel(message));
        }
        let size = size_class(bytes, largest);
        let unused = {
            let mut pool = lock(&self.pool);
            let found = pool.unused.iter().rposition(|unused| unused.kind == kind && unused.size == size);
            found.map(|at| {
                pool.bytes -= size;
                pool.unused.remove(at)
            })
        };
        let (buffer, id) = match unused {
            Some(unused) => (unused.buffer, unused.id),
            None => self.create(open, kind, size, in_place)?,
        };
        self.live_bytes.fetch_add(size, Ordering::Relaxed);
        self.live_buffers.fetch_add(1, Ordering::Relaxed);
        Ok(GpuBuffer { buffer, id, kind, bytes, size, memory: Arc::clone(self) })
    }

    fn create(
        &self,
        open: &Open,
        kind: BufferUse,
        size: u64,
        in_place: bool,
    ) -> Result<(wgpu::Buffer, u64), LaunchError> {
        use wgpu::BufferUsages as Usage;
        let mut usage = match kind {
            BufferUse::Storage => Usage::STORAGE | Usage::COPY_SRC | Usage::COPY_DST,
            BufferUse::Up => Usage::MAP_WRITE | Usage::COPY_SRC,
            BufferUse::Down => Usage::MAP_READ | Usage::COPY_DST,
        };
        if kind == BufferUse::Storage && in_place {
            usage |= Usage::MAP_READ | Usage::MAP_WRITE;
        }
        let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        let make = || open.caught(|| open.device.create_buffer(&descriptor));
        let made = make().or_else(|_| {
            // What nobody uses may be in the way.
            self.empty(open);
            make()
        });
        let buffer = made.map_err(|error| {
            let used = self.in_use();
            let message =
                format!("no buffer of {size} bytes ({} bytes are in use): {error}", used.live_bytes);
            LaunchError::Kernel(message)
        })?;
        Ok((buffer, self.created.fetch_add(1, Ordering::Relaxed)))
    }

    fn give_back(&self, unused: Unused) {
        self.live_bytes.fetch_sub(unused.size, Ordering::Relaxed);
        self.live_buffers.fetch_sub(1, Ordering::Relaxed);
        let mut freed = Vec::new();
        {
            let mut pool = lock(&self.pool);
            pool.bytes += unused.size;
            pool.unused.push(unused);
            let mut first = 0;
            while pool.bytes > MAX_POOLED_BYTES || pool.unused.len() - first > MAX_POOLED_BUFFERS {
                pool.bytes -= pool.unused[first].size;
                first += 1;
            }
            freed.extend(pool.unused.drain(..first));
        }
        free(freed);
    }

    /// Gives everything nobody uses back to the driver.
    pub(crate) fn empty(&self, open: &Open) {
        let freed = {
            let mut pool = lock(&self.pool);
            pool.bytes = 0;
            std::mem::take(&mut pool.unused)
        };
        free(freed);
        open.poll();
    }

    pub(crate) fn in_use(&self) -> MemoryUse {
        let pool = lock(&self.pool);
        MemoryUse {
            live_bytes: self.live_bytes.load(Ordering::Relaxed),
            live_buffers: self.live_buffers.load(Ordering::Relaxed),
            pooled_bytes: pool.bytes,
            pooled_buffers: pool.unused.len() as u64,
            created: self.created.load(Ordering::Relaxed),
        }
    }
}

/// Destroyed, not only dropped: bind groups that are kept for the next launch would hold the memory.
fn free(unused: Vec<Unused>) {
    for unused in unused {
        unused.buffer.destroy();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_wastes_at_most_a_quarter_and_is_never_larger_than_the_largest() {
        for bytes in (1..70_000u64).chain([100 << 20, (128 << 20) + 4, 2_147_483_644]) {
            let size = size_class(bytes, 2_147_483_644);
            let least = bytes.max(SMALLEST_BYTES);
            assert!(size >= bytes && size.is_multiple_of(4) && size <= 2_147_483_644, "{bytes} {size}");
            assert!(size <= least + least / 4 + 4, "{bytes} {size}");
        }
    }
}
