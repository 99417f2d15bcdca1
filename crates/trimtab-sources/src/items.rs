//! The items of a file as `syn` reads them: what each is called, how it is used, and its code without comments and layout.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use std::path::Path;
use std::{fs, io};
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, UseTree};

/// How an item is used by others.
#[derive(Debug, PartialEq)]
pub(crate) enum Kind {
    /// By its name.
    Named,
    /// By its name, and by those of its functions where it is in scope.
    Trait,
    /// By its name, and by its name followed by `!`.
    Macro,
    /// A macro called outside of functions: it declares what only the compiler knows.
    Call,
    /// Where everything in its head is used: the type, the trait, what they are of.
    Impl(Vec<Vec<String>>),
}

/// An import: its name in the module (`*` for all, `_` for none) and its path.
pub(crate) type Import = (String, Vec<String>);

/// The items of a file.
pub(crate) fn read(file: &Path) -> io::Result<Vec<syn::Item>> {
    let text = fs::read_to_string(file)?.replace("\r\n", "\n");
    let parsed = syn::parse_file(&text);
    Ok(parsed.map_err(|error| io::Error::other(format!("{}: {error}", file.display())))?.items)
}

/// Whether an item is only there for tests.
pub(crate) fn is_test(item: &syn::Item) -> bool {
    let outer = |input: ParseStream<'_>| {
        let attributes = input.call(Attribute::parse_outer)?;
        input.parse::<TokenStream>().map(|_| attributes)
    };
    outer.parse2(item.to_token_stream()).is_ok_and(|attributes| {
        let conditions = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
        conditions.map(tokens).any(|words| has(&words, "test") && !has(&words, "not"))
    })
}

fn has(tokens: &[String], word: &str) -> bool {
    tokens.iter().any(|token| token == word)
}

/// What an item is called, if it is, and how it is used.
pub(crate) fn kind(item: &syn::Item) -> (Option<String>, Kind) {
    let (name, kind) = match item {
        syn::Item::Const(item) => (&item.ident, Kind::Named),
        syn::Item::Enum(item) => (&item.ident, Kind::Named),
        syn::Item::Fn(item) => (&item.sig.ident, Kind::Named),
        syn::Item::Static(item) => (&item.ident, Kind::Named),
        syn::Item::Struct(item) => (&item.ident, Kind::Named),
        syn::Item::Trait(item) => (&item.ident, Kind::Trait),
        syn::Item::Type(item) => (&item.ident, Kind::Named),
        syn::Item::Union(item) => (&item.ident, Kind::Named),
        syn::Item::Macro(syn::ItemMacro { ident: Some(name), .. }) => (name, Kind::Macro),
        syn::Item::Impl(item) => {
            let of = item.trait_.as_ref().map(|(path, _)| tokens(path));
            let head = [of.unwrap_or_default(), tokens(&item.self_ty)].concat();
            let starts = (0..head.len()).filter(|&at| at == 0 || head[at - 1] != ":");
            let paths = starts.map(|at| path(&head, at).0).filter(|path| !path.is_empty());
            return (None, Kind::Impl(paths.collect()));
        }
        _ => return (None, Kind::Call),
    };
    (Some(name.to_string()), kind)
}

/// The leaves of an import, `{…}` taken apart.
pub(crate) fn imports(tree: &UseTree) -> Vec<Import> {
    let under = |first: String, leaves: Vec<Import>| {
        let leaf = |(name, rest): Import| {
            // `a::{self}` is `a`.
            let name = if name == "self" { first.clone() } else { name };
            let rest = rest.into_iter().filter(|segment| segment != "self");
            (name, [first.clone()].into_iter().chain(rest).collect())
        };
        leaves.into_iter().map(leaf).collect()
    };
    match tree {
        UseTree::Path(tree) => under(tree.ident.to_string(), imports(&tree.tree)),
        UseTree::Group(tree) => tree.items.iter().flat_map(imports).collect(),
        UseTree::Glob(_) => vec![("*".to_string(), vec![])],
        UseTree::Name(tree) => vec![(tree.ident.to_string(), vec![tree.ident.to_string()])],
        UseTree::Rename(tree) => vec![(tree.rename.to_string(), vec![tree.ident.to_string()])],
    }
}

/// The code of an item: its tokens in a row, each character of punctuation by itself, without what documents it.
pub(crate) fn tokens(code: &impl ToTokens) -> Vec<String> {
    let mut flat = Vec::new();
    flatten(code.to_token_stream(), &mut flat);
    flat
}

fn flatten(stream: TokenStream, flat: &mut Vec<String>) {
    for tree in stream {
        let TokenTree::Group(group) = tree else {
            flat.push(tree.to_string());
            continue;
        };
        let is_doc =
            matches!(group.stream().into_iter().next(), Some(TokenTree::Ident(name)) if name == "doc");
        if is_doc && flat.last().is_some_and(|token| token == "#") {
            flat.pop();
            continue;
        }
        let (open, close) = match group.delimiter() {
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::None => ("", ""),
        };
        flat.push(open.to_string());
        flatten(group.stream(), flat);
        flat.push(close.to_string());
    }
}

/// Whether a token is a name or a keyword.
pub(crate) fn is_name(token: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    token.chars().all(is_word) && token.starts_with(|c: char| is_word(c) && !c.is_numeric())
}

/// The path that begins here, if one does, and the position behind it.
pub(crate) fn path(tokens: &[String], mut at: usize) -> (Vec<String>, usize) {
    let token = |at: usize| tokens.get(at).map_or("", String::as_str);
    let mut path = Vec::new();
    if is_name(token(at)) {
        path.push(token(at).to_string());
        at += 1;
        while token(at) == ":" && token(at + 1) == ":" && is_name(token(at + 2)) {
            path.push(token(at + 2).to_string());
            at += 3;
        }
    }
    (path, at)
}
