//! The body of a kernel: what is declared, labels, instructions. Functions it calls become part of it.

use super::function::Call;
use super::scope::Scopes;
use super::{Outer, Parser, declare};
use crate::decode::{decode, is_known};
use crate::fault::LoadError;
use crate::op::{Instruction, Op, Together};
use crate::operand::{Argument, Guard, Names, Origin, Special, Statement, number};
use crate::scalar::Space;

/// Instructions of a kernel with all it calls.
const MAX_STATEMENTS: usize = 1 << 18;
/// Bytes of local memory a thread can have, on any device.
const MAX_LOCAL: usize = 512 << 10;
/// Calls within calls: functions that call themselves never come to an end here.
const MAX_CALLS: usize = 32;
/// The label after the last instruction of a function.
const END: &str = "(end)";

pub(super) struct Body {
    pub instructions: Vec<Instruction>,
    pub registers: Vec<u8>,
    pub shared_bytes: usize,
    pub local_bytes: usize,
    pub grain: usize,
}

/// A body being read.
struct Reader<'a, 'o> {
    outer: &'o Outer,
    scopes: Scopes,
    names: Names,
    statements: Vec<Statement<'a>>,
    /// Calls so far: each has labels of its own.
    calls: u32,
}

/// From after the opening brace to the closing one. Parameters have names already.
pub(super) fn body(
    parser: &mut Parser<'_>,
    parameters: &[(String, u64)],
    outer: &Outer,
) -> Result<Body, LoadError> {
    let mut reader = Reader {
        outer,
        scopes: Scopes::default(),
        names: outer.names.clone(),
        statements: Vec::new(),
        calls: 0,
    };
    reader.scopes.enter();
    for declared in &outer.shared {
        reader.scopes.place(Space::Shared, declared);
    }
    for (name, offset) in parameters {
        reader.scopes.name(name, Space::Parameter, *offset);
    }
    reader.block(parser, 0, 0)?;
    reader.finish(parser)
}

impl<'a> Reader<'a, '_> {
    /// Up to the brace that closes what is open.
    fn block(&mut self, parser: &mut Parser<'a>, call: u32, within: usize) -> Result<(), LoadError> {
        let depth = self.scopes.depth();
        while self.scopes.depth() >= depth {
            if self.statements.len() > MAX_STATEMENTS {
                return Err(parser.error("too many instructions"));
            }
            match parser.peek() {
                "" => return Err(parser.error("a body that does not end")),
                "{" => self.scopes.enter(),
                "}" => self.scopes.leave(),
                ";" => {}
                ".reg" => {
                    parser.at += 1;
                    self.scopes.declare(parser)?;
                    continue;
                }
                space @ (".shared" | ".local" | ".param") => {
                    parser.at += 1;
                    let declared = declare::declared(parser)?;
                    // What is passed to a function lies in memory of the thread.
                    let space = if space == ".shared" { Space::Shared } else { Space::Local };
                    self.scopes.place(space, &declared);
                    parser.expect(";")?;
                    continue;
                }
                ".pragma" => {
                    parser.skip_past(";");
                    continue;
                }
                "call" | "call.uni" => {
                    parser.at += 1;
                    self.call(parser, within)?;
                    continue;
                }
                _ if parser.tokens.get(parser.at + 1).is_some_and(|token| token.text == ":") => {
                    let label = parser.word()?.to_string();
                    if self.names.labels.insert((call, label), self.statements.len() as u32).is_some() {
                        return Err(parser.error("a label twice"));
                    }
                }
                _ => {
                    let mut statement = statement(parser, &self.scopes)?;
                    statement.call = call;
                    if call > 0 && matches!(statement.opcode, "ret" | "ret.uni") {
                        (statement.opcode, statement.operands) =
                            ("bra", vec![Argument::Name(END.to_string())]);
                    }
                    self.statements.push(statement);
                    continue;
                }
            }
            parser.at += 1;
        }
        Ok(())
    }

    /// Puts the body of a function here; its parameters are names of what is passed.
    fn call(&mut self, parser: &mut Parser<'a>, within: usize) -> Result<(), LoadError> {
        let Call { results, name, parameters } = Call::parse(parser)?;
        let Some(function) = self.outer.functions.get(&name) else {
            return Err(parser.error(format!("the function `{name}` has no body")));
        };
        if within >= MAX_CALLS {
            return Err(parser.error("functions that call each other without end"));
        }
        if results.len() != function.results.len() || parameters.len() != function.parameters.len() {
            return Err(parser.error(format!("`{name}` takes and gives something else")));
        }
        let mut passed = Vec::new();
        let formal = function.results.iter().chain(&function.parameters);
        for (formal, actual) in formal.zip(results.iter().chain(&parameters)) {
            match self.scopes.variable(actual) {
                Some((Space::Local, address)) => passed.push((&formal.name, address)),
                _ => return Err(parser.error(format!("`{actual}` cannot be passed"))),
            }
        }
        self.calls += 1;
        let (call, back) = (self.calls, parser.at);
        self.scopes.enter();
        for (name, address) in passed {
            self.scopes.name(name, Space::Local, address);
        }
        parser.at = function.body;
        self.block(parser, call, within + 1)?;
        self.names.labels.insert((call, END.to_string()), self.statements.len() as u32);
        parser.at = back;
        Ok(())
    }

    fn finish(mut self, parser: &Parser<'a>) -> Result<Body, LoadError> {
        let mut shared_bytes = self.scopes.shared_bytes;
        if !self.outer.dynamic.is_empty() {
            shared_bytes = shared_bytes.next_multiple_of(16);
        }
        for declared in &self.outer.dynamic {
            // All dynamic shared memory is the same memory.
            let start = shared_bytes.next_multiple_of(declared.align.min(16));
            self.names.variables.insert(declared.name.clone(), (Space::Shared, start as u64));
        }
        let (mut instructions, mut grain) = (Vec::with_capacity(self.statements.len()), 4);
        for statement in &self.statements {
            let text = || parser.lines.get(statement.line as usize - 1).map_or("", String::as_str);
            let op = decode(statement, &self.names)
                .map_err(|message| LoadError::new(statement.line, message, text()))?;
            let scalar = match &op {
                Op::Load { scalar, .. } | Op::Store { scalar, .. } | Op::Atomic { scalar, .. } => {
                    Some(scalar)
                }
                Op::Together { what: Together::TileLoad(tile) | Together::TileStore(tile), .. } => {
                    Some(&tile.scalar)
                }
                _ => None,
            };
            grain = scalar.map_or(grain, |scalar| grain.min(scalar.bytes()));
            let Statement { guard, line, source, .. } = *statement;
            instructions.push(Instruction { op, guard, line, source });
        }
        let Scopes { registers, local_bytes, .. } = self.scopes;
        if local_bytes > MAX_LOCAL {
            return Err(
                parser.error(format!("{local_bytes} bytes of local memory, {MAX_LOCAL} are the most"))
            );
        }
        Ok(Body { instructions, registers, shared_bytes, local_bytes, grain })
    }
}

/// One instruction up to its semicolon.
fn statement<'a>(parser: &mut Parser<'a>, scopes: &Scopes) -> Result<Statement<'a>, LoadError> {
    let mut guard = None;
    if parser.accept("@") {
        let negated = parser.accept("!");
        let name = parser.word()?;
        let register = scopes
            .register(name)
            .ok_or_else(|| parser.error(format!("the predicate {name} is not declared")))?;
        guard = Some(Guard { register, negated });
    }
    let token = parser.next().ok_or_else(|| parser.error("an instruction expected"))?;
    if !token.text.starts_with(|c: char| c.is_ascii_lowercase()) {
        return Err(parser.error(format!("`{}` is not modelled", token.text)));
    }
    if !is_known(token.text) {
        return Err(parser.error(format!("the instruction `{}` is not modelled", token.text)));
    }
    let mut operands = Vec::new();
    while !parser.accept(";") {
        operands.push(operand(parser, scopes)?);
        if !parser.accept(",") && parser.peek() != ";" {
            parser.at += 1;
            return Err(parser.error("`,` or `;` expected"));
        }
    }
    Ok(Statement { guard, opcode: token.text, operands, line: token.line, source: token.source, call: 0 })
}

fn operand(parser: &mut Parser<'_>, scopes: &Scopes) -> Result<Argument, LoadError> {
    let word = parser.word()?;
    match word {
        "_" => return Ok(Argument::Sink),
        "{" => {
            let mut list = Vec::new();
            while !parser.accept("}") {
                list.push(operand(parser, scopes)?);
                parser.accept(",");
            }
            return Ok(Argument::List(list));
        }
        "[" => {
            let base = operand(parser, scopes)?;
            let plus = parser.accept("+");
            let minus = parser.accept("-");
            let offset = if plus || minus { parser.whole()? as i64 } else { 0 };
            parser.expect("]")?;
            return Ok(Argument::Address(Box::new(base), if minus { offset.wrapping_neg() } else { offset }));
        }
        "!" => {
            let name = parser.word()?;
            let register = scopes.register(name);
            return register
                .map(Argument::Not)
                .ok_or_else(|| parser.error(format!("{name} is not declared")));
        }
        "-" => {
            let value = number(parser.word()?).ok_or_else(|| parser.error("a number expected"))?;
            return Ok(Argument::Origin(Origin::Immediate(value.wrapping_neg())));
        }
        _ => {}
    }
    let register = scopes.register(word);
    if parser.accept("|") {
        let other = parser.word()?;
        let of = |name: &str| -> Result<Option<u32>, LoadError> {
            let found = scopes.register(name);
            if found.is_none() && name != "_" {
                return Err(parser.error(format!("{name} is not declared")));
            }
            Ok(found)
        };
        return Ok(Argument::Pair(of(word)?, of(other)?));
    }
    if let Some(register) = register {
        return Ok(Argument::Origin(Origin::Register(register)));
    }
    if let Some(name) = word.strip_prefix('%') {
        let special = Special::parse(name);
        return special
            .map(|special| Argument::Origin(Origin::Special(special)))
            .ok_or_else(|| parser.error(format!("the register {word} is neither declared nor modelled")));
    }
    if word == "WARP_SZ" {
        return Ok(Argument::Origin(Origin::Immediate(32)));
    }
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        let value = number(word).ok_or_else(|| parser.error(format!("the number {word} is not modelled")))?;
        return Ok(Argument::Origin(Origin::Immediate(value)));
    }
    if let Some((space, address)) = scopes.variable(word) {
        return Ok(Argument::Variable(space, address));
    }
    if word.starts_with(|c: char| c.is_alphabetic() || "_$".contains(c)) {
        return Ok(Argument::Name(word.to_string()));
    }
    Err(parser.error("an operand expected"))
}
