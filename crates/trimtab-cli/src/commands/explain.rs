//! `trimtab explain`: the plan in force, why, every rival, and what would change it. Measures nothing.

use super::{
    EstimateView, any_measured, default_rival, field, is_unknown, kernel_view, plan_fields, transfer_view,
};
use crate::failure::bad_input;
use crate::output::{Speed, axes, percent, spread, time, times};
use crate::session::Session;
use crate::table::Table;
use anyhow::Result;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;
use trimtab::advanced::core::{Basis, Estimate, Patience, Problem};
use trimtab::advanced::plan::{Decision, Event, Reason, Rival, Settings, Trust};

/// A record, and its rivals as they are shown: where it looked at its choice alone, as they stand now.
struct Shown {
    record: Arc<Decision>,
    decision: Decision,
    notes: Vec<String>,
}

impl Shown {
    /// Whether the decision did not look at a rival that has a time now.
    fn is_new(&self, rival: &Rival) -> bool {
        let same = |other: &&Rival| {
            (other.device, other.kernel, other.point) == (rival.device, rival.kernel, rival.point)
        };
        let before = self.record.rivals.iter().find(same).and_then(Rival::estimate);
        rival.estimate().is_some() && before.is_none_or(|before| is_unknown(&before))
    }

    fn rivals(&self, all: bool) -> Vec<&Rival> {
        if all { self.decision.ranked() } else { self.decision.best_per_kernel() }
    }
}

pub fn run(session: &Session, problem: &Problem, all: bool) -> Result<ExitCode> {
    if matches!(problem, Problem::Custom(_)) {
        let hint = "ask that program: Choice::explain; `trimtab wisdom list` shows what was measured";
        return Err(bad_input(format!("{problem} is known only to the program whose choice it is; {hint}")));
    }
    let runtime = &session.runtime;
    let settings = runtime.planner().settings();
    // What a program that goes on would decide by, not what decides until it has compared models.
    runtime.planner().learn_now(problem);
    let record = runtime.explain(problem)?;
    let decision = match record.is_narrow() {
        true => runtime.planner().survey(&record),
        false => Decision::clone(&record),
    };
    let default = default_rival(runtime, &decision, |rival| rival.estimate().is_none());
    let fresh = !any_measured(&decision);
    let default = default.and_then(|index| decision.rivals.get(index)).map(label);
    let first = standing_note(&decision, settings, fresh, default.as_deref());
    let notes = first.into_iter().chain(record.notes()).chain(decision.accuracy()).collect();
    let shown = Shown { record, decision, notes };
    if session.out.is_json() {
        session.out.object(&view(session, shown, default, all))?;
    } else {
        show(session, &shown, all)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn label(rival: &Rival) -> String {
    match rival.point_name.as_str() {
        "" | "-" => rival.name.to_string(),
        point => format!("{} at {point}", rival.name),
    }
}

/// What is to be said first: that nothing is measured yet, or that the race was cut short.
fn standing_note(
    decision: &Decision,
    settings: &Settings,
    fresh: bool,
    default: Option<&str>,
) -> Option<String> {
    let budget = settings.budget;
    match (fresh, settings.patience) {
        (true, _) if decision.reason == Reason::Learned => Some(format!(
            "nothing measured yet; a call goes by what other problems teach, `trimtab tune {}` measures it",
            decision.problem
        )),
        (true, Patience::Off) => {
            let default = default.unwrap_or("the reference");
            Some(format!("nothing measured yet; in mode off the first call runs the default, {default}"))
        }
        (true, Patience::Estimate) => {
            Some("nothing measured yet; in mode estimate the first call goes by the model".to_string())
        }
        (true, _) => Some(format!(
            "nothing measured yet; the first call will race the leaders within a budget of {budget}, `trimtab tune {}` does it now",
            decision.problem
        )),
        // The note says what it waits for.
        (false, _) if decision.events.iter().any(|event| matches!(event, Event::AwaitsBuild { .. })) => None,
        (false, _) if decision.reason == Reason::Remembered && !decision.complete => Some(format!(
            "the race was cut short by its budget; `trimtab tune {}` finishes it",
            decision.problem
        )),
        (false, _) if decision.reason == Reason::Estimated => Some(
            "some rivals were measured, but no race of this problem under these terms is remembered"
                .to_string(),
        ),
        _ => None,
    }
}

fn view(session: &Session, shown: Shown, default: Option<String>, all: bool) -> Value {
    let decision = &shown.decision;
    let winner = decision.winner();
    let raced = matches!(decision.reason, Reason::Raced | Reason::KeptIncumbent | Reason::Remembered);
    let rivals = shown.rivals(all).into_iter().map(|rival| {
        let more = json!({
            "device": &*rival.device_id,
            "transfer_ns": transfer_view(&session.runtime, rival),
            // Before its first launch in a process, where a call would wait for it.
            "build_ns": (rival.build.0 > 0).then_some(rival.build.0),
            "threads": rival.work.threads,
            "scratch_bytes": rival.work.scratch.0,
            "chosen": winner.is_some_and(|winner| std::ptr::eq(winner, rival)),
        });
        let mut view = kernel_view(rival, more);
        if let Some(estimate) = rival.estimate() {
            view["estimate"] = json!(EstimateView::from(estimate));
        }
        if let Some(reason) = rival.out_because() {
            view["declined"] = json!(reason);
        }
        // A time that is remembered and not believed: its device cannot be that fast.
        if let Some(time) = rival.implausible {
            view["implausible_ns"] = json!(time.0);
        }
        // The decision did not look at it: this is how it stands now.
        if shown.is_new(rival) {
            view["looked_up_now"] = json!(true);
        }
        view
    });
    let mut view = json!({
        "problem": decision.problem.to_string(),
        "device": winner.map(|winner| winner.device_id.to_string()).unwrap_or_default(),
        "kernel": winner.map(|winner| winner.name.to_string()).unwrap_or_default(),
        "point": winner.map(|winner| axes(&winner.point_name)).unwrap_or_default(),
        "estimate": winner.and_then(Rival::estimate).map(EstimateView::from),
        "transfer_ns": winner.and_then(|winner| transfer_view(&session.runtime, winner)),
        "rivals": rivals.collect::<Vec<_>>(),
        "reason": decision.reason.name(),
        "expected_loss": decision.expected_loss,
        "complete": decision.complete && raced,
        // How far it is to be trusted: provisional, checked, measured or settled.
        "trust": decision.trust().name(),
        "notes": shown.notes,
        // What the first guesses of each device rest on.
        "reasoning": reasoning(session, decision),
        "terms": decision.terms.to_string(),
        "patience": decision.patience.name(),
        "default": default,
    });
    // Which of the user's rules left rivals out: `kernels`, `threshold`, `small batch` or `disabled`.
    if let Some(rule) = decision.overruled {
        view["overruled"] = json!(rule.name());
    }
    if let Some(line) = winner.and_then(|winner| compiled(session, &decision.problem, winner)) {
        view["compiled"] = json!(line);
    }
    let grounds = session.runtime.planner().grounds(decision);
    if !grounds.is_empty() {
        view["grounds"] = json!(grounds);
    }
    view
}

fn show(session: &Session, shown: &Shown, all: bool) -> Result<()> {
    let (out, decision) = (&session.out, &shown.decision);
    let Some(winner) = decision.winner() else { return Ok(()) };
    let field = |name: &str, text: String| field(out, name, text);
    plan_fields(session, &decision.problem, winner)?;
    if let Some(estimate) = winner.estimate().filter(|estimate| !is_unknown(estimate)) {
        field("estimate", estimate_words(&decision.problem, &estimate))?;
    }
    if winner.transfer.0 > 0 {
        let transfer = time(winner.transfer.0 as f64);
        field("transfer", format!("{transfer} to move operands and result and to submit the work"))?;
    }
    if winner.build.0 > 0 {
        field("build", format!("{} before its first launch in a process", time(winner.build.0 as f64)))?;
    }
    if let Some(line) = compiled(session, &decision.problem, winner) {
        field("compiled", line)?;
    }
    field("why", decision.reason.to_string())?;
    if let Some(loss) = decision.expected_loss {
        field("loss", format!("expected ≤ {} against the best of all rivals", percent(loss)))?;
    }
    for line in session.runtime.planner().grounds(decision) {
        field("learned", line)?;
    }
    field("trust", trust(decision))?;
    field("terms", decision.terms.to_string())?;
    field("effort", effort(decision))?;
    for note in &shown.notes {
        field("note", note.clone())?;
    }
    for line in reasoning(session, decision) {
        field("strategy", line)?;
    }
    out.line("")?;
    let (racing, declined) = rivals(shown, winner, all);
    out.table_if_any(&racing)?;
    out.table_if_any(&declined)?;
    if !all && decision.rivals.len() > decision.best_per_kernel().len() {
        out.line(format!("Best setting of each kernel; --all shows all {} rivals.", decision.rivals.len()))?;
    }
    out.line(what_would_change(decision, winner, session.runtime.planner().settings()))
}

/// How far a decision is to be trusted, in words.
fn trust(decision: &Decision) -> String {
    let what = match decision.trust() {
        Trust::Provisional => "an estimate, checked on small stand-ins",
        Trust::Checked => "its result agreed with the reference at this size",
        Trust::Measured => "raced, but others used the machine or the race was cut short",
        Trust::Settled => "it won a race that was completed on a quiet machine",
    };
    format!("{}: {what}", decision.trust())
}

/// What a compiler made of the winner, where its device tells.
fn compiled(session: &Session, problem: &Problem, winner: &Rival) -> Option<String> {
    let mut devices = session.runtime.planned();
    let (_, device) = devices.find(|(at, _)| *at == winner.device as usize)?;
    device.compiled(winner.kernel, problem, &winner.point)
}

/// What the first guesses rest on, of every device with a rival in the running.
fn reasoning(session: &Session, decision: &Decision) -> Vec<String> {
    let devices = session.runtime.planned();
    let in_the_running = devices.filter(|(at, _)| {
        decision.rivals.iter().any(|rival| rival.device as usize == *at && rival.estimate().is_some())
    });
    let reasons = in_the_running.flat_map(|(_, device)| {
        let lines = device.reasoning(&decision.problem).into_iter();
        lines.map(|line| format!("{}: {line}", device.facts().id))
    });
    reasons.collect()
}

fn estimate_words(problem: &Problem, estimate: &Estimate) -> String {
    let basis = match estimate.basis {
        Basis::Measured(1) => "measured once".to_string(),
        Basis::Measured(n) => format!("measured {n} times"),
        Basis::Fitted(n) => {
            format!("fitted to {n} measurements of this kernel on other problems or settings")
        }
        Basis::Learned(n) => format!("learned from {n} problems of this family"),
        Basis::Analytic => "analytic: the kernel's work against the device's speed".to_string(),
    };
    let speed =
        Speed::of(problem, estimate.time.0 as f64).map(|speed| format!(", {speed}")).unwrap_or_default();
    let spread = estimate.known_spread().map(|log2| format!(" {}", spread(log2))).unwrap_or_default();
    format!("{}{spread}{speed}; {basis}", time(estimate.time.0 as f64))
}

fn effort(decision: &Decision) -> String {
    match decision.reason {
        Reason::Remembered if decision.complete => {
            "nothing measured now; an earlier race was run to its end".to_string()
        }
        Reason::Remembered => "nothing measured now; an earlier race was cut short by its budget".to_string(),
        _ => format!("nothing measured now, {} spent deciding", decision.spent),
    }
}

/// Those in the running with their times, and those out of it with the reason.
fn rivals(shown: &Shown, winner: &Rival, all: bool) -> (Table, Table) {
    let several = shown.decision.rivals.iter().any(|rival| rival.device != winner.device);
    let mut columns = vec!["rival", "point", ">time", ">ratio", "basis", ">scratch", ">threads"];
    if several {
        columns.splice(3..3, [">transfer"]);
    }
    let mut racing = Table::new(&columns);
    let mut out = Table::new(&["out of the running", "point", "because"]);
    let chosen_ns = winner.call_time().map(|time| time.0 as f64).filter(|&ns| ns > 0.0);
    for rival in shown.rivals(all) {
        let device = if several { format!("{} ", rival.device_id) } else { String::new() };
        let mut cells = vec![format!("{device}{}", rival.name), rival.point_name.clone()];
        let Some(estimate) = rival.estimate() else {
            cells.extend(rival.out_because());
            out.row(cells);
            continue;
        };
        let ns = estimate.time.0 as f64;
        let call = rival.call_time().map_or(ns, |time| time.0 as f64);
        let ratio = chosen_ns.map(|chosen| times(call / chosen)).unwrap_or_default();
        let scratch =
            if rival.work.scratch.0 == 0 { "–".to_string() } else { rival.work.scratch.to_string() };
        cells.push(time(ns));
        if several {
            let transfer = rival.transfer.0 as f64;
            cells.push(if transfer > 0.0 { time(transfer) } else { "–".to_string() });
        }
        let now = if shown.is_new(rival) { ", looked up now" } else { "" };
        let doubted = rival.implausible.map(|time| format!(", {time} remembered: implausible"));
        let basis = format!("{}{now}{}", estimate.basis, doubted.unwrap_or_default());
        cells.extend([ratio, basis, scratch, rival.work.threads.to_string()]);
        racing.marked_row(std::ptr::eq(rival, winner), cells);
    }
    (racing, out)
}

/// How far the next kernel is, and whether that is far enough to matter.
fn what_would_change(decision: &Decision, winner: &Rival, settings: &Settings) -> String {
    let zone = settings.rules.indifference.max(settings.switch_margin);
    let others =
        decision.rivals.iter().filter(|rival| (rival.device, rival.kernel) != (winner.device, winner.kernel));
    let next = others
        .filter_map(|rival| Some((rival, rival.estimate()?)))
        .min_by_key(|(rival, _)| rival.call_time());
    let (Some((next, other)), Some(own)) = (next, winner.estimate()) else {
        return "What would change it: nothing; no other kernel can do this problem under these terms."
            .to_string();
    };
    if is_unknown(&own) || own.time.0 == 0 {
        return "What would change it: a measurement; nothing is known about times yet.".to_string();
    }
    let call = |rival: &Rival| rival.call_time().map_or(1.0, |time| time.0.max(1) as f64);
    let gap = call(next) / call(winner) - 1.0;
    let basis = other.basis.name();
    let next = &next.name;
    let zone_words = format!("the indifference zone of {}", percent(zone));
    let words = if gap.abs() <= zone {
        format!(
            "{next} is within {zone_words} ({} apart, {basis}): either is as good, and the plan in force stays",
            percent(gap.abs())
        )
    } else if gap > 0.0 {
        format!(
            "{next} is next, {} ({basis}), outside {zone_words}: its time would have to drop by {}",
            // Beyond a doubling a percentage says less than a factor.
            if gap < 1.0 {
                format!("{} slower", percent(gap))
            } else {
                format!("{} the time", times(1.0 + gap))
            },
            percent(gap / (1.0 + gap))
        )
    } else {
        let why = if decision.reason == Reason::DefaultOrder {
            "but mode off goes by preference"
        } else {
            "and takes over when a race confirms it"
        };
        format!("{next} looks {} faster ({basis}), {why}", percent(-gap / (1.0 + gap)))
    };
    format!("What would change it: {words}.")
}
