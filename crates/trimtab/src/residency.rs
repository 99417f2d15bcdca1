//! Values in the memory of devices: who is there, how much room is left, who must go.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use trimtab_core::{Bytes, LaunchError};
use trimtab_operands::{Held, HeldLaunch, Launch, Slice, SliceMut};

/// Tenants of a room before those that are gone are first looked for.
const FEW_TENANTS: usize = 64;

/// What was moved between the processor's memory and devices, what had to make room, and how often expressions were
/// evaluated and placed, since the runtime was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Values copied to a device by expressions.
    pub uploads: u64,
    /// Their bytes.
    pub uploaded: Bytes,
    /// Values copied from a device.
    pub downloads: u64,
    /// Their bytes.
    pub downloaded: Bytes,
    /// Times a copy that was on a device already was used instead of moving it again.
    pub reused: u64,
    /// Copies that had to make room for others.
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
pub(crate) struct Room {
    pub launcher: Arc<dyn Launch>,
    /// The device's short name.
    pub name: String,
    /// Most bytes values may take there.
    max: Option<u64>,
    used: AtomicU64,
    /// Counts uses; the tenant with the smallest number goes first.
    clock: AtomicU64,
    tenants: Mutex<Vec<Weak<Copies>>>,
    counts: Arc<Counts>,
}

/// A value in a device's memory.
pub(crate) struct Resident {
    held: Box<dyn Held>,
    bytes: u64,
    last_used: AtomicU64,
    room: Arc<Room>,
}

impl Drop for Resident {
    fn drop(&mut self) {
        self.room.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Resident {
    /// The memory itself; asking for it is a use.
    pub(crate) fn held(&self) -> &dyn Held {
        self.last_used.store(self.room.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        self.held.as_ref()
    }

    /// Whether it is in the memory of that device.
    pub(crate) fn is_in(&self, room: &Arc<Room>) -> bool {
        Arc::ptr_eq(&self.room, room)
    }

    /// Copies the value to the processor's memory.
    pub(crate) fn fetch(&self, out: SliceMut<'_>) -> Result<(), LaunchError> {
        self.room.launcher.fetch(self.held(), out)?;
        count(&self.room.counts.downloads, 1);
        count(&self.room.counts.downloaded, self.bytes);
        Ok(())
    }
}

impl Room {
    pub(crate) fn new(
        launcher: Arc<dyn Launch>,
        name: String,
        max: Option<Bytes>,
        counts: Arc<Counts>,
    ) -> Room {
        let max = max.map(|max| max.0);
        Room {
            launcher,
            name,
            max,
            used: AtomicU64::new(0),
            clock: AtomicU64::new(0),
            tenants: Mutex::default(),
            counts,
        }
    }

    /// Moves a value there.
    pub(crate) fn hold(self: &Arc<Room>, data: Slice<'_>, bytes: u64) -> Result<Arc<Resident>, LaunchError> {
        let resident = self.admit(bytes, || self.launcher.hold(data))?;
        count(&self.counts.uploads, 1);
        count(&self.counts.uploaded, bytes);
        Ok(resident)
    }

    /// Moves a few numbers there. They take no room worth counting.
    pub(crate) fn hold_numbers(self: &Arc<Room>, numbers: Slice<'_>) -> Result<Arc<Resident>, LaunchError> {
        let resident = self.admit(0, || self.launcher.hold(numbers))?;
        count(&self.counts.uploads, 1);
        count(&self.counts.uploaded, resident.held.bytes().0);
        Ok(resident)
    }

    /// Makes launches in a row; copies the last result to the processor's memory where asked.
    pub(crate) fn launch_together(
        &self,
        launches: &[HeldLaunch<'_>],
        result: Option<SliceMut<'_>>,
        wait: bool,
    ) -> Result<(), LaunchError> {
        let is_read = result.is_some();
        self.launcher.launch_together(launches, result, wait)?;
        count(&self.counts.together, 1);
        if let Some(last) = launches.last().filter(|_| is_read) {
            count(&self.counts.downloads, 1);
            count(&self.counts.downloaded, last.out.bytes().0);
        }
        Ok(())
    }

    /// Makes room for a result.
    pub(crate) fn reserve(self: &Arc<Room>, bytes: u64) -> Result<Arc<Resident>, LaunchError> {
        self.admit(bytes, || self.launcher.reserve(Bytes(bytes)))
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

    /// Memory within the limit; whoever was used longest ago and is elsewhere too makes room, also where the device says
    /// that it has no more.
    fn admit(
        self: &Arc<Room>,
        bytes: u64,
        take: impl Fn() -> Result<Box<dyn Held>, LaunchError>,
    ) -> Result<Arc<Resident>, LaunchError> {
        let claim = || {
            let fits =
                |used: u64| used.checked_add(bytes).filter(|used| self.max.is_none_or(|max| *used <= max));
            self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
        };
        while let Err(used) = claim() {
            let missing = (used + bytes).saturating_sub(self.max.unwrap_or(u64::MAX));
            if self.evict(missing) == 0 {
                return Err(LaunchError::Kernel(format!(
                    "{} of memory on {} are asked for, {} of at most {} are in use",
                    Bytes(bytes),
                    self.name,
                    Bytes(used),
                    Bytes(self.max.unwrap_or(u64::MAX))
                )));
            }
        }
        // From here on dropping gives the claim back.
        let taken = take().or_else(|error| if self.evict(bytes) > 0 { take() } else { Err(error) });
        match taken {
            Ok(held) => Ok(Arc::new(Resident {
                held,
                bytes,
                last_used: AtomicU64::new(self.clock.fetch_add(1, Ordering::Relaxed)),
                room: Arc::clone(self),
            })),
            Err(error) => {
                self.used.fetch_sub(bytes, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Drops copies until that many bytes are free or no more can go; gives the bytes that were freed.
    fn evict(&self, bytes: u64) -> u64 {
        let mut all: Vec<(u64, Arc<Copies>)> =
            self.tenants().into_iter().filter_map(|copies| Some((copies.last_used(self)?, copies))).collect();
        all.sort_by_key(|(last_used, _)| *last_used);
        let mut freed = 0;
        for (_, copies) in all {
            if freed >= bytes {
                break;
            }
            let (count_of, bytes_of) = copies.evict(self);
            count(&self.counts.evictions, count_of);
            freed += bytes_of;
        }
        freed
    }

    fn tenants(&self) -> Vec<Arc<Copies>> {
        lock(&self.tenants).iter().filter_map(Weak::upgrade).collect()
    }

    fn moves_in(&self, copies: &Arc<Copies>) {
        let mut tenants = lock(&self.tenants);
        if tenants.len() >= FEW_TENANTS && tenants.len().is_power_of_two() {
            tenants.retain(|tenant| tenant.strong_count() > 0);
        }
        tenants.push(Arc::downgrade(copies));
    }
}

/// The copies of one tensor's data on devices.
pub(crate) struct Copies {
    /// Whether the data is in the processor's memory too.
    on_host: AtomicBool,
    list: Mutex<Vec<Replica>>,
}

/// A copy of some of the elements.
struct Replica {
    part: Range<usize>,
    resident: Arc<Resident>,
}

impl Copies {
    pub(crate) fn new(on_host: bool) -> Copies {
        Copies { on_host: AtomicBool::new(on_host), list: Mutex::default() }
    }

    /// The data is in the processor's memory from now on.
    pub(crate) fn came_home(&self) {
        self.on_host.store(true, Ordering::Release);
    }

    /// The copy of these elements on a device.
    pub(crate) fn find(&self, room: &Arc<Room>, part: &Range<usize>) -> Option<Arc<Resident>> {
        let list = lock(&self.list);
        let found = list.iter().find(|copy| copy.part == *part && Arc::ptr_eq(&copy.resident.room, room));
        found.map(|copy| Arc::clone(&copy.resident))
    }

    /// A copy of these elements on any device.
    pub(crate) fn anywhere(&self, part: &Range<usize>) -> Option<Arc<Resident>> {
        let list = lock(&self.list);
        list.iter().find(|copy| copy.part == *part).map(|copy| Arc::clone(&copy.resident))
    }

    /// Keeps a copy.
    pub(crate) fn add(self: &Arc<Copies>, part: Range<usize>, resident: &Arc<Resident>) {
        lock(&self.list).push(Replica { part, resident: Arc::clone(resident) });
        resident.room.moves_in(self);
    }

    /// The copy of these elements on a device, and that it was used instead of being moved again.
    pub(crate) fn reuse(&self, room: &Arc<Room>, part: &Range<usize>) -> Option<Arc<Resident>> {
        let found = self.find(room, part);
        count(&room.counts.reused, found.is_some().into());
        found
    }

    fn last_used(&self, room: &Room) -> Option<u64> {
        let list = lock(&self.list);
        let here = list.iter().filter(|copy| copy.is_in(room));
        here.map(|copy| copy.resident.last_used.load(Ordering::Relaxed)).max()
    }

    /// Bytes on the device that could go.
    fn evictable(&self, room: &Room) -> u64 {
        let list = lock(&self.list);
        let here = list.iter().filter(|copy| copy.is_in(room));
        here.filter(|copy| self.may_go(&list, copy)).map(|copy| copy.resident.bytes).sum()
    }

    /// Drops the copies on the device that exist elsewhere and that nobody uses at this moment; how many, and their bytes.
    fn evict(&self, room: &Room) -> (u64, u64) {
        let mut list = lock(&self.list);
        let mut gone = (0, 0);
        while let Some(at) = list.iter().position(|copy| copy.is_in(room) && self.may_go(&list, copy)) {
            let copy = list.swap_remove(at);
            gone = (gone.0 + 1, gone.1 + copy.resident.bytes);
        }
        gone
    }

    fn may_go(&self, list: &[Replica], copy: &Replica) -> bool {
        let elsewhere = self.on_host.load(Ordering::Acquire)
            || list.iter().any(|other| other.part == copy.part && !other.is_in(&copy.resident.room));
        elsewhere && Arc::strong_count(&copy.resident) == 1
    }
}

impl Replica {
    fn is_in(&self, room: &Room) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.resident.room), room)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
