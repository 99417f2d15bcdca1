//! The arguments in a space file: numbers, memory and what it holds, the files they come from and are compared with.

use crate::language::Language;
use crate::spec::{Argument, Content, Fill, Formula};
use crate::spec_file::{Reader, Wrong};
use std::ops::Range;
use std::path::Path;
use trimtab_core::DType;
use trimtab_operands::npy;
use trimtab_study::toml::Spanned;
use trimtab_study::toml::de::{DeTable, DeValue};
use trimtab_wisdom::files;

/// The most arguments of a kernel.
const MAX_ARGUMENTS: usize = 64;
/// The most axes of an argument.
const MAX_SHAPE: usize = 8;

const ARGUMENT_KEYS: [&str; 9] =
    ["name", "type", "value", "shape", "local", "fill", "output", "expected", "tolerance"];

impl Reader<'_> {
    pub(crate) fn arguments(&self, table: &DeTable<'_>, language: Language) -> Result<Vec<Argument>, Wrong> {
        let Some(value) = table.get("arguments") else {
            return Err(Wrong::new(
                "there are no arguments; write [[arguments]] with name, type and shape or value for each, in the kernel's order",
            ));
        };
        let DeValue::Array(items) = value.get_ref() else {
            return Err(
                self.wrong(value.span(), "`arguments` is a list of tables: write [[arguments]] for each")
            );
        };
        if items.len() > MAX_ARGUMENTS {
            return Err(self.wrong(
                value.span(),
                format!("there are {} arguments, at most {MAX_ARGUMENTS}", items.len()),
            ));
        }
        let mut arguments: Vec<Argument> = Vec::new();
        for item in items {
            let DeValue::Table(table) = item.get_ref() else {
                return Err(self.wrong(item.span(), "an argument is a table: write [[arguments]]"));
            };
            let argument = self.argument(table, item.span(), language)?;
            if arguments.iter().any(|known| known.name == argument.name) {
                return Err(self.wrong(item.span(), format!("there are two arguments `{}`", argument.name)));
            }
            arguments.push(argument);
        }
        Ok(arguments)
    }

    fn argument(&self, table: &DeTable<'_>, at: Range<usize>, language: Language) -> Result<Argument, Wrong> {
        let own = |reason: String| self.wrong(at.clone(), reason);
        let name = self.text(table, "name")?.ok_or_else(|| own("an argument has no `name`".into()))?;
        self.known_keys(table, &ARGUMENT_KEYS, &format!("the argument `{name}`"))?;
        let types = || DType::ALL.map(DType::name).join(", ");
        let Some(written) = self.text(table, "type")? else {
            return Err(own(format!("`{name}` has no `type`; there are: {}", types())));
        };
        let dtype = DType::parse(&written)
            .ok_or_else(|| own(format!("`{name}` has the type `{written}`; there are: {}", types())))?;
        let kinds = ["value", "shape", "local"].map(|key| table.get(key));
        let content = match kinds {
            [Some(value), None, None] => {
                let values = self.formulas(value, "value", 16)?;
                if values.len() > 1 && language != Language::Wgsl {
                    let reason = "a list of values is a uniform buffer of WGSL; give an argument for each";
                    return Err(self.wrong(value.span(), reason));
                }
                if let Some(key) =
                    ["fill", "output", "expected", "tolerance"].iter().find(|key| table.contains_key(**key))
                {
                    return Err(own(format!("`{name}` is a number and has no `{key}`")));
                }
                Content::Values(values)
            }
            [None, Some(shape), None] => self.array(table, &name, dtype, shape)?,
            [None, None, Some(local)] if language == Language::OpenCl => {
                Content::Local(self.formulas(local, "local", MAX_SHAPE)?)
            }
            [None, None, Some(local)] => {
                return Err(self.wrong(
                    local.span(),
                    "`local` is memory of an OpenCL workgroup; other languages declare it in their text",
                ));
            }
            _ => return Err(own(format!("`{name}` needs one of `value`, `shape` and `local`"))),
        };
        Ok(Argument { name, dtype, content })
    }

    fn array(
        &self,
        table: &DeTable<'_>,
        name: &str,
        dtype: DType,
        shape: &Spanned<DeValue<'_>>,
    ) -> Result<Content, Wrong> {
        let formulas = self.formulas(shape, "shape", MAX_SHAPE)?;
        let is_output = match table.get("output").map(|value| (value, value.get_ref())) {
            None => false,
            Some((_, DeValue::Boolean(output))) => *output,
            Some((value, _)) => return Err(self.wrong(value.span(), "`output` is true or false")),
        };
        let expected = match (self.text(table, "expected")?, table.get("expected")) {
            (Some(file), Some(value)) => {
                let path = self.file(&file, value.span())?;
                self.fits(&path, name, dtype, &formulas, value.span())?;
                Some(path)
            }
            _ => None,
        };
        let tolerance = self.tolerance(table)?;
        if !is_output && (expected.is_some() || tolerance.is_some()) {
            return Err(self.wrong(
                shape.span(),
                format!("`{name}` is no output: `expected` and `tolerance` are of outputs"),
            ));
        }
        let fill = match table.get("fill") {
            None if is_output => Fill::Poison,
            None => random(dtype, name),
            Some(fill) => self.fill(fill, name, dtype, &formulas)?,
        };
        Ok(Content::Array { shape: formulas, fill, is_output, expected, tolerance })
    }

    fn fill(
        &self,
        value: &Spanned<DeValue<'_>>,
        name: &str,
        dtype: DType,
        shape: &[Formula],
    ) -> Result<Fill, Wrong> {
        let wrong = || {
            let reason = format!(
                "`fill` of `{name}` is \"random\", \"count\", a number, a .npy file, or {{ random = [0, 1], seed = 7 }}"
            );
            self.wrong(value.span(), reason)
        };
        match value.get_ref() {
            DeValue::String(word) if word == "random" => Ok(random(dtype, name)),
            DeValue::String(word) if word == "count" => Ok(Fill::Count),
            DeValue::String(file) if file.ends_with(".npy") => {
                let path = self.file(file, value.span())?;
                self.fits(&path, name, dtype, shape, value.span())?;
                Ok(Fill::File(path))
            }
            DeValue::Table(table) => {
                self.known_keys(table, &["random", "seed"], &format!("`fill` of `{name}`"))?;
                let Fill::Random { mut least, mut most, mut seed } = random(dtype, name) else {
                    return Err(wrong());
                };
                if let Some(range) = table.get("random") {
                    let DeValue::Array(ends) = range.get_ref() else { return Err(wrong()) };
                    let ends: Vec<f64> = ends.iter().filter_map(|end| plain_number(end.get_ref())).collect();
                    let [from, to] = ends[..] else { return Err(wrong()) };
                    (least, most) = (from, to);
                }
                if let Some(given) = self.number(table, "seed")? {
                    seed = given as u64;
                }
                match least < most {
                    true => Ok(Fill::Random { least, most, seed }),
                    false => {
                        Err(self.wrong(value.span(), "`random` goes from the smaller to the larger number"))
                    }
                }
            }
            other => plain_number(other).map(Fill::Constant).ok_or_else(wrong),
        }
    }

    /// Whether a `.npy` file has the argument's type, and its shape where that is the same at every point.
    fn fits(
        &self,
        path: &Path,
        name: &str,
        dtype: DType,
        shape: &[Formula],
        at: Range<usize>,
    ) -> Result<(), Wrong> {
        let shown = path.display();
        let mut file =
            files::open(path).map_err(|error| self.wrong(at.clone(), format!("{shown}: {error}")))?;
        let (header, _) = npy::Header::read(&mut file)
            .map_err(|reason| self.wrong(at.clone(), format!("{shown}: {reason}")))?;
        if header.dtype != npy::name(dtype) || header.is_column_major {
            let order = if header.is_column_major { " in column-major order" } else { "" };
            let reason = format!(
                "{shown} holds `{}`{order}, and `{name}` is `{}` ({dtype}) in row-major order; convert it, or correct `type`",
                header.dtype,
                npy::name(dtype)
            );
            return Err(self.wrong(at, reason));
        }
        let fixed: Option<Vec<(String, f64)>> = self
            .sizes
            .iter()
            .map(|(name, values)| match values.as_slice() {
                [one] => Some((name.clone(), one.number()?)),
                _ => None,
            })
            .collect();
        // A shape that depends on parameters, or on sizes that are searched, is looked at when it is known.
        let Some(fixed) = fixed else { return Ok(()) };
        let sizes: Option<Vec<usize>> = shape
            .iter()
            .map(|formula| {
                let read = trimtab_tune::Expression::parse(&formula.text, &[], &fixed).ok()?;
                Some(read.value(&[]))
                    .filter(|size| *size >= 0.0 && size.fract() == 0.0)
                    .map(|size| size as usize)
            })
            .collect();
        match sizes.filter(|sizes| *sizes != header.shape) {
            Some(sizes) => {
                let reason = format!("{shown} has the shape {:?}, and `{name}` {sizes:?}", header.shape);
                Err(self.wrong(at, reason))
            }
            None => Ok(()),
        }
    }
}

pub(crate) fn plain_number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Integer(integer) => {
            i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(|number| number as f64)
        }
        DeValue::Float(float) => float.as_str().parse::<f64>().ok().filter(|number| number.is_finite()),
        _ => None,
    }
}

/// Random numbers where nothing more is said: of arguments with different names different ones.
fn random(dtype: DType, name: &str) -> Fill {
    let seed = name.bytes().fold(17u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let (least, most) = match dtype {
        DType::Bool => (0.0, 2.0),
        dtype if dtype.is_integer() => (0.0, 100.0),
        _ => (-1.0, 1.0),
    };
    Fill::Random { least, most, seed }
}
