//! Random recipes on every kernel at every point against a naive evaluator written here: to the bit where all operations
//! are exact, infinities and what is not a number among the operands.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

use proptest::prelude::*;
use proptest::sample::select;
use std::sync::OnceLock;
use trimtab_core::{
    BinaryOp, DType, Device, Fused, KernelId, LaunchError, MAX_INPUTS, MAX_NUMBERS, MAX_STEPS, MAX_WAITING,
    Operation, Over, Point, Problem, Product, ReduceOp, Step, UnaryOp, VariantClass, Varies,
};
use trimtab_cpu::{CpuDevice, CpuOptions, Element, Slice};

/// Steps drawn as numbers, made to a recipe that leaves one value whatever they are.
fn steps(draws: &[(u8, u8)], inputs: usize, product: bool, float: bool) -> Vec<Step> {
    let unary: &[UnaryOp] = match float {
        true => &[UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Relu, UnaryOp::Sqrt],
        false => &[UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Relu],
    };
    let binary: &[BinaryOp] = match float {
        true => &[BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div, BinaryOp::Min, BinaryOp::Max],
        false => &[BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Min, BinaryOp::Max],
    };
    let own = if product { 2 } else { 0 };
    // Every input and the product at least once, folded together; then what was drawn.
    let mut steps: Vec<Step> = (own..inputs).map(|input| Step::Input(input as u8)).collect();
    if product {
        steps.insert(0, Step::Product);
    }
    let mut waiting = steps.len();
    let mut numbers = 0;
    for &(kind, which) in draws {
        // Room for the operations that bring it down to one value.
        if steps.len() + waiting + 1 >= MAX_STEPS {
            break;
        }
        match kind % 5 {
            0 if waiting < MAX_WAITING && own < inputs => {
                steps.push(Step::Input((own + usize::from(which) % (inputs - own)) as u8));
                waiting += 1;
            }
            1 if waiting < MAX_WAITING => {
                let number = usize::from(which) % (numbers + 1).min(MAX_NUMBERS);
                numbers = numbers.max(number + 1);
                steps.push(Step::Number(number as u8));
                waiting += 1;
            }
            2 if waiting > 1 => {
                steps.push(Step::Binary(binary[usize::from(which) % binary.len()]));
                waiting -= 1;
            }
            3 if product && waiting < MAX_WAITING => {
                steps.push(Step::Product);
                waiting += 1;
            }
            _ => steps.push(Step::Unary(unary[usize::from(which) % unary.len()])),
        }
    }
    steps.extend((1..waiting).map(|at| Step::Binary(binary[at % binary.len()])));
    steps
}

/// A drawn problem; sizes that shape programs differently: shorter and longer than vectors and blocks.
fn problem() -> impl Strategy<Value = Fused> {
    let sizes = || select(vec![1u64, 2, 3, 7, 16, 17, 63, 64, 65, 127, 128, 129, 200, 300]);
    let varies = select(vec![Varies::All, Varies::Rows, Varies::Columns, Varies::Nowhere]);
    let drawn = (
        select(vec![DType::F32, DType::F64, DType::I32]),
        (sizes(), sizes()),
        proptest::collection::vec(varies, 1..=MAX_INPUTS),
        proptest::collection::vec((any::<u8>(), any::<u8>()), 0..MAX_STEPS),
        (0u8..4, select(vec![0u64, 1, 5, 9]), any::<(bool, bool)>()),
        (0u8..6, select(vec![ReduceOp::Min, ReduceOp::Max, ReduceOp::Sum]), 0u8..3),
    );
    drawn.prop_filter_map("not a recipe", |(dtype, (outer, inner), mut varies, draws, product, end)| {
        let float = dtype.is_float();
        let product = (float && product.0 == 0).then_some(Product {
            depth: product.1,
            lhs_transposed: product.2.0,
            rhs_transposed: product.2.1,
        });
        if product.is_some() && varies.len() < 2 {
            varies.push(Varies::All);
        }
        let over = [Over::All, Over::Rows, Over::Columns][usize::from(end.2)];
        let whole = end.1 == ReduceOp::Sum && !float;
        let end = (end.0 < 2 && product.is_none() && !whole).then_some((end.1, over));
        let steps = steps(&draws, varies.len(), product.is_some(), float);
        Fused::new(dtype, [outer, inner], &steps, &varies, product, end).ok()
    })
}

/// Arithmetic as the documentation says it.
trait Number: Element {
    fn unary(op: UnaryOp, a: Self) -> Self;
    fn binary(op: BinaryOp, a: Self, b: Self) -> Self;
    /// The same value: to the bit, but for what is not a number.
    fn same(a: Self, b: Self) -> bool;
    /// Elements of operands: small numbers, and now and then a special one.
    fn element(at: usize, salt: usize) -> Self;
}

fn mixed(at: usize, salt: usize) -> u64 {
    let mut word = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ (salt as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word ^= word >> 29;
    word.wrapping_mul(0x94d0_49bb_1331_11eb) >> 20
}

macro_rules! floats {
    ($($type:ident),*) => {
        $(impl Number for $type {
            fn unary(op: UnaryOp, a: $type) -> $type {
                match op {
                    UnaryOp::Neg => -a,
                    UnaryOp::Abs => a.abs(),
                    UnaryOp::Relu => if a < 0.0 { 0.0 } else { a },
                    UnaryOp::Sqrt => a.sqrt(),
                    other => unreachable!("{other:?} is not exact"),
                }
            }
            fn binary(op: BinaryOp, a: $type, b: $type) -> $type {
                match op {
                    BinaryOp::Add => a + b,
                    BinaryOp::Sub => a - b,
                    BinaryOp::Mul => a * b,
                    BinaryOp::Div => a / b,
                    BinaryOp::Min => if a.is_nan() || a < b { a } else { b },
                    BinaryOp::Max => if a.is_nan() || a > b { a } else { b },
                    BinaryOp::Pow => unreachable!("not exact"),
                }
            }
            fn same(a: $type, b: $type) -> bool {
                a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
            }
            fn element(at: usize, salt: usize) -> $type {
                match mixed(at, salt) % 97 {
                    0 => $type::NAN,
                    1 => $type::INFINITY,
                    2 => $type::NEG_INFINITY,
                    3 => -0.0,
                    4 => 0.0,
                    other => (other as $type - 50.0) / 8.0,
                }
            }
        })*
    };
}
floats!(f32, f64);

impl Number for i32 {
    fn unary(op: UnaryOp, a: i32) -> i32 {
        match op {
            UnaryOp::Neg => a.wrapping_neg(),
            UnaryOp::Abs => a.wrapping_abs(),
            UnaryOp::Relu => a.max(0),
            other => unreachable!("{other:?} is not of integers"),
        }
    }
    fn binary(op: BinaryOp, a: i32, b: i32) -> i32 {
        match op {
            BinaryOp::Add => a.wrapping_add(b),
            BinaryOp::Sub => a.wrapping_sub(b),
            BinaryOp::Mul => a.wrapping_mul(b),
            BinaryOp::Min => a.min(b),
            BinaryOp::Max => a.max(b),
            other => unreachable!("{other:?} is not of integers"),
        }
    }
    fn same(a: i32, b: i32) -> bool {
        a == b
    }
    fn element(at: usize, salt: usize) -> i32 {
        match mixed(at, salt) % 53 {
            0 => i32::MIN,
            1 => i32::MAX,
            other => other as i32 - 25,
        }
    }
}

/// Every value before the reduction.
fn naive<T: Number>(recipe: &Fused, inputs: &[Vec<T>]) -> Vec<T> {
    let (outer, inner) = (recipe.outer() as usize, recipe.inner() as usize);
    let mut values = Vec::with_capacity(outer * inner);
    for row in 0..outer {
        for column in 0..inner {
            let mut waiting: Vec<T> = Vec::new();
            for step in recipe.steps() {
                let value = match step {
                    Step::Input(input) => {
                        let varies = recipe.varies(input.into());
                        let stride = if varies.inner() { inner } else { 1 };
                        let at =
                            usize::from(varies.outer()) * row * stride + usize::from(varies.inner()) * column;
                        inputs[usize::from(input)][at]
                    }
                    Step::Number(number) => inputs[recipe.inputs()][usize::from(number)],
                    Step::Product => {
                        let product = recipe.product().unwrap();
                        let depth = product.depth as usize;
                        let sum = (0..depth).map(|p| {
                            let lhs = if product.lhs_transposed { p * outer + row } else { row * depth + p };
                            let rhs =
                                if product.rhs_transposed { column * depth + p } else { p * inner + column };
                            inputs[0][lhs].to_f64() * inputs[1][rhs].to_f64()
                        });
                        T::from_f64(sum.fold(0.0, |sum, term| sum + term))
                    }
                    Step::Unary(op) => T::unary(op, waiting.pop().unwrap()),
                    Step::Binary(op) => {
                        let right = waiting.pop().unwrap();
                        T::binary(op, waiting.pop().unwrap(), right)
                    }
                };
                waiting.push(value);
            }
            values.push(waiting[0]);
        }
    }
    values
}

/// Whether a reduced element is right: exactly, but for sums, whose order is free.
fn reduced_right<T: Number>(op: ReduceOp, values: impl Iterator<Item = T> + Clone, found: T) -> bool {
    match op {
        ReduceOp::Min | ReduceOp::Max => {
            let op = if op == ReduceOp::Min { BinaryOp::Min } else { BinaryOp::Max };
            let wanted = values.reduce(|a, b| T::binary(op, a, b)).unwrap().to_f64();
            // Of two zeros either may be kept.
            wanted == found.to_f64() || (wanted.is_nan() && found.to_f64().is_nan())
        }
        _ => {
            let (sum, size, count) = values.fold((0.0, 0.0, 64.0), |(sum, size, count), x| {
                (sum + x.to_f64(), size + x.to_f64().abs(), count + 1.0)
            });
            // Parts of a sum may overflow, or not, by their order; what is near the end of the range proves nothing.
            // The plain sum here is no better in f64 than one rounding a term.
            let allowed = match T::DTYPE {
                DType::F64 => f64::EPSILON * count,
                _ => f64::from(f32::EPSILON) * 64.0,
            };
            let found = found.to_f64();
            (sum.is_nan() && found.is_nan())
                || sum == found
                || size.is_infinite() && !sum.is_finite() && !found.is_finite()
                || size > 1e30
                || (sum - found).abs() <= allowed * size
        }
    }
}

fn agrees<T: Number>(device: &CpuDevice, recipe: &Fused) -> Result<u32, TestCaseError> {
    let problem = Problem::from(*recipe);
    let own = if recipe.product().is_some() { 2 } else { 0 };
    let inputs: Vec<Vec<T>> = problem
        .input_lens()
        .as_slice()
        .iter()
        .enumerate()
        .map(|(place, &len)| {
            // A product is exact in every order where its operands are small whole numbers. None is zero: the sign of a
            // zero depends on how a sum begins.
            let whole = |at: usize| {
                T::from_f64([-4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0][mixed(at, place) as usize % 8])
            };
            (0..len as usize).map(|at| if place < own { whole(at) } else { T::element(at, place) }).collect()
        })
        .collect();
    let values = naive(recipe, &inputs);
    let slices: Vec<Slice<'_>> = inputs.iter().map(|input| T::erase(input)).collect();
    let (outer, inner) = (recipe.outer() as usize, recipe.inner() as usize);
    let mut runs = 0;
    for (number, info) in device.kernels().iter().enumerate() {
        let kernel = KernelId(number as u32);
        if info.operation != Operation::Fused || device.declines(kernel, &problem).is_some() {
            continue;
        }
        for point in device.space(kernel, &problem).points() {
            let mut out = vec![T::from_f64(-77_777.0); recipe.out_len() as usize];
            device.launch(kernel, &problem, point, &slices, T::erase_mut(&mut out)).unwrap();
            runs += 1;
            for (at, &found) in out.iter().enumerate() {
                let right = match recipe.end() {
                    None => T::same(found, values[at]),
                    Some((op, Over::All)) => reduced_right(op, values.iter().copied(), found),
                    Some((op, Over::Columns)) => {
                        reduced_right(op, values[at * inner..(at + 1) * inner].iter().copied(), found)
                    }
                    Some((op, Over::Rows)) => {
                        reduced_right(op, (0..outer).map(|row| values[row * inner + at]), found)
                    }
                };
                let wanted = values.get(at);
                prop_assert!(
                    right,
                    "{problem} {} {point:?}: element {at} is {found}, naive {wanted:?}",
                    info.name
                );
            }
        }
    }
    Ok(runs)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_recipes_give_what_a_naive_evaluator_gives(recipe in problem()) {
        static DEVICE: OnceLock<CpuDevice> = OnceLock::new();
        let device = DEVICE.get_or_init(|| CpuDevice::new(CpuOptions { blas: Some(vec![]), ..CpuOptions::default() }));
        let runs = match recipe.dtype {
            DType::F64 => agrees::<f64>(device, &recipe)?,
            DType::I32 => agrees::<i32>(device, &recipe)?,
            _ => agrees::<f32>(device, &recipe)?,
        };
        prop_assert!(runs > 1, "only the reference takes {}", recipe);
    }
}

#[test]
fn wrong_operands_and_wrong_settings_are_refused_with_their_name() {
    let device = CpuDevice::new(CpuOptions { blas: Some(vec![]), ..CpuOptions::default() });
    let problem: Problem = "fused.add(mul(a,#0),b):f32:4x8:all,columns".parse().unwrap();
    let multiplied: Problem = "fused.add(mul(@,#0),c):f32:4x8x4:n,n,columns".parse().unwrap();
    let (all, row, short, number) = ([1.0f32; 32], [1.0f32; 8], [1.0f32; 7], [2.0f32]);
    let wide = [1.0f64; 8];
    let of = |slice: &'static str| match slice {
        "all" => Slice::F32(&all),
        "row" => Slice::F32(&row),
        "wide" => Slice::F64(&wide),
        "number" => Slice::F32(&number),
        _ => Slice::F32(&short),
    };
    let mut tried = 0;
    for (number, info) in device.kernels().iter().enumerate() {
        let kernel = KernelId(number as u32);
        for (problem, first) in [(&problem, vec!["all"]), (&multiplied, vec!["sixteen", "all"])] {
            if info.operation != Operation::Fused || device.declines(kernel, problem).is_some() {
                continue;
            }
            let sixteen = [1.0f32; 16];
            let launch = |rest: &[&'static str], point: &Point| {
                let first =
                    first.iter().map(|&name| if name == "sixteen" { Slice::F32(&sixteen) } else { of(name) });
                let inputs: Vec<Slice<'_>> = first.chain(rest.iter().map(|&name| of(name))).collect();
                let mut out = [0.0f32; 32];
                device.launch(kernel, problem, point, &inputs, trimtab_cpu::SliceMut::F32(&mut out))
            };
            let point = device.space(kernel, problem).points()[0];
            assert_eq!(launch(&["row", "number"], &point), Ok(()), "{}", info.name);
            let last = ["b", "c"][first.len() - 1];
            for (rest, wrong) in [
                (&["short", "number"][..], last),
                (&["wide", "number"], last),
                (&["row"], "numbers"),
                (&["row", "row"], "numbers"),
            ] {
                match launch(rest, &point) {
                    Err(LaunchError::Operand { operand, .. }) => assert_eq!(operand, wrong, "{}", info.name),
                    other => unreachable!("{}: {other:?}", info.name),
                }
            }
            if info.class != VariantClass::Reference {
                let nonsense = Point::new(&vec![3; point.values().len()]);
                let told = launch(&["row", "number"], &nonsense);
                // A panel of three rows on three threads is no nonsense.
                let legal = info.name == "cpu.fused.gemm";
                assert!(legal || matches!(told, Err(LaunchError::Point(_))), "{}: {told:?}", info.name);
            }
            tried += 1;
        }
    }
    assert_eq!(tried, 5, "the reference takes both");
}
