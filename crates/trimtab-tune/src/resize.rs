//! Live resize: which value of one ordered setting a running kernel should have, from what its launches took.
//!
//! A search surveys the ladder, moves to the best, and from there looks at what the survey left open: values between, and
//! those that one disturbed launch may have spoken against. No value is looked at more than twice, so a search over n values
//! makes at most 2n + 2 changes, and it never goes from one value to another, back, and there again. After that the value
//! stays until throughput has shifted for a whole dwell; each further search asks for twice the dwell of the one before.

mod margins;
mod window;

pub use margins::{Margins, Observed};
use window::Window;

/// Launches within which a clean 2× is found: a search spends no more on its survey where throughput does not scatter.
const SURVEY: u32 = 8;
/// Values of the ladder a survey looks at beside the present one; between them the search halves its steps.
const SURVEYED: usize = 5;
/// Passes of one search: a survey and two that look at what it left open.
const MAX_PASSES: u32 = 3;
/// Looks one search takes at other values.
const MAX_PROBES: u32 = 20;
/// Observations of the present value before the first change; more where the ladder is short.
const BASELINE: usize = 3;
/// Observations of the present value, and of a value close to the best, where throughput scatters.
const NOISY_BASELINE: usize = 40;
const NOISY_LOOKS: usize = 56;
/// Fewest observations a value is judged worse by where throughput scatters.
const NOISY_LEAST: usize = 5;
/// Observations after which the winner is believed.
const CONFIRMED: usize = 6;
const NOISY_CONFIRMED: usize = 16;
/// Standard errors by which a value must lie below the best to be left early.
const CLEARLY: f64 = 3.0;
/// The first observations of a value scatter by less than this (in doublings): throughput is clean.
const CLEAN: f64 = 0.11;
/// A standard deviation (in doublings) above which throughput is not clean after all.
const CLEAN_DEVIATION: f64 = 0.065;
/// The median's standard error over that of the mean.
const MEDIAN_ERROR: f64 = 1.2533;
/// A value so far below the present one (in doublings of throughput) ends the way in its direction.
const DEEP: f64 = -2.0;
/// Values nobody looked at are worth a look beside one that is at most so far below the best.
const NEAR: f64 = -1.0;
/// Idle share from which growing is tried first.
const IDLE: f64 = 0.25;
/// Observations of a settled value looked at together: throughput must have shifted in each of those of a dwell.
const WATCHED: usize = 16;
const NOISY_WATCHED: usize = 32;
/// The dwell grows no further than this.
const MAX_DWELL: u32 = 1 << 20;

/// One value of the ladder and what this search saw of it.
#[derive(Clone, Copy, Debug, Default)]
struct Rung {
    value: u32,
    /// log2 of work per nanosecond.
    level: Option<f64>,
    looks: usize,
    surveyed: bool,
    /// Whether it was looked at a second time.
    again: bool,
    refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Observing the value the search starts from.
    Baseline,
    /// Observing another.
    Probe,
    /// Observing the winner.
    Confirm,
    Settled,
}

/// A controller for one ordered setting of a running kernel. Deterministic; [`observe`](Resize::observe) does not allocate.
///
/// ```
/// use trimtab_core::Nanos;
/// use trimtab_tune::{Margins, Observed, Resize};
/// let mut width = Resize::new(&[32, 64, 128, 256, 512], 32, Margins::default());
/// for _ in 0..8 {
///     // At 512 a launch takes half as long.
///     let busy = if width.value() == 512 { Nanos(500) } else { Nanos(1_000) };
///     width.observe(Observed { work: 1.0, busy, idle: Nanos(0) });
/// }
/// assert_eq!(width.value(), 512);
/// ```
#[derive(Clone, Debug)]
pub struct Resize {
    rungs: Box<[Rung]>,
    enter: f64,
    leave: f64,
    phase: Phase,
    /// The rung in force, and the one the search started from.
    at: usize,
    home: usize,
    /// The rung in force before.
    before: usize,
    window: Window,
    /// Observations of this search.
    seen: u32,
    /// Observations the rung in force gets while throughput is clean.
    looks: usize,
    /// Values this search looked at.
    probes: u32,
    /// Whether throughput scatters little, and whether first observations are slower than later ones.
    clean: bool,
    warms: bool,
    /// The pass of this search: the survey, then what is left to look at from its winner.
    passes: u32,
    /// One standard deviation, in doublings.
    noise: f64,
    /// The rungs still worth a look lie between these; beyond, throughput was less than half.
    low: usize,
    high: usize,
    /// The direction tried first.
    up: bool,
    busy: f64,
    idle: f64,
    /// The settled throughput, and for how many observations it has been above (positive) or below.
    reference: Option<f64>,
    shifted: i64,
    dwell: u32,
    searches: u32,
    changes: u32,
    /// The rung the last search started from and the throughput over it in doublings.
    told: (usize, f64),
    /// The rung the search started from, and its throughput.
    origin: (usize, f64),
}

impl Resize {
    /// A controller over the values of a ladder, in any order, that starts at the one nearest to `start` within floor and
    /// ceiling. A margin that is not a number above one counts as one: any gain is taken, any shift is looked into.
    pub fn new(ladder: &[u32], start: u32, margins: Margins) -> Resize {
        let within = |value: &&u32| (margins.floor..=margins.ceiling).contains(*value);
        let mut values: Vec<u32> = ladder.iter().filter(within).copied().collect();
        if values.is_empty() {
            values.push(start.clamp(margins.floor, margins.ceiling.max(margins.floor)));
        }
        values.sort_unstable();
        values.dedup();
        let rung = |value| Rung { value, ..Rung::default() };
        let rungs: Box<[Rung]> = values.into_iter().map(rung).collect();
        let at = (0..rungs.len()).min_by_key(|&rung| rungs[rung].value.abs_diff(start)).unwrap_or(0);
        let doublings = |margin: f64| if margin > 1.0 { margin.log2() } else { 0.0 };
        let enter = doublings(margins.enter);
        let mut resize = Resize {
            high: rungs.len() - 1,
            rungs,
            enter,
            leave: doublings(margins.leave).max(enter),
            phase: Phase::Baseline,
            at,
            home: at,
            before: usize::MAX,
            window: Window::EMPTY,
            seen: 0,
            looks: 0,
            probes: 0,
            clean: true,
            warms: false,
            passes: 1,
            noise: 0.0,
            low: 0,
            up: true,
            busy: 0.0,
            idle: 0.0,
            reference: None,
            shifted: 0,
            dwell: margins.dwell.max(1),
            searches: 1,
            changes: 0,
            told: (at, 0.0),
            origin: (at, 0.0),
        };
        resize.search();
        resize
    }

    /// The value in force.
    pub fn value(&self) -> u32 {
        self.rungs[self.at].value
    }

    /// Whether the search is over; the value stays unless throughput shifts.
    pub fn settled(&self) -> bool {
        self.phase == Phase::Settled || self.rungs.len() == 1
    }

    /// How often the value changed, looks at other values included.
    pub fn changes(&self) -> u32 {
        self.changes
    }

    /// How often it searched.
    pub fn searches(&self) -> u32 {
        self.searches
    }

    /// The value the last finished search started from, and how many times its throughput the present value has.
    pub fn gain(&self) -> (u32, f64) {
        (self.rungs[self.told.0].value, self.told.1.exp2())
    }

    /// Why the value in force is what it is.
    pub fn why(&self) -> String {
        let value = self.value();
        let (from, gain) = self.gain();
        let left = self.dwell;
        match self.phase {
            _ if self.rungs.len() == 1 => format!("{value}: there is no other value"),
            Phase::Baseline => format!("{value}: measured before others are tried"),
            Phase::Probe => format!("{value}: tried, from {}", self.rungs[self.home].value),
            Phase::Confirm => format!("{value}: the best seen, measured once more"),
            Phase::Settled if from == value => {
                format!(
                    "{value}: nothing is clearly better; doubted when throughput shifts for {left} launches"
                )
            }
            Phase::Settled => format!(
                "{value}: {gain:.1}× the throughput of {from}; doubted when throughput shifts for {left} launches"
            ),
        }
    }

    /// Takes in what a launch at the value in force did; a new value if it should change now. What is no throughput
    /// (nothing done, no time, not a number) is ignored.
    pub fn observe(&mut self, seen: Observed) -> Option<u32> {
        let level = (seen.work / seen.busy.0 as f64).log2();
        if !level.is_finite() || self.rungs.len() == 1 {
            return None;
        }
        self.busy += seen.busy.0 as f64;
        self.idle += seen.idle.0 as f64;
        self.seen = self.seen.saturating_add(1);
        self.window.push(level);
        let before = self.at;
        match self.phase {
            Phase::Baseline => self.baseline(),
            Phase::Probe => self.probe(),
            Phase::Confirm => self.confirm(),
            Phase::Settled => self.watch(),
        }
        (self.at != before).then(|| self.value())
    }

    /// The value in force cannot be used: it is left out for good. The value to use instead: another to look at, or the
    /// best so far.
    pub fn refuse(&mut self) -> u32 {
        self.rungs[self.at].refused = true;
        self.rungs[self.at].level = None;
        if self.at == self.home {
            // Nothing is known of any other: the nearest that was not refused, as a new start.
            let open = |&rung: &usize| !self.rungs[rung].refused;
            let nearest = (0..self.rungs.len()).filter(open).min_by_key(|rung| rung.abs_diff(self.home));
            self.enter_rung(nearest.unwrap_or(self.home));
            self.search();
        } else {
            self.advance();
        }
        self.value()
    }

    /// Starts a search from the rung in force.
    fn search(&mut self) {
        self.phase = Phase::Baseline;
        self.home = self.at;
        (self.low, self.high) = (0, self.rungs.len() - 1);
        (self.seen, self.shifted, self.probes, self.passes) = (0, 0, 0, 1);
        self.window.clear();
        (self.busy, self.idle, self.noise) = (0.0, 0.0, 0.0);
        (self.clean, self.warms) = (true, false);
        for rung in &mut self.rungs {
            (rung.level, rung.looks, rung.surveyed, rung.again) = (None, 0, false, false);
        }
        let last = self.rungs.len() - 1;
        if last <= SURVEYED {
            self.rungs.iter_mut().for_each(|rung| rung.surveyed = true);
        } else {
            // Evenly over the ladder, both ends among them.
            for nth in 0..SURVEYED {
                let even = (nth * last + (SURVEYED - 1) / 2) / (SURVEYED - 1);
                let beside = if even < last { even + 1 } else { even - 1 };
                self.rungs[if even == self.home { beside } else { even }].surveyed = true;
            }
        }
    }

    /// Survey rungs still to be looked at.
    fn left(&self) -> u32 {
        (0..self.rungs.len()).filter(|&rung| self.rungs[rung].surveyed && self.is_open(rung)).count() as u32
    }

    fn is_open(&self, rung: usize) -> bool {
        let Rung { level, refused, .. } = self.rungs[rung];
        // The second pass of a search passes through a third value before it looks again at the one it came from.
        let swings = self.passes > 1 && self.at == self.home && self.before == rung;
        (self.low..=self.high).contains(&rung)
            && rung != self.home
            && rung != self.at
            && level.is_none()
            && !refused
            && !swings
    }

    fn baseline(&mut self) {
        let spare = (SURVEY - BASELINE as u32).saturating_sub(self.left()) as usize;
        let mut needed = BASELINE + spare / 2;
        if self.window.count() == needed && self.passes == 1 {
            self.warms = self.window.range(0) > CLEAN;
        }
        if self.warms {
            needed += 1;
        }
        if self.window.count() < needed {
            return;
        }
        let from = usize::from(self.warms || self.passes > 1);
        if self.window.count() == needed {
            self.clean = self.passes == 1 && self.window.range(from) <= CLEAN;
        }
        if !self.clean && self.window.count() < NOISY_BASELINE {
            return;
        }
        self.keep(from);
        if self.passes == 1 {
            self.origin = (self.at, self.window.middle(from));
        }
        self.up = match self.idle > IDLE * (self.busy + self.idle) {
            true => true,
            false => self.rungs.len() - 1 - self.home >= self.home,
        };
        self.advance();
    }

    fn probe(&mut self) {
        let best = self.best();
        let (level, looks) =
            self.rungs[best].level.map_or((f64::MIN, 1), |level| (level, self.rungs[best].looks));
        let mine = self.reading();
        if self.clean && self.window.count() >= BASELINE && self.window.range(1) > 2.0 * CLEAN {
            self.clean = false;
        }
        let done = if self.clean {
            let fallen = self.has_fallen(mine) && self.is_on_the_way();
            let looks = if fallen { self.looks.max(2) } else { self.looks };
            // A first launch may be slow, never fast: what already wins needs no second look.
            self.window.count() >= looks || mine > level + self.enter
        } else {
            let noise = self.noise.max(self.window.deviation());
            let error =
                MEDIAN_ERROR * noise * (1.0 / self.window.count_from(1) as f64 + 1.0 / looks as f64).sqrt();
            // Disturbed launches are slow: a value is left early only if the best of them fell short too.
            let fastest = self.window.most(1);
            let worse = mine < level - CLEARLY * error && fastest < level;
            self.window.count() > NOISY_LOOKS || (self.window.count() > NOISY_LEAST && worse)
        };
        if !done {
            return;
        }
        let helped = mine > level;
        self.keep(1);
        self.rungs[self.at].level = Some(mine);
        if self.has_fallen(mine) && self.rungs[self.at].surveyed {
            match self.at > self.home {
                true => self.high = self.high.min(self.at),
                false => self.low = self.low.max(self.at),
            }
        }
        if !helped && self.idle <= IDLE * (self.busy + self.idle) {
            self.up = self.at < self.home;
        }
        self.advance();
    }

    /// Whether the rung in force has far less throughput than the one the pass started from.
    fn has_fallen(&self, level: f64) -> bool {
        self.rungs[self.home].level.is_some_and(|home| level < home + DEEP)
    }

    /// Whether rungs lie beyond the one in force that a deep fall would keep from being looked at.
    fn is_on_the_way(&self) -> bool {
        match self.at > self.home {
            true => self.at < self.high,
            false => self.at > self.low,
        }
    }

    fn confirm(&mut self) {
        let needed = if self.clean { CONFIRMED } else { NOISY_CONFIRMED };
        if self.window.count() <= needed {
            return;
        }
        let (level, deviation) = (self.window.middle(1), self.window.deviation());
        let believed = self.rungs[self.at].level.unwrap_or(level);
        let moved = (level - believed).abs() > self.leave;
        let lucky = self.clean && deviation > CLEAN_DEVIATION;
        // Between two values a second search would swing; with more it passes through a third.
        if (moved || lucky) && self.passes == 1 && self.rungs.len() > 2 {
            let window = self.window.clone();
            self.search();
            (self.window, self.clean, self.passes) = (window, false, 2);
            return;
        }
        self.noise = self.noise.max(deviation);
        if self.passes < MAX_PASSES && self.reopen(level) {
            return self.advance();
        }
        self.settle(level);
    }

    /// Starts the second pass from the winner of the survey, if there is something to look at: values between those of
    /// the survey, and those seen by one launch only that may have been disturbed.
    fn reopen(&mut self, level: f64) -> bool {
        self.passes += 1;
        self.home = self.at;
        (self.low, self.high) = (0, self.rungs.len() - 1);
        self.rungs[self.at].level = Some(level);
        self.rungs[self.at].looks = self.window.count();
        self.rungs.iter_mut().for_each(|rung| rung.surveyed = false);
        // What the first launch at the winner took longer than later ones, others' first launches may have taken too.
        let warming = ((-self.window.first()).exp2() - (-level).exp2()).max(0.0);
        for at in 0..self.rungs.len() {
            let Rung { level: Some(seen), looks: 1, again: false, .. } = self.rungs[at] else { continue };
            let of = |rung: usize| self.rungs[rung].level.map(|level| (rung, level));
            let is_doubtful = match ((0..at).rev().find_map(of), (at + 1..self.rungs.len()).find_map(of)) {
                _ if (-seen).exp2() - warming < (-level - self.enter).exp2() => true,
                (Some(below), Some(above)) => seen + CLEAN < below.1.min(above.1),
                (Some((rung, _)), None) | (None, Some((rung, _))) => rung == self.home,
                (None, None) => false,
            };
            self.rungs[at].surveyed = is_doubtful;
        }
        for rung in self.rungs.iter_mut().filter(|rung| rung.surveyed) {
            (rung.level, rung.again) = (None, true);
        }
        self.next().is_some()
    }

    fn settle(&mut self, level: f64) {
        self.phase = Phase::Settled;
        self.reference = None;
        let (origin, before) = self.origin;
        self.told = (origin, if self.at == origin { 0.0 } else { level - before });
        self.window.clear();
        self.shifted = 0;
        if self.searches > 1 {
            self.dwell = self.dwell.saturating_mul(2).min(MAX_DWELL);
        }
    }

    /// Counts for how many observations a settled throughput has been elsewhere.
    fn watch(&mut self) {
        let watched = if self.clean { WATCHED } else { NOISY_WATCHED };
        let Some(reference) = self.reference else {
            if self.window.count() == 2 * watched {
                self.reference = Some(self.window.middle(0));
                self.window.clear();
            }
            return;
        };
        if self.window.count() < watched {
            return;
        }
        let shift = self.window.middle(0) - reference;
        let error = MEDIAN_ERROR * self.noise / (watched as f64).sqrt();
        self.window.clear();
        let step = watched as i64;
        self.shifted = match shift.abs() > self.leave.max(CLEARLY * error) {
            true if shift > 0.0 => self.shifted.max(0) + step,
            true => self.shifted.min(0) - step,
            false => 0,
        };
        // More than one window: a burst of disturbed launches is no shift.
        if self.shifted.unsigned_abs() >= u64::from(self.dwell).max(2 * step as u64) {
            self.searches = self.searches.saturating_add(1);
            self.search();
        }
    }

    /// To the next rung worth a look, or to the winner.
    fn advance(&mut self) {
        if let Some((next, looks)) = self.next() {
            self.looks = looks;
            self.probes += 1;
            self.phase = Phase::Probe;
            self.enter_rung(next);
            return;
        }
        let best = self.best();
        let gain = |rung: usize| self.rungs[rung].level.unwrap_or(f64::MIN);
        let winner = if gain(best) > gain(self.home) + self.enter { best } else { self.home };
        self.phase = Phase::Confirm;
        self.enter_rung(winner);
    }

    fn enter_rung(&mut self, rung: usize) {
        self.window.clear();
        if rung != self.at {
            (self.before, self.at) = (self.at, rung);
            self.changes = self.changes.saturating_add(1);
        }
    }

    /// The next rung and how many looks it gets: of the survey the nearest in the direction that helped, then the middle
    /// of the wider gap beside the best.
    fn next(&self) -> Option<(usize, usize)> {
        let surveyed = |rung: &usize| self.rungs[*rung].surveyed && self.is_open(*rung);
        let above = (self.home + 1..self.rungs.len()).find(surveyed);
        let below = (0..self.home).rev().find(surveyed);
        let least = if self.warms { 2 } else { 1 };
        if let Some(next) = if self.up { above.or(below) } else { below.or(above) } {
            let spare = (SURVEY.saturating_sub(self.seen) / self.left().max(1)) as usize;
            let least = if self.passes > 1 { 2 } else { least };
            return Some((next, spare.clamp(least, BASELINE)));
        }
        // What lies between is looked at from the best of the survey.
        if self.passes == 1 {
            return None;
        }
        let best = self.best();
        let unseen = |rung: &usize| self.rungs[*rung].level.is_none();
        let open = |rung: &usize| self.is_open(*rung);
        let above = (best + 1..=self.high).take_while(unseen).filter(open);
        let below = (self.low..best).rev().take_while(unseen).filter(open);
        let (wide, narrow) = (above.clone().count(), below.clone().count());
        let middle = match wide >= narrow {
            true => above.clone().nth(wide.saturating_sub(1) / 2),
            false => below.clone().nth(narrow.saturating_sub(1) / 2),
        };
        let middle = middle.or_else(|| self.hidden(best));
        middle.filter(|_| self.probes < MAX_PROBES).map(|next| (next, 2))
    }

    /// A rung nobody looked at beside one that is not far below the best.
    fn hidden(&self, best: usize) -> Option<usize> {
        let most = self.rungs[best].level?;
        let near = |rung: Option<&Rung>| {
            rung.is_some_and(|rung| rung.level.is_some_and(|level| level > most + NEAR))
        };
        (0..self.rungs.len())
            .filter(|&rung| self.is_open(rung))
            .find(|&rung| near(self.rungs.get(rung.wrapping_sub(1))) || near(self.rungs.get(rung + 1)))
    }

    /// The rung with the most throughput seen in this search.
    fn best(&self) -> usize {
        let level = |rung: usize| self.rungs[rung].level.unwrap_or(f64::MIN);
        let better = |best: usize, rung: usize| if level(rung) > level(best) { rung } else { best };
        (0..self.rungs.len()).fold(self.home, better)
    }

    /// Keeps what was seen of the rung in force, from the `from`th observation on.
    fn keep(&mut self, from: usize) {
        self.noise = self.noise.max(if self.clean { 0.0 } else { self.window.deviation() });
        let level = self.window.middle(from);
        let rung = &mut self.rungs[self.at];
        rung.level = Some(level);
        rung.looks = self.window.count_from(from);
    }

    /// What is known of the rung in force: with few observations the best, as a first one is slow and never fast.
    fn reading(&self) -> f64 {
        match self.window.count() {
            0..=2 => self.window.most(0),
            _ => self.window.middle(1),
        }
    }
}
