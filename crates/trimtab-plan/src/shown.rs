//! A decision as a few lines of text.

use crate::plan::Rival;
use crate::record::Decision;
use std::fmt;
use trimtab_core::Basis;

/// Other kernels shown below the chosen one.
const OTHERS: usize = 4;

/// The chosen one and why, then the next best kernels and how much longer they take.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let best = self.best_per_kernel();
        let Some((chosen, others)) = best.split_first() else {
            return write!(f, "{}: nothing computes it", self.problem);
        };
        write!(f, "{}: {} on {}", self.problem, named(chosen), chosen.device_id)?;
        if let Some(time) = time(chosen) {
            write!(f, ", {time}")?;
        }
        write!(f, "; {}", self.reason)?;
        let others = others.iter().filter(|rival| rival.call_time().is_some());
        for rival in others.take(OTHERS) {
            write!(f, "\n  {} on {}", named(rival), rival.device_id)?;
            if let Some(time) = time(rival) {
                write!(f, ", {time}")?;
            }
            if let (Some(own), Some(best)) = (rival.call_time(), chosen.call_time()) {
                write!(f, ", {:.2}x", own.0 as f64 / (best.0 as f64).max(1.0))?;
            }
        }
        Ok(())
    }
}

fn named(rival: &Rival) -> String {
    match rival.point_name.is_empty() {
        true => rival.name.to_string(),
        false => format!("{}@{}", rival.name, rival.point_name),
    }
}

/// What a call takes, and whether somebody measured it.
fn time(rival: &Rival) -> Option<String> {
    let is_measured = matches!(rival.estimate()?.basis, Basis::Measured(_));
    Some(format!("{} {}", rival.call_time()?, if is_measured { "measured" } else { "expected" }))
}
