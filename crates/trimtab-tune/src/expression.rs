//! Constraints of a space: Python-style expressions over its axes, read once and evaluated per point.
//!
//! Numbers are 64-bit floats: whole numbers below 2^53 are exact, and `/` is true division as in the recordings. An axis of texts can
//! only be compared with texts in quotes; its value is the place of its text among those it may take.

use std::fmt;
use trimtab_core::MAX_AXES;

/// Parentheses nested deeper than this are refused rather than overflowing the stack.
const MAX_DEPTH: u32 = 64;
/// The most operators of a constraint, and expressions in its lists: it is evaluated for every point. Numbers in a list are not counted.
pub const MAX_TERMS: u32 = 4096;
/// The longest text of a constraint; a list of all legal points may be that long.
pub const MAX_CONSTRAINT_BYTES: usize = 16 << 20;
/// What is quoted of a constraint that cannot be read.
const QUOTED: usize = 120;

/// A constraint as it was written, and ready to be evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    text: String,
    root: Node,
    terms: u32,
}

/// Why a constraint could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the constraint `{text}` cannot be read at byte {at}: {reason}")]
pub struct ExpressionError {
    text: String,
    at: usize,
    reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Or,
    And,
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
    Power,
    Min,
    Max,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// How operators are written; of those that begin alike the longer first.
type Signs = [(&'static str, Operator)];
const EITHER: &Signs = &[("or", Operator::Or)];
const BOTH: &Signs = &[("and", Operator::And)];
const COMPARISONS: &Signs = &[
    ("==", Operator::Equal),
    ("!=", Operator::Unequal),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("<", Operator::Less),
    (">", Operator::Greater),
];
const SUMS: &Signs = &[("+", Operator::Add), ("-", Operator::Subtract)];
const PRODUCTS: &Signs = &[
    ("//", Operator::FloorDivide),
    ("*", Operator::Multiply),
    ("/", Operator::Divide),
    ("%", Operator::Modulo),
];

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Number(f64),
    Axis(usize),
    /// A text in quotes, until it is known which axis it is compared with.
    Text(String),
    Not(Box<Node>),
    Negate(Box<Node>),
    Pair(Operator, Box<Node>, Box<Node>),
    /// Operands with operators between them, from left to right: as long as it may be, it is no deeper than one of them.
    Row(Box<Node>, Vec<(Operator, Node)>),
    /// `a < b <= c`: every neighbouring pair holds.
    Chain(Box<Node>, Vec<(Operator, Node)>),
    /// `a in (b, c)`, or its opposite.
    In(Box<Node>, Vec<Node>, bool),
    /// The same with numbers alone, ascending: lists of thousands of points are written like this.
    Among(Box<Node>, Vec<f64>, bool),
}

impl Expression {
    /// Reads a constraint over these axes; `fixed` are names with one value.
    pub fn parse(
        text: &str,
        axes: &[String],
        fixed: &[(String, f64)],
    ) -> Result<Expression, ExpressionError> {
        Expression::parse_with_texts(text, axes, fixed, &[])
    }

    /// The same where some axes take texts: those of each axis, none of an axis of numbers.
    pub fn parse_with_texts(
        text: &str,
        axes: &[String],
        fixed: &[(String, f64)],
        texts: &[Vec<String>],
    ) -> Result<Expression, ExpressionError> {
        let mut parser = Parser { text, at: 0, axes, fixed, texts, depth: 0, terms: 0 };
        if text.len() > MAX_CONSTRAINT_BYTES {
            return parser
                .wrong(format!("it has {} bytes, at most {MAX_CONSTRAINT_BYTES} are read", text.len()));
        }
        let root = parser.either()?;
        parser.skip_spaces();
        if parser.at < text.len() {
            return parser.wrong("something follows the end of the expression");
        }
        if parser.is_text(&root) {
            return parser.wrong("a text is neither true nor false; compare it: name == 'text'");
        }
        Ok(Expression { text: text.to_string(), root, terms: parser.terms })
    }

    /// Whether it holds for these values of the axes.
    pub fn holds(&self, values: &[u32]) -> bool {
        let mut numbers = [f64::NAN; MAX_AXES];
        for (number, value) in numbers.iter_mut().zip(values) {
            *number = f64::from(*value);
        }
        self.holds_for(&numbers)
    }

    /// Whether it holds for these numbers: the place of its text where an axis takes texts.
    pub fn holds_for(&self, values: &[f64]) -> bool {
        truth(self.root.value(values))
    }

    /// Its number for these values, where an expression is a size or a count: not a number where something it asks for is not there.
    pub fn value(&self, values: &[f64]) -> f64 {
        self.root.value(values)
    }

    /// The axes it asks for, ascending.
    pub fn axes(&self) -> Vec<usize> {
        let mut axes = Vec::new();
        self.root.axes(&mut axes);
        axes.sort_unstable();
        axes.dedup();
        axes
    }

    /// How much there is to evaluate: its operators, and one.
    pub fn terms(&self) -> u32 {
        self.terms + 1
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Zero is false; a value that does not exist (division by zero) makes a constraint fail.
fn truth(value: f64) -> bool {
    value != 0.0 && !value.is_nan()
}

fn number(truth: bool) -> f64 {
    f64::from(u8::from(truth))
}

impl Node {
    fn axes(&self, found: &mut Vec<usize>) {
        match self {
            Node::Number(_) | Node::Text(_) => {}
            Node::Axis(axis) => found.push(*axis),
            Node::Not(inner) | Node::Negate(inner) | Node::Among(inner, ..) => inner.axes(found),
            Node::Pair(_, left, right) => [left, right].iter().for_each(|node| node.axes(found)),
            Node::Row(first, rest) | Node::Chain(first, rest) => {
                first.axes(found);
                rest.iter().for_each(|(_, node)| node.axes(found));
            }
            Node::In(inner, list, _) => {
                inner.axes(found);
                list.iter().for_each(|node| node.axes(found));
            }
        }
    }

    fn value(&self, values: &[f64]) -> f64 {
        match self {
            Node::Number(number) => *number,
            // None is left where an expression was read.
            Node::Text(_) => f64::NAN,
            Node::Axis(axis) => values.get(*axis).copied().unwrap_or(f64::NAN),
            Node::Not(inner) => number(!truth(inner.value(values))),
            Node::Negate(inner) => -inner.value(values),
            Node::Pair(operator, left, right) => pair(*operator, left.value(values), || right.value(values)),
            Node::Row(first, rest) => rest.iter().fold(first.value(values), |left, (operator, right)| {
                pair(*operator, left, || right.value(values))
            }),
            Node::Chain(first, rest) => {
                let mut left = first.value(values);
                for (comparison, next) in rest {
                    let right = next.value(values);
                    if !truth(pair(*comparison, left, || right)) {
                        return 0.0;
                    }
                    left = right;
                }
                1.0
            }
            Node::In(inner, list, wanted) => {
                let value = inner.value(values);
                number(list.iter().any(|item| item.value(values) == value) == *wanted)
            }
            Node::Among(inner, numbers, wanted) => {
                let value = inner.value(values);
                let from = numbers.partition_point(|number| *number < value);
                number((numbers.get(from) == Some(&value)) == *wanted)
            }
        }
    }
}

fn pair(operator: Operator, left: f64, right: impl Fn() -> f64) -> f64 {
    match operator {
        Operator::Or if truth(left) => left,
        Operator::And if !truth(left) => 0.0,
        Operator::Or | Operator::And => right(),
        Operator::Add => left + right(),
        Operator::Subtract => left - right(),
        Operator::Multiply => left * right(),
        Operator::Divide => left / right(),
        Operator::FloorDivide => (left / right()).floor(),
        // The sign of the divisor, as in Python.
        Operator::Modulo => {
            let divisor = right();
            left - (left / divisor).floor() * divisor
        }
        Operator::Power => power(left, right()),
        Operator::Min => left.min(right()),
        Operator::Max => left.max(right()),
        Operator::Equal => number(left == right()),
        Operator::Unequal => number(left != right()),
        Operator::Less => number(left < right()),
        Operator::LessOrEqual => number(left <= right()),
        Operator::Greater => number(left > right()),
        Operator::GreaterOrEqual => number(left >= right()),
    }
}

/// Whole powers by multiplication, so that they are the same on every machine; others do not exist.
fn power(base: f64, exponent: f64) -> f64 {
    if exponent.fract() != 0.0 || exponent.abs() > 64.0 {
        return f64::NAN;
    }
    let product = (0..exponent.abs() as u32).fold(1.0, |product, _| product * base);
    if exponent < 0.0 { 1.0 / product } else { product }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    axes: &'a [String],
    fixed: &'a [(String, f64)],
    /// The texts each axis takes; none of an axis of numbers.
    texts: &'a [Vec<String>],
    depth: u32,
    terms: u32,
}

type Parsed = Result<Node, ExpressionError>;

impl Parser<'_> {
    fn wrong<T>(&self, reason: impl Into<String>) -> Result<T, ExpressionError> {
        let mut text: String = self.text.chars().take(QUOTED).collect();
        if text.len() < self.text.len() {
            text.push('…');
        }
        Err(ExpressionError { text, at: self.at, reason: reason.into() })
    }

    /// So much more is to be evaluated.
    fn count(&mut self, terms: usize) -> Result<(), ExpressionError> {
        self.terms = self.terms.saturating_add(u32::try_from(terms).unwrap_or(u32::MAX));
        match self.terms > MAX_TERMS {
            true => self.wrong(format!(
                "it has more than {MAX_TERMS} terms; say it in several constraints, or list values as `a in (1, 2, …)`"
            )),
            false => Ok(()),
        }
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn skip_spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Takes this sign if it comes next; a word only as a whole.
    fn sign(&mut self, sign: &str) -> bool {
        self.skip_spaces();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let found = self
            .rest()
            .strip_prefix(sign)
            .is_some_and(|behind| !(sign.ends_with(is_name) && behind.starts_with(is_name)));
        self.at += if found { sign.len() } else { 0 };
        found
    }

    /// Takes one of these signs if it comes next.
    fn operator(&mut self, signs: &Signs) -> Option<Operator> {
        signs.iter().find(|(sign, _)| self.sign(sign)).map(|(_, operator)| *operator)
    }

    /// Operands with such signs between them, from left to right.
    fn pairs(&mut self, signs: &Signs, operand: fn(&mut Self) -> Parsed) -> Parsed {
        let first = operand(self)?;
        let mut rest = Vec::new();
        while let Some(operator) = self.operator(signs) {
            self.count(1)?;
            rest.push((operator, operand(self)?));
        }
        Ok(if rest.is_empty() { first } else { Node::Row(Box::new(first), rest) })
    }

    /// Something within something else, to a depth.
    fn nested(&mut self, inner: fn(&mut Self) -> Parsed) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.wrong(format!("nested deeper than {MAX_DEPTH}"));
        }
        let inner = inner(self)?;
        self.depth -= 1;
        Ok(inner)
    }

    fn either(&mut self) -> Parsed {
        self.nested(|parser| parser.pairs(EITHER, |parser| parser.pairs(BOTH, Self::negation)))
    }

    fn negation(&mut self) -> Parsed {
        match self.sign("not") {
            true => Ok(Node::Not(Box::new(self.nested(Self::negation)?))),
            false => self.comparison(),
        }
    }

    fn comparison(&mut self) -> Parsed {
        let mut first = self.sum()?;
        for (word, wanted) in [("in", true), ("not in", false)] {
            if self.sign(word) {
                let mut list = self.list()?;
                for item in &mut list {
                    self.settle_texts(&mut first, item, Operator::Equal)?;
                }
                let number = |node: &Node| if let Node::Number(number) = node { Some(*number) } else { None };
                if let Some(mut numbers) = list.iter().map(number).collect::<Option<Vec<f64>>>() {
                    numbers.sort_unstable_by(f64::total_cmp);
                    return Ok(Node::Among(Box::new(first), numbers, wanted));
                }
                self.count(list.len())?;
                return Ok(Node::In(Box::new(first), list, wanted));
            }
        }
        let mut rest = Vec::new();
        while let Some(comparison) = self.operator(COMPARISONS) {
            self.count(1)?;
            let mut next = self.sum()?;
            let before = rest.last_mut().map_or(&mut first, |(_, node)| node);
            self.settle_texts(before, &mut next, comparison)?;
            rest.push((comparison, next));
        }
        Ok(if rest.is_empty() { first } else { Node::Chain(Box::new(first), rest) })
    }

    /// Sums and products are of numbers: a text stands alone.
    fn sum(&mut self) -> Parsed {
        let sum = self.pairs(SUMS, |parser| parser.pairs(PRODUCTS, Self::signed))?;
        if let Node::Row(first, rest) = &sum
            && (self.is_text(first) || rest.iter().any(|(_, node)| self.is_text(node)))
        {
            return self.wrong("texts cannot be computed with; compare them with == or !=");
        }
        Ok(sum)
    }

    fn is_text(&self, node: &Node) -> bool {
        match node {
            Node::Text(_) => true,
            Node::Axis(axis) => self.texts.get(*axis).is_some_and(|texts| !texts.is_empty()),
            _ => false,
        }
    }

    /// Two sides of a comparison: a text becomes its place among those of the axis on the other side.
    fn settle_texts(&self, left: &mut Node, right: &mut Node, by: Operator) -> Result<(), ExpressionError> {
        let (axis, text) = match (&*left, &*right) {
            (Node::Axis(axis), Node::Text(text)) | (Node::Text(text), Node::Axis(axis)) => {
                (*axis, text.clone())
            }
            (Node::Axis(one), Node::Axis(other))
                if self.is_text(left) && self.texts.get(*one) == self.texts.get(*other) =>
            {
                return Ok(());
            }
            (left, right) if self.is_text(left) || self.is_text(right) => {
                return self.wrong("a text can only be compared with a text: name == 'text'");
            }
            _ => return Ok(()),
        };
        if !matches!(by, Operator::Equal | Operator::Unequal) {
            return self.wrong("texts have no order; compare them with == or !=");
        }
        let known = self.texts.get(axis).map_or(&[][..], Vec::as_slice);
        let Some(place) = known.iter().position(|known| *known == text) else {
            let known = if known.is_empty() { "numbers only".to_string() } else { known.join(", ") };
            return self.wrong(format!("`{}` never is '{text}'; it takes {known}", self.axes[axis]));
        };
        let node = if matches!(left, Node::Text(_)) { left } else { right };
        *node = Node::Number(place as f64);
        Ok(())
    }

    fn list(&mut self) -> Result<Vec<Node>, ExpressionError> {
        let close = if self.sign("(") {
            ")"
        } else if self.sign("[") {
            "]"
        } else {
            return self.wrong("a list in ( ) or [ ] follows `in`");
        };
        let mut items = Vec::new();
        while !self.sign(close) {
            items.push(self.either()?);
            if !self.sign(",") {
                if self.sign(close) {
                    break;
                }
                return self.wrong(format!("`,` or `{close}` expected"));
            }
        }
        Ok(items)
    }

    fn signed(&mut self) -> Parsed {
        if self.sign("-") {
            return Ok(Node::Negate(Box::new(self.nested(Self::signed)?)));
        }
        let base = self.atom()?;
        if self.sign("**") {
            let exponent = self.nested(Self::signed)?;
            return Ok(Node::Pair(Operator::Power, Box::new(base), Box::new(exponent)));
        }
        Ok(base)
    }

    fn atom(&mut self) -> Parsed {
        if self.sign("(") {
            let inner = self.either()?;
            return if self.sign(")") { Ok(inner) } else { self.wrong("`)` expected") };
        }
        self.skip_spaces();
        for quote in ['\'', '"'] {
            let Some(rest) = self.rest().strip_prefix(quote) else { continue };
            let Some(end) = rest.find(quote) else {
                return self.wrong(format!("the text has no end; {quote} expected"));
            };
            let text = rest[..end].to_string();
            self.at += end + 2;
            return Ok(Node::Text(text));
        }
        let rest = self.rest();
        let end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).unwrap_or(rest.len());
        let token = rest[..end].to_string();
        if token.is_empty() {
            return self.wrong("a number, an axis or `(` expected");
        }
        let is_number = token.starts_with(|c: char| c.is_ascii_digit());
        let axis = self.axes.iter().position(|name| *name == token).map(Node::Axis);
        let fixed = self.fixed.iter().find(|(name, _)| *name == token).map(|(_, value)| *value);
        let value = fixed.or_else(|| match token.as_str() {
            "True" | "true" => Some(1.0),
            "False" | "false" => Some(0.0),
            _ => token.parse().ok().filter(|_| is_number),
        });
        if let Some(node) = axis.or(value.map(Node::Number)) {
            self.at += end;
            return Ok(node);
        }
        let operator = match token.as_str() {
            "min" => Operator::Min,
            "max" => Operator::Max,
            _ if is_number => return self.wrong(format!("`{token}` is not a number")),
            _ => {
                return self.wrong(format!(
                    "`{token}` is no axis of the space; there are: {}",
                    self.axes.join(", ")
                ));
            }
        };
        self.at += end;
        let items = self.list()?;
        self.count(items.len())?;
        let mut items = items.into_iter();
        let Some(first) = items.next() else { return self.wrong(format!("`{token}` of nothing")) };
        Ok(Node::Row(Box::new(first), items.map(|item| (operator, item)).collect()))
    }
}

#[cfg(test)]
mod tests;
