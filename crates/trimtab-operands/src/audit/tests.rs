//! Right results pass and wrong ones do not, of every operation.

use super::*;
use crate::slice::SliceMut;
use trimtab_core::LaunchError;

/// Knows what is right without a kernel: products and recipes are computed by what compares, the rest here.
struct Plain;

impl Reference for Plain {
    fn compute(
        &self,
        problem: &Problem,
        inputs: &[Slice<'_>],
        mut out: SliceMut<'_>,
    ) -> Result<(), LaunchError> {
        let numbers = |at: usize| -> Vec<f64> {
            let data = inputs.get(at).map_or(Data::None, Slice::to_data);
            (0..data.len()).filter_map(|at| data.at(at)).collect()
        };
        let a = numbers(0);
        let values: Vec<f64> = match problem {
            Problem::Elementwise(p) => {
                let b = numbers(1);
                let place = |index: usize, varies: &dyn Fn(usize) -> bool| {
                    let (mut rest, mut place, mut stride) = (index, 0, 1);
                    for (axis, &size) in p.dims().iter().enumerate().rev() {
                        if varies(axis) {
                            place += rest % size as usize * stride;
                            stride *= size as usize;
                        }
                        rest /= size as usize;
                    }
                    place
                };
                let each = |index: usize| {
                    a[place(index, &|axis| p.lhs_varies(axis))] + b[place(index, &|axis| p.rhs_varies(axis))]
                };
                (0..p.out_len() as usize).map(each).collect()
            }
            Problem::Reduce(p) => {
                let (len, inner) = (p.len as usize, p.inner as usize);
                let sum = |at: usize| {
                    (0..len).map(|nth| a[(at / inner * len + nth) * inner + at % inner]).sum::<f64>()
                };
                (0..p.out_len() as usize).map(sum).collect()
            }
            Problem::Transpose(p) => {
                let to: Vec<usize> = p.permutation().iter().map(|&axis| usize::from(axis)).collect();
                let sizes: Vec<usize> = p.dims().iter().map(|&size| size as usize).collect();
                let from = |index: usize| {
                    let (mut rest, mut at) = (index, vec![0; sizes.len()]);
                    for &axis in to.iter().rev() {
                        at[axis] = rest % sizes[axis];
                        rest /= sizes[axis];
                    }
                    at.iter().zip(&sizes).fold(0, |index, (at, size)| index * size + at)
                };
                (0..a.len()).map(|index| a[from(index)]).collect()
            }
            _ => return Err(LaunchError::Kernel("not here".to_string())),
        };
        if let SliceMut::F32(out) = &mut out {
            out.iter_mut().zip(values).for_each(|(to, value)| *to = value as f32);
        }
        Ok(())
    }
}

/// A call and its right result; whole numbers, so that every order of summation gives the same.
fn call(problem: &Problem) -> Operands {
    let mut operands = Operands::of(problem, crate::Numbers::Whole);
    let whole: Vec<f64> = match problem {
        Problem::Matmul(p) => crate::check::Products::new::<f32>(p, &operands).0,
        Problem::Fused(p) => {
            let bounds = crate::slack::Bounds::whole(p, &operands);
            let element = |at: u64| bounds.element(at / p.inner(), at % p.inner()).0;
            let all: Vec<f64> = (0..p.len()).map(element).collect();
            match p.end() {
                None => all,
                Some((_, Over::Columns)) => {
                    all.chunks(p.inner() as usize).map(|row| row.iter().sum()).collect()
                }
                Some(_) => vec![all.iter().sum()],
            }
        }
        _ => {
            let mut out = operands.out.clone();
            Plain.compute(problem, &operands.slices(), out.slice_mut()).unwrap();
            (0..out.len()).filter_map(|at| out.at(at)).collect()
        }
    };
    operands.out = Data::of_numbers(DType::F32, &whole);
    operands
}

const PROBLEMS: [&str; 14] = [
    "matmul:f32:50x60x70",
    "matmul:f32:3x50x60x70:t,n",
    "matmul:f32:3x50x60x70:n,ts",
    "matmul:f32:1x900x30",
    "elementwise.add:f32:5000",
    "elementwise.add:f32:70x80,1x80",
    "elementwise.add:f32:70x1x9,1x80x9",
    "reduce.sum:f32:70x300:axis1",
    "reduce.sum:f32:70x300:axis0",
    "reduce.sum:f32:900:all",
    "transpose:f32:20x30x40:2.0.1",
    "fused.relu(add(mul(a,b),#0)):f32:60x50:all,columns",
    "fused.relu(add(@,c)):f32:50x60x70:n,t,columns",
    "fused.mul(a,a):f32:60x50:all:sum.columns",
];

const SHARE: Share = Share { taken: 1 << 16, computed: 1 << 13 };

fn problems() -> impl Iterator<Item = Problem> {
    PROBLEMS.iter().filter_map(|text| text.parse().ok())
}

#[test]
fn right_results_pass() {
    let mut audited = 0;
    for problem in problems() {
        let call = call(&problem);
        for _ in 0..20 {
            if let Some(audit) = Audit::of(&problem, &call.slices(), &call.out.slice(), SHARE) {
                audit.check(&Plain, None).unwrap_or_else(|failure| panic!("{problem}: {failure}"));
                audited += 1;
            }
        }
    }
    assert!(audited >= 200, "{audited}");
}

#[test]
fn results_that_are_wrong_throughout_do_not() {
    // Chains are computed by the reference alone, which this one does not have.
    let is_chain = |problem: &Problem| matches!(problem, Problem::Fused(p) if p.product().is_none());
    for problem in problems().filter(|problem| !is_chain(problem)) {
        let mut call = call(&problem);
        if let Data::F32(out) = &mut call.out {
            out.iter_mut().for_each(|value| *value += 3.0 + value.abs());
        }
        let audit = Audit::of(&problem, &call.slices(), &call.out.slice(), SHARE).unwrap();
        assert!(audit.check(&Plain, None).is_err(), "{problem}");
    }
}

#[test]
fn what_is_out_of_the_ordinary_or_too_much_is_not_judged() {
    let problem: Problem = "matmul:f32:50x60x70".parse().unwrap();
    let mut call = call(&problem);
    let little = Share { taken: 139, ..SHARE };
    assert!(
        Audit::of(&problem, &call.slices(), &call.out.slice(), little).is_none(),
        "no row and column fit"
    );
    call.inputs[0] = Data::F32(vec![f32::MAX; 50 * 70]);
    assert!(Audit::of(&problem, &call.slices(), &call.out.slice(), SHARE).is_none());
}

#[test]
fn of_a_small_problem_all_is_looked_at_where_that_is_wanted() {
    let share = Share { taken: 1 << 22, computed: 1 << 20 };
    for problem in problems().filter(|problem| !matches!(problem, Problem::Fused(p) if p.product().is_none()))
    {
        let right = call(&problem);
        for at in [0, right.out.len() / 2, right.out.len() - 1] {
            let mut wrong = right.out.clone();
            if let Data::F32(out) = &mut wrong {
                out[at] += 3.0 + out[at].abs();
            }
            // One batch of several is taken.
            let is_batch = matches!(problem, Problem::Matmul(p) if p.batch > 1);
            let audit = Audit::of(&problem, &right.slices(), &wrong.slice(), share).unwrap();
            assert!(audit.check(&Plain, None).is_err() || is_batch, "{problem} at {at}");
        }
    }
}

#[test]
fn plain_arithmetic_is_judged_on_larger_numbers_than_functions() {
    for (recipe, largest) in [
        ("relu(mul(add(a,b),a))", 1e6f32),
        ("relu(add(mul(a,#0),b))", 1e6),
        ("mul(mul(a,a),mul(b,b))", 3e4),
        ("exp(add(a,b))", 10.0),
        ("div(a,b)", 10.0),
    ] {
        let inputs = if recipe.contains('b') { "all,all" } else { "all" };
        let problem: Problem = format!("fused.{recipe}:f32:3x40:{inputs}").parse().unwrap();
        let judged = |number: f32| {
            let mut call = call(&problem);
            call.inputs[0] = Data::F32([number, -number, 0.5, 2.0].repeat(30));
            call.inputs[1] = Data::F32(vec![1.5; 120]);
            Audit::of(&problem, &call.slices(), &call.out.slice(), SHARE).is_some()
        };
        assert!(judged(0.9 * largest), "{problem}");
        assert!(!judged(1.1 * largest), "{problem}");
    }
}
