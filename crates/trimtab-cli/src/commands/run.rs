//! `trimtab run`: computes a problem on generated data, checks it against the reference, shows plan and time.

use super::{add_speed, field, kernel_view, plan_fields};
use crate::failure::{FAILED, bad_input};
use crate::output::Speed;
use crate::session::Session;
use anyhow::{Result, anyhow};
use serde_json::json;
use std::process::ExitCode;
use trimtab::{Bytes, Device, Problem};

/// Memory a checked run needs, as a multiple of its operands: the operands and the reference's result, with room.
const MEMORY_FACTOR: u64 = 2;

pub fn run(session: &Session, problem: &Problem) -> Result<ExitCode> {
    let runtime = &session.runtime;
    if matches!(problem, Problem::Custom(_)) {
        return Err(bad_input(format!("{problem} runs only in the program whose choice it is")));
    }
    let needed = Bytes(problem.operand_bytes().0.saturating_mul(MEMORY_FACTOR));
    if let Some(free) = runtime.cpu().state().memory_free.filter(|&free| needed > free) {
        return Err(anyhow!(
            "{problem} and its check need {needed} of memory, {free} are free; use smaller sizes"
        ));
    }
    let trial = runtime.try_problem(problem)?;
    let decision = runtime.explain(problem)?;
    session.keep();
    let winner = decision.winner().ok_or_else(|| anyhow!("{problem} has no plan"))?;
    let warm_ns = trial.warm.0 as f64;
    let speed = Speed::of(problem, warm_ns);
    let code = ExitCode::from(if trial.check.is_ok() { 0 } else { FAILED });
    if session.out.is_json() {
        let more = json!({
            "problem": problem.to_string(),
            "device": &*winner.device_id,
            "reason": decision.reason.name(),
            "first_ns": trial.first.0,
            "warm_ns": trial.warm.0,
            "agrees": trial.check.is_ok(),
            "tolerance": trial.tolerance,
            "disagreement": trial.check.err(),
            "runs": decision.runs,
        });
        let mut view = kernel_view(winner, more);
        add_speed(&mut view, speed);
        session.out.object(&view)?;
        return Ok(code);
    }
    let field = |name: &str, text: String| field(&session.out, name, text);
    plan_fields(session, problem, winner)?;
    field("why", decision.reason.to_string())?;
    let choosing = match decision.runs {
        0 => "choosing included".to_string(),
        runs => format!("choosing by {runs} timed runs included"),
    };
    field("first", format!("{} ({choosing})", trial.first))?;
    field("warm", format!("{}{}", trial.warm, speed.map(|speed| format!(", {speed}")).unwrap_or_default()))?;
    field(
        "check",
        match &trial.check {
            Ok(()) => agreement(trial.tolerance),
            Err(wrong) => format!("WRONG: disagrees with the reference: {wrong}"),
        },
    )?;
    for note in decision.notes() {
        field("note", note)?;
    }
    Ok(code)
}

fn agreement(tolerance: f64) -> String {
    match tolerance {
        0.0 => "agrees with the reference exactly".to_string(),
        tolerance => format!(
            "agrees with the reference within {tolerance:.1e}, relative to the larger of the result and one"
        ),
    }
}
