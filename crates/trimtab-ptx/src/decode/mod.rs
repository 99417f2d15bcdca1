//! What each instruction means. Strict: a modifier nobody asked for is an error, never ignored.

mod arithmetic;
mod memory;
mod together;

use crate::op::{Function, Op};
use crate::operand::{Address, Argument, Names, Origin, Statement};
use crate::scalar::{Scalar, Space};

/// Instructions that are modelled, some of them for some types only.
const KNOWN: [&str; 73] = [
    "abs",
    "activemask",
    "add",
    "addc",
    "and",
    "applypriority",
    "atom",
    "bar",
    "barrier",
    "bfe",
    "bfi",
    "bfind",
    "bra",
    "brev",
    "clz",
    "cnot",
    "copysign",
    "cos",
    "cp",
    "cvt",
    "cvta",
    "discard",
    "div",
    "ex2",
    "exit",
    "fence",
    "fma",
    "isspacep",
    "ld",
    "ldmatrix",
    "ldu",
    "lg2",
    "lop3",
    "mad",
    "madc",
    "max",
    "membar",
    "min",
    "mma",
    "mov",
    "mul",
    "nanosleep",
    "neg",
    "not",
    "or",
    "popc",
    "prefetch",
    "prefetchu",
    "prmt",
    "rcp",
    "red",
    "redux",
    "rem",
    "ret",
    "rsqrt",
    "sad",
    "selp",
    "setp",
    "shf",
    "shfl",
    "shl",
    "shr",
    "sin",
    "sqrt",
    "st",
    "sub",
    "subc",
    "tanh",
    "testp",
    "trap",
    "vote",
    "wmma",
    "xor",
];

/// Whether an instruction of this name is modelled.
pub(crate) fn is_known(opcode: &str) -> bool {
    let name = opcode.split('.').next().unwrap_or_default();
    KNOWN.contains(&name)
}

/// The parts of an opcode after its name, each to be taken once.
struct Words<'a> {
    left: Vec<&'a str>,
}

impl<'a> Words<'a> {
    fn take(&mut self, word: &str) -> bool {
        let found = self.left.iter().position(|left| *left == word);
        found.map(|at| self.left.remove(at)).is_some()
    }

    /// The first that the function knows.
    fn find<T>(&mut self, known: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (at, found) = self.left.iter().enumerate().find_map(|(at, word)| Some((at, known(word)?)))?;
        self.left.remove(at);
        Some(found)
    }

    fn scalar(&mut self) -> Result<Scalar, String> {
        self.find(Scalar::parse).ok_or_else(|| "a type that is not modelled".to_string())
    }

    fn space(&mut self) -> Space {
        self.find(space).unwrap_or(Space::Generic)
    }

    /// All that may be ignored: hints for caches, and orders that one thread after the other gives anyway.
    fn ignore(&mut self, words: &[&str]) {
        self.left
            .retain(|word| !words.contains(word) && !word.starts_with("L1::") && !word.starts_with("L2::"));
    }

    fn finish(&self) -> Result<(), String> {
        match self.left.first() {
            None => Ok(()),
            Some(word) => Err(format!("`.{word}` is not modelled here")),
        }
    }
}

fn space(word: &str) -> Option<Space> {
    Some(match word {
        "global" => Space::Global,
        "shared" | "shared::cta" => Space::Shared,
        "local" => Space::Local,
        "param" | "param::entry" => Space::Parameter,
        "const" => Space::Constant,
        _ => return None,
    })
}

/// The operands of one instruction, with names looked up.
struct Arguments<'a> {
    list: &'a [Argument],
    names: &'a Names,
}

impl Arguments<'_> {
    fn count(&self, expected: std::ops::RangeInclusive<usize>) -> Result<(), String> {
        match expected.contains(&self.list.len()) {
            true => Ok(()),
            false => Err(format!("{} operands are not modelled here", self.list.len())),
        }
    }

    fn get(&self, at: usize) -> Result<&Argument, String> {
        self.list.get(at).ok_or_else(|| format!("operand {} is missing", at + 1))
    }

    fn source(&self, at: usize) -> Result<Origin, String> {
        self.source_of(self.get(at)?)
    }

    fn source_of(&self, operand: &Argument) -> Result<Origin, String> {
        match operand {
            Argument::Origin(source) => Ok(*source),
            Argument::Variable(_, address) => Ok(Origin::Immediate(*address)),
            Argument::Name(name) => match self.names.variables.get(name) {
                Some((_, address)) => Ok(Origin::Immediate(*address)),
                None => Err(format!("`{name}` is not declared")),
            },
            _ => Err("an operand of a kind that is not modelled here".to_string()),
        }
    }

    fn register(&self, at: usize) -> Result<u32, String> {
        match self.get(at)? {
            Argument::Origin(Origin::Register(register)) => Ok(*register),
            _ => Err(format!("operand {} is no register", at + 1)),
        }
    }

    fn address(&self, at: usize) -> Result<Address, String> {
        match self.get(at)? {
            Argument::Address(base, offset) => {
                Ok(Address { base: self.source_of(base)?, offset: *offset as u64 })
            }
            _ => Err(format!("operand {} is no address", at + 1)),
        }
    }

    /// Whether an address is that of something passed to or from a function, which lies in local memory.
    fn is_passed(&self, at: usize) -> bool {
        matches!(self.list.get(at), Some(Argument::Address(base, _)) if matches!(**base, Argument::Variable(Space::Local, _)))
    }

    /// A list in braces, or a single operand.
    fn list(&self, at: usize) -> Result<&[Argument], String> {
        Ok(match self.get(at)? {
            Argument::List(list) => list,
            single => std::slice::from_ref(single),
        })
    }

    fn sources_in(&self, at: usize) -> Result<Vec<Origin>, String> {
        self.list(at)?.iter().map(|operand| self.source_of(operand)).collect()
    }

    /// Registers that receive something; `_` receives nothing.
    fn places_in(&self, at: usize) -> Result<Vec<Option<u32>>, String> {
        let place = |operand: &Argument| match operand {
            Argument::Origin(Origin::Register(register)) => Ok(Some(*register)),
            Argument::Sink => Ok(None),
            _ => Err("a destination that is no register".to_string()),
        };
        self.list(at)?.iter().map(place).collect()
    }

    fn registers_in(&self, at: usize) -> Result<Vec<u32>, String> {
        let register = |place: Option<u32>| place.ok_or_else(|| "`_` is not modelled here".to_string());
        self.places_in(at)?.into_iter().map(register).collect()
    }

    /// A number that is known now.
    fn immediate(&self, at: usize) -> Result<u64, String> {
        match self.source(at)? {
            Origin::Immediate(value) => Ok(value),
            _ => Err(format!("operand {} must be a number", at + 1)),
        }
    }
}

pub(crate) fn decode(statement: &Statement<'_>, names: &Names) -> Result<Op, String> {
    let mut parts = statement.opcode.split('.');
    let name = parts.next().unwrap_or_default();
    let mut words = Words { left: parts.collect() };
    let operands = Arguments { list: &statement.operands, names };
    let op = match name {
        "bra" => {
            words.ignore(&["uni"]);
            operands.count(1..=1)?;
            match operands.get(0)? {
                Argument::Name(label) => {
                    names.labels.get(&(statement.call, label.clone())).copied().map(Op::Branch)
                }
                _ => None,
            }
            .ok_or("a branch to nowhere")?
        }
        "ret" | "exit" => {
            words.ignore(&["uni"]);
            Op::Exit
        }
        "trap" => Op::Trap,
        "mov" => mov(&mut words, &operands)?,
        // A kernel that waits for memory to be seen: threads here run one after the other, and see it.
        "membar" | "fence" => {
            words.ignore(&["cta", "gl", "gpu", "sys", "sc", "acq_rel", "acquire", "release"]);
            Op::Nothing
        }
        "nanosleep" | "prefetch" | "prefetchu" | "discard" | "applypriority" => {
            words.left.clear();
            Op::Nothing
        }
        "ld" | "ldu" | "st" | "atom" | "red" | "cp" | "cvta" | "isspacep" => {
            memory::decode(name, &mut words, &operands)?
        }
        "bar" | "barrier" | "shfl" | "vote" | "redux" | "activemask" | "ldmatrix" | "mma" | "wmma" => {
            together::decode(name, &mut words, &operands)?
        }
        _ => arithmetic::decode(name, &mut words, &operands)?,
    };
    words.finish()?;
    Ok(op)
}

/// Copies, packs or unpacks.
fn mov(words: &mut Words<'_>, operands: &Arguments<'_>) -> Result<Op, String> {
    let bits = 8 * words.scalar()?.bytes() as u32;
    operands.count(2..=2)?;
    Ok(match (operands.get(0)?, operands.get(1)?) {
        (Argument::List(list), _) => {
            let bits = bits / list.len().max(1) as u32;
            Op::Unpack { dsts: operands.places_in(0)?, source: operands.source(1)?, bits }
        }
        (_, Argument::List(list)) => {
            let bits = bits / list.len().max(1) as u32;
            Op::Pack { dst: operands.register(0)?, parts: operands.sources_in(1)?, bits }
        }
        _ => compute(Function::Take, operands, 1)?,
    })
}

/// A function of so many operands after the destination.
fn compute(function: Function, operands: &Arguments<'_>, count: usize) -> Result<Op, String> {
    operands.count(count + 1..=count + 1)?;
    let mut sources = [Origin::Immediate(0); 4];
    for (at, source) in sources.iter_mut().take(count).enumerate() {
        *source = operands.source(at + 1)?;
    }
    Ok(Op::Compute { function, dst: operands.register(0)?, sources })
}
