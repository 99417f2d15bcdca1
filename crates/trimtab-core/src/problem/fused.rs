//! Several operations as one: a recipe of elementwise steps over shared operands, perhaps after a product, perhaps before a
//! reduction. What lies between the steps is never stored.

use super::{BinaryOp, ProblemError, ReduceOp, UnaryOp, element_count, write_sizes};
use crate::DType;
use std::fmt;

/// The most steps of a recipe; those that fetch an operand count.
pub const MAX_STEPS: usize = 24;
/// The most tensors a recipe reads, the two of a product among them: with result and numbers as many buffers as every
/// GPU offers.
pub const MAX_INPUTS: usize = 6;
/// The most single numbers a recipe reads.
pub const MAX_NUMBERS: usize = 8;
/// The most values that wait for their use at one time.
pub const MAX_WAITING: usize = 8;

/// One step of a recipe. Steps are written behind their operands: each takes what the ones before it left, last first, and
/// leaves one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// An element of an input.
    Input(u8),
    /// A number, the same for all elements.
    Number(u8),
    /// An element of the product.
    Product,
    /// A function of one value.
    Unary(UnaryOp),
    /// A function of two; the one left last is the right one.
    Binary(BinaryOp),
}

crate::named! {
    /// Along which of the two dimensions of the result an input varies.
    pub enum Varies {
        /// An element for each of the result.
        All = "all",
        /// One for each row: it varies along the outer dimension.
        Rows = "rows",
        /// One for each column: it varies along the inner dimension.
        Columns = "columns",
        /// One for all.
        Nowhere = "one",
    }
}

impl Varies {
    /// The one that varies along these.
    pub const fn along(outer: bool, inner: bool) -> Varies {
        match (outer, inner) {
            (true, true) => Varies::All,
            (true, false) => Varies::Rows,
            (false, true) => Varies::Columns,
            (false, false) => Varies::Nowhere,
        }
    }

    /// Whether it varies along the outer dimension.
    pub const fn outer(self) -> bool {
        matches!(self, Varies::All | Varies::Rows)
    }

    /// Whether it varies along the inner dimension.
    pub const fn inner(self) -> bool {
        matches!(self, Varies::All | Varies::Columns)
    }
}

/// What a reduction at the end of a recipe runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Over {
    /// Everything: one result.
    All,
    /// The outer dimension: a result for each column.
    Rows,
    /// The inner dimension: a result for each row.
    Columns,
}

/// The product a recipe begins with: `outer × depth` times `depth × inner`. Its operands are inputs 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Product {
    /// Elements of the sums.
    pub depth: u64,
    /// Whether the left operand is stored column by column.
    pub lhs_transposed: bool,
    /// Whether the right one is.
    pub rhs_transposed: bool,
}

/// A recipe over `outer × inner` elements, dense and row-major.
///
/// ```
/// use trimtab_core::Problem;
/// let problem: Problem = "fused.relu(add(mul(a,#0),b)):f32:64x512:all,columns".parse().unwrap();
/// assert_eq!(problem.to_string(), "fused.relu(add(mul(a,#0),b)):f32:64x512:all,columns");
/// assert_eq!(problem.input_lens().as_slice(), [64 * 512, 512, 1]); // a, b, the numbers
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fused {
    /// Element type of operands and result.
    pub dtype: DType,
    inputs: u8,
    numbers: u8,
    /// Steps, one byte each.
    steps: [u8; MAX_STEPS],
    count: u8,
    /// Two bits an input.
    varies: u16,
    /// Zero for none, else one more than the reduction's number, and what it runs over.
    end: u8,
    over: Over,
    /// Bit 0: there is a product; 1, 2: its operands are transposed.
    product: u8,
    outer: u64,
    inner: u64,
    depth: u64,
}

impl Fused {
    /// A recipe over `outer × inner` elements; `inputs` says how each varies (for a product, the first two are its
    /// operands and what is said of them is ignored).
    pub fn new(
        dtype: DType,
        [outer, inner]: [u64; 2],
        steps: &[Step],
        inputs: &[Varies],
        product: Option<Product>,
        end: Option<(ReduceOp, Over)>,
    ) -> Result<Fused, ProblemError> {
        let wrong = |reason: String| Err(ProblemError::Recipe { recipe: shown(steps), reason });
        if !matches!(dtype, DType::F32 | DType::F64 | DType::F16 | DType::I32) {
            return wrong(format!("operations on {dtype} run apart"));
        }
        if steps.is_empty() || steps.len() > MAX_STEPS {
            return wrong(format!("it has {} steps, not 1 to {MAX_STEPS}", steps.len()));
        }
        let own = if product.is_some() { 2 } else { 0 };
        let fewest = own.max(1);
        if inputs.len() > MAX_INPUTS || inputs.len() < fewest {
            return wrong(format!("it has {} inputs, not {fewest} to {MAX_INPUTS}", inputs.len()));
        }
        if let Err(reason) = walk(dtype, steps, inputs.len(), own, product.is_some()) {
            return wrong(reason);
        }
        let numbers = steps.iter().filter_map(|step| match step {
            Step::Number(number) => Some(number + 1),
            _ => None,
        });
        let numbers = numbers.max().unwrap_or(0);
        if let Some((op, _)) = end {
            if product.is_some() {
                return wrong("a product is not reduced in the same kernel".to_string());
            }
            if !dtype.is_float() && !matches!(op, ReduceOp::Min | ReduceOp::Max) {
                return wrong(format!("{} of {dtype} may not fit; reduce apart", op.name()));
            }
        }
        element_count(&[outer, inner], dtype)?;
        let depth = product.map_or(0, |product| product.depth);
        element_count(&[outer, depth], dtype)?;
        element_count(&[depth, inner], dtype)?;
        let mut fused = Fused {
            dtype,
            inputs: inputs.len() as u8,
            numbers,
            steps: [0; MAX_STEPS],
            count: steps.len() as u8,
            varies: 0,
            end: end.map_or(0, |(op, _)| op as u8 + 1),
            over: end.map_or(Over::All, |(_, over)| over),
            product: product.map_or(0, |product| {
                1 | u8::from(product.lhs_transposed) << 1 | u8::from(product.rhs_transposed) << 2
            }),
            outer,
            inner,
            depth,
        };
        for (at, step) in steps.iter().enumerate() {
            fused.steps[at] = code(*step);
        }
        fused.merge(&inputs[own..], own);
        let undefined = matches!(end, Some((ReduceOp::Mean | ReduceOp::Min | ReduceOp::Max, _)));
        if undefined && fused.reduced_len() == 0 && fused.out_len() > 0 {
            let op = end.map_or("", |(op, _)| op.name());
            return Err(ProblemError::Empty { op, shape: vec![outer, inner] });
        }
        Ok(fused)
    }

    /// Gives it the one form for what behaves alike: along a dimension of one element nothing varies by itself, and where
    /// nothing varies along one dimension only, there is but one.
    fn merge(&mut self, inputs: &[Varies], own: usize) {
        let (outer, inner) = (self.outer == 1, self.inner == 1);
        let one_form = |varies: &Varies| match (outer, inner) {
            (true, true) => Varies::All,
            (true, false) => Varies::along(varies.inner(), varies.inner()),
            (false, true) => Varies::along(varies.outer(), varies.outer()),
            (false, false) => *varies,
        };
        let inputs: Vec<Varies> = inputs.iter().map(one_form).collect();
        if (outer && self.over == Over::Columns) || (inner && self.over == Over::Rows) {
            self.over = Over::All;
        }
        let alike = inputs.iter().all(|varies| matches!(varies, Varies::All | Varies::Nowhere));
        if alike && self.product == 0 && self.over == Over::All {
            self.inner = self.inner.saturating_mul(self.outer);
            self.outer = 1;
        }
        // The product's own operands count as varying everywhere.
        let all = std::iter::repeat_n(Varies::All, own).chain(inputs);
        self.varies = 0;
        for (at, varies) in all.enumerate() {
            let bits = u16::from(varies.outer()) | u16::from(varies.inner()) << 1;
            self.varies |= bits << (2 * at);
        }
    }

    /// The steps, in order.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = Step> + '_ {
        self.steps[..self.count as usize].iter().map(|&code| step(code))
    }

    /// Rows of what the steps run over.
    pub fn outer(&self) -> u64 {
        self.outer
    }

    /// Columns of what the steps run over.
    pub fn inner(&self) -> u64 {
        self.inner
    }

    /// Tensors read, without the numbers.
    pub fn inputs(&self) -> usize {
        self.inputs as usize
    }

    /// Single numbers read: they lie together in one operand behind the inputs.
    pub fn numbers(&self) -> usize {
        self.numbers as usize
    }

    /// How an input varies. What is said of a product's operands means nothing.
    pub fn varies(&self, input: usize) -> Varies {
        let bits = self.varies >> (2 * input.min(MAX_INPUTS));
        Varies::along(bits & 1 == 1, bits & 2 == 2)
    }

    /// The product it begins with.
    pub fn product(&self) -> Option<Product> {
        (self.product != 0).then_some(Product {
            depth: self.depth,
            lhs_transposed: self.product & 2 != 0,
            rhs_transposed: self.product & 4 != 0,
        })
    }

    /// The reduction it ends with.
    pub fn end(&self) -> Option<(ReduceOp, Over)> {
        let op = ReduceOp::ALL.get(usize::from(self.end).checked_sub(1)?)?;
        Some((*op, self.over))
    }

    /// Elements the steps run over.
    pub fn len(&self) -> u64 {
        self.outer.saturating_mul(self.inner)
    }

    /// Whether they run over none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Elements that become one at the end.
    pub fn reduced_len(&self) -> u64 {
        match self.end() {
            None => 1,
            Some((_, Over::All)) => self.len(),
            Some((_, Over::Rows)) => self.outer,
            Some((_, Over::Columns)) => self.inner,
        }
    }

    /// Elements of the result.
    pub fn out_len(&self) -> u64 {
        match self.end() {
            None => self.len(),
            Some((_, Over::All)) => 1,
            Some((_, Over::Rows)) => self.inner,
            Some((_, Over::Columns)) => self.outer,
        }
    }

    /// Elements of an input.
    pub fn input_len(&self, input: usize) -> u64 {
        match (self.product(), input) {
            (Some(product), 0) => self.outer.saturating_mul(product.depth),
            (Some(product), 1) => self.inner.saturating_mul(product.depth),
            _ => match self.varies(input) {
                Varies::All => self.len(),
                Varies::Rows => self.outer,
                Varies::Columns => self.inner,
                Varies::Nowhere => 1,
            },
        }
    }

    /// Arithmetic operations the result needs at least.
    pub fn flops(&self) -> u64 {
        let steps =
            self.steps().filter(|step| matches!(step, Step::Unary(_) | Step::Binary(_))).count() as u64;
        let product = self.product().map_or(0, |product| product.depth.saturating_mul(2));
        let end = u64::from(self.end != 0);
        self.len().saturating_mul(steps.saturating_add(product).saturating_add(end))
    }

    #[inline]
    pub(super) fn mixed(&self) -> u64 {
        let word = |from: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&self.steps[from..from + 8]);
            u64::from_le_bytes(bytes)
        };
        let head = (self.dtype as u64) << 8
            | u64::from(self.varies) << 16
            | u64::from(self.end) << 32
            | (self.over as u64) << 40
            | u64::from(self.product) << 48
            | u64::from(self.count) << 56
            | 6;
        super::mix(&[head, self.outer, self.inner, self.depth, word(0), word(8), word(16)])
    }
}

/// Whether the steps leave exactly one value and read what there is.
fn walk(dtype: DType, steps: &[Step], inputs: usize, own: usize, product: bool) -> Result<(), String> {
    let mut waiting = 0usize;
    let mut used = [false; MAX_INPUTS];
    let mut numbers = [false; MAX_NUMBERS];
    let mut multiplied = false;
    for step in steps {
        match *step {
            Step::Input(input) if (own..inputs).contains(&usize::from(input)) => {
                used[usize::from(input)] = true;
                waiting += 1;
            }
            Step::Input(input) => return Err(format!("there is no input {input}")),
            Step::Number(number) if usize::from(number) < MAX_NUMBERS => {
                numbers[usize::from(number)] = true;
                waiting += 1;
            }
            Step::Number(_) => return Err(format!("it reads more than {MAX_NUMBERS} numbers")),
            Step::Product if product => {
                multiplied = true;
                waiting += 1;
            }
            Step::Product => return Err("there is no product".to_string()),
            Step::Unary(op) => {
                if !dtype.is_float() && !matches!(op, UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Relu) {
                    return Err(format!("{} is not defined for {dtype}", op.name()));
                }
                if waiting < 1 {
                    return Err(format!("{} has nothing to work on", op.name()));
                }
            }
            Step::Binary(op) => {
                if !dtype.is_float() && matches!(op, BinaryOp::Div | BinaryOp::Pow) {
                    return Err(format!("{} of {dtype} may not be defined; compute it apart", op.name()));
                }
                if waiting < 2 {
                    return Err(format!("{} has nothing to work on", op.name()));
                }
                waiting -= 1;
            }
        }
        if waiting > MAX_WAITING {
            return Err(format!("more than {MAX_WAITING} values wait at one time"));
        }
    }
    if waiting != 1 {
        return Err(format!("{waiting} values are left, not one"));
    }
    if product && !multiplied {
        return Err("the product is not used".to_string());
    }
    if let Some(unused) = (own..inputs).find(|&input| !used[input]) {
        return Err(format!("input {unused} is not used"));
    }
    let count = numbers.iter().filter(|&&used| used).count();
    if numbers[..count].iter().any(|used| !used) {
        return Err("its numbers are not numbered from zero on".to_string());
    }
    if product && !dtype.is_float() {
        return Err(format!("products are not defined for {dtype}"));
    }
    Ok(())
}

const NUMBERS: u8 = 0x10;
const PRODUCT: u8 = 0x20;
const UNARY: u8 = 0x40;
const BINARY: u8 = 0x80;

fn code(step: Step) -> u8 {
    match step {
        Step::Input(input) => input,
        Step::Number(number) => NUMBERS | number,
        Step::Product => PRODUCT,
        Step::Unary(op) => UNARY | op as u8,
        Step::Binary(op) => BINARY | op as u8,
    }
}

fn step(code: u8) -> Step {
    let at = usize::from(code & 0x0f);
    let unary = || UnaryOp::ALL.get(at).copied().map(Step::Unary);
    let binary = || BinaryOp::ALL.get(at).copied().map(Step::Binary);
    match code & 0xf0 {
        NUMBERS => Step::Number(code & 0x0f),
        PRODUCT => Step::Product,
        UNARY => unary().unwrap_or(Step::Product),
        BINARY => binary().unwrap_or(Step::Product),
        _ => Step::Input(code),
    }
}

/// The steps as a person writes them: `relu(add(a,#0))`. Letters are inputs, `@` is the product.
fn shown(steps: &[Step]) -> String {
    let mut waiting: Vec<String> = Vec::new();
    for step in steps {
        let value = match *step {
            Step::Input(input) => char::from(b'a' + input.min(25)).to_string(),
            Step::Number(number) => format!("#{number}"),
            Step::Product => "@".to_string(),
            Step::Unary(op) => format!("{}({})", op.name(), waiting.pop().unwrap_or_default()),
            Step::Binary(op) => {
                let (right, left) = (waiting.pop().unwrap_or_default(), waiting.pop().unwrap_or_default());
                format!("{}({left},{right})", op.name())
            }
        };
        waiting.push(value);
    }
    waiting.join(" ")
}

/// Reads what [`shown`] writes.
pub(super) fn read_steps(text: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let rest = read_value(text, &mut steps, 0)?;
    if rest.is_empty() { Ok(steps) } else { Err(format!("`{rest}` is too much")) }
}

fn read_value<'a>(text: &'a str, steps: &mut Vec<Step>, depth: usize) -> Result<&'a str, String> {
    if depth > MAX_STEPS || steps.len() > MAX_STEPS {
        return Err(format!("it has more than {MAX_STEPS} steps"));
    }
    let end = text.find(['(', ',', ')']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let Some(rest) = rest.strip_prefix('(') else {
        let step = match name.as_bytes() {
            [letter @ b'a'..=b'f'] => Step::Input(letter - b'a'),
            [b'#', digit @ b'0'..=b'7'] => Step::Number(digit - b'0'),
            b"@" => Step::Product,
            _ => {
                return Err(format!(
                    "`{name}` is not an operand; write a to f, #0 to #7, or @ for the product"
                ));
            }
        };
        steps.push(step);
        return Ok(rest);
    };
    let rest = read_value(rest, steps, depth + 1)?;
    if let Some(op) = UnaryOp::parse(name) {
        steps.push(Step::Unary(op));
        return rest.strip_prefix(')').ok_or_else(|| format!("a `)` is missing after {name}("));
    }
    let Some(op) = BinaryOp::parse(name) else { return Err(format!("`{name}` is not elementwise")) };
    let rest = rest.strip_prefix(',').ok_or_else(|| format!("{name} takes two operands"))?;
    let rest = read_value(rest, steps, depth + 1)?;
    steps.push(Step::Binary(op));
    rest.strip_prefix(')').ok_or_else(|| format!("a `)` is missing after {name}("))
}

impl fmt::Display for Fused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: Vec<Step> = self.steps().collect();
        write!(f, "fused.{}:{}:", shown(&steps), self.dtype)?;
        let mut words: Vec<&str> = Vec::new();
        match self.product() {
            Some(product) => {
                write_sizes(f, &[self.outer, self.inner, product.depth])?;
                let turned = |transposed: bool| if transposed { "t" } else { "n" };
                words.extend([turned(product.lhs_transposed), turned(product.rhs_transposed)]);
            }
            None => write_sizes(f, &[self.outer, self.inner])?,
        }
        words.extend((words.len()..self.inputs()).map(|input| self.varies(input).name()));
        write!(f, ":{}", words.join(","))?;
        match self.end() {
            None => Ok(()),
            Some((op, Over::All)) => write!(f, ":{}", op.name()),
            Some((op, Over::Rows)) => write!(f, ":{}.axis0", op.name()),
            Some((op, Over::Columns)) => write!(f, ":{}.axis1", op.name()),
        }
    }
}

/// Reads what follows the sizes: how inputs lie, and the reduction at the end.
pub(super) fn read(
    dtype: DType,
    recipe: &str,
    sizes: &[u64],
    words: Option<&str>,
    end: Option<&str>,
) -> Result<Fused, Result<ProblemError, String>> {
    let steps = read_steps(recipe).map_err(Err)?;
    let multiplied = steps.contains(&Step::Product);
    let words: Vec<&str> =
        words.filter(|words| !words.is_empty()).map_or(vec![], |words| words.split(',').collect());
    let mut product = None;
    let mut inputs = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match (multiplied && at < 2, *word) {
            (true, "n" | "t") => inputs.push(Varies::All),
            (true, _) => return Err(Err(format!("`{word}`: a product's operands are n or t"))),
            (false, word) => match Varies::parse(word) {
                Some(varies) => inputs.push(varies),
                None => return Err(Err(format!("`{word}` is not all, rows, columns or one"))),
            },
        }
    }
    let sizes = match (sizes, multiplied) {
        (&[outer, inner], false) => [outer, inner],
        (&[outer, inner, depth], true) => {
            let turned = |at: usize| words.get(at) == Some(&"t");
            product = Some(Product { depth, lhs_transposed: turned(0), rhs_transposed: turned(1) });
            [outer, inner]
        }
        _ => return Err(Err("sizes are rows x columns, with a product m x n x k".to_string())),
    };
    let end = match end {
        None => None,
        Some(end) => {
            let (name, axis) = end.split_once('.').map_or((end, None), |(name, axis)| (name, Some(axis)));
            let over = match axis {
                None => Some(Over::All),
                Some("axis0") => Some(Over::Rows),
                Some("axis1") => Some(Over::Columns),
                Some(_) => None,
            };
            match (ReduceOp::parse(name), over) {
                (Some(op), Some(over)) => Some((op, over)),
                _ => {
                    return Err(Err(format!(
                        "`{end}` is not a reduction; write for example sum or sum.axis1"
                    )));
                }
            }
        }
    };
    Fused::new(dtype, sizes, &steps, &inputs, product, end).map_err(Ok)
}
