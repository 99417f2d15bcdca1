//! What elements are carried along in, as shader text: its start, an element's, two in a row, and the element it is.

use crate::kernels::lines::Lines;
use crate::kernels::reduce::fold::{EXTREME, PRODUCT};
use crate::program::Needs;
use trimtab_core::{AdapterFacts, Bytes, DType, Decline, DeviceFacts, Flops, Scan, ScanOp};

/// One way to scan elements of one type.
///
/// - sums of f32 and f16: an f32 and what rounding lost of it, so that no order of merging costs digits; of f64 and integers: the element;
/// - products of f32 and f16: mantissa and exponent, so that parts neither overflow nor vanish; others: the element;
/// - minimum and maximum: an integer that orders like the element, a NaN at the winning end; of f64 two words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carries {
    op: ScanOp,
    dtype: DType,
    exclusive: bool,
}

const PLAIN: &str = "alias State = $A;
fn empty() -> State { return $A($EMPTY); }
fn state_of(x: T) -> State { return $A(x); }
fn merge(a: State, b: State) -> State { return a $OP b; }
fn element(s: State) -> T { return T(s); }
";

const OF_PRODUCT: &str = "
fn empty() -> State { return empty_one(); }
fn state_of(x: T) -> State { return normal_one(f32(x), 0); }
fn merge(a: State, b: State) -> State { return merge_one(a, b); }
// In three factors: one power of two does not span all exponents.
fn element(s: State) -> T {
    let third = clamp(s.exponent, -378, 378) / 3;
    let rest = clamp(s.exponent, -378, 378) - 2 * third;
    let factor = bitcast<f32>(u32(third + 127) << 23u);
    return T(s.mantissa * factor * factor * bitcast<f32>(u32(rest + 127) << 23u));
}
";

const KEYED: &str = "alias State = i32;
fn empty() -> State { return i32($EMPTY); }
fn state_of(x: T) -> State { return $KEY; }
fn merge(a: State, b: State) -> State { return $EXTREME(a, b); }
fn element(s: State) -> T { return T($BACK); }
";

const KEYED_F64: &str = "alias State = vec2<u32>;
fn empty() -> State { return $EMPTY; }
fn state_of(x: T) -> State {
    let size = x.y & 0x7fffffffu;
    if (size > 0x7ff00000u || (size == 0x7ff00000u && x.x != 0u)) {
        return vec2<u32>($WINSu);
    }
    let flip = bitcast<u32>(bitcast<i32>(x.y) >> 31u);
    return vec2<u32>(x.x ^ flip, x.y ^ (flip | 0x80000000u));
}
fn merge(a: State, b: State) -> State {
    if (a.y == b.y) {
        return vec2<u32>($EXTREME(a.x, b.x), a.y);
    }
    if (a.y $BEFORE b.y) {
        return a;
    }
    return b;
}
fn element(s: State) -> T {
    let flip = bitcast<u32>(bitcast<i32>(~s.y) >> 31u);
    return vec2<u32>(s.x ^ flip, s.y ^ (flip | 0x80000000u));
}
";

// What was lost is no number where the sum is none, or infinite.
const SUM: &str = "struct State { sum: f32, lost: f32 }
fn empty() -> State { return State(0.0, 0.0); }
fn state_of(x: T) -> State { return State(f32(x), 0.0); }
// As it is: compilers take what rounding lost for nothing, unless they cannot know that this changes nothing.
fn kept(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ params[1].x); }
fn merge(a: State, b: State) -> State {
    let sum = kept(a.sum + b.sum);
    let part = kept(sum - a.sum);
    let lost = (a.sum - kept(sum - part)) + (b.sum - part);
    return State(sum, (a.lost + b.lost) + lost);
}
fn element(s: State) -> T {
    if ((bitcast<u32>(s.sum) & 0x7fffffffu) < 0x7f800000u) {
        return T(s.sum + s.lost);
    }
    return T(s.sum);
}
";

impl Carries {
    pub(super) fn of(problem: &Scan) -> Carries {
        Carries { op: problem.op, dtype: problem.dtype, exclusive: problem.exclusive }
    }

    fn is_extreme(self) -> bool {
        matches!(self.op, ScanOp::Max | ScanOp::Min)
    }

    /// What the texts need of an adapter.
    pub(super) fn needs(self) -> Needs {
        Needs { f64: self.dtype == DType::F64 && !self.is_extreme(), ..Needs::of(self.dtype) }
    }

    /// Bytes of a state.
    pub(super) fn state_bytes(self) -> u64 {
        match (self.op, self.dtype) {
            (_, DType::F64) | (ScanOp::Sum | ScanOp::Prod, DType::F32 | DType::F16) => 8,
            _ => 4,
        }
    }

    /// Element and state, and their functions.
    pub(super) fn text(self) -> String {
        let element = match self.dtype {
            DType::F16 => "f16",
            DType::I32 => "i32",
            DType::F64 if self.is_extreme() => "vec2<u32>",
            DType::F64 => "f64",
            _ => "f32",
        };
        let computed = if self.dtype == DType::F16 { "f32" } else { element };
        let (max, extreme) = (self.op == ScanOp::Max, self.op.name());
        let state = match (self.op, self.dtype) {
            (ScanOp::Prod, DType::F32 | DType::F16) => {
                let product = PRODUCT.replace("$S", "State").replace("$N", "one");
                let product = product.replace("$F", "f32").replace("$I", "i32").replace("$U", "u32");
                let product = product.replace("$D", "f32");
                format!("struct State {{ mantissa: f32, exponent: i32 }}{product}{OF_PRODUCT}")
            }
            (ScanOp::Sum, DType::F32 | DType::F16) => SUM.to_string(),
            (ScanOp::Sum | ScanOp::Prod, _) => {
                let (empty, op) = if self.op == ScanOp::Sum { ("0", "+") } else { ("1", "*") };
                PLAIN.replace("$A", computed).replace("$EMPTY", empty).replace("$OP", op)
            }
            // Nothing yet is the infinity that loses.
            (ScanOp::Max | ScanOp::Min, DType::F64) => KEYED_F64
                .replace(
                    "$EMPTY",
                    match max {
                        true => "vec2<u32>(0xffffffffu, 0x000fffffu)",
                        false => "vec2<u32>(0u, 0xfff00000u)",
                    },
                )
                .replace("$WINS", if max { "4294967295" } else { "0" })
                .replace("$EXTREME", extreme)
                .replace("$BEFORE", if max { ">" } else { "<" }),
            (ScanOp::Max | ScanOp::Min, DType::I32) => KEYED
                .replace("$EMPTY", if max { "-2147483648" } else { "2147483647" })
                .replace("$KEY", "x")
                .replace("$EXTREME", extreme)
                .replace("$BACK", "s"),
            (ScanOp::Max | ScanOp::Min, _) => {
                let key = EXTREME.replace("$N", "one").replace("$D", "f32").replace("$F", "f32");
                let key = key.replace("$I", "i32").replace("$U", "u32");
                let key = key.replace("$WINS", if max { "2147483647" } else { "-2147483648" });
                let state = KEYED
                    .replace("$EMPTY", if max { "-2139095041" } else { "2139095040" })
                    .replace("$KEY", "key_one(f32(x))")
                    .replace("$EXTREME", extreme)
                    .replace("$BACK", "bitcast<f32>(s ^ ((s >> 31u) & 0x7fffffff))");
                key + &state
            }
        };
        format!("alias T = {element};\n{state}")
    }

    /// Lines that take an element and write its result: `before` becomes what is before the next.
    pub(super) fn emit(self) -> &'static str {
        if self.exclusive {
            "            store(place, before);
            before = merge(before, load(place));"
        } else {
            "            before = merge(before, load(place));
            store(place, before);"
        }
    }

    /// The same, always exclusive.
    pub(super) fn exclusive(self) -> Carries {
        Carries { exclusive: true, ..self }
    }
}

pub(super) fn lines(problem: &Scan) -> Lines {
    let Scan { dtype, outer, len, inner, .. } = *problem;
    Lines { dtype, outer, len, inner }
}

/// What the adapter told, or why no kernel takes the problem there.
pub(super) fn admits<'a>(problem: &Scan, device: &'a DeviceFacts) -> Result<&'a AdapterFacts, Decline> {
    lines(problem).admits(Carries::of(problem).needs(), device)
}

/// What a kernel does that reads each element so many times and writes each result once.
pub(super) fn counted(problem: &Scan, reads: u64) -> (Flops, Bytes) {
    let len = problem.len();
    let bytes = len.saturating_mul(reads + 1).saturating_mul(problem.dtype.size());
    (Flops(len.saturating_mul(reads)), Bytes(bytes))
}

/// The parameters of a step: up to four words, and a zero that no compiler knows of.
pub(super) fn params(words: &[u64]) -> Vec<u32> {
    let mut params: Vec<u32> = words.iter().map(|&word| word as u32).collect();
    params.resize(8, 0);
    params
}

/// Operand and result as the shaders see them, elements becoming states and states elements.
pub(super) const ELEMENTS: &str = "@group(0) @binding(0) var<storage, read> input: array<T>;
@group(0) @binding(1) var<storage, read_write> output: array<T>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 2>;
fn load(place: u32) -> State { return state_of(input[place]); }
fn store(place: u32, s: State) { output[place] = element(s); }
";

/// States that become states.
pub(super) const STATES: &str = "@group(0) @binding(0) var<storage, read> input: array<State>;
@group(0) @binding(1) var<storage, read_write> output: array<State>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 2>;
fn load(place: u32) -> State { return input[place]; }
fn store(place: u32, s: State) { output[place] = s; }
";
