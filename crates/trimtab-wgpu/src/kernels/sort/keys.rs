//! Elements as whole numbers in the same order, as shader text: what is not a number comes last in either direction and loses its payload.

use crate::program::Needs;
use trimtab_core::DType;

/// One way to sort elements of one type, or their indices: equal ones by index then, and both zeros are equal.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernels) struct Keys {
    pub dtype: DType,
    pub descending: bool,
    pub indices: bool,
}

const KEYS: &str = "alias K = u32;
const LAST: u32 = 0xffffffffu;
fn is_after(a: K, b: K) -> bool { return a > b; }
";

const FLOATS: &str = "fn key_of(x: T) -> K {
    var bits = $BITS;
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return $NAN;
    }
    if ($ZEROS && (bits & 0x7fffffffu) == 0u) {
        bits = 0u;
    }
    let flip = bitcast<u32>(bitcast<i32>(bits) >> 31u);
    return $TURNED(bits ^ (flip | 0x80000000u));
}
fn element_of(key: K) -> T {
    if (key == LAST) {
        return $NONE;
    }
    let turned = $TURNED(key);
    let flip = bitcast<u32>(bitcast<i32>(~turned) >> 31u);
    return $BACK(turned ^ (flip | 0x80000000u));
}
";

const INTEGERS: &str = "fn key_of(x: T) -> K { return $TURNED(x ^ 0x80000000u); }
fn element_of(key: K) -> T { return $TURNED(key) ^ 0x80000000u; }
";

// Two words, the lower one first.
const DOUBLES: &str = "alias T = vec2<u32>;
alias K = vec2<u32>;
const LAST: vec2<u32> = vec2<u32>(0xffffffffu, 0xffffffffu);
fn is_after(a: K, b: K) -> bool { return a.y > b.y || (a.y == b.y && a.x > b.x); }
fn key_of(x: T) -> K {
    let size = x.y & 0x7fffffffu;
    if (size > 0x7ff00000u || (size == 0x7ff00000u && x.x != 0u)) {
        return $NAN;
    }
    var high = x.y;
    if ($ZEROS && size == 0u && x.x == 0u) {
        high = 0u;
    }
    let flip = bitcast<u32>(bitcast<i32>(high) >> 31u);
    return $TURNED(vec2<u32>(x.x ^ flip, high ^ (flip | 0x80000000u)));
}
fn element_of(key: K) -> T {
    if (all(key == LAST)) {
        return vec2<u32>(0u, 0x7ff80000u);
    }
    let turned = $TURNED(key);
    let flip = bitcast<u32>(bitcast<i32>(~turned.y) >> 31u);
    return vec2<u32>(turned.x ^ flip, turned.y ^ (flip | 0x80000000u));
}
";

// What is sorted: keys alone, or keys with the indices of their elements.
const ALONE: &str = "alias E = K;
alias R = T;
const END: E = LAST;
fn entry_of(x: T, at: u32) -> E { return key_of(x); }
fn is_behind(a: E, b: E) -> bool { return is_after(a, b); }
fn result_of(entry: E) -> R { return element_of(entry); }
";

const INDEXED: &str = "alias E = vec2<u32>;
alias R = vec2<u32>;
const END: E = vec2<u32>(LAST, 0xffffffffu);
fn entry_of(x: T, at: u32) -> E { return vec2<u32>(key_of(x), at); }
fn is_behind(a: E, b: E) -> bool { return a.x > b.x || (a.x == b.x && a.y > b.y); }
fn result_of(entry: E) -> R { return vec2<u32>(entry.y, 0u); }
";

const INDEXED_DOUBLES: &str = "alias E = vec4<u32>;
alias R = vec2<u32>;
const END: E = vec4<u32>(0xffffffffu, 0xffffffffu, 0xffffffffu, 0u);
fn entry_of(x: T, at: u32) -> E { return vec4<u32>(key_of(x), at, 0u); }
fn is_behind(a: E, b: E) -> bool { return is_after(a.xy, b.xy) || (all(a.xy == b.xy) && a.z > b.z); }
fn result_of(entry: E) -> R { return vec2<u32>(entry.z, 0u); }
";

impl Keys {
    /// What the texts need of an adapter: doubles go as their bits.
    pub(in crate::kernels) fn needs(self) -> Needs {
        Needs { f64: false, ..Needs::of(self.dtype) }
    }

    /// Bytes of what is sorted for an element: its key, and its index.
    pub(in crate::kernels) fn entry_bytes(self) -> u64 {
        let key = if self.dtype == DType::F64 { 8 } else { 4 };
        if self.indices { 2 * key } else { key }
    }

    /// Element and key, one from the other, what is sorted, and which of two comes behind; what is not a number comes last.
    pub(in crate::kernels) fn text(self) -> String {
        self.with("LAST")
    }

    /// The same, with what is not a number first of all.
    pub(in crate::kernels) fn extremes(self) -> String {
        self.with("K()")
    }

    fn with(self, nan: &str) -> String {
        let text = match self.dtype {
            DType::F64 => DOUBLES.to_string(),
            DType::I32 => format!("alias T = u32;\n{KEYS}{INTEGERS}"),
            // Halves are f32 as well, in the same order. A NaN is made of the key: no constant may be one.
            DType::F16 => {
                let floats = FLOATS.replace("$BITS", "bitcast<u32>(f32(x))");
                let floats = floats.replace("$NONE", "f16(bitcast<f32>(key ^ 0x803fffffu))");
                format!("alias T = f16;\n{KEYS}{}", floats.replace("$BACK", "half_of"))
                    + "fn half_of(bits: u32) -> f16 { return f16(bitcast<f32>(bits)); }\n"
            }
            _ => {
                let floats = FLOATS.replace("$BITS", "x").replace("$NONE", "0x7fc00000u");
                format!("alias T = u32;\n{KEYS}{}", floats.replace("$BACK", ""))
            }
        };
        let entries = match (self.indices, self.dtype) {
            (false, _) => ALONE,
            (true, DType::F64) => INDEXED_DOUBLES,
            (true, _) => INDEXED,
        };
        let text = text + entries;
        let text = text.replace("$TURNED", if self.descending { "~" } else { "" });
        text.replace("$NAN", nan).replace("$ZEROS", if self.indices { "true" } else { "false" })
    }
}
