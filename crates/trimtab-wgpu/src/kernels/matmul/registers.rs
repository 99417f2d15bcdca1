//! Text of shaders that keep a block of the product in registers: every one has a name, so that no compiler has to find
//! out that an array is never indexed by what it cannot know.

use super::layout::Vectors;
use std::fmt::Write as _;
use trimtab_core::Matmul;

/// The parts of a vector.
pub(super) const PARTS: [&str; 4] = ["x", "y", "z", "w"];

/// A block of the product in registers: `c{row}_{four columns}`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub rows: u32,
    pub columns: u32,
}

impl Block {
    /// Declares the sums, all zero.
    pub(super) fn declared(self) -> String {
        let mut text = String::new();
        for row in 0..self.rows {
            for four in 0..self.columns / 4 {
                let _ = writeln!(text, "    var c{row}_{four} = vec4<A>();");
            }
        }
        text
    }

    /// Writes the sums. `row(i)` and `column(j)` are expressions of the row and of the first of four columns.
    pub(super) fn stored(
        self,
        vector: bool,
        row: impl Fn(u32) -> String,
        column: impl Fn(u32) -> String,
    ) -> String {
        let mut text = String::new();
        for i in 0..self.rows {
            let _ = writeln!(text, "    if ({} < rows) {{", row(i));
            let _ = writeln!(text, "        let to = tile.result + {} * params[1].w;", row(i));
            for four in 0..self.columns / 4 {
                let column = column(four);
                if vector {
                    let _ = writeln!(text, "        if ({column} < columns) {{");
                    let _ = writeln!(
                        text,
                        "            product[(to + {column}) / 4u] = finished(c{i}_{four}, {}, {column});",
                        row(i)
                    );
                    let _ = writeln!(text, "        }}");
                } else {
                    for (part, name) in PARTS.iter().enumerate() {
                        let _ = writeln!(text, "        if ({column} + {part}u < columns) {{");
                        let _ = writeln!(
                            text,
                            "            product[to + {column} + {part}u] = finished(c{i}_{four}.{name}, {}, {column} + {part}u);",
                            row(i)
                        );
                        let _ = writeln!(text, "        }}");
                    }
                }
            }
            text.push_str("    }\n");
        }
        text
    }
}

/// Whether the inner axis is what lies in a row in memory, for lhs and for rhs.
pub(super) fn inner_in_a_row(problem: &Matmul) -> [bool; 2] {
    [!problem.lhs.transposed, problem.rhs.transposed]
}

/// Whether reading by fours along the inner axis makes rounds of four steps a must.
pub(super) fn fours_along_inner(problem: &Matmul, vectors: Vectors) -> bool {
    let [left, right] = inner_in_a_row(problem);
    vectors.lhs && left || vectors.rhs && right
}
