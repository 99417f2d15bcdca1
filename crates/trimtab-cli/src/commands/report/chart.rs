//! Plots over two logarithmic axes as SVG within the page: times by size with crossovers, and one device against another.

use super::page::crossed;
use super::view::{Curve, Curves, DecisionView};
use crate::commands::calibrate::{CrossoverView, count};
use crate::markup::{Markup, label, line, place, polyline, rectangle, turned};
use crate::output::{time, times};

pub(super) const WIDTH: f64 = 460.0;
pub(super) const HEIGHT: f64 = 310.0;
pub(super) const LEFT: f64 = 74.0;
pub(super) const RIGHT: f64 = 12.0;
pub(super) const TOP: f64 = 36.0;
const BOTTOM: f64 = 46.0;
/// Fewer decades than this on an axis get lines at 2 and 5 as well.
const FEW_DECADES: usize = 3;
/// More labels than this on an axis would touch.
const MOST_LABELS: usize = 6;
/// Space around what is drawn, as a share of the axis.
const SPACE: f64 = 0.05;
/// Colours there are for devices; more come again.
const COLOURS: usize = 4;

/// A logarithmic axis.
pub(super) struct Axis {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Axis {
    /// An axis with room for all values between two places of the drawing; nothing if there are none.
    pub fn over(values: impl Iterator<Item = f64>, start: f64, end: f64) -> Option<Axis> {
        let usable = values.filter(|value| value.is_finite() && *value > 0.0).map(f64::log10);
        let (from, to) = usable.fold((f64::MAX, f64::MIN), |(a, b), value| (a.min(value), b.max(value)));
        // One value alone stands in the middle of a decade.
        let space = f64::max((to - from) * SPACE, if to - from < 0.5 { 0.5 } else { 0.0 });
        (from <= to).then_some(Axis { from: from - space, to: to + space, start, end })
    }

    pub fn at(&self, value: f64) -> f64 {
        let share = (value.max(f64::MIN_POSITIVE).log10() - self.from) / (self.to - self.from);
        self.start + share.clamp(0.0, 1.0) * (self.end - self.start)
    }

    /// Round values within the axis.
    fn ticks(&self) -> Vec<f64> {
        let decades = (self.from.floor() as i32)..=(self.to.ceil() as i32);
        let inside = |value: &f64| (self.from..=self.to).contains(&value.log10());
        let of = |steps: &[f64]| -> Vec<f64> {
            let all = decades.clone().flat_map(|power| steps.iter().map(move |s| s * 10f64.powi(power)));
            all.filter(inside).collect()
        };
        let whole = of(&[1.0]);
        if whole.len() < FEW_DECADES {
            let fine = of(&[1.0, 2.0, 5.0]);
            return if fine.len() > MOST_LABELS { whole } else { fine };
        }
        let every = whole.len().div_ceil(MOST_LABELS);
        whole.into_iter().step_by(every).collect()
    }
}

/// Where the plot ends and its numbers begin.
pub(super) const fn plot_bottom() -> f64 {
    HEIGHT - BOTTOM
}

/// A drawing with its title and what it shows in words, for those who do not see it.
pub(super) fn drawing(
    markup: &mut Markup,
    (width, height): (f64, f64),
    id: &str,
    (title, told): (&str, &str),
    draw: impl FnOnce(&mut Markup),
) {
    let (title_id, told_id) = (format!("{id}-title"), format!("{id}-told"));
    let named = format!("{title_id} {told_id}");
    let size = format!("0 0 {width} {height}");
    markup.within("svg", &[("viewBox", &size), ("role", "img"), ("aria-labelledby", &named)], |svg| {
        svg.leaf("title", &[("id", &title_id)], title);
        svg.leaf("desc", &[("id", &told_id)], told);
        draw(svg);
    });
}

/// The frame of a plot: lines of the grid, numbers, what the axes show.
pub(super) fn frame(
    svg: &mut Markup,
    x: (&Axis, &str, &dyn Fn(f64) -> String),
    y: (&Axis, &str, &dyn Fn(f64) -> String),
) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for value in y.0.ticks() {
        let at = y.0.at(value);
        line(svg, (LEFT, at), (right, at), "grid");
        label(svg, (LEFT - 7.0, at + 4.0), "tick", "end", &(y.2)(value));
    }
    for value in x.0.ticks() {
        let at = x.0.at(value);
        line(svg, (at, TOP), (at, bottom), "grid");
        label(svg, (at, bottom + 17.0), "tick", "middle", &(x.2)(value));
    }
    line(svg, (LEFT, bottom), (right, bottom), "axis");
    label(svg, ((LEFT + right) / 2.0, HEIGHT - 8.0), "name", "middle", x.1);
    turned(svg, (13.0, (TOP + bottom) / 2.0), y.1);
}

/// A round or square mark: shapes tell devices apart where colours do not.
pub(super) fn mark(svg: &mut Markup, (x, y): (f64, f64), size: f64, round: bool, class: &str) {
    if round {
        svg.empty("circle", &[("cx", &place(x)), ("cy", &place(y)), ("r", &place(size)), ("class", class)]);
    } else {
        rectangle(svg, (x - size, y - size), (2.0 * size, 2.0 * size), class);
    }
}

/// The names of devices with their marks, above the plot.
pub(super) fn legend(svg: &mut Markup, names: &[(String, usize, bool)]) {
    let mut x = LEFT + 4.0;
    for (name, colour, round) in names {
        mark(svg, (x, 18.0), 4.0, *round, &format!("mark c{}", colour % COLOURS));
        label(svg, (x + 10.0, 22.5), "key", "start", name);
        x += 30.0 + 7.2 * name.chars().count() as f64;
    }
}

/// What a time is called on an axis: `10 µs`.
fn axis_time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 999.0 => (ns, "ns"),
        ns if ns < 999e3 => (ns / 1e3, "µs"),
        ns if ns < 999e6 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{} {unit}", (value * 100.0).round() / 100.0)
}

/// What a number of elements is called on an axis: `10 k`.
pub(super) fn axis_count(size: f64) -> String {
    let (value, unit) = match size {
        size if size < 999.0 => (size, ""),
        size if size < 999e3 => (size / 1e3, " k"),
        size if size < 999e6 => (size / 1e6, " M"),
        size if size < 999e9 => (size / 1e9, " G"),
        size => (size / 1e12, " T"),
    };
    format!("{}{unit}", (value * 100.0).round() / 100.0)
}

/// Times of whole calls by size on each device, and where one overtakes the processor. Nothing if there is nothing to draw.
pub(super) fn crossovers(
    markup: &mut Markup,
    curves: &Curves,
    found: &[(String, CrossoverView)],
) -> Option<()> {
    let all =
        || curves.lines.iter().flat_map(|line| line.repeats.iter().chain(&line.points).chain(&line.fit));
    let x = Axis::over(all().map(|point| point.0), LEFT, WIDTH - RIGHT)?;
    let y = Axis::over(all().map(|point| point.1), HEIGHT - BOTTOM, TOP)?;
    let (class, unit) = (curves.class.name(), curves.class.unit());
    let title = format!("{class}: time of a whole call by size");
    let told: Vec<String> = curves.lines.iter().map(|line| told(line, unit)).collect();
    let told = told.into_iter().chain([crossed(found, unit)]).collect::<Vec<_>>().join(" ");
    drawing(markup, (WIDTH, HEIGHT), &format!("plot-{class}"), (&title, &told), |svg| {
        for (_, view) in found {
            band(svg, &x, view);
        }
        let across = if unit == "flops" { "arithmetic operations" } else { unit };
        frame(svg, (&x, across, &axis_count), (&y, "time of a call", &axis_time));
        for (_, view) in found {
            crossing(svg, &x, view);
        }
        for (colour, line) in curves.lines.iter().enumerate() {
            curve(svg, (&x, &y), line, colour % COLOURS);
        }
        let name = |(colour, line): (usize, &Curve)| {
            let note = if line.seen { "" } else { " (expected, not measured)" };
            (format!("{}{note}", line.device), colour, line.is_host)
        };
        legend(svg, &curves.lines.iter().enumerate().map(name).collect::<Vec<_>>());
    });
    Some(())
}

/// A curve in words.
fn told(line: &Curve, unit: &str) -> String {
    let points = if line.points.is_empty() { &line.fit } else { &line.points };
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return String::new() };
    let seen = if line.seen { "" } else { " expected" };
    let size = |size: f64| count(size as u64);
    format!(
        "{}:{seen} {} for {} {unit}, {} for {}.",
        line.device,
        time(first.1),
        size(first.0),
        time(last.1),
        size(last.0)
    )
}

/// Where the crossover may be.
fn band(svg: &mut Markup, x: &Axis, view: &CrossoverView) {
    let (Some(low), Some(high)) = (view.low, view.high) else { return };
    let class = if view.size.is_some() { "band" } else { "band unstable" };
    let (from, to) = (x.at(low as f64), x.at(high as f64));
    let size = ((to - from).max(2.0), HEIGHT - BOTTOM - TOP);
    rectangle(svg, (from.min(to - 1.0), TOP), size, class);
}

/// Where the crossover is.
fn crossing(svg: &mut Markup, x: &Axis, view: &CrossoverView) {
    let middle = |low: u64, high: u64| (low as f64 * high as f64).sqrt();
    let (at, words) = match (view.size, view.low, view.high) {
        (Some(size), _, _) => (x.at(size as f64), count(size)),
        (None, Some(low), Some(high)) => (x.at(middle(low, high)), "unstable".to_string()),
        _ => return,
    };
    if view.size.is_some() {
        line(svg, (at, TOP), (at, HEIGHT - BOTTOM), "crossing");
    }
    let (anchor, aside) = if at > (LEFT + WIDTH - RIGHT) / 2.0 { ("end", -5.0) } else { ("start", 5.0) };
    label(svg, (at + aside, TOP + 12.0), "told", anchor, &words);
}

fn curve(svg: &mut Markup, (x, y): (&Axis, &Axis), line: &Curve, colour: usize) {
    let at = |point: &(f64, f64)| (x.at(point.0), y.at(point.1));
    let class = format!("fit c{colour}{}", if line.seen { "" } else { " expected" });
    polyline(svg, line.fit.iter().map(at), &class);
    for repeat in &line.repeats {
        mark(svg, at(repeat), 1.6, line.is_host, &format!("repeat c{colour}"));
    }
    for point in &line.points {
        mark(svg, at(point), 3.4, line.is_host, &format!("mark c{colour}"));
    }
}

/// What another device takes against the processor, problem by problem. Nothing where no problem has both.
pub(super) fn decisions(markup: &mut Markup, decisions: &[DecisionView], devices: &[String]) -> Option<()> {
    let ratio = |decision: &DecisionView| {
        let own = decision.processor.as_ref()?.call_ns();
        let (other, known) = match (&decision.other, decision.other_at_least_ns) {
            (Some(other), _) => (other.call_ns(), true),
            (None, least) => (least? as f64, false),
        };
        (own > 0.0 && other > 0.0).then_some((own, other / own, known))
    };
    let dots: Vec<(&DecisionView, (f64, f64, bool))> =
        decisions.iter().filter_map(|decision| Some((decision, ratio(decision)?))).collect();
    let x = Axis::over(dots.iter().map(|(_, dot)| dot.0), LEFT, WIDTH - RIGHT)?;
    let y = Axis::over(dots.iter().map(|(_, dot)| dot.1).chain([0.5, 2.0]), HEIGHT - BOTTOM, TOP)?;
    let faster = dots.iter().filter(|(_, dot)| dot.1 < 1.0).count();
    let title = "The best other device against the processor";
    let told = format!(
        "{} problems; the other device is expected to be faster for {faster} of them, and slower for {}.",
        dots.len(),
        dots.len() - faster
    );
    drawing(markup, (WIDTH, HEIGHT), "plot-decisions", (title, &told), |svg| {
        let share = |value: f64| format!("{value}×");
        frame(
            svg,
            (&x, "time of a call on the processor", &axis_time),
            (&y, "the other device takes", &share),
        );
        let equal = y.at(1.0);
        line(svg, (LEFT, equal), (WIDTH - RIGHT, equal), "crossing");
        // Small problems, on the left, are far above: here is room.
        label(svg, (LEFT + 6.0, equal - 6.0), "told", "start", "↑ processor faster");
        label(svg, (LEFT + 6.0, equal + 15.0), "told", "start", "↓ other device faster");
        for (decision, (own, ratio, known)) in &dots {
            let colour = devices.iter().position(|device| *device == decision.device).unwrap_or(0);
            let class = format!("{} c{}", if *known { "mark" } else { "bound" }, colour % COLOURS);
            svg.within("g", &[], |svg| {
                let more = if *known { "" } else { "more than " };
                let shown = format!(
                    "{}: on {}, {}; processor {}, other {more}{}",
                    decision.problem,
                    decision.device,
                    decision.why,
                    time(*own),
                    times(*ratio)
                );
                svg.leaf("title", &[], &shown);
                mark(svg, (x.at(*own), y.at(*ratio)), 3.4, colour == 0, &class);
            });
        }
        let name = |(at, device): (usize, &String)| (format!("runs on {device}"), at, at == 0);
        legend(svg, &devices.iter().enumerate().map(name).collect::<Vec<_>>());
    });
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab::advanced::plan::Class;

    fn curve(device: &str, points: &[(f64, f64)]) -> Curve {
        Curve {
            device: device.to_string(),
            is_host: device == "cpu",
            seen: true,
            repeats: points.to_vec(),
            points: points.to_vec(),
            fit: points.to_vec(),
        }
    }

    fn drawn(lines: Vec<Curve>, found: &[(String, CrossoverView)]) -> Option<String> {
        let mut markup = Markup::default();
        crossovers(&mut markup, &Curves { class: Class::Unary, lines }, found)?;
        Some(markup.finish())
    }

    #[test]
    fn a_plot_has_points_fits_ticks_with_units_a_legend_and_the_crossover() {
        let view = CrossoverView {
            kind: "at",
            size: Some(20_000),
            low: Some(10_000),
            high: Some(40_000),
            tried_to: None,
        };
        let cpu = curve("cpu", &[(1e3, 1e3), (1e5, 1e5), (1e7, 1e7)]);
        let gpu = curve("gpu<0>", &[(1e3, 2e4), (1e5, 3e4), (1e7, 1e6)]);
        let text = drawn(vec![cpu, gpu], &[("gpu<0>".to_string(), view)]).unwrap();
        assert_eq!(text.matches("<polyline").count(), 2);
        assert_eq!(text.matches("class=\"mark c0\"").count(), 3 + 1, "points and the legend's");
        for part in
            ["10 µs", "1 ms", "100 k", "elements", "gpu&lt;0&gt; is faster from 20.0 k", "class=\"band\""]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }

    #[test]
    fn odd_numbers_of_points_can_be_drawn() {
        assert!(drawn(vec![], &[]).is_none());
        assert!(drawn(vec![curve("cpu", &[])], &[]).is_none());
        for odd in [&[(64.0, 5.0)][..], &[(0.0, 1.0), (1.0, 1.0)], &[(1.0, f64::INFINITY), (2.0, 4.0)]] {
            let text = drawn(vec![curve("cpu", odd)], &[]).unwrap();
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }

    #[test]
    fn ticks_are_round_and_few() {
        for (from, to) in [(1.0, 10.0), (3.0, 2e9), (1e3, 1e5), (0.9, 1.1)] {
            let axis = Axis::over([from, to].into_iter(), 0.0, 100.0).unwrap();
            let ticks = axis.ticks();
            assert!((1..=6).contains(&ticks.len()), "{ticks:?}");
        }
        assert_eq!([1e3, 1e4, 2e6, 1e9].map(axis_time), ["1 µs", "10 µs", "2 ms", "1 s"]);
        assert_eq!([500.0, 1e3, 1e6, 1e10].map(axis_count), ["500", "1 k", "1 M", "10 G"]);
    }
}
