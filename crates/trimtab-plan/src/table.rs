//! Plans in force, found without a lock, an allocation or a reference count.
//!
//! An open-addressing table of slots that are written once and marked when they are replaced, so a found plan is a plain
//! reference and the way to it is one load behind the hash. An atomically swapped snapshot map takes 18–35 ns (66–70 ns
//! with two threads) for the same; `cargo xtask bench overhead` prints what this takes.
//!
//! The package `interleavings` runs this very file in every order of events that few threads can have.

use crate::overflow::Overflow;
use crate::plan::Plan;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, MAX_PROBES, Mutex, OnceLock, Ordering};
use trimtab_core::{Lookup, Problem};

/// Slots of the first level, 90 KB: enough for most programs. A slot is found without following a pointer: one that is
/// allocated by itself costs a warm call 2 ns.
const FIRST: usize = 512;
/// Slots of the second level, 1.5 MB: made when the first is half full.
const SECOND: usize = 8_192;
/// Slots of the third level, 24 MB: made when the second is half full.
const THIRD: usize = 131_072;
/// The largest number a plan can have.
pub const MAX_NUMBER: usize = FIRST + SECOND + THIRD;

/// The plan of a slot is in force.
const IN_FORCE: u32 = 0;
/// The plan of a slot was replaced, forgotten, or never was in force.
const OVER: u32 = 1;
/// From here on the plan is in force, and the next call takes that of another slot, once: this plus that slot's number.
const ONCE: u32 = 2;

/// Which terms a plan was made under; a position in the planner's list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TermsId(pub(crate) u32);

struct Slot {
    problem: Problem,
    terms: TermsId,
    plan: Plan,
    /// [`IN_FORCE`], [`OVER`] or [`ONCE`] and more. A slot whose plan is over stays, so that chains do not break, and
    /// counts again if the same plan is put in force once more.
    state: AtomicU32,
}

impl Slot {
    fn is_over(&self) -> bool {
        self.state.load(Ordering::Acquire) == OVER
    }

    /// Whether its plan is this one, whatever their numbers.
    fn holds(&self, plan: &Plan) -> bool {
        Plan { id: plan.id, ..self.plan } == *plan
    }
}

/// Slots that are found by hash; their number is a power of two.
struct Level {
    slots: Box<[OnceLock<Slot>]>,
    /// By slot, part of the hash of what is there; zero where nothing is. Sixteen are found with one load from memory, where each slot
    /// takes several: in a level that no cache holds that is most of what finding a plan takes.
    tags: Box<[AtomicU32]>,
}

impl Level {
    fn new(slots: usize) -> Level {
        Level {
            slots: (0..slots).map(|_| OnceLock::new()).collect(),
            tags: (0..slots).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// The places of a problem's chain.
    #[inline]
    fn chain(&self, mixed: u64) -> impl Iterator<Item = usize> + use<> {
        let (start, mask) = ((mixed >> 40) as usize, self.slots.len() - 1);
        (0..MAX_PROBES).map(move |probe| (start + probe) & mask)
    }

    /// The first slot of a problem that `pick` takes.
    #[inline(always)]
    fn find<'a, K: Lookup, R>(
        &'a self,
        mixed: u64,
        (problem, terms): (&K, TermsId),
        pick: impl Fn(&'a Slot) -> Option<R>,
    ) -> Option<R> {
        for at in self.chain(mixed) {
            let slot = self.slots[at].get()?;
            if problem.is(&slot.problem)
                && slot.terms == terms
                && let Some(picked) = pick(slot)
            {
                return Some(picked);
            }
        }
        None
    }

    /// The same for a large level: only slots whose tag is the problem's are looked at.
    #[inline]
    fn find_tagged<'a, K: Lookup, R>(
        &'a self,
        mixed: u64,
        (problem, terms): (&K, TermsId),
        pick: impl Fn(&'a Slot) -> Option<R>,
    ) -> Option<R> {
        for at in self.chain(mixed) {
            match self.tags[at].load(Ordering::Acquire) {
                0 => return None,
                other if other != tag(mixed) => continue,
                _ => (),
            }
            let slot = self.slots[at].get()?;
            if problem.is(&slot.problem)
                && slot.terms == terms
                && let Some(picked) = pick(slot)
            {
                return Some(picked);
            }
        }
        None
    }

    /// Fills an empty slot.
    fn fill(&self, at: usize, mixed: u64, slot: Slot) {
        // The slot is empty and the lock is the caller's, so this never fails.
        let _ = self.slots[at].set(slot);
        self.tags[at].store(tag(mixed), Ordering::Release);
    }
}

/// What tells problems of a chain apart: bits the chain does not begin by.
#[inline]
fn tag(mixed: u64) -> u32 {
    (mixed >> 8) as u32 | 1
}

pub(crate) struct Table {
    first: Level,
    /// Slots of the levels.
    sizes: [usize; 3],
    second: OnceLock<Level>,
    third: OnceLock<Level>,
    used: AtomicUsize,
    writing: Mutex<()>,
    /// How often what is in force changed.
    changed: AtomicU64,
    overflow: Overflow,
}

impl Table {
    pub(crate) fn new() -> Table {
        Table::sized([FIRST, SECOND, THIRD])
    }

    /// A table of so many slots in its levels, each a power of two.
    pub(crate) fn sized(sizes: [usize; 3]) -> Table {
        Table {
            first: Level::new(sizes[0]),
            sizes,
            second: OnceLock::new(),
            third: OnceLock::new(),
            used: AtomicUsize::new(0),
            writing: Mutex::new(()),
            changed: AtomicU64::new(0),
            overflow: Overflow::new(),
        }
    }

    /// Plans published before the table is full; after that new ones are kept in maps behind locks, and still found.
    fn most(&self) -> usize {
        self.sizes.iter().sum::<usize>() / 2
    }

    fn find<'a, K: Lookup, R>(
        &'a self,
        problem: &K,
        terms: TermsId,
        pick: impl Fn(&'a Slot) -> Option<R>,
    ) -> Option<R> {
        let (mixed, key) = (mix(problem, terms), (problem, terms));
        self.first.find(mixed, key, &pick).or_else(|| self.find_further(mixed, key, &pick))
    }

    /// In the levels behind the first.
    #[inline]
    fn find_further<'a, K: Lookup, R>(
        &'a self,
        mixed: u64,
        key: (&K, TermsId),
        pick: impl Fn(&'a Slot) -> Option<R>,
    ) -> Option<R> {
        let second = self.second.get()?.find_tagged(mixed, key, &pick);
        second.or_else(|| self.third.get()?.find_tagged(mixed, key, &pick))
    }

    /// The same as [`find`](Table::find), and nothing only if there is nothing: a plan that goes back into force in a slot we passed,
    /// while we are on our way to the one that is over by then, would be missed.
    #[inline(always)]
    fn find_steadily<'a, K: Lookup, R>(
        &'a self,
        problem: &K,
        terms: TermsId,
        pick: impl Fn(&'a Slot) -> Option<R>,
    ) -> Option<R> {
        let (mixed, key) = (mix(problem, terms), (problem, terms));
        match self.first.find(mixed, key, &pick) {
            None => self.find_elsewhere(mixed, key, pick),
            found => found,
        }
    }

    /// Apart from the first level, whose part of a call is one with the caller's: as a function of its own it saves six registers.
    #[inline(never)]
    fn find_elsewhere<'a, K: Lookup, R>(
        &'a self,
        mixed: u64,
        key: (&K, TermsId),
        pick: impl Fn(&'a Slot) -> Option<R>,
    ) -> Option<R> {
        self.find_further(mixed, key, &pick).or_else(|| self.find_again(key.0, key.1, pick))
    }

    /// Looks until nothing changed meanwhile. Who came here for nothing has a plan to make.
    #[cold]
    fn find_again<'a, K: Lookup, R>(
        &'a self,
        problem: &K,
        terms: TermsId,
        pick: impl Fn(&'a Slot) -> Option<R>,
    ) -> Option<R> {
        loop {
            let before = self.changed.load(Ordering::Acquire);
            let found = self.find(problem, terms, &pick);
            if found.is_some() || self.changed.load(Ordering::Acquire) == before {
                return found;
            }
        }
    }

    /// The problem as stored and its plan.
    #[inline]
    pub(crate) fn get<K: Lookup>(&self, problem: &K, terms: TermsId) -> Option<(&Problem, &Plan)> {
        self.find_steadily(problem, terms, |slot| (!slot.is_over()).then_some((&slot.problem, &slot.plan)))
    }

    /// The same for a call that runs at once: where a plan is to be tried, one call gets that instead.
    #[inline(always)]
    pub(crate) fn take<K: Lookup>(&self, problem: &K, terms: TermsId) -> Option<(&Problem, &Plan)> {
        self.find_steadily(problem, terms, |slot| match slot.state.load(Ordering::Acquire) {
            IN_FORCE => Some((&slot.problem, &slot.plan)),
            OVER => None,
            once => Some((&slot.problem, self.claim(slot, once))),
        })
    }

    /// The plan to be tried, for the one call that comes first; the plan in force for all others.
    #[cold]
    fn claim<'a>(&'a self, slot: &'a Slot, once: u32) -> &'a Plan {
        let first = slot.state.compare_exchange(once, IN_FORCE, Ordering::AcqRel, Ordering::Acquire).is_ok();
        let tried = self.slot(once - ONCE).filter(|_| first);
        tried.map_or(&slot.plan, |tried| &tried.plan)
    }

    /// The slot of that number: from one on in the first level, from there on in the second, then in the third.
    fn slot(&self, id: u32) -> Option<&Slot> {
        let at = (id as usize).checked_sub(1)?;
        let [first, second, _] = self.sizes;
        let place = match (at.checked_sub(first), at.checked_sub(first + second)) {
            (None, _) => self.first.slots.get(at),
            (Some(at), None) => self.second.get()?.slots.get(at),
            (_, Some(at)) => self.third.get()?.slots.get(at),
        };
        place?.get()
    }

    /// Lets the next call of a problem run another plan, once, if the one of that number is in force: the plan with the
    /// number its report will carry. Nothing if there is no room, or if another one still waits to be tried.
    pub(crate) fn try_once(
        &self,
        problem: &Problem,
        terms: TermsId,
        in_force: u32,
        plan: Plan,
    ) -> Option<Plan> {
        let _guard = self.writing.lock();
        let slot = self.slot(in_force)?;
        if slot.problem != *problem || slot.terms != terms || slot.state.load(Ordering::Acquire) != IN_FORCE {
            return None;
        }
        // Its place is the same each time.
        let before =
            self.find(problem, terms, |slot| (slot.is_over() && slot.holds(&plan)).then_some(slot.plan));
        let tried = match before {
            Some(before) => before,
            None if self.is_crowded() => return None,
            None => self.fill(problem, terms, plan, OVER, self.most())?,
        };
        let once = ONCE + tried.id;
        slot.state.compare_exchange(IN_FORCE, once, Ordering::AcqRel, Ordering::Acquire).ok()?;
        Some(tried)
    }

    /// Takes back what [`try_once`](Table::try_once) asked for, if no call has come meanwhile; whether none has.
    pub(crate) fn take_back(&self, in_force: u32, tried: u32) -> bool {
        let Some(slot) = self.slot(in_force) else { return false };
        slot.state.compare_exchange(ONCE + tried, IN_FORCE, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// A plan that came after the table was full.
    pub(crate) fn get_overflow(&self, problem: &Problem, terms: TermsId) -> Option<Plan> {
        self.overflow.get(mix(problem, terms), problem, terms)
    }

    /// Puts a plan in force. One writer at a time; the same plan again changes nothing.
    pub(crate) fn publish(&self, problem: &Problem, terms: TermsId, plan: Plan) -> Plan {
        let _guard = self.writing.lock();
        self.put(problem, terms, plan, self.most())
    }

    /// The same for a device that may leave again: slots are never given back, so half of them are not for such.
    pub(crate) fn publish_joined(&self, problem: &Problem, terms: TermsId, plan: Plan) -> Plan {
        let _guard = self.writing.lock();
        self.put(problem, terms, plan, self.most() / 2)
    }

    /// Puts a plan in force if the one of that number still is.
    pub(crate) fn replace(&self, problem: &Problem, terms: TermsId, older: u32, plan: Plan) -> Option<Plan> {
        let _guard = self.writing.lock();
        let is_in_force = self.get(problem, terms).is_some_and(|(_, plan)| plan.id == older);
        is_in_force.then(|| self.put(problem, terms, plan, self.most()))
    }

    /// The plan of that number and what it is for, if it is in force.
    pub(crate) fn in_force(&self, id: u32) -> Option<(Problem, TermsId, Plan)> {
        let slot = self.slot(id)?;
        (!slot.is_over()).then_some((slot.problem, slot.terms, slot.plan))
    }

    /// What the plan of that number is or was for.
    pub(crate) fn asked(&self, id: u32) -> Option<(Problem, TermsId)> {
        self.slot(id).map(|slot| (slot.problem, slot.terms))
    }

    /// Whether half of the slots are taken: then none should be spent on trying something out.
    pub(crate) fn is_crowded(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.most() / 2
    }

    /// Fills an empty slot, if fewer than `most` are used: of the second level once the first is half full, of the third once that is.
    /// The lock is the caller's.
    fn fill(
        &self,
        problem: &Problem,
        terms: TermsId,
        mut plan: Plan,
        state: u32,
        most: usize,
    ) -> Option<Plan> {
        let used = self.used.load(Ordering::Relaxed);
        let mixed = mix(problem, terms);
        let empty = |level: &Level| level.chain(mixed).find(|&at| level.slots[at].get().is_none());
        let [of_first, of_second, of_third] = self.sizes;
        let (level, before, at) = if let Some(at) = empty(&self.first).filter(|_| used < of_first / 2) {
            (&self.first, 0, at)
        } else {
            let second = self.second.get_or_init(|| Level::new(of_second));
            match empty(second).filter(|_| used < most.min((of_first + of_second) / 2)) {
                Some(at) => (second, of_first, at),
                None if used >= most => return None,
                None => {
                    let third = self.third.get_or_init(|| Level::new(of_third));
                    (third, of_first + of_second, empty(third)?)
                }
            }
        };
        plan.id = (before + at) as u32 + 1;
        let slot = Slot { problem: *problem, terms, plan, state: AtomicU32::new(state) };
        level.fill(at, mixed, slot);
        self.used.fetch_add(1, Ordering::Relaxed);
        Some(plan)
    }

    fn put(&self, problem: &Problem, terms: TermsId, mut plan: Plan, most: usize) -> Plan {
        let older = self.find(problem, terms, |slot| (!slot.is_over()).then_some(slot));
        if let Some(older) = older.filter(|older| older.holds(&plan)) {
            return older.plan;
        }
        // A plan that was in force before is so again in its old slot: going back and forth takes no room.
        if let Some(earlier) = self.find(problem, terms, |slot| slot.holds(&plan).then_some(slot)) {
            earlier.state.store(IN_FORCE, Ordering::Release);
            plan = earlier.plan;
        } else if let Some(filled) = self.fill(problem, terms, plan, IN_FORCE, most) {
            plan = filled;
        } else {
            plan.id = 0;
            self.overflow.put(mix(problem, terms), problem, terms, plan);
        }
        // Only now: whoever looks meanwhile finds the old plan, or the new one behind it, or looks again.
        self.changed.fetch_add(1, Ordering::Release);
        if let Some(older) = older {
            older.state.store(OVER, Ordering::Release);
        }
        self.changed.fetch_add(1, Ordering::Release);
        plan
    }

    /// How often what is in force changed: what rests on plans, or on there being none, may have to be thought over.
    pub(crate) fn generation(&self) -> u64 {
        self.changed.load(Ordering::Relaxed)
    }

    /// Forgets these plans: the next call of their problems plans anew.
    pub(crate) fn clear(&self, these: impl Fn(&Plan) -> bool) {
        // Not while somebody replaces a plan that was in force when they looked.
        let _guard = self.writing.lock();
        let levels = [Some(&self.first), self.second.get(), self.third.get()].into_iter().flatten();
        let slots = levels.flat_map(|level| &level.slots);
        for slot in slots.filter_map(OnceLock::get).filter(|slot| these(&slot.plan)) {
            slot.state.store(OVER, Ordering::Release);
        }
        self.changed.fetch_add(1, Ordering::Release);
        self.overflow.clear(&these);
    }
}

/// What a problem's chain starts from.
#[inline]
fn mix(problem: &impl Lookup, terms: TermsId) -> u64 {
    (problem.mix() ^ u64::from(terms.0)).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_core::{Custom, KernelId, Nanos, Point};

    fn problem(size: u64) -> Problem {
        Custom::new("p", &[size]).unwrap().into()
    }

    fn find(table: &Table, size: u64, terms: u32) -> Option<u32> {
        let (problem, terms) = (problem(size), TermsId(terms));
        let plan = table.get(&problem, terms).map(|found| *found.1);
        plan.or_else(|| table.get_overflow(&problem, terms)).map(|plan| plan.kernel.0)
    }

    fn plan(kernel: u32) -> Plan {
        Plan {
            device: 0,
            kernel: KernelId(kernel),
            point: Point::EMPTY,
            expected: Nanos(1),
            sample_mask: 0,
            id: 0,
            code: Default::default(),
        }
    }

    #[test]
    fn a_published_plan_is_found_and_replaced_and_cleared() {
        let table = Table::new();
        assert!(find(&table, 1, 0).is_none());
        table.publish(&problem(1), TermsId(0), plan(1));
        table.publish(&problem(1), TermsId(1), plan(2));
        assert_eq!(find(&table, 1, 0), Some(1));
        assert_eq!(find(&table, 1, 1), Some(2));
        table.publish(&problem(1), TermsId(0), plan(3));
        assert_eq!(find(&table, 1, 0), Some(3));
        table.clear(|_| true);
        assert!(find(&table, 1, 0).is_none());
    }

    #[test]
    fn a_plan_replaces_only_the_one_it_was_meant_to() {
        let table = Table::new();
        let first = table.publish(&problem(1), TermsId(0), plan(1));
        let second = table.replace(&problem(1), TermsId(0), first.id, plan(2));
        assert_eq!(find(&table, 1, 0), Some(2));
        // The first is no longer in force, and a problem nobody planned has none.
        assert_eq!(table.replace(&problem(1), TermsId(0), first.id, plan(3)), None);
        assert_eq!(table.replace(&problem(2), TermsId(0), first.id, plan(3)), None);
        assert_eq!(find(&table, 1, 0), Some(2));
        assert!(second.is_some_and(|second| second.id != first.id));
    }

    #[test]
    fn a_plan_to_be_tried_goes_to_one_call_of_all_threads_and_to_nobody_who_keeps_plans() {
        let table = Table::new();
        let (p, terms) = (problem(1), TermsId(0));
        let force = table.publish(&p, terms, plan(1));
        for _ in 0..100 {
            let tried = table.try_once(&p, terms, force.id, plan(2)).unwrap();
            assert!(tried.id != force.id && table.try_once(&p, terms, force.id, plan(3)).is_none());
            assert_eq!(find(&table, 1, 0), Some(1));
            let count = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..10 {
                            let id = table.take(&p, terms).map(|found| found.1.id);
                            count.fetch_add(usize::from(id == Some(tried.id)), Ordering::Relaxed);
                        }
                    });
                }
            });
            assert_eq!(count.load(Ordering::Relaxed), 1);
        }
        // Taken back, it goes to nobody; and it never outlives the plan in whose place it was to be.
        assert_eq!(table.used.load(Ordering::Relaxed), 2);
        let tried = table.try_once(&p, terms, force.id, plan(2)).unwrap();
        table.take_back(force.id, tried.id);
        assert_eq!(table.take(&p, terms).unwrap().1.id, force.id);
        table.try_once(&p, terms, force.id, plan(2)).unwrap();
        let next = table.publish(&p, terms, plan(4));
        assert_eq!(table.take(&p, terms).unwrap().1.id, next.id);
        assert!(table.try_once(&p, terms, force.id, plan(2)).is_none());
        table.clear(|_| true);
        assert!(table.take(&p, terms).is_none());
    }

    #[test]
    fn going_back_and_forth_takes_no_room_and_keeps_the_numbers() {
        let table = Table::new();
        let ids: Vec<u32> =
            (0..1_000).map(|round| table.publish(&problem(7), TermsId(0), plan(round % 3)).id).collect();
        assert_eq!(table.used.load(Ordering::Relaxed), 3);
        assert!(ids.chunks_exact(3).all(|three| three == &ids[..3]));
        assert_eq!(find(&table, 7, 0), Some(999 % 3));
    }

    #[test]
    fn two_writers_leave_one_plan_in_force_and_a_later_one_replaces_it() {
        for round in 0..200 {
            let table = Table::new();
            std::thread::scope(|scope| {
                for kernel in [1, 2] {
                    let table = &table;
                    scope.spawn(move || table.publish(&problem(7), TermsId(0), plan(kernel)));
                }
            });
            table.publish(&problem(7), TermsId(0), plan(3));
            assert_eq!(find(&table, 7, 0), Some(3), "round {round}");
        }
    }

    #[test]
    fn one_problem_planned_again_and_again_does_not_fill_the_table() {
        let table = Table::new();
        for round in 0..10 * MAX_PROBES as u32 {
            table.publish(&problem(7), TermsId(0), plan(round % 2));
            assert_eq!(find(&table, 7, 0), Some(round % 2));
        }
        let other = table.publish(&problem(8), TermsId(0), plan(5));
        assert!(other.id != 0 && find(&table, 8, 0) == Some(5));
    }

    #[test]
    fn more_plans_than_the_table_holds_are_still_found() {
        let table = Table::new();
        let count = ((FIRST + SECOND + THIRD) / 2) as u64 + 1_000;
        for size in 0..count {
            table.publish(&problem(size), TermsId(0), plan(size as u32));
        }
        for size in 0..count {
            assert_eq!(find(&table, size, 0), Some(size as u32), "{size}");
        }
        table.publish(&problem(3), TermsId(0), plan(77));
        assert_eq!(find(&table, 3, 0), Some(77));
        assert_eq!(find(&table, 4, 0), Some(4));
    }

    #[test]
    fn readers_beside_a_writer_see_whole_plans() {
        let table = Table::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..2_000u32 {
                    table.publish(&problem(u64::from(round % 50)), TermsId(0), plan(round % 50));
                }
            });
            for _ in 0..20_000 {
                for size in [0, 7, 49] {
                    if let Some(found) = find(&table, size, 0) {
                        assert_eq!(u64::from(found), size);
                    }
                }
            }
        });
    }
}
