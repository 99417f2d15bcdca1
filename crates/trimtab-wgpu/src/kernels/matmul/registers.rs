//! Text of shaders that keep a block of the product in registers: every one has a name, so that no compiler has to find
//! out that an array is never indexed by what it cannot know.

use super::layout::Vectors;
use std::fmt::Write as _;
use trimtab_core::Matmul;

/// The parts of a vector.
pub(super) const PARTS: [&str; 4] = ["x", "y", "z", "w"];

/// A block of the product in registers: `c{row}_{four columns}`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub rows: u32,
    pub columns: u32,
}

impl Block {
    /// Declares the sums, all zero.
    pub(crate) fn declared(self) -> String {
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
                // Four at once, or one after the other.
                let stores: &[&str] = if vector { &[""] } else { &[".x", ".y", ".z", ".w"] };
                for (part, name) in stores.iter().enumerate() {
                    let at = format!("{column} + {part}u");
                    let to = if vector { format!("(to + {at}) / 4u") } else { format!("to + {at}") };
                    let value = format!("finished(c{i}_{four}{name}, {}, {at})", row(i));
                    let _ = writeln!(
                        text,
                        "        if ({at} < columns) {{\n            product[{to}] = {value};\n        }}"
                    );
                }
            }
            text.push_str("    }\n");
        }
        text
    }
}

/// An operand as texts name it, seen as lines along the inner axis: rows of lhs, columns of rhs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub buffer: &'static str,
    /// Where its matrix begins.
    pub start: &'static str,
    /// The first line of a block, and the number of all lines.
    pub first: &'static str,
    pub last: &'static str,
    /// Elements from line to line and from one inner index to the next; one of the two is one.
    pub line_step: &'static str,
    pub inner_step: &'static str,
    /// Whether the inner axis is what lies in a row in memory.
    pub inner_in_a_row: bool,
    /// Whether an index holds four elements.
    pub vector: bool,
}

impl Side {
    /// Those of lhs and of rhs.
    pub(super) fn both(problem: &Matmul, vectors: Vectors) -> [Side; 2] {
        let lhs = Side {
            buffer: "lhs",
            start: "tile.left",
            first: "first_row",
            last: "rows",
            line_step: "params[3].x",
            inner_step: "params[3].y",
            inner_in_a_row: !problem.lhs.transposed,
            vector: vectors.lhs,
        };
        let rhs = Side {
            buffer: "rhs",
            start: "tile.right",
            first: "first_column",
            last: "columns",
            line_step: "params[3].w",
            inner_step: "params[3].z",
            inner_in_a_row: problem.rhs.transposed,
            vector: vectors.rhs,
        };
        [lhs, rhs]
    }
}

/// Whether reading by fours along the inner axis makes rounds of four steps a must.
pub(super) fn fours_along_inner(problem: &Matmul, vectors: Vectors) -> bool {
    Side::both(problem, vectors).iter().any(|side| side.vector && side.inner_in_a_row)
}
