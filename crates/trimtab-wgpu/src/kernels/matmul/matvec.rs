//! Products with a vector, or with a few: the matrix is read once, each invocation sums one result or four neighbours, and
//! the inner axis may be shared out over the invocations of a workgroup.

use super::layout::{Layout, Shape, Vectors, shader, sum_bytes, worthwhile};
use super::registers::{PARTS, Side};
use crate::program::{Gpu, Launched, Writer};
use std::fmt::Write as _;
use trimtab_core::{AdapterClass, DType, Decline, DeviceFacts, LaunchError, Matmul, Variant, Work};

trimtab_core::config! {
    /// Results of a workgroup side by side, invocations that share the inner axis of each, and elements a load where the
    /// layout allows.
    pub struct MatvecConfig { width, split, vector }
}

/// The most vectors; with more the blocked kernels read the matrix no oftener.
const MAX_VECTORS: u64 = 8;

/// See the module.
#[derive(Debug)]
pub struct MatvecKernel;

impl MatvecConfig {
    fn workgroup(self) -> [u32; 3] {
        [self.width * self.split, 1, 1]
    }
}

/// Which operand is the matrix, and how both are read.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// The matrix is rhs and the vectors are rows of lhs; else the matrix is lhs and the vectors are columns of rhs.
    matrix_is_rhs: bool,
    count: u32,
    /// The inner axis lies in a row: of the matrix, of the vectors.
    inner: [bool; 2],
    /// Loaded by fours: the matrix, the vectors.
    fours: [bool; 2],
    vectors: Vectors,
}

impl Reading {
    fn new(problem: &Matmul, layout: &Layout, vector: u32) -> Reading {
        let matrix_is_rhs = problem.m <= problem.n;
        let legal = if vector == 4 { layout.vectors() } else { Vectors::NONE };
        let pick = |[left, right]: [bool; 2]| if matrix_is_rhs { [right, left] } else { [left, right] };
        let sides = Side::both(problem, legal);
        let inner = pick(sides.map(|side| side.inner_in_a_row));
        let [matrix, vectors] = pick(sides.map(|side| side.vector));
        // Vectors are loaded by fours only where the matrix is, along the same axis.
        let fours = [matrix, matrix && inner[0] && vectors && inner[1]];
        let [lhs, rhs] = pick(fours);
        let count = problem.m.min(problem.n) as u32;
        Reading { matrix_is_rhs, count, inner, fours, vectors: Vectors { lhs, rhs, product: false } }
    }

    /// Neighbouring results an invocation sums.
    fn each(self) -> u32 {
        if self.fours[0] && !self.inner[0] { 4 } else { 1 }
    }

    fn tile(self, config: MatvecConfig) -> [u32; 2] {
        let along = config.width * self.each();
        if self.matrix_is_rhs { [self.count.max(1), along] } else { [along, self.count.max(1)] }
    }

    fn workgroup_bytes(self, config: MatvecConfig, dtype: DType) -> u32 {
        if config.split == 1 {
            0
        } else {
            config.width * config.split * self.count * self.each() * sum_bytes(dtype)
        }
    }
}

impl Variant<Gpu> for MatvecKernel {
    type Problem = Matmul;
    type Config = MatvecConfig;

    identity!("gpu.matmul.matvec", Vectorized);

    fn declines(&self, problem: &Matmul, device: &DeviceFacts) -> Option<Decline> {
        let least = problem.m.min(problem.n);
        if least > MAX_VECTORS {
            return Some(Decline::from(format!(
                "takes up to {MAX_VECTORS} rows or columns, this has {least}"
            )));
        }
        match Layout::on(problem, device) {
            Ok((_, layout)) if layout.is_cut_within_matrices() => {
                Some(Decline::because("takes operands that one dispatch sees whole"))
            }
            Ok(_) => None,
            Err(reason) => Some(reason),
        }
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<MatvecConfig> {
        let Ok((adapter, layout)) = Layout::on(problem, device) else { return Vec::new() };
        let vector = if Reading::new(problem, &layout, 4).fours[0] { 4 } else { 1 };
        let default = match (adapter.class, Reading::new(problem, &layout, vector).inner[0]) {
            (AdapterClass::Software, _) => MatvecConfig { width: 16, split: 1, vector },
            // Invocations side by side read one line: along the inner axis, or along the results.
            (_, true) => MatvecConfig { width: 4, split: 16, vector },
            (_, false) => MatvecConfig { width: 32, split: 4, vector },
        };
        let mut configs = vec![default];
        let many = [[16, 1], [32, 4], [4, 16], [64, 1], [8, 1], [16, 8], [1, 64], [16, 16], [2, 128]];
        configs.extend(many.map(|[width, split]| MatvecConfig { width, split, vector }));
        let few = [[16, 1], [64, 1], [32, 4]];
        configs.extend(few.map(|[width, split]| MatvecConfig { width, split, vector: 1 }));
        let reading = |config: MatvecConfig| Reading::new(problem, &layout, config.vector);
        let legal = |config: MatvecConfig| {
            let bytes = reading(config).workgroup_bytes(config, problem.dtype);
            layout.fits(adapter, config.workgroup(), bytes, reading(config).tile(config))
        };
        // Invocations without a result or without a part of the inner axis only idle.
        let idle = |config: MatvecConfig| {
            let Reading { fours, inner, .. } = reading(config);
            let (steps, each) = (if fours[0] && inner[0] { 4 } else { 1 }, reading(config).each());
            config.width > 8 && u64::from(config.width * each / 2) >= problem.m.max(problem.n)
                || config.split > 1 && u64::from(config.split * steps / 2) >= problem.k
        };
        worthwhile(problem, configs, legal, idle)
    }

    fn work(&self, problem: &Matmul, config: MatvecConfig, device: &DeviceFacts) -> Work {
        let Ok((_, layout)) = Layout::on(problem, device) else { return Work::default() };
        let reading = Reading::new(problem, &layout, config.vector);
        // The matrix once; the vectors anew for every invocation's results.
        let (long, count) = (problem.m.max(problem.n), problem.m.min(problem.n));
        let vectors = long.div_ceil(u64::from(reading.each())) * count * problem.k;
        let walked = long * problem.k + vectors + problem.m * problem.n;
        let lanes = if reading.fours[0] { 4 } else { 1 };
        layout.work(reading.tile(config), walked, config.workgroup(), lanes, u64::from(config.split > 1))
    }

    fn launch(&self, problem: &Matmul, config: MatvecConfig, writer: Writer<'_>) -> Launched {
        let sides = (1..=1024).contains(&config.width) && (1..=1024).contains(&config.split);
        if !sides || !matches!(config.vector, 1 | 4) || problem.m.min(problem.n) > MAX_VECTORS {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let layout = Layout::of_launch(problem, &writer)?;
        let reading = Reading::new(problem, &layout, config.vector);
        let shape = Shape {
            text: text(problem, config, reading),
            constants: vec![("WIDTH", config.width.into()), ("SPLIT", config.split.into())],
            subgroups: false,
            workgroup: config.workgroup(),
            workgroup_bytes: reading.workgroup_bytes(config, problem.dtype),
            tile: reading.tile(config),
        };
        layout.write(shape, writer)
    }
}

fn text(problem: &Matmul, config: MatvecConfig, reading: Reading) -> String {
    let Reading { matrix_is_rhs, count, inner, fours, .. } = reading;
    let by_inner = fours[0] && inner[0];
    let sum = if fours[0] { "vec4<A>" } else { "A" };
    let kept = if reading.each() == 4 { "vec4<A>" } else { "A" };
    let (mut sums, mut gather, mut stores) = (String::new(), String::new(), String::new());
    for vector in 0..count {
        let _ = writeln!(sums, "    var c{vector} = {sum}();");
        if by_inner {
            let _ = writeln!(
                gather,
                "    let s{vector} = c{vector}.x + c{vector}.y + c{vector}.z + c{vector}.w;"
            );
        } else {
            let _ = writeln!(gather, "    let s{vector} = c{vector};");
        }
    }
    let (writer, memory) = if config.split == 1 {
        ("", String::new())
    } else {
        for vector in 0..count {
            let _ =
                writeln!(gather, "    parts[{vector}u * WIDTH * SPLIT + share * WIDTH + place] = s{vector};");
        }
        gather.push_str("    workgroupBarrier();\n");
        ("share == 0u &&", format!("\nvar<workgroup> parts: array<{kept}, {count}u * WIDTH * SPLIT>;\n"))
    };
    for vector in 0..count {
        let mut value = format!("s{vector}");
        if config.split > 1 {
            value = format!("total{vector}");
            let _ = writeln!(
                stores,
                "        var {value} = s{vector};
        for (var part = 1u; part < SPLIT; part += 1u) {{
            {value} += parts[{vector}u * WIDTH * SPLIT + part * WIDTH + place];
        }}"
            );
        }
        for (part, name) in PARTS.iter().enumerate().take(reading.each() as usize) {
            let value = if reading.each() == 4 { format!("{value}.{name}") } else { value.clone() };
            let _ = match matrix_is_rhs {
                true => writeln!(
                    stores,
                    "        product[tile.result + {vector}u * params[1].w + first + {part}u] = finished({value}, {vector}u, first + {part}u);"
                ),
                false => writeln!(
                    stores,
                    "        product[tile.result + (first + {part}u) * params[1].w + {vector}u] = finished({value}, first + {part}u, {vector}u);"
                ),
            };
        }
    }
    let (place, share) = if inner[0] {
        ("invocation / SPLIT", "invocation % SPLIT")
    } else {
        ("invocation % WIDTH", "invocation / WIDTH")
    };
    let text = include_str!("matvec.wgsl")
        .replace("$MEMORY", &memory)
        .replace("$RESULTS", if matrix_is_rhs { "params[0].y" } else { "params[0].x" })
        .replace("$PLACE", place)
        .replace("$SHARE", share)
        .replace("$GROUP", if matrix_is_rhs { "tile.column" } else { "tile.row" })
        .replace("$EACH", &reading.each().to_string())
        .replace("$STEP", if by_inner { "4" } else { "1" })
        .replace("$SUMS", &sums)
        .replace("$ROUND", &round(problem, reading))
        .replace("$GATHER", &gather)
        .replace("$WRITER", writer)
        .replace("$STORES", &stores);
    shader(problem.dtype, reading.vectors, &text)
}

/// One inner step, or four where the matrix is read so.
fn round(problem: &Matmul, reading: Reading) -> String {
    let Reading { matrix_is_rhs, count, inner, fours, .. } = reading;
    let by_inner = fours[0] && inner[0];
    // Elements from one result to the next and one inner index to the next; and from one vector to the next.
    let [lhs, rhs] = Side::both(problem, reading.vectors);
    let (of_matrix, of_vectors) = if matrix_is_rhs { (rhs, lhs) } else { (lhs, rhs) };
    let Side { buffer: matrix, start, line_step: results, inner_step: step, .. } = of_matrix;
    let Side { buffer: vectors, start: vector_start, line_step: next, inner_step: vector_step, .. } =
        of_vectors;
    let index = match inner[0] {
        true => format!("{start} + result * {results} + at"),
        false => format!("{start} + result + at * {step}"),
    };
    let mut text = match fours[0] {
        true => format!("        let line = vec4<A>({matrix}[({index}) / 4u]);\n"),
        false => format!("        let line = A({matrix}[{index}]);\n"),
    };
    for vector in 0..count {
        let begin = format!("{vector_start} + {vector}u * {next}");
        let value = match (by_inner, fours[1]) {
            (true, true) => format!("vec4<A>({vectors}[({begin} + at) / 4u])"),
            (true, false) => {
                let parts = [0, 1, 2, 3]
                    .map(|part| format!("A({vectors}[{begin} + (at + {part}u) * {vector_step}])"))
                    .join(", ");
                format!("vec4<A>({parts})")
            }
            (false, _) => format!("A({vectors}[{begin} + at * {vector_step}])"),
        };
        let _ = writeln!(text, "        c{vector} += line * {value};");
    }
    text
}
