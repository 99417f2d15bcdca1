//! Values in the memory of devices: who is there, how much room is left, who must go.

use crate::in_calls::InCalls;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use trimtab_core::{Bytes, LaunchError, Nanos, Problem};
use trimtab_cpu::{Entry, Inside};
use trimtab_operands::{Batch, Buffer, Executor, Slice, SliceMut};
use trimtab_plan::{Plan, Planner};

/// Tenants of a room before those that are gone are first looked for.
const FEW_TENANTS: usize = 64;
/// Of the memory there may be, at least one part in so many is freed at a time: looking for who goes first takes as long as there are
/// tenants, and must not be done for each of many small ones.
const FREED_PARTS: u64 = 64;

/// What was moved between the processor's memory and devices, what had to make memory, and how often expressions were
/// evaluated and placed, since the runtime was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Values copied to a device, by expressions and by calls on operands in the caller's memory.
    pub uploads: u64,
    /// Their bytes.
    pub uploaded: Bytes,
    /// Values copied from a device.
    pub downloads: u64,
    /// Their bytes.
    pub downloaded: Bytes,
    /// Times a copy that was on a device already was used instead of moving it again.
    pub reused: u64,
    /// Replicas that had to make room for others.
    pub evictions: u64,
    /// Times launches of an expression were handed to a device together.
    pub together: u64,
    /// Expressions evaluated.
    pub evaluated: u64,
    /// Expressions whose kernels and devices had to be chosen first.
    pub placed: u64,
    /// Expressions that a device failed to evaluate and the processor did instead.
    pub recovered: u64,
}

/// The counters behind [`Activity`].
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub uploads: AtomicU64,
    pub uploaded: AtomicU64,
    pub downloads: AtomicU64,
    pub downloaded: AtomicU64,
    pub reused: AtomicU64,
    pub evictions: AtomicU64,
    pub together: AtomicU64,
    pub evaluated: AtomicU64,
    pub placed: AtomicU64,
    pub recovered: AtomicU64,
}

/// Counts one more.
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

impl Counts {
    pub(crate) fn activity(&self) -> Activity {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Activity {
            uploads: read(&self.uploads),
            uploaded: Bytes(read(&self.uploaded)),
            downloads: read(&self.downloads),
            downloaded: Bytes(read(&self.downloaded)),
            reused: read(&self.reused),
            evictions: read(&self.evictions),
            together: read(&self.together),
            evaluated: read(&self.evaluated),
            placed: read(&self.placed),
            recovered: read(&self.recovered),
        }
    }
}

/// The memory of one device as a runtime uses it.
pub(crate) struct DeviceMemory {
    pub executor: Arc<dyn Executor>,
    /// Most bytes values may take there.
    max: Option<u64>,
    used: AtomicU64,
    /// Counts uses; the tenant with the smallest number goes first.
    clock: AtomicU64,
    tenants: Mutex<Vec<Weak<Replicas>>>,
    counts: Arc<Counts>,
    in_calls: Arc<InCalls>,
    /// The number of the note about what was handed over last and is not waited for yet; zero for none.
    handed_over: AtomicU32,
}

/// A value in a device's memory.
pub(crate) struct DeviceBuffer {
    buffer: Box<dyn Buffer>,
    bytes: u64,
    last_used: AtomicU64,
    memory: Arc<DeviceMemory>,
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl DeviceBuffer {
    /// The buffer itself; asking for it is a use.
    pub(crate) fn buffer(&self) -> &dyn Buffer {
        self.last_used.store(self.memory.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        self.buffer.as_ref()
    }

    /// Whether it is in the memory of that device.
    pub(crate) fn is_in(&self, memory: &Arc<DeviceMemory>) -> bool {
        Arc::ptr_eq(&self.memory, memory)
    }

    /// Replicas the value to the processor's memory.
    pub(crate) fn download(&self, out: SliceMut<'_>) -> Result<(), LaunchError> {
        let handed_over = self.memory.handed_over.swap(0, Ordering::Relaxed);
        let _inside = self.memory.in_calls.enter_again(Entry::of(handed_over));
        pollster::block_on(self.memory.executor.download(self.buffer(), out))?;
        count(&self.memory.counts.downloads, 1);
        count(&self.memory.counts.downloaded, self.buffer.bytes().0);
        Ok(())
    }
}

impl DeviceMemory {
    pub(crate) fn new(
        executor: Arc<dyn Executor>,
        max: Option<Bytes>,
        counts: Arc<Counts>,
        in_calls: Arc<InCalls>,
    ) -> DeviceMemory {
        let (used, clock) = (AtomicU64::new(0), AtomicU64::new(0));
        let (max, tenants) = (max.map(|max| max.0), Mutex::default());
        DeviceMemory { executor, max, used, clock, tenants, counts, in_calls, handed_over: AtomicU32::new(0) }
    }

    /// Notes that these launches run there, where a driver may end the process; until what is returned is dropped, and again while
    /// what they computed is waited for.
    pub(crate) fn enter<'a>(
        &self,
        planner: &Planner,
        launches: impl Iterator<Item = (&'a Problem, &'a Plan)>,
    ) -> Option<Inside<'_>> {
        let may_crash = self.executor.facts().habits.may_crash;
        let inside = may_crash.then(|| self.in_calls.enter_all(planner, launches)).flatten();
        let entry = inside.as_ref().and_then(Inside::entry);
        self.handed_over.store(entry.map_or(0, Entry::number), Ordering::Relaxed);
        inside
    }

    /// Moves a value there.
    pub(crate) fn upload(
        self: &Arc<DeviceMemory>,
        data: Slice<'_>,
    ) -> Result<Arc<DeviceBuffer>, LaunchError> {
        self.moved(data, data.bytes().len() as u64)
    }

    /// Moves a few numbers there. They take no room worth counting.
    pub(crate) fn upload_numbers(
        self: &Arc<DeviceMemory>,
        numbers: Slice<'_>,
    ) -> Result<Arc<DeviceBuffer>, LaunchError> {
        self.moved(numbers, 0)
    }

    fn moved(
        self: &Arc<DeviceMemory>,
        data: Slice<'_>,
        counted: u64,
    ) -> Result<Arc<DeviceBuffer>, LaunchError> {
        let bytes = data.bytes().len() as u64;
        let buffer = self.admit(bytes, counted)?;
        self.executor.upload(data, buffer.buffer.as_ref())?;
        count(&self.counts.uploads, 1);
        count(&self.counts.uploaded, bytes);
        Ok(buffer)
    }

    /// Makes launches in a row; copies the last result to the processor's memory where asked.
    pub(crate) fn run(&self, batch: Batch<'_>) -> Result<Option<Nanos>, LaunchError> {
        let read = batch.launches.last().filter(|_| batch.read.is_some()).map(|last| last.out.bytes().0);
        let time = self.executor.run(batch)?;
        count(&self.counts.together, 1);
        if let Some(bytes) = read {
            count(&self.counts.downloads, 1);
            count(&self.counts.downloaded, bytes);
        }
        Ok(time)
    }

    /// Makes room for a result.
    pub(crate) fn allocate(self: &Arc<DeviceMemory>, bytes: u64) -> Result<Arc<DeviceBuffer>, LaunchError> {
        self.admit(bytes, bytes)
    }

    /// Bytes that could be had if all that may go went; nothing if there is no limit.
    pub(crate) fn free(&self) -> Option<Bytes> {
        let max = self.max?;
        let must_stay: u64 = {
            let goes: u64 = self.tenants().iter().map(|tenant| tenant.evictable(self)).sum();
            self.used.load(Ordering::Relaxed).saturating_sub(goes)
        };
        Some(Bytes(max.saturating_sub(must_stay)))
    }

    /// Memory within the limit, of which so much is counted; whoever was used longest ago and is elsewhere too makes memory, also where
    /// the device says that it has no more.
    fn admit(self: &Arc<DeviceMemory>, bytes: u64, counted: u64) -> Result<Arc<DeviceBuffer>, LaunchError> {
        let claim = || {
            let fits =
                |used: u64| used.checked_add(counted).filter(|used| self.max.is_none_or(|max| *used <= max));
            self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
        };
        while let Err(used) = claim() {
            let missing = (used + counted).saturating_sub(self.max.unwrap_or(u64::MAX));
            if self.evict(missing) == 0 {
                return Err(LaunchError::Kernel(format!(
                    "{} of memory on {} are asked for, {} of at most {} are in use",
                    Bytes(counted),
                    self.executor.facts().id,
                    Bytes(used),
                    Bytes(self.max.unwrap_or(u64::MAX))
                )));
            }
        }
        let take = || self.executor.allocate(Bytes(bytes));
        // From here on dropping gives the claim back.
        let taken = take().or_else(|error| if self.evict(bytes) > 0 { take() } else { Err(error) });
        match taken {
            Ok(buffer) => Ok(Arc::new(DeviceBuffer {
                buffer,
                bytes: counted,
                last_used: AtomicU64::new(self.clock.fetch_add(1, Ordering::Relaxed)),
                memory: Arc::clone(self),
            })),
            Err(error) => {
                self.used.fetch_sub(counted, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Drops copies until that many bytes are free, and a small part of the memory, or no more can go; gives the bytes that were freed.
    fn evict(&self, bytes: u64) -> u64 {
        let bytes = bytes.max(self.max.unwrap_or(0) / FREED_PARTS);
        let mut all: Vec<(u64, Arc<Replicas>)> = self
            .tenants()
            .into_iter()
            .filter_map(|replicas| Some((replicas.last_used(self)?, replicas)))
            .collect();
        all.sort_by_key(|(last_used, _)| *last_used);
        let mut freed = 0;
        for (_, replicas) in all {
            if freed >= bytes {
                break;
            }
            let (count_of, bytes_of) = replicas.evict(self);
            count(&self.counts.evictions, count_of);
            freed += bytes_of;
        }
        freed
    }

    fn tenants(&self) -> Vec<Arc<Replicas>> {
        lock(&self.tenants).iter().filter_map(Weak::upgrade).collect()
    }

    fn moves_in(&self, replicas: &Arc<Replicas>) {
        let mut tenants = lock(&self.tenants);
        if tenants.len() >= FEW_TENANTS && tenants.len().is_power_of_two() {
            tenants.retain(|tenant| tenant.strong_count() > 0);
        }
        tenants.push(Arc::downgrade(replicas));
    }
}

/// The copies of one tensor's data on devices.
pub(crate) struct Replicas {
    /// Whether the data is in the processor's memory too.
    on_host: AtomicBool,
    list: Mutex<Vec<Replica>>,
}

/// A copy of some of the elements.
struct Replica {
    part: Range<usize>,
    buffer: Arc<DeviceBuffer>,
}

impl Replicas {
    pub(crate) fn new(on_host: bool) -> Replicas {
        Replicas { on_host: AtomicBool::new(on_host), list: Mutex::default() }
    }

    /// The data is in the processor's memory from now on.
    pub(crate) fn came_home(&self) {
        self.on_host.store(true, Ordering::Release);
    }

    /// The copy of these elements on a device.
    pub(crate) fn find(&self, memory: &Arc<DeviceMemory>, part: &Range<usize>) -> Option<Arc<DeviceBuffer>> {
        let list = lock(&self.list);
        let found = list.iter().find(|copy| copy.part == *part && Arc::ptr_eq(&copy.buffer.memory, memory));
        found.map(|copy| Arc::clone(&copy.buffer))
    }

    /// A copy of these elements on any device.
    pub(crate) fn anywhere(&self, part: &Range<usize>) -> Option<Arc<DeviceBuffer>> {
        let list = lock(&self.list);
        list.iter().find(|copy| copy.part == *part).map(|copy| Arc::clone(&copy.buffer))
    }

    /// Keeps a copy.
    pub(crate) fn add(self: &Arc<Replicas>, part: Range<usize>, buffer: &Arc<DeviceBuffer>) {
        lock(&self.list).push(Replica { part, buffer: Arc::clone(buffer) });
        buffer.memory.moves_in(self);
    }

    /// The copy of these elements on a device, and that it was used instead of being moved again.
    pub(crate) fn reuse(&self, memory: &Arc<DeviceMemory>, part: &Range<usize>) -> Option<Arc<DeviceBuffer>> {
        let found = self.find(memory, part);
        count(&memory.counts.reused, found.is_some().into());
        found
    }

    fn last_used(&self, memory: &DeviceMemory) -> Option<u64> {
        let list = lock(&self.list);
        let here = list.iter().filter(|copy| copy.is_in(memory));
        here.map(|copy| copy.buffer.last_used.load(Ordering::Relaxed)).max()
    }

    /// Bytes on the device that could go.
    fn evictable(&self, memory: &DeviceMemory) -> u64 {
        let list = lock(&self.list);
        let here = list.iter().filter(|copy| copy.is_in(memory));
        here.filter(|copy| self.may_go(&list, copy)).map(|copy| copy.buffer.bytes).sum()
    }

    /// Drops the copies on the device that exist elsewhere and that nobody uses at this moment; how many, and their bytes.
    fn evict(&self, memory: &DeviceMemory) -> (u64, u64) {
        let mut list = lock(&self.list);
        let mut gone = (0, 0);
        while let Some(at) = list.iter().position(|copy| copy.is_in(memory) && self.may_go(&list, copy)) {
            let copy = list.swap_remove(at);
            gone = (gone.0 + 1, gone.1 + copy.buffer.bytes);
        }
        gone
    }

    fn may_go(&self, list: &[Replica], copy: &Replica) -> bool {
        let elsewhere = self.on_host.load(Ordering::Acquire)
            || list.iter().any(|other| other.part == copy.part && !other.is_in(&copy.buffer.memory));
        elsewhere && Arc::strong_count(&copy.buffer) == 1
    }
}

impl Replica {
    fn is_in(&self, memory: &DeviceMemory) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.buffer.memory), memory)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
