//! A chart as SVG text: curves over one, two, … steps, markers, axes, a legend. Knows nothing of what it shows.

use crate::markup::{Markup, label, line, polyline, rectangle, turned};

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
const DASHES: [&str; 3] = ["none", "6 3", "2 3"];
/// How the rest looks.
const STYLE: &str = "svg{font:13px system-ui,'DejaVu Sans',Arial,sans-serif;fill:#333}.page,.other{fill:#fff}.title{font-size:15px;\
    font-weight:600}.grid{stroke:#e4e4e4}.axis{stroke:#888}polyline{fill:none;stroke-linejoin:round}.other{stroke:#222;stroke-width:1.6}";

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
    let (width, height) = (WIDTH.to_string(), HEIGHT.to_string());
    let size = format!("0 0 {width} {height}");
    let attributes = [
        ("xmlns", "http://www.w3.org/2000/svg"),
        ("viewBox", &*size),
        ("width", &*width),
        ("height", &*height),
    ];
    let mut file = Markup::default();
    file.within("svg", &attributes, |svg| {
        svg.open("style", &[]);
        svg.own(STYLE);
        (0..plot.curves.len()).for_each(|at| svg.words(&stroke(at)));
        svg.close();
        rectangle(svg, (0.0, 0.0), (WIDTH, HEIGHT), "page");
        svg.within("clipPath", &[("id", "inside")], |svg| {
            rectangle(svg, (LEFT, TOP - 4.0), (right - LEFT, bottom - TOP + 4.0), "");
        });
        label(svg, (LEFT, 26.0), "title", "start", &plot.title);
        grid(svg, &scale);
        label(svg, ((LEFT + right) / 2.0, HEIGHT - 14.0), "name", "middle", &plot.x);
        turned(svg, (18.0, (TOP + bottom) / 2.0), &plot.y);
        svg.within("g", &[("clip-path", "url(#inside)")], |svg| {
            // The first is drawn last, above the others.
            for (at, curve) in plot.curves.iter().enumerate().rev() {
                // Places on a level line between others say nothing.
                let turns = |step: &usize| {
                    let value = |at: Option<usize>| at.and_then(|at| curve.values.get(at));
                    let here = value(Some(*step));
                    here != value(step.checked_sub(1)) || here != value(Some(*step + 1))
                };
                let steps = (0..curve.values.len()).filter(turns);
                let places = steps.map(|step| (scale.x(step as f64 + 1.0), scale.y(curve.values[step])));
                polyline(svg, places, &format!("c{at}"));
            }
        });
        for marker in &plot.markers {
            diamond(svg, (scale.x(marker.x), scale.y(marker.y.clamp(scale.lowest, 1.0))));
        }
        legend(svg, plot);
    });
    file.finish()
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

fn grid(svg: &mut Markup, scale: &Scale) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let step = if scale.lowest < 0.75 { 0.1 } else { 0.05 };
    let lines = ((1.0 - scale.lowest) / step).round() as u32;
    for at in 0..=lines {
        let value = 1.0 - f64::from(at) * step;
        let y = scale.y(value);
        line(svg, (LEFT, y), (right, y), "grid");
        label(svg, (LEFT - 8.0, y + 4.0), "tick", "end", &format!("{value:.2}"));
    }
    let step = tick(scale.steps);
    let mut at = 0.0;
    while at <= scale.steps {
        let shown = f64::max(at, 1.0);
        let x = scale.x(shown);
        line(svg, (x, TOP), (x, bottom), "grid");
        label(svg, (x, bottom + 18.0), "tick", "middle", &format!("{shown}"));
        at += step;
    }
    line(svg, (LEFT, bottom), (right, bottom), "axis");
    line(svg, (LEFT, TOP), (LEFT, bottom), "axis");
}

/// How a curve looks.
fn stroke(at: usize) -> String {
    let (colour, dash) = (COLOURS[at % COLOURS.len()], DASHES[at / COLOURS.len() % DASHES.len()]);
    let width = if at == 0 { 3.0 } else { 1.8 };
    format!(".c{at}{{stroke:{colour};stroke-width:{width};stroke-dasharray:{dash}}}")
}

/// The names, best at the end first, so that they stand in the order of the curves' ends.
fn legend(svg: &mut Markup, plot: &Plot) {
    let mut order: Vec<usize> = (0..plot.curves.len()).collect();
    let last = |at: &usize| plot.curves[*at].values.last().copied().unwrap_or(0.0);
    order.sort_by(|a, b| last(b).total_cmp(&last(a)));
    let (x, mut y) = (WIDTH - RIGHT + 16.0, TOP + 6.0);
    for at in order {
        line(svg, (x, y), (x + 24.0, y), &format!("c{at}"));
        label(svg, (x + 31.0, y + 4.5), "key", "start", &plot.curves[at].name);
        y += 21.0;
    }
    if !plot.markers.is_empty() {
        diamond(svg, (x + 12.0, y));
        label(svg, (x + 31.0, y + 4.5), "key", "start", &plot.markers_name);
    }
}

fn diamond(svg: &mut Markup, (x, y): (f64, f64)) {
    let path = format!("M{x:.1} {:.1}l5.5 5.5l-5.5 5.5l-5.5 -5.5z", y - 5.5);
    svg.empty("path", &[("d", &path), ("class", "other")]);
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
