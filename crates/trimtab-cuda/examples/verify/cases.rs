//! What is verified: kernels × problems that fit no tile × all legal points.

use anyhow::{Context, Result};
use trimtab_core::{
    BinaryOp, DType, Elementwise, Matmul, Operand, Problem, Reduce, ReduceOp, Transpose, UnaryOp,
};

/// Recipes: elementwise, after a product, before a reduction; inputs that vary along none, one and both dimensions.
const RECIPES: [&str; 14] = [
    "gelu(a):DTYPE:1x1027:all",
    "relu(add(mul(a,#0),b)):DTYPE:31x33:all,columns",
    "sub(mul(a,b),mul(c,d)):DTYPE:31x33:all,columns,rows,one",
    "relu(add(@,c)):DTYPE:37x45x19:n,n,columns",
    "mul(@,add(c,d)):DTYPE:20x33x40:n,t,rows,all",
    "tanh(add(@,#0)):DTYPE:33x20x17:t,n",
    "add(@,c):DTYPE:3x70x40:n,n,all",
    "add(@,c):DTYPE:20x24x300:n,n,columns",
    "mul(a,b):DTYPE:21x47:all,columns:sum",
    "mul(a,b):DTYPE:21x47:all,rows:sum.axis0",
    "exp(a):DTYPE:21x47:all:sum.axis1",
    "add(a,b):DTYPE:9x130:all,columns:max.axis1",
    "abs(a):DTYPE:40x13:all:mean.axis0",
    "mul(a,b):DTYPE:70x31:all,rows:sum",
];
use trimtab_cuda::{DeviceInfo, Program, kernels};

/// Rows: short and long, along axes that are not the last, norms with all they may take.
const ROWS: [&str; 11] = [
    "softmax:DTYPE:5x130",
    "softmax:DTYPE:1x3001",
    "softmax:DTYPE:7x45x13:axis1",
    "softmax:DTYPE:3x1",
    "log_softmax:DTYPE:9x33",
    "logsumexp:DTYPE:9x130",
    "logsumexp:DTYPE:7x45x13:axis1",
    "variance:DTYPE:9x130",
    "layer_norm:DTYPE:9x130:scale,shift",
    "layer_norm:DTYPE:7x45x13:axis1",
    "rms_norm:DTYPE:9x130:scale",
];

pub struct Case {
    pub kernel: String,
    pub problem: Problem,
    /// The point, by the names of its settings.
    pub setting: String,
    pub program: Program,
}

pub fn cases(architecture: u32) -> Result<Vec<Case>> {
    let info = DeviceInfo::typical(architecture).context("an architecture without a table")?;
    let (facts, mut cases) = (info.facts(12_020), Vec::new());
    for kernel in kernels::all() {
        for (problem, whole) in problems()? {
            let space = kernel.space(&problem, &facts);
            let most = if whole { space.points().len() } else { 1 };
            for point in space.points().iter().take(most) {
                let program = Program::of(kernel.as_ref(), &problem, point)?;
                anyhow::ensure!(!program.steps.is_empty(), "{problem}: a program without steps");
                cases.push(Case { kernel: kernel.info().name, problem, setting: space.name(point), program });
            }
        }
    }
    Ok(cases)
}

/// Problems, and whether every point of a kernel is tried on them or the default alone.
fn problems() -> Result<Vec<(Problem, bool)>> {
    let mut all: Vec<(Problem, bool)> = Vec::new();
    for dtype in [DType::F32, DType::F64] {
        products(dtype, &mut all)?;
        for op in UnaryOp::ALL {
            all.push((Problem::Elementwise(Elementwise::unary(op, dtype, &[1027])?), op == UnaryOp::Gelu));
        }
        for op in BinaryOp::ALL {
            let problem = Elementwise::binary(op, dtype, &[31, 33], &[31, 33])?;
            all.push((Problem::Elementwise(problem), op == BinaryOp::Div));
        }
        for op in [ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Min, ReduceOp::Max] {
            for (shape, axis) in
                [(vec![1], None), (vec![3001], None), (vec![7, 45, 13], Some(1)), (vec![5, 130], Some(1))]
            {
                all.push((Problem::Reduce(Reduce::new(op, dtype, &shape, axis)?), true));
            }
        }
    }
    for dtype in [DType::F16, DType::Bf16] {
        for [m, n, k] in [[1, 1, 1], [33, 70, 17], [130, 20, 9], [65, 129, 40]] {
            all.push((Problem::Matmul(Matmul::new(dtype, m, n, k)?), m == 33));
        }
        let transposed = Operand { transposed: true, shared: false };
        all.push((Problem::Matmul(Matmul::batched(dtype, 2, 37, 45, 19, transposed, transposed)?), false));
        all.push((Problem::Matmul(Matmul::new(dtype, 20, 24, 300)?), false));
        all.push((Problem::Elementwise(Elementwise::unary(UnaryOp::Gelu, dtype, &[1027])?), false));
        all.push((Problem::Reduce(Reduce::new(ReduceOp::Mean, dtype, &[7, 45, 13], Some(1))?), false));
    }
    for dtype in [DType::F32, DType::F64, DType::F16] {
        for (lhs, rhs) in [(vec![31, 33], vec![33]), (vec![5, 1, 7], vec![1, 9, 1]), (vec![], vec![40])] {
            let problem = Elementwise::binary(BinaryOp::Sub, dtype, &lhs, &rhs)?;
            all.push((Problem::Elementwise(problem), lhs.len() == 2));
        }
        for (at, recipe) in RECIPES.iter().enumerate() {
            let text = format!("fused.{}", recipe.replace("DTYPE", dtype.name()));
            let problem = text.parse().map_err(|error| anyhow::anyhow!("{text}: {error}"))?;
            all.push((problem, dtype == DType::F32 && at == 3));
        }
        for (at, rows) in ROWS.iter().enumerate() {
            let text = format!("rows.{}", rows.replace("DTYPE", dtype.name()));
            let problem = text.parse().map_err(|error| anyhow::anyhow!("{text}: {error}"))?;
            all.push((problem, dtype == DType::F32 && at < 3));
        }
    }
    for dtype in [DType::F32, DType::F64, DType::F16, DType::U8] {
        for (shape, axes) in
            [(vec![33, 65], vec![1, 0]), (vec![3, 20, 40], vec![0, 2, 1]), (vec![2, 5], vec![1, 0])]
        {
            all.push((Problem::Transpose(Transpose::new(dtype, &shape, &axes)?), true));
        }
    }
    Ok(all)
}

/// Products of all layouts, with few rows or columns, with long sums, and with rows that begin at multiples of 16 bytes.
fn products(dtype: DType, all: &mut Vec<(Problem, bool)>) -> Result<()> {
    for [m, n, k] in [[1, 1, 1], [33, 70, 17], [130, 20, 9], [65, 129, 40]] {
        all.push((Problem::Matmul(Matmul::new(dtype, m, n, k)?), true));
    }
    for [m, n, k] in [[36, 40, 52], [20, 24, 300], [1, 70, 45], [70, 3, 45]] {
        all.push((Problem::Matmul(Matmul::new(dtype, m, n, k)?), k == 300 || n == 70));
    }
    let operand = |transposed| Operand { transposed, shared: false };
    for (lhs, rhs) in [(true, false), (false, true), (true, true)] {
        let problem = Matmul::batched(dtype, 1, 37, 45, 19, operand(lhs), operand(rhs))?;
        all.push((Problem::Matmul(problem), false));
    }
    all.push((Problem::Matmul(Matmul::batched(dtype, 2, 5, 61, 33, operand(false), operand(true))?), true));
    let shared = Operand { transposed: false, shared: true };
    all.push((Problem::Matmul(Matmul::batched(dtype, 3, 20, 33, 18, Operand::PLAIN, shared)?), false));
    Ok(())
}
