//! Functions: found before anything else is read, because they may be defined after they are called.

use super::Parser;
use super::declare::{self, Declared};
use crate::fault::LoadError;
use std::collections::HashMap;

/// A function with a body.
pub(super) struct Definition {
    /// What it returns, then what it takes.
    pub results: Vec<Declared>,
    pub parameters: Vec<Declared>,
    /// The token after its opening brace.
    pub body: usize,
}

/// All functions that have a body, by name. The parser is where it was.
pub(super) fn definitions(parser: &mut Parser<'_>) -> Result<HashMap<String, Definition>, LoadError> {
    let (mut found, start) = (HashMap::new(), parser.at);
    while let Some(token) = parser.next() {
        if token.text != ".func" {
            continue;
        }
        let mut results = Vec::new();
        if parser.accept("(") {
            results = list(parser)?;
        }
        let name = parser.word()?.to_string();
        let parameters = if parser.accept("(") { list(parser)? } else { Vec::new() };
        while !matches!(parser.peek(), "{" | ";" | "") {
            parser.at += 1;
        }
        if parser.accept("{") {
            found.insert(name, Definition { results, parameters, body: parser.at });
        }
    }
    parser.at = start;
    Ok(found)
}

/// Parameters up to the closing parenthesis.
fn list(parser: &mut Parser<'_>) -> Result<Vec<Declared>, LoadError> {
    let mut list = Vec::new();
    while !parser.accept(")") {
        parser.expect(".param")?;
        list.push(declare::declared(parser)?);
        parser.accept(",");
    }
    Ok(list)
}

/// `call (result), name, (parameters);` after the opcode: the names in it.
pub(super) struct Call {
    pub results: Vec<String>,
    pub name: String,
    pub parameters: Vec<String>,
}

impl Call {
    pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Call, LoadError> {
        let names = |parser: &mut Parser<'_>| -> Result<Vec<String>, LoadError> {
            let mut names = Vec::new();
            while !parser.accept(")") {
                names.push(parser.word()?.to_string());
                parser.accept(",");
            }
            Ok(names)
        };
        let mut results = Vec::new();
        if parser.accept("(") {
            results = names(parser)?;
            parser.expect(",")?;
        }
        let name = parser.word()?.to_string();
        let mut parameters = Vec::new();
        if parser.accept(",") {
            parser.expect("(")?;
            parameters = names(parser)?;
        }
        parser.expect(";")?;
        Ok(Call { results, name, parameters })
    }
}
