//! `docs/space.schema.json` says what space files hold: the same keys as the parser knows, and what examples and the book write fits it.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use support::{Ended, Machine};
use trimtab::advanced::study::toml::de::{DeTable, DeValue};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn schema() -> Value {
    serde_json::from_str(&std::fs::read_to_string(root().join("docs/space.schema.json")).unwrap()).unwrap()
}

/// A space file that is right but for a key nobody knows, in the place of `HERE`; what stands there otherwise is left empty.
const FILE: &str = "AT_TOP
[parameters]
n = { values = [1, 2] IN_PARAMETER }
[sizes]
m = 8
[kernel]
entry = \"k\"
IN_KERNEL
[[arguments]]
name = \"out\"
type = \"f32\"
shape = \"m\"
output = true
fill = { random = [0, 1] IN_FILL }
IN_ARGUMENT
[reference]
kernel = \"r.c\"
IN_REFERENCE
";

/// The keys that the command says there are, when it is given one nobody knows.
fn known_keys(machine: &Machine, place: &str) -> Vec<String> {
    let unknown = if place == "IN_PARAMETER" || place == "IN_FILL" { ", nobody = 1" } else { "nobody = 1" };
    let places = ["AT_TOP", "IN_PARAMETER", "IN_KERNEL", "IN_FILL", "IN_ARGUMENT", "IN_REFERENCE"];
    let text = places.iter().fold(FILE.to_string(), |text, known| {
        text.replace(known, if *known == place { unknown } else { "" })
    });
    std::fs::write(machine.path().join("space.toml"), text).unwrap();
    let args = ["tune", "k.c", "--space", "space.toml"];
    let said = Ended::of(machine.command(&args).current_dir(machine.path())).err;
    assert!(said.contains("`nobody`"), "{place}: {said}");
    let list = said.split_once("there are: ").map_or("", |(_, list)| list);
    let mut keys: Vec<String> = list.trim().split(", ").map(str::to_string).collect();
    keys.sort();
    keys
}

#[test]
fn the_schema_has_every_key_the_parser_knows_and_no_others() {
    let machine = Machine::new();
    for (name, text) in
        [("k.c", "void k(float *out) { out[0] = n; }"), ("r.c", "void r(float *out) { out[0] = 1; }")]
    {
        std::fs::write(machine.path().join(name), text).unwrap();
    }
    let schema = schema();
    for (place, pointer) in [
        ("AT_TOP", "/properties"),
        ("IN_PARAMETER", "/properties/parameters/additionalProperties/oneOf/2/properties"),
        ("IN_KERNEL", "/properties/kernel/properties"),
        ("IN_FILL", "/properties/arguments/items/properties/fill/oneOf/1/properties"),
        ("IN_ARGUMENT", "/properties/arguments/items/properties"),
        ("IN_REFERENCE", "/properties/reference/properties"),
    ] {
        let properties = schema.pointer(pointer).unwrap_or_else(|| panic!("{place}: nothing at {pointer}"));
        let mut keys: Vec<String> = properties.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        assert_eq!(known_keys(&machine, place), keys, "{place}");
    }
}

fn as_json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => json!(text.to_string()),
        DeValue::Integer(integer) => json!(i64::from_str_radix(integer.as_str(), integer.radix()).unwrap()),
        DeValue::Float(float) => json!(float.as_str().parse::<f64>().unwrap()),
        DeValue::Boolean(on) => json!(on),
        DeValue::Datetime(date) => json!(date.to_string()),
        DeValue::Array(items) => items.iter().map(|item| as_json(item.get_ref())).collect(),
        DeValue::Table(table) => table_as_json(table),
    }
}

fn table_as_json(table: &DeTable<'_>) -> Value {
    let entries = table.iter().map(|(name, value)| (name.get_ref().to_string(), as_json(value.get_ref())));
    Value::Object(entries.collect())
}

/// Where a value does not fit a schema; the words of JSON Schema that ours uses.
fn misfit(whole: &Value, schema: &Value, value: &Value) -> Option<String> {
    let fits = |schema: &Value| misfit(whole, schema, value).is_none();
    let number = |limit: &Value| (value.as_f64(), limit.as_f64().unwrap());
    let count = || value.as_array().map_or_else(|| value.as_object().map_or(0, Map::len), Vec::len) as u64;
    for (word, wanted) in schema.as_object().unwrap() {
        let is_right = match word.as_str() {
            "$schema" | "title" | "description" | "definitions" | "propertyNames" => true,
            "$ref" => fits(whole.pointer(wanted.as_str().unwrap().trim_start_matches('#')).unwrap()),
            "type" => match wanted {
                Value::Array(types) => types.iter().any(|wanted| is_of(value, wanted)),
                wanted => is_of(value, wanted),
            },
            "const" => value == wanted,
            "enum" => wanted.as_array().unwrap().contains(value),
            "minimum" => matches!(number(wanted), (Some(number), least) if number >= least),
            "exclusiveMinimum" => matches!(number(wanted), (Some(number), least) if number > least),
            "minItems" | "minProperties" => count() >= wanted.as_u64().unwrap(),
            "maxItems" | "maxProperties" => count() <= wanted.as_u64().unwrap(),
            "uniqueItems" => value
                .as_array()
                .is_some_and(|items| items.iter().enumerate().all(|(at, item)| !items[..at].contains(item))),
            "oneOf" => wanted.as_array().unwrap().iter().filter(|schema| fits(schema)).count() == 1,
            "not" => !fits(wanted),
            "required" => {
                wanted.as_array().unwrap().iter().all(|key| value.get(key.as_str().unwrap()).is_some())
            }
            "items" => {
                match value.as_array().into_iter().flatten().find_map(|item| misfit(whole, wanted, item)) {
                    Some(inner) => return Some(inner),
                    None => true,
                }
            }
            "properties" | "additionalProperties" => {
                let others = word == "additionalProperties";
                let known = schema.get("properties").and_then(Value::as_object);
                let mut fields = value.as_object().into_iter().flatten();
                let wrong = fields.find_map(|(key, field)| {
                    let own = known.and_then(|known| known.get(key));
                    let inner = match (own, others) {
                        (Some(own), false) => own,
                        (None, true) if wanted == &json!(false) => {
                            return Some(format!("{key} is not known"));
                        }
                        (None, true) => wanted,
                        _ => return None,
                    };
                    misfit(whole, inner, field).map(|inner| format!("{key}: {inner}"))
                });
                match wrong {
                    Some(wrong) => return Some(wrong),
                    None => true,
                }
            }
            other => return Some(format!("the schema uses `{other}`, which this test does not know")),
        };
        if !is_right {
            return Some(format!("{value} is not what `{word}` says: {wanted}"));
        }
    }
    None
}

fn is_of(value: &Value, wanted: &Value) -> bool {
    match wanted.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => false,
    }
}

/// The space files of the examples, and those in the book.
fn written() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(root().join("examples/tune")).unwrap() {
        let path = entry.unwrap().path().join("space.toml");
        all.extend(std::fs::read_to_string(&path).ok().map(|text| (path.display().to_string(), text)));
    }
    let page = std::fs::read_to_string(root().join("docs/tuning.md")).unwrap();
    for (at, snippet) in page.split("```toml\n").skip(1).enumerate() {
        all.push((
            format!("docs/tuning.md, the TOML number {at}"),
            snippet.split("```").next().unwrap().to_string(),
        ));
    }
    all
}

#[test]
fn examples_and_the_book_fit_the_schema() {
    let (schema, written) = (schema(), written());
    assert!(written.len() >= 6, "{written:?}");
    for (place, text) in written {
        let value = table_as_json(DeTable::parse(&text).unwrap().get_ref());
        assert_eq!(misfit(&schema, &schema, &value), None, "{place}");
    }
}

#[test]
fn what_the_parser_refuses_does_not_fit_the_schema() {
    let schema = schema();
    for text in [
        "constraints = []",
        "[parameters]\na = 5",
        "[parameters]\na = []",
        "[parameters]\na = [1, \"x\"]",
        "[parameters]\na = { from = 1 }",
        "[parameters]\na = { values = [1], stepp = 2 }",
        "[parameters]\na = { from = 1, to = 8, step = 1, times = 2 }",
        "[parameters]\na = [1]\n[metric]\nx = 1",
        "[parameters]\na = [1]\n[kernel]\nentree = \"k\"",
        "[parameters]\na = [1]\n[[arguments]]\nname = \"x\"\ntype = \"f33\"\nshape = 5",
    ] {
        let value = table_as_json(DeTable::parse(text).unwrap().get_ref());
        assert!(misfit(&schema, &schema, &value).is_some(), "{text}");
    }
}
