//! Plans that came after the table was full: found behind a lock that few share, and forgotten when nobody asks for them.

use crate::plan::Plan;
use crate::sync::{AtomicBool, Ordering, PARTS, RwLock};
use crate::table::TermsId;
use rustc_hash::FxHashMap;
use trimtab_core::Problem;

/// Plans of each of the two halves of a part: about 24 MB when all are full.
const MAX_IN_HALF: usize = 1_024;

type Plans = FxHashMap<(Problem, TermsId), Plan>;

/// When the newer half is full it becomes the older one, and what was in that is forgotten; whoever is asked for moves to the newer.
/// So what is asked for again and again stays, in constant time, without a list of who was asked for when.
#[derive(Default)]
struct Shard {
    newer: Plans,
    older: Plans,
}

impl Shard {
    fn put(&mut self, key: (Problem, TermsId), plan: Plan) {
        if self.newer.len() >= MAX_IN_HALF && !self.newer.contains_key(&key) {
            self.older = std::mem::take(&mut self.newer);
        }
        self.older.remove(&key);
        self.newer.insert(key, plan);
    }
}

/// See the module.
pub(crate) struct Overflow {
    parts: Box<[RwLock<Shard>]>,
    /// Whether anything was ever put here: until then a miss takes no lock.
    used: AtomicBool,
}

impl Overflow {
    pub(crate) fn new() -> Overflow {
        Overflow {
            parts: (0..PARTS).map(|_| RwLock::new(Shard::default())).collect(),
            used: AtomicBool::new(false),
        }
    }

    /// The part of a problem: the highest bits, which no level of the table begins its chains by.
    fn part(&self, mixed: u64) -> &RwLock<Shard> {
        &self.parts[(mixed >> 58) as usize & (self.parts.len() - 1)]
    }

    /// The plan of a problem; `mixed` is the hash of both.
    pub(crate) fn get(&self, mixed: u64, problem: &Problem, terms: TermsId) -> Option<Plan> {
        if !self.used.load(Ordering::Acquire) {
            return None;
        }
        let (place, key) = (self.part(mixed), (*problem, terms));
        let (plan, is_new) = {
            let part = place.read().ok()?;
            match part.newer.get(&key) {
                Some(plan) => (*plan, true),
                None => (*part.older.get(&key)?, false),
            }
        };
        // Whoever cannot have the lock at once leaves it where it is: it is asked for again.
        if let (false, Ok(mut part)) = (is_new, place.try_write())
            && let Some(plan) = part.older.remove(&key)
        {
            part.put(key, plan);
        }
        Some(plan)
    }

    /// Keeps a plan, in place of an older one of the same problem.
    pub(crate) fn put(&self, mixed: u64, problem: &Problem, terms: TermsId, plan: Plan) {
        if let Ok(mut part) = self.part(mixed).write() {
            part.put((*problem, terms), plan);
        }
        self.used.store(true, Ordering::Release);
    }

    /// Forgets these plans.
    pub(crate) fn clear(&self, these: &dyn Fn(&Plan) -> bool) {
        for part in &self.parts {
            if let Ok(mut part) = part.write() {
                part.newer.retain(|_, plan| !these(plan));
                part.older.retain(|_, plan| !these(plan));
            }
        }
    }

    /// Plans there are.
    #[cfg(test)]
    fn len(&self) -> usize {
        let lens = self.parts.iter().filter_map(|part| part.read().ok());
        lens.map(|part| part.newer.len() + part.older.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_core::{Custom, KernelId, Nanos, Point};

    fn problem(size: u64) -> Problem {
        Custom::new("p", &[size]).unwrap().into()
    }

    fn plan(kernel: u32) -> Plan {
        Plan::new(0, KernelId(kernel), Point::EMPTY, Nanos(1))
    }

    fn mixed(size: u64) -> u64 {
        size.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn a_million_plans_leave_a_bounded_number_and_who_is_asked_for_stays() {
        let plans = Overflow::new();
        let terms = TermsId::default();
        let get = |size: u64| plans.get(mixed(size), &problem(size), terms).map(|plan| plan.kernel.0);
        assert_eq!(get(7), None);
        plans.put(mixed(7), &problem(7), terms, plan(7));
        for size in 100..1_000_100u64 {
            plans.put(mixed(size), &problem(size), terms, plan(size as u32));
            // As often as a program would that calls one problem between many others.
            if size % 10_000 == 0 {
                assert_eq!(get(7), Some(7), "after {size}");
            }
        }
        assert!(plans.len() <= 2 * PARTS * MAX_IN_HALF && plans.len() > PARTS * MAX_IN_HALF / 2);
        assert_eq!((get(1_000_099), get(100)), (Some(1_000_099), None));
        plans.put(mixed(7), &problem(7), terms, plan(8));
        assert_eq!(get(7), Some(8));
        plans.clear(&|plan| plan.kernel.0 == 8);
        assert_eq!((get(7), get(1_000_099)), (None, Some(1_000_099)));
    }
}
