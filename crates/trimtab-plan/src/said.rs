//! What the user says about kernels: which are forbidden, and which alone may run. It is obeyed and said, not weighed.

use crate::decide::{Decider, Deciding};
use crate::devices::Scope;
use crate::event::Event;
use crate::plan::{Rival, Standing};
use crate::planner::Planner;
use crate::record::Decision;
use std::fmt;
use std::str::FromStr;
use trimtab_core::{KernelId, Problem, VariantClass};

/// Names shown for one that no kernel has.
const NEAR_NAMES: usize = 5;

/// Names of kernels: one, or with a `*` at the end all that begin so.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern(String);

impl Pattern {
    fn names(&self, kernel: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(start) => kernel.starts_with(start),
            None => kernel == self.0,
        }
    }
}

/// Which kernels the user forbids, and which alone may run the operations they serve. Nothing is said by default.
///
/// Forbidding counts more than forcing. A kernel that is forced but cannot do a problem leaves it to the others. The reference
/// answers where nobody else may, also if it is forbidden: every call is answered, and the record says by whom and why.
///
/// ```
/// let said: trimtab_plan::KernelRules = "-cpu.matmul.*, cpu.reduce.vector".parse()?;
/// assert_eq!(said.to_string(), "-cpu.matmul.*,cpu.reduce.vector");
/// # Ok::<(), trimtab_plan::WrongKernelRules>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelRules {
    only: Vec<Pattern>,
    never: Vec<Pattern>,
}

/// A text that names no kernels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no kernel; {words}", words = KernelRules::WORDS)]
pub struct WrongKernelRules(String);

impl KernelRules {
    /// Nothing is said.
    pub const OPEN: KernelRules = KernelRules { only: Vec::new(), never: Vec::new() };
    /// How they are written.
    pub const WORDS: &str = "write names such as cpu.matmul.gemm to force and -cpu.matmul.gemm to forbid, separated by commas; \
                             cpu.matmul.* means all that begin so, `trimtab devices` lists all";

    /// Forbids a kernel, or all whose names begin as the name does before its `*`.
    pub fn forbid(&mut self, name: &str) {
        self.never.push(Pattern(name.trim().to_string()));
    }

    /// Forces a kernel, or all whose names begin as the name does before its `*`.
    pub fn force(&mut self, name: &str) {
        self.only.push(Pattern(name.trim().to_string()));
    }

    /// Both what this says and what another does.
    pub fn and(mut self, other: KernelRules) -> KernelRules {
        self.only.extend(other.only);
        self.never.extend(other.never);
        self
    }

    /// Whether nothing is said.
    pub fn is_open(&self) -> bool {
        *self == KernelRules::OPEN
    }

    /// A sentence for each name that none of these kernels has, with the names that are near.
    pub fn unmatched(&self, kernels: &[&str]) -> Vec<String> {
        let all = self.never.iter().chain(&self.only);
        let unknown = all.filter(|pattern| !kernels.iter().any(|kernel| pattern.names(kernel)));
        unknown
            .map(|Pattern(name)| {
                let near = near(name, kernels).join(", ");
                format!("no kernel here is named `{name}`; near names: {near}; `trimtab devices` lists all")
            })
            .collect()
    }

    fn forbids(&self, kernel: &str) -> bool {
        self.never.iter().any(|pattern| pattern.names(kernel))
    }

    fn forces(&self, kernel: &str) -> bool {
        self.only.iter().any(|pattern| pattern.names(kernel)) && !self.forbids(kernel)
    }

    /// What of it speaks of these kernels.
    fn about<'a>(&self, kernels: impl Iterator<Item = &'a str> + Clone) -> KernelRules {
        let speaks = |pattern: &&Pattern| kernels.clone().any(|kernel| pattern.names(kernel));
        KernelRules {
            only: self.only.iter().filter(speaks).cloned().collect(),
            never: self.never.iter().filter(speaks).cloned().collect(),
        }
    }
}

impl fmt::Display for KernelRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let never = self.never.iter().map(|pattern| format!("-{}", pattern.0));
        let all: Vec<String> = never.chain(self.only.iter().map(|pattern| pattern.0.clone())).collect();
        f.write_str(&all.join(","))
    }
}

impl FromStr for KernelRules {
    type Err = WrongKernelRules;

    fn from_str(text: &str) -> Result<KernelRules, WrongKernelRules> {
        let mut kernels = KernelRules::default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let forbidden = entry.strip_prefix('-');
            let name = forbidden.unwrap_or(entry);
            let start = name.strip_suffix('*').unwrap_or(name);
            let wrong = |c: char| c.is_whitespace() || c == '*';
            if name.is_empty() || name.starts_with('-') || start.contains(wrong) {
                return Err(WrongKernelRules(entry.to_string()));
            }
            match forbidden {
                Some(_) => kernels.forbid(name),
                None => kernels.force(name),
            }
        }
        Ok(kernels)
    }
}

impl Decision {
    /// The kernels that what the user said about kernels left out.
    pub(crate) fn left_out(&self) -> &[String] {
        let left_out = self.events.iter().find_map(|event| match event {
            Event::LeftOut { kernels, .. } => Some(kernels.as_slice()),
            _ => None,
        });
        left_out.unwrap_or_default()
    }

    /// Those of them that are kernels of these devices.
    pub(crate) fn left_out_in(&self, scope: &Scope) -> Vec<&str> {
        let is_its = |kernel: &str| {
            self.rivals.iter().any(|rival| scope.devices.contains(&rival.device) && *rival.name == *kernel)
        };
        self.left_out().iter().map(String::as_str).filter(|kernel| is_its(kernel)).collect()
    }

    /// The terms its verdict is remembered under: who won with some left out says nothing about the whole field.
    pub(crate) fn remembered_under(&self, scope: &Scope) -> String {
        match self.left_out_in(scope)[..] {
            [] => self.terms.to_string(),
            ref out => format!("{} without {}", self.terms, out.join(",")),
        }
    }
}

impl Decider {
    /// Kernels of usable devices outside a scope that take a problem.
    fn elsewhere(&self, problem: &Problem, scope: &Scope) -> Vec<String> {
        let others = self.devices.scope(None).devices.into_iter().filter(|at| !scope.devices.contains(at));
        others.flat_map(|at| self.takers(problem, at)).collect()
    }

    /// Kernels of a device that take a problem.
    fn takers(&self, problem: &Problem, at: u16) -> Vec<String> {
        self.takers_of(problem, at, &|_| true)
    }

    /// Those of them that are of some class.
    fn takers_of(&self, problem: &Problem, at: u16, of: &dyn Fn(VariantClass) -> bool) -> Vec<String> {
        let Some(device) = self.devices.get(at) else { return Vec::new() };
        let infos = device.kernels().iter().enumerate();
        infos
            .filter(|(_, info)| info.operation == problem.operation() && of(info.class))
            .filter(|(number, _)| device.declines(KernelId(*number as u32), problem).is_none())
            .map(|(_, info)| info.name.to_string())
            .collect()
    }

    /// Puts out the rivals that what was said about kernels leaves no place for, and tells what it did.
    pub(crate) fn heed(&self, problem: &Problem, scope: &Scope, rivals: &mut [Rival]) -> Vec<Event> {
        let mut events = Vec::new();
        // Options of a choice are no kernels: they have names of their own.
        let own = |at: &u16| (*at as usize) < self.devices.own().len();
        let said = self.kernels.about(rivals.iter().map(|rival| &*rival.name));
        let there = match self.kernels.is_open() || !scope.devices.iter().all(own) {
            true => return events,
            false => self.elsewhere(problem, scope),
        };
        let is_open = |rival: &Rival| rival.standing == Standing::Unconsidered;
        let open = || rivals.iter().filter(|rival| is_open(rival));
        let here = open().any(|rival| said.forces(&rival.name));
        let forced = here || there.iter().any(|kernel| self.kernels.forces(kernel));
        let may = |kernel: &str| !said.forbids(kernel) && (!forced || said.forces(kernel));
        let answers = open().any(Rival::is_reference);
        let unheeded = |why: &str| Event::Unheeded { rule: self.kernels.to_string(), why: why.to_string() };
        let stays: Box<dyn Fn(&Rival) -> bool> = if open().any(|rival| may(&rival.name)) {
            if !said.only.is_empty() && !forced {
                events
                    .push(unheeded("none of the kernels it forces takes this problem, and the others stay"));
            }
            Box::new(|rival| may(&rival.name))
        } else if !answers && !there.is_empty() {
            Box::new(|_| false)
        } else if open().any(|rival| !said.forbids(&rival.name)) {
            events.push(unheeded("the kernels it forces are on other devices, and the others stay"));
            Box::new(|rival| !said.forbids(&rival.name))
        } else if answers {
            events.push(unheeded("nobody else can run, and the reference answers"));
            Box::new(Rival::is_reference)
        } else {
            events.push(unheeded("nobody else can run, and all stay"));
            Box::new(|_| true)
        };
        let out: Vec<bool> = rivals.iter().map(|rival| is_open(rival) && !stays(rival)).collect();
        drop(stays);
        let mut kernels: Vec<String> = Vec::new();
        for (rival, _) in rivals.iter_mut().zip(out).filter(|(_, out)| *out) {
            let why = match said.forbids(&rival.name) {
                true => "forbidden",
                false => "others are forced",
            };
            rival.standing = Standing::Overruled(format!("{why} by `{}`", self.kernels));
            kernels.push(rival.name.to_string());
        }
        kernels.sort_unstable();
        kernels.dedup();
        if !kernels.is_empty() {
            events.push(Event::LeftOut { kernels, rule: self.kernels.to_string() });
        }
        events
    }
}

impl Deciding<'_> {
    /// Lets rivals back in that what was said about kernels left out, where whoever was left failed: first those that are
    /// not forbidden, then the reference, then those on other devices. Whether there was one.
    pub(crate) fn relent(&mut self) -> bool {
        let (said, out) = (&self.by.kernels, self.record.left_out().to_vec());
        let is_out = |rival: &Rival| {
            matches!(rival.standing, Standing::Overruled(_)) && out.contains(&rival.name.to_string())
        };
        let back = |lenient: &dyn Fn(&Rival) -> bool| {
            let rivals = self.record.rivals.iter().enumerate();
            rivals
                .filter(|(_, rival)| is_out(rival) && lenient(rival))
                .map(|(at, _)| at)
                .collect::<Vec<usize>>()
        };
        let mut back_in = back(&|rival| !said.forbids(&rival.name));
        if back_in.is_empty() {
            back_in = back(&Rival::is_reference);
        }
        if back_in.is_empty() {
            return self.give_place();
        }
        back_in.into_iter().for_each(|at| self.record.rivals[at].standing = Standing::Unconsidered);
        let why = "those it leaves could not run, and others answer".to_string();
        self.record.apply_once(Event::Unheeded { rule: said.to_string(), why });
        true
    }
}

impl Planner {
    /// The kernel that takes a problem and is forced, on whichever device: who can do without the problem, because others amount to
    /// the same, should not then.
    pub fn forced(&self, problem: &Problem) -> Option<String> {
        let decider = self.decider();
        let devices = decider.devices.scope(None).devices.into_iter().filter(|_| !decider.kernels.is_open());
        let mut takers = devices.flat_map(|at| decider.takers(problem, at));
        takers.find(|kernel| decider.kernels.forces(kernel))
    }

    /// Why a problem is better left to others that amount to the same: every kernel of a device that takes it, beside the reference,
    /// is forbidden.
    pub fn forbidden_on(&self, problem: &Problem, device: usize) -> Option<String> {
        let decider = self.decider();
        let said = &decider.kernels;
        if said.is_open() {
            return None;
        }
        let own = decider.takers_of(problem, device as u16, &|class| class != VariantClass::Reference);
        let out = !own.is_empty() && own.iter().all(|kernel| said.forbids(kernel));
        out.then(|| format!("`{said}` leaves no kernel of this device"))
    }

    /// Why a problem should not run on a device, if what was said about kernels leaves nobody there and somebody elsewhere.
    pub fn sent_away(&self, problem: &Problem, device: usize) -> Option<String> {
        let decider = self.decider();
        let said = &decider.kernels;
        if said.is_open() {
            return None;
        }
        let here = decider.takers(problem, device as u16);
        let scope = decider.devices.scope(Some(device as u16));
        let there = decider.elsewhere(problem, &scope);
        let forced = here.iter().chain(&there).any(|kernel| said.forces(kernel));
        let may = |kernel: &String| !said.forbids(kernel) && (!forced || said.forces(kernel));
        let away = !here.iter().any(may) && there.iter().any(may);
        away.then(|| format!("`{said}` leaves no kernel of this device"))
    }
}

/// The names that differ least from a text.
fn near<'a>(text: &str, names: &[&'a str]) -> Vec<&'a str> {
    let text = text.trim_end_matches('*');
    let mut near: Vec<&str> = names.to_vec();
    near.sort_unstable();
    near.dedup();
    near.sort_by_key(|name| edits(text, name));
    near.truncate(NEAR_NAMES);
    near
}

/// Characters to insert, delete or replace to make one text the other.
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, a) in one.chars().enumerate() {
        let mut corner = row[0];
        row[0] = at + 1;
        for (column, b) in other.iter().enumerate() {
            let replaced = corner + usize::from(a != *b);
            corner = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(corner + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_forbidden_with_a_minus_and_forced_without() {
        let said: KernelRules = " -a.b , c.*,, -d* ".parse().unwrap();
        assert_eq!(said.to_string(), "-a.b,-d*,c.*");
        let all = ["a.b", "a.bc", "c.x", "dx"];
        assert_eq!(all.map(|kernel| said.forbids(kernel)), [true, false, false, true]);
        assert_eq!(all.map(|kernel| said.forces(kernel)), [false, false, true, false]);
        let both: KernelRules = "a.*,-a.b".parse().unwrap();
        assert!(both.forces("a.c") && !both.forces("a.b"));
        assert!("".parse::<KernelRules>().unwrap().is_open());
    }

    #[test]
    fn what_names_nothing_is_an_error_that_says_how_to_write_it() {
        for text in ["-", "--a", "a*b", "a b", "a,**"] {
            let message = text.parse::<KernelRules>().unwrap_err().to_string();
            assert!(message.contains("cpu.matmul.*"), "{message}");
        }
    }

    #[test]
    fn an_unknown_name_is_told_with_the_nearest_ones() {
        let kernels =
            ["cpu.matmul.gemm", "cpu.matmul.blocked", "gpu.matmul.tiled", "cpu.reduce.vector", "a", "b"];
        let said: KernelRules = "-cpu.matmul.gem,cpu.reduce.*".parse().unwrap();
        let told = said.unmatched(&kernels);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("`cpu.matmul.gem`; near names: cpu.matmul.gemm, "), "{told:?}");
        assert_eq!(edits("kitten", "sitting"), 3);
    }
}
