//! What was asked of a search, how a verdict remembers it, and whether an earlier verdict is enough.

use crate::strategy_name::StrategyName;
use trimtab_core::{Nanos, Patience};
use trimtab_wisdom::Verdict;

/// A verdict's patience when the budget ended measuring: this word, a colon, and the milliseconds of the tuning session it
/// was part of, zero for a race within a call; then, after another colon, the strategy if there was a search.
pub(crate) const PARTIAL: &str = "partial:";
/// A verdict's patience after a search: this word, then the strategy, the evaluations it was limited to, and the share of
/// the roofline it was content with, each after a colon and each a dash where there was none.
const SEARCH: &str = "search:";
const NONE: &str = "-";

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
    /// The text of a completed search.
    fn text(&self) -> String {
        let strategy = self.strategy.map_or(NONE, StrategyName::name);
        let evals = self.evals.map_or(NONE.to_string(), |evals| evals.to_string());
        let share = self.good_enough.map_or(NONE.to_string(), |share| share.to_string());
        format!("{SEARCH}{strategy}:{evals}:{share}")
    }

    /// What a completed search was asked, by its text.
    fn read(text: &str) -> Option<SearchGoal> {
        let mut parts = text.strip_prefix(SEARCH)?.split(':');
        let mut part = || parts.next().map(|part| Some(part).filter(|part| *part != NONE));
        let (strategy, evals, share) = (part()?, part()?, part()?);
        Some(SearchGoal {
            strategy: strategy.map(str::parse).transpose().ok()?,
            evals: evals.map(str::parse).transpose().ok()?,
            good_enough: share.map(str::parse).transpose().ok()?,
        })
    }

    /// Whether a search that was limited by this is enough for one who wants `other`.
    fn covers(&self, other: &SearchGoal) -> bool {
        let strategy = other.strategy.is_none() || other.strategy == self.strategy;
        let evals = self.evals.is_none_or(|had| other.evals.is_some_and(|wanted| had >= wanted));
        let share = self.good_enough.is_none_or(|had| other.good_enough.is_some_and(|wanted| had >= wanted));
        strategy && evals && share
    }
}

/// The patience a verdict is remembered with. `ended_by` is what limited a search, its strategy included; nothing without one.
pub(crate) fn remembered_as(
    complete: bool,
    patience: Patience,
    session: Nanos,
    ended_by: Option<SearchGoal>,
) -> String {
    match (complete, ended_by) {
        (false, Some(SearchGoal { strategy: Some(strategy), .. })) => {
            format!("{PARTIAL}{}:{strategy}", millis(session))
        }
        (false, _) => format!("{PARTIAL}{}", millis(session)),
        (true, Some(ended_by)) => ended_by.text(),
        (true, None) => patience.name().to_string(),
    }
}

/// Whether an earlier verdict is as good as what is asked now.
pub(crate) fn satisfies(
    verdict: &Verdict,
    patience: Patience,
    session: Nanos,
    accept_partial: bool,
    goal: &SearchGoal,
) -> bool {
    if let Ok(had) = verdict.patience.parse::<Patience>() {
        // Whoever names a strategy wants it used, unless nothing is left to find.
        return had == Patience::Exhaustive || (had >= patience && goal.strategy.is_none());
    }
    if let Some(had) = SearchGoal::read(&verdict.patience) {
        return accept_partial || (patience <= Patience::Measure && had.covers(goal));
    }
    let Some(partial) = verdict.patience.strip_prefix(PARTIAL) else { return false };
    let (spent, strategy) = partial.split_once(':').unwrap_or((partial, NONE));
    let Ok(spent) = spent.parse::<u64>() else { return false };
    let same = goal.strategy.is_none_or(|goal| goal.name() == strategy);
    accept_partial || (spent > 0 && spent >= millis(session) && same)
}

/// The search that found the settings a verdict names, and what ended it, where there was one.
pub(crate) fn found_by(verdict: &Verdict) -> Option<SearchGoal> {
    match verdict.patience.strip_prefix(PARTIAL) {
        Some(partial) => {
            let strategy = partial.split_once(':')?.1.parse().ok();
            Some(SearchGoal { strategy, ..SearchGoal::default() })
        }
        None => SearchGoal::read(&verdict.patience),
    }
}

/// How the settings a verdict names were found, in words, where not everything was measured.
pub(crate) fn how_found(verdict: &Verdict) -> Option<String> {
    let SearchGoal { strategy, evals, good_enough } = found_by(verdict)?;
    let mut how = match strategy {
        Some(strategy) => format!("settings were searched by `{strategy}`"),
        None => "settings were raced".to_string(),
    };
    if let Some(evals) = evals {
        how.push_str(&format!(", at most {evals} points measured"));
    }
    if let Some(share) = good_enough {
        how.push_str(&format!(", until {:.0} % of the roofline's speed", share * 100.0));
    }
    Some(how)
}

fn millis(time: Nanos) -> u64 {
    time.0 / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(strategy: Option<&str>, evals: Option<u32>, good_enough: Option<f64>) -> SearchGoal {
        SearchGoal { strategy: strategy.map(|name| name.parse().unwrap()), evals, good_enough }
    }

    fn verdict(patience: String) -> Verdict {
        Verdict { patience, ..Verdict::default() }
    }

    fn enough(had: &str, asked: SearchGoal) -> bool {
        let session = Nanos::from_millis(1000);
        satisfies(&verdict(had.to_string()), Patience::Measure, session, false, &asked)
    }

    #[test]
    fn what_was_asked_survives_as_text() {
        for asked in [
            wanted(None, None, None),
            wanted(Some("hill"), None, Some(0.93)),
            wanted(None, Some(60), None),
            wanted(Some("auto"), Some(u32::MAX), Some(0.5)),
        ] {
            let text = remembered_as(true, Patience::Measure, Nanos(0), Some(asked));
            assert_eq!(SearchGoal::read(&text), Some(asked), "{text}");
            assert!(enough(&text, asked), "{text}");
        }
        for text in ["measure", "search:", "search:hill", "search:nobody:-:-", "search:-:x:-", "partial:7"] {
            assert_eq!(SearchGoal::read(text), None, "{text}");
        }
    }

    #[test]
    fn more_evaluations_another_strategy_or_a_better_share_is_a_new_question() {
        let had = "search:hill:60:-";
        assert!(
            enough(had, wanted(Some("hill"), Some(20), None)) && enough(had, wanted(None, Some(60), None))
        );
        for more in
            [wanted(None, Some(61), None), wanted(None, None, None), wanted(Some("auto"), Some(5), None)]
        {
            assert!(!enough(had, more), "{more:?}");
        }
        assert!(enough("search:auto:-:0.9", wanted(None, None, Some(0.9))));
        assert!(!enough("search:auto:-:0.9", wanted(None, None, Some(0.95))));
        assert!(!enough("search:auto:-:0.9", wanted(None, None, None)));
        // A call takes what there is.
        let (call, session) = (wanted(None, None, None), Nanos(0));
        assert!(satisfies(&verdict(had.to_string()), Patience::Measure, session, true, &call));
        assert!(!satisfies(&verdict(had.to_string()), Patience::Exhaustive, session, false, &call));
    }

    #[test]
    fn a_race_of_everything_is_enough_unless_a_strategy_is_named() {
        assert!(enough("measure", wanted(None, Some(1000), Some(0.9))));
        assert!(!enough("measure", wanted(Some("hill"), None, None)));
        assert!(enough("exhaustive", wanted(Some("hill"), None, None)));
        assert!(
            !enough("estimate", wanted(None, None, None)) && !enough("nonsense", wanted(None, None, None))
        );
    }

    #[test]
    fn what_the_budget_ended_is_enough_for_a_session_of_that_size_and_strategy() {
        let ended_by = Some(wanted(Some("hill"), None, None));
        let text = remembered_as(false, Patience::Measure, Nanos::from_millis(1000), ended_by);
        assert_eq!(text, "partial:1000:hill");
        assert!(
            enough(&text, wanted(None, None, None)) && enough(&text, wanted(Some("hill"), Some(9), None))
        );
        assert!(!enough(&text, wanted(Some("auto"), None, None)));
        assert!(
            !enough("partial:999:hill", wanted(None, None, None))
                && !enough("partial:0", SearchGoal::default())
        );
        assert!(enough("partial:1000", wanted(None, None, None)));
    }

    #[test]
    fn how_settings_were_found_is_told_in_words() {
        let told = |text: &str| how_found(&verdict(text.to_string()));
        assert_eq!(told("measure"), None);
        assert_eq!(told("partial:35"), None);
        assert_eq!(told("search:-:5:-").unwrap(), "settings were raced, at most 5 points measured");
        assert_eq!(told("partial:35:auto").unwrap(), "settings were searched by `auto`");
        let all = told("search:hill:60:0.9").unwrap();
        assert_eq!(
            all,
            "settings were searched by `hill`, at most 60 points measured, until 90 % of the roofline's speed"
        );
    }
}
