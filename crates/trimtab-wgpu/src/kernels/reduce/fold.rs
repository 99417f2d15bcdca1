//! What a reduction does to its elements, as shader text: the state of a part, its identity, steps, merges and the result.

use crate::program::Needs;
use trimtab_core::{DType, Decline, Reduce, ReduceOp};

/// One way to reduce elements of one type.
///
/// The text declares a state for one element (`One`) and for as many side by side as a vector has (`Many`):
/// - sums of f32 and f16: an f32. Unlike on the processor a part may overflow where the whole does not;
/// - products of f32 and f16: mantissa and exponent, so that parts neither overflow nor vanish;
/// - sums of i32: 64 bits in two words; products of i32: size and sign, stuck past 2^31 until a zero comes;
/// - minimum and maximum: an integer that orders like the element, a NaN at the winning end, so that no comparison of
///   floats that a compiler might rewrite is left. For f64 two words, which need no adapter with f64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fold {
    pub op: ReduceOp,
    pub dtype: DType,
}

/// The texts of a state: fields as (name, type letter), and bodies over `$S` (the struct), `$F $I $U` (vectors of f32,
/// i32, u32), `$D` (of the element) and `$N` (the functions' ending).
struct State {
    fields: &'static [(&'static str, char)],
    functions: String,
    finish: String,
    over_subgroup: Option<&'static str>,
}

const SUM: &str = "
fn empty_$N() -> $S { return $S($F(0.0)); }
fn take_$N(s: $S, value: $D) -> $S { return $S(s.sum + $F(value)); }
fn merge_$N(a: $S, b: $S) -> $S { return $S(a.sum + b.sum); }
";

const ARITHMETIC_F64: &str = "
fn empty_$N() -> $S { return $S($D(f64($EMPTY))); }
fn take_$N(s: $S, value: $D) -> $S { return $S(s.value $OP value); }
fn merge_$N(a: $S, b: $S) -> $S { return $S(a.value $OP b.value); }
";

pub(crate) const PRODUCT: &str = "
fn normal_$N(value: $F, exponent: $I) -> $S {
    let bits = bitcast<$U>(value);
    let field = (bits >> $U(23u)) & $U(255u);
    let plain = (field != $U(0u)) & (field != $U(255u));
    let mantissa = bitcast<$F>((bits & $U(0x807fffffu)) | $U(0x3f800000u));
    let moved = exponent + select($I(0), $I(field) - $I(127), plain);
    return $S(select(value, mantissa, plain), clamp(moved, $I(-1000000000), $I(1000000000)));
}
fn empty_$N() -> $S { return $S($F(1.0), $I(0)); }
fn take_$N(s: $S, value: $D) -> $S { return merge_$N(s, normal_$N($F(value), $I(0))); }
fn merge_$N(a: $S, b: $S) -> $S { return normal_$N(a.mantissa * b.mantissa, a.exponent + b.exponent); }
";

const SUM_I32: &str = "
fn empty_$N() -> $S { return $S($U(0u), $I(0)); }
fn take_$N(s: $S, value: $D) -> $S {
    let low = s.low + bitcast<$U>(value);
    return $S(low, s.high + (value >> $U(31u)) + select($I(0), $I(1), low < s.low));
}
fn merge_$N(a: $S, b: $S) -> $S {
    let low = a.low + b.low;
    return $S(low, a.high + b.high + select($I(0), $I(1), low < a.low));
}
";

const PRODUCT_I32: &str = "
fn empty_$N() -> $S { return $S($U(1u), $U(0u)); }
fn take_$N(s: $S, value: $D) -> $S {
    let sign = bitcast<$U>(value) >> $U(31u);
    return merge_$N(s, $S(select(bitcast<$U>(value), $U(0u) - bitcast<$U>(value), value < $I(0)), sign));
}
fn merge_$N(a: $S, b: $S) -> $S {
    let a_high = a.size >> $U(16u);
    let b_high = b.size >> $U(16u);
    let a_low = a.size & $U(0xffffu);
    let b_low = b.size & $U(0xffffu);
    let middle = a_high * b_low + a_low * b_high;
    let low = a_low * b_low;
    let size = (middle << $U(16u)) + low;
    let past = ((a_high != $U(0u)) & (b_high != $U(0u))) | ((middle >> $U(16u)) != $U(0u)) | (size < low)
        | (size > $U(0x80000000u));
    let none = (a.size == $U(0u)) | (b.size == $U(0u));
    return $S(select(select(size, $U(0x80000001u), past), $U(0u), none), a.sign ^ b.sign);
}
";

pub(crate) const EXTREME: &str = "
fn key_$N(value: $D) -> $I {
    let bits = bitcast<$I>($F(value));
    let ordered = bits ^ ((bits >> $U(31u)) & $I(0x7fffffff));
    return select(ordered, $I($WINS), (bits & $I(0x7fffffff)) > $I(0x7f800000));
}
";

const EXTREME_KEY: &str = "
fn empty_$N() -> $S { return $S($I($LOSES)); }
fn take_$N(s: $S, value: $D) -> $S { return $S($EXTREME(s.key, key_$N(value))); }
fn merge_$N(a: $S, b: $S) -> $S { return $S($EXTREME(a.key, b.key)); }
";

const EXTREME_F64: &str = "
fn empty_$N() -> $S { return $S($LOSESu, $LOSESu); }
fn take_$N(s: $S, value: $D) -> $S {
    let size = value.y & 0x7fffffffu;
    if (size > 0x7ff00000u || (size == 0x7ff00000u && value.x != 0u)) {
        return $S($WINSu, $WINSu);
    }
    let flip = bitcast<u32>(bitcast<i32>(value.y) >> 31u);
    return merge_$N(s, $S(value.y ^ (flip | 0x80000000u), value.x ^ flip));
}
fn merge_$N(a: $S, b: $S) -> $S {
    if (a.high == b.high) {
        return $S(a.high, $EXTREME(a.low, b.low));
    }
    if (a.high $BEFORE b.high) {
        return a;
    }
    return b;
}
";

/// How the operand is declared, before the type of what one index of it holds.
pub(crate) const INPUT: &str = "@group(0) @binding(0) var<storage, read> input: array<";

/// How an element is read: the step `at` of the axis that begins at `base`.
pub(crate) const FETCH: &str = "fn fetch(s: Many, base: u32, at: u32, stride: u32) -> Many {
    return take_many(s, input[base + at * stride]);
}
";

impl Fold {
    pub(super) fn of(problem: &Reduce) -> Fold {
        Fold { op: problem.op, dtype: problem.dtype }
    }

    fn is_extreme(self) -> bool {
        matches!(self.op, ReduceOp::Min | ReduceOp::Max)
    }

    /// Whether a result can fail to fit.
    pub(super) fn has_status(self) -> bool {
        self.dtype == DType::I32 && !self.is_extreme()
    }

    /// What the texts need of an adapter.
    pub(super) fn needs(self) -> Needs {
        Needs { f64: self.dtype == DType::F64 && !self.is_extreme(), ..Needs::of(self.dtype) }
    }

    /// Widest vector of elements a text loads at once.
    pub(super) fn widest(self) -> u32 {
        match self.dtype {
            DType::F64 if self.is_extreme() => 1,
            DType::F64 => 2,
            _ => 4,
        }
    }

    /// Bytes of the state of one.
    pub(super) fn state_bytes(self) -> u64 {
        let bytes =
            |&(_, letter): &(&str, char)| if letter == 'D' && self.dtype == DType::F64 { 8 } else { 4 };
        self.state().fields.iter().map(bytes).sum()
    }

    /// Why the invocations of a subgroup cannot fold this together at once.
    pub(super) fn declines_subgroup(self, most: u32) -> Option<Decline> {
        if self.state().over_subgroup.is_none() {
            let name = self.op.name();
            return Some(Decline::from(format!(
                "WGSL has no subgroup operation for {name} of {}",
                self.dtype
            )));
        }
        // 64 mantissas below two are below 2^64; 128 of them can pass the largest f32.
        (self.op == ReduceOp::Prod && most > 64).then(|| {
            Decline::from(format!("multiplies up to 64 mantissas at once, subgroups have up to {most}"))
        })
    }

    fn state(self) -> State {
        let result = |value: &str| match self.dtype {
            DType::F16 => format!("output[at] = f16({value});"),
            _ => format!("output[at] = {value};"),
        };
        match (self.op, self.dtype) {
            (ReduceOp::Sum | ReduceOp::Mean | ReduceOp::Prod, DType::F64) => {
                let (empty, op) = if self.op == ReduceOp::Prod { ("1.0", "*") } else { ("0.0", "+") };
                let by = if self.op == ReduceOp::Mean { " / f64(params[2].z)" } else { "" };
                State {
                    fields: &[("value", 'D')],
                    functions: ARITHMETIC_F64.replace("$EMPTY", empty).replace("$OP", op),
                    finish: result(&format!("s.value{by}")),
                    over_subgroup: None,
                }
            }
            (ReduceOp::Sum, DType::I32) => State {
                fields: &[("low", 'U'), ("high", 'I')],
                functions: SUM_I32.to_string(),
                finish: "output[at] = bitcast<i32>(s.low);
    if (s.high != (bitcast<i32>(s.low) >> 31u)) { atomicMax(&status[0], 2u); }"
                    .to_string(),
                over_subgroup: Some(
                    "let low = subgroupAdd(s.low & 0xffffu);
    let middle = subgroupAdd(s.low >> 16u) + (low >> 16u);
    return One((middle << 16u) | (low & 0xffffu), subgroupAdd(s.high) + i32(middle >> 16u));",
                ),
            },
            (ReduceOp::Prod, DType::I32) => State {
                fields: &[("size", 'U'), ("sign", 'U')],
                functions: PRODUCT_I32.to_string(),
                finish: "output[at] = bitcast<i32>(select(s.size, 0u - s.size, s.sign == 1u));
    if (s.size > 0x7fffffffu + s.sign) { atomicMax(&status[0], 2u); }"
                    .to_string(),
                over_subgroup: None,
            },
            (ReduceOp::Sum | ReduceOp::Mean, _) => {
                let by = if self.op == ReduceOp::Mean { " / f32(params[2].z)" } else { "" };
                State {
                    fields: &[("sum", 'F')],
                    functions: SUM.to_string(),
                    finish: result(&format!("s.sum{by}")),
                    over_subgroup: Some("return One(subgroupAdd(s.sum));"),
                }
            }
            (ReduceOp::Prod, _) => State {
                fields: &[("mantissa", 'F'), ("exponent", 'I')],
                functions: PRODUCT.to_string(),
                // In three factors: one power of two does not span all exponents.
                finish: format!(
                    "let third = clamp(s.exponent, -378, 378) / 3;
    let rest = clamp(s.exponent, -378, 378) - 2 * third;
    let factor = bitcast<f32>(u32(third + 127) << 23u);
    {}",
                    result("s.mantissa * factor * factor * bitcast<f32>(u32(rest + 127) << 23u)")
                ),
                over_subgroup: Some(
                    "let exponent = subgroupAdd(clamp(s.exponent, -10000000, 10000000));
    return normal_one(subgroupMul(s.mantissa), exponent);",
                ),
            },
            (ReduceOp::Min | ReduceOp::Max, DType::F64) => {
                let max = self.op == ReduceOp::Max;
                let (wins, loses) = if max { ("4294967295", "0") } else { ("0", "4294967295") };
                State {
                    fields: &[("high", 'U'), ("low", 'U')],
                    functions: EXTREME_F64
                        .replace("$WINS", wins)
                        .replace("$LOSES", loses)
                        .replace("$EXTREME", self.op.name())
                        .replace("$BEFORE", if max { ">" } else { "<" }),
                    finish: "let flip = bitcast<u32>(bitcast<i32>(~s.high) >> 31u);
    output[at] = vec2<u32>(s.low ^ flip, s.high ^ (flip | 0x80000000u));"
                        .to_string(),
                    over_subgroup: None,
                }
            }
            (ReduceOp::Min | ReduceOp::Max, dtype) => {
                let max = self.op == ReduceOp::Max;
                let (wins, loses) =
                    if max { ("2147483647", "-2147483648") } else { ("-2147483648", "2147483647") };
                let key = match dtype {
                    DType::I32 => "\nfn key_$N(value: $I) -> $I { return value; }\n",
                    _ => EXTREME,
                };
                let finish = match dtype {
                    DType::I32 => result("s.key"),
                    _ => result("bitcast<f32>(s.key ^ ((s.key >> 31u) & 0x7fffffff))"),
                };
                State {
                    fields: &[("key", 'I')],
                    functions: (key.to_string() + EXTREME_KEY)
                        .replace("$WINS", wins)
                        .replace("$LOSES", loses)
                        .replace("$EXTREME", self.op.name()),
                    finish,
                    over_subgroup: Some(if max {
                        "return One(subgroupMax(s.key));"
                    } else {
                        "return One(subgroupMin(s.key));"
                    }),
                }
            }
        }
    }

    fn element(self) -> &'static str {
        match self.dtype {
            DType::F16 => "f16",
            DType::I32 => "i32",
            DType::F64 if self.is_extreme() => "vec2<u32>",
            DType::F64 => "f64",
            _ => "f32",
        }
    }

    /// Declarations of states and buffers, and how they are read, folded and written.
    pub(super) fn text(self, io: Io) -> String {
        let state = self.state();
        let width = io.width;
        let mut text = String::new();
        for (name, ending, width) in [("One", "one", 1), ("Many", "many", width)] {
            let vector =
                |scalar: &str| if width == 1 { scalar.to_string() } else { format!("vec{width}<{scalar}>") };
            let letters = [('F', "f32"), ('I', "i32"), ('U', "u32"), ('D', self.element())];
            let mut part = format!("struct {name} {{\n");
            for (field, letter) in state.fields {
                part += &format!("    {field}: ${letter},\n");
            }
            part += "}\n";
            part += &state.functions;
            for (letter, scalar) in letters {
                part = part.replace(&format!("${letter}"), &vector(scalar));
            }
            text += &part.replace("$S", name).replace("$N", ending);
        }
        text += &self.together(&state, width);
        text += &self.buffers(io);
        text += &match io.source {
            Source::Elements => FETCH.to_string(),
            Source::States => {
                let fields: Vec<String> =
                    state.fields.iter().map(|(field, _)| format!("state.{field}")).collect();
                let fields = fields.join(", ");
                format!(
                    "fn fetch(s: Many, base: u32, at: u32, stride: u32) -> Many {{
    let state = input[base + at * stride];
    return merge_many(s, Many({fields}));
}}\n"
                )
            }
        };
        match io.sink {
            Sink::States => text += "fn store(at: u32, s: One) { output[at] = s; }\n",
            Sink::Results => {
                text += &format!("fn store(at: u32, s: One) {{\n    {}\n}}\n", state.finish);
            }
        }
        if let (true, Some(body)) = (io.subgroups, state.over_subgroup) {
            text += &format!("fn over_subgroup(s: One) -> One {{\n    {body}\n}}\n");
        }
        text
    }

    /// The lanes of `Many`, one by one and merged in pairs.
    fn together(self, state: &State, width: u32) -> String {
        let mut text = String::new();
        for lane in 0..width {
            let component = if width == 1 { "" } else { [".x", ".y", ".z", ".w"][lane as usize % 4] };
            let fields: Vec<String> =
                state.fields.iter().map(|(field, _)| format!("s.{field}{component}")).collect();
            text += &format!("fn lane_{lane}(s: Many) -> One {{ return One({}); }}\n", fields.join(", "));
        }
        let body = match width {
            1 => "lane_0(s)",
            2 => "merge_one(lane_0(s), lane_1(s))",
            _ => "merge_one(merge_one(lane_0(s), lane_1(s)), merge_one(lane_2(s), lane_3(s)))",
        };
        text + &format!("fn together(s: Many) -> One {{ return {body}; }}\n")
    }

    fn buffers(self, io: Io) -> String {
        let element = self.element();
        let vector = if io.width == 1 { element.to_string() } else { format!("vec{}<{element}>", io.width) };
        let mut declared = Vec::new();
        match io.source {
            Source::Elements => declared.push(format!("var<storage, read> input: array<{vector}>")),
            Source::States => declared.push("var<storage, read> input: array<One>".to_string()),
        }
        if io.tail {
            declared.push(format!("var<storage, read> tail: array<{element}>"));
        }
        match io.sink {
            Sink::Results => declared.push(format!("var<storage, read_write> output: array<{element}>")),
            Sink::States => declared.push("var<storage, read_write> output: array<One>".to_string()),
        }
        if io.sink == Sink::Results && self.has_status() {
            declared.push("var<storage, read_write> status: array<atomic<u32>>".to_string());
        }
        let mut text = String::new();
        for (number, declaration) in declared.iter().enumerate() {
            text += &format!("@group(0) @binding({number}) {declaration};\n");
        }
        text + "@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 4>;\n"
    }
}

/// What a step reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The operand.
    Elements,
    /// States written by an earlier step.
    States,
}

/// What a step writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sink {
    /// The result.
    Results,
    /// States for a later step.
    States,
}

/// What a text reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Io {
    pub source: Source,
    pub sink: Sink,
    /// Elements loaded at once: 1, 2 or 4.
    pub width: u32,
    /// Whether the operand is bound once more, element by element, for what the vectors leave over.
    pub tail: bool,
    pub subgroups: bool,
}
