//! What is asked of a search, how a verdict remembers it, and whether an earlier verdict is enough.

use crate::decide::Ask;
use crate::strategy_name::StrategyName;
use trimtab_core::{Nanos, Patience};
use trimtab_wisdom::Extent;

/// What is asked of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SearchGoal {
    /// The strategy, if one was named.
    pub strategy: Option<StrategyName>,
    /// Most points measured.
    pub evals: Option<u32>,
    /// The share of the roofline's speed that is good enough.
    pub good_enough: Option<f64>,
}

impl SearchGoal {
    /// What searched the settings a verdict names, and what ended it.
    pub(crate) fn of(extent: &Extent) -> SearchGoal {
        SearchGoal {
            strategy: extent.strategy.as_ref().and_then(|name| name.parse().ok()),
            evals: extent.evals,
            good_enough: extent.good_enough_ppm.map(|ppm| f64::from(ppm) / 1e6),
        }
    }

    /// How a verdict remembers a search that was limited by this, or that the budget of a session ended.
    pub(crate) fn extent(&self, complete: bool, patience: Patience, session: Nanos) -> Extent {
        let strategy = self.strategy.map(|strategy| strategy.name().to_string());
        let patience = Some(patience);
        match complete {
            true => {
                let good_enough_ppm = self.good_enough.map(Extent::ppm);
                Extent { patience, strategy, evals: self.evals, good_enough_ppm, ..Extent::default() }
            }
            false => {
                Extent { patience, partial: true, session_ms: millis(session), strategy, ..Extent::default() }
            }
        }
    }
}

/// Whether an earlier verdict is as good as what is asked now.
pub(crate) fn satisfies(had: &Extent, ask: &Ask<'_>) -> bool {
    let Ask { patience, session, accept_partial, goal, behind, .. } = ask;
    if behind.is_some() && (had.partial || had.busy) {
        return false;
    }
    let same = goal.strategy.is_none_or(|goal| had.strategy.as_deref() == Some(goal.name()));
    if had.partial {
        return *accept_partial || (had.session_ms > 0 && had.session_ms >= millis(*session) && same);
    }
    if had.is_limited() {
        let evals = had.evals.is_none_or(|had| goal.evals.is_some_and(|wanted| had >= wanted));
        let wanted = goal.good_enough.map(Extent::ppm);
        let share = had.good_enough_ppm.is_none_or(|had| wanted.is_some_and(|wanted| had >= wanted));
        return *accept_partial || (*patience <= Patience::Measure && same && evals && share);
    }
    // Whoever names a strategy wants it used, unless nothing is left to find.
    had.patience
        .is_some_and(|had| had == Patience::Exhaustive || (had >= *patience && goal.strategy.is_none()))
}

fn millis(time: Nanos) -> u64 {
    time.0 / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_core::{Custom, Terms};
    use trimtab_tune::{Progress, Rules};

    fn wanted(strategy: Option<&str>, evals: Option<u32>, good_enough: Option<f64>) -> SearchGoal {
        SearchGoal { strategy: strategy.map(|name| name.parse().unwrap()), evals, good_enough }
    }

    fn whole(goal: SearchGoal) -> Extent {
        goal.extent(true, Patience::Measure, Nanos(0))
    }

    fn is_enough(had: &Extent, goal: SearchGoal, patience: Patience, in_a_call: bool) -> bool {
        let mut quiet = |_: &Progress| ();
        let ask = Ask {
            problem: Custom::new("p", &[1]).unwrap().into(),
            terms: Terms::default(),
            scope: Default::default(),
            patience,
            budget: Nanos(0),
            session: Nanos::from_millis(if in_a_call { 0 } else { 1000 }),
            accept_partial: in_a_call,
            goal,
            in_force: None,
            behind: None,
            defers: false,
            dry: false,
            rules: Rules::default(),
            progress: &mut quiet,
        };
        satisfies(had, &ask)
    }

    fn enough(had: &Extent, goal: SearchGoal) -> bool {
        is_enough(had, goal, Patience::Measure, false)
    }

    #[test]
    fn what_was_asked_is_remembered() {
        for asked in [
            wanted(None, None, None),
            wanted(Some("hill"), None, Some(0.93)),
            wanted(None, Some(60), None),
            wanted(Some("auto"), Some(u32::MAX), Some(0.5)),
        ] {
            assert_eq!(SearchGoal::of(&whole(asked)), asked);
            assert!(enough(&whole(asked), asked), "{asked:?}");
        }
    }

    #[test]
    fn more_evaluations_another_strategy_or_a_better_share_is_a_new_question() {
        let had = whole(wanted(Some("hill"), Some(60), None));
        assert!(enough(&had, wanted(Some("hill"), Some(20), None)));
        assert!(enough(&had, wanted(None, Some(60), None)));
        for more in
            [wanted(None, Some(61), None), wanted(None, None, None), wanted(Some("auto"), Some(5), None)]
        {
            assert!(!enough(&had, more), "{more:?}");
        }
        let good = whole(wanted(Some("auto"), None, Some(0.9)));
        assert!(enough(&good, wanted(None, None, Some(0.9))));
        assert!(!enough(&good, wanted(None, None, Some(0.95))) && !enough(&good, wanted(None, None, None)));
        // A call takes what there is.
        assert!(is_enough(&had, wanted(None, None, None), Patience::Measure, true));
        assert!(!is_enough(&had, wanted(None, None, None), Patience::Exhaustive, false));
    }

    #[test]
    fn a_race_of_everything_is_enough_unless_a_strategy_is_named() {
        let had = Extent::whole;
        assert!(enough(&had(Patience::Measure), wanted(None, Some(1000), Some(0.9))));
        assert!(!enough(&had(Patience::Measure), wanted(Some("hill"), None, None)));
        assert!(enough(&had(Patience::Exhaustive), wanted(Some("hill"), None, None)));
        assert!(!enough(&had(Patience::Estimate), wanted(None, None, None)));
        assert!(!enough(&Extent::default(), wanted(None, None, None)));
    }

    #[test]
    fn what_the_budget_ended_is_enough_for_a_session_of_that_size_and_strategy() {
        let partial = |ms, strategy| {
            wanted(strategy, None, None).extent(false, Patience::Measure, Nanos::from_millis(ms))
        };
        let had = partial(1000, Some("hill"));
        assert!(enough(&had, wanted(None, None, None)) && enough(&had, wanted(Some("hill"), Some(9), None)));
        assert!(!enough(&had, wanted(Some("auto"), None, None)));
        assert!(!enough(&partial(999, Some("hill")), wanted(None, None, None)));
        assert!(!enough(&partial(0, None), SearchGoal::default()));
        assert!(enough(&partial(1000, None), wanted(None, None, None)));
    }
}
