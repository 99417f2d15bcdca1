//! What a study found out besides the best: how fast, what matters, what failed.

use crate::outcome::Fault;
use crate::study::Study;
use rustc_hash::FxHashMap;
use serde::Serialize;

/// The most parameters whose pairs are looked at.
const MAX_PAIRS: usize = 120;

/// How much of the variation of the value something explains.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// One parameter, or two.
    pub parameters: Vec<String>,
    /// The share, from zero to one; of two, beyond what each explains alone.
    pub share: f64,
    /// The value of one parameter at which points were best on average, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<String>,
}

/// Failures of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailureCount {
    /// Which way.
    pub fault: Fault,
    /// How many points.
    pub count: usize,
    /// The first of them, in words.
    pub example: String,
    /// What its message was.
    pub message: String,
    /// What it wrote last.
    pub output: Vec<String>,
}

/// The best value after one, two, … points.
pub fn convergence(study: &Study) -> Vec<Option<f64>> {
    let maximise = study.goals().maximise;
    let mut best: Option<f64> = None;
    let mut curve = Vec::with_capacity(study.evaluations().len());
    for known in study.evaluations() {
        if let Some(ran) = known.outcome.ran() {
            let better = best.is_none_or(|best| if maximise { ran.value > best } else { ran.value < best });
            best = if better { Some(ran.value) } else { best };
        }
        curve.push(best);
    }
    curve
}

/// The best value expected after one, two, … of the same points in random order: what the order of the search was worth. A search draws
/// more good points than random would, so that random is flattered by this.
pub fn random_order(study: &Study) -> Vec<f64> {
    let maximise = study.goals().maximise;
    let all = study.evaluations().len();
    let mut ran: Vec<f64> =
        study.evaluations().iter().filter_map(|known| Some(known.outcome.ran()?.value)).collect();
    // Best first.
    ran.sort_by(|a, b| if maximise { b.total_cmp(a) } else { a.total_cmp(b) });
    let Some(worst) = ran.last().copied() else { return Vec::new() };
    (1..=all)
        .map(|drawn| {
            // The chance that the best of those drawn is the nth: none of the better ones is among them, and it is.
            let mut none_better = 1.0;
            let mut expected = 0.0;
            for (rank, value) in ran.iter().enumerate() {
                let left = all - rank;
                let is_drawn = (drawn as f64 / left as f64).min(1.0);
                expected += none_better * is_drawn * value;
                none_better *= 1.0 - is_drawn;
            }
            // Only failures were drawn: as bad as the worst.
            expected + none_better * worst
        })
        .collect()
}

/// What explains the value, most first: single parameters, then pairs. Values are compared as ratios where all are above zero.
///
/// Each is the share of the variance between the groups of equal settings, less what groups of that many would show by chance.
pub fn effects(study: &Study) -> (Vec<Effect>, Vec<Effect>) {
    let rows: Vec<(Vec<usize>, f64)> = study
        .evaluations()
        .iter()
        .filter_map(|known| Some((study.space().places(known.at), known.outcome.ran()?.value)))
        .collect();
    let in_doublings = rows.iter().all(|(_, value)| *value > 0.0);
    let values: Vec<f64> =
        rows.iter().map(|(_, value)| if in_doublings { value.log2() } else { *value }).collect();
    let parameters = study.space().parameters();
    let share_of =
        |axes: &[usize]| explained(&values, |row| axes.iter().map(|axis| rows[row].0[*axis]).collect());
    let singles: Vec<(f64, usize)> = (0..parameters.len()).map(|axis| (share_of(&[axis]), axis)).collect();
    let mut single: Vec<Effect> = singles
        .iter()
        .map(|(share, axis)| Effect {
            parameters: vec![parameters[*axis].name.clone()],
            share: *share,
            best: best_group(&rows, &values, *axis, study.goals().maximise)
                .map(|place| parameters[*axis].values[place].to_string()),
        })
        .collect();
    let mut pairs = Vec::new();
    // One that never changes explains nothing, and of those there may be many.
    let changing: Vec<usize> =
        (0..parameters.len()).filter(|&axis| parameters[axis].values.len() > 1).collect();
    for (nth, &one) in changing.iter().enumerate() {
        for &other in &changing[..nth] {
            if pairs.len() < MAX_PAIRS {
                let beyond = share_of(&[other, one]) - singles[one].0 - singles[other].0;
                let names = vec![parameters[other].name.clone(), parameters[one].name.clone()];
                pairs.push(Effect { parameters: names, share: beyond.max(0.0), best: None });
            }
        }
    }
    single.sort_by(|a, b| b.share.total_cmp(&a.share));
    pairs.sort_by(|a, b| b.share.total_cmp(&a.share));
    pairs.retain(|pair| pair.share > 0.0);
    (single, pairs)
}

/// The share of the variance between groups, corrected for their number (ε²).
fn explained(values: &[f64], group: impl Fn(usize) -> Vec<usize>) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count.max(1.0);
    let total: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    let mut groups: FxHashMap<Vec<usize>, (f64, f64)> = FxHashMap::default();
    for (row, value) in values.iter().enumerate() {
        let known = groups.entry(group(row)).or_default();
        *known = (known.0 + 1.0, known.1 + value);
    }
    let between: f64 = groups.values().map(|(count, sum)| count * (sum / count - mean).powi(2)).sum();
    let free = count - groups.len() as f64;
    if total <= 0.0 || free <= 0.0 {
        return 0.0;
    }
    let noise = (total - between) / free;
    ((between - (groups.len() as f64 - 1.0) * noise) / total).clamp(0.0, 1.0)
}

/// The place of the value whose points were best on average.
fn best_group(rows: &[(Vec<usize>, f64)], values: &[f64], axis: usize, maximise: bool) -> Option<usize> {
    let mut groups: FxHashMap<usize, (f64, f64)> = FxHashMap::default();
    for ((places, _), value) in rows.iter().zip(values) {
        let known = groups.entry(places[axis]).or_default();
        *known = (known.0 + 1.0, known.1 + value);
    }
    let cost = |(count, sum): &(f64, f64)| if maximise { -sum / count } else { sum / count };
    groups.iter().min_by(|a, b| cost(a.1).total_cmp(&cost(b.1)).then(a.0.cmp(b.0))).map(|(place, _)| *place)
}

/// What failed, by kind, most first.
pub fn failures(study: &Study) -> Vec<FailureCount> {
    let mut found: Vec<FailureCount> = Vec::new();
    for known in study.evaluations() {
        let Some(failed) = known.outcome.failed() else { continue };
        match found.iter_mut().find(|count| count.fault == failed.fault) {
            Some(count) => count.count += 1,
            None => found.push(FailureCount {
                fault: failed.fault,
                count: 1,
                example: study.space().point(known.at).words(),
                message: failed.message.clone(),
                output: failed.output.clone(),
            }),
        }
    }
    found.sort_by_key(|count| std::cmp::Reverse(count.count));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Failed, Outcome, Ran};
    use crate::{Goals, Parameter, ParameterSpace, SearchOptions, Setting, SpaceDefinition};
    use std::sync::Arc;

    /// Everything of a × b × c, told in order; c does nothing, and a = 8 fails.
    fn study() -> Study {
        study_beside(0)
    }

    /// The same behind so many parameters of one value.
    fn study_beside(fixed: usize) -> Study {
        let texts = (0..fixed).map(|nth| format!("fixed{nth}=1"));
        let texts = texts.chain(["a=1..8", "b=1..8", "c=1..3"].map(str::to_string));
        let parameters = texts.map(|text| Parameter::parse(&text).unwrap()).collect();
        let space = Arc::new(
            ParameterSpace::new(SpaceDefinition { parameters, ..SpaceDefinition::default() }).unwrap(),
        );
        let mut study = Study::new(Arc::clone(&space), Goals::default(), SearchOptions::default()).unwrap();
        for at in 0..space.len() {
            let point = space.point(at);
            let number = |name: &str| point.get(name).and_then(Setting::number).unwrap();
            let outcome = match number("a") {
                8.0 => Outcome::Failed(Failed::new(Fault::Exit, "exit code 1")),
                a => Outcome::Ran(Ran::of(a * (1.0 + (a - number("b")).abs() / 10.0))),
            };
            study.tell(at, outcome, 1, 0.0).unwrap();
        }
        study
    }

    #[test]
    fn what_matters_comes_first_and_what_does_nothing_explains_nothing() {
        let (single, pairs) = effects(&study());
        assert_eq!((single[0].parameters[0].as_str(), single[0].best.as_deref()), ("a", Some("1")));
        assert!(single[0].share > 0.8, "{single:?}");
        let c = single.iter().find(|effect| effect.parameters == ["c"]).unwrap();
        assert!(c.share < 0.01, "{c:?}");
        assert_eq!(pairs[0].parameters, ["a", "b"]);
    }

    #[test]
    fn parameters_that_never_change_do_not_hide_a_pair() {
        let (_, pairs) = effects(&study_beside(17));
        assert_eq!(pairs[0].parameters, ["a", "b"]);
    }

    #[test]
    fn failures_are_counted_with_an_example() {
        let failed = failures(&study());
        assert_eq!((failed.len(), failed[0].count, failed[0].fault), (1, 24, Fault::Exit));
        assert_eq!(failed[0].example, "a=8 b=1 c=1");
    }

    #[test]
    fn random_order_ends_where_the_search_ends_and_never_gets_worse() {
        let study = study();
        let (found, random) = (convergence(&study), random_order(&study));
        assert_eq!(found.len(), random.len());
        assert!((random[random.len() - 1] - found[found.len() - 1].unwrap()).abs() < 1e-9);
        assert!(random.windows(2).all(|pair| pair[1] <= pair[0] + 1e-9));
        assert_eq!(found[0], Some(1.0));
    }
}
