//! A study: asks for points, is told what came of them, knows the best.

use crate::goals::{Goals, Judge, dominates};
use crate::outcome::{Outcome, Ran};
use crate::space::{NamedPoint, ParameterSpace};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use trimtab_core::RandomNumbers;
use trimtab_tune::search::{Donor, STRATEGIES, Seen, Strategy, strategy};

/// The share of the sum in what several objectives are judged by: keeps points that are no better in anything from looking as good.
const SUM_SHARE: f64 = 0.05;
/// Doublings between the best and the worst as the search sees several objectives.
const SCALE_DOUBLINGS: f64 = 4.0;

/// How a study searches.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// The strategy, one of [`STRATEGIES`].
    pub strategy: String,
    /// The same seed asks for the same points, given the same answers.
    pub seed: u64,
    /// What others know of the same space.
    pub donors: Vec<Donor>,
}

impl Default for SearchOptions {
    fn default() -> SearchOptions {
        SearchOptions { strategy: STRATEGIES[0].to_string(), seed: 0, donors: Vec::new() }
    }
}

/// A point that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Its place in the space; what [`Study::tell`] wants.
    pub at: usize,
    /// Its values.
    pub point: NamedPoint,
}

/// A point and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// Its place in the space.
    pub at: usize,
    /// What came of it.
    pub outcome: Outcome,
    /// How often it was run.
    pub repeats: u32,
    /// When it was told, in seconds since the study began, pauses left out.
    pub seconds: f64,
}

/// Asks and is told.
pub struct Study {
    space: Arc<ParameterSpace>,
    judge: Judge,
    options: SearchOptions,
    search: Box<dyn Strategy>,
    evaluations: Vec<Evaluation>,
    /// Where a point's evaluation is.
    known: FxHashMap<usize, usize>,
    pending: Vec<usize>,
    asked: u64,
    /// Whether values were seen that are not above zero: the search wants times, so that others are told than the values.
    signed: bool,
}

impl Study {
    /// A study of that space.
    pub fn new(space: Arc<ParameterSpace>, goals: Goals, options: SearchOptions) -> Result<Study, String> {
        let judge = Judge::new(goals)?;
        let search = fresh(&space, &options, options.seed)?;
        Ok(Study {
            space,
            judge,
            options,
            search,
            evaluations: Vec::new(),
            known: FxHashMap::default(),
            pending: Vec::new(),
            asked: 0,
            signed: false,
        })
    }

    /// The space.
    pub fn space(&self) -> &Arc<ParameterSpace> {
        &self.space
    }

    /// What it is after.
    pub fn goals(&self) -> &Goals {
        &self.judge.goals
    }

    /// The next point to try, never one that was asked for or told before; nothing when the space is spent.
    pub fn ask(&mut self) -> Option<Asked> {
        let at = self.next()?;
        self.asked += 1;
        self.pending.push(at);
        Some(Asked { at, point: self.space.point(at) })
    }

    /// Several points to try at once. Each is chosen knowing that the others, and all that are pending, are being tried.
    pub fn ask_many(&mut self, count: usize) -> Vec<Asked> {
        std::iter::from_fn(|| self.ask()).take(count).collect()
    }

    fn next(&mut self) -> Option<usize> {
        if self.known.len() + self.pending.len() >= self.space.len() {
            return None;
        }
        let is_known =
            |study: &Study, at: usize| study.known.contains_key(&at) || study.pending.contains(&at);
        if let Some(at) = self.space.default_point().filter(|at| !is_known(self, *at)) {
            return Some(at);
        }
        if !self.judge.is_single() {
            return self.next_of_several();
        }
        loop {
            let at = self.search.ask()?;
            if !is_known(self, at) {
                return Some(at);
            }
        }
    }

    /// Of several objectives each question weighs them anew, at random, and looks for the best by that weight: the points found so
    /// lie all along the front. (Knowles' ParEGO, with our model.)
    fn next_of_several(&mut self) -> Option<usize> {
        let mut numbers =
            RandomNumbers::new(self.options.seed ^ self.asked.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut weights: Vec<f64> =
            (0..=self.judge.goals.objectives.len()).map(|_| numbers.unit() + 1e-3).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= sum);
        let costs: Vec<Option<Vec<f64>>> = self
            .evaluations
            .iter()
            .map(|known| known.outcome.ran().map(|ran| self.judge.costs(ran)))
            .collect();
        let scales: Vec<Scale> = (0..weights.len())
            .map(|goal| Scale::of(costs.iter().flatten().map(|costs| costs[goal])))
            .collect();
        let mut search = fresh(&self.space, &self.options, numbers.bits()).ok()?;
        for (known, costs) in self.evaluations.iter().zip(&costs) {
            let seen = costs.as_ref().map_or(Seen::Failed, |costs| {
                let weighed = costs
                    .iter()
                    .zip(&scales)
                    .zip(&weights)
                    .map(|((cost, scale), weight)| weight * scale.share(*cost));
                let (worst, sum) =
                    weighed.fold((0.0f64, 0.0), |(worst, sum), one| (worst.max(one), sum + one));
                Seen::Time(((worst + SUM_SHARE * sum) * SCALE_DOUBLINGS).exp2())
            });
            search.tell(known.at, seen);
        }
        loop {
            let at = search.ask()?;
            if !self.known.contains_key(&at) && !self.pending.contains(&at) {
                return Some(at);
            }
        }
    }

    /// What came of a point. Points nobody asked for are welcome; a point told twice keeps what was told first, and says so.
    pub fn tell(
        &mut self,
        at: usize,
        outcome: Outcome,
        repeats: u32,
        seconds: f64,
    ) -> Result<&Evaluation, String> {
        if at >= self.space.len() {
            return Err(format!("there is no point {at}; the space has {}", self.space.len()));
        }
        if self.known.contains_key(&at) {
            return Err(format!("the point {} was told already", self.space.point(at).words()));
        }
        self.pending.retain(|asked| *asked != at);
        let outcome = match outcome {
            Outcome::Ran(ran) => self.judge.judge(ran),
            failed => failed,
        };
        let becomes_signed = !self.signed && outcome.ran().is_some_and(|ran| ran.value <= 0.0);
        self.known.insert(at, self.evaluations.len());
        self.evaluations.push(Evaluation { at, outcome, repeats, seconds });
        if becomes_signed {
            self.signed = true;
            self.begin_anew()?;
        } else if self.judge.is_single() {
            let seen = self.evaluations.last().map_or(Seen::Failed, |last| self.seen(&last.outcome));
            self.search.tell(at, seen);
        }
        Ok(&self.evaluations[self.evaluations.len() - 1])
    }

    /// A fresh strategy that knows all that was told: after what it was told means something else.
    pub(crate) fn begin_anew(&mut self) -> Result<(), String> {
        self.search = fresh(&self.space, &self.options, self.options.seed)?;
        for known in 0..self.evaluations.len() {
            let seen = self.seen(&self.evaluations[known].outcome);
            self.search.tell(self.evaluations[known].at, seen);
        }
        Ok(())
    }

    /// A value as the search wants it: a time.
    fn seen(&self, outcome: &Outcome) -> Seen {
        let Some(ran) = outcome.ran() else { return Seen::Failed };
        let maximise = self.judge.goals.maximise;
        if !self.signed {
            return Seen::Time(if maximise { 1.0 / ran.value } else { ran.value });
        }
        // Grows with the value everywhere, like it far above zero, and is never below zero.
        let cost = if maximise { -ran.value } else { ran.value };
        let length = (cost * cost + 1.0).sqrt();
        Seen::Time(if cost < 0.0 { 1.0 / (length - cost) } else { length + cost })
    }

    /// Further samples of a point that ran: its value is that of all of them.
    pub fn again(&mut self, at: usize, samples: &[f64], value: f64) {
        let Some(known) = self.known.get(&at).and_then(|known| self.evaluations.get_mut(*known)) else {
            return;
        };
        if let Outcome::Ran(ran) = &mut known.outcome {
            ran.samples.extend_from_slice(samples);
            ran.value = value;
            known.repeats += samples.len() as u32;
        }
    }

    /// Everything that was told, in order.
    pub fn evaluations(&self) -> &[Evaluation] {
        &self.evaluations
    }

    /// What came of a point.
    pub fn evaluation(&self, at: usize) -> Option<&Evaluation> {
        self.known.get(&at).map(|known| &self.evaluations[*known])
    }

    /// Points that were asked for and not told.
    pub fn pending(&self) -> &[usize] {
        &self.pending
    }

    /// Puts a point among the pending without asking: it is being tried already.
    pub(crate) fn expect(&mut self, at: usize) {
        if !self.known.contains_key(&at) && !self.pending.contains(&at) {
            self.asked += 1;
            self.pending.push(at);
        }
    }

    /// The best point that ran and kept to the limits; of equals the first. Of several objectives the best by the first.
    pub fn best(&self) -> Option<&Evaluation> {
        let cost = |ran: &Ran| self.judge.costs(ran)[0];
        let ran = self.evaluations.iter().filter_map(|known| Some((cost(known.outcome.ran()?), known)));
        ran.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
    }

    /// The points that no other is better than in every objective, by the first objective.
    pub fn front(&self) -> Vec<&Evaluation> {
        let ran: Vec<(Vec<f64>, &Evaluation)> = self
            .evaluations
            .iter()
            .filter_map(|known| Some((self.judge.costs(known.outcome.ran()?), known)))
            .collect();
        let mut front: Vec<&(Vec<f64>, &Evaluation)> =
            ran.iter().filter(|(costs, _)| !ran.iter().any(|(other, _)| dominates(other, costs))).collect();
        front.sort_by(|a, b| a.0[0].total_cmp(&b.0[0]));
        front.into_iter().map(|(_, known)| *known).collect()
    }

    /// How many points failed.
    pub fn failed(&self) -> usize {
        self.evaluations.iter().filter(|known| known.outcome.ran().is_none()).count()
    }

    /// The share of the best value that the best of so many further points is expected to gain, if the strategy has a model of that.
    pub fn expected_gain(&self, points: usize) -> Option<f64> {
        if self.signed || !self.judge.is_single() {
            return None;
        }
        self.search.expected_gain(points).map(|doublings| 1.0 - (-doublings.max(0.0)).exp2())
    }

    /// What this study teaches others of the same parameters.
    pub fn donor(&self) -> Donor {
        let names: Vec<NamedPoint> =
            self.evaluations.iter().map(|known| self.space.point(known.at)).collect();
        let objects: Vec<_> =
            names.iter().map(|point| point.to_json().as_object().cloned().unwrap_or_default()).collect();
        let times = self.evaluations.iter().map(|known| self.seen(&known.outcome).time());
        self.space.donor(objects.iter().zip(times))
    }
}

fn fresh(space: &ParameterSpace, options: &SearchOptions, seed: u64) -> Result<Box<dyn Strategy>, String> {
    let name = &options.strategy;
    strategy(name, space.search(), seed, &options.donors)
        .ok_or_else(|| format!("there is no strategy `{name}`; there are: {}", STRATEGIES.join(", ")))
}

/// Where the values of an objective lie.
struct Scale {
    least: f64,
    most: f64,
    in_doublings: bool,
}

impl Scale {
    fn of(costs: impl Iterator<Item = f64>) -> Scale {
        let (least, most) =
            costs.fold((f64::MAX, f64::MIN), |(least, most), cost| (least.min(cost), most.max(cost)));
        Scale { least, most, in_doublings: least > 0.0 }
    }

    /// From zero for the least to one for the most.
    fn share(&self, cost: f64) -> f64 {
        let at = |value: f64| if self.in_doublings { value.log2() } else { value };
        let width = at(self.most) - at(self.least);
        if width > 0.0 { (at(cost) - at(self.least)) / width } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Failed, Fault};
    use crate::parameter::Parameter;
    use crate::space::SpaceDefinition;
    use crate::{Objective, Setting};

    fn space(parameters: &[&str]) -> Arc<ParameterSpace> {
        let parameters = parameters.iter().map(|text| Parameter::parse(text).unwrap()).collect();
        Arc::new(ParameterSpace::new(SpaceDefinition { parameters, ..SpaceDefinition::default() }).unwrap())
    }

    fn study(goals: Goals, seed: u64) -> Study {
        let options = SearchOptions { seed, ..SearchOptions::default() };
        Study::new(space(&["a=1..20", "b=1..20"]), goals, options).unwrap()
    }

    fn numbers(point: &NamedPoint) -> (f64, f64) {
        let number = |name: &str| point.get(name).and_then(Setting::number).unwrap();
        (number("a"), number("b"))
    }

    fn bowl(point: &NamedPoint) -> f64 {
        let (a, b) = numbers(point);
        (a - 13.0).powi(2) + (b - 5.0).powi(2)
    }

    #[test]
    fn the_best_is_found_up_or_down_above_or_below_zero() {
        for (sign, offset, maximise) in
            [(1.0, 1.0, false), (1.0, -50.0, false), (-1.0, 1000.0, true), (-1.0, 0.0, true)]
        {
            let mut study = study(Goals { maximise, ..Goals::default() }, 3);
            for _ in 0..60 {
                let Asked { at, point } = study.ask().unwrap();
                study.tell(at, Outcome::Ran(Ran::of(offset + sign * bowl(&point))), 1, 0.0).unwrap();
            }
            let best = study.best().unwrap();
            assert_eq!(bowl(&study.space().point(best.at)), 0.0, "{sign} {offset} {maximise}");
        }
    }

    #[test]
    fn several_are_asked_at_once_and_none_twice_and_they_lie_apart() {
        let mut study = study(Goals::default(), 1);
        let mut seen = std::collections::BTreeSet::new();
        while let Some(first) = study.ask() {
            let mut asked = vec![first];
            asked.extend(study.ask_many(7));
            for Asked { at, point } in asked {
                assert!(seen.insert(at), "{} asked twice", point.words());
                study.tell(at, Outcome::Ran(Ran::of(1.0 + bowl(&point))), 1, 0.0).unwrap();
            }
            if seen.len() == 64 {
                assert_eq!(bowl(&study.space().point(study.best().unwrap().at)), 0.0);
            }
        }
        assert_eq!((seen.len(), study.pending().len()), (400, 0));
    }

    #[test]
    fn a_default_point_comes_first_and_failures_are_no_best() {
        let mut parameters = vec![Parameter::parse("a=1..20").unwrap(), Parameter::parse("b=1..20").unwrap()];
        parameters[0] = parameters[0].clone().with_default(&Setting::Integer(7)).unwrap();
        let space =
            ParameterSpace::new(SpaceDefinition { parameters, ..SpaceDefinition::default() }).unwrap();
        let mut study = Study::new(Arc::new(space), Goals::default(), SearchOptions::default()).unwrap();
        let first = study.ask().unwrap();
        assert_eq!(first.point.words(), "a=7 b=1");
        study.tell(first.at, Outcome::Failed(Failed::new(Fault::Crashed, "signal 11")), 1, 0.0).unwrap();
        assert!(study.best().is_none() && study.failed() == 1);
        assert!(
            study.tell(first.at, Outcome::Ran(Ran::of(1.0)), 1, 0.0).unwrap_err().contains("told already")
        );
        assert!(study.tell(4000, Outcome::Ran(Ran::of(1.0)), 1, 0.0).unwrap_err().contains("no point 4000"));
    }

    #[test]
    fn several_objectives_give_a_front() {
        let objectives = vec![Objective::parse("min:cost")];
        let mut study = study(Goals { numbers: vec!["cost".into()], objectives, ..Goals::default() }, 5);
        for _ in 0..80 {
            let Asked { at, point } = study.ask().unwrap();
            let (a, b) = numbers(&point);
            // Faster with more a, dearer with more a; b only costs. The front is b = 1, every a.
            let others = [("cost".to_string(), a + b)].into();
            study.tell(at, Outcome::Ran(Ran { others, ..Ran::of(100.0 / a + b) }), 1, 0.0).unwrap();
        }
        let front = study.front();
        let on_it = front.iter().filter(|known| numbers(&study.space().point(known.at)).1 == 1.0).count();
        assert!(on_it >= 8 && front.len() >= 8, "{on_it} of {}", front.len());
        assert_eq!(numbers(&study.space().point(front[0].at)).0, 20.0);
    }
}
