//! Rust source as tokens: what the compiler sees, without comments and layout.

/// The tokens of a source text. Strings are tokens with their quotes, punctuation is one character each.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.replace("\r\n", "\n").chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let (mut out, mut i) = (Vec::new(), 0);
    while i < chars.len() {
        let start = i;
        match at(i) {
            c if c.is_whitespace() => {
                i += 1;
                continue;
            }
            '/' if at(i + 1) == '/' => {
                while i < chars.len() && at(i) != '\n' {
                    i += 1;
                }
                continue;
            }
            '/' if at(i + 1) == '*' => {
                i = block_comment(&chars, i);
                continue;
            }
            '"' => i = quoted(&chars, i),
            '\'' if at(i + 1) != '\\' && at(i + 2) != '\'' => i = word(&chars, i + 1), // a lifetime
            '\'' => i = quoted(&chars, i),
            c if is_word(c) => {
                i = word(&chars, i);
                let prefix = matches!(chars[start..i], ['r' | 'b' | 'c'] | ['b' | 'c', 'r']);
                let raw = prefix && chars[start..i].contains(&'r');
                if prefix && !raw && matches!(at(i), '"' | '\'') {
                    i = quoted(&chars, i);
                } else if raw && (at(i) == '"' || at(i) == '#' && matches!(at(i + 1), '#' | '"')) {
                    i = raw_string(&chars, i);
                } else if c.is_ascii_digit() && at(i) == '.' && at(i + 1).is_ascii_digit() {
                    i = word(&chars, i + 1);
                }
            }
            _ => i += 1,
        }
        out.push(chars[start..i.min(chars.len())].iter().collect());
    }
    out
}

/// Whether a token is a name or a keyword.
pub(crate) fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_') && token.chars().all(is_word)
}

/// The position behind the group that opens at `open`, whatever bracket it is.
pub(crate) fn behind_group(tokens: &[String], open: usize) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => (),
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn word(chars: &[char], from: usize) -> usize {
    from + chars[from.min(chars.len())..].iter().take_while(|&&c| is_word(c)).count()
}

fn quoted(chars: &[char], open: usize) -> usize {
    let (quote, mut i) = (chars[open], open + 1);
    while i < chars.len() && chars[i] != quote {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

fn raw_string(chars: &[char], from: usize) -> usize {
    let hashes = chars[from..].iter().take_while(|&&c| c == '#').count();
    let closes = |i: usize| {
        chars[i] == '"' && chars[i + 1..].iter().take(hashes).filter(|&&c| c == '#').count() == hashes
    };
    let end = (from + hashes + 1..chars.len()).find(|&i| closes(i));
    end.map_or(chars.len(), |i| i + 1 + hashes)
}

fn block_comment(chars: &[char], open: usize) -> usize {
    let (mut depth, mut i) = (0usize, open);
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => (depth, i) = (depth + 1, i + 2),
            ('*', Some('/')) => (depth, i) = (depth.saturating_sub(1), i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            break;
        }
    }
    i
}
