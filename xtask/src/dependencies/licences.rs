//! Licence expressions: names with AND, OR and parentheses; an old `/` is an OR.

/// Whether what is allowed is enough for an expression. Nothing is enough for one that cannot be read.
pub fn allows(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, allowed };
    reader.either() == Some(true) && reader.words.is_empty()
}

struct Reader<'a> {
    words: &'a [&'a str],
    allowed: &'a [&'a str],
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    fn either(&mut self) -> Option<bool> {
        let mut enough = self.both()?;
        while self.take("OR") {
            enough |= self.both()?;
        }
        Some(enough)
    }

    fn both(&mut self) -> Option<bool> {
        let mut enough = self.one()?;
        while self.take("AND") {
            enough &= self.one()?;
        }
        Some(enough)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let enough = self.either()?;
            return self.take(")").then_some(enough);
        }
        let name = self.next().filter(|name| !["AND", "OR", "WITH", ")"].contains(name))?;
        match self.take("WITH") {
            true => {
                let name = format!("{name} WITH {}", self.next()?);
                Some(self.allowed.contains(&name.as_str()))
            }
            false => Some(self.allowed.contains(&name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_needs_one_side_of_or_and_both_of_and() {
        for (expression, enough) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("MIT OR GPL-3.0", true),
            ("GPL-3.0/MIT", true),
            ("MIT AND GPL-3.0", false),
            ("(MIT OR GPL-3.0) AND Zlib", true),
            ("MIT OR GPL-3.0 AND Zlib", true),
            ("GPL-3.0 AND (MIT OR Zlib)", false),
            ("Zlib WITH odd", false),
            ("Zlib WITH odd OR MIT", true),
            ("", false),
            ("MIT MIT", false),
            ("MIT OR", false),
            ("(MIT", false),
            ("MIT)", false),
            ("AND", false),
        ] {
            assert_eq!(allows(expression, &["MIT", "Zlib"]), enough, "{expression}");
        }
    }
}
