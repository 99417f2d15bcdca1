//! A chart as SVG text: curves over one, two, … steps, markers, axes, a legend. Knows nothing of what it shows.

use std::fmt::Write;

/// What to draw.
pub struct Plot {
    pub title: String,
    pub x: String,
    pub y: String,
    pub curves: Vec<Curve>,
    pub markers: Vec<Marker>,
    pub markers_name: String,
}

/// A line through values between zero and one at 1, 2, 3, …
pub struct Curve {
    pub name: String,
    pub values: Vec<f64>,
}

/// A single point.
pub struct Marker {
    pub x: f64,
    pub y: f64,
}

/// Colours that people who see few colours can tell apart (Paul Tol's muted set), darkest first.
const COLOURS: [&str; 9] =
    ["#332288", "#CC6677", "#117733", "#88CCEE", "#AA4499", "#999933", "#882255", "#44AA99", "#DDCC77"];
/// After the colours are used up they come again dashed.
const DASHES: [&str; 3] = ["", " stroke-dasharray=\"6 3\"", " stroke-dasharray=\"2 3\""];

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 520.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 56.0;
/// Curves start low by chance; the scale begins where the lowest is after so many steps.
const SETTLED: usize = 10;
/// About so many lines of the grid across.
const TICKS: f64 = 10.0;

/// The scale: values to places.
struct Scale {
    steps: f64,
    lowest: f64,
}

impl Scale {
    fn x(&self, step: f64) -> f64 {
        LEFT + (step - 1.0) / (self.steps - 1.0).max(1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        TOP + (1.0 - value) / (1.0 - self.lowest) * (HEIGHT - TOP - BOTTOM)
    }
}

/// The chart as a file.
pub fn svg(plot: &Plot) -> String {
    let scale = scale(plot);
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         font-family=\"system-ui, 'DejaVu Sans', Arial, sans-serif\" font-size=\"13\" fill=\"#333\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <clipPath id=\"inside\"><rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/></clipPath>\n",
        TOP - 4.0,
        right - LEFT,
        bottom - TOP + 4.0
    );
    label(&mut text, (LEFT, 26.0), "start", " font-size=\"15\" font-weight=\"600\"", &plot.title);
    grid(&mut text, &scale);
    label(&mut text, ((LEFT + right) / 2.0, HEIGHT - 14.0), "middle", "", &plot.x);
    let turned = format!(" transform=\"rotate(-90 18 {:.1})\"", (TOP + bottom) / 2.0);
    label(&mut text, (18.0, (TOP + bottom) / 2.0), "middle", &turned, &plot.y);
    text.push_str("<g clip-path=\"url(#inside)\" fill=\"none\" stroke-linejoin=\"round\">\n");
    // The first is drawn last, above the others.
    for (at, curve) in plot.curves.iter().enumerate().rev() {
        // Places on a level line between others say nothing.
        let turns = |step: &usize| {
            let value = |at: Option<usize>| at.and_then(|at| curve.values.get(at));
            let here = value(Some(*step));
            here != value(step.checked_sub(1)) || here != value(Some(*step + 1))
        };
        let points: Vec<String> = (0..curve.values.len())
            .filter(turns)
            .map(|step| format!("{:.1},{:.1}", scale.x(step as f64 + 1.0), scale.y(curve.values[step])))
            .collect();
        let style = stroke(at);
        // Writing to a string never fails.
        let _ = writeln!(text, "<polyline {style} points=\"{}\"/>", points.join(" "));
    }
    text.push_str("</g>\n");
    for marker in &plot.markers {
        diamond(&mut text, (scale.x(marker.x), scale.y(marker.y.clamp(scale.lowest, 1.0))));
    }
    legend(&mut text, plot);
    text.push_str("</svg>\n");
    text
}

fn scale(plot: &Plot) -> Scale {
    let steps = plot.curves.iter().map(|curve| curve.values.len()).max().unwrap_or(1).max(2) as f64;
    let early = |curve: &Curve| curve.values.get(SETTLED.min(curve.values.len()) - 1).copied();
    let filled = plot.curves.iter().filter(|curve| !curve.values.is_empty());
    let curves = filled.filter_map(early);
    let lowest = curves.chain(plot.markers.iter().map(|marker| marker.y)).fold(0.9, f64::min);
    Scale { steps, lowest: (lowest * 10.0).floor().clamp(0.0, 9.0) / 10.0 }
}

/// A step of 1, 2 or 5 times a power of ten.
fn tick(steps: f64) -> f64 {
    let rough = (steps / TICKS).max(1.0);
    let power = 10f64.powf(rough.log10().floor());
    let nice = [1.0, 2.0, 5.0, 10.0].into_iter().find(|nice| nice * power >= rough);
    nice.unwrap_or(10.0) * power
}

fn grid(text: &mut String, scale: &Scale) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let line = |text: &mut String, from: (f64, f64), to: (f64, f64), colour: &str| {
        let _ = writeln!(
            text,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"/>",
            from.0, from.1, to.0, to.1
        );
    };
    let step = if scale.lowest < 0.75 { 0.1 } else { 0.05 };
    let lines = ((1.0 - scale.lowest) / step).round() as u32;
    for at in 0..=lines {
        let value = 1.0 - f64::from(at) * step;
        let y = scale.y(value);
        line(text, (LEFT, y), (right, y), "#e4e4e4");
        label(text, (LEFT - 8.0, y + 4.0), "end", "", &format!("{value:.2}"));
    }
    let step = tick(scale.steps);
    let mut at = 0.0;
    while at <= scale.steps {
        let shown = f64::max(at, 1.0);
        let x = scale.x(shown);
        line(text, (x, TOP), (x, bottom), "#e4e4e4");
        label(text, (x, bottom + 18.0), "middle", "", &format!("{shown}"));
        at += step;
    }
    line(text, (LEFT, bottom), (right, bottom), "#888");
    line(text, (LEFT, TOP), (LEFT, bottom), "#888");
}

fn stroke(at: usize) -> String {
    let (colour, dash) = (COLOURS[at % COLOURS.len()], DASHES[at / COLOURS.len() % DASHES.len()]);
    let width = if at == 0 { 3.0 } else { 1.8 };
    format!("stroke=\"{colour}\" stroke-width=\"{width}\"{dash}")
}

/// The names, best at the end first, so that they stand in the order of the curves' ends.
fn legend(text: &mut String, plot: &Plot) {
    let mut order: Vec<usize> = (0..plot.curves.len()).collect();
    let last = |at: &usize| plot.curves[*at].values.last().copied().unwrap_or(0.0);
    order.sort_by(|a, b| last(b).total_cmp(&last(a)));
    let (x, mut y) = (WIDTH - RIGHT + 16.0, TOP + 6.0);
    for at in order {
        let _ = writeln!(text, "<line x1=\"{x}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" {}/>", x + 24.0, stroke(at));
        label(text, (x + 31.0, y + 4.5), "start", "", &plot.curves[at].name);
        y += 21.0;
    }
    if !plot.markers.is_empty() {
        diamond(text, (x + 12.0, y));
        label(text, (x + 31.0, y + 4.5), "start", "", &plot.markers_name);
    }
}

fn diamond(text: &mut String, (x, y): (f64, f64)) {
    let _ = writeln!(
        text,
        "<path d=\"M{x:.1} {:.1}l5.5 5.5l-5.5 5.5l-5.5 -5.5z\" fill=\"#fff\" stroke=\"#222\" stroke-width=\"1.6\"/>",
        y - 5.5
    );
}

fn label(text: &mut String, (x, y): (f64, f64), anchor: &str, style: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(text, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{style}>{words}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(curves: usize, steps: usize) -> Plot {
        let curve = |at: usize| Curve {
            name: format!("<{at}>"),
            values: (1..=steps).map(|step| 1.0 - 0.5 / (step + at) as f64).collect(),
        };
        Plot {
            title: "a & b".into(),
            x: "x".into(),
            y: "y".into(),
            curves: (0..curves).map(curve).collect(),
            markers: vec![Marker { x: 2.0, y: 0.7 }],
            markers_name: "others".into(),
        }
    }

    #[test]
    fn a_chart_has_a_line_a_curve_a_name_each_and_escapes_words() {
        let text = svg(&plot(12, 200));
        assert_eq!(text.matches("<polyline").count(), 12);
        assert!(text.contains("a &amp; b") && text.contains("&lt;11&gt;") && text.contains("others"));
        assert_eq!(text.matches('<').count(), text.matches('>').count());
        assert!(!text.contains("NaN") && !text.contains("inf"));
    }

    #[test]
    fn one_step_no_curve_and_no_values_can_be_drawn() {
        for odd in [plot(0, 0), plot(1, 1), plot(2, 0)] {
            let text = svg(&odd);
            assert!(text.ends_with("</svg>\n") && !text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!([7.0, 30.0, 200.0, 1000.0, 17.0].map(tick), [1.0, 5.0, 20.0, 100.0, 2.0]);
    }
}
