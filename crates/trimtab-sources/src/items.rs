//! The items of a module: what it declares, each with its tokens. Tests are left out.

use crate::tokens::{behind_group, is_name};

/// What an item is, as far as it matters to who uses it.
#[derive(Debug, PartialEq)]
pub(crate) enum Kind {
    /// Everything that is used by its name.
    Named(String),
    /// Used by its name too, and by those of its functions where it is in scope.
    Trait(String),
    /// Used by its name followed by `!`.
    Macro(String),
    /// A macro called outside of functions: it declares what only the compiler knows.
    Call,
    /// Used where everything in its head is: the type, the trait, what they are of.
    Impl(Vec<Vec<String>>),
    /// Imports: name in this module (`*` for all, `_` for none) and path.
    Use(Vec<(String, Vec<String>)>),
    /// A module, here or in a file of its own.
    Mod(String, Option<Vec<String>>),
}

pub(crate) struct Item {
    pub kind: Kind,
    pub tokens: Vec<String>,
}

/// Divides a module's tokens into items.
pub(crate) fn items(tokens: &[String]) -> Vec<Item> {
    let (mut items, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let start = at;
        let mut is_test = false;
        while token(tokens, at) == "#" {
            let open = at + 1 + usize::from(token(tokens, at + 1) == "!");
            let end = behind_group(tokens, open);
            let has = |word: &str| tokens[open..end].iter().any(|token| token == word);
            is_test |= token(tokens, open + 1) == "cfg" && has("test") && !has("not");
            at = end;
        }
        let keyword = keyword(tokens, at);
        let end = end(tokens, keyword);
        if !is_test && keyword < end {
            let all = &tokens[start..end];
            items.push(Item { kind: kind(&tokens[keyword..end]), tokens: all.to_vec() });
        }
        at = end.max(at + 1);
    }
    items
}

fn token(tokens: &[String], at: usize) -> &str {
    tokens.get(at).map_or("", String::as_str)
}

/// Where the item's keyword is, behind visibility and qualifiers.
fn keyword(tokens: &[String], mut at: usize) -> usize {
    loop {
        let next = token(tokens, at + 1);
        at = match token(tokens, at) {
            "pub" if next == "(" => behind_group(tokens, at + 1),
            "pub" | "unsafe" | "async" | "default" => at + 1,
            "const" if matches!(next, "fn" | "unsafe" | "async" | "extern") => at + 1,
            "extern" if next.starts_with('"') && token(tokens, at + 2) != "{" => at + 2,
            _ => return at,
        };
    }
}

/// The position behind an item: its semicolon or its closing brace.
fn end(tokens: &[String], keyword: usize) -> usize {
    let by_semicolon = matches!(token(tokens, keyword), "const" | "static" | "use" | "type");
    let mut at = keyword;
    while at < tokens.len() {
        match token(tokens, at) {
            ";" => return at + 1,
            "{" if !by_semicolon => return behind_group(tokens, at),
            "(" | "[" | "{" => at = behind_group(tokens, at),
            _ => at += 1,
        }
    }
    at
}

fn kind(tokens: &[String]) -> Kind {
    let name = token(tokens, 1).to_string();
    match token(tokens, 0) {
        "use" => Kind::Use(imports(&tokens[1..])),
        "mod" if token(tokens, 2) == "{" => Kind::Mod(name, Some(tokens[3..tokens.len() - 1].to_vec())),
        "mod" => Kind::Mod(name, None),
        "trait" => Kind::Trait(name),
        "impl" => implementation(&tokens[1..]),
        "macro_rules" => Kind::Macro(token(tokens, 2).to_string()),
        "fn" | "struct" | "enum" | "union" | "const" | "static" | "type" => {
            Kind::Named(if name == "mut" { token(tokens, 2).to_string() } else { name })
        }
        _ => Kind::Call,
    }
}

/// The leaves of an import, `{…}` taken apart.
pub(crate) fn imports(tokens: &[String]) -> Vec<(String, Vec<String>)> {
    let mut leaves = Vec::new();
    tree(tokens, 0, &[], &mut leaves);
    leaves
}

fn tree(
    tokens: &[String],
    mut at: usize,
    before: &[String],
    leaves: &mut Vec<(String, Vec<String>)>,
) -> usize {
    let mut path = before.to_vec();
    loop {
        match token(tokens, at) {
            ":" => at += 1,
            "{" => {
                at += 1;
                while !matches!(token(tokens, at), "}" | "") {
                    // What is no path (a macro's `$name`) is stepped over.
                    let behind = tree(tokens, at, &path, leaves);
                    at = behind + usize::from(token(tokens, behind) == "," || behind == at);
                }
                return at + 1;
            }
            "*" => {
                leaves.push(("*".to_string(), path));
                return at + 1;
            }
            "as" => {
                leaves.push((token(tokens, at + 1).to_string(), path));
                return at + 2;
            }
            "self" if !path.is_empty() => at += 1,
            name if is_name(name) => {
                path.push(name.to_string());
                at += 1;
            }
            _ => {
                leaves.extend(path.last().cloned().map(|name| (name, path.clone())));
                return at;
            }
        }
    }
}

/// The paths in the head of an `impl`, behind its parameters and before their bounds.
fn implementation(tokens: &[String]) -> Kind {
    let (mut depth, mut at) = (0usize, 0);
    while depth > 0 || at == 0 && token(tokens, 0) == "<" {
        match token(tokens, at) {
            "<" => depth += 1,
            ">" if token(tokens, at - 1) != "-" => depth -= 1,
            "" => break,
            _ => (),
        }
        at += 1;
    }
    let mut paths = Vec::new();
    while !matches!(token(tokens, at), "{" | "where" | "") {
        let (path, behind) = path(tokens, at);
        at = behind.max(at + 1);
        paths.extend(Some(path).filter(|path| !path.is_empty()));
    }
    Kind::Impl(paths)
}

/// The path that begins here, if one does, and the position behind it.
pub(crate) fn path(tokens: &[String], mut at: usize) -> (Vec<String>, usize) {
    let mut path = Vec::new();
    if is_name(token(tokens, at)) {
        path.push(token(tokens, at).to_string());
        at += 1;
        while token(tokens, at) == ":" && token(tokens, at + 1) == ":" && is_name(token(tokens, at + 2)) {
            path.push(token(tokens, at + 2).to_string());
            at += 3;
        }
    }
    (path, at)
}

/// The names that items among these tokens declare.
pub(crate) fn declared(tokens: &[String]) -> impl Iterator<Item = &String> {
    let declares = |word: &str| {
        matches!(word, "fn" | "struct" | "enum" | "union" | "trait" | "const" | "static" | "type")
    };
    tokens.windows(2).filter(move |two| declares(&two[0]) && is_name(&two[1])).map(|two| &two[1])
}
