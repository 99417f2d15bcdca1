//! What the kernels of the operation share: which parts of the operands a dispatch sees, its parameters, and the limits.

use crate::kernels::{adapter_with, over, with_main};
use crate::program::{BindTarget, Binding, Dispatch, Launched, MAX_STEPS, Needs, Writer, spread_groups};
use std::borrow::Cow;
use trimtab_core::{
    AdapterClass, AdapterFacts, Bytes, DType, Decline, DeviceFacts, Flops, LaunchError, Matmul, Work,
};

/// The shared start of every shader.
const HEAD: &str = include_str!("head.wgsl");
/// The shared start of every entry point.
const TILE: &str = include_str!("tile.wgsl").trim_ascii_end();

/// The longest inner axis on software adapters: lavapipe leaves an invocation's loops after 65,535 rounds, counted over all of
/// them, and says nothing.
const LONGEST_INNER: u64 = 32_768;

/// A part of the results that one dispatch computes: first and number along each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    batch: (u64, u64),
    rows: (u64, u64),
    columns: (u64, u64),
}

/// A problem cut so that every dispatch sees its operands whole.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    problem: Matmul,
    limit: u64,
    alignment: u64,
    pieces: Vec<Piece>,
}

/// What one index of each buffer holds: an element, or four in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vectors {
    pub lhs: bool,
    pub rhs: bool,
    pub product: bool,
}

impl Vectors {
    /// An element each.
    pub const NONE: Vectors = Vectors { lhs: false, rhs: false, product: false };
}

/// What a kernel adds to the parts: its text and the shape of its workgroups.
#[derive(Debug)]
pub(super) struct Shape {
    pub text: String,
    pub constants: Vec<(&'static str, f64)>,
    pub subgroups: bool,
    pub workgroup: [u32; 3],
    pub workgroup_bytes: u32,
    /// Rows and columns of the product one workgroup computes.
    pub tile: [u32; 2],
}

/// Operations up to which a product takes less time than its launch (an empty one takes 34 µs on software, 32³ at
/// 5 Gflop/s 13 µs): only the first few settings are worth measuring.
const LAUNCH_BOUND_FLOPS: u64 = 2 * 32 * 32 * 32;
/// As many settings are kept for those.
const LAUNCH_BOUND_POINTS: usize = 3;

/// The settings worth considering, each once: what is legal and, but for the first, does not leave invocations idle, without
/// those that do not show on so small a product.
pub(super) fn worthwhile<C: Copy + PartialEq>(
    problem: &Matmul,
    configs: Vec<C>,
    legal: impl Fn(C) -> bool,
    idle: impl Fn(C) -> bool,
) -> Vec<C> {
    let most = if problem.flops() <= LAUNCH_BOUND_FLOPS { LAUNCH_BOUND_POINTS } else { usize::MAX };
    let mut kept = Vec::new();
    for (at, &config) in configs.iter().enumerate() {
        let is_new = !configs[..at].contains(&config);
        if is_new && legal(config) && (at == 0 || !idle(config)) && kept.len() < most {
            kept.push(config);
        }
    }
    kept
}

/// Why a kernel that computes square tiles does not take a product with fewer rows or columns than that.
pub(super) fn too_narrow(problem: &Matmul, least: u64) -> Option<Decline> {
    let found = problem.m.min(problem.n);
    (found < least)
        .then(|| Decline::from(format!("takes at least {least} rows and columns, this has {found}")))
}

/// Bytes one element of a sum takes: halves are summed as f32.
pub(crate) fn sum_bytes(dtype: DType) -> u32 {
    if dtype == DType::F64 { 8 } else { 4 }
}

impl Layout {
    /// The adapter and how it sees the problem, or why it cannot.
    pub(super) fn on<'a>(
        problem: &Matmul,
        device: &'a DeviceFacts,
    ) -> Result<(&'a AdapterFacts, Layout), Decline> {
        if problem.dtype == DType::I32 {
            return Err(Decline::because("does floating point only"));
        }
        let adapter = adapter_with(Needs::of(problem.dtype), device)?;
        Ok((adapter, Layout::new(problem, adapter)?))
    }

    /// The same for a launch.
    pub(super) fn of_launch(problem: &Matmul, writer: &Writer<'_>) -> Result<Layout, LaunchError> {
        Layout::new(problem, writer.adapter).map_err(|reason| LaunchError::Kernel(reason.to_string()))
    }

    /// Cuts the problem, or says which operand is too large to be seen at once.
    pub(super) fn new(problem: &Matmul, adapter: &AdapterFacts) -> Result<Layout, Decline> {
        // Indices are 32 bits wide.
        let limit = adapter.max_binding.0.min(u64::from(u32::MAX - 255));
        if adapter.class == AdapterClass::Software && problem.k > LONGEST_INNER {
            let k = problem.k;
            return Err(Decline::from(format!(
                "takes inner axes up to {LONGEST_INNER} on software adapters, this one has {k}: longer loops are cut short there"
            )));
        }
        // Parts start at a multiple of four elements of any type.
        let alignment = u64::from(adapter.offset_alignment).max(32);
        let mut layout = Layout { problem: *problem, limit, alignment, pieces: Vec::new() };
        let lengths = NAMES.into_iter().zip([problem.lhs_len(), problem.rhs_len(), problem.out_len()]);
        if let Some(decline) = over(lengths, problem.dtype, adapter.max_buffer.0, "buffers") {
            return Err(decline);
        }
        layout.pieces = layout.cut()?;
        if layout.pieces.len() > MAX_STEPS {
            let pieces = layout.pieces.len();
            return Err(Decline::from(format!("takes up to {MAX_STEPS} dispatches, this needs {pieces}")));
        }
        Ok(layout)
    }

    fn cut(&self) -> Result<Vec<Piece>, Decline> {
        let Matmul { m, n, k, batch, .. } = self.problem;
        if self.problem.out_len() == 0 {
            return Ok(Vec::new());
        }
        let size = self.problem.dtype.size();
        let totals = [self.problem.lhs_len(), self.problem.rhs_len(), self.problem.out_len()];
        let over = totals.map(|length| length.saturating_mul(size) > self.limit);
        if over == [false; 3] {
            return Ok(vec![Piece { batch: (0, batch), rows: (0, m), columns: (0, n) }]);
        }
        let refuse = |which: usize, bytes: u64| {
            let (limit, name) = (self.limit, NAMES[which]);
            Err(Decline::from(format!("takes bindings up to {limit} bytes, {name} has {bytes}")))
        };
        // A part may start up to an alignment before its first element.
        let room = self.limit.saturating_sub(self.alignment);
        let matrices = [m * k * size, k * n * size, m * n * size];
        let shared = [self.problem.lhs.shared, self.problem.rhs.shared, false];
        let of_batch = |which: usize| if shared[which] { 0 } else { room / matrices[which].max(1) };
        let most = (0..3).filter(|&which| over[which]).map(of_batch).min().unwrap_or(batch);
        if most > 0 {
            let pieces = spans(batch, most).map(|batch| Piece { batch, rows: (0, m), columns: (0, n) });
            return Ok(pieces.collect());
        }
        let (mut rows, mut columns) = (m, n);
        for which in (0..3).filter(|&which| over[which] && matrices[which] > room) {
            // What is cut must lie in one stretch: rows of a plain lhs and of the product, columns of a transposed rhs.
            match which {
                0 if !self.problem.lhs.transposed => rows = rows.min(room / (k * size)),
                1 if self.problem.rhs.transposed => columns = columns.min(room / (k * size)),
                2 => rows = rows.min(room / (n * size)),
                _ => return refuse(which, matrices[which]),
            }
            if rows == 0 || columns == 0 {
                return refuse(which, matrices[which]);
            }
        }
        let even = |count: u64| if count >= 64 { count / 64 * 64 } else { count };
        let (rows, columns) =
            (if rows < m { even(rows) } else { m }, if columns < n { even(columns) } else { n });
        let count = batch.saturating_mul(m.div_ceil(rows)).saturating_mul(n.div_ceil(columns));
        if count > MAX_STEPS as u64 {
            return Err(Decline::from(format!("takes up to {MAX_STEPS} dispatches, this needs {count}")));
        }
        let mut pieces = Vec::new();
        for matrix in 0..batch {
            for rows in spans(m, rows) {
                pieces.extend(spans(n, columns).map(|columns| Piece { batch: (matrix, 1), rows, columns }));
            }
        }
        Ok(pieces)
    }

    /// Whether a dispatch sees less than all rows and columns of a product.
    pub(super) fn is_cut_within_matrices(&self) -> bool {
        let all = (self.problem.m, self.problem.n);
        self.pieces.iter().any(|piece| (piece.rows.1, piece.columns.1) != all)
    }

    /// Which buffers can be read and written by four elements at once.
    pub(super) fn vectors(&self) -> Vectors {
        let Matmul { m, n, k, lhs, rhs, .. } = self.problem;
        let fours = |length: u64| length > 0 && length.is_multiple_of(4);
        let starts =
            |which: usize| self.pieces.iter().all(|piece| self.span(piece, which).0.is_multiple_of(4));
        Vectors {
            lhs: k > 0 && fours(if lhs.transposed { m } else { k }) && starts(0),
            rhs: k > 0 && fours(if rhs.transposed { k } else { n }) && starts(1),
            product: fours(n) && starts(2) && self.pieces.iter().all(|piece| fours(piece.columns.1)),
        }
    }

    /// First element a piece sees of an operand (0 lhs, 1 rhs, 2 the product) and the one behind its last.
    fn span(&self, piece: &Piece, which: usize) -> (u64, u64) {
        let Matmul { m, n, k, lhs, rhs, .. } = self.problem;
        if k == 0 && which < 2 {
            return (0, 0);
        }
        let batch = |shared: bool| if shared { (0, 1) } else { piece.batch };
        let (batch, matrix, first, behind) = match which {
            0 if lhs.transposed => {
                (batch(lhs.shared), m * k, piece.rows.0, m * k - m + piece.rows.0 + piece.rows.1)
            }
            0 => (batch(lhs.shared), m * k, piece.rows.0 * k, (piece.rows.0 + piece.rows.1) * k),
            1 if rhs.transposed => {
                (batch(rhs.shared), n * k, piece.columns.0 * k, (piece.columns.0 + piece.columns.1) * k)
            }
            1 => (batch(rhs.shared), n * k, piece.columns.0, n * k - n + piece.columns.0 + piece.columns.1),
            _ => {
                let first = piece.rows.0 * n + piece.columns.0;
                let last_row = piece.rows.0 + piece.rows.1 - 1;
                (piece.batch, m * n, first, last_row * n + piece.columns.0 + piece.columns.1)
            }
        };
        (batch.0 * matrix + first, (batch.0 + batch.1 - 1) * matrix + behind)
    }

    /// The binding of an operand and the number of its first element there.
    fn binding(&self, piece: &Piece, which: usize) -> (Binding, u32) {
        let place = [BindTarget::Input(0), BindTarget::Input(1), BindTarget::Out][which];
        let whole = Binding { writes: which == 2, ..Binding::read(place) };
        let size = self.problem.dtype.size();
        let total = [self.problem.lhs_len(), self.problem.rhs_len(), self.problem.out_len()][which] * size;
        let (first, behind) = self.span(piece, which);
        if total <= self.limit {
            return (whole, first as u32);
        }
        let start = first * size / self.alignment * self.alignment;
        let bytes = (behind * size - start).next_multiple_of(4);
        (whole.part(start, bytes), ((first * size - start) / size) as u32)
    }

    /// Workgroups of a piece: tiles along a row, along a column, and all.
    fn tiles(&self, piece: &Piece, tile: [u32; 2]) -> [u64; 3] {
        let along_column = piece.rows.1.div_ceil(u64::from(tile[0]));
        let along_row = piece.columns.1.div_ceil(u64::from(tile[1]));
        [along_row, along_column, along_row.saturating_mul(along_column).saturating_mul(piece.batch.1)]
    }

    /// Whether workgroups of that shape are legal on the adapter and few enough.
    pub(super) fn fits(
        &self,
        adapter: &AdapterFacts,
        workgroup: [u32; 3],
        bytes: u32,
        tile: [u32; 2],
    ) -> bool {
        let invocations: u64 = workgroup.iter().map(|&side| u64::from(side)).product();
        invocations <= u64::from(adapter.max_invocations)
            && (0..3).all(|axis| workgroup[axis] <= adapter.max_workgroup[axis])
            && u64::from(bytes) <= adapter.workgroup_memory.0
            && self.pieces.iter().all(|piece| spread_groups(self.tiles(piece, tile)[2], adapter).is_some())
    }

    /// What a kernel does that walks over so many elements of each product, by workgroups of that shape which each wait so
    /// often.
    pub(super) fn work(
        &self,
        tile: [u32; 2],
        walked: u64,
        workgroup: [u32; 3],
        lanes: u32,
        barriers: u64,
    ) -> Work {
        let Matmul { batch, dtype, .. } = self.problem;
        let groups = || self.pieces.iter().map(|piece| self.tiles(piece, tile)[2]);
        let invocations: u32 = workgroup.iter().product();
        Work {
            flops: Flops(self.problem.flops()),
            bytes: Bytes(walked.saturating_mul(batch).saturating_mul(dtype.size())),
            launches: self.pieces.len() as u32,
            threads: 1,
            lanes,
            barriers: barriers * groups().sum::<u64>(),
            invocations: groups().max().unwrap_or(0) * u64::from(invocations),
            ..Work::default()
        }
    }

    /// Writes one dispatch a piece.
    pub(super) fn write(&self, shape: Shape, writer: Writer<'_>) -> Launched {
        let Matmul { m, n, k, lhs, rhs, dtype, .. } = self.problem;
        let text: Cow<'static, str> = Cow::Owned(shape.text);
        for piece in &self.pieces {
            let [along_row, along_column, all] = self.tiles(piece, shape.tile);
            let Some(groups) = spread_groups(all, writer.adapter) else {
                return Err(LaunchError::Kernel(format!("{all} workgroups are more than a dispatch has")));
            };
            let bound = [0, 1, 2].map(|which| self.binding(piece, which));
            let matrix = |shared: bool, elements: u64| if shared { 0 } else { elements };
            let (left, right) =
                (if lhs.transposed { [1, m] } else { [k, 1] }, if rhs.transposed { [1, k] } else { [n, 1] });
            let words = [
                [piece.rows.1, piece.columns.1, k, all],
                [bound[0].1.into(), bound[1].1.into(), bound[2].1.into(), n],
                [matrix(lhs.shared, m * k), matrix(rhs.shared, k * n), m * n, along_row],
                [left[0], left[1], right[0], right[1]],
                [along_column, 0, 0, 0],
            ];
            writer.program.push(Dispatch {
                text: text.clone(),
                constants: shape.constants.clone(),
                needs: Needs { subgroups: shape.subgroups, ..Needs::of(dtype) },
                workgroup: shape.workgroup,
                workgroup_bytes: shape.workgroup_bytes,
                groups,
                bindings: bound.map(|(binding, _)| binding).to_vec(),
                // Steps between matrices that are not there do not matter and may not fit: a batch of one.
                params: words.iter().flatten().map(|&word| word as u32).collect(),
            });
        }
        Ok(())
    }
}

const NAMES: [&str; 3] = ["lhs", "rhs", "the product"];

/// Stretches of at most `most` that cover `0..length`: first and number.
fn spans(length: u64, most: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..length.div_ceil(most)).map(move |number| (number * most, most.min(length - number * most)))
}

/// A shader: the types of its buffers, what all share, and its own text.
pub(super) fn shader(dtype: DType, vectors: Vectors, text: &str) -> String {
    let (stored, sum) = match dtype {
        DType::F64 => ("f64", "f64"),
        DType::F16 => ("f16", "f32"),
        _ => ("f32", "f32"),
    };
    let index = |vector: bool| if vector { "vec4<T>" } else { "T" };
    let (left, right, product) = (index(vectors.lhs), index(vectors.rhs), index(vectors.product));
    let (finished, text) = (finished(vectors.product), with_main(&text.replace("$TILE", TILE)));
    format!(
        "alias T = {stored};\nalias A = {sum};\nalias L = {left};\nalias R = {right};\nalias P = {product};\n{HEAD}{finished}{text}"
    )
}

/// What becomes of a sum, or of four in a row, before it is written: its row and its column, or the first one's, are known.
pub(crate) fn finished(vector: bool) -> &'static str {
    match vector {
        true => "\nfn finished(sum: vec4<A>, row: u32, column: u32) -> P {\n    return P(sum);\n}\n",
        false => "\nfn finished(sum: A, row: u32, column: u32) -> P {\n    return P(sum);\n}\n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;
    use trimtab_core::{Bytes, Problem};

    /// An adapter that sees little at once.
    fn narrow(max_binding: u64, offset_alignment: u32) -> AdapterFacts {
        AdapterFacts {
            class: trimtab_core::AdapterClass::Unknown,
            backend: String::new(),
            driver: String::new(),
            driver_info: String::new(),
            max_invocations: 256,
            max_workgroup: [256; 3],
            max_groups: 5,
            workgroup_memory: Bytes(16 << 10),
            max_binding: Bytes(max_binding),
            max_buffer: Bytes(1 << 20),
            offset_alignment,
            subgroup: None,
            f16: true,
            f64: true,
            timestamps: false,
            unified_memory: false,
            pipeline_cache: false,
        }
    }

    fn problem(text: &str) -> Matmul {
        match text.parse() {
            Ok(Problem::Matmul(problem)) => problem,
            other => panic!("{text}: {other:?}"),
        }
    }

    /// Walks a program as a shader does, by parameters and parts alone: which elements of lhs and rhs each result sums
    /// over, first inner index and last, once for every time it is written.
    fn walked(problem: &Matmul, adapter: &AdapterFacts, program: &Program) -> Vec<Vec<[u64; 4]>> {
        let size = problem.dtype.size();
        let lengths = [problem.lhs_len(), problem.rhs_len(), problem.out_len()];
        let mut found = vec![Vec::new(); problem.out_len() as usize];
        assert_eq!(program.check(adapter), Ok(()));
        for step in &program.steps {
            let word = |number: usize| u64::from(step.params[number]);
            let element = |which: usize, index: u64| {
                let (first, bytes) = step.bindings[which].part.unwrap_or((0, lengths[which] * size));
                assert!((index + 1) * size <= bytes && bytes <= adapter.max_binding.0, "{step:?}");
                assert!(first + (index + 1) * size <= lengths[which] * size, "{step:?}");
                first / size + index
            };
            assert!(word(3) <= step.groups.iter().map(|&side| u64::from(side)).product());
            for number in 0..word(3) {
                let (column, rest) = (number % word(11), number / word(11));
                let (row, matrix) = (rest % word(16), rest / word(16));
                // Tiles of two rows and three columns.
                for (row, column) in (0..6).map(|at| (2 * row + at / 3, 3 * column + at % 3)) {
                    if row >= word(0) || column >= word(1) {
                        continue;
                    }
                    let left =
                        |at: u64| element(0, word(4) + matrix * word(8) + row * word(12) + at * word(13));
                    let right =
                        |at: u64| element(1, word(5) + matrix * word(9) + at * word(14) + column * word(15));
                    let last = word(2) - 1;
                    let result = element(2, word(6) + matrix * word(10) + row * word(7) + column);
                    found[result as usize].push([left(0), left(last), right(0), right(last)]);
                }
            }
        }
        found
    }

    #[test]
    fn every_result_is_written_once_from_its_own_row_and_column_however_the_problem_is_cut() {
        let mut cuts = 0;
        for (text, max_binding, alignment) in [
            ("matmul:f32:7x6x5", 1 << 20, 256),
            ("matmul:f32:3x7x6x5:t,t", 1 << 20, 256),
            ("matmul:f32:101x6x5", 512, 16),
            ("matmul:f16:101x6x5", 512, 32),
            ("matmul:f64:6x101x5:n,t", 1024, 16),
            ("matmul:f32:101x103x5:n,t", 2048, 256),
            ("matmul:f32:9x7x6x5:t,n", 512, 32),
            ("matmul:f32:9x7x6x5:ns,t", 512, 32),
            ("matmul:f32:2x67x6x9:n,ts", 1024, 256),
        ] {
            let (problem, adapter) = (problem(text), narrow(max_binding, alignment));
            let layout = Layout::new(&problem, &adapter).unwrap();
            let mut program = Program::default();
            let shape = Shape {
                text: String::new(),
                constants: Vec::new(),
                subgroups: false,
                workgroup: [1, 1, 1],
                workgroup_bytes: 0,
                tile: [2, 3],
            };
            // The walk knows no limit on workgroups but the check does: as many as two axes hold.
            let adapter = AdapterFacts { max_groups: 100, ..adapter };
            layout.write(shape, Writer { adapter: &adapter, program: &mut program }).unwrap();
            cuts += usize::from(program.steps.len() > 1);
            let Matmul { m, n, k, lhs, rhs, .. } = problem;
            for (index, found) in walked(&problem, &adapter, &program).iter().enumerate() {
                let index = index as u64;
                let (matrix, row, column) = (index / (m * n), index / n % m, index % n);
                let of = |shared: bool, elements: u64| if shared { 0 } else { matrix * elements };
                let left = |at: u64| {
                    of(lhs.shared, m * k) + if lhs.transposed { at * m + row } else { row * k + at }
                };
                let right = |at: u64| {
                    of(rhs.shared, n * k) + if rhs.transposed { column * k + at } else { at * n + column }
                };
                assert_eq!(*found, [[left(0), left(k - 1), right(0), right(k - 1)]], "{text} {index}");
            }
        }
        assert_eq!(cuts, 7);
    }

    #[test]
    fn what_cannot_be_cut_is_declined_with_the_numbers() {
        let reason =
            |text: &str| Layout::new(&problem(text), &narrow(1024, 16)).map(|_| ()).unwrap_err().to_string();
        assert_eq!(reason("matmul:f32:101x6x5:t,n"), "takes bindings up to 1024 bytes, lhs has 2020");
        assert_eq!(reason("matmul:f32:6x101x5"), "takes bindings up to 1024 bytes, rhs has 2020");
        assert_eq!(reason("matmul:f32:2x1x300"), "takes bindings up to 1024 bytes, lhs has 2400");
        assert_eq!(reason("matmul:f32:1000x1x300"), "takes buffers up to 1048576 bytes, lhs has 1200000");
        assert_eq!(reason("matmul:f32:1000x1x200"), "takes up to 256 dispatches, this needs 1000");
    }
}
