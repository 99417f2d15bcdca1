//! Plans of transforms: made once for a length, kept for the next call. A warm call finds its plan among a few of its thread's own,
//! without a lock.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

/// Plans each thread keeps at hand, and bytes of them.
const AT_HAND: usize = 8;
const AT_HAND_BYTES: usize = 32 << 20;
/// Plans the process keeps, and bytes of them: the oldest go first. One that is larger is made for every call.
const KEPT: usize = 64;
const KEPT_BYTES: usize = 512 << 20;

/// What a plan is for, beside its type: lengths, direction and whatever else tells it from others.
pub(super) type PlanKey = [u64; 4];

#[derive(Clone)]
struct Entry {
    of: (TypeId, PlanKey),
    bytes: usize,
    plan: Arc<dyn Any + Send + Sync>,
}

thread_local! {
    static MINE: RefCell<Vec<Entry>> = const { RefCell::new(Vec::new()) };
}
static ALL: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// The plan of a key, made where there is none.
pub(super) fn plan<P: Any + Send + Sync>(key: PlanKey, bytes: usize, make: impl FnOnce() -> P) -> Arc<P> {
    found(key).unwrap_or_else(|| keep(key, bytes, Arc::new(make())))
}

/// The same where there may be none.
pub(super) fn try_plan<P: Any + Send + Sync>(
    key: PlanKey,
    bytes: usize,
    make: impl FnOnce() -> Option<P>,
) -> Option<Arc<P>> {
    found(key).or_else(|| Some(keep(key, bytes, Arc::new(make()?))))
}

#[inline]
fn found<P: Any + Send + Sync>(key: PlanKey) -> Option<Arc<P>> {
    let of = (TypeId::of::<P>(), key);
    // A thread at its end has none.
    let mine = MINE.try_with(|mine| {
        let mine = mine.borrow();
        mine.iter().find(|entry| entry.of == of).map(|entry| Arc::clone(&entry.plan))
    });
    let plan = match mine {
        Ok(Some(plan)) => plan,
        _ => {
            let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
            let entry = all.iter().find(|entry| entry.of == of)?.clone();
            drop(all);
            at_hand(&entry);
            entry.plan
        }
    };
    plan.downcast().ok()
}

/// Keeps a plan, here and for other threads.
#[cold]
fn keep<P: Any + Send + Sync>(key: PlanKey, bytes: usize, plan: Arc<P>) -> Arc<P> {
    let entry =
        Entry { of: (TypeId::of::<P>(), key), bytes, plan: Arc::clone(&plan) as Arc<dyn Any + Send + Sync> };
    at_hand(&entry);
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    push(&mut all, entry, KEPT, KEPT_BYTES);
    plan
}

fn at_hand(entry: &Entry) {
    let _ = MINE.try_with(|mine| push(&mut mine.borrow_mut(), entry.clone(), AT_HAND, AT_HAND_BYTES));
}

/// Adds an entry and leaves the oldest out, so that there are at most so many, and so many bytes.
fn push(entries: &mut Vec<Entry>, entry: Entry, most: usize, most_bytes: usize) {
    if entry.bytes > most_bytes {
        return;
    }
    entries.retain(|other| other.of != entry.of);
    entries.push(entry);
    while entries.len() > most || entries.iter().map(|entry| entry.bytes).sum::<usize>() > most_bytes {
        entries.remove(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Made(u64);

    fn of(key: u64, bytes: usize) -> Arc<Made> {
        plan([key, 77, 0, 0], bytes, || Made(key))
    }

    #[test]
    fn plans_are_made_once_and_only_so_many_are_kept() {
        let first = of(1, 8);
        assert!(Arc::ptr_eq(&first, &of(1, 8)));
        let elsewhere = std::thread::spawn(|| of(1, 8)).join().expect("makes or finds a plan");
        assert!(Arc::ptr_eq(&first, &elsewhere), "another thread finds it");
        for key in 2..2 + 2 * KEPT as u64 {
            assert_eq!(of(key, 8).0, key);
        }
        assert!(MINE.with(|mine| mine.borrow().len() <= AT_HAND));
        assert!(ALL.lock().unwrap_or_else(PoisonError::into_inner).len() <= KEPT);
        assert!(!Arc::ptr_eq(&first, &of(1, 8)), "it was the oldest");
    }

    #[test]
    fn plans_that_are_too_large_are_not_kept_and_none_is_no_plan() {
        let large = of(1000, KEPT_BYTES + 1);
        assert!(!Arc::ptr_eq(&large, &of(1000, KEPT_BYTES + 1)));
        assert!(try_plan::<Made>([1001, 77, 0, 0], 8, || None).is_none());
        assert!(try_plan([1001, 77, 0, 0], 8, || Some(Made(5))).is_some_and(|made| made.0 == 5));
    }
}
