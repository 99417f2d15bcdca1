//! From text to modules: directives, declarations, bodies. What instructions mean is `decode`'s.

mod body;
mod declare;
mod function;
mod scope;

use crate::fault::LoadError;
use crate::module::{Kernel, Module, Parameter, VARIABLES};
use crate::operand::{Names, number};
use crate::scalar::{Scalar, Space};
use crate::token::{Token, tokens};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Bytes of variables a module may declare.
const MAX_VARIABLES: usize = 1 << 24;

pub(crate) fn module(text: &str) -> Result<Module, LoadError> {
    let lines: Arc<[String]> = text.lines().map(|line| line.trim().to_string()).collect();
    let mut parser = Parser { tokens: tokens(text)?, at: 0, lines };
    let mut module = Module { version: String::new(), target: 0, kernels: BTreeMap::new() };
    let mut outer = Outer { functions: function::definitions(&mut parser)?, ..Outer::default() };
    while let Some(token) = parser.next() {
        match token.text {
            ".version" => module.version = parser.word()?.to_string(),
            ".target" => {
                let name = parser.word()?;
                let digits =
                    name.trim_start_matches("sm_").trim_end_matches(|c: char| c.is_ascii_alphabetic());
                module.target = digits.parse().map_err(|_| parser.error("no architecture"))?;
                while parser.accept(",") {
                    parser.word()?;
                }
            }
            ".address_size" if parser.word()? != "64" => return Err(parser.error("addresses of 32 bits")),
            ".address_size" | ".visible" | ".weak" | ".extern" | ".common" => {}
            ".global" | ".const" => declare::variable(&mut parser, &mut outer)?,
            ".shared" => declare::shared(&mut parser, &mut outer)?,
            ".entry" => {
                let kernel = entry(&mut parser, &outer)?;
                module.kernels.insert(kernel.name.clone(), kernel);
            }
            // Read where they are called.
            ".func" => parser.skip_function(),
            ".section" => parser.skip_block(),
            ".pragma" => parser.skip_past(";"),
            ";" => {}
            _ => return Err(parser.error("a directive that is not modelled")),
        }
    }
    // Variables are known when all are declared, which may be after the first kernel.
    let variables: Arc<[u8]> = outer.variables.into();
    for kernel in module.kernels.values_mut() {
        kernel.variables = variables.clone();
    }
    Ok(module)
}

/// What is declared outside of kernels.
#[derive(Default)]
struct Outer {
    names: Names,
    variables: Vec<u8>,
    shared: Vec<declare::Declared>,
    /// Shared memory whose size a launch says.
    dynamic: Vec<declare::Declared>,
    functions: HashMap<String, function::Definition>,
}

impl Outer {
    fn place(&mut self, declared: &declare::Declared) -> Option<usize> {
        let start = self.variables.len().next_multiple_of(declared.align);
        let end = start.checked_add(declared.bytes).filter(|end| *end <= MAX_VARIABLES)?;
        self.variables.resize(end, 0);
        self.names.variables.insert(declared.name.clone(), (Space::Global, VARIABLES + start as u64));
        Some(start)
    }
}

/// A kernel, from its name to the end of its body.
fn entry(parser: &mut Parser<'_>, outer: &Outer) -> Result<Kernel, LoadError> {
    let name = parser.word()?.to_string();
    let (mut names, mut parameters): (Vec<(String, u64)>, Vec<Parameter>) = (Vec::new(), Vec::new());
    if parser.accept("(") {
        while !parser.accept(")") {
            parser.expect(".param")?;
            let declared = declare::declared(parser)?;
            let end = parameters.last().map_or(0, |last| last.offset + last.bytes);
            let parameter = Parameter { offset: end.next_multiple_of(declared.align), bytes: declared.bytes };
            names.push((declared.name, parameter.offset as u64));
            parameters.push(parameter);
            parser.accept(",");
        }
    }
    let (mut max_threads, mut required_threads) = (None, None);
    while !parser.accept("{") {
        match parser.word()? {
            ".maxntid" => {
                max_threads =
                    Some(parser.numbers()?.iter().fold(1, |all: u32, size| all.saturating_mul(*size)))
            }
            ".reqntid" => required_threads = Some(parser.numbers()?),
            ".minnctapersm" | ".maxnreg" => {
                parser.word()?;
            }
            ".pragma" => parser.skip_past(";"),
            _ => return Err(parser.error("a directive of kernels that is not modelled")),
        }
    }
    let body = body::body(parser, &names, outer)?;
    Ok(Kernel {
        name,
        parameters,
        instructions: body.instructions,
        registers: body.registers,
        shared_bytes: body.shared_bytes,
        local_bytes: body.local_bytes,
        max_threads,
        required_threads,
        grain: body.grain,
        variables: Arc::new([]),
        lines: parser.lines.clone(),
    })
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    lines: Arc<[String]>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).map_or("", |token| token.text)
    }

    fn next(&mut self) -> Option<Token<'a>> {
        let token = self.tokens.get(self.at).copied();
        self.at += 1;
        token
    }

    /// The next token, which must be there.
    fn word(&mut self) -> Result<&'a str, LoadError> {
        self.next().map(|token| token.text).ok_or_else(|| self.error("the text ends too early"))
    }

    fn accept(&mut self, text: &str) -> bool {
        let is = self.peek() == text;
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, text: &str) -> Result<(), LoadError> {
        if self.accept(text) {
            return Ok(());
        }
        self.at += 1;
        Err(self.error(format!("`{text}` expected")))
    }

    /// A whole number.
    fn whole(&mut self) -> Result<usize, LoadError> {
        let word = self.word()?;
        number(word).map(|value| value as usize).ok_or_else(|| self.error("a number expected"))
    }

    /// Up to three numbers.
    fn numbers(&mut self) -> Result<[u32; 3], LoadError> {
        let mut numbers = [1; 3];
        for (axis, place) in numbers.iter_mut().enumerate() {
            if axis == 0 || self.accept(",") {
                *place = self.whole()? as u32;
            }
        }
        Ok(numbers)
    }

    fn scalar(&mut self) -> Result<Scalar, LoadError> {
        let word = self.word()?;
        word.strip_prefix('.')
            .and_then(Scalar::parse)
            .ok_or_else(|| self.error(format!("the type {word} is not modelled")))
    }

    fn skip_past(&mut self, text: &str) {
        while self.next().is_some_and(|token| token.text != text) {}
    }

    /// Past the block in braces that comes next.
    fn skip_block(&mut self) {
        let mut depth = 0;
        while let Some(token) = self.next() {
            depth += match token.text {
                "{" => 1,
                "}" => -1,
                _ => 0,
            };
            if depth == 0 && token.text == "}" {
                break;
            }
        }
    }

    /// Past a function, declared or defined.
    fn skip_function(&mut self) {
        while !matches!(self.peek(), "{" | "") {
            if self.accept(";") {
                return;
            }
            self.at += 1;
        }
        self.skip_block();
    }

    /// About the token taken last.
    fn error(&self, message: impl Into<String>) -> LoadError {
        let last = self.tokens.get(self.at.saturating_sub(1)).or(self.tokens.last());
        let line = last.map_or(1, |token| token.line);
        let text = self.lines.get(line as usize - 1).map_or("", String::as_str);
        LoadError::new(line, message, text)
    }
}
