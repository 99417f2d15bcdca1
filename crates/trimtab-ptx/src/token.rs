//! PTX text as words and punctuation, each with its line.

use crate::fault::LoadError;

/// A word or a single character of punctuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub text: &'a str,
    pub line: u32,
    /// The line of the CUDA source, where a `.loc` said so; 0 otherwise.
    pub source: u32,
}

/// All tokens of a module. Comments, `.file` and `.loc` are gone.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, LoadError> {
    let (mut found, mut comment, mut source) = (Vec::new(), false, 0);
    for (number, whole) in text.lines().enumerate() {
        let line = number as u32 + 1;
        let mut rest = whole.trim();
        if !comment && first(rest) == ".loc" {
            source = rest.split_whitespace().nth(2).and_then(|word| word.parse().ok()).unwrap_or(0);
            continue;
        }
        if !comment && first(rest) == ".file" {
            continue;
        }
        while !rest.is_empty() {
            if comment {
                let Some(end) = rest.find("*/") else { break };
                (rest, comment) = (rest[end + 2..].trim_start(), false);
                continue;
            }
            if rest.starts_with("//") {
                break;
            }
            if rest.starts_with("/*") {
                (rest, comment) = (&rest[2..], true);
                continue;
            }
            let length =
                length(rest).ok_or_else(|| LoadError::new(line, "a string that does not end", whole))?;
            found.push(Token { text: &rest[..length], line, source });
            rest = rest[length..].trim_start();
        }
    }
    Ok(found)
}

fn first(line: &str) -> &str {
    line.split_whitespace().next().unwrap_or_default()
}

/// How long the first token of a text that starts with one is.
fn length(text: &str) -> Option<usize> {
    if let Some(inside) = text.strip_prefix('"') {
        return inside.find('"').map(|end| end + 2);
    }
    let mut end = 0;
    while let Some(letter) = text[end..].chars().next() {
        if letter.is_alphanumeric() || "_$%.".contains(letter) {
            end += letter.len_utf8();
        } else if text[end..].starts_with("::") && end > 0 {
            end += 2;
        } else {
            break;
        }
    }
    Some(if end > 0 { end } else { text.chars().next().map_or(0, char::len_utf8) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_words_and_punctuation_with_lines() {
        let text = "// c\nld.shared::cta.f32 %f1, [%r2+-4]; /* a\nb */ L1: @!%p1\n.loc 1 7 3\nbra L1;";
        let words: Vec<(&str, u32, u32)> =
            tokens(text).unwrap().iter().map(|token| (token.text, token.line, token.source)).collect();
        let first = ["ld.shared::cta.f32", "%f1", ",", "[", "%r2", "+", "-", "4", "]", ";"];
        assert_eq!(words[..10].iter().map(|word| word.0).collect::<Vec<_>>(), first);
        let last = [("L1", 3, 0), (":", 3, 0), ("@", 3, 0), ("!", 3, 0), ("%p1", 3, 0), ("bra", 5, 7)];
        assert_eq!(words[10..16], last);
    }
}
