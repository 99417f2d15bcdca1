//! Made-up expressions: graphs of real problems, drawn from a seed, the same on every machine.

use trimtab_core::{
    BinaryOp, DType, Elementwise, Matmul, Problem, ProblemError, RandomNumbers, Reduce, ReduceOp, Transpose,
    UnaryOp,
};

/// Sizes of the values' dimensions.
const SIZES: [u64; 6] = [64, 128, 256, 512, 1024, 2048];

/// An expression: inputs and operations, each after what it uses.
#[derive(Clone, Debug, Default)]
pub struct Drawn {
    /// In order.
    pub steps: Vec<DrawnStep>,
}

/// An input or an operation of a [`Drawn`] expression.
#[derive(Clone, Debug)]
pub struct DrawnStep {
    /// What is asked; nothing of an input.
    pub problem: Option<Problem>,
    /// The steps it uses.
    pub operands: Vec<usize>,
    /// Bytes of the value.
    pub bytes: u64,
    /// Whether an input lies on the host.
    pub on_host: bool,
    /// Whether an input lies on the GPU.
    pub on_gpu: bool,
    /// Whether the value is wanted on the host.
    pub is_sink: bool,
    dtype: DType,
    rows: u64,
    columns: u64,
}

/// An expression of that many operations: chains, diamonds, shared operands, several sinks, and inputs that lie here, there or both.
pub fn draw(seed: u64, operations: usize) -> Result<Drawn, ProblemError> {
    let mut random = RandomNumbers::new(seed);
    let mut drawn = Drawn::default();
    let dtype = if random.below(10) == 0 { DType::F64 } else { DType::F32 };
    // Sizes of one expression are near each other, small ones or large ones.
    let largest = 2 + random.below(SIZES.len() - 1);
    let size = |random: &mut RandomNumbers| SIZES[random.below(largest)];
    let first = (size(&mut random), size(&mut random));
    drawn.input(&mut random, dtype, first);
    while drawn.steps.iter().filter(|step| step.problem.is_some()).count() < operations {
        // Mostly goes on with what was made last: chains.
        let back = if random.below(3) < 2 { 3 } else { drawn.steps.len() };
        let mut pick = || drawn.steps.len() - 1 - random.below(back.min(drawn.steps.len()));
        // The larger of two: sums are small, and a program is not all about them.
        let (one, other) = (pick(), pick());
        let lhs = if drawn.steps[other].bytes > drawn.steps[one].bytes { other } else { one };
        let DrawnStep { dtype, rows, columns, .. } = drawn.steps[lhs];
        match random.below(10) {
            0..=2 => {
                let op = UnaryOp::ALL[random.below(UnaryOp::ALL.len())];
                let problem = Elementwise::unary(op, dtype, &[rows, columns])?;
                drawn.operation(problem.into(), vec![lhs], dtype, (rows, columns));
            }
            3..=5 => {
                let alike =
                    |step: &DrawnStep| (step.dtype, step.rows, step.columns) == (dtype, rows, columns);
                let rhs = drawn.find(&mut random, alike, dtype, (rows, columns));
                let op = BinaryOp::ALL[random.below(BinaryOp::ALL.len())];
                let problem = Elementwise::binary(op, dtype, &[rows, columns], &[rows, columns])?;
                drawn.operation(problem.into(), vec![lhs, rhs], dtype, (rows, columns));
            }
            6 | 7 => {
                let wide = size(&mut random);
                let fits = |step: &DrawnStep| (step.dtype, step.rows) == (dtype, columns);
                let rhs = drawn.find(&mut random, fits, dtype, (columns, wide));
                let n = drawn.steps[rhs].columns;
                let problem = Matmul::new(dtype, rows, n, columns)?;
                drawn.operation(problem.into(), vec![lhs, rhs], dtype, (rows, n));
            }
            8 => {
                let problem = Transpose::new(dtype, &[rows, columns], &[1, 0])?;
                drawn.operation(problem.into(), vec![lhs], dtype, (columns, rows));
            }
            _ => {
                let op = ReduceOp::ALL[random.below(ReduceOp::ALL.len())];
                let problem = Reduce::new(op, dtype, &[rows, columns], Some(1))?;
                drawn.operation(problem.into(), vec![lhs], dtype, (rows, 1));
            }
        }
    }
    let mut is_used = vec![false; drawn.steps.len()];
    drawn.steps.iter().flat_map(|step| &step.operands).for_each(|&value| is_used[value] = true);
    for (step, is_used) in drawn.steps.iter_mut().zip(is_used) {
        // What nothing uses is mostly wanted; now and then it stays where it was made, or something in between is read.
        let chance = if is_used { 1 } else { 9 };
        step.is_sink = step.problem.is_some() && random.below(10) < chance;
    }
    Ok(drawn)
}

impl Drawn {
    fn input(&mut self, random: &mut RandomNumbers, dtype: DType, (rows, columns): (u64, u64)) -> usize {
        let (on_host, on_gpu) = [(true, false), (true, false), (false, true), (true, true)][random.below(4)];
        let bytes = rows * columns * dtype.size();
        let (problem, operands) = (None, Vec::new());
        self.steps.push(DrawnStep {
            problem,
            operands,
            bytes,
            on_host,
            on_gpu,
            is_sink: false,
            dtype,
            rows,
            columns,
        });
        self.steps.len() - 1
    }

    fn operation(
        &mut self,
        problem: Problem,
        operands: Vec<usize>,
        dtype: DType,
        (rows, columns): (u64, u64),
    ) {
        let bytes = rows * columns * dtype.size();
        let (on_host, on_gpu, is_sink) = (false, false, false);
        let problem = Some(problem);
        self.steps.push(DrawnStep {
            problem,
            operands,
            bytes,
            on_host,
            on_gpu,
            is_sink,
            dtype,
            rows,
            columns,
        });
    }

    /// A value that fits, mostly one there is: a shared operand; else a new input.
    fn find(
        &mut self,
        random: &mut RandomNumbers,
        fits: impl Fn(&DrawnStep) -> bool,
        dtype: DType,
        shape: (u64, u64),
    ) -> usize {
        let known: Vec<usize> = (0..self.steps.len()).filter(|&at| fits(&self.steps[at])).collect();
        let is_known = !known.is_empty() && random.below(4) > 0;
        if is_known { known[random.below(known.len())] } else { self.input(random, dtype, shape) }
    }
}
