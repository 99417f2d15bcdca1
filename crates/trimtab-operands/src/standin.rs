//! Small stand-ins for a problem, on which a kernel can be checked in microseconds before it is trusted with the real one.

use trimtab_core::{
    Arg, Attention, Cast, Concat, Elementwise, ElementwiseOp, Fft, Fused, Gather, Mask, Matmul, Problem,
    Product, Put, Reduce, Rows, Scan, Scatter, Sort, Transpose,
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

/// A length of a transform at most as large as the cap: a power of two if it is one, else cut off.
fn fewer(size: u64, cap: u64, cut: fn(u64, u64) -> u64) -> u64 {
    match size.is_power_of_two() {
        true => size.min(1 << cap.max(1).ilog2()),
        false => cut(size, cap),
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
        Problem::Attention(p) => {
            let [queries, keys] = [cut(p.queries, cap), cut(p.keys, cap)];
            let queries = if p.causal { queries.min(keys) } else { queries };
            let sizes = [cut(p.batch, few), queries, keys, cut(p.depth, cap), cut(p.width, cap)];
            Attention::new(p.dtype, sizes, p.causal).ok().map(Problem::from)
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
        Problem::Arg(p) => {
            let long = if p.inner == 1 { cap.saturating_mul(cap) } else { cap };
            let shape = [cut(p.outer, 2 * few), cut(p.len, long), cut(p.inner, cap)];
            let count = p.count.min(shape[1]);
            Arg::new(p.op, p.dtype, &shape, 1, p.descending, count).ok().map(Problem::from)
        }
        Problem::Cast(p) => {
            Cast::new(p.dtype, p.to, &[cut(p.len, cap.saturating_mul(cap))]).ok().map(Problem::from)
        }
        Problem::Fft(p) => {
            // Powers of two stay such, and lengths keep some of their factors: kernels know them apart.
            let cap = if p.sizes().len() == 1 { cap.saturating_mul(4) } else { cap };
            let along = p.sizes().iter().map(|&size| fewer(size, cap, cut));
            let shape: Vec<u64> = [p.batch.min(2 * few)].into_iter().chain(along).collect();
            Fft::new(p.op, p.dtype, &shape, p.sizes().len()).ok().map(Problem::from)
        }
        Problem::Fused(p) => {
            let cap = if p.outer() == 1 { cap.saturating_mul(cap) } else { cap };
            let inputs: Vec<_> = (0..p.inputs()).map(|input| p.varies(input)).collect();
            let product = p.product().map(|product| Product { depth: cut(product.depth, cap), ..product });
            let (steps, sizes) = (p.steps().collect::<Vec<_>>(), [cut(p.outer(), cap), cut(p.inner(), cap)]);
            Fused::new(p.dtype, sizes, &steps, &inputs, product, p.end()).ok().map(Problem::from)
        }
        Problem::Gather(p) => {
            let (shape, count) = by_index([p.outer, p.len, p.inner, p.count], few, cap, cut);
            Gather::new(p.dtype, p.index, &shape, 1, count, p.each).ok().map(Problem::from)
        }
        Problem::Scatter(p) => {
            let (shape, count) = by_index([p.outer, p.len, p.inner, p.count], few, cap, cut);
            Scatter::new(p.dtype, p.index, &shape, 1, count, p.each).ok().map(Problem::from)
        }
        Problem::Mask(p) => {
            let cap = if p.dims().len() == 1 { cap.saturating_mul(cap) } else { cap };
            let shape = |place: usize| -> Vec<u64> {
                p.operand_dims(place).iter().map(|&size| cut(size, cap)).collect()
            };
            let shapes: Vec<Vec<u64>> = (0..p.operands()).map(shape).collect();
            let shapes: Vec<&[u64]> = shapes.iter().map(Vec::as_slice).collect();
            Mask::new(p.op, p.dtype, &shapes).ok().map(Problem::from)
        }
        Problem::Concat(p) => {
            let (outer, cap) =
                (cut(p.outer(), cap), if p.outer() == 1 { cap.saturating_mul(cap) } else { cap });
            let shapes: Vec<[u64; 2]> = p.parts().iter().map(|&part| [outer, cut(part, cap)]).collect();
            let shapes: Vec<&[u64]> = shapes.iter().map(<[u64; 2]>::as_slice).collect();
            Concat::new(p.dtype, &shapes, 1).ok().map(Problem::from)
        }
        Problem::Put(p) => {
            let cap = if p.dims().len() == 1 { cap.saturating_mul(cap) } else { cap };
            let (mut whole, mut block, mut first) = (Vec::new(), Vec::new(), Vec::new());
            for ((&dim, &size), &at) in p.dims().iter().zip(p.size()).zip(p.first()) {
                let (dim, size, at) = (u64::from(dim), u64::from(size), u64::from(at));
                // Before, inside and behind the block, each cut by itself.
                let [before, within, behind] = [at, size, dim - size - at].map(|part| cut(part, cap));
                whole.push(before + within + behind);
                block.push(within);
                first.push(before);
            }
            Put::new(p.dtype, &whole, &block, &first, p.fill).ok().map(Problem::from)
        }
        Problem::Custom(_) => None,
    }
}

/// Lines of fewer elements, and fewer indices.
fn by_index(sizes: [u64; 4], few: u64, cap: u64, cut: fn(u64, u64) -> u64) -> ([u64; 3], u64) {
    let [outer, len, inner, count] = sizes;
    let long = if inner == 1 { cap.saturating_mul(cap) } else { cap };
    ([cut(outer, 2 * few), cut(len, long), cut(inner, cap)], cut(count, long))
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
            "attention:f32:16x1000x2000x64x80:causal",
            "scan.sum:f32:10000000:exclusive",
            "sort:f32:1000x5000:axis0",
            "arg.top:f32:1000x5000:count7",
            "cast:f32:10000000:f16",
            "gather:f32:5000x300:axis0,count7000",
            "scatter:f32:1000000:count3000000,i32",
            "mask.lt:f32:3000x4000,4000",
            "mask.where:f32:10000000",
            "concat:f32:3000x700,3000x1,3000x2000",
            "put:f32:300x400x500,200x300x400:at50x60x70,fill",
            "fft.forward:complex64:100x1048576",
            "fft.real:f32:7x1000x3x999:3d",
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
