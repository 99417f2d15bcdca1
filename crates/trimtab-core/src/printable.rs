//! Text for people that came from outside: names in files, messages of libraries. It must not steer a terminal.

use std::borrow::Cow;

/// Whether a character does something instead of being shown: control characters, among them those above ASCII that some terminals
/// obey, ends of lines and pages, and what turns the direction of writing.
pub fn is_steering(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{61c}')
}

/// The text with such characters written out: `\n`, `\u{1b}`. Doing it twice changes nothing.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_steering) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match is_steering(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_written_out_and_everything_else_stays() {
        for plain in ["", "matmul:f32:8x8x8", "µ 10.0 µs ×─▶ 日本語", "a\\u{1b}"] {
            assert!(matches!(printable(plain), Cow::Borrowed(text) if text == plain));
        }
        for (text, shown) in [
            ("\x1b]0;x\x07", "\\u{1b}]0;x\\u{7}"),
            ("a\nb\tc\r\0", "a\\nb\\tc\\r\\u{0}"),
            ("\u{9b}31m\u{7f}", "\\u{9b}31m\\u{7f}"),
            ("\u{202e}cba\u{2066}\u{2028}", "\\u{202e}cba\\u{2066}\\u{2028}"),
        ] {
            assert_eq!(printable(text), shown);
            assert_eq!(printable(shown), shown);
        }
    }
}
