//! How a caller and its helpers meet over a job: who may write it, who may read it, who sleeps and who wakes them.
//!
//! The package `interleavings` runs this very file in every order of events that few threads can have.

use crate::sync::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, SPINS_BEFORE_SLEEP, UnsafeCell, fence, park,
    spin_loop, yield_now,
};

/// In `Board::state`: the job takes no more helpers.
const CLOSED: u64 = 1 << 31;
/// In `Board::state`: helpers at work.
const ACTIVE: u64 = CLOSED - 1;
/// A caller that waits for its helpers lets others run after so many polls.
const POLLS_BEFORE_YIELD: u32 = 1_024;

/// Where one caller at a time puts up a job, and helpers look for it.
pub(crate) struct Board<J> {
    /// Generation in the upper half, `CLOSED` and the number of active helpers in the lower.
    state: AtomicU64,
    job: UnsafeCell<J>,
    /// The next task of the present job.
    next: AtomicUsize,
    /// Helpers wanted for the present job; those with a higher index stay away.
    wanted: AtomicU32,
    busy: AtomicBool,
    stop: AtomicBool,
    asleep: Vec<AtomicBool>,
}

// SAFETY: `job` is written only by the caller that holds `busy`, while `CLOSED` is set and no helper is active; helpers read
// it only between raising and lowering the active count of an open job. It comes from another thread (`Send`) and several
// threads read it at once (`Sync`).
unsafe impl<J: Send + Sync> Sync for Board<J> {}

impl<J> Board<J> {
    /// A board for so many helpers; what nobody works at comes first.
    pub(crate) fn new(nothing: J, helpers: usize) -> Board<J> {
        Board {
            state: AtomicU64::new(CLOSED),
            job: UnsafeCell::new(nothing),
            next: AtomicUsize::new(0),
            wanted: AtomicU32::new(0),
            busy: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            asleep: (0..helpers).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// Puts up a job for the first so many helpers and wakes those that sleep; nothing if another caller's is up. Helpers have
    /// the job until what this returns is closed or dropped, and not after: leaking it keeps the board busy for ever.
    pub(crate) fn open(&self, job: J, helpers: usize, wake: impl Fn(usize)) -> Option<Open<'_, J>> {
        if self.busy.swap(true, Ordering::Acquire) {
            return None;
        }
        let open = Open { board: self, is_open: true };
        // SAFETY: `busy` is ours, the job before is closed and nobody is active in it, so nobody reads `job` now.
        self.job.with_mut(|place| unsafe { *place = job });
        self.next.store(0, Ordering::Relaxed);
        self.wanted.store(helpers as u32, Ordering::Relaxed);
        let generation = (self.state.load(Ordering::Relaxed) >> 32).wrapping_add(1);
        self.state.store(generation << 32, Ordering::Release);
        // As between a helper's announcement of sleep and its last look: one of the two sees the other.
        fence(Ordering::SeqCst);
        for (helper, asleep) in self.asleep.iter().enumerate().take(helpers) {
            if asleep.load(Ordering::Relaxed) {
                wake(helper);
            }
        }
        Some(open)
    }

    /// The next task of the present job, if there is one of that many left.
    #[inline]
    pub(crate) fn next_task(&self, tasks: usize) -> Option<usize> {
        let task = self.next.fetch_add(1, Ordering::Relaxed);
        (task < tasks).then_some(task)
    }

    /// The life of the helper of that index: works at each job it is wanted for, until the board is taken down.
    pub(crate) fn help(&self, index: usize, work: impl Fn(&J)) {
        let mut seen = 0;
        while let Some(generation) = self.wait_for_job(index, seen) {
            seen = generation;
            let Some(_inside) = self.enter(generation) else { continue };
            if index < self.wanted.load(Ordering::Relaxed) as usize {
                // SAFETY: we are active in an open job, so the caller neither rewrites it nor takes it away.
                self.job.with(|job| work(unsafe { &*job }));
            }
        }
    }

    /// Takes the board down: helpers go home once they are awake.
    pub(crate) fn take_down(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// The generation of a job newer than `seen`, or `None` when the board is taken down.
    fn wait_for_job(&self, index: usize, seen: u64) -> Option<u64> {
        let mut polls = 0;
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            let generation = self.state.load(Ordering::Acquire) >> 32;
            if generation != seen {
                return Some(generation);
            }
            polls += 1;
            if polls < SPINS_BEFORE_SLEEP {
                spin_loop();
                continue;
            }
            let asleep = &self.asleep[index];
            asleep.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            // Look once more: a job put up before the flag was seen wakes nobody. Who takes the board down wakes everybody.
            if self.state.load(Ordering::Relaxed) >> 32 == seen {
                park();
            }
            asleep.store(false, Ordering::Relaxed);
            polls = 0;
        }
    }

    /// Becomes active in the job of that generation, unless it is closed or over.
    fn enter(&self, generation: u64) -> Option<Inside<'_, J>> {
        let mut state = self.state.load(Ordering::Acquire);
        while state >> 32 == generation && state & CLOSED == 0 {
            match self.state.compare_exchange_weak(state, state + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(Inside(self)),
                Err(now) => state = now,
            }
        }
        None
    }
}

/// A job that is up.
pub(crate) struct Open<'a, J> {
    board: &'a Board<J>,
    is_open: bool,
}

impl<J> Open<'_, J> {
    /// Lets no more helpers in and waits for those inside: from then on nobody has the job.
    pub(crate) fn close(&mut self) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        self.board.state.fetch_or(CLOSED, Ordering::AcqRel);
        let mut polls = 0u32;
        while self.board.state.load(Ordering::Acquire) & ACTIVE != 0 {
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(POLLS_BEFORE_YIELD) {
                yield_now();
            }
            spin_loop();
        }
    }
}

impl<J> Drop for Open<'_, J> {
    fn drop(&mut self) {
        self.close();
        self.board.busy.store(false, Ordering::Release);
    }
}

/// A helper at work. What it does may panic: it goes all the same, or the caller would wait for ever.
struct Inside<'a, J>(&'a Board<J>);

impl<J> Drop for Inside<'_, J> {
    fn drop(&mut self) {
        self.0.state.fetch_sub(1, Ordering::Release);
    }
}
