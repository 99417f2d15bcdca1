//! What a space file says of a kernel, and the same worked out at a point.

use crate::job::{Compared, GivenArgument, GivenData, Job};
use crate::language::Language;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use trimtab_core::DType;
use trimtab_study::{
    Failed, Fault, Fingerprint, NamedPoint, ParameterSpace, Setting, Template, include_dirs,
};
use trimtab_tune::Expression;

/// The most bytes of one argument.
pub(crate) const MAX_ARGUMENT_BYTES: f64 = (1u64 << 36) as f64;

/// A whole number worked out at each point, with where it was written.
#[derive(Clone, Debug)]
pub struct Formula {
    /// As it was written.
    pub text: String,
    /// The line it was written in.
    pub line: Option<usize>,
}

/// What an argument's memory holds before a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Fill {
    /// A value no kernel gives: an output that is not written shows.
    Poison,
    /// The same number everywhere.
    Constant(f64),
    /// Numbers between two, the same for the same seed.
    Random {
        /// The smallest.
        least: f64,
        /// Those below it only.
        most: f64,
        /// Which numbers.
        seed: u64,
    },
    /// Counting up from zero.
    Count,
    /// What a `.npy` file holds.
    File(PathBuf),
}

/// What an argument is.
#[derive(Clone, Debug)]
pub enum Content {
    /// A number, or a few for a uniform buffer of WGSL.
    Values(Vec<Formula>),
    /// Memory.
    Array {
        /// Elements along each axis.
        shape: Vec<Formula>,
        /// What it holds.
        fill: Fill,
        /// Whether the kernel's result is in it.
        is_output: bool,
        /// The `.npy` file its result must equal.
        expected: Option<PathBuf>,
        /// How far it may be off.
        tolerance: Option<f64>,
    },
    /// Memory of a workgroup.
    Local(Vec<Formula>),
}

/// An argument of a kernel.
#[derive(Clone, Debug)]
pub struct Argument {
    /// Its name; in WGSL that of the variable.
    pub name: String,
    /// The type of its elements.
    pub dtype: DType,
    /// What it is.
    pub content: Content,
}

/// The kernel that results are compared with.
#[derive(Clone, Debug)]
pub struct Against {
    /// Its file.
    pub path: PathBuf,
    /// Its language.
    pub language: Language,
    /// Its entry point.
    pub entry: String,
    /// The values it is built with; others are those of the point that is checked.
    pub point: Vec<(String, Setting)>,
    /// Its workgroups, where they are others.
    pub groups: Option<Vec<Formula>>,
    /// Its workgroup, where it is another.
    pub workgroup: Option<Vec<Formula>>,
}

/// A kernel in a file, and how to run it.
#[derive(Clone, Debug)]
pub struct KernelSpec {
    /// The file.
    pub path: PathBuf,
    /// Its language.
    pub language: Language,
    /// What is called.
    pub entry: String,
    /// What makes a library of it.
    pub compiler: Option<String>,
    /// Words for the compiler, with holes.
    pub flags: Option<Template>,
    /// Files that building depends on besides this one.
    pub depends: Vec<PathBuf>,
    /// Part of the name of the device.
    pub device: Option<String>,
    /// Names given to the text besides the parameters.
    pub defines: Vec<(String, Formula)>,
    /// Workgroups along each axis.
    pub groups: Vec<Formula>,
    /// Work items of a workgroup along each axis.
    pub workgroup: Option<Vec<Formula>>,
    /// How far results may be off, where an argument says nothing.
    pub tolerance: Option<f64>,
    /// The arguments in order.
    pub arguments: Vec<Argument>,
    /// What results are compared with.
    pub reference: Option<Against>,
    /// Sizes by name, where nobody gives others.
    pub sizes: Vec<(String, Vec<Setting>)>,
    /// The names of the parameters, with the texts each takes.
    pub(crate) axes: (Vec<String>, Vec<Vec<String>>),
}

impl KernelSpec {
    /// Whether any result is checked.
    pub fn is_checked(&self) -> bool {
        let has_file =
            |argument: &Argument| matches!(&argument.content, Content::Array { expected: Some(_), .. });
        self.reference.is_some() || self.arguments.iter().any(has_file)
    }

    /// Thirty-two digits that are the same when everything that is asked of the kernel is, and every file it is made of or compared with.
    pub fn fingerprint(&self) -> String {
        let mut sum = Fingerprint::default();
        sum.text(&format!("{self:?}"));
        let reference = self.reference.as_ref().map(|against| &against.path);
        let dirs = self.include_dirs();
        for source in [&self.path].into_iter().chain(&self.depends).chain(reference) {
            sum.source(source, &dirs);
        }
        let mut paths: Vec<&PathBuf> = Vec::new();
        for argument in &self.arguments {
            if let Content::Array { fill, expected, .. } = &argument.content {
                paths.extend(expected);
                paths.extend(match fill {
                    Fill::File(path) => Some(path),
                    _ => None,
                });
            }
        }
        paths.into_iter().for_each(|path| sum.file(path));
        sum.finish()
    }

    /// Where its compiler looks for included files, as far as that is the same for every point.
    pub(crate) fn include_dirs(&self) -> Vec<PathBuf> {
        let flags = self.flags.as_ref().map(Template::text).unwrap_or_default();
        include_dirs(flags.split_whitespace())
    }

    /// The number of a formula.
    fn number(
        &self,
        formula: &Formula,
        point: &NamedPoint,
        sizes: &[(String, Setting)],
    ) -> Result<f64, Failed> {
        let fixed: Vec<(String, f64)> =
            sizes.iter().filter_map(|(name, size)| Some((name.clone(), size.number()?))).collect();
        let (names, texts) = &self.axes;
        // It was read before: names are known.
        let read = Expression::parse_with_texts(&formula.text, names, &fixed, texts)
            .map_err(|error| Failed::new(Fault::Start, error.to_string()))?;
        let value = |(name, texts): (&String, &Vec<String>)| {
            let place = |text: &String| texts.iter().position(|known| known == text).map(|at| at as f64);
            match point.get(name) {
                Some(Setting::Text(text)) => place(text).unwrap_or(f64::NAN),
                other => other.and_then(Setting::number).unwrap_or(f64::NAN),
            }
        };
        let values: Vec<f64> = names.iter().zip(texts).map(value).collect();
        let number = read.value(&values);
        match number.is_finite() {
            true => Ok(number),
            false => {
                let line = formula.line.map(|line| format!("line {line}: ")).unwrap_or_default();
                let message = format!("{line}`{}` is no number at this point", formula.text);
                Err(Failed::new(Fault::Start, message))
            }
        }
    }

    fn whole(
        &self,
        formula: &Formula,
        point: &NamedPoint,
        sizes: &[(String, Setting)],
        most: f64,
    ) -> Result<usize, Failed> {
        let number = self.number(formula, point, sizes)?;
        if number.fract() == 0.0 && (0.0..=most).contains(&number) {
            return Ok(number as usize);
        }
        let line = formula.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        let message = format!(
            "{line}`{}` is {number} at this point; a whole number from 0 to {most} is needed",
            formula.text
        );
        Err(Failed::new(Fault::Start, message))
    }

    fn three(
        &self,
        formulas: &[Formula],
        point: &NamedPoint,
        sizes: &[(String, Setting)],
    ) -> Result<[u32; 3], Failed> {
        let mut three = [1u32; 3];
        for (one, formula) in three.iter_mut().zip(formulas) {
            *one = self.whole(formula, point, sizes, f64::from(u32::MAX))? as u32;
            if *one == 0 {
                let line = formula.line.map(|line| format!("line {line}: ")).unwrap_or_default();
                let message = format!("{line}`{}` is 0 at this point: nothing would run", formula.text);
                return Err(Failed::new(Fault::Start, message));
            }
        }
        Ok(three)
    }

    fn given(
        &self,
        argument: &Argument,
        point: &NamedPoint,
        sizes: &[(String, Setting)],
    ) -> Result<GivenArgument, Failed> {
        let numbers = |formulas: &[Formula]| {
            formulas
                .iter()
                .map(|formula| self.whole(formula, point, sizes, MAX_ARGUMENT_BYTES))
                .collect::<Result<Vec<_>, _>>()
        };
        let (mut compared, dtype) = (None, argument.dtype);
        let data = match &argument.content {
            Content::Values(formulas) => GivenData::Values(
                formulas
                    .iter()
                    .map(|formula| self.number(formula, point, sizes))
                    .collect::<Result<_, _>>()?,
            ),
            Content::Local(shape) => GivenData::Local(numbers(shape)?.iter().product()),
            Content::Array { shape, fill, is_output, expected, tolerance } => {
                let shape = numbers(shape)?;
                let bytes: f64 = shape.iter().map(|size| *size as f64).product::<f64>() * dtype.size() as f64;
                if bytes > MAX_ARGUMENT_BYTES || bytes == 0.0 {
                    let message = format!(
                        "`{}` would have {bytes} bytes; 1 to {MAX_ARGUMENT_BYTES} are taken",
                        argument.name
                    );
                    return Err(Failed::new(Fault::Start, message));
                }
                let tolerance = tolerance.or(self.tolerance).unwrap_or_else(|| usual_tolerance(dtype));
                compared = expected.clone().map(|with| Compared { with, tolerance });
                GivenData::Array { shape, fill: fill.clone(), is_output: *is_output }
            }
        };
        Ok(GivenArgument { name: argument.name.clone(), dtype, data, compared })
    }

    /// How far an output may be off from the reference.
    pub(crate) fn tolerance_of(&self, at: usize) -> f64 {
        let argument = &self.arguments[at];
        let own = match &argument.content {
            Content::Array { tolerance, .. } => *tolerance,
            _ => None,
        };
        own.or(self.tolerance).unwrap_or_else(|| usual_tolerance(argument.dtype))
    }

    fn defined(
        &self,
        point: &NamedPoint,
        sizes: &[(String, Setting)],
    ) -> Result<Vec<(String, Setting)>, Failed> {
        let mut defines = point.0.clone();
        for (name, formula) in &self.defines {
            let number = self.number(formula, point, sizes)?;
            let setting = match number.fract() == 0.0 && number.abs() < 9e15 {
                true => Setting::Integer(number as i64),
                false => Setting::Number(number),
            };
            defines.push((name.clone(), setting));
        }
        Ok(defines)
    }

    /// The kernel at a point, but for what is compiled and compared.
    pub(crate) fn job(&self, point: &NamedPoint, sizes: &[(String, Setting)]) -> Result<Job, Failed> {
        let workgroup =
            self.workgroup.as_ref().map(|formulas| self.three(formulas, point, sizes)).transpose()?;
        let extra: Vec<(String, String)> =
            sizes.iter().map(|(name, size)| (name.clone(), size.to_string())).collect();
        let extra: Vec<(&str, &str)> =
            extra.iter().map(|(name, size)| (name.as_str(), size.as_str())).collect();
        let flags = self.flags.as_ref().map(|flags| flags.fill(point, trimtab_study::Fill { extra: &extra }));
        Ok(Job {
            language: self.language,
            source: self.path.clone(),
            entry: self.entry.clone(),
            library: None,
            defines: self.defined(point, sizes)?,
            flags: flags.unwrap_or_else(|| {
                self.language.usual_flags().split_whitespace().map(str::to_string).collect()
            }),
            device: self.device.clone(),
            groups: self.three(&self.groups, point, sizes)?,
            workgroup,
            arguments: self
                .arguments
                .iter()
                .map(|argument| self.given(argument, point, sizes))
                .collect::<Result<_, _>>()?,
        })
    }

    /// The kernel that results are compared with, for the arguments of a job.
    pub(crate) fn reference_job(
        &self,
        against: &Against,
        job: &Job,
        point: &NamedPoint,
        sizes: &[(String, Setting)],
    ) -> Result<Job, Failed> {
        let mut own = point.clone();
        for (name, value) in &against.point {
            own.0.retain(|(known, _)| known != name);
            own.0.push((name.clone(), value.clone()));
        }
        let groups = against.groups.as_ref().unwrap_or(&self.groups);
        let workgroup = against.workgroup.as_ref().or(self.workgroup.as_ref());
        let mut arguments = job.arguments.clone();
        arguments.iter_mut().for_each(|given| given.compared = None);
        // A reference that asks for no parameter is the same for every point: made once.
        let flags = against.language.usual_flags().split_whitespace().map(str::to_string).collect();
        Ok(Job {
            language: against.language,
            source: against.path.clone(),
            entry: against.entry.clone(),
            library: None,
            defines: self.defined(&own, sizes)?,
            flags,
            device: self.device.clone(),
            groups: self.three(groups, &own, sizes)?,
            workgroup: workgroup.map(|formulas| self.three(formulas, &own, sizes)).transpose()?,
            arguments,
        })
    }
}

/// How far results may be off where nobody says: a share of the element, or of the mean of all where that is larger.
fn usual_tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 | DType::Complex128 => 1e-9,
        DType::F32 | DType::Complex64 => 1e-4,
        DType::F16 | DType::Bf16 => 1e-2,
        _ => 0.0,
    }
}

/// Whether a formula can be read over these parameters and sizes.
pub(crate) fn readable(
    text: &str,
    space: &ParameterSpace,
    sizes: &[(String, Vec<Setting>)],
) -> Result<(), String> {
    let (names, texts) = axes_of(space);
    let fixed: Vec<(String, f64)> = sizes.iter().map(|(name, _)| (name.clone(), 1.0)).collect();
    Expression::parse_with_texts(text, &names, &fixed, &texts).map(drop).map_err(|error| {
        let sizes: Vec<&str> = sizes.iter().map(|(name, _)| name.as_str()).collect();
        format!("{error}; there are the parameters {} and the sizes {}", names.join(", "), listed(&sizes))
    })
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "(none; write [sizes])".to_string() } else { names.join(", ") }
}

/// Names and texts of a space's parameters.
pub(crate) fn axes_of(space: &ParameterSpace) -> (Vec<String>, Vec<Vec<String>>) {
    let names = space.parameters().iter().map(|parameter| parameter.name.clone()).collect();
    let texts = space.parameters().iter().map(trimtab_study::Parameter::texts).collect();
    (names, texts)
}
