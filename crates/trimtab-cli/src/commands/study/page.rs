//! The report of a study as a page: one file with style and drawings in it, in the style of `trimtab report`.

use super::report::{Findings, plain};
use crate::markup::{Markup, label, line, polyline, rectangle, turned};
use crate::output::{percent, times};
use serde_json::{Map, Value};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 44.0;
/// Lines of the grid.
const TICKS: usize = 5;
/// Rows of the table of points.
const MOST_ROWS: usize = 2_000;
/// Colours of drawings beside those of the page.
const STYLE: &str = "svg.study{width:100%;max-width:720px;height:auto;font:12px system-ui,sans-serif}.study text{fill:currentColor}\
    .study .grid{stroke:currentColor;opacity:.15}.study .axis{stroke:currentColor;opacity:.5}.study polyline{fill:none;stroke-width:2.2}\
    .study .found{stroke:#117733}.study .random{stroke:#999933;stroke-dasharray:6 3}.study .dot{fill:#332288;opacity:.55}\
    .study .bad{fill:#CC6677}.study .bar{fill:#44AA99}.study .front{stroke:#AA4499}\
    @media(prefers-color-scheme:dark){.study .found{stroke:#5fbf7f}.study .dot{fill:#88CCEE}}pre{white-space:pre-wrap}";

/// The page.
pub fn html(name: &str, found: &[Findings]) -> String {
    let mut page = Markup::default();
    page.own("<!DOCTYPE html>\n");
    page.open("html", &[("lang", "en")]);
    page.within("head", &[], |page| {
        page.empty("meta", &[("charset", "utf-8")]);
        page.empty("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
        page.empty("meta", &[("name", "color-scheme"), ("content", "light dark")]);
        page.leaf("title", &[], &format!("trimtab study {name}"));
        page.open("style", &[]);
        page.own(include_str!("../report/page.css"));
        page.own(STYLE);
        page.close();
    });
    page.open("body", &[]);
    page.within("header", &[], |page| {
        page.leaf("p", &[("class", "eyebrow")], "trimtab study");
        page.leaf("h1", &[], name);
        let what = |name: &str| found.first()?.what.get(name)?.as_str();
        if let Some(command) = what("command").or_else(|| what("kernel")) {
            page.within("p", &[("class", "lead")], |page| page.leaf("code", &[], command));
        }
    });
    page.within("main", &[], |page| {
        for found in found {
            study(page, found);
        }
    });
    page.within("footer", &[], |page| {
        page.words(&format!("Made by trimtab {}. ", env!("CARGO_PKG_VERSION")));
        page.leaf("code", &[], &format!("trimtab study report {name} --json"));
        page.words(" has every number.");
    });
    page.finish()
}

fn study(page: &mut Markup, found: &Findings) {
    page.open("section", &[]);
    let sizes: Vec<String> =
        found.sizes.iter().map(|(name, value)| format!("{name} = {}", plain(value))).collect();
    page.leaf(
        "h2",
        &[],
        if sizes.is_empty() { "What was found".to_string() } else { sizes.join(", ") }.as_str(),
    );
    page.within("dl", &[("class", "figures")], |page| {
        for (figure, meaning) in figures(found) {
            page.within("div", &[], |page| {
                page.leaf("dt", &[], &meaning);
                page.leaf("dd", &[], &figure);
            });
        }
    });
    if let Some((words, _)) = found.best_words() {
        page.within("p", &[], |page| {
            page.words("The best settings: ");
            page.leaf("code", &[], &words);
        });
    }
    page.leaf("h3", &[], "How fast it was found");
    page.leaf("p", &[("class", "quiet")], "The best value after so many points; dots are the points themselves, crosses on the axis failed. Dashed: the same points in random order, on average.");
    convergence(page, found);
    if !found.front.is_empty() {
        page.leaf("h3", &[], "The Pareto front");
        page.leaf(
            "p",
            &[("class", "quiet")],
            "No point that was tried is better than one of these in every objective.",
        );
        rows(page, &found.front, found);
    }
    page.leaf("h3", &[], "What matters");
    page.leaf("p", &[("class", "quiet")], "The share of the variation between points that a parameter explains, of pairs what they explain together beyond that. A search looks more closely where values are good: take these as hints.");
    effects(page, found);
    if !found.failures.is_empty() {
        page.leaf("h3", &[], "What failed");
        for kind in &found.failures {
            page.within("details", &[], |page| {
                page.leaf("summary", &[], &format!("{} × {}: {}", kind.count, kind.fault, kind.message));
                page.within("p", &[], |page| {
                    page.words("First at ");
                    page.leaf("code", &[], &kind.example);
                });
                if !kind.output.is_empty() {
                    page.leaf("pre", &[], &kind.output.join("\n"));
                }
            });
        }
    }
    page.leaf("h3", &[], "Every point");
    points(page, found);
    page.close();
}

fn figures(found: &Findings) -> Vec<(String, String)> {
    let mut figures = Vec::new();
    if let Some((_, value)) = found.best_words() {
        figures.push((found.shown(value), "the best value".to_string()));
        if let Some(default) = found.default_value {
            let factor = if found.maximise { value / default } else { default / value };
            figures.push((times(factor), "better than the default settings".to_string()));
        }
    }
    figures.push((format!("{} of {}", found.evaluations, found.points), "points tried".to_string()));
    figures.push((found.failed.to_string(), "failed".to_string()));
    figures.push((crate::output::time(found.seconds * 1e9), "spent".to_string()));
    figures
}

/// Values to places of the drawing, as ratios where all are above zero.
struct Scale {
    least: f64,
    most: f64,
    in_doublings: bool,
    steps: f64,
}

impl Scale {
    fn x(&self, step: f64) -> f64 {
        LEFT + (step - 1.0) / (self.steps - 1.0).max(1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn at(&self, value: f64) -> f64 {
        if self.in_doublings { value.log2() } else { value }
    }

    fn y(&self, value: f64) -> f64 {
        let width = (self.at(self.most) - self.at(self.least)).max(1e-12);
        TOP + (self.at(self.most) - self.at(value)) / width * (HEIGHT - TOP - BOTTOM)
    }

    fn value(&self, share: f64) -> f64 {
        let at = self.at(self.least) + share * (self.at(self.most) - self.at(self.least));
        if self.in_doublings { at.exp2() } else { at }
    }
}

fn convergence(page: &mut Markup, found: &Findings) {
    let value = |tried: &Map<String, Value>| tried.get("value").and_then(Value::as_f64);
    let values: Vec<f64> = found.tried.iter().filter_map(value).collect();
    let (Some(least), Some(most)) =
        (values.iter().copied().reduce(f64::min), values.iter().copied().reduce(f64::max))
    else {
        page.leaf("p", &[], "No point ran.");
        return;
    };
    let scale = Scale { least, most, in_doublings: least > 0.0, steps: found.evaluations as f64 };
    let size = format!("0 0 {WIDTH} {HEIGHT}");
    let attributes = [
        ("viewBox", &*size),
        ("class", "study"),
        ("role", "img"),
        ("aria-label", "The best value after so many points"),
    ];
    page.within("svg", &attributes, |svg| {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in 0..=TICKS {
            let share = tick as f64 / TICKS as f64;
            let (value, step) = (scale.value(share), 1.0 + share * (scale.steps - 1.0).max(0.0));
            line(svg, (LEFT, scale.y(value)), (right, scale.y(value)), "grid");
            label(svg, (LEFT - 6.0, scale.y(value) + 4.0), "", "end", &found.shown(rounded(value)));
            label(svg, (scale.x(step), bottom + 18.0), "", "middle", &format!("{step:.0}"));
        }
        line(svg, (LEFT, bottom), (right, bottom), "axis");
        label(svg, ((LEFT + right) / 2.0, HEIGHT - 8.0), "", "middle", "points tried");
        turned(svg, (14.0, (TOP + bottom) / 2.0), "value");
        for (at, tried) in found.tried.iter().enumerate() {
            let x = scale.x(at as f64 + 1.0);
            match value(tried) {
                Some(value) => rectangle(svg, (x - 2.0, scale.y(value) - 2.0), (4.0, 4.0), "dot"),
                None => rectangle(svg, (x - 2.0, bottom - 4.0), (4.0, 8.0), "bad"),
            }
        }
        let random = found
            .random
            .iter()
            .enumerate()
            .map(|(at, value)| (scale.x(at as f64 + 1.0), scale.y(value.clamp(least, most))));
        polyline(svg, random, "random");
        let best = found
            .convergence
            .iter()
            .enumerate()
            .filter_map(|(at, value)| Some((scale.x(at as f64 + 1.0), scale.y((*value)?))));
        polyline(svg, best, "found");
    });
}

/// Three digits.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi(2 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

fn effects(page: &mut Markup, found: &Findings) {
    page.within("div", &[("class", "scroll")], |page| {
        page.within("table", &[], |page| {
            head(page, &["parameter", "explains", "", "best on average"]);
            page.within("tbody", &[], |page| {
                for effect in found.parameters.iter().chain(found.pairs.iter().take(8)) {
                    page.within("tr", &[], |page| {
                        page.within("td", &[], |page| page.leaf("code", &[], &effect.parameters.join(" × ")));
                        page.leaf("td", &[("class", "number")], &percent(effect.share));
                        page.within("td", &[], |page| {
                            let attributes = [
                                ("viewBox", "0 0 100 10"),
                                ("width", "100"),
                                ("height", "10"),
                                ("class", "study"),
                                ("aria-hidden", "true"),
                            ];
                            page.within("svg", &attributes, |svg| {
                                rectangle(svg, (0.0, 1.0), (100.0 * effect.share, 8.0), "bar")
                            });
                        });
                        page.leaf("td", &[], effect.best.as_deref().unwrap_or_default());
                    });
                }
            });
        });
    });
}

fn head(page: &mut Markup, names: &[&str]) {
    page.within("thead", &[], |page| {
        page.within("tr", &[], |page| names.iter().for_each(|name| page.leaf("th", &[], name)));
    });
}

/// Points with their values and numbers.
fn rows(page: &mut Markup, front: &[Value], found: &Findings) {
    page.within("div", &[("class", "scroll")], |page| {
        page.within("table", &[], |page| {
            head(page, &["value", "numbers", "point"]);
            page.within("tbody", &[], |page| {
                for one in front {
                    page.within("tr", &[], |page| {
                        page.leaf(
                            "td",
                            &[("class", "number")],
                            &found.shown(one["value"].as_f64().unwrap_or(f64::NAN)),
                        );
                        page.leaf("td", &[], &words(one.get("numbers")));
                        page.within("td", &[], |page| page.leaf("code", &[], &words(one.get("point"))));
                    });
                }
            });
        });
    });
}

fn words(object: Option<&Value>) -> String {
    let named = object.and_then(Value::as_object).into_iter().flatten();
    let words: Vec<String> = named.map(|(name, value)| format!("{name}={}", plain(value))).collect();
    words.join(" ")
}

fn points(page: &mut Markup, found: &Findings) {
    if found.tried.len() > MOST_ROWS {
        page.leaf("p", &[("class", "quiet")], &format!("The first {MOST_ROWS} of {}.", found.tried.len()));
    }
    page.within("details", &[], |page| {
        page.leaf("summary", &[], &format!("{} points in the order they were tried", found.tried.len()));
        page.within("div", &[("class", "scroll")], |page| {
            page.within("table", &[], |page| {
                head(page, &["#", "value", "numbers", "point"]);
                page.within("tbody", &[], |page| {
                    for (at, tried) in found.tried.iter().take(MOST_ROWS).enumerate() {
                        page.within("tr", &[], |page| {
                            page.leaf("td", &[("class", "number")], &(at + 1).to_string());
                            let value =
                                tried.get("value").and_then(Value::as_f64).map(|value| found.shown(value));
                            let failure = tried.get("failure").and_then(Value::as_str);
                            page.leaf(
                                "td",
                                &[("class", "number")],
                                &value.or(failure.map(str::to_string)).unwrap_or_default(),
                            );
                            page.leaf("td", &[], &words(tried.get("numbers")));
                            page.within("td", &[], |page| page.leaf("code", &[], &words(tried.get("point"))));
                        });
                    }
                });
            });
        });
    });
}
