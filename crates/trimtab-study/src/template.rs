//! A command with holes for values: split into words once, as a shell would, and filled word by word. Values never meet a shell.
//!
//! `{name}` is the value. `{name:+text}` is the text where a flag is on, or a parameter exists. A word that asks for a parameter that does
//! not exist, or is left empty by its values, is left out. Other braces are themselves; `{{` and `}}` always are.

use crate::Setting;
use crate::space::NamedPoint;

/// A piece of a word.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Literal(String),
    Value(String),
    /// The text where the flag is on.
    IfOn(String, String),
}

/// A piece, and what is around it: in a shell's text a hole is filled by what is right in its quotes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Quotes {
    None,
    Single,
    Double,
}

/// A command with holes.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    text: String,
    /// Of a shell's text only what may name files: roughly its words.
    words: Vec<Vec<Piece>>,
    /// The text for a shell, with names in the place of values.
    shell: Option<String>,
    holes: Vec<String>,
}

/// What holes are filled with besides the values of a point.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fill<'a> {
    /// Names and their texts.
    pub extra: &'a [(&'a str, &'a str)],
}

impl Template {
    /// Splits a text into words.
    pub fn parse(text: &str) -> Result<Template, String> {
        let mut template =
            Template { text: text.to_string(), words: Vec::new(), shell: None, holes: Vec::new() };
        if text.contains('\0') {
            return Err("the command holds a NUL character; leave it out".to_string());
        }
        let mut word: Option<Vec<Piece>> = None;
        let mut rest = text.chars().peekable();
        let mut quotes = Quotes::None;
        while let Some(c) = rest.next() {
            match (quotes, c) {
                (Quotes::None, c) if c.is_whitespace() => template.words.extend(word.take()),
                (Quotes::None, '\'') => {
                    quotes = Quotes::Single;
                    word.get_or_insert_default();
                }
                (Quotes::None, '"') => {
                    quotes = Quotes::Double;
                    word.get_or_insert_default();
                }
                (Quotes::Single, '\'') | (Quotes::Double, '"') => quotes = Quotes::None,
                (Quotes::None, '\\') => match rest.next() {
                    Some(next) => push(word.get_or_insert_default(), next),
                    None => return Err(format!("`{text}` ends with a backslash; write \\\\ for one")),
                },
                (Quotes::Double, '\\') if matches!(rest.peek(), Some('"' | '\\')) => {
                    push(word.get_or_insert_default(), rest.next().unwrap_or('\\'));
                }
                (_, '{') => {
                    let piece = hole(&mut rest)?;
                    match piece {
                        Some(piece) => {
                            template.note(&piece);
                            word.get_or_insert_default().push(piece);
                        }
                        None => push(word.get_or_insert_default(), '{'),
                    }
                }
                (_, '}') => {
                    rest.next_if_eq(&'}');
                    push(word.get_or_insert_default(), '}');
                }
                (_, c) => push(word.get_or_insert_default(), c),
            }
        }
        if quotes != Quotes::None {
            let quote = if quotes == Quotes::Single { '\'' } else { '"' };
            return Err(format!("`{text}` has a {quote} without its end; add it"));
        }
        template.words.extend(word);
        if template.words.is_empty() {
            return Err("the command is empty; write a program and its arguments".to_string());
        }
        Ok(template)
    }

    /// The text as a shell gets it: `{name}` becomes `"${name}"`, quoted as is right where it stands, and values go into the environment.
    pub fn for_shell(text: &str) -> Result<Template, String> {
        let mut template =
            Template { text: text.to_string(), words: Vec::new(), shell: None, holes: Vec::new() };
        if text.trim().is_empty() || text.contains('\0') {
            return Err(
                "the command is empty or holds a NUL character; write what the shell shall do".to_string()
            );
        }
        let mut shell = String::new();
        let mut rest = text.chars().peekable();
        let mut quotes = Quotes::None;
        let mut word: Option<Vec<Piece>> = None;
        while let Some(c) = rest.next() {
            match (quotes, c) {
                (Quotes::None, '\'') => quotes = Quotes::Single,
                (Quotes::Single, '\'') | (Quotes::Double, '"') => quotes = Quotes::None,
                (Quotes::None, '"') => quotes = Quotes::Double,
                (Quotes::None | Quotes::Double, '\\') => {
                    shell.push(c);
                    if let Some(next) = rest.next() {
                        shell.push(next);
                        push(word.get_or_insert_default(), next);
                    }
                    continue;
                }
                // The shell's own ${name}, and its groups.
                (_, '$') if rest.peek() == Some(&'{') => {
                    shell.push(c);
                    shell.extend(rest.next());
                    continue;
                }
                (_, '{') => {
                    match hole(&mut rest)? {
                        Some(piece) => {
                            template.note(&piece);
                            word.get_or_insert_default().push(piece.clone());
                            let reference = match &piece {
                                Piece::Value(name) => format!("${{{name}}}"),
                                Piece::IfOn(name, text) => format!("${{{name}_on:+{text}}}"),
                                Piece::Literal(text) => text.clone(),
                            };
                            shell.push_str(&match quotes {
                                Quotes::None => format!("\"{reference}\""),
                                Quotes::Single => format!("'\"{reference}\"'"),
                                Quotes::Double => reference,
                            });
                        }
                        None => shell.push('{'),
                    }
                    continue;
                }
                (Quotes::None, c) if ends_word(c) => template.words.extend(word.take()),
                (_, c) => push(word.get_or_insert_default(), c),
            }
            shell.push(c);
        }
        template.words.extend(word);
        template.shell = Some(shell);
        Ok(template)
    }

    fn note(&mut self, piece: &Piece) {
        if let Piece::Value(name) | Piece::IfOn(name, _) = piece
            && !self.holes.contains(name)
        {
            self.holes.push(name.clone());
        }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The names it asks for.
    pub fn holes(&self) -> &[String] {
        &self.holes
    }

    /// Whether the program itself is the same for every point.
    pub fn has_fixed_program(&self) -> bool {
        self.shell.is_some()
            || self
                .words
                .first()
                .is_some_and(|word| word.iter().all(|piece| matches!(piece, Piece::Literal(_))))
    }

    /// The words of a point.
    pub fn fill(&self, point: &NamedPoint, fill: Fill<'_>) -> Vec<String> {
        if let Some(shell) = &self.shell {
            return vec!["sh".to_string(), "-c".to_string(), shell.clone()];
        }
        self.words.iter().filter_map(|word| filled(word, point, fill)).collect()
    }

    /// What may name a file: the words of a point, what is behind `=` or `@` in them, and of words that are a text for a shell its words.
    pub fn mentioned(&self, point: &NamedPoint, fill: Fill<'_>) -> Vec<String> {
        let mut mentioned: Vec<String> =
            self.words.iter().filter_map(|word| filled(word, point, fill)).collect();
        let texts: Vec<String> = mentioned.iter().filter(|word| word.contains(ends_word)).cloned().collect();
        for text in &texts {
            let words = text.split(|c: char| ends_word(c) || c == '"' || c == '\'');
            mentioned.extend(words.filter(|word| !word.is_empty()).map(str::to_string));
        }
        let behind = |word: &String| {
            word.strip_prefix('@')
                .or_else(|| word.split_once('=').map(|(_, value)| value))
                .map(str::to_string)
        };
        let values: Vec<String> = mentioned.iter().filter_map(behind).collect();
        mentioned.extend(values);
        mentioned
    }

    /// What a shell's text finds in the environment.
    pub fn environment(&self, point: &NamedPoint, fill: Fill<'_>) -> Vec<(String, String)> {
        if self.shell.is_none() {
            return Vec::new();
        }
        let mut variables = Vec::new();
        for name in &self.holes {
            if let Some(value) = value_of(name, point, fill) {
                if !value.is_empty() && value != "false" {
                    variables.push((format!("{name}_on"), "1".to_string()));
                }
                variables.push((name.clone(), value));
            }
        }
        variables
    }
}

/// What separates words in a shell's text, outside of quotes.
fn ends_word(c: char) -> bool {
    c.is_whitespace() || ";|&()<>`".contains(c)
}

fn push(word: &mut Vec<Piece>, c: char) {
    match word.last_mut() {
        Some(Piece::Literal(text)) => text.push(c),
        _ => word.push(Piece::Literal(c.to_string())),
    }
}

/// What follows an opening brace: a hole, or nothing if the brace is itself.
fn hole(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Option<Piece>, String> {
    if rest.next_if_eq(&'{').is_some() {
        return Ok(None);
    }
    let ahead: String = rest.clone().take_while(|c| *c != '}').collect();
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let closed = rest.clone().nth(ahead.chars().count()) == Some('}');
    let piece = match ahead.split_once(":+") {
        _ if !closed => None,
        Some((name, text)) if is_name(name) => Some(Piece::IfOn(name.to_string(), text.to_string())),
        None if is_name(&ahead) => Some(Piece::Value(ahead.clone())),
        _ => None,
    };
    if piece.is_some() {
        for _ in 0..=ahead.chars().count() {
            rest.next();
        }
    }
    Ok(piece)
}

fn value_of(name: &str, point: &NamedPoint, fill: Fill<'_>) -> Option<String> {
    let extra = fill.extra.iter().find(|(known, _)| *known == name).map(|(_, text)| text.to_string());
    extra.or_else(|| point.get(name).map(Setting::to_string))
}

/// A word; nothing where its values leave it out.
fn filled(word: &[Piece], point: &NamedPoint, fill: Fill<'_>) -> Option<String> {
    let mut text = String::new();
    let mut has_hole = false;
    for piece in word {
        match piece {
            Piece::Literal(literal) => text.push_str(literal),
            Piece::Value(name) => {
                has_hole = true;
                text.push_str(&value_of(name, point, fill)?);
            }
            Piece::IfOn(name, then) => {
                has_hole = true;
                if value_of(name, point, fill).is_some_and(|value| !value.is_empty() && value != "false") {
                    text.push_str(then);
                }
            }
        }
    }
    (!(has_hole && text.is_empty())).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(values: &[(&str, &str)]) -> NamedPoint {
        NamedPoint(values.iter().map(|(name, value)| (name.to_string(), Setting::parse(value))).collect())
    }

    fn words(text: &str, values: &[(&str, &str)]) -> Vec<String> {
        Template::parse(text).unwrap().fill(&point(values), Fill { extra: &[("out", "/x/o 1")] })
    }

    #[test]
    fn words_are_split_once_and_values_never_split_them() {
        assert_eq!(
            words("./b --n {n} 'a b' \"c \\\" d\" e\\ f", &[("n", "1 2; rm -rf *")]),
            ["./b", "--n", "1 2; rm -rf *", "a b", "c \" d", "e f"]
        );
        assert_eq!(words("gcc -O{o} -o {out} ''", &[("o", "3")]), ["gcc", "-O3", "-o", "/x/o 1", ""]);
        assert_eq!(words("x '{n}' \"{n}\"", &[("n", "$(id)'\"")]), ["x", "$(id)'\"", "$(id)'\""]);
    }

    #[test]
    fn braces_that_are_no_holes_are_themselves() {
        assert_eq!(
            words("x {} {{n}} '{\"a\": {n}}' {a-b} {", &[("n", "5")]),
            ["x", "{}", "{n}", "{\"a\": 5}", "{a-b}", "{"]
        );
        assert_eq!(Template::parse("{a} {b:+x} {a}").unwrap().holes(), ["a", "b"]);
    }

    #[test]
    fn what_does_not_exist_or_is_empty_is_left_out() {
        let text = "x {fast:+-ffast-math} --u={u} {opt} {u:+--v}";
        assert_eq!(
            words(text, &[("fast", "true"), ("u", "3"), ("opt", "-g")]),
            ["x", "-ffast-math", "--u=3", "-g", "--v"]
        );
        assert_eq!(words(text, &[("fast", "false"), ("opt", "")]), ["x"]);
    }

    #[test]
    fn a_shell_gets_names_and_the_values_in_its_environment() {
        let template = Template::for_shell("echo {n} \"a {n}\" 'b {n}' | tr ${X} {f:+-d}").unwrap();
        let (point, fill) = (point(&[("n", "1;2"), ("f", "true")]), Fill::default());
        assert_eq!(
            template.fill(&point, fill)[2],
            "echo \"${n}\" \"a ${n}\" 'b '\"${n}\"'' | tr ${X} \"${f_on:+-d}\""
        );
        let variables = template.environment(&point, fill);
        assert!(
            variables.contains(&("n".into(), "1;2".into()))
                && variables.contains(&("f_on".into(), "1".into()))
        );
    }

    #[test]
    fn what_may_name_a_file_is_found_in_words_and_in_a_shells_text() {
        let (point, fill) = (point(&[("v", "fast"), ("o", "2")]), Fill { extra: &[("out", "")] });
        let plain = Template::parse("gcc -O{o} {v}.c --use=a.h @words 'b c.c' -o {out}").unwrap();
        assert_eq!(
            plain.mentioned(&point, fill),
            ["gcc", "-O2", "fast.c", "--use=a.h", "@words", "b c.c", "-o", "b", "c.c", "a.h", "words"]
        );
        let shell = Template::for_shell("cd x&&gcc src/{v}.c 'my file.c' \"{v}.h\">log; sh -c 'cc d.c' ${X}");
        let mentioned = shell.unwrap().mentioned(&point, fill);
        for name in ["src/fast.c", "my file.c", "fast.h", "log", "d.c"] {
            assert!(mentioned.iter().any(|word| word == name), "{name}: {mentioned:?}");
        }
    }

    #[test]
    fn mistakes_are_told() {
        for (text, part) in [
            ("", "empty"),
            ("  ", "empty"),
            ("a 'b", "without its end"),
            ("a\\", "backslash"),
            ("a\0", "NUL"),
        ] {
            assert!(Template::parse(text).unwrap_err().contains(part), "{text}");
        }
    }
}
