//! Regret as bars: what choices took over the best that calls tried beside them, by operation.

use super::chart::drawing;
use crate::commands::stats::OperationSpeedup;
use crate::markup::{Markup, label, line, rectangle};
use crate::output::{percent, times};
use trimtab::advanced::plan::regret::Regret;

const WIDTH: f64 = 460.0;
const LEFT: f64 = 120.0;
const RIGHT: f64 = 60.0;
const ROW: f64 = 30.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 42.0;
/// The axis ends here at least: two per cent should not look like much.
const LEAST_END: f64 = 1.1;

/// Draws the regrets; nothing if there are none.
pub(super) fn regrets(markup: &mut Markup, regrets: &[Regret]) -> Option<()> {
    let most = regrets.iter().map(|regret| regret.p95.max(regret.geomean)).reduce(f64::max)?;
    // Four or five round steps.
    let wanted = (most.clamp(LEAST_END, 100.0) - 1.0) / 4.0;
    let power = 10f64.powf(wanted.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0].map(|nice| nice * power).into_iter().find(|step| *step >= wanted);
    let step = step.unwrap_or(10.0 * power);
    let end = 1.0 + step * ((most.clamp(LEAST_END, 100.0) - 1.0) / step - 1e-9).ceil();
    let at = |ratio: f64| LEFT + ((ratio - 1.0) / (end - 1.0)).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT);
    let bottom = TOP + ROW * regrets.len() as f64;
    let told: Vec<String> = regrets
        .iter()
        .map(|regret| {
            format!(
                "{}: {} on average, 95 % within {}.",
                regret.operation,
                times(regret.geomean),
                times(regret.p95)
            )
        })
        .collect();
    let title = "What was chosen over the best that calls tried";
    let size = (WIDTH, bottom + BOTTOM);
    drawing(markup, size, "plot-regret", (title, &told.join(" ")), |svg| {
        for nth in 0..=((end - 1.0) / step).round() as u32 {
            let ratio = 1.0 + f64::from(nth) * step;
            line(svg, (at(ratio), TOP), (at(ratio), bottom), "grid");
            label(svg, (at(ratio), bottom + 17.0), "tick", "middle", &format!("+{}", percent(ratio - 1.0)));
        }
        for (nth, regret) in regrets.iter().enumerate() {
            let middle = TOP + ROW * (nth as f64 + 0.5);
            label(svg, (LEFT - 9.0, middle + 4.0), "key", "end", &regret.operation);
            // A bar of no length is still to be seen.
            let width = (at(regret.geomean) - LEFT).max(1.5);
            rectangle(svg, (LEFT, middle - 7.0), (width, 14.0), "bar");
            let p95 = at(regret.p95);
            line(svg, (LEFT, middle), (p95, middle), "whisker");
            line(svg, (p95, middle - 5.0), (p95, middle + 5.0), "whisker");
            label(svg, (p95 + 7.0, middle + 4.0), "tick", "start", &times(regret.geomean));
        }
        line(svg, (LEFT, TOP), (LEFT, bottom), "axis");
        let name = "over the best tried: mean, and what 95 % stay within";
        label(svg, (WIDTH / 2.0, bottom + 36.0), "name", "middle", name);
    });
    Some(())
}

/// The axis of speed-ups ends here at least.
const LEAST_SPEEDUP: f64 = 2.0;

/// Draws speed-ups from one on, with what the mean is likely to be within; nothing if there are none.
pub(super) fn speedups(markup: &mut Markup, of: &[OperationSpeedup]) -> Option<()> {
    let most = of.iter().map(|one| one.high.unwrap_or(one.geomean).max(one.geomean)).reduce(f64::max)?;
    let least = of.iter().map(|one| one.low.unwrap_or(one.geomean)).fold(1.0, f64::min);
    // Twice as fast and half as fast are equally far from one.
    let (from, to) = (least.clamp(0.1, 1.0).log2(), most.clamp(LEAST_SPEEDUP, 1000.0).log2());
    let at = |ratio: f64| {
        let share = (ratio.max(f64::MIN_POSITIVE).log2() - from) / (to - from);
        LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    };
    let bottom = TOP + ROW * of.len() as f64;
    let within = |one: &OperationSpeedup| match (one.low, one.high) {
        (Some(low), Some(high)) => format!(", likely {} to {}", times(low), times(high)),
        _ => String::new(),
    };
    let told = of.iter().map(|one| format!("{}: {}{}.", one.operation, times(one.geomean), within(one)));
    let (title, told) = ("Winners against the default kernels", told.collect::<Vec<_>>().join(" "));
    drawing(markup, (WIDTH, bottom + BOTTOM), "plot-speedup", (title, &told), |svg| {
        let step = ((to - from) / 5.0).ceil().max(1.0) as usize;
        for power in (from.ceil() as i32..=to.floor() as i32).step_by(step) {
            let ratio = f64::from(power).exp2();
            line(svg, (at(ratio), TOP), (at(ratio), bottom), "grid");
            label(svg, (at(ratio), bottom + 17.0), "tick", "middle", &format!("{ratio}×"));
        }
        for (nth, one) in of.iter().enumerate() {
            let middle = TOP + ROW * (nth as f64 + 0.5);
            label(svg, (LEFT - 9.0, middle + 4.0), "key", "end", &one.operation);
            let (start, end) = (at(1.0).min(at(one.geomean)), at(1.0).max(at(one.geomean)));
            rectangle(svg, (start, middle - 7.0), ((end - start).max(1.5), 14.0), "bar");
            let mut right = end;
            if let (Some(low), Some(high)) = (one.low, one.high) {
                right = right.max(at(high));
                line(svg, (at(low), middle), (at(high), middle), "whisker");
                for end in [at(low), at(high)] {
                    line(svg, (end, middle - 5.0), (end, middle + 5.0), "whisker");
                }
            }
            label(svg, (right + 7.0, middle + 4.0), "tick", "start", &times(one.geomean));
        }
        line(svg, (at(1.0), TOP), (at(1.0), bottom), "axis");
        let name = "times as fast as the default: mean, and what it is likely within";
        label(svg, (WIDTH / 2.0, bottom + 36.0), "name", "middle", name);
    });
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_bar_even_where_nothing_was_lost() {
        let regret = |operation: &str, geomean: f64| Regret {
            operation: operation.to_string(),
            device: String::new(),
            problems: 1,
            calls: 3,
            geomean,
            p95: geomean * 1.1,
        };
        let mut markup = Markup::default();
        assert!(regrets(&mut markup, &[]).is_none());
        regrets(&mut markup, &[regret("matmul", 1.0), regret("<b>", 1.25)]).unwrap();
        let text = markup.finish();
        assert_eq!(text.matches("class=\"bar\"").count(), 2);
        assert!(text.contains("&lt;b&gt;") && text.contains("1.25×") && !text.contains("NaN"), "{text}");
    }

    #[test]
    fn speedups_are_drawn_with_what_they_are_likely_within() {
        let one = |operation: &str, geomean: f64, within: Option<(f64, f64)>| OperationSpeedup {
            operation: operation.to_string(),
            problems: 3,
            geomean,
            low: within.map(|within| within.0),
            high: within.map(|within| within.1),
        };
        let mut markup = Markup::default();
        assert!(speedups(&mut markup, &[]).is_none());
        speedups(&mut markup, &[one("matmul", 3.0, Some((2.0, 4.5))), one("fft", 0.9, None)]).unwrap();
        let text = markup.finish();
        assert_eq!(
            (text.matches("class=\"bar\"").count(), text.matches("class=\"whisker\"").count()),
            (2, 3)
        );
        assert!(text.contains("matmul: 3.00×, likely 2.00× to 4.50×.") && !text.contains("NaN"), "{text}");
    }
}
