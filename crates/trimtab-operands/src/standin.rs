//! Small stand-ins for a problem, on which a kernel can be checked in microseconds before it is trusted with the real one.

use trimtab_core::{
    Elementwise, ElementwiseOp, Fused, Matmul, Problem, Product, Reduce, Rows, Scan, Sort, Transpose,
};

/// Largest size of a dimension in the first stand-in; odd, so that remainders are checked too.
const FIRST_SIZE: u64 = 67;
/// Factor between one stand-in and the next.
const GROWTH: u64 = 5;

/// Ever larger problems of the same sort, the last of which is the problem itself. Of every size two: one whose sizes leave the
/// remainders that the problem's leave, because settings may ask for multiples, and one whose sizes leave some.
pub(crate) fn stand_ins(problem: &Problem) -> impl Iterator<Item = Problem> + '_ {
    let mut cap = Some(FIRST_SIZE);
    let pairs = std::iter::from_fn(move || {
        let size = cap?;
        let [alike, odd] = [alike, u64::min as fn(u64, u64) -> u64]
            .map(|cut| shrink(problem, size, cut).unwrap_or(*problem));
        cap = if odd == *problem { None } else { size.checked_mul(GROWTH) };
        Some([Some(alike), Some(odd).filter(|odd| *odd != alike)])
    });
    pairs.flatten().flatten()
}

/// A size at most as large as the cap that leaves the same remainders by powers of two.
fn alike(size: u64, cap: u64) -> u64 {
    let half = 1 << (cap.max(2).ilog2() - 1);
    match size % half {
        _ if size <= cap => size,
        0 => 2 * half,
        rest => half + rest,
    }
}

/// The problem with its sizes cut off at a cap.
fn shrink(problem: &Problem, cap: u64, cut: fn(u64, u64) -> u64) -> Option<Problem> {
    let few = cap.div_ceil(FIRST_SIZE) + 2;
    match problem {
        Problem::Matmul(p) => {
            let (m, n, k) = (cut(p.m, cap), cut(p.n, cap), cut(p.k, cap));
            Matmul::batched(p.dtype, p.batch.min(few), m, n, k, p.lhs, p.rhs).ok().map(Problem::from)
        }
        Problem::Elementwise(p) => {
            // Vectors are cut later than matrices: kernels treat long rows differently.
            let cap = if p.dims().len() == 1 { cap.saturating_mul(cap) } else { cap };
            let shape = |varies: &dyn Fn(usize) -> bool| -> Vec<u64> {
                let sizes = p.dims().iter().enumerate();
                sizes.map(|(axis, &size)| if varies(axis) { cut(size, cap) } else { 1 }).collect()
            };
            let lhs = shape(&|axis| p.lhs_varies(axis));
            match p.op {
                ElementwiseOp::Unary(op) => Elementwise::unary(op, p.dtype, &lhs),
                ElementwiseOp::Binary(op) => {
                    Elementwise::binary(op, p.dtype, &lhs, &shape(&|axis| p.rhs_varies(axis)))
                }
            }
            .ok()
            .map(Problem::from)
        }
        Problem::Reduce(p) => {
            let long = if p.inner == 1 { cap.saturating_mul(cap) } else { cap };
            let shape = [cut(p.outer, 2 * few), cut(p.len, long), cut(p.inner, cap)];
            Reduce::new(p.op, p.dtype, &shape, Some(1)).ok().map(Problem::from)
        }
        Problem::Transpose(p) => {
            let shape: Vec<u64> = p.dims().iter().map(|&size| cut(size, cap)).collect();
            let permutation: Vec<usize> = p.permutation().iter().map(|&axis| usize::from(axis)).collect();
            Transpose::new(p.dtype, &shape, &permutation).ok().map(Problem::from)
        }
        Problem::Conv(p) => {
            // Every axis counts many times over: a third of the doublings each.
            let cap = cap / 4;
            Some(p.shrunk(few, |size| cut(size, cap)).into())
        }
        Problem::Pool(p) => Some(p.shrunk(few, |size| cut(size, cap / 2)).into()),
        Problem::Rows(p) => {
            let long = if p.inner == 1 { cap.saturating_mul(cap) } else { cap };
            let shape = [cut(p.outer, 2 * few), cut(p.len, long), cut(p.inner, cap)];
            let small = Rows::new(p.op, p.dtype, &shape, 1).and_then(|small| small.with(p.scaled, p.shifted));
            small.ok().map(Problem::from)
        }
        Problem::Scan(p) => {
            let long = if p.inner == 1 { cap.saturating_mul(cap) } else { cap };
            let shape = [cut(p.outer, 2 * few), cut(p.len, long), cut(p.inner, cap)];
            Scan::new(p.op, p.dtype, &shape, 1, p.exclusive).ok().map(Problem::from)
        }
        Problem::Sort(p) => {
            let long = if p.inner == 1 { cap.saturating_mul(cap) } else { cap };
            let shape = [cut(p.outer, 2 * few), cut(p.len, long), cut(p.inner, cap)];
            Sort::new(p.dtype, &shape, 1, p.descending).ok().map(Problem::from)
        }
        Problem::Fused(p) => {
            let cap = if p.outer() == 1 { cap.saturating_mul(cap) } else { cap };
            let inputs: Vec<_> = (0..p.inputs()).map(|input| p.varies(input)).collect();
            let product = p.product().map(|product| Product { depth: cut(product.depth, cap), ..product });
            let (steps, sizes) = (p.steps().collect::<Vec<_>>(), [cut(p.outer(), cap), cut(p.inner(), cap)]);
            Fused::new(p.dtype, sizes, &steps, &inputs, product, p.end()).ok().map(Problem::from)
        }
        Problem::Custom(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_ins_grow_from_small_to_the_problem_itself() {
        let problem: Problem = "matmul:f32:9x2048x2048x1:n,t".parse().unwrap();
        let shown: Vec<String> = stand_ins(&problem).map(|p| p.to_string()).collect();
        assert_eq!(shown[..2], ["matmul:f32:3x64x64x1:n,t", "matmul:f32:3x67x67x1:n,t"]);
        assert_eq!(shown.last().unwrap(), &problem.to_string());
        for text in [
            "elementwise.add:f32:1000x1000,1x1000",
            "reduce.sum:i32:7x100000x3:axis1",
            "transpose:f64:900x7x800:2.0.1",
            "fused.relu(add(mul(a,b),#0)):f32:1000x5000:all,columns",
            "fused.exp(a):f32:1x900000:all:sum",
            "fused.relu(add(@,c)):f32:500x600x700:n,t,columns",
            "conv:f32:8x256x56x56,512x128x3x3:pad1,groups2,bias,relu",
            "pool.max:f32:8x256x56x56:window3x3,stride2,pad1",
            "rows.layer_norm:f32:1000x5000:scale,shift",
            "scan.sum:f32:10000000:exclusive",
            "sort:f32:1000x5000:axis0",
            "custom.x:9",
        ] {
            let problem: Problem = text.parse().unwrap();
            let all: Vec<Problem> = stand_ins(&problem).collect();
            assert_eq!(all.last(), Some(&problem));
            assert!(all.len() < 80 && all.iter().all(|p| p.operation() == problem.operation()));
        }
    }

    #[test]
    fn of_two_stand_ins_one_leaves_the_remainders_of_the_problem() {
        for size in [1u64, 66, 68, 100, 1000, 1024, 1027, 4096, 100_000, 1_000_003] {
            for cap in [67, 335, 4489] {
                let small = alike(size, cap);
                assert!(small <= cap.min(size) && (small == size || small % 16 == size % 16), "{size} {cap}");
            }
        }
        let problem: Problem = "elementwise.add:f32:100000".parse().unwrap();
        let shown: Vec<String> = stand_ins(&problem).take(2).map(|p| p.to_string()).collect();
        assert_eq!(shown, ["elementwise.add:f32:3744", "elementwise.add:f32:4489"]);
    }
}
