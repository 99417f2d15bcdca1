//! What is verified: kernels × problems that fit no tile × all legal points.

use anyhow::{Context, Result};
use trimtab_core::{
    BinaryOp, DType, Elementwise, Matmul, Operand, Problem, Reduce, ReduceOp, Transpose, UnaryOp, Work,
};
use trimtab_cuda::{DeviceInfo, Program, kernels};

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

/// The other operations, each with its types. All settings are tried of those with a star, of the others the default.
const OTHERS: [(&str, &str); 52] = [
    ("*elementwise.div:DTYPE:31x33,33", "i32"),
    ("elementwise.pow:DTYPE:301", "i32"),
    ("elementwise.mul:DTYPE:301", "i32"),
    ("elementwise.abs:DTYPE:301", "i32"),
    ("*reduce.prod:DTYPE:5x130:axis1", "f32"),
    ("reduce.prod:DTYPE:7x45x13:axis1", "f64 f16 i32"),
    ("reduce.sum:DTYPE:3001", "i32"),
    ("reduce.max:DTYPE:7x45x13:axis1", "i32"),
    ("*gather:DTYPE:30x7:axis0,count90", "f32"),
    ("gather:DTYPE:9x70x5:axis1,count30,each", "f64 f16 u8 complex128"),
    ("gather:DTYPE:300:count301,i32", "f32"),
    ("*scatter:DTYPE:30x7:axis0,count90", "f32"),
    ("scatter:DTYPE:9x20x5:axis1,count30,each,i32", "f64 i32 f16 bf16"),
    ("*mask.lt:DTYPE:31x33,33", "f32"),
    ("mask.eq:DTYPE:5x1x7,1x9x1", "f64 f16 bf16 i32"),
    ("mask.ne:DTYPE:301", "i64 u8 i8 bool"),
    ("mask.le:DTYPE:301", "i16 u32"),
    ("mask.ge:DTYPE:301", "f32"),
    ("mask.gt:DTYPE:301", "f32"),
    ("*mask.where:DTYPE:6x45,6x1,45", "f32"),
    ("mask.where:DTYPE:301", "f64 f16 u8 complex128"),
    ("*concat:DTYPE:13x4,13x5,13x0,13x31,13x1", "f32"),
    ("concat:DTYPE:13x4,13x5", "f64 f16 u8 complex128"),
    ("*put:DTYPE:9x11x13,3x4x5:at1x7x8", "f32"),
    ("put:DTYPE:9x11,3x4:at6x0,fill", "f64 f16 u8 complex128"),
    ("*transpose:DTYPE:4x5x6x7:3.1.0.2", "f32"),
    ("transpose:DTYPE:5x6x7:1.0.2", "f64 f16 u8 complex128"),
    ("*cast:f32:1001:bf16", ""),
    ("cast:f64:1001:DTYPE", "f32 f16 bf16 i32 i64 u8 bool"),
    ("cast:DTYPE:1001:f32", "f16 bf16 i32 i64 bool u8"),
    ("cast:f16:1001:DTYPE", "i8 u32 i16 f64"),
    ("cast:DTYPE:1001:bf16", "i64 u32 i32 i8"),
    ("*scan.sum:DTYPE:3001", "f32"),
    ("*scan.sum:DTYPE:7x450x3:axis1,exclusive", "f32"),
    ("scan.sum:DTYPE:3x3001", "f64 f16 i32"),
    ("scan.prod:DTYPE:3x2100", "f32 f64 i32"),
    ("scan.max:DTYPE:3x2100", "f32 f64 bf16 i32"),
    ("scan.min:DTYPE:3x130:exclusive", "f32 i32"),
    ("*sort:DTYPE:5x130", "f32"),
    ("*sort:DTYPE:3001", "f32"),
    ("sort:DTYPE:7x45x3:axis1,descending", "f64 f16 bf16 i32"),
    ("*arg.sort:DTYPE:5x130", "f32"),
    ("arg.sort:DTYPE:2100:descending", "f64 i32"),
    ("arg.top:DTYPE:6x100:axis1,count5", "f32 f16"),
    ("*arg.max:DTYPE:5x1300", "f32"),
    ("arg.min:DTYPE:7x45x3:axis1", "f64 f16 bf16 i32"),
    ("*pool.max:DTYPE:2x3x7x9:window3x2,stride2,pad1x0", "f32"),
    ("pool.mean:DTYPE:2x7x9x3:window3x3,stride2,pad1,nhwc", "f32 f64 f16 bf16"),
    ("*attention:DTYPE:2x9x37x20:causal", "f32"),
    ("attention:DTYPE:1x5x70x8x12", "f32 f64 f16 bf16"),
    ("attention:DTYPE:1x3x40x64", "f32"),
    ("attention:DTYPE:1x3x40x128", "f16"),
];

/// Convolutions: layouts, groups, windows that reach over edges, dimensions, endings; and transforms.
const WINDOWS: [(&str, &str); 18] = [
    ("*conv:DTYPE:2x3x7x9,5x3x3x3:pad1,bias,relu", "f32"),
    ("*conv:DTYPE:1x7x11x9,10x3x3x9:nhwc,pad1,bias", "f32"),
    ("conv:DTYPE:1x12x12x4,6x3x3x2:nhwc,stride2x1,pad1,dilation2,groups2,bias,gelu", "f32 f64"),
    ("conv:DTYPE:1x6x9x37,6x1x3x3:pad1,groups6", "f32 f16 bf16"),
    ("conv:DTYPE:1x2x4x5x6,9x2x2x3x1:pad1x0x2,bias,sigmoid", "f32 f64"),
    ("conv:DTYPE:1x2x31,8x2x5:stride7,pad3,dilation3", "f32"),
    ("conv:DTYPE:1x4x8x33,9x4x1x1:tanh", "f32"),
    ("*fft.forward:DTYPE:5x64", "complex64"),
    ("fft.forward:DTYPE:3x512", "complex64 complex128"),
    ("fft.inverse:DTYPE:4x8x16:2d", "complex64 complex128"),
    ("fft.forward:DTYPE:2x4x8x2:3d", "complex64"),
    ("fft.real:DTYPE:5x64", "f32 f64"),
    ("fft.real:DTYPE:3x4x32:2d", "f32 f64"),
    ("fft.real:DTYPE:7x2", "f32"),
    ("fft.inverse_real:DTYPE:5x64", "complex64 complex128"),
    ("fft.inverse_real:DTYPE:3x4x32:2d", "complex64 complex128"),
    ("fft.inverse_real:DTYPE:7x2", "complex64"),
    ("fft.inverse:DTYPE:1x2048", "complex64"),
];

pub struct Case {
    pub kernel: String,
    pub problem: Problem,
    /// The point, by the names of its settings.
    pub setting: String,
    pub program: Program,
    /// What it says of itself.
    pub work: Work,
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
                let work = kernel.work(&problem, point, &facts);
                let setting = space.name(point);
                cases.push(Case { kernel: kernel.info().name, problem, setting, program, work });
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
                let whole = dtype == DType::F32 && op == ReduceOp::Sum;
                all.push((Problem::Reduce(Reduce::new(op, dtype, &shape, axis)?), whole));
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
            let whole = dtype == DType::F32;
            all.push((Problem::Transpose(Transpose::new(dtype, &shape, &axes)?), whole));
        }
    }
    others(&mut all)?;
    Ok(all)
}

/// Problems of every type named beside them.
fn others(all: &mut Vec<(Problem, bool)>) -> Result<()> {
    for (text, types) in OTHERS.iter().chain(&WINDOWS) {
        let (whole, text) = text.strip_prefix('*').map_or((false, *text), |text| (true, text));
        // What names its types itself is there once.
        let types: Vec<&str> = if types.is_empty() { vec![""] } else { types.split(' ').collect() };
        for dtype in types {
            let text = text.replace("DTYPE", dtype);
            let problem = text.parse().map_err(|error| anyhow::anyhow!("{text}: {error}"))?;
            all.push((problem, whole));
        }
    }
    Ok(())
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
