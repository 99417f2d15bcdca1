//! Reading a problem's text form. Writing is each kind's `Display`.

use super::{
    Arg, ArgOp, Attention, Cast, Channels, Concat, Conv, Custom, Elementwise, ElementwiseOp, Fft, FftOp,
    Fused, Gather, Mask, MaskOp, Matmul, Moves, Operand, Operation, Pool, PoolOp, Problem, ProblemError, Put,
    Reduce, ReduceOp, Rows, RowsOp, Scan, ScanOp, Scatter, Sort, Transpose, UnaryOp, fused,
};
use crate::DType;

/// The longest text that is looked at; far more than any problem needs.
const MAX_TEXT_BYTES: usize = 512;

pub(super) fn parse(text: &str) -> Result<Problem, ProblemError> {
    let reader = Reader { text };
    if text.len() > MAX_TEXT_BYTES {
        let text = text.chars().take(40).chain("…".chars()).collect();
        return Err(ProblemError::Text { text, reason: format!("longer than {MAX_TEXT_BYTES} bytes") });
    }
    let mut parts = text.trim().split(':');
    let head = parts.next().unwrap_or_default();
    let (operation, detail) = head.split_once('.').map_or((head, None), |(op, detail)| (op, Some(detail)));
    let Some(operation) = Operation::parse(operation) else {
        let known = Operation::ALL.map(Operation::name).join(", ");
        return reader.wrong(format!("`{operation}` is not an operation; use one of: {known}"));
    };
    if operation == Operation::Custom {
        let Some(name) = detail else { return reader.wrong("write custom.NAME:SIZES") };
        let sizes = parts.next().map_or(Ok(vec![]), |sizes| reader.sizes(sizes))?;
        reader.finish(parts)?;
        return Custom::new(name, &sizes).map(Problem::from);
    }
    let dtype = parts.next().unwrap_or_default();
    let Some(dtype) = DType::parse(dtype) else {
        let known = DType::ALL.map(DType::name).join(", ");
        return reader.wrong(format!("`{dtype}` is not an element type; use one of: {known}"));
    };
    let Some(sizes) = parts.next() else { return reader.wrong("the sizes are missing") };
    let problem = match operation {
        Operation::Matmul => reader.matmul(dtype, sizes, detail, parts.next())?.into(),
        Operation::Elementwise => reader.elementwise(dtype, sizes, detail)?.into(),
        Operation::Reduce => reader.reduce(dtype, sizes, detail, parts.next())?.into(),
        Operation::Fused => reader.fused(dtype, sizes, detail, [parts.next(), parts.next()])?.into(),
        Operation::Conv => reader.conv(dtype, sizes, detail, parts.next())?.into(),
        Operation::Pool => reader.pool(dtype, sizes, detail, parts.next())?.into(),
        Operation::Rows => reader.rows(dtype, sizes, detail, parts.next())?.into(),
        Operation::Attention => reader.attention(dtype, sizes, detail, parts.next())?.into(),
        Operation::Scan => reader.scan(dtype, sizes, detail, parts.next())?.into(),
        Operation::Sort => reader.sort(dtype, sizes, detail, parts.next())?.into(),
        Operation::Arg => reader.arg(dtype, sizes, detail, parts.next())?.into(),
        Operation::Cast => reader.cast(dtype, sizes, detail, parts.next())?.into(),
        Operation::Gather => {
            reader.indexed(sizes, detail, parts.next(), |index, shape, axis, count, each| {
                Gather::new(dtype, index, shape, axis, count, each).map(Problem::from)
            })?
        }
        Operation::Scatter => {
            reader.indexed(sizes, detail, parts.next(), |index, shape, axis, count, each| {
                Scatter::new(dtype, index, shape, axis, count, each).map(Problem::from)
            })?
        }
        Operation::Mask => reader.mask(dtype, sizes, detail)?.into(),
        Operation::Concat => reader.concat(dtype, sizes, detail, parts.next())?.into(),
        Operation::Put => reader.put(dtype, sizes, detail, parts.next())?.into(),
        Operation::Fft => reader.fft(dtype, sizes, detail, parts.next())?.into(),
        Operation::Transpose | Operation::Custom => {
            reader.transpose(dtype, sizes, detail, parts.next())?.into()
        }
    };
    reader.finish(parts)?;
    Ok(problem)
}

struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    fn wrong<T>(&self, reason: impl Into<String>) -> Result<T, ProblemError> {
        Err(ProblemError::Text { text: self.text.to_string(), reason: reason.into() })
    }

    fn finish<'p>(&self, mut parts: impl Iterator<Item = &'p str>) -> Result<(), ProblemError> {
        match parts.next() {
            Some(part) => self.wrong(format!("`{part}` is too much")),
            None => Ok(()),
        }
    }

    fn sizes(&self, text: &str) -> Result<Vec<u64>, ProblemError> {
        text.split('x')
            .map(|size| {
                let digits = !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_digit());
                match size.parse() {
                    Ok(size) if digits => Ok(size),
                    _ => self.wrong(format!("`{size}` is not a size; sizes look like 512x512")),
                }
            })
            .collect()
    }

    fn no_detail(&self, detail: Option<&str>) -> Result<(), ProblemError> {
        match detail {
            Some(detail) => self.wrong(format!("`.{detail}` is too much")),
            None => Ok(()),
        }
    }

    fn matmul(
        &self,
        dtype: DType,
        sizes: &str,
        detail: Option<&str>,
        layout: Option<&str>,
    ) -> Result<Matmul, ProblemError> {
        self.no_detail(detail)?;
        let (batch, m, n, k) = match self.sizes(sizes)?[..] {
            [m, n, k] => (1, m, n, k),
            [batch, m, n, k] => (batch, m, n, k),
            _ => return self.wrong("a matmul has sizes m x n x k or batch x m x n x k"),
        };
        let operands = match layout {
            None => Some((Operand::PLAIN, Operand::PLAIN)),
            Some(layout) => layout
                .split_once(',')
                .and_then(|(lhs, rhs)| Some((Operand::parse(lhs)?, Operand::parse(rhs)?))),
        };
        let Some((lhs, rhs)) = operands else {
            return self.wrong(
                "a layout is two of n (plain), t (transposed), ns, ts (one for the whole batch): n,t",
            );
        };
        Matmul::batched(dtype, batch, m, n, k, lhs, rhs)
    }

    fn elementwise(
        &self,
        dtype: DType,
        sizes: &str,
        detail: Option<&str>,
    ) -> Result<Elementwise, ProblemError> {
        let name = detail.unwrap_or_default();
        let Some(op) = ElementwiseOp::parse(name) else {
            let known: Vec<&str> = ElementwiseOp::names().collect();
            return self.wrong(format!(
                "`{name}` is not elementwise; write elementwise.OP with one of: {}",
                known.join(", ")
            ));
        };
        match (op, sizes.split_once(',')) {
            (ElementwiseOp::Unary(op), None) => Elementwise::unary(op, dtype, &self.sizes(sizes)?),
            (ElementwiseOp::Unary(_), Some(_)) => self.wrong(format!("{name} takes one operand")),
            (ElementwiseOp::Binary(op), None) => {
                let shape = self.sizes(sizes)?;
                Elementwise::binary(op, dtype, &shape, &shape)
            }
            (ElementwiseOp::Binary(op), Some((lhs, rhs))) => {
                Elementwise::binary(op, dtype, &self.sizes(lhs)?, &self.sizes(rhs)?)
            }
        }
    }

    fn reduce(
        &self,
        dtype: DType,
        sizes: &str,
        detail: Option<&str>,
        axis: Option<&str>,
    ) -> Result<Reduce, ProblemError> {
        let op = self.named(detail, "reduce.OP", ReduceOp::parse, &ReduceOp::ALL.map(ReduceOp::name))?;
        let axis = axis.map(|axis| self.axis(axis)).transpose()?;
        Reduce::new(op, dtype, &self.sizes(sizes)?, axis)
    }

    /// What a name behind the operation's stands for.
    fn named<T>(
        &self,
        detail: Option<&str>,
        write: &str,
        parse: impl Fn(&str) -> Option<T>,
        known: &[&str],
    ) -> Result<T, ProblemError> {
        let name = detail.unwrap_or_default();
        match parse(name) {
            Some(op) => Ok(op),
            None => self.wrong(format!("`{name}` is none; write {write} with one of: {}", known.join(", "))),
        }
    }

    fn axis(&self, word: &str) -> Result<usize, ProblemError> {
        match word.strip_prefix("axis").and_then(|digits| digits.parse().ok()) {
            Some(axis) => Ok(axis),
            None => self.wrong(format!("`{word}` is not an axis; write axis0, axis1, …")),
        }
    }

    /// Sizes and the axis among words, the last one without; which of the words that may be there are.
    fn along<const N: usize>(
        &self,
        sizes: &str,
        words: Option<&str>,
        may: [&str; N],
    ) -> Result<(Vec<u64>, usize, [bool; N]), ProblemError> {
        let shape = self.sizes(sizes)?;
        let (mut axis, mut there) = (shape.len().saturating_sub(1), [false; N]);
        for word in words.into_iter().flat_map(|words| words.split(',')) {
            match may.iter().position(|known| *known == word) {
                Some(at) => there[at] = true,
                None => axis = self.axis(word)?,
            }
        }
        Ok((shape, axis, there))
    }

    fn attention(
        &self,
        dtype: DType,
        sizes: &str,
        detail: Option<&str>,
        words: Option<&str>,
    ) -> Result<Attention, ProblemError> {
        self.no_detail(detail)?;
        let sizes =
            match self.sizes(sizes)?[..] {
                [batch, queries, keys, depth] => [batch, queries, keys, depth, depth],
                [batch, queries, keys, depth, width] => [batch, queries, keys, depth, width],
                _ => return self.wrong(
                    "attention has sizes heads x queries x keys x depth, and x width if values have another",
                ),
            };
        match words {
            None => Attention::new(dtype, sizes, false),
            Some("causal") => Attention::new(dtype, sizes, true),
            Some(word) => self.wrong(format!("`{word}` is too much; attention may be causal")),
        }
    }

    fn rows(
        &self,
        dtype: DType,
        sizes: &str,
        detail: Option<&str>,
        words: Option<&str>,
    ) -> Result<Rows, ProblemError> {
        let op = self.named(detail, "rows.OP", RowsOp::parse, &RowsOp::ALL.map(RowsOp::name))?;
        let (shape, axis, [scaled, shifted]) = self.along(sizes, words, ["scale", "shift"])?;
        Rows::new(op, dtype, &shape, axis)?.with(scaled, shifted)
    }

    fn scan(
        &self,
        dtype: DType,
        sizes: &str,
        detail: Option<&str>,
        words: Option<&str>,
    ) -> Result<Scan, ProblemError> {
        let op = self.named(detail, "scan.OP", ScanOp::parse, &ScanOp::ALL.map(ScanOp::name))?;
        let (shape, axis, [exclusive]) = self.along(sizes, words, ["exclusive"])?;
        Scan::new(op, dtype, &shape, axis, exclusive)
    }

    fn sort(
        &self,
        dtype: DType,
        sizes: &str,
        detail: Option<&str>,
        words: Option<&str>,
    ) -> Result<Sort, ProblemError> {
        self.no_detail(detail)?;
        let (shape, axis, [descending]) = self.along(sizes, words, ["descending"])?;
        Sort::new(dtype, &shape, axis, descending)
    }

    /// What finds elements by index: how many, of which type the indices are, and whether each has its own.
    fn indexed(
        &self,
        sizes: &str,
        detail: Option<&str>,
        words: Option<&str>,
        made: impl Fn(DType, &[u64], usize, u64, bool) -> Result<Problem, ProblemError>,
    ) -> Result<Problem, ProblemError> {
        self.no_detail(detail)?;
        let (mut count, mut index, mut others) = (None, DType::I64, Vec::new());
        for word in words.into_iter().flat_map(|words| words.split(',')) {
            match (word.strip_prefix("count").and_then(|digits| digits.parse().ok()), DType::parse(word)) {
                (Some(number), _) => count = Some(number),
                (_, Some(dtype)) => index = dtype,
                _ => others.push(word),
            }
        }
        let others = others.join(",");
        let words = Some(others.as_str()).filter(|words| !words.is_empty());
        let (shape, axis, [each]) = self.along(sizes, words, ["each"])?;
        let Some(count) = count else {
            return self.wrong("how many indices there are is missing; write for example count10");
        };
        made(index, &shape, axis, count, each)
    }

    fn arg(
        &self,
        dtype: DType,
        sizes: &str,
        detail: Option<&str>,
        words: Option<&str>,
    ) -> Result<Arg, ProblemError> {
        let op = self.named(detail, "arg.OP", ArgOp::parse, &ArgOp::ALL.map(ArgOp::name))?;
        let (mut count, mut others) = (None, Vec::new());
        for word in words.into_iter().flat_map(|words| words.split(',')) {
            match word.strip_prefix("count").and_then(|digits| digits.parse().ok()) {
                Some(number) => count = Some(number),
                None => others.push(word),
            }
        }
        if (op == ArgOp::Top) != count.is_some() {
            return self.wrong("arg.top says how many, as in count10; the others do not");
        }
        let others = others.join(",");
        let words = Some(others.as_str()).filter(|words| !words.is_empty());
        let (shape, axis, [descending]) = self.along(sizes, words, ["descending"])?;
        if descending && op != ArgOp::Sort {
            return self.wrong("descending is of arg.sort only");
        }
        Arg::new(op, dtype, &shape, axis, descending, count.unwrap_or(0))
    }

    fn cast(
        &self,
        dtype: DType,
        sizes: &str,
        detail: Option<&str>,
        to: Option<&str>,
    ) -> Result<Cast, ProblemError> {
        self.no_detail(detail)?;
        let Some(to) = to.and_then(DType::parse) else {
            let known = DType::ALL.map(DType::name).join(", ");
            return self.wrong(format!("the type behind the sizes is missing; use one of: {known}"));
        };
        Cast::new(dtype, to, &self.sizes(sizes)?)
    }

    fn fft(
        &self,
        dtype: DType,
        sizes: &str,
        detail: Option<&str>,
        axes: Option<&str>,
    ) -> Result<Fft, ProblemError> {
        let op = self.named(detail, "fft.OP", FftOp::parse, &FftOp::ALL.map(FftOp::name))?;
        let axes = match axes {
            None | Some("1d") => 1,
            Some("2d") => 2,
            Some("3d") => 3,
            Some(word) => {
                return self.wrong(format!("`{word}` is not a number of axes; write 2d or 3d"));
            }
        };
        Fft::new(op, dtype, &self.sizes(sizes)?, axes)
    }

    /// How a window moves, and the words that are about something else.
    fn moves<'w>(&self, words: Option<&'w str>) -> Result<([Vec<u64>; 3], Vec<&'w str>), ProblemError> {
        let (mut moves, mut others) = ([vec![], vec![], vec![]], Vec::new());
        for word in words.into_iter().flat_map(|words| words.split(',')) {
            let named = ["stride", "pad", "dilation"].iter().enumerate();
            let mut sizes = named.filter_map(|(at, name)| Some((at, word.strip_prefix(name)?)));
            match sizes.next() {
                Some((at, sizes)) => moves[at] = self.sizes(sizes)?,
                None => others.push(word),
            }
        }
        Ok((moves, others))
    }

    fn conv(
        &self,
        dtype: DType,
        sizes: &str,
        detail: Option<&str>,
        words: Option<&str>,
    ) -> Result<Conv, ProblemError> {
        self.no_detail(detail)?;
        let Some((operand, weights)) = sizes.split_once(',') else {
            return self.wrong("a convolution has two shapes, N x C x H x W,K x C x R x S");
        };
        let ([stride, pad, dilation], others) = self.moves(words)?;
        let (mut channels, mut groups, mut bias, mut act) = (Channels::First, 1, false, None);
        for word in others {
            if let Some(layout) = Channels::parse(word) {
                channels = layout;
            } else if word == "bias" {
                bias = true;
            } else if let Some(count) = word.strip_prefix("groups").and_then(|digits| digits.parse().ok()) {
                groups = count;
            } else if let Some(op) = UnaryOp::parse(word) {
                act = Some(op);
            } else {
                let words = "nhwc, stride2, pad1, dilation2, groups4, bias, or a function such as relu";
                return self.wrong(format!("`{word}` is not known of a convolution; write {words}"));
            }
        }
        let moves = Moves { stride: &stride, pad: &pad, dilation: &dilation };
        let conv = Conv::new(dtype, channels, &self.sizes(operand)?, &self.sizes(weights)?, moves, groups)?;
        conv.ending(bias, act)
    }

    fn pool(
        &self,
        dtype: DType,
        sizes: &str,
        detail: Option<&str>,
        words: Option<&str>,
    ) -> Result<Pool, ProblemError> {
        let op = self.named(detail, "pool.OP", PoolOp::parse, &PoolOp::ALL.map(PoolOp::name))?;
        let ([stride, pad, dilation], others) = self.moves(words)?;
        let (mut channels, mut window) = (Channels::First, None);
        for word in others {
            if let Some(layout) = Channels::parse(word) {
                channels = layout;
            } else if let Some(sizes) = word.strip_prefix("window") {
                window = Some(self.sizes(sizes)?);
            } else {
                let words = "window3x3, nhwc, stride2, pad1, dilation2";
                return self.wrong(format!("`{word}` is not known of pooling; write {words}"));
            }
        }
        let Some(window) = window else {
            return self.wrong("the window is missing; write for example window3x3");
        };
        let moves = Moves { stride: &stride, pad: &pad, dilation: &dilation };
        Pool::new(op, dtype, channels, &self.sizes(sizes)?, &window, moves)
    }

    fn fused(
        &self,
        dtype: DType,
        sizes: &str,
        detail: Option<&str>,
        [words, end]: [Option<&str>; 2],
    ) -> Result<Fused, ProblemError> {
        let Some(recipe) = detail else {
            return self.wrong("write fused.RECIPE, for example fused.relu(add(a,b))");
        };
        fused::read(dtype, recipe, &self.sizes(sizes)?, words, end)
            .or_else(|wrong| wrong.map_or_else(|reason| self.wrong(reason), Err))
    }

    fn shapes(&self, sizes: &str) -> Result<Vec<Vec<u64>>, ProblemError> {
        sizes.split(',').map(|sizes| self.sizes(sizes)).collect()
    }

    fn mask(&self, dtype: DType, sizes: &str, detail: Option<&str>) -> Result<Mask, ProblemError> {
        let op = self.named(detail, "mask.OP", MaskOp::parse, &MaskOp::ALL.map(MaskOp::name))?;
        let shapes = self.shapes(sizes)?;
        let shapes: Vec<&[u64]> = match &shapes[..] {
            [one] => vec![one.as_slice(); if op == MaskOp::Where { 3 } else { 2 }],
            several => several.iter().map(Vec::as_slice).collect(),
        };
        Mask::new(op, dtype, &shapes)
    }

    fn concat(
        &self,
        dtype: DType,
        sizes: &str,
        detail: Option<&str>,
        axis: Option<&str>,
    ) -> Result<Concat, ProblemError> {
        self.no_detail(detail)?;
        let shapes = self.shapes(sizes)?;
        let last = shapes.first().map_or(0, |shape| shape.len().saturating_sub(1));
        let axis = axis.map_or(Ok(last), |axis| self.axis(axis))?;
        let shapes: Vec<&[u64]> = shapes.iter().map(Vec::as_slice).collect();
        Concat::new(dtype, &shapes, axis)
    }

    fn put(
        &self,
        dtype: DType,
        sizes: &str,
        detail: Option<&str>,
        words: Option<&str>,
    ) -> Result<Put, ProblemError> {
        self.no_detail(detail)?;
        let [whole, block] = &self.shapes(sizes)?[..] else {
            return self
                .wrong("write the result's sizes and the block's, for example put:f32:10x20,4x5:at3x2");
        };
        let (mut first, mut fill) = (None, false);
        for word in words.into_iter().flat_map(|words| words.split(',')) {
            match (word, word.strip_prefix("at")) {
                ("fill", _) => fill = true,
                (_, Some(sizes)) => first = Some(self.sizes(sizes)?),
                _ => return self.wrong(format!("`{word}` is not known of a block; write at3x2, fill")),
            }
        }
        let Some(first) = first else {
            return self.wrong("where the block begins is missing; write for example at3x2");
        };
        Put::new(dtype, whole, block, &first, fill)
    }

    fn transpose(
        &self,
        dtype: DType,
        sizes: &str,
        detail: Option<&str>,
        permutation: Option<&str>,
    ) -> Result<Transpose, ProblemError> {
        self.no_detail(detail)?;
        let shape = self.sizes(sizes)?;
        let permutation: Vec<usize> = match permutation {
            None => (0..shape.len()).rev().collect(),
            Some(text) => match text.split('.').map(str::parse).collect() {
                Ok(permutation) => permutation,
                Err(_) => {
                    return self.wrong(format!("`{text}` is not a permutation; write for example 0.2.1"));
                }
            },
        };
        Transpose::new(dtype, &shape, &permutation)
    }
}
