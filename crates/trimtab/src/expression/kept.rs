//! Schedules made so far, found again without going through the expression.

use super::flat::Flat;
use super::schedule::Schedule;
use rustc_hash::{FxHashMap, FxHasher};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use trimtab_plan::TermsId;

/// Schedules kept; the oldest go first.
const MAX_SCHEDULES: usize = 512;
/// Values of the expressions they are for, all together: a value takes about 1 KB. An expression with more is scheduled each time.
const MAX_VALUES: usize = 1 << 18;
/// Places for schedules found last, a power of two. Those in different places are found without waiting for each other.
const PLACES: usize = 64;

/// What a schedule is made for: the expression, the terms, and by input where it lies (bit 0: the processor's memory); inputs
/// that are not listed lie there only.
#[derive(PartialEq, Eq)]
pub(crate) struct Key {
    pub terms: TermsId,
    pub flat: Flat,
    pub resident: Vec<u64>,
}

impl Key {
    fn hash(&self) -> u64 {
        let mut hasher = FxHasher::default();
        (self.terms, self.flat.hash).hash(&mut hasher);
        self.resident.hash(&mut hasher);
        hasher.finish()
    }
}

/// How an expression was divided: whether operations run as one, and where each group or operation runs.
#[derive(Clone)]
pub(crate) struct Division {
    pub as_one: bool,
    pub device: Vec<usize>,
}

/// Schedules made so far.
#[derive(Default)]
pub(crate) struct Schedules {
    kept: Mutex<ByHash>,
    /// Those found last, by hash.
    recent: Recent,
}

/// A schedule and its hash.
type RecentSlot = RwLock<Option<(u64, Arc<Schedule>)>>;

struct Recent([RecentSlot; PLACES]);

impl Default for Recent {
    fn default() -> Self {
        Recent(std::array::from_fn(|_| RwLock::new(None)))
    }
}

impl Recent {
    fn at(&self, hash: u64) -> &RecentSlot {
        // The upper half is what multiplying mixed best.
        &self.0[(hash >> 32) as usize % PLACES]
    }

    fn put(&self, hash: u64, schedule: Option<&Arc<Schedule>>) {
        let mut place = self.at(hash).write().unwrap_or_else(PoisonError::into_inner);
        *place = schedule.map(|schedule| (hash, Arc::clone(schedule)));
    }

    /// Lets go of one that is not kept any more.
    fn drop_one(&self, hash: u64, schedule: &Arc<Schedule>) {
        let mut place = self.at(hash).write().unwrap_or_else(PoisonError::into_inner);
        place.take_if(|(_, other)| Arc::ptr_eq(other, schedule));
    }
}

#[derive(Default)]
struct ByHash {
    /// By hash; several of the same are told apart by their keys.
    schedules: FxHashMap<u64, Vec<Arc<Schedule>>>,
    /// The last division of an expression, by terms and hash, wherever its inputs were.
    divisions: FxHashMap<(TermsId, u64), Division>,
    order: VecDeque<(u64, Arc<Schedule>)>,
    /// Values of all of them.
    values: usize,
}

impl Schedules {
    fn kept(&self) -> MutexGuard<'_, ByHash> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets everything: what it rests on has changed.
    pub(crate) fn clear(&self) {
        *self.kept() = ByHash::default();
        for place in &self.recent.0 {
            *place.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// Forgets one that did not work.
    pub(crate) fn forget(&self, schedule: &Arc<Schedule>) {
        let hash = schedule.key.hash();
        self.kept().drop_one(hash, schedule);
        self.recent.put(hash, None);
    }

    /// The schedule of an expression, if there is one.
    #[inline]
    pub(crate) fn find(&self, key: &Key) -> Option<Arc<Schedule>> {
        let hash = key.hash();
        if let Ok(place) = self.recent.at(hash).try_read()
            && let Some((known, schedule)) = &*place
            && *known == hash
            && schedule.key == *key
        {
            return Some(Arc::clone(schedule));
        }
        let found = self.kept().schedules.get(&hash)?.iter().find(|other| other.key == *key).cloned();
        self.recent.put(hash, found.as_ref());
        found
    }

    /// The last division of an expression.
    pub(crate) fn division(&self, key: &Key) -> Option<Division> {
        self.kept().divisions.get(&(key.terms, key.flat.hash)).cloned()
    }

    /// Keeps a schedule, instead of an older one for the same.
    pub(crate) fn keep(&self, schedule: &Arc<Schedule>, division: Division) {
        let key = &schedule.key;
        let hash = key.hash();
        let mut kept = self.kept();
        let older = kept.schedules.get(&hash).and_then(|all| all.iter().find(|other| other.key == *key));
        if let Some(older) = older.cloned() {
            kept.drop_one(hash, &older);
        }
        if schedule.values() > MAX_VALUES {
            return;
        }
        while kept.order.len() >= MAX_SCHEDULES || kept.values + schedule.values() > MAX_VALUES {
            let Some((hash, oldest)) = kept.order.front().cloned() else { break };
            kept.drop_one(hash, &oldest);
            kept.divisions.remove(&(oldest.key.terms, oldest.key.flat.hash));
            self.recent.drop_one(hash, &oldest);
        }
        kept.values += schedule.values();
        kept.divisions.insert((key.terms, key.flat.hash), division);
        kept.schedules.entry(hash).or_default().push(Arc::clone(schedule));
        kept.order.push_back((hash, Arc::clone(schedule)));
        self.recent.put(hash, Some(schedule));
    }
}

impl ByHash {
    fn drop_one(&mut self, hash: u64, schedule: &Arc<Schedule>) {
        if let Some(at) = self.order.iter().position(|(_, other)| Arc::ptr_eq(other, schedule)) {
            self.order.remove(at);
            self.values -= schedule.values();
        }
        if let Some(all) = self.schedules.get_mut(&hash) {
            all.retain(|other| !Arc::ptr_eq(other, schedule));
            if all.is_empty() {
                self.schedules.remove(&hash);
            }
        }
    }
}
