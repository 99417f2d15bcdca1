//! Small stand-ins for a problem, on which a kernel can be checked in microseconds before it is trusted with the real one.

use trimtab_core::{Elementwise, ElementwiseOp, Fused, Matmul, Problem, Product, Reduce, Transpose};

/// Largest size of a dimension in the first stand-in; odd, so that remainders are checked too.
const FIRST_SIZE: u64 = 67;
/// Factor between one stand-in and the next.
const GROWTH: u64 = 5;

/// Ever larger problems of the same sort, the last of which is the problem itself.
pub fn stand_ins(problem: &Problem) -> impl Iterator<Item = Problem> + '_ {
    let mut cap = Some(FIRST_SIZE);
    std::iter::from_fn(move || {
        let size = cap?;
        let smaller = shrink(problem, size).unwrap_or(*problem);
        cap = if smaller == *problem { None } else { size.checked_mul(GROWTH) };
        Some(smaller)
    })
}

fn shrink(problem: &Problem, cap: u64) -> Option<Problem> {
    let few = cap.div_ceil(FIRST_SIZE) + 2;
    match problem {
        Problem::Matmul(p) => {
            let (m, n, k) = (p.m.min(cap), p.n.min(cap), p.k.min(cap));
            Matmul::batched(p.dtype, p.batch.min(few), m, n, k, p.lhs, p.rhs).ok().map(Problem::from)
        }
        Problem::Elementwise(p) => {
            // Vectors are cut later than matrices: kernels treat long rows differently.
            let cap = if p.dims().len() == 1 { cap.saturating_mul(cap) } else { cap };
            let shape = |varies: &dyn Fn(usize) -> bool| -> Vec<u64> {
                let sizes = p.dims().iter().enumerate();
                sizes.map(|(axis, &size)| if varies(axis) { size.min(cap) } else { 1 }).collect()
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
            let shape = [p.outer.min(few), p.len.min(cap.saturating_mul(cap)), p.inner.min(cap)];
            Reduce::new(p.op, p.dtype, &shape, Some(1)).ok().map(Problem::from)
        }
        Problem::Transpose(p) => {
            let shape: Vec<u64> = p.dims().iter().map(|&size| size.min(cap)).collect();
            let permutation: Vec<usize> = p.permutation().iter().map(|&axis| usize::from(axis)).collect();
            Transpose::new(p.dtype, &shape, &permutation).ok().map(Problem::from)
        }
        Problem::Fused(p) => {
            let cap = if p.outer() == 1 { cap.saturating_mul(cap) } else { cap };
            let inputs: Vec<_> = (0..p.inputs()).map(|input| p.varies(input)).collect();
            let product = p.product().map(|product| Product { depth: product.depth.min(cap), ..product });
            let (steps, sizes) = (p.steps().collect::<Vec<_>>(), [p.outer().min(cap), p.inner().min(cap)]);
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
        assert_eq!(shown.first().unwrap(), "matmul:f32:3x67x67x1:n,t");
        assert_eq!(shown.last().unwrap(), &problem.to_string());
        for text in [
            "elementwise.add:f32:1000x1000,1x1000",
            "reduce.sum:i32:7x100000x3:axis1",
            "transpose:f64:900x7x800:2.0.1",
            "fused.relu(add(mul(a,b),#0)):f32:1000x5000:all,columns",
            "fused.exp(a):f32:1x900000:all:sum",
            "fused.relu(add(@,c)):f32:500x600x700:n,t,columns",
            "custom.x:9",
        ] {
            let problem: Problem = text.parse().unwrap();
            let all: Vec<Problem> = stand_ins(&problem).collect();
            assert_eq!(all.last(), Some(&problem));
            assert!(all.len() < 40 && all.iter().all(|p| p.operation() == problem.operation()));
        }
    }
}
