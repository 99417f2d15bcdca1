//! Writes HTML and SVG, every page and every drawing: tags are closed in order, and every word from outside is escaped because there is no other way in.

use crate::output::printable;

/// A text that grows tag by tag. Every element is written closed, so that it is well-formed XML too.
#[derive(Default)]
pub struct Markup {
    text: String,
    open: Vec<&'static str>,
}

/// Names and values of attributes.
pub type Attributes<'a> = &'a [(&'a str, &'a str)];

impl Markup {
    /// Opens an element.
    pub fn open(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.start(tag, attributes);
        self.text.push('>');
        self.open.push(tag);
    }

    /// Closes the element opened last.
    pub fn close(&mut self) {
        if let Some(tag) = self.open.pop() {
            self.text.push_str("</");
            self.text.push_str(tag);
            self.text.push('>');
            if is_block(tag) {
                self.text.push('\n');
            }
        }
    }

    /// Writes words.
    pub fn words(&mut self, words: &str) {
        escape(words, &mut self.text);
    }

    /// An element of words.
    pub fn leaf(&mut self, tag: &'static str, attributes: Attributes<'_>, words: &str) {
        self.open(tag, attributes);
        self.words(words);
        self.close();
    }

    /// An element without content.
    pub fn empty(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.start(tag, attributes);
        self.text.push_str("/>");
    }

    /// An element whose content does what is written.
    pub fn within(&mut self, tag: &'static str, attributes: Attributes<'_>, write: impl FnOnce(&mut Markup)) {
        let depth = self.open.len();
        self.open(tag, attributes);
        write(self);
        while self.open.len() > depth {
            self.close();
        }
    }

    /// Text of this program that goes in as it is: a style sheet, the type of the document.
    pub fn own(&mut self, text: &'static str) {
        self.text.push_str(text);
    }

    /// The text, with everything closed.
    pub fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.text
    }

    fn start(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.text.push('<');
        self.text.push_str(tag);
        for (name, value) in attributes {
            self.text.push(' ');
            self.text.push_str(name);
            self.text.push_str("=\"");
            escape(value, &mut self.text);
            self.text.push('"');
        }
    }
}

/// A number of a drawing, to a tenth.
pub fn place(value: f64) -> String {
    format!("{:.1}", if value.is_finite() { value } else { 0.0 })
}

/// Words at a place of a drawing.
pub fn label(svg: &mut Markup, (x, y): (f64, f64), class: &str, anchor: &str, words: &str) {
    let attributes = [("x", &*place(x)), ("y", &*place(y)), ("class", class), ("text-anchor", anchor)];
    svg.leaf("text", &attributes, words);
}

/// Words beside a drawing, from below to above.
pub fn turned(svg: &mut Markup, (x, y): (f64, f64), words: &str) {
    let (x, y) = (place(x), place(y));
    let turn = format!("rotate(-90 {x} {y})");
    let attributes =
        [("x", &*x), ("y", &*y), ("class", "name"), ("text-anchor", "middle"), ("transform", &*turn)];
    svg.leaf("text", &attributes, words);
}

/// A line between two places of a drawing.
pub fn line(svg: &mut Markup, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
    let (x1, y1, x2, y2) = (place(x1), place(y1), place(x2), place(y2));
    svg.empty("line", &[("x1", &x1), ("y1", &y1), ("x2", &x2), ("y2", &y2), ("class", class)]);
}

/// A line through places of a drawing.
pub fn polyline(svg: &mut Markup, places: impl Iterator<Item = (f64, f64)>, class: &str) {
    let places: Vec<String> = places.map(|(x, y)| format!("{},{}", place(x), place(y))).collect();
    svg.empty("polyline", &[("points", &places.join(" ")), ("class", class)]);
}

/// A rectangle of a drawing: its upper left corner and its size.
pub fn rectangle(svg: &mut Markup, (x, y): (f64, f64), (width, height): (f64, f64), class: &str) {
    let (x, y, width, height) = (place(x), place(y), place(width), place(height));
    svg.empty("rect", &[("x", &x), ("y", &y), ("width", &width), ("height", &height), ("class", class)]);
}

/// Elements after which a line ends, so that people can read the source.
fn is_block(tag: &str) -> bool {
    !matches!(tag, "a" | "b" | "code" | "em" | "span" | "text" | "title" | "td" | "th" | "dt" | "tspan")
}

/// Control characters would steer a terminal and are not allowed in XML; the rest is escaped.
fn escape(words: &str, into: &mut String) {
    for c in printable(words).chars() {
        match c {
            '&' => into.push_str("&amp;"),
            '<' => into.push_str("&lt;"),
            '>' => into.push_str("&gt;"),
            '"' => into.push_str("&quot;"),
            '\'' => into.push_str("&#39;"),
            // Not characters in XML.
            '\u{fffe}' | '\u{ffff}' => into.push('\u{fffd}'),
            c => into.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_values_are_escaped_and_tags_are_closed() {
        let mut markup = Markup::default();
        markup.within("p", &[("title", "\"><script>'")], |markup| {
            markup.leaf("b", &[], "a < b & c\u{0} > \"d\"");
            markup.open("i", &[]);
            markup.empty("br", &[]);
        });
        markup.open("div", &[]);
        let expected = "<p title=\"&quot;&gt;&lt;script&gt;&#39;\"><b>a &lt; b &amp; c\\u{0} &gt; &quot;d&quot;</b><i><br/></i>\n</p>\n<div></div>\n";
        assert_eq!(markup.finish(), expected);
    }
}
