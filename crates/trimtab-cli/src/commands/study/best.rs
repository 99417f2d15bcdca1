//! `trimtab best`: the answer of a study, in a form others can use.

use super::{best_of, kept, shown};
use crate::args::Global;
use crate::args::study::Best;
use crate::failure::{FAILED, bad_input};
use crate::output::{Output, percent};
use crate::table::Table;
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::process::ExitCode;
use trimtab::advanced::study::{Answer, Answers, Chosen, Format, StudyFile, by_batch, written};

pub fn run(global: &Global, args: &Best) -> Result<ExitCode> {
    let sizes = sizes(&args.sizes)?;
    let answers = Answers::read(&kept(global, args.dir.as_deref(), &args.name)?)?;
    let all = answers.all();
    if all.is_empty() {
        let out = Output::new(global);
        out.either(&json!({ "name": args.name, "best": null }), || {
            out.line(format!("{}: no point ran yet", args.name))
        })?;
        return Ok(ExitCode::from(FAILED));
    }
    let unit = answers.files().first().map(|file| file.definition().unit.clone()).unwrap_or_default();
    let chosen: Vec<Chosen> = match sizes.is_empty() {
        true => all
            .iter()
            .cloned()
            .map(|answer| Chosen { answer, exact: true, expected_loss: Some(0.0) })
            .collect(),
        false => vec![answers.choose(&sizes).map_err(bad_input)?],
    };
    let out = Output::new(global);
    let format = if global.json && args.format == Format::Table { Format::Json } else { args.format };
    match format {
        Format::Table if answers.files().iter().any(has_front) => fronts(&out, answers.files(), &unit)?,
        Format::Table => table(&out, &chosen, &unit)?,
        Format::Json => match chosen.as_slice() {
            [one] if one.answer.sizes.is_empty() => {
                let mut object = view(&args.name, one);
                if let Some(file) = answers.files().iter().find(|file| has_front(file)) {
                    object["front"] =
                        file.study.front().into_iter().filter_map(|known| best_of(file, known)).collect();
                }
                out.object(&object)?;
            }
            several => several.iter().try_for_each(|one| out.object(&view(&args.name, one)))?,
        },
        Format::Vllm | Format::Sglang => {
            let answers: Vec<Answer> = chosen.into_iter().map(|chosen| chosen.answer).collect();
            let file = by_batch(&answers).map_err(bad_input)?;
            serde_json::to_string_pretty(&file)?.lines().try_for_each(|line| out.verbatim(line))?;
        }
        format => {
            let [one] = chosen.as_slice() else {
                return Err(bad_input(format!(
                    "`{}` has {} sizes; say which: --sizes NAME=N",
                    args.name,
                    chosen.len()
                )));
            };
            for line in written(&one.answer.point, format).unwrap_or_default().lines() {
                out.verbatim(line)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn has_front(file: &StudyFile) -> bool {
    !file.study.goals().objectives.is_empty()
}

/// Of several objectives no point is the best: all that no other beats in everything.
fn fronts(out: &Output, files: &[StudyFile], unit: &str) -> Result<()> {
    let mut table = Table::new(&["sizes", ">value", "numbers", "point"]);
    for file in files {
        for known in file.study.front() {
            let Some(ran) = known.outcome.ran() else { continue };
            let numbers: Vec<String> =
                ran.others.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let point = file.study.space().point(known.at).words();
            table.row(vec![
                words(&file.definition().sizes),
                shown(ran.value, unit),
                numbers.join(" "),
                point,
            ]);
        }
    }
    out.table(&table)
}

fn sizes(texts: &[String]) -> Result<Vec<(String, f64)>> {
    let read = |text: &String| {
        let (name, value) = text.split_once('=')?;
        Some((name.trim().to_string(), value.trim().parse::<f64>().ok().filter(|size| *size > 0.0)?))
    };
    texts
        .iter()
        .map(|text| {
            read(text)
                .ok_or_else(|| bad_input(format!("--sizes `{text}`: write NAME=NUMBER, such as batch=16")))
        })
        .collect()
}

fn table(out: &Output, chosen: &[Chosen], unit: &str) -> Result<()> {
    let table = Table::of(chosen)
        .column("sizes", |one| words(&one.answer.sizes))
        .column(">value", |one| shown(one.answer.value, unit))
        .column(">tried", |one| one.answer.evaluations.to_string())
        .column(">failed", |one| one.answer.failed.to_string())
        .column("point", |one| one.answer.point.words())
        .table();
    out.table(&table)?;
    if let [Chosen { exact: false, expected_loss, .. }] = chosen {
        let loss = expected_loss.map_or("how much that loses is not known".to_string(), |loss| {
            format!("expected to lose {}", percent(loss))
        });
        out.line(format!("These sizes were not searched: the nearest ones answer, {loss}."))?;
    }
    Ok(())
}

fn words(sizes: &[(String, Value)]) -> String {
    let words: Vec<String> = sizes.iter().map(|(name, value)| format!("{name}={value}")).collect();
    words.join(" ")
}

fn view(name: &str, chosen: &Chosen) -> Value {
    let answer = &chosen.answer;
    let mut view = json!({
        "name": name,
        "best": { "point": answer.point.to_json(), "value": answer.value },
        "evaluations": answer.evaluations,
        "failed": answer.failed,
    });
    if !answer.sizes.is_empty() {
        view["sizes"] = Value::Object(answer.sizes.iter().cloned().collect::<Map<_, _>>());
        view["exact"] = json!(chosen.exact);
        view["expected_loss"] = json!(chosen.expected_loss);
    }
    view
}
