//! What happens on the way to a decision and after it, as data. People read the sentences, programs the fields.

use crate::plan::{Reason, Rival};
use crate::strategy_name::StrategyName;
use crate::why::Why;
use serde::Serialize;
use std::fmt;
use trimtab_core::{FailureKind, Nanos};
use trimtab_wisdom::Extent;

/// One event of a decision. Rivals are named by their position in its list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "event")]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields are named for what they hold; each event says what happened")]
pub enum Event {
    /// Enumerate: every device, kernel and legal setting was listed.
    Enumerated { rivals: usize },
    /// Rules: no other device than the processor may be used.
    Disabled,
    /// Rules: what the user said about kernels leaves these out.
    LeftOut { kernels: Vec<String>, rule: String },
    /// Rules: what the user said about kernels cannot be followed as it stands.
    Unheeded { rule: String, why: String },
    /// Rules: what the user said leaves no place for some.
    Overruled { why: Why, rule: String },
    /// Rules: what the user said cannot be followed.
    NoPlace { rule: String },
    /// Recall: the winner of an earlier race counts, and is chosen.
    Recalled { rival: usize, extent: Extent },
    /// Recall: the set of rivals is not the one an earlier race was about.
    Challenged { dry: bool },
    /// Estimate: a device cannot win.
    Dominated { device: String, reason: String },
    /// Predict: what other problems teach was enough to choose by.
    Predicted { rival: usize, model: String, loss: f64 },
    /// Nothing may be measured: this is what a call would begin with.
    Foreseen,
    /// Measure: begins, with that strategy where one was asked for.
    Measuring { strategy: Option<StrategyName> },
    /// Measure: nothing was measured on a device.
    NotMeasured { device: String, why: Unmeasured },
    /// Measure: nobody can say what is good enough on a device.
    NoRoofline { device: String },
    /// Measure: only those raced that other problems speak for.
    Shortlisted { rivals: usize },
    /// Measure: rivals raced.
    Raced { device: String, rivals: usize, runs: u32, winner: Option<usize> },
    /// Measure: others used a device, or the machine around it, meanwhile.
    Busy { device: String },
    /// Measure: one run of each was timed, which is no race.
    FewRuns,
    /// Measure: the budget ended a race.
    BudgetEnded { budget_ns: u64 },
    /// Measure: the number of points asked for ended it.
    EvalsEnded { evals: u32 },
    /// Measure: the best is as fast as was asked for.
    GoodEnough { share: f64, asked: f64 },
    /// Measure: a strategy searched settings.
    Searched { strategy: StrategyName, evaluated: u32, space: usize, runs: u32, ended: SearchEnd },
    /// Measure: some could not be tried, for reasons not their own, or nobody finished.
    Untried { why: String },
    /// Measure, settle: a rival's check against the reference, or its run, failed.
    Failed { rival: usize, kernel: String, failure: String },
    /// Estimate: what it did is long enough ago, so it is tried again.
    Retried { what: String, failure: String },
    /// Settle: this one is chosen.
    Settled { rival: usize, reason: Reason },
    /// Settle: one that was not measured is expected to be clearly faster than those that were.
    PreferredUnmeasured { rival: usize, kernel: String, device: String },
    /// Recall, settle: one that is expected to be faster is not built yet, which takes longer than the call.
    AwaitsBuild { rival: usize, kernel: String, device: String, build_ns: u64 },
    /// Settle: energy was asked for and is not known of the choice.
    NoEnergy,
    /// Estimate: a time that is remembered of a rival is not believed, because its device cannot be that fast.
    Implausible { kernel: String, ns: u64 },
    /// Settle: the decision is made.
    Closed { spent_ns: u64, evaluations: u32, expected_loss: Option<f64> },
    /// Live calls will not try others: a first launch would build them in the caller's time.
    NotExplored,
    /// Afterwards: the result agreed with the reference at the real size, in so many nanoseconds.
    Checked { took_ns: u64 },
    /// Afterwards: how all rivals stand now was looked up.
    Surveyed,
    /// Live: the plan takes another time than before, and calls find out who is fastest now.
    Drifting { factor: f64 },
    /// Live: the plan had become slower, or another as fast again as it was; measured side by side, that one is faster.
    Drifted { rival: usize, factor: f64, old: String, new: String },
    /// Live: calls that tried it showed it to be the fastest.
    Explored { rival: usize, new: String, old: String, calls: u64 },
    /// Live: calls choose the width of the kernel.
    Resized { rival: usize, axis: String, step: ResizeStep },
}

/// Why nothing was measured on a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unmeasured {
    /// It cannot be measured now.
    Declined(String),
    /// A run takes so many nanoseconds: too long for the budget of a call.
    TooLong(u64),
}

/// What ended a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchEnd {
    /// There was nothing left to ask for.
    Spent,
    /// The number of points.
    Evaluations,
    /// The best is as fast as was asked for.
    GoodEnough,
    /// The budget, in nanoseconds.
    Time(u64),
    /// So many points in a row could not be tried.
    Untried(u32),
}

impl SearchEnd {
    /// Whether there was more to measure.
    pub(crate) const fn is_early(self) -> bool {
        matches!(self, SearchEnd::Time(_) | SearchEnd::Untried(_))
    }
}

/// Where a live resize stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "fields are named for what they hold")]
pub enum ResizeStep {
    /// Another value is tried.
    Trying(String),
    /// This value stays, so many times the throughput of the one before.
    Settled { from: u32, to: u32, gain: f64 },
    /// The value stays: nothing is clearly faster.
    Stays(u32),
}

impl Event {
    /// That a rival is remembered faster than it can be, if it is.
    pub(crate) fn implausible(rival: &Rival) -> Option<Event> {
        rival.implausible.map(|time| Event::Implausible { kernel: rival.label(), ns: time.0 })
    }

    /// Whether live calls added it, after the decision was made.
    pub(crate) const fn is_live(&self) -> bool {
        matches!(
            self,
            Event::Drifting { .. } | Event::Drifted { .. } | Event::Explored { .. } | Event::Resized { .. }
        )
    }

    /// Whether it says the newer thing about the same.
    pub(crate) const fn replaces(&self, other: &Event) -> bool {
        matches!(
            (self, other),
            (Event::Explored { .. }, Event::Explored { .. }) | (Event::Resized { .. }, Event::Resized { .. })
        )
    }

    /// The sentence, where it is worth saying beside the choice and the table of rivals.
    pub fn note(&self) -> Option<String> {
        let silent = match self {
            Event::Recalled { extent, .. } => !extent.is_limited(),
            Event::Challenged { dry } => !dry,
            Event::Untried { why } => why.is_empty(),
            // Too slow is no defect, and what could not be tried is told by its own event.
            Event::Failed { failure, .. } => [FailureKind::TimedOut, FailureKind::Untried]
                .iter()
                .any(|kind| failure.starts_with(kind.name())),
            Event::Enumerated { .. }
            | Event::Dominated { .. }
            | Event::Predicted { .. }
            | Event::Foreseen
            | Event::Measuring { .. }
            | Event::Busy { .. }
            | Event::FewRuns
            | Event::Checked { .. }
            | Event::Raced { .. }
            | Event::EvalsEnded { .. }
            | Event::Settled { .. }
            | Event::Closed { .. }
            | Event::Surveyed
            | Event::Drifting { .. } => true,
            _ => false,
        };
        (!silent).then(|| self.to_string())
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Enumerated { rivals } => write!(f, "{rivals} rivals were listed"),
            Event::Disabled => f.write_str("disabled: offload is off, only the processor is looked at"),
            Event::LeftOut { kernels, rule } => write!(f, "kernels: `{rule}` leaves out {}", kernels.join(", ")),
            Event::Unheeded { rule, why } => write!(f, "kernels: `{rule}` is not followed here: {why}"),
            Event::Overruled { why, rule } => write!(f, "{why}: {rule}"),
            Event::NoPlace { rule } => write!(f, "{rule}, but no device there can run it"),
            Event::Recalled { extent, .. } => fmt_extent(extent, f),
            Event::Challenged { dry } => {
                let next = if *dry { "; the next call measures again" } else { "" };
                write!(f, "the set of rivals has changed since this was decided{next}")
            }
            Event::Dominated { device, reason } => write!(f, "{device}: {reason}"),
            Event::Predicted { model, loss, .. } => {
                write!(f, "{model}; {:.1} % loss expected", loss * 100.0)
            }
            Event::Foreseen => f.write_str("this is what a call would begin with; nothing was run"),
            Event::Measuring { strategy: None } => f.write_str("measuring begins"),
            Event::Measuring { strategy: Some(strategy) } => write!(f, "measuring by `{strategy}` begins"),
            Event::NotMeasured { device, why: Unmeasured::Declined(reason) } => {
                write!(f, "nothing was measured on {device}: {reason}")
            }
            Event::NotMeasured { device, why: Unmeasured::TooLong(run) } => write!(
                f,
                "nothing was measured on {device}: one run takes about {}; tune the problem ahead of time to measure it",
                Nanos(*run)
            ),
            Event::NoRoofline { device } => {
                write!(f, "what is good enough is not known on {device}: no kernel tells its work")
            }
            Event::Shortlisted { rivals } => write!(
                f,
                "only the {rivals} rivals were raced that other problems of this family speak for; tune the problem to race all"
            ),
            Event::Raced { device, rivals, runs, .. } => {
                write!(f, "{rivals} rivals raced on {device} in {runs} timed runs")
            }
            Event::BudgetEnded { budget_ns } => {
                write!(f, "the budget of {} ended the race", Nanos(*budget_ns))
            }
            Event::Busy { device } => write!(f, "the machine was busy while {device} was measured"),
            Event::FewRuns => f.write_str("one run of each was timed"),
            Event::Checked { took_ns } => {
                write!(f, "its result was checked at this size in the background, in {}", Nanos(*took_ns))
            }
            Event::EvalsEnded { evals } => write!(f, "no more than {evals} points were asked for"),
            Event::GoodEnough { share, .. } => {
                write!(f, "good enough: {:.0} % of the roofline", share * 100.0)
            }
            Event::Searched { strategy, evaluated, space, ended, .. } => {
                write!(f, "settings were searched by `{strategy}`: {evaluated} of {space} points measured")?;
                match ended {
                    SearchEnd::Time(budget) => write!(f, " until the budget of {} ended it", Nanos(*budget)),
                    SearchEnd::Untried(points) => {
                        write!(f, " until {points} points in a row could not be tried")
                    }
                    _ => Ok(()),
                }
            }
            Event::Untried { why } if why.is_empty() => f.write_str("some could not be tried now"),
            Event::Untried { why } => write!(f, "not tried now: {why}"),
            Event::Failed { kernel, failure, .. } => write!(f, "{kernel} is out: {failure}"),
            Event::Retried { what, failure } => {
                write!(f, "{what} is tried again after its cool-down; before: {failure}")
            }
            Event::Settled { reason, .. } => reason.fmt(f),
            Event::PreferredUnmeasured { kernel, device, .. } => write!(
                f,
                "{kernel} was not measured on {device}, but is expected to be clearly faster; tune the problem to be sure"
            ),
            Event::AwaitsBuild { kernel, device, build_ns, .. } => write!(
                f,
                "{kernel} on {device} would be faster, but building it takes about {}: this call does not wait for that, it is built \
                 in the background",
                Nanos(*build_ns)
            ),
            Event::NoEnergy => f.write_str("energy: it could not be read, the other weights decide (time where they are zero)"),
            Event::Implausible { kernel, ns } => write!(
                f,
                "implausible: {kernel} is remembered at {}, which its device cannot reach at full speed; not believed",
                Nanos(*ns)
            ),
            Event::Closed { spent_ns, .. } => write!(f, "decided in {}", Nanos(*spent_ns)),
            Event::NotExplored => f.write_str(
                "live calls do not try other kernels: a kernel of a GPU is built at its first launch, in the caller's time; \
                 tune the problem instead",
            ),
            Event::Surveyed => f.write_str("how all rivals stand now was looked up"),
            Event::Drifting { factor } => {
                write!(f, "calls take {factor:.2}× as long as before; others are tried")
            }
            Event::Drifted { factor, old, new, .. } if *factor == 1.0 => {
                write!(f, "{new} is as fast again as it was, and faster than {old} side by side")
            }
            Event::Drifted { factor, old, new, .. } => write!(
                f,
                "{old} took {factor:.2}× as long as before in live calls, and {new} is faster side by side"
            ),
            Event::Explored { new, old, calls, .. } => {
                write!(f, "live calls: {new} instead of {old}, {calls} calls explored")
            }
            Event::Resized { axis, step, .. } => {
                write!(f, "live resize: {axis} ")?;
                match step {
                    ResizeStep::Trying(why) => f.write_str(why),
                    ResizeStep::Settled { from, to, gain } => {
                        write!(f, "{from} → {to}, {gain:.1}× throughput in live calls")
                    }
                    ResizeStep::Stays(value) => {
                        write!(f, "{value} stays, nothing is clearly faster in live calls")
                    }
                }
            }
        }
    }
}

/// How the settings were found that are remembered.
fn fmt_extent(extent: &Extent, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match &extent.strategy {
        Some(strategy) => write!(f, "settings were searched by `{strategy}`")?,
        None => f.write_str("settings were raced")?,
    }
    if let Some(evals) = extent.evals {
        write!(f, ", at most {evals} points measured")?;
    }
    if let Some(ppm) = extent.good_enough_ppm {
        write!(f, ", until {:.0} % of the roofline's speed", f64::from(ppm) / 1e4)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_lies_or_fails_is_told_and_one_that_is_slow_is_not() {
        let told = |kind, message| {
            let failure = trimtab_core::Failure::new(kind, message).to_string();
            Event::Failed { rival: 3, kernel: "user.mine (-)".to_string(), failure }.note()
        };
        assert_eq!(
            told(FailureKind::Wrong, "0 instead of 1").unwrap(),
            "user.mine (-) is out: wrong: 0 instead of 1"
        );
        assert!(told(FailureKind::Launch, "panicked: no").is_some());
        assert_eq!(told(FailureKind::TimedOut, "no result within 10 ms"), None);
    }

    #[test]
    fn how_remembered_settings_were_found_is_told_where_not_everything_was_measured() {
        let told = |extent: Extent| Event::Recalled { rival: 0, extent }.note();
        let all = Extent {
            strategy: Some("hill".to_string()),
            evals: Some(60),
            good_enough_ppm: Some(900_000),
            ..Extent::default()
        };
        let words = "settings were searched by `hill`, at most 60 points measured, until 90 % of the roofline's speed";
        assert_eq!(told(all.clone()).unwrap(), words);
        let raced = Extent { strategy: None, good_enough_ppm: None, evals: Some(5), ..all };
        assert_eq!(told(raced).unwrap(), "settings were raced, at most 5 points measured");
        assert_eq!(told(Extent { partial: true, ..Extent::default() }), None);
        assert_eq!(told(Extent::default()), None);
    }
}
