//! What a study is after: which numbers, up or down, and which limits they keep to.

use crate::outcome::{Failed, Fault, Outcome, Ran};
use serde::{Deserialize, Serialize};
use trimtab_tune::Expression;

/// The name of the number that is minimised or maximised first, in limits.
pub const VALUE: &str = "value";

/// A further number that is minimised or maximised as well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objective {
    /// Its name among the further numbers.
    pub name: String,
    /// Whether more is better.
    pub maximise: bool,
}

impl Objective {
    /// Reads `NAME`, `min:NAME` or `max:NAME`.
    pub fn parse(text: &str) -> Objective {
        let (maximise, name) = match text.split_once(':') {
            Some(("max", name)) => (true, name),
            Some(("min", name)) => (false, name),
            _ => (false, text),
        };
        Objective { name: name.to_string(), maximise }
    }
}

/// What a study is after.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Goals {
    /// Whether more of the value is better.
    pub maximise: bool,
    /// Further numbers that are read, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numbers: Vec<String>,
    /// Which of them are objectives too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<Objective>,
    /// What must hold of the numbers: `p99_ms < 20`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
}

/// Goals whose limits were read.
#[derive(Clone, Debug)]
pub(crate) struct Judge {
    pub(crate) goals: Goals,
    limits: Vec<Expression>,
}

impl Judge {
    pub(crate) fn new(goals: Goals) -> Result<Judge, String> {
        let mut names = vec![VALUE.to_string()];
        for name in &goals.numbers {
            if names.contains(name) {
                return Err(format!("the number `{name}` is there twice; give it another name"));
            }
            names.push(name.clone());
        }
        for objective in &goals.objectives {
            if !goals.numbers.contains(&objective.name) {
                let known =
                    if goals.numbers.is_empty() { "none".to_string() } else { goals.numbers.join(", ") };
                return Err(format!(
                    "the objective `{}` is no number that is read; there are: {known}. Say where it comes from, as {}=regex:…",
                    objective.name, objective.name
                ));
            }
        }
        let read = |text: &String| {
            Expression::parse(text, &names, &[]).map_err(|error| {
                format!(
                    "the limit `{text}`: {}; numbers are read by NAME=regex:…, the first is `{VALUE}`",
                    error
                )
            })
        };
        let limits = goals.limits.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Judge { goals, limits })
    }

    /// A point that ran, unless it breaks a limit.
    pub(crate) fn judge(&self, ran: Ran) -> Outcome {
        if !ran.value.is_finite() {
            return Outcome::Failed(Failed::new(
                Fault::Unreadable,
                format!("the value is {}, no finite number", ran.value),
            ));
        }
        let mut numbers = vec![ran.value];
        for name in &self.goals.numbers {
            match ran.others.get(name) {
                Some(number) => numbers.push(*number),
                None => {
                    let failed = Failed::new(Fault::Unreadable, format!("the number `{name}` is missing"));
                    return Outcome::Failed(Failed { ran: Some(ran), ..failed });
                }
            }
        }
        match self.limits.iter().find(|limit| !limit.holds_for(&numbers)) {
            None => Outcome::Ran(ran),
            Some(limit) => {
                let named = std::iter::once(VALUE).chain(self.goals.numbers.iter().map(String::as_str));
                let asked = limit.axes();
                let shown: Vec<String> = named
                    .zip(&numbers)
                    .enumerate()
                    .filter(|(at, _)| asked.contains(at))
                    .map(|(_, (name, number))| format!("{name} = {number}"))
                    .collect();
                let failed =
                    Failed::new(Fault::Limit, format!("`{limit}` does not hold: {}", shown.join(", ")));
                Outcome::Failed(Failed { ran: Some(ran), ..failed })
            }
        }
    }

    /// All objectives of a point that ran, so that less is better.
    pub(crate) fn costs(&self, ran: &Ran) -> Vec<f64> {
        let down = |value: f64, maximise: bool| if maximise { -value } else { value };
        let further = self.goals.objectives.iter().map(|objective| {
            down(ran.others.get(&objective.name).copied().unwrap_or(f64::NAN), objective.maximise)
        });
        std::iter::once(down(ran.value, self.goals.maximise)).chain(further).collect()
    }

    pub(crate) fn is_single(&self) -> bool {
        self.goals.objectives.is_empty()
    }
}

/// Whether one is at least as good in everything and better in something.
pub(crate) fn dominates(one: &[f64], other: &[f64]) -> bool {
    let pairs = || one.iter().zip(other);
    pairs().all(|(one, other)| one <= other) && pairs().any(|(one, other)| one < other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goals() -> Goals {
        Goals {
            maximise: true,
            numbers: vec!["p99_ms".into()],
            objectives: vec![Objective::parse("min:p99_ms")],
            limits: vec!["p99_ms<20".into()],
        }
    }

    #[test]
    fn a_broken_limit_is_told_with_its_numbers() {
        let judge = Judge::new(goals()).unwrap();
        let ran = |p99: f64| Ran { others: [("p99_ms".to_string(), p99)].into(), ..Ran::of(100.0) };
        assert!(judge.judge(ran(19.0)).ran().is_some());
        let failed = judge.judge(ran(25.0));
        assert_eq!(failed.failed().unwrap().to_string(), "limit: `p99_ms<20` does not hold: p99_ms = 25");
        assert!(judge.judge(Ran::of(1.0)).failed().unwrap().message.contains("`p99_ms` is missing"));
        assert_eq!(judge.judge(Ran::of(f64::NAN)).failed().unwrap().fault, Fault::Unreadable);
        assert_eq!(judge.costs(&ran(3.0)), [-100.0, 3.0]);
    }

    #[test]
    fn unknown_numbers_are_refused() {
        let error = |goals: Goals| Judge::new(goals).unwrap_err();
        assert!(error(Goals { limits: vec!["p50<3".into()], ..goals() }).contains("`p50` is no axis"));
        assert!(
            error(Goals { objectives: vec![Objective::parse("max:x")], ..goals() })
                .contains("there are: p99_ms")
        );
        assert!(error(Goals { numbers: vec!["a".into(), "a".into()], ..Goals::default() }).contains("twice"));
    }

    #[test]
    fn dominance_needs_one_better_and_none_worse() {
        assert!(dominates(&[1.0, 2.0], &[1.0, 3.0]));
        assert!(!dominates(&[1.0, 2.0], &[1.0, 2.0]));
        assert!(!dominates(&[1.0, 3.0], &[2.0, 2.0]));
    }
}
