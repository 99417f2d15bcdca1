//! The tables of a space file that are about a kernel: `[kernel]`, `[sizes]`, `[[arguments]]`, `[reference]`. Every mistake is told with its
//! line, before anything is built.

use crate::language::{Language, words_of};
use crate::spec::{Against, Argument, Content, Formula, KernelSpec, axes_of, readable};
use crate::spec_arguments::plain_number;
use crate::t1;
use std::ops::Range;
use std::path::{Path, PathBuf};
use trimtab_study::toml::Spanned;
use trimtab_study::toml::de::{DeTable, DeValue};
use trimtab_study::{
    ParameterSpace, Setting, SpaceFileError, Template, Written, in_order, included, includes_others,
};
use trimtab_wisdom::files;

/// The largest source of a kernel.
const MAX_SOURCE_BYTES: u64 = 16 << 20;

const KERNEL_KEYS: [&str; 9] =
    ["entry", "groups", "workgroup", "flags", "compiler", "depends", "device", "defines", "tolerance"];
const REFERENCE_KEYS: [&str; 5] = ["kernel", "entry", "point", "groups", "workgroup"];

pub(crate) type Wrong = SpaceFileError;

/// A file being read, with what its formulas may name.
pub(crate) struct Reader<'a> {
    pub source: Written<'a>,
    pub space: &'a ParameterSpace,
    pub sizes: Vec<(String, Vec<Setting>)>,
    /// Where files are that are named in it.
    pub dir: PathBuf,
}

/// Reads what a space file says of the kernel in `path`. Files it names are looked for beside it. `given` are sizes from elsewhere.
pub fn read_spec(
    bytes: &[u8],
    file: &Path,
    path: &Path,
    space: &ParameterSpace,
    given: &[(String, Vec<Setting>)],
) -> Result<KernelSpec, SpaceFileError> {
    let language = Language::of(path).ok_or_else(|| {
        Wrong::new(format!("{} is no kernel's file; endings are: {}", path.display(), Language::endings()))
    })?;
    if t1::is_json(bytes) {
        // Lines would be those of a text nobody wrote.
        let tables = t1::tables(bytes, language)?;
        return read_tables(tables.as_bytes(), file, (path, language), space, given, false)
            .map_err(|error| Wrong::new(format!("its `KernelSpecification`: {}", error.reason)));
    }
    read_tables(bytes, file, (path, language), space, given, true)
}

/// The same of a TOML file; whether every parameter must be used.
fn read_tables(
    bytes: &[u8],
    file: &Path,
    (path, language): (&Path, Language),
    space: &ParameterSpace,
    given: &[(String, Vec<Setting>)],
    uses_all: bool,
) -> Result<KernelSpec, SpaceFileError> {
    let source = Written::of(bytes)?;
    let table = source.table()?;
    let table = table.get_ref();
    let dir = file.parent().map(Path::to_path_buf).unwrap_or_default();
    let mut reader = Reader { source, space, sizes: Vec::new(), dir };
    reader.read_sizes(table, given)?;
    let text = source_text(path)?;
    let Some(kernel) = table.get("kernel") else {
        return Err(Wrong::new(
            "there is no [kernel] table; write [kernel] with entry = \"…\" and groups = [\"…\"]",
        ));
    };
    let DeValue::Table(kernel_table) = kernel.get_ref() else {
        return Err(source.wrong(kernel.span(), "`kernel` is a table: write [kernel], then a line for each"));
    };
    reader.known_keys(kernel_table, &KERNEL_KEYS, "[kernel]")?;
    let entry = reader.entry(kernel_table.get("entry"), kernel.span(), language, path, &text)?;
    let arguments = reader.arguments(table, language)?;
    let spec = KernelSpec {
        path: absolute(path),
        language,
        entry,
        compiler: reader.text(kernel_table, "compiler")?,
        flags: reader.flags(kernel_table)?,
        depends: reader.depends(kernel_table)?,
        device: reader.text(kernel_table, "device")?,
        defines: reader.defines(kernel_table)?,
        groups: match kernel_table.get("groups") {
            Some(groups) => reader.formulas(groups, "groups", 3)?,
            None if language.is_compiled() => Vec::new(),
            None => {
                let reason = "[kernel] has no `groups`: the number of workgroups along each axis, such as groups = [\"(n + tile - 1) // tile\"]";
                return Err(source.wrong(kernel.span(), reason));
            }
        },
        workgroup: match kernel_table.get("workgroup") {
            Some(given) if !matches!(language, Language::OpenCl | Language::Cuda) => {
                let reason = "`workgroup` is OpenCL's and CUDA's; in WGSL the text says it (@workgroup_size), and C, C++ and Rust have none";
                return Err(source.wrong(given.span(), reason));
            }
            Some(given) => Some(reader.formulas(given, "workgroup", 3)?),
            None => None,
        },
        tolerance: reader.tolerance(kernel_table)?,
        reference: reader.reference(table)?,
        arguments,
        sizes: reader.sizes.clone(),
        axes: axes_of(space),
    };
    if spec.arguments.iter().all(|argument| !is_output(argument)) {
        return Err(Wrong::new("no argument is an output; write output = true where the kernel's result is"));
    }
    if uses_all {
        reader.all_used(&spec, &text, table)?;
    }
    Ok(spec)
}

fn is_output(argument: &Argument) -> bool {
    matches!(argument.content, Content::Array { is_output: true, .. })
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

fn source_text(path: &Path) -> Result<String, Wrong> {
    let bytes = files::read(path, MAX_SOURCE_BYTES)
        .map_err(|error| Wrong::new(format!("{} cannot be read: {error}", path.display())))?;
    String::from_utf8(bytes).map_err(|error| Wrong::new(format!("{} is not text: {error}", path.display())))
}

impl Reader<'_> {
    pub(crate) fn wrong(&self, at: Range<usize>, reason: impl Into<String>) -> Wrong {
        self.source.wrong(at, reason)
    }

    pub(crate) fn known_keys(&self, table: &DeTable<'_>, known: &[&str], whose: &str) -> Result<(), Wrong> {
        match table.iter().find(|(key, _)| !known.contains(&key.get_ref().as_ref())) {
            Some((key, _)) => {
                let reason =
                    format!("`{}` of {whose} is not known; there are: {}", key.get_ref(), known.join(", "));
                Err(self.wrong(key.span(), reason))
            }
            None => Ok(()),
        }
    }

    fn read_sizes(&mut self, table: &DeTable<'_>, given: &[(String, Vec<Setting>)]) -> Result<(), Wrong> {
        if let Some(sizes) = table.get("sizes") {
            let DeValue::Table(sizes) = sizes.get_ref() else {
                return Err(self.wrong(sizes.span(), "`sizes` is a table: write [sizes], then n = 1024"));
            };
            for (name, value) in in_order(sizes) {
                let values = match value.get_ref() {
                    DeValue::Array(items) => {
                        items.iter().map(|item| self.size(item)).collect::<Result<_, _>>()?
                    }
                    _ => vec![self.size(value)?],
                };
                let known = self.space.parameters().iter().any(|known| known.name == name.get_ref().as_ref());
                if known {
                    let reason = format!("`{}` is a parameter already; choose another name", name.get_ref());
                    return Err(self.wrong(name.span(), reason));
                }
                if values.is_empty() {
                    return Err(self.wrong(value.span(), format!("`{}` has no values", name.get_ref())));
                }
                self.sizes.push((name.get_ref().to_string(), values));
            }
        }
        for (name, values) in given {
            self.sizes.retain(|(known, _)| known != name);
            self.sizes.push((name.clone(), values.clone()));
        }
        Ok(())
    }

    fn size(&self, value: &Spanned<DeValue<'_>>) -> Result<Setting, Wrong> {
        match value.get_ref() {
            DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
                Ok(size @ 1..) => Ok(Setting::Integer(size)),
                _ => Err(self.wrong(value.span(), "a size is a whole number above zero")),
            },
            _ => Err(self.wrong(value.span(), "a size is a whole number above zero, or a list of them")),
        }
    }

    pub(crate) fn text(&self, table: &DeTable<'_>, key: &str) -> Result<Option<String>, Wrong> {
        match table.get(key) {
            None => Ok(None),
            Some(value) => match value.get_ref() {
                DeValue::String(text) => Ok(Some(text.to_string())),
                _ => Err(self.wrong(value.span(), format!("`{key}` is a text in quotes"))),
            },
        }
    }

    pub(crate) fn number(&self, table: &DeTable<'_>, key: &str) -> Result<Option<f64>, Wrong> {
        let Some(value) = table.get(key) else { return Ok(None) };
        let read = match value.get_ref() {
            DeValue::Integer(integer) => {
                i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(|number| number as f64)
            }
            DeValue::Float(float) => float.as_str().parse::<f64>().ok(),
            _ => None,
        };
        match read.filter(|number| number.is_finite()) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(value.span(), format!("`{key}` is a number"))),
        }
    }

    pub(crate) fn tolerance(&self, table: &DeTable<'_>) -> Result<Option<f64>, Wrong> {
        let tolerance = self.number(table, "tolerance")?;
        match (tolerance, table.get("tolerance")) {
            (Some(number), Some(value)) if number < 0.0 => {
                Err(self.wrong(value.span(), "`tolerance` is not below zero"))
            }
            (tolerance, _) => Ok(tolerance),
        }
    }

    /// A file that is named, which must be there.
    pub(crate) fn file(&self, name: &str, at: Range<usize>) -> Result<PathBuf, Wrong> {
        let path = absolute(&self.dir.join(name));
        match path.is_file() {
            true => Ok(path),
            false => {
                Err(self
                    .wrong(at, format!("there is no file {}; paths start beside this file", path.display())))
            }
        }
    }

    fn formula(&self, value: &Spanned<DeValue<'_>>) -> Result<Formula, Wrong> {
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(integer) => integer.as_str().to_string(),
            DeValue::Float(float) => float.as_str().to_string(),
            _ => {
                return Err(
                    self.wrong(value.span(), "a number or an expression in quotes is needed: \"n // tile\"")
                );
            }
        };
        readable(&text, self.space, &self.sizes).map_err(|reason| self.wrong(value.span(), reason))?;
        Ok(Formula { text, line: self.wrong(value.span(), "").line })
    }

    /// One formula, or a list of them.
    pub(crate) fn formulas(
        &self,
        value: &Spanned<DeValue<'_>>,
        key: &str,
        most: usize,
    ) -> Result<Vec<Formula>, Wrong> {
        let formulas: Vec<Formula> = match value.get_ref() {
            DeValue::Array(items) => items.iter().map(|item| self.formula(item)).collect::<Result<_, _>>()?,
            _ => vec![self.formula(value)?],
        };
        match formulas.len() {
            0 => Err(self.wrong(value.span(), format!("`{key}` is empty"))),
            count if count > most => {
                Err(self
                    .wrong(value.span(), format!("`{key}` has {count} numbers, at most {most} are taken")))
            }
            _ => Ok(formulas),
        }
    }

    fn entry(
        &self,
        given: Option<&Spanned<DeValue<'_>>>,
        table: Range<usize>,
        language: Language,
        path: &Path,
        text: &str,
    ) -> Result<String, Wrong> {
        let shown = path.display();
        let known = language.entry_points(text);
        let words = words_of(text);
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(given) = given else {
            return match &known {
                Some(known) if known.len() == 1 => Ok(known[0].clone()),
                None if words.contains(&stem.as_str()) => Ok(stem),
                Some(known) => Err(self.wrong(
                    table,
                    format!("[kernel] has no `entry`, and {shown} has {}: {}", known.len(), known.join(", ")),
                )),
                None => Err(self.wrong(
                    table,
                    format!(
                        "[kernel] has no `entry`, and {shown} has no function `{stem}`; write entry = \"…\""
                    ),
                )),
            };
        };
        let DeValue::String(entry) = given.get_ref() else {
            return Err(self.wrong(given.span(), "`entry` is a text in quotes: the name of the function"));
        };
        let last = entry.rsplit("::").next().unwrap_or(entry);
        let plain = entry.split("::").all(|part| {
            !part.is_empty()
                && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                && !part.starts_with(|c: char| c.is_ascii_digit())
        });
        let is_there = match &known {
            Some(known) => known.iter().any(|name| name == entry.as_ref()),
            None => words.contains(&last),
        };
        match (plain, is_there) {
            (true, true) => Ok(entry.to_string()),
            (true, false) => {
                let there = match known.as_deref() {
                    Some([]) => ", and no other".to_string(),
                    Some(known) => format!("; there are: {}", known.join(", ")),
                    None => String::new(),
                };
                Err(self.wrong(given.span(), format!("{shown} has no entry point `{entry}`{there}")))
            }
            (false, _) => Err(self.wrong(given.span(), format!("`{entry}` is no name of a function"))),
        }
    }

    fn flags(&self, table: &DeTable<'_>) -> Result<Option<Template>, Wrong> {
        let Some(value) = table.get("flags") else { return Ok(None) };
        let DeValue::String(text) = value.get_ref() else {
            return Err(
                self.wrong(value.span(), "`flags` is a text in quotes: \"-O3 {unroll:+-funroll-loops}\"")
            );
        };
        let template = Template::parse(text).map_err(|reason| self.wrong(value.span(), reason))?;
        let known: Vec<&str> = self.space.parameters().iter().map(|known| known.name.as_str()).collect();
        let is_known = |hole: &&String| {
            known.contains(&hole.as_str()) || self.sizes.iter().any(|(name, _)| name == *hole)
        };
        match template.holes().iter().find(|hole| !is_known(hole)) {
            Some(hole) => {
                let reason = format!(
                    "`flags` asks for {{{hole}}}, which is no parameter; there are: {}",
                    known.join(", ")
                );
                Err(self.wrong(value.span(), reason))
            }
            None => Ok(Some(template)),
        }
    }

    fn depends(&self, table: &DeTable<'_>) -> Result<Vec<PathBuf>, Wrong> {
        let Some(value) = table.get("depends") else { return Ok(Vec::new()) };
        let wrong = || self.wrong(value.span(), "`depends` is a list of files: [\"tile.h\"]");
        let DeValue::Array(items) = value.get_ref() else { return Err(wrong()) };
        let file = |item: &Spanned<DeValue<'_>>| match item.get_ref() {
            DeValue::String(name) => self.file(name, item.span()),
            _ => Err(wrong()),
        };
        items.iter().map(file).collect()
    }

    fn defines(&self, table: &DeTable<'_>) -> Result<Vec<(String, Formula)>, Wrong> {
        let Some(value) = table.get("defines") else { return Ok(Vec::new()) };
        let DeValue::Table(defines) = value.get_ref() else {
            return Err(self.wrong(value.span(), "`defines` is a table: { N = \"n\" }"));
        };
        let mut found = Vec::new();
        for (name, value) in in_order(defines) {
            if self.space.parameters().iter().any(|known| known.name == name.get_ref().as_ref()) {
                let reason = format!("`{}` is a parameter, and given to the kernel as it is", name.get_ref());
                return Err(self.wrong(name.span(), reason));
            }
            found.push((name.get_ref().to_string(), self.formula(value)?));
        }
        Ok(found)
    }

    fn reference(&self, table: &DeTable<'_>) -> Result<Option<Against>, Wrong> {
        let Some(value) = table.get("reference") else { return Ok(None) };
        let DeValue::Table(reference) = value.get_ref() else {
            return Err(self
                .wrong(value.span(), "`reference` is a table: write [reference] with kernel = \"naive.c\""));
        };
        self.known_keys(reference, &REFERENCE_KEYS, "[reference]")?;
        let Some(name) = self.text(reference, "kernel")? else {
            let reason = "[reference] has no `kernel`: a file with the same arguments; a file of results is `expected` of an argument";
            return Err(self.wrong(value.span(), reason));
        };
        let at = reference.get("kernel").map_or(value.span(), Spanned::span);
        let path = self.file(&name, at.clone())?;
        let language = Language::of(&path).ok_or_else(|| {
            self.wrong(
                at,
                format!("{name} is no kernel's file that runs here; endings are: {}", Language::endings()),
            )
        })?;
        let text = source_text(&path)?;
        let entry = self.entry(reference.get("entry"), value.span(), language, &path, &text)?;
        let mut point = Vec::new();
        if let Some(given) = reference.get("point") {
            let DeValue::Table(given) = given.get_ref() else {
                return Err(self.wrong(given.span(), "`point` is a table: { tile = 1 }"));
            };
            for (name, value) in in_order(given) {
                let setting = match value.get_ref() {
                    DeValue::Boolean(on) => Some(Setting::Flag(*on)),
                    DeValue::String(text) => Some(Setting::Text(text.to_string())),
                    DeValue::Integer(integer) => {
                        i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(Setting::Integer)
                    }
                    other => plain_number(other).map(Setting::Number),
                };
                let known = self.space.parameters().iter().any(|known| known.name == name.get_ref().as_ref());
                match setting.filter(|_| known) {
                    Some(setting) => point.push((name.get_ref().to_string(), setting)),
                    None => {
                        let reason = format!("`{}` of `point` is no value of a parameter", name.get_ref());
                        return Err(self.wrong(name.span(), reason));
                    }
                }
            }
        }
        let three = |key: &str| reference.get(key).map(|value| self.formulas(value, key, 3)).transpose();
        let (groups, workgroup) = (three("groups")?, three("workgroup")?);
        if groups.is_none()
            && !language.is_compiled()
            && table.get("kernel").is_some_and(
                |kernel| matches!(kernel.get_ref(), DeValue::Table(kernel) if !kernel.contains_key("groups")),
            )
        {
            return Err(self.wrong(value.span(), "[reference] needs `groups`: [kernel] has none"));
        }
        Ok(Some(Against { path, language, entry, point, groups, workgroup }))
    }

    /// A parameter nobody uses is a mistake of the file.
    fn all_used(&self, spec: &KernelSpec, text: &str, table: &DeTable<'_>) -> Result<(), Wrong> {
        let mut words: Vec<String> = words_of(text).into_iter().map(str::to_string).collect();
        let dirs = spec.include_dirs();
        let headers = [&spec.path].into_iter().chain(&spec.depends).filter(|path| includes_others(path));
        for header in headers.flat_map(|path| included(path, &dirs)) {
            // What cannot be read here is for the compiler to say.
            let text = source_text(&header).unwrap_or_default();
            words.extend(words_of(&text).into_iter().map(str::to_string));
        }
        for depends in &spec.depends {
            words.extend(words_of(&source_text(depends)?).into_iter().map(str::to_string));
        }
        words.extend(spec.flags.iter().flat_map(|flags| flags.holes().iter().cloned()));
        let formulas = spec.groups.iter().chain(spec.workgroup.iter().flatten());
        let formulas = formulas.chain(spec.defines.iter().map(|(_, formula)| formula));
        let of = |argument: &Argument| match &argument.content {
            Content::Values(formulas) | Content::Local(formulas) => formulas.clone(),
            Content::Array { shape, .. } => shape.clone(),
        };
        let arguments: Vec<Formula> = spec.arguments.iter().flat_map(of).collect();
        for formula in formulas.chain(&arguments) {
            words.extend(words_of(&formula.text).into_iter().map(str::to_string));
        }
        let unused = self.space.parameters().iter().find(|known| !words.contains(&known.name));
        let Some(unused) = unused else { return Ok(()) };
        let reason = format!(
            "the parameter `{}` is never used: neither {} nor [kernel] names it; the kernel gets it as a constant of that name",
            unused.name,
            spec.path.display()
        );
        let at = table.get("parameters").and_then(|parameters| match parameters.get_ref() {
            DeValue::Table(parameters) => {
                parameters.iter().find(|(name, _)| name.get_ref() == unused.name.as_str())
            }
            _ => None,
        });
        Err(match at {
            Some((name, _)) => self.wrong(name.span(), reason),
            None => Wrong::new(reason),
        })
    }
}
