//! `model`: learns how time depends on the axes, and asks where most is to be gained.
//!
//! Two views of the same measurements take turns, each a Gaussian process with expected improvement and how likely a point
//! is to run at all: one follows slopes, one looks for peaks. When nothing better was found for a while, every other
//! question goes to a part of the space that differs from the best in one setting.
//!
//! On the recorded GPUs either view alone was within 5 % of the optimum after 150 evaluations in 86–90 % of runs, each
//! failing on other spaces; together it is 93 %. What did not help: staying in a part while it improves, looking at other
//! parts earlier, steps to random neighbours, sharper powers of the speed.

use super::donors::{Advice, Donor};
use super::gaussian::Shape;
use super::outlook::Outlook;
use super::told::{Subspace, Told};
use super::view::{Sight, View};
use super::{SearchSpace, Seen, Strategy, subspace};
use std::sync::Arc;
use trimtab_core::RandomNumbers;

/// Points measured before the model is asked; each the farthest from the others of [`SPREAD_DRAWS`] drawn.
const FIRST_LOOKS: usize = 8;
const SPREAD_DRAWS: usize = 10;
/// From so many tried points on the views take turns, two questions each.
const TURNS_FROM: usize = 10;
/// Candidates kept from question to question, drawn anew for each, and drawn two or three settings away from the best.
const POOL: usize = 150;
const FRESH: usize = 100;
const MOVES: usize = 160;
/// The neighbours of this many of the best points, and of the best candidates, are candidates.
const LEADERS: usize = 4;
const CLIMBED: usize = 2;
/// Answers without a new best after which every second question goes elsewhere.
const PATIENCE: usize = 15;
/// With donors: their favourites measured first, and favourites that are always candidates.
const FOLLOWED: usize = 4;
const ADVISED: usize = 100;
/// With donors, every so many questions up to so many are about neighbours of the best only.
const LOCAL_EVERY: usize = 3;
const LOCAL_UNTIL: usize = 40;
/// Answers without a new best after which donors are not listened to until there is one.
const ADVICE_PATIENCE: usize = 15;
/// Points that are being measured and are looked at: who never tells must not make every question longer.
const MAX_PENDING: usize = 64;
/// In deviations from the mean: a part of the space that was never tried is entered as if its best were this slow.
const ENTERED_AT: f64 = 2.0;

/// Search by a model of the space.
pub(super) struct Model {
    told: Told,
    numbers: RandomNumbers,
    views: [View; 2],
    advice: Option<Advice>,
    /// Points that were asked for and not yet told: who measures several at a time asks before earlier ones are known.
    pending: Vec<usize>,
    /// What the view that follows slopes last expected of the whole space.
    outlook: Option<Outlook>,
}

impl Model {
    /// A search of that seed.
    pub(super) fn new(space: Arc<SearchSpace>, seed: u64) -> Model {
        let shapes = Arc::new(space.axes().iter().map(Shape::of).collect());
        Model {
            told: Told::new(space),
            numbers: RandomNumbers::new(seed),
            views: [View::new(Sight::Slopes, &shapes), View::new(Sight::Peaks, &shapes)],
            advice: None,
            pending: Vec::new(),
            outlook: None,
        }
    }

    /// The same, starting from what others know of this kernel.
    pub(super) fn with_donors(mut self, donors: &[Donor]) -> Model {
        self.advice = Advice::new(&self.told.space, donors);
        self
    }

    /// An untried point far from everything tried.
    fn far_from_all(&mut self) -> Option<usize> {
        let mut farthest: Option<(f64, usize)> = None;
        for _ in 0..SPREAD_DRAWS {
            let at = self.told.tried.draw(&mut self.numbers)?;
            let known = self.told.places().chain(self.pending.iter().copied());
            let distances = known.map(|other| self.told.space.distance(at, other));
            let near = distances.fold(f64::MAX, f64::min);
            if farthest.is_none_or(|(far, _)| near > far) {
                farthest = Some((near, at));
            }
        }
        farthest.map(|(_, at)| at)
    }

    /// The donors, unless they led nowhere for a while: then not until something better is found.
    fn advice(&self) -> Option<&Advice> {
        self.advice.as_ref().filter(|_| self.told.idle <= ADVICE_PATIENCE)
    }

    /// The donors' favourite that was not tried.
    fn favourite(&self) -> Option<usize> {
        self.advice.as_ref()?.ranked.iter().copied().find(|at| !self.told.tried.has(*at))
    }

    fn choose(&mut self) -> Option<usize> {
        let turn = self.told.tried.count();
        let listening = self.advice().is_some();
        let peaks = turn >= TURNS_FROM && (turn / 2).is_multiple_of(2) && !listening;
        let Model { told, numbers, views, advice, pending, outlook } = self;
        let view = &mut views[usize::from(peaks)];
        let mut subspace = None;
        if told.idle > PATIENCE && turn.is_multiple_of(2) {
            subspace = if peaks { subspace::any(told, numbers) } else { subspace::promising(told, numbers) };
        }
        let targets = view.targets(told, subspace);
        // What the donors explain is left out of what the view learns, and added again to what it expects.
        let advice = advice.as_ref();
        let weights = match advice.filter(|_| listening) {
            Some(advice) => {
                let places: Vec<usize> = told.observed.iter().map(|(at, _)| *at).collect();
                advice.weights(&places, &targets.values, targets.scale)
            }
            None => Vec::new(),
        };
        let advised = |at: usize| advice.map_or(0.0, |advice| advice.expects(at, &weights));
        let seen = || told.observed.iter().zip(&targets.values);
        let rest: Vec<f64> = seen().map(|((at, _), value)| value - advised(*at)).collect();
        view.learn(told, &rest, numbers);
        let kept = if subspace.is_some() { std::mem::take(&mut view.pool) } else { Vec::new() };
        gather(&mut view.pool, told, numbers, advice, subspace);
        // Within a part of the space the best of the part is to be beaten.
        let inside = seen().filter(|((at, _), _)| told.is_inside(*at, subspace));
        let best = inside.map(|(_, value)| *value).fold(ENTERED_AT, f64::min);
        let expected = match pending.is_empty() {
            true => view.rank(told, best, &advised),
            false => view.rank_beside(told, &rest, pending, best, &advised),
        };
        if !peaks && subspace.is_none() {
            *outlook = Some(expected.in_units_of(1.0 / targets.scale));
        }
        let chosen = view.pool.first().copied();
        if subspace.is_some() {
            view.pool = kept;
        }
        chosen
    }
}

/// Fills the pool with untried points worth a look.
fn gather(
    pool: &mut Vec<usize>,
    told: &Told,
    numbers: &mut RandomNumbers,
    advice: Option<&Advice>,
    subspace: Option<Subspace>,
) {
    let (space, tried) = (&told.space, &told.tried);
    let leaders = told.leaders();
    let around_the_best = || {
        let is_turn = tried.count() < LOCAL_UNTIL && tried.count().is_multiple_of(LOCAL_EVERY);
        let (at, _) = told.best.filter(|_| is_turn && advice.is_some())?;
        let mut near = Vec::new();
        space.neighbours(at, &mut near);
        near.iter().any(|at| !tried.has(*at)).then_some(near)
    };
    pool.retain(|at| !tried.has(*at));
    pool.truncate(POOL);
    let mut centres: Vec<usize> = pool.iter().take(CLIMBED).copied().collect();
    centres.extend(leaders.iter().take(LEADERS));
    if subspace.is_some() {
        centres.extend(leaders.iter().filter(|at| told.is_inside(**at, subspace)).take(LEADERS));
    }
    for at in centres {
        space.neighbours(at, pool);
    }
    let mut digits = vec![0u16; space.axes().len()];
    for turn in 0..MOVES {
        let Some(&from) = leaders.get(turn % LEADERS) else { continue };
        digits.copy_from_slice(space.digits(from));
        for _ in 0..2 + turn % 2 {
            let axis = numbers.below(digits.len());
            digits[axis] = numbers.below(space.axes()[axis].values.len()) as u16;
        }
        pool.extend(space.find(&digits));
    }
    pool.extend((0..FRESH).filter_map(|_| tried.draw(numbers)));
    if let Some(advice) = advice {
        pool.extend(advice.ranked.iter().filter(|at| !tried.has(**at)).take(ADVISED));
    }
    if let Some(near) = around_the_best() {
        *pool = near;
    }
    pool.sort_unstable();
    pool.dedup();
    pool.retain(|at| !tried.has(*at) && told.is_inside(*at, subspace));
}

impl Strategy for Model {
    fn name(&self) -> &'static str {
        "model"
    }

    fn ask(&mut self) -> Option<usize> {
        if self.told.tried.is_full() {
            return None;
        }
        let first_looks = if self.advice.is_some() { FOLLOWED } else { FIRST_LOOKS };
        let chosen = if self.told.tried.count() < first_looks {
            self.favourite().or_else(|| self.far_from_all())
        } else if self.told.observed.len() < 2 {
            self.far_from_all()
        } else {
            self.choose()
        };
        let at = chosen.or_else(|| self.told.tried.draw(&mut self.numbers))?;
        self.told.tried.add(at);
        self.pending.push(at);
        if self.pending.len() > MAX_PENDING {
            self.pending.remove(0);
        }
        Some(at)
    }

    fn tell(&mut self, at: usize, seen: Seen) {
        self.pending.retain(|asked| *asked != at);
        self.told.tell(at, seen);
    }

    fn expected_gain(&self, points: usize) -> Option<f64> {
        self.outlook.as_ref().and_then(|outlook| outlook.gain(points))
    }
}
