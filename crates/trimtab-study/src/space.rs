//! The space of a study: parameters, what must hold between them, and every legal point, indexed for searching.

use crate::Setting;
use crate::parameter::Parameter;
use crate::setting::codes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;
use trimtab_core::{MAX_AXES, Point, Space};
use trimtab_tune::Expression;
use trimtab_tune::search::{Donor, DonorPoint, SearchSpace};

/// The most legal points; each takes about 200 bytes while the space is built, a tenth of that later.
pub const MAX_POINTS: usize = 4_000_000;
/// The most parameters; of those at most [`MAX_AXES`] may have several values.
pub const MAX_PARAMETERS: usize = 64;
/// Combinations looked at while legal ones are counted out: some seconds.
const MAX_VISITED: u64 = 200_000_000;

/// What a space is made of, as it is written down.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpaceDefinition {
    /// The parameters, in order; the last one changes fastest.
    pub parameters: Vec<Parameter>,
    /// What holds of every legal point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<String>,
    /// The legal points by the places of their values, in order, where they were listed instead of counted out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<Vec<Vec<u16>>>,
}

/// Why there is no space of a definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct SpaceError {
    /// What is to blame, where one thing is.
    pub blame: Option<Blame>,
    /// What is wrong, and what to do.
    pub reason: String,
}

/// What a mistake is about, by its place in the definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// A parameter.
    Parameter(usize),
    /// A constraint.
    Constraint(usize),
}

impl SpaceError {
    fn new(blame: impl Into<Option<Blame>>, reason: impl Into<String>) -> SpaceError {
        SpaceError { blame: blame.into(), reason: reason.into() }
    }
}

/// A point as names and values. Parameters that do not exist there are left out.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedPoint(pub Vec<(String, Setting)>);

impl NamedPoint {
    /// The value of a parameter, where it exists.
    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        Value::Object(
            self.0.iter().map(|(name, value)| (name.clone(), value.to_json())).collect::<Map<_, _>>(),
        )
    }

    /// For people: `block=16 unroll=4`.
    pub fn words(&self) -> String {
        let words: Vec<String> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        words.join(" ")
    }
}

/// When a parameter exists.
#[derive(Clone, Debug)]
struct Existence {
    condition: Expression,
    /// The parameters it asks for: where one of them does not exist, neither does this one.
    asked: Vec<usize>,
}

impl Existence {
    fn holds(&self, exists: &[bool], values: &[f64]) -> bool {
        self.asked.iter().all(|axis| exists[*axis]) && self.condition.holds_for(values)
    }
}

/// Every legal point of some parameters.
#[derive(Clone, Debug)]
pub struct ParameterSpace {
    definition: SpaceDefinition,
    conditions: Vec<Option<Existence>>,
    /// What constraints see of each value.
    numbers: Vec<Vec<f64>>,
    /// The code of each value in the search, and back, ascending.
    codes: Vec<Vec<u32>>,
    places: Vec<Vec<(u32, u16)>>,
    /// The parameter of each axis of the search: all of them, or, where they are more than it takes, those with several values.
    axes: Vec<usize>,
    search: Arc<SearchSpace>,
}

impl ParameterSpace {
    /// Counts out the legal points.
    pub fn new(definition: SpaceDefinition) -> Result<ParameterSpace, SpaceError> {
        let parameters = &definition.parameters;
        let axes = axes_of(parameters)?;
        let names: Vec<String> = parameters.iter().map(|parameter| parameter.name.clone()).collect();
        let texts: Vec<Vec<String>> = parameters.iter().map(Parameter::texts).collect();
        let read = |text: &str| {
            Expression::parse_with_texts(text, &names, &[], &texts).map_err(|error| error.to_string())
        };
        let mut conditions = Vec::with_capacity(parameters.len());
        for (at, parameter) in parameters.iter().enumerate() {
            let wrong = |reason: String| SpaceError::new(Blame::Parameter(at), reason);
            let condition = parameter.condition.as_deref().map(read).transpose();
            let condition =
                condition.map_err(|reason| wrong(format!("`if` of `{}`: {reason}", parameter.name)))?;
            let later = condition
                .as_ref()
                .and_then(|condition| condition.axes().into_iter().find(|axis| *axis >= at));
            if let Some(later) = later {
                return Err(wrong(format!(
                    "`if` of `{}` asks for `{}`, which comes later; put that one first",
                    parameter.name, names[later]
                )));
            }
            conditions.push(condition.map(|condition| Existence { asked: condition.axes(), condition }));
        }
        let constraints = definition.constraints.iter().enumerate();
        let constraints = constraints
            .map(|(at, text)| read(text).map_err(|reason| SpaceError::new(Blame::Constraint(at), reason)))
            .collect::<Result<Vec<_>, _>>()?;
        let numbers: Vec<Vec<f64>> = parameters.iter().map(numbers_of).collect();
        let codes: Vec<Vec<u32>> = parameters.iter().map(|parameter| codes(&parameter.values)).collect();
        let walk = |constraints: &[Expression], most: usize| {
            let mut walk = Walk {
                parameters,
                conditions: &conditions,
                constraints: by_last_axis(constraints, parameters.len()),
                numbers: &numbers,
                codes: &codes,
                axes: (0..parameters.len()).map(|at| axes.iter().position(|axis| *axis == at)).collect(),
                values: vec![f64::NAN; parameters.len()],
                chosen: [0; MAX_AXES],
                exists: vec![true; parameters.len()],
                visited: 0,
                most,
                points: Vec::new(),
            };
            walk.from(0).map(|_| walk.points).map_err(|reason| SpaceError::new(None, reason))
        };
        let points: Vec<Point> = match &definition.listed {
            Some(listed) => {
                let code = |places: &[u16], at: usize| codes[at].get(usize::from(*places.get(at)?)).copied();
                let point = |places: &Vec<u16>| {
                    let values: Option<Vec<u32>> = axes.iter().map(|at| code(places, *at)).collect();
                    values.filter(|_| places.len() == names.len()).map(|values| Point::new(&values))
                };
                listed.iter().filter_map(point).collect()
            }
            None => walk(&constraints, MAX_POINTS)?,
        };
        if points.is_empty() {
            // The first constraint that nothing is left behind is the one to look at.
            let leaves_nothing =
                |count: &usize| walk(&constraints[..*count], 1).is_ok_and(|left| left.is_empty());
            let culprit = (1..=constraints.len()).find(leaves_nothing).map(|count| count - 1);
            return Err(nothing_left(&definition, culprit));
        }
        let names = axes.iter().map(|at| names[*at].clone().into()).collect();
        let search = Arc::new(SearchSpace::new(&Space::new(names, points)));
        let places = codes.iter().map(|codes| {
            let mut places: Vec<(u32, u16)> =
                codes.iter().enumerate().map(|(at, code)| (*code, at as u16)).collect();
            places.sort_unstable();
            places
        });
        let places = places.collect();
        Ok(ParameterSpace { definition, conditions, numbers, codes, places, axes, search })
    }

    /// What it is made of.
    pub fn definition(&self) -> &SpaceDefinition {
        &self.definition
    }

    /// The parameters.
    pub fn parameters(&self) -> &[Parameter] {
        &self.definition.parameters
    }

    /// How many legal points there are.
    pub fn len(&self) -> usize {
        self.search.len()
    }

    /// Whether there are none; never of a space that was built.
    pub fn is_empty(&self) -> bool {
        self.search.is_empty()
    }

    /// The points as the search sees them.
    pub fn search(&self) -> &Arc<SearchSpace> {
        &self.search
    }

    /// The places of a point's values among those of their parameters.
    pub fn places(&self, at: usize) -> Vec<usize> {
        // What is no axis has one value, its first.
        let mut places = vec![0; self.parameters().len()];
        for ((axis, digit), parameter) in self.search.digits(at).iter().enumerate().zip(&self.axes) {
            let code = self.search.axes()[axis].values[usize::from(*digit)];
            let known = &self.places[*parameter];
            let place = known.binary_search_by_key(&code, |(code, _)| *code);
            places[*parameter] = place.map_or(0, |at| usize::from(known[at].1));
        }
        places
    }

    /// A point by names, without parameters that do not exist there.
    pub fn point(&self, at: usize) -> NamedPoint {
        let places = self.places(at);
        let exists = self.existing(&places);
        let named = self.parameters().iter().zip(&places).zip(exists).filter(|(_, exists)| *exists);
        NamedPoint(
            named
                .map(|((parameter, place), _)| (parameter.name.clone(), parameter.values[*place].clone()))
                .collect(),
        )
    }

    /// Which parameters exist at these values.
    fn existing(&self, places: &[usize]) -> Vec<bool> {
        let values: Vec<f64> =
            places.iter().zip(&self.numbers).map(|(place, numbers)| numbers[*place]).collect();
        let mut exists: Vec<bool> = Vec::with_capacity(places.len());
        for condition in &self.conditions {
            exists.push(condition.as_ref().is_none_or(|condition| condition.holds(&exists, &values)));
        }
        exists
    }

    /// The legal point of these values. What it does not name is at its default.
    pub fn find(&self, named: &Map<String, Value>) -> Result<usize, String> {
        if let Some(unknown) =
            named.keys().find(|name| !self.parameters().iter().any(|known| known.name == **name))
        {
            let known: Vec<&str> = self.parameters().iter().map(|known| known.name.as_str()).collect();
            return Err(format!("there is no parameter `{unknown}`; there are: {}", known.join(", ")));
        }
        let mut codes = Vec::with_capacity(self.parameters().len());
        for (axis, parameter) in self.parameters().iter().enumerate() {
            let place = match named.get(&parameter.name) {
                None => parameter.default_place(),
                Some(value) => {
                    let setting = Setting::of_json(value);
                    let place = setting
                        .and_then(|setting| parameter.values.iter().position(|known| known.means(&setting)));
                    place.ok_or_else(|| {
                        format!("`{}` never is {value}; it takes {}", parameter.name, parameter.listed())
                    })?
                }
            };
            codes.push(self.codes[axis][place]);
        }
        self.at_codes(&codes)
            .ok_or_else(|| format!("the point {} breaks a constraint", Value::Object(named.clone())))
    }

    /// The point of these values, one of every parameter.
    fn at_codes(&self, codes: &[u32]) -> Option<usize> {
        let digit = |(axis, parameter): (usize, &usize)| {
            let known = &self.search.axes()[axis].values;
            known.binary_search(&codes[*parameter]).ok().map(|digit| digit as u16)
        };
        let digits: Option<Vec<u16>> = self.axes.iter().enumerate().map(digit).collect();
        self.search.find(&digits?)
    }

    /// The point of all defaults, where somebody gave one and it is legal.
    pub fn default_point(&self) -> Option<usize> {
        if self.parameters().iter().all(|parameter| parameter.default.is_none()) {
            return None;
        }
        let codes: Vec<u32> = self
            .parameters()
            .iter()
            .zip(&self.codes)
            .map(|(parameter, codes)| codes[parameter.default_place()])
            .collect();
        self.at_codes(&codes)
    }

    /// What others measured, as the search listens to it: values by name, and a time, or nothing if it failed.
    pub fn donor<'a>(&self, rows: impl Iterator<Item = (&'a Map<String, Value>, Option<f64>)>) -> Donor {
        let code = |(name, value): (&String, &Value)| {
            let axis = self.parameters().iter().position(|parameter| parameter.name == *name)?;
            let setting = Setting::of_json(value)?;
            let place = self.parameters()[axis].values.iter().position(|known| known.means(&setting));
            let code = match place {
                Some(place) => self.codes[axis][place],
                // A whole number that is not among the values: the nearest is taken.
                None => setting.number().filter(|number| number.fract() == 0.0 && *number >= 0.0)? as u32,
            };
            Some((name.clone(), code))
        };
        let points =
            rows.map(|(named, time)| DonorPoint { values: named.iter().filter_map(code).collect(), time });
        Donor { points: points.collect() }
    }
}

fn numbers_of(parameter: &Parameter) -> Vec<f64> {
    let number = |(place, value): (usize, &Setting)| value.number().unwrap_or(place as f64);
    parameter.values.iter().enumerate().map(number).collect()
}

/// Each constraint at the last parameter it asks for: broken ones are left as early as can be.
fn by_last_axis(constraints: &[Expression], axes: usize) -> Vec<Vec<(&Expression, Vec<usize>)>> {
    let mut sorted: Vec<Vec<(&Expression, Vec<usize>)>> = vec![Vec::new(); axes];
    for constraint in constraints {
        let asked = constraint.axes();
        sorted[asked.last().copied().unwrap_or(0)].push((constraint, asked));
    }
    sorted
}

/// The parameters that are searched.
fn axes_of(parameters: &[Parameter]) -> Result<Vec<usize>, SpaceError> {
    if parameters.is_empty() {
        let reason = "there is no parameter; give --param NAME=V1,V2,… or a space file with [parameters]";
        return Err(SpaceError::new(None, reason));
    }
    let mut seen = BTreeSet::new();
    if let Some((at, twice)) =
        parameters.iter().enumerate().find(|(_, parameter)| !seen.insert(parameter.name.as_str()))
    {
        let reason = format!("the parameter `{}` is there twice; keep one of them", twice.name);
        return Err(SpaceError::new(Blame::Parameter(at), reason));
    }
    if parameters.len() <= MAX_AXES {
        return Ok((0..parameters.len()).collect());
    }
    let axes: Vec<usize> = (0..parameters.len()).filter(|at| parameters[*at].values.len() > 1).collect();
    if parameters.len() > MAX_PARAMETERS || axes.len() > MAX_AXES {
        let reason = format!(
            "there are {} parameters, {} of them with several values; at most {MAX_AXES} are searched, and {MAX_PARAMETERS} known: fix some of them",
            parameters.len(),
            axes.len()
        );
        let first = axes.get(MAX_AXES).copied().unwrap_or(MAX_PARAMETERS);
        return Err(SpaceError::new(Blame::Parameter(first), reason));
    }
    // A space has an axis, also where everything is fixed.
    Ok(if axes.is_empty() { vec![0] } else { axes })
}

fn nothing_left(definition: &SpaceDefinition, culprit: Option<usize>) -> SpaceError {
    let all = definition.constraints.as_slice();
    match (all, culprit.and_then(|at| Some((at, all.get(at)?)))) {
        ([], _) => SpaceError::new(None, "the space is empty; give every parameter at least one value"),
        ([one], _) => {
            let reason = format!("no combination of values is left after the constraints: {one}; loosen it");
            SpaceError::new(Blame::Constraint(0), reason)
        }
        (all, Some((at, culprit))) => {
            let reason = format!(
                "no combination of values is left after the constraints: {}; `{culprit}` rules out what those before it leave: loosen it",
                all.join("; ")
            );
            SpaceError::new(Blame::Constraint(at), reason)
        }
        (all, None) => {
            let reason = format!(
                "no combination of values is left after the constraints: {}; loosen one of them",
                all.join("; ")
            );
            SpaceError::new(None, reason)
        }
    }
}

/// Counts out combinations, the last parameter fastest, and leaves a branch as soon as a constraint is broken.
struct Walk<'a> {
    parameters: &'a [Parameter],
    conditions: &'a [Option<Existence>],
    constraints: Vec<Vec<(&'a Expression, Vec<usize>)>>,
    numbers: &'a [Vec<f64>],
    codes: &'a [Vec<u32>],
    /// The axis of each parameter, where it is one.
    axes: Vec<Option<usize>>,
    values: Vec<f64>,
    chosen: [u32; MAX_AXES],
    exists: Vec<bool>,
    visited: u64,
    /// The most points: of one it is enough to know that there are any.
    most: usize,
    points: Vec<Point>,
}

impl Walk<'_> {
    /// Whether to go on.
    fn from(&mut self, at: usize) -> Result<bool, String> {
        if at == self.parameters.len() {
            if self.points.len() == MAX_POINTS {
                return Err(format!(
                    "the space has more than {MAX_POINTS} points; use fewer values, larger steps or more constraints"
                ));
            }
            let axes = self.axes.iter().flatten().count();
            self.points.push(Point::new(&self.chosen[..axes]));
            return Ok(self.points.len() < self.most || self.most == MAX_POINTS);
        }
        let condition = self.conditions[at].as_ref();
        let exists = condition.is_none_or(|condition| condition.holds(&self.exists, &self.values));
        self.exists[at] = exists;
        // A parameter that does not exist lies at its default, so that the point is there once.
        let default = self.parameters[at].default_place();
        let places = if exists { 0..self.parameters[at].values.len() } else { default..default + 1 };
        for place in places {
            self.visited += 1;
            if self.visited > MAX_VISITED {
                return Err(format!(
                    "more than {MAX_VISITED} combinations were looked at; put parameters that constraints name first, or use fewer values"
                ));
            }
            self.values[at] = self.numbers[at][place];
            if let Some(axis) = self.axes[at] {
                self.chosen[axis] = self.codes[at][place];
            }
            let holds = self.constraints[at].iter().all(|(constraint, asked)| {
                !asked.iter().all(|asked| self.exists[*asked]) || constraint.holds_for(&self.values)
            });
            if holds && !self.from(at + 1)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn space(parameters: &[&str], constraints: &[&str]) -> Result<ParameterSpace, String> {
        made(parameters, constraints).map_err(|error| error.reason)
    }

    fn made(parameters: &[&str], constraints: &[&str]) -> Result<ParameterSpace, SpaceError> {
        let parameters = parameters.iter().map(|text| Parameter::parse(text).unwrap()).collect();
        let constraints = constraints.iter().map(|text| text.to_string()).collect();
        ParameterSpace::new(SpaceDefinition { parameters, constraints, listed: None })
    }

    #[test]
    fn legal_points_come_in_order_the_last_parameter_fastest() {
        let space = space(&["block=16,32,64", "unroll=1..8"], &["block*unroll<=256"]).unwrap();
        assert_eq!(space.len(), 8 + 8 + 4);
        assert_eq!(space.point(0).words(), "block=16 unroll=1");
        assert_eq!(space.point(9).words(), "block=32 unroll=2");
        let find = |point: Value| space.find(point.as_object().unwrap());
        assert_eq!(find(json!({"block": 64, "unroll": 4})), Ok(19));
        assert!(find(json!({"block": 64, "unroll": 5})).unwrap_err().contains("breaks a constraint"));
        assert!(find(json!({"blok": 64})).unwrap_err().contains("there are: block, unroll"));
        assert!(find(json!({"block": 63})).unwrap_err().contains("it takes 16, 32, 64"));
    }

    #[test]
    fn a_parameter_exists_only_under_its_condition() {
        let mut parameters: Vec<Parameter> = ["cc=gcc,clang", "opt=1..3", "lto=true,false"]
            .map(|text| Parameter::parse(text).unwrap())
            .to_vec();
        parameters[1].condition = Some("cc == 'gcc'".into());
        parameters[2].condition = Some("opt > 1".into());
        let definition = SpaceDefinition { parameters, constraints: vec!["opt != 2".into()], listed: None };
        let space = ParameterSpace::new(definition).unwrap();
        let words: Vec<String> = (0..space.len()).map(|at| space.point(at).words()).collect();
        // Of clang there is one point: neither opt nor what hangs on it exists.
        assert_eq!(words, ["cc=gcc opt=1", "cc=gcc opt=3 lto=true", "cc=gcc opt=3 lto=false", "cc=clang"]);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |parameters: &[&str], constraints: &[&str]| space(parameters, constraints).unwrap_err();
        assert!(error(&[], &[]).contains("--param"));
        assert!(error(&["a=1", "a=2"], &[]).contains("there twice"));
        assert!(
            error(&["a=1,2"], &["a > 5"])
                .contains("no combination of values is left after the constraints: a > 5")
        );
        assert!(error(&["a=1,2"], &["b > 5"]).contains("`b` is no axis of the space; there are: a"));
        assert!(error(&["a=1..3000", "b=1..3000"], &[]).contains("more than 4000000 points"));
        let many: Vec<String> = (0..17).map(|at| format!("p{at}=1,2")).collect();
        assert!(error(&many.iter().map(String::as_str).collect::<Vec<_>>(), &[]).contains("at most 16"));
        let mut parameters = vec![Parameter::parse("a=1").unwrap(), Parameter::parse("b=1").unwrap()];
        parameters[0].condition = Some("b == 1".into());
        let definition = SpaceDefinition { parameters, ..SpaceDefinition::default() };
        let error = ParameterSpace::new(definition).unwrap_err();
        assert_eq!(error.blame, Some(Blame::Parameter(0)));
        assert!(error.reason.contains("put that one first"), "{error}");
    }

    #[test]
    fn of_several_constraints_the_one_that_leaves_nothing_is_blamed() {
        let blamed = |constraints: &[&str]| made(&["a=1..9", "b=1..9"], constraints).unwrap_err().blame;
        assert_eq!(blamed(&["a > b", "b > 20", "a < 3"]), Some(Blame::Constraint(1)));
        // Each leaves something, the last nothing of what the first leaves.
        assert_eq!(blamed(&["a > 7", "b > 2", "a < 3"]), Some(Blame::Constraint(2)));
        assert_eq!(blamed(&["a > b", "a + c > 1"]), Some(Blame::Constraint(1)));
    }

    #[test]
    fn parameters_of_one_value_are_known_beyond_those_that_are_searched() {
        let mut texts: Vec<String> = (0..30).map(|at| format!("f{at}={at}")).collect();
        texts.insert(3, "a=1..4".to_string());
        texts.push("b=x,y".to_string());
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let many = space(&texts, &["a * f2 <= 6", "b == 'x' or a > 1"]).unwrap();
        // 1 x, 2 x, 2 y, 3 x, 3 y.
        assert_eq!((many.len(), many.search().axes().len()), (5, 2));
        let point = many.point(2);
        assert_eq!(point.0.len(), 32);
        let whole = |number: i64| Some(Setting::Integer(number));
        assert_eq!((point.get("a").cloned(), point.get("f29").cloned()), (whole(2), whole(29)));
        assert_eq!(many.find(point.to_json().as_object().unwrap()), Ok(2));
        let fixed: Vec<&str> = texts.iter().copied().filter(|text| text.starts_with('f')).collect();
        assert_eq!(space(&fixed, &[]).unwrap().len(), 1);
    }

    #[test]
    fn constraints_cut_branches_before_they_are_counted_out() {
        // 10^12 combinations, of which 10 are legal.
        let space = space(
            &["a=1..100", "b=1..100", "c=1..100", "d=1..100", "e=1..100", "f=1..100"],
            &["a <= 10", "b == a", "c == a", "d == a", "e == a", "f == a"],
        );
        assert_eq!(space.unwrap().len(), 10);
    }
}
