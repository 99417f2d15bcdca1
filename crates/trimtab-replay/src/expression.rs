//! Constraints of a recorded space: Python-style expressions over its axes, read once and evaluated per point.
//!
//! Numbers are 64-bit floats: whole numbers below 2^53 are exact, and `/` is true division as in the recordings.

use std::fmt;

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
        let mut parser = Parser { text, at: 0, axes, fixed, depth: 0, terms: 0 };
        if text.len() > MAX_CONSTRAINT_BYTES {
            return parser
                .wrong(format!("it has {} bytes, at most {MAX_CONSTRAINT_BYTES} are read", text.len()));
        }
        let root = parser.either()?;
        parser.skip_spaces();
        if parser.at < text.len() {
            return parser.wrong("something follows the end of the expression");
        }
        Ok(Expression { text: text.to_string(), root, terms: parser.terms })
    }

    /// Whether it holds for these values of the axes.
    pub fn holds(&self, values: &[u32]) -> bool {
        truth(self.root.value(values))
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
    fn value(&self, values: &[u32]) -> f64 {
        match self {
            Node::Number(number) => *number,
            Node::Axis(axis) => values.get(*axis).map_or(f64::NAN, |value| f64::from(*value)),
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
        let first = self.sum()?;
        for (word, wanted) in [("in", true), ("not in", false)] {
            if self.sign(word) {
                let list = self.list()?;
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
            rest.push((comparison, self.sum()?));
        }
        Ok(if rest.is_empty() { first } else { Node::Chain(Box::new(first), rest) })
    }

    fn sum(&mut self) -> Parsed {
        self.pairs(SUMS, |parser| parser.pairs(PRODUCTS, Self::signed))
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
            "True" => Some(1.0),
            "False" => Some(0.0),
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
            _ => return self.wrong(format!("`{token}` is no axis of the space")),
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
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Expression, ExpressionError> {
        Expression::parse(text, &["a".to_string(), "b".to_string()], &[("fixed".to_string(), 5.0)])
    }

    #[test]
    fn expressions_mean_what_they_mean_in_python() {
        // a = 6, b = 4.
        for (text, expected) in [
            ("a * b == 24 and a > b", true),
            ("not a > b", false),
            ("not not a > b", true),
            ("a == 0 or b == 4", true),
            ("a or 1 / 0", true),
            ("4 <= b < a <= 6", true),
            ("4 < b < a", false),
            ("a / b == 1.5", true),
            ("a // b == 1 and a % b == 2", true),
            ("-a // b == -2 and -a % b == 2", true),
            ("-a ** 2 == -36 and 2 ** 3 ** 2 == 512", true),
            ("a + b * 2 == 14 and (a + b) * 2 == 20", true),
            ("a - b - 1 == 1", true),
            ("a in (2, 4, 6) and b not in [1, 2]", true),
            ("a in ()", false),
            ("min(a, b, 9) == 4 and max(a, b) == 6", true),
            ("fixed == 5 and True", true),
            ("32 % ((a * b) / 3) == 0", true),
            ("1 / 0 == 1 / 0 or 0 / 0", true),
            ("0 / 0", false),
            ("a != 6", false),
        ] {
            assert_eq!(parse(text).unwrap().holds(&[6, 4]), expected, "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_place() {
        for (text, part) in [
            ("", "byte 0"),
            ("a +", "byte 3"),
            ("a b", "something follows"),
            ("c == 1", "`c` is no axis"),
            ("(a", "`)` expected"),
            ("a in 3", "a list"),
            ("a in (3", "`,` or `)` expected"),
            ("min()", "of nothing"),
            ("1.2.3", "not a number"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        let deep = format!("{}a{}", "(".repeat(100), ")".repeat(100));
        assert!(parse(&deep).unwrap_err().to_string().contains("nested deeper"));
        assert!(parse(&format!("{}a", "-".repeat(100_000))).is_err());
    }

    #[test]
    fn a_constraint_of_any_length_is_read_or_refused_and_never_overflows_the_stack() {
        for sign in [" + ", " - ", " * ", " and ", " or ", " == ", " < ", " % "] {
            let row = |terms: usize| vec!["a"; terms].join(sign);
            let error = parse(&row(200_000)).unwrap_err().to_string();
            assert!(
                error.contains("more than 4096 terms") && error.contains("several constraints"),
                "{error}"
            );
            assert!(error.len() < 500, "the text is not quoted whole: {} bytes", error.len());
            let longest = parse(&row(MAX_TERMS as usize)).unwrap();
            assert_eq!(longest.terms(), MAX_TERMS);
            // Evaluated, compared, copied and dropped.
            assert_eq!(longest.clone(), longest);
            longest.holds(&[1, 1]);
        }
        for nested in ["min(", "max(", "not ", "-", "(", "a in (", "a ** "] {
            let deep = nested.repeat(200_000) + "a";
            assert!(parse(&deep).unwrap_err().to_string().contains("nested deeper"), "{nested}");
        }
        let listed = |items: usize, item: &str| format!("({})", vec![item; items].join(", "));
        for wide in ["min", "max", "a in "] {
            let error = parse(&format!("{wide}{}", listed(200_000, "b"))).unwrap_err().to_string();
            assert!(error.contains("more than 4096 terms"), "{error}");
        }
        // Lists of numbers are looked up, not walked.
        assert!(parse(&format!("a in {}", listed(200_000, "6"))).unwrap().holds(&[6, 4]));
        let error = parse(&" ".repeat(MAX_CONSTRAINT_BYTES + 1)).unwrap_err().to_string();
        assert!(error.contains("at most 16777216 are read"), "{error}");
    }
}
