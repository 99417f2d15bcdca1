//! A report as a page: one file with style and drawings in it, readable without a script, light or dark, wide or narrow.

use super::text::{date, expected, one, other, rules, source, standing, tally, transfer, wisdom};
use super::view::{DecisionView, View};
use super::{bars, chart, speed};
use crate::commands::calibrate::{CrossoverView, count, unit_time, words};
use crate::commands::devices::DeviceView;
use crate::markup::{Attributes, Markup};
use crate::output::{percent, time, times};
use trimtab::advanced::plan::regret::COVERED_SPREADS;
use trimtab::{Bytes, Nanos};

/// Sections and their anchors, in order.
const SECTIONS: [(&str, &str); 9] = [
    ("speed", "How fast"),
    ("trouble", "What to look at"),
    ("devices", "Devices"),
    ("crossovers", "Crossovers"),
    ("calibration", "Calibration"),
    ("rules", "Which device"),
    ("decisions", "Decisions"),
    ("quality", "How good choices were"),
    ("wisdom", "Wisdom"),
];
/// A group of decisions with more rows than this is folded.
const FOLDED: usize = 12;

/// The page.
pub(super) fn html(view: &View) -> String {
    let mut page = Markup::default();
    page.own("<!DOCTYPE html>\n");
    page.open("html", &[("lang", "en")]);
    page.within("head", &[], |page| {
        page.empty("meta", &[("charset", "utf-8")]);
        let narrow = "width=device-width, initial-scale=1";
        page.empty("meta", &[("name", "viewport"), ("content", narrow)]);
        page.empty("meta", &[("name", "color-scheme"), ("content", "light dark")]);
        page.leaf("title", &[], &format!("trimtab report, {}", date(view.made_ms)));
        page.open("style", &[]);
        page.own(include_str!("page.css"));
        page.close();
    });
    page.open("body", &[]);
    page.within("header", &[], |page| header(page, view));
    page.within("main", &[], |page| {
        let write: [fn(&mut Markup, &View); 9] =
            [speeds, trouble, devices, crossovers, calibration, thresholds, decisions, quality, remembered];
        for ((id, title), write) in SECTIONS.into_iter().zip(write) {
            page.within("section", &[("id", id)], |page| {
                page.leaf("h2", &[], title);
                write(page, view);
            });
        }
    });
    page.within("footer", &[], |page| {
        let made = format!("Made by trimtab {} on {}. ", view.version, date(view.made_ms));
        page.words(&made);
        page.words("No kernel was measured for it; ");
        page.leaf("code", &[], "trimtab report --json");
        page.words(" has every number.");
    });
    page.finish()
}

fn header(page: &mut Markup, view: &View) {
    page.leaf("p", &[("class", "eyebrow")], "trimtab report");
    page.leaf("h1", &[], "Where things run, and why");
    let devices: Vec<&str> = view.devices.iter().map(|device| device.name.as_str()).collect();
    page.leaf("p", &[("class", "lead")], &format!("{} · {}", devices.join(" and "), date(view.made_ms)));
    for line in standing(view) {
        page.leaf("p", &[("class", "notice")], &line);
    }
    page.within("dl", &[("class", "figures")], |page| {
        for (figure, meaning) in figures(view) {
            page.within("div", &[], |page| {
                page.leaf("dt", &[], &meaning);
                page.leaf("dd", &[], &figure);
            });
        }
    });
    page.within("nav", &[("aria-label", "Sections")], |page| {
        for (id, title) in SECTIONS {
            page.leaf("a", &[("href", &format!("#{id}"))], title);
        }
    });
}

/// The numbers people look for first.
fn figures(view: &View) -> Vec<(String, String)> {
    let elsewhere = view.decisions.iter().filter(|decision| decision.device != "cpu").count();
    let measured = view.decisions.iter().filter(|decision| decision.measured_ns.is_some()).count();
    let all = view.decisions.len();
    let mut figures = vec![
        (format!("{elsewhere} of {all}"), "problems run on another device".to_string()),
        (format!("{measured} of {all}"), "decisions rest on a measurement".to_string()),
    ];
    let settled = view.decisions.iter().filter(|decision| decision.trust == "settled").count();
    figures.push((format!("{} of {all}", all - settled), "decisions are not settled yet".to_string()));
    if !view.barred.is_empty() {
        figures.push((view.barred.len().to_string(), "points barred or suspect".to_string()));
    }
    if let Some(speedup) = &view.stats.speedup {
        figures.push((times(speedup.geomean), "faster than the default kernels".to_string()));
    }
    if let Some(most) = view.stats.regret.iter().map(|regret| regret.geomean).reduce(f64::max) {
        figures.push((format!("+{}", percent(most - 1.0)), "regret of the worst operation".to_string()));
    }
    figures.push((view.wisdom.facts.to_string(), "facts remembered".to_string()));
    figures
}

/// Speeds of products against the roofline, and what tuning gained.
fn speeds(page: &mut Markup, view: &View) {
    let told = "Marks are the best measured time of a kernel on a product, the dashed line is what the device's measured rates allow \
                with everything in its caches. Kernels that win most often are drawn.";
    page.leaf("p", &[("class", "quiet")], told);
    page.within("div", &[("class", "plots")], |page| {
        for device in speed::devices(&view.speeds) {
            page.within("figure", &[], |page| {
                page.leaf("h3", &[], device);
                let _ = speed::draw(page, device, &view.speeds);
            });
        }
        if let Some(speedup) = &view.stats.speedup {
            page.within("figure", &[], |page| {
                page.leaf("h3", &[], "Against the default kernels");
                let _ = bars::speedups(page, &speedup.operations);
                let told =
                    "Whiskers: the mean's 95 % confidence interval over problems, none where there is one problem only.";
                page.leaf("figcaption", &[], told);
            });
        }
    });
    if view.speeds.is_empty() {
        page.leaf(
            "p",
            &[("class", "quiet")],
            "No product was measured yet: `trimtab tune` measures what is typical.",
        );
    }
}

/// Problems shown of each kind of trust.
const MOST_NAMED: usize = 8;

/// What failed, and what is not settled.
fn trouble(page: &mut Markup, view: &View) {
    if view.barred.is_empty() {
        page.leaf("p", &[], "Nothing failed: no kernel is barred.");
    } else {
        let headings = ["kernel", "settings", "problem", "state", "why"];
        table(page, "Barred and suspect kernels", &headings, |page| {
            for one in &view.barred {
                page.within("tr", &[], |page| {
                    page.within("td", &[], |page| page.leaf("code", &[], &one.kernel));
                    cell(page, &one.point);
                    cell(page, one.problem.as_deref().unwrap_or("all"));
                    cell(page, if one.is_suspect { "suspect" } else { "out" });
                    page.leaf("td", &[("class", "wrap")], &one.why);
                });
            }
        });
        page.within("p", &[("class", "quiet")], |page| {
            page.leaf("code", &[], "trimtab wisdom quarantine lift");
            page.words(" gives them another chance.");
        });
    }
    for trust in ["provisional", "checked", "measured"] {
        let its: Vec<&str> = (view.decisions.iter().filter(|decision| decision.trust == trust))
            .map(|decision| decision.problem.as_str())
            .collect();
        if its.is_empty() {
            continue;
        }
        let what = match trust {
            "provisional" => "rest on an estimate",
            "checked" => "are checked and not raced",
            _ => "were raced while others used the machine, or cut short",
        };
        let named = its.iter().take(MOST_NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = if its.len() > MOST_NAMED { ", …" } else { "" };
        page.leaf(
            "p",
            &[],
            &format!("{} of {} decisions {what}: {named}{more}", its.len(), view.decisions.len()),
        );
    }
    page.within("p", &[("class", "quiet")], |page| {
        page.leaf("code", &[], "trimtab tune PROBLEM");
        page.words(" settles one; programs that run do so in the background.");
    });
}

fn devices(page: &mut Markup, view: &View) {
    page.within("div", &[("class", "cards")], |page| {
        for device in &view.devices {
            page.within("article", &[("class", "card")], |page| card(page, device));
        }
    });
    for reason in &view.unusable {
        page.leaf("p", &[("class", "quiet")], reason);
    }
}

fn card(page: &mut Markup, device: &DeviceView) {
    page.within("h3", &[], |page| {
        page.leaf("code", &[], &device.id);
        page.words(" ");
        page.words(&device.name);
    });
    let mut rows: Vec<(&str, String)> = Vec::new();
    let backend = device.backend.as_ref().map(|backend| format!(" over {backend}")).unwrap_or_default();
    rows.push(("kind", format!("{}{backend}", device.class.unwrap_or(device.kind))));
    rows.extend(device.driver.clone().map(|driver| ("driver", driver)));
    if device.kind == "cpu" {
        let cores = device.cores.map(|cores| format!("{cores} cores, ")).unwrap_or_default();
        rows.push(("threads", format!("{cores}{} for kernels", device.threads)));
    }
    rows.extend(device.memory_bytes.map(|memory| ("memory", Bytes(memory).to_string())));
    rows.push(("arithmetic", format!("{:.1} GFLOP/s", device.peak_gflops)));
    rows.push(("bandwidth", format!("{:.1} GB/s", device.bandwidth_gb_s)));
    rows.extend(device.upload.as_ref().map(|way| ("upload", transfer(way))));
    rows.extend(device.download.as_ref().map(|way| ("download", transfer(way))));
    rows.extend(device.submit_ns.map(|ns| ("hand-over", Nanos(ns).to_string())));
    rows.push(("kernels", device.kernels.len().to_string()));
    definitions(page, &[], &rows);
    page.leaf("p", &[("class", "print")], &device.fingerprint);
}

/// Names and what is said of each.
fn definitions(page: &mut Markup, attributes: Attributes<'_>, rows: &[(&str, String)]) {
    page.within("dl", attributes, |page| {
        for (name, value) in rows {
            page.leaf("dt", &[], name);
            page.leaf("dd", &[], value);
        }
    });
}

fn crossovers(page: &mut Markup, view: &View) {
    let told =
        "Time of a whole call by size: operands in the caller's memory, transfers and waiting included. ";
    page.open("p", &[("class", "quiet")]);
    page.words(told);
    page.words(match (view.choice, view.calibrated) {
        (false, _) => "With one device there is nothing to cross.",
        (true, false) => "Nothing was measured yet: dashed lines are what the built-in model expects.",
        (true, true) => {
            "Large marks are the least time seen, small ones every repeat, lines what decisions use."
        }
    });
    page.close();
    page.within("div", &[("class", "plots")], |page| {
        for (curves, row) in view.curves.iter().zip(&view.thresholds) {
            page.within("figure", &[], |page| {
                page.leaf("h3", &[], row.class);
                if chart::crossovers(page, curves, &row.crossovers).is_none() {
                    page.leaf("p", &[("class", "quiet")], "No times.");
                }
                page.leaf("figcaption", &[], &crossed(&row.crossovers, row.unit));
            });
        }
    });
}

/// Where devices cross, in words.
pub(super) fn crossed(found: &[(String, CrossoverView)], unit: &str) -> String {
    let each = found.iter().map(|(device, view)| {
        let words = words(view, unit);
        match (view.kind, view.tried_to) {
            (_, Some(size)) => format!("{device} is never faster, tried up to {} {unit}", count(size)),
            ("at", _) => format!("{device} is faster {words}"),
            ("always", _) => format!("{device} is faster at every size tried"),
            _ => format!("{device}: {words}"),
        }
    });
    let each: Vec<String> = each.collect();
    if each.is_empty() { "Not calibrated.".to_string() } else { each.join("; ") }
}

/// A table in a box of its own, which scrolls where the page is narrow. Headings that begin with `>` are of numbers.
fn table(page: &mut Markup, caption: &str, headings: &[&str], rows: impl FnOnce(&mut Markup)) {
    page.within(
        "div",
        &[("class", "scroll"), ("tabindex", "0"), ("role", "region"), ("aria-label", caption)],
        |page| {
            page.within("table", &[], |page| {
                page.within("thead", &[], |page| {
                    page.within("tr", &[], |page| {
                        for heading in headings {
                            match heading.strip_prefix('>') {
                                Some(heading) => {
                                    page.leaf("th", &[("scope", "col"), ("class", "n")], heading)
                                }
                                None => page.leaf("th", &[("scope", "col")], heading),
                            }
                        }
                    });
                });
                page.within("tbody", &[], rows);
            });
        },
    );
}

fn cell(page: &mut Markup, words: &str) {
    page.leaf("td", &[], words);
}

fn number(page: &mut Markup, words: &str) {
    page.leaf("td", &[("class", "n")], words);
}

fn calibration(page: &mut Markup, view: &View) {
    let mut headings =
        vec!["class", "device", ">start", ">per unit", ">before", ">ratio", ">samples", "from"];
    let noted = view.calibration.iter().any(|cost| cost.row.assumed.is_some());
    headings.extend(noted.then_some("note"));
    table(page, "What a call costs by class and device", &headings, |page| {
        let mut last = "";
        for cost in &view.calibration {
            let row = &cost.row;
            page.within("tr", &[], |page| {
                cell(page, if row.class == last { "" } else { row.class });
                page.within("td", &[], |page| page.leaf("code", &[], &row.device));
                number(page, &time(row.after.start_ns));
                number(page, &format!("{} / {}", unit_time(row.after.unit_ns), one(row.unit)));
                number(page, &row.before.map(|before| unit_time(before.unit_ns)).unwrap_or_default());
                number(page, &row.ratio.map(times).unwrap_or_default());
                number(page, &if row.samples > 0 { row.samples.to_string() } else { String::new() });
                cell(page, row.origin);
                if noted {
                    page.leaf("td", &[("class", "note")], row.assumed.as_deref().unwrap_or_default());
                }
            });
            last = row.class;
        }
    });
    let told = "Start is what a call of no size takes, per unit what each element or arithmetic operation adds. Before is what \
                decisions rested on until it was calibrated, ratio the new cost a unit over the old.";
    page.leaf("p", &[("class", "quiet")], told);
}

fn thresholds(page: &mut Markup, view: &View) {
    let headings = ["class", "decided by", "from which size on another device is used"];
    table(page, "Which device is used from which size on", &headings, |page| {
        for row in &view.thresholds {
            page.within("tr", &[], |page| {
                cell(page, row.class);
                cell(page, source(row.source));
                page.leaf("td", &[("class", "wrap")], &row.words);
            });
        }
    });
    for line in rules(view) {
        page.leaf("p", &[], &line);
    }
    let told = "Sizes are elements of the largest operand, for products arithmetic operations. A problem that was measured is decided \
                by its own times; a rule decides alone.";
    page.leaf("p", &[("class", "quiet")], told);
}

fn decisions(page: &mut Markup, view: &View) {
    page.within("div", &[("class", "beside")], |page| {
        page.within("div", &[], |page| {
            page.within("ul", &[("class", "tally")], |page| {
                tally(view).iter().for_each(|line| page.leaf("li", &[], line));
            });
            let told = "Problems that are typical or were measured here, decided as a call would be now. Times are of whole calls: \
                        = rests on measurements of this problem, ~ on a model; > is what moving the operands alone takes.";
            page.leaf("p", &[("class", "quiet")], told);
        });
        let ids: Vec<String> = view.devices.iter().map(|device| device.id.clone()).collect();
        if view.choice {
            page.within("figure", &[], |page| {
                if chart::decisions(page, &view.decisions, &ids).is_none() {
                    page.leaf("p", &[("class", "quiet")], "No problem has times of two devices to compare.");
                }
                let told = "Each mark is a problem, coloured by where it runs. Hollow ones were ruled out by what moving the operands \
                            takes: the device would take more.";
                page.leaf("figcaption", &[], told);
            });
        }
    });
    let mut rest = &view.decisions[..];
    while let Some(first) = rest.first() {
        let count = rest.iter().take_while(|decision| decision.operation == first.operation).count();
        let (group, after) = rest.split_at(count);
        decisions_of(page, first.operation, group);
        rest = after;
    }
}

fn decisions_of(page: &mut Markup, operation: &str, group: &[DecisionView]) {
    let open: &[(&str, &str)] = if group.len() <= FOLDED { &[("open", "open")] } else { &[] };
    page.within("details", open, |page| {
        let elsewhere = group.iter().filter(|decision| decision.device != "cpu").count();
        page.within("summary", &[], |page| {
            page.leaf("b", &[], operation);
            let away = if elsewhere > 0 { format!(", {elsewhere} on another device") } else { String::new() };
            page.words(&format!(" {} problems{away}", group.len()));
        });
        let headings = ["problem", "runs on", "why", ">processor", ">other", ">measured", "kernel"];
        table(page, &format!("Decisions about {operation}"), &headings, |page| {
            group.iter().for_each(|decision| page.within("tr", &[], |page| row(page, operation, decision)));
        });
    });
}

fn row(page: &mut Markup, operation: &str, decision: &DecisionView) {
    // The operation stands above.
    let problem = decision.problem.strip_prefix(operation).unwrap_or(&decision.problem);
    let problem = problem.trim_start_matches([':', '.']);
    page.within("td", &[], |page| {
        page.leaf("code", &[("title", &decision.problem)], problem);
        // Where there is a time of another device, it says enough.
        let told = decision.other.is_some() || decision.other_at_least_ns.is_some();
        if !told && !decision.note.is_empty() {
            page.leaf("span", &[("class", "note")], &decision.note);
        }
    });
    page.within("td", &[], |page| page.leaf("code", &[], &decision.device));
    page.within("td", &[], |page| {
        page.leaf("span", &[("class", &format!("why {}", decision.why))], decision.why);
    });
    number(page, &decision.processor.as_ref().map(expected).unwrap_or_default());
    number(page, &other(decision));
    number(page, &decision.measured_ns.map(time).unwrap_or_default());
    page.within("td", &[], |page| {
        let point = if decision.point == "-" { "" } else { &decision.point };
        page.leaf("code", &[("title", point)], &decision.kernel);
    });
}

fn quality(page: &mut Markup, view: &View) {
    let stats = &view.stats;
    let mut rows: Vec<(&str, String)> = vec![(
        "known",
        format!(
            "{} problems, {} facts ({} failures), {} races decided",
            stats.problems, stats.facts, stats.failures, stats.verdicts
        ),
    )];
    rows.extend(stats.speedup.as_ref().map(|speedup| {
        let geomean = times(speedup.geomean);
        let most = times(speedup.most);
        (
            "speed-up",
            format!(
                "{geomean} against the default kernels, mean of {} problems; at most {most}",
                speedup.problems
            ),
        )
    }));
    let accuracy = |of: &trimtab::advanced::plan::regret::Accuracy| {
        let covered =
            of.covered.map(|covered| format!(", {} within {COVERED_SPREADS} spreads", percent(covered)));
        let (off, covered) = (percent(of.mape), covered.unwrap_or_default());
        format!("off by {off} on average{covered}, {} compared", of.compared)
    };
    rows.extend(stats.accuracy.as_ref().map(|of| ("measured ahead, against live calls", accuracy(of))));
    rows.extend(stats.predicted.as_ref().map(|of| ("predicted from other problems", accuracy(of))));
    if stats.live_calls > 0 {
        rows.push(("live calls timed", format!("{}, {} in all", stats.live_calls, time(stats.live_ns))));
    }
    rows.push((
        "exploration",
        match &stats.explored {
            Some(explored) => {
                let share =
                    explored.share.map(|share| format!(", {} of the time of timed calls", percent(share)));
                let extra = time(explored.extra_ns);
                format!(
                    "{} calls tried another kernel and took {extra} longer{}",
                    explored.calls,
                    share.unwrap_or_default()
                )
            }
            None => "no call tried another kernel".to_string(),
        },
    ));
    if stats.drifted > 0 {
        rows.push(("drift", format!("{} kernels on problems changed their time", stats.drifted)));
    }
    definitions(page, &[("class", "facts")], &rows);
    page.leaf("h3", &[], "Regret");
    if stats.regret.is_empty() {
        let told = "Regret is what the chosen kernel took over the best of those that live calls tried beside it. No call tried any so far: \
                    that happens where no completed race decided.";
        page.leaf("p", &[("class", "quiet")], told);
        return;
    }
    page.within("figure", &[("class", "half")], |page| {
        let _ = bars::regrets(page, &stats.regret);
    });
    table(
        page,
        "Regret by operation",
        &["operation", ">problems", ">calls", ">regret", ">p95", "device"],
        |page| {
            for regret in &stats.regret {
                page.within("tr", &[], |page| {
                    cell(page, &regret.operation);
                    number(page, &regret.problems.to_string());
                    number(page, &regret.calls.to_string());
                    number(page, &times(regret.geomean));
                    number(page, &times(regret.p95));
                    cell(page, &regret.device);
                });
            }
        },
    );
}

fn remembered(page: &mut Markup, view: &View) {
    wisdom(view).iter().for_each(|line| page.leaf("p", &[], line));
    if !view.stats.kernels.is_empty() {
        let most = 10;
        let headings = ["most used kernels", ">calls", ">mean", "device"];
        table(page, "Most used kernels", &headings, |page| {
            for used in view.stats.kernels.iter().take(most) {
                page.within("tr", &[], |page| {
                    page.within("td", &[], |page| page.leaf("code", &[], &used.kernel));
                    number(page, &count(used.calls));
                    number(page, &time(used.ns / used.calls.max(1) as f64));
                    cell(page, &used.device);
                });
            }
        });
    }
}
