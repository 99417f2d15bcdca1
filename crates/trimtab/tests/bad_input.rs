//! Bad and extreme input: a clear error or the mathematically right answer, never a panic or a wrong result.

mod support;

use support::{message, numbers, read, runtime};
use trimtab::advanced::core::{BinaryOp, Matmul, Problem, ReduceOp, UnaryOp};
use trimtab::{Axis, Error, Tensor};

#[test]
fn shapes_that_do_not_fit_are_errors_that_say_why() {
    let rt = runtime();
    let (a, b) = (numbers::<f32>(&[2, 3]), numbers::<f32>(&[4, 5]));
    message(
        rt.matmul(&a, &b),
        &["matmul", "[2, 3]", "[4, 5]", "the left has 3 columns, the right has 4 rows"],
    );
    message(rt.matmul(&a, &Tensor::scalar(1.0)), &["a number has no rows", "use mul"]);
    message(rt.matmul(&numbers::<f32>(&[3]), &numbers(&[2])), &["3 columns", "2 rows"]);
    message(
        rt.matmul(&numbers::<f32>(&[2, 3, 4]), &numbers(&[3, 4, 5])),
        &["leading axes must be equal or one"],
    );
    let mut out = Tensor::zeros(&[3, 2]).unwrap();
    message(rt.matmul_into(&a, &a.transposed(), &mut out), &["output has shape [3, 2]", "[2, 2]"]);
    let mut flat = Tensor::zeros(&[4]).unwrap();
    message(rt.matmul_into(&a, &numbers(&[3, 2]), &mut flat), &["output has shape [4]", "[2, 2]"]);
    message(rt.matmul_into(&a, &b, &mut out), &["the left has 3 columns"]);
    message(rt.add(&a, &b), &["[2, 3]", "[4, 5]", "neither equal nor one"]);
    message(rt.add(&numbers::<f32>(&[0]), &numbers::<f32>(&[2])), &["sizes 0 and 2"]);
    message(rt.sum(&a, 2), &["there is no such axis", "[2, 3]"]);
    message(rt.sum(&Tensor::scalar(1.0f32), 0), &["there is no such axis"]);
    message(rt.permute(&a, &[0]), &["axes [0] do not name every axis of shape [2, 3] once"]);
    message(rt.permute(&a, &[1, 1]), &["axes [1, 1]"]);
    message(rt.permute(&a, &[0, usize::MAX]), &["do not name every axis"]);
    message(a.slice(1, 2..9), &["range 2..9 along axis 1 is not inside shape [2, 3]"]);
    message(a.slice(5, 0..1), &["axis 5"]);
    #[expect(clippy::reversed_empty_ranges, reason = "it is the bad input")]
    let backwards = 2..1;
    message(a.slice(0, backwards), &["range 2..1"]);
    message(a.slice(0, usize::MAX - 1..usize::MAX), &["not inside shape"]);
    message(a.reshaped(&[5]), &["shape [5] needs 5 elements, there are 6"]);
    message(a.broadcast_to(&[3]), &["shape [2, 3] cannot be repeated to [3]"]);
    message(a.broadcast_to(&[3, 3]), &["cannot be repeated to [3, 3]"]);
    message(a.item(), &["needs 1 elements, there are 6"]);
    message(Tensor::from_vec(vec![1.0f32], &[2, 2]), &["shape [2, 2] needs 4 elements, there are 1"]);
    assert_eq!(a.get(&[2, 0]), None);
    assert_eq!(a.get(&[0]), None);
    assert_eq!(a.get(&[usize::MAX, usize::MAX]), None);
    assert_eq!(a.get(&[usize::MAX / 2 + 2, 0]), None);
}

#[test]
fn sizes_that_overflow_are_errors_and_zeros_among_them_are_empty() {
    let rt = runtime();
    let big = usize::MAX;
    message(Tensor::<f32>::zeros(&[big, 2]), &["more bytes than this machine can address"]);
    message(Tensor::<f32>::zeros(&[big]), &["more bytes than this machine can address"]);
    message(Tensor::from_vec(vec![1.0f32], &[big, big]), &["can address"]);
    message(Tensor::<f32>::zeros(&[1 << 60]), &["memory are not to be had"]);
    let one = Tensor::full(&[1], 1.0f32).unwrap();
    let huge = one.broadcast_to(&[1 << 58]).unwrap();
    message(rt.sum(&huge, Axis::All), &["memory are not to be had"]);
    message(rt.add(&huge, 1.0), &["memory are not to be had"]);
    message(rt.exp(&huge), &["memory are not to be had"]);
    message(rt.contiguous(&huge), &["memory are not to be had"]);
    message(rt.matmul(&huge, &huge), &["memory are not to be had"]);
    let (tall, wide) = (one.broadcast_to(&[1 << 33, 1]).unwrap(), one.broadcast_to(&[1, 1 << 33]).unwrap());
    message(rt.add(&tall, &wide), &["more bytes than this machine can address"]);
    message(rt.matmul(&tall, &wide), &["more bytes than this machine can address"]);
    message(one.broadcast_to(&[big, big]), &["can address"]);
    // Sizes beside a zero must be addressable too, so that no product of some of them overflows.
    for shape in [[big, big, 0], [0, big, big], [big, 0, big]] {
        message(Tensor::<f64>::zeros(&shape), &["more bytes than this machine can address"]);
    }
    for shape in [[1 << 20, 1 << 30, 0], [0, 1 << 20, 1 << 30], [1 << 30, 0, 1 << 20]] {
        let empty = Tensor::<f64>::zeros(&shape).unwrap();
        assert_eq!((empty.len(), empty.to_vec().len(), empty.is_empty()), (0, 0, true));
        assert_eq!(rt.neg(&empty).unwrap().shape(), shape);
        assert_eq!(rt.add(&empty, 1.0).unwrap().shape(), shape);
        assert_eq!(rt.transpose(&empty).unwrap().len(), 0);
        assert_eq!(rt.sum(&empty, Axis::All).unwrap().item().unwrap(), 0.0);
        assert!(format!("{empty:?}").contains("f64"));
        for (axis, size) in shape.into_iter().enumerate() {
            // Where the zero is reduced away, the result has 2^50 zeros; else it is empty too.
            match size {
                0 => message(rt.sum(&empty, axis), &["memory are not to be had"]),
                _ => assert!(rt.sum(&empty, axis).unwrap().is_empty()),
            }
        }
        if let Ok(product) = rt.matmul(&empty, &empty.permuted(&[0, 2, 1]).unwrap()) {
            assert!(product.is_empty());
        }
    }
}

#[test]
fn problems_with_overflowing_sizes_are_refused_or_empty_in_every_form() {
    for text in [
        "matmul:f32:18446744073709551615x2x2",
        "matmul:f32:4294967296x4294967296x1",
        "matmul:f64:99999999999x1x99999999999",
        "elementwise.add:f32:4294967296x1,1x4294967296",
        "elementwise.neg:f64:18446744073709551615",
        "reduce.sum:f32:4294967296x4294967296:axis0",
        "transpose:i32:4294967296x4294967296",
        "matmul:f32:0x4294967296x4294967296x4294967296",
        "elementwise.add:f32:1x0,4294967296x4294967296x1x1",
        "elementwise.add:f32:4294967296x1x0,1x4294967296x0",
        "elementwise.neg:f32:4294967296x4294967296x0",
        "reduce.sum:f32:4294967296x4294967296x0:axis1",
        "transpose:i32:4294967296x4294967296x0",
    ] {
        let error = text.parse::<Problem>().unwrap_err().to_string();
        assert!(error.contains("more bytes than this machine can address"), "{text}: {error}");
    }
    for text in [
        "matmul:f32:0x4294967296x8x1024",
        "elementwise.add:f32:1048576x1x0,1x1048576x0",
        "elementwise.neg:f32:1048576x1048576x0",
        "reduce.sum:f32:1048576x1048576x0:axis1",
        "transpose:i32:1048576x1048576x0",
    ] {
        let problem: Problem = text.parse().unwrap();
        assert_eq!(problem.out_len(), 0, "{text}");
        assert!(problem.operand_bytes().0 < 1 << 40, "{text}");
        let trial = runtime().try_problem(&problem).unwrap();
        assert_eq!(trial.check, Ok(()), "{text}");
    }
    let large: Problem = "elementwise.add:f32:1152921504606846976".parse().unwrap();
    message(runtime().try_problem(&large), &["memory are not to be had"]);
}

#[test]
fn too_many_dimensions_are_an_error_or_are_handled() {
    let rt = runtime();
    message(Tensor::<f32>::zeros(&[1; 9]), &["more than 8 dimensions"]);
    message(numbers::<f32>(&[2]).broadcast_to(&[1, 1, 1, 1, 1, 1, 1, 1, 2]), &["more than 8 dimensions"]);
    let (a, b) = (numbers::<f32>(&[2, 1, 2, 1, 2, 1, 2]), numbers::<f32>(&[1, 2, 1, 2, 1, 2, 1]));
    message(rt.add(&a, &b), &["keeps more than 6 dimensions", "contiguous"]);
    // Eight axes that all move are more than the problem holds; the copy is made anyway.
    let tensor = numbers::<i32>(&[2, 3, 2, 2, 2, 2, 3, 2]);
    let moved = tensor.permuted(&[7, 5, 3, 1, 6, 4, 2, 0]).unwrap();
    assert_eq!(rt.contiguous(&moved).unwrap().to_vec(), moved.to_vec());
    assert_eq!(read(&rt.neg(&moved).unwrap()), read(&moved).iter().map(|x| 0.0 - x).collect::<Vec<_>>());
    assert_eq!(rt.transpose(&tensor).unwrap().shape(), [2, 3, 2, 2, 2, 2, 3, 2]);
    let batches = Tensor::<f32>::full(&[1, 1, 1, 1, 1, 1, 2, 2], 1.0).unwrap();
    assert_eq!(rt.matmul(&batches, &batches).unwrap().to_vec(), [2.0; 4]);
}

#[test]
fn nan_and_infinity_go_where_arithmetic_sends_them() {
    let rt = runtime();
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    // Long enough for vector paths and their remainders, with the odd one out at every sort of place.
    for len in [1, 2, 7, 33, 1025] {
        for place in [0, len / 2, len - 1] {
            let mut x = vec![1.0f32; len];
            x[place] = nan;
            let x = Tensor::from(x);
            for op in ReduceOp::ALL {
                assert!(
                    rt.reduce(op, &x, Axis::All).unwrap().item().unwrap().is_nan(),
                    "{op:?} {len} {place}"
                );
            }
            for op in UnaryOp::ALL {
                let out = rt.unary(op, &x).unwrap().to_vec();
                assert!(out[place].is_nan(), "{op:?} {len} {place}");
                assert_eq!(out.iter().filter(|y| y.is_nan()).count(), 1, "{op:?} {len} {place}");
            }
            for op in
                [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div, BinaryOp::Min, BinaryOp::Max]
            {
                assert!(rt.binary(op, &x, 2.0).unwrap().to_vec()[place].is_nan(), "{op:?} {len} {place}");
                assert!(rt.binary(op, 2.0, &x).unwrap().to_vec()[place].is_nan(), "{op:?} {len} {place}");
            }
            let row = rt.matmul(&x, &Tensor::full(&[len, 2], 0.0f32).unwrap()).unwrap();
            assert!(row.to_vec().iter().all(|y| y.is_nan()));
        }
    }
    let x = Tensor::from(vec![inf, -inf, 0.0, -1.0]);
    let all = |tensor: Result<Tensor<f32>, Error>| tensor.unwrap().to_vec();
    assert_eq!(all(rt.exp(&x))[..3], [inf, 0.0, 1.0]);
    assert_eq!(all(rt.tanh(&x))[..3], [1.0, -1.0, 0.0]);
    assert_eq!(all(rt.sigmoid(&x))[..3], [1.0, 0.0, 0.5]);
    assert_eq!(all(rt.relu(&x)), [inf, 0.0, 0.0, 0.0]);
    assert_eq!(all(rt.gelu(&x))[..3], [inf, 0.0, 0.0]);
    let log = all(rt.log(&x));
    assert!(log[0] == inf && log[1].is_nan() && log[2] == -inf && log[3].is_nan(), "{log:?}");
    let sqrt = all(rt.sqrt(&x));
    assert!(sqrt[0] == inf && sqrt[1].is_nan() && sqrt[2] == 0.0 && sqrt[3].is_nan(), "{sqrt:?}");
    let over = all(rt.div(1.0, &x));
    assert!(over[..3] == [0.0, 0.0, inf] && over[1].is_sign_negative(), "{over:?}");
    assert!(all(rt.div(&x, &x))[2].is_nan());
    assert_eq!(rt.sum(&x.slice(0, 0..1).unwrap(), Axis::All).unwrap().item().unwrap(), inf);
    assert!(rt.sum(&x, Axis::All).unwrap().item().unwrap().is_nan());
    assert_eq!(rt.min(&x, Axis::All).unwrap().item().unwrap(), -inf);
    let zero_times_inf = rt.matmul(&Tensor::full(&[2, 2], inf).unwrap(), &Tensor::zeros(&[2, 2]).unwrap());
    assert!(all(zero_times_inf).iter().all(|y| y.is_nan()));
}

#[test]
fn integer_sums_and_products_are_exact_or_an_overflow_error() {
    let rt = runtime();
    for len in [2usize, 33, 70_001] {
        let ones = Tensor::full(&[len], 1i32).unwrap();
        let mut too_much = ones.clone();
        too_much.as_mut_slice()[len / 2] = i32::MAX;
        message(rt.sum(&too_much, Axis::All), &["does not fit in i32", "f64"]);
        too_much.as_mut_slice()[0] = 2;
        message(rt.prod(&too_much, Axis::All), &["does not fit in i32"]);
        assert_eq!(rt.sum(&ones, Axis::All).unwrap().item().unwrap(), len as i32);
        assert_eq!(rt.prod(&ones, Axis::All).unwrap().item().unwrap(), 1);
    }
    let there_and_back =
        Tensor::from_fn(&[1000], |index| if index < 500 { i32::MAX } else { -i32::MAX }).unwrap();
    assert_eq!(rt.sum(&there_and_back, Axis::All).unwrap().item().unwrap(), 0);
    let mut zeroed = Tensor::full(&[1000], i32::MAX).unwrap();
    message(rt.prod(&zeroed, Axis::All), &["does not fit in i32"]);
    zeroed.as_mut_slice()[999] = 0;
    assert_eq!(rt.prod(&zeroed, Axis::All).unwrap().item().unwrap(), 0);
    message(rt.sum(&Tensor::full(&[2, 3], i32::MIN).unwrap(), 0), &["does not fit in i32"]);
    assert_eq!(rt.sum(&Tensor::full(&[1, 3], i32::MIN).unwrap(), 0).unwrap().to_vec(), [i32::MIN; 3]);
    message(rt.reduce(ReduceOp::Mean, &zeroed, Axis::All), &["mean is not defined for i32"]);
    message(rt.unary(UnaryOp::Exp, &zeroed), &["exp is not defined for i32"]);
}

#[test]
fn integer_arithmetic_has_no_panics_at_its_edges() {
    let rt = runtime();
    let edge = Tensor::from(vec![i32::MIN, i32::MAX, 0, -1]);
    assert_eq!(rt.neg(&edge).unwrap().to_vec(), [i32::MIN, -i32::MAX, 0, 1]);
    assert_eq!(rt.abs(&edge).unwrap().to_vec(), [i32::MIN, i32::MAX, 0, 1]);
    assert_eq!(rt.add(&edge, 1).unwrap().to_vec(), [i32::MIN + 1, i32::MIN, 1, 0]);
    assert_eq!(rt.mul(&edge, 2).unwrap().to_vec(), [0, -2, 0, -2]);
    message(rt.div(&edge, 0), &["zero"]);
    message(rt.div(1, &edge), &["zero"]);
    let (numerators, divisors) = (Tensor::from(vec![7; 70_001]), Tensor::from(vec![1; 70_001]));
    let mut one_zero = divisors.clone();
    one_zero.as_mut_slice()[69_999] = 0;
    message(rt.div(&numerators, &one_zero), &["zero"]);
    assert_eq!(rt.div(&numerators, &divisors).unwrap(), numerators);
    assert_eq!(rt.div(&edge, 2).unwrap().to_vec(), [i32::MIN / 2, i32::MAX / 2, 0, 0]);
    // The one quotient that does not fit.
    if let Ok(quotient) = rt.div(&edge, -1) {
        assert_eq!(quotient.to_vec(), [i32::MIN, -i32::MAX, 0, 1]);
    }
    let powers =
        rt.pow(&Tensor::from(vec![2, -2, 1, -1, 3]), &Tensor::from(vec![10, 3, -5, -5, -1])).unwrap();
    assert_eq!(powers.to_vec(), [1024, -8, 1, -1, 0]);
    message(rt.pow(&Tensor::from(vec![0]), -1), &["zero"]);
}

#[test]
fn operands_that_do_not_fit_the_problem_are_errors_before_and_after_planning() {
    let rt = runtime();
    let problem = Problem::from(Matmul::new(trimtab::DType::F32, 2, 2, 2).unwrap());
    let mut out = [0.0f32; 4];
    for _ in 0..2 {
        message(rt.execute(&problem, &[1.0; 3], &[1.0; 4], &mut out), &["`lhs` has 3 elements", "needs 4"]);
        message(rt.execute(&problem, &[1.0; 4], &[], &mut out), &["`rhs`", "needs 4"]);
        message(rt.execute(&problem, &[1.0; 4], &[1.0; 4], &mut out[..2]), &["`out` has 2 elements"]);
        message(rt.execute(&problem, &[1.0f64; 4], &[1.0; 4], &mut [0.0; 4]), &["f64"]);
        rt.execute(&problem, &[1.0; 4], &[1.0; 4], &mut out).unwrap();
        assert_eq!(out, [2.0; 4]);
    }
    let custom: Problem = "custom.mine:4".parse().unwrap();
    message(rt.execute(&custom, &[1.0f32], &[], &mut out), &["no kernel can do custom.mine:4"]);
    message(rt.try_problem(&custom), &["the choice that owns it"]);
}

#[test]
fn text_that_is_no_problem_is_an_error_that_shows_what_one_looks_like() {
    for (text, part) in [
        ("", "is not an operation"),
        (
            "frob:f32:3x3",
            "matmul, elementwise, reduce, transpose, conv, pool, rows, attention, scan, sort, arg, cast, fft, fused, gather, scatter, mask, concat, put, custom",
        ),
        ("conv:f32:3x3", "two shapes"),
        ("conv:f32:1x3x8x8,4x2x3x3", "weights of 3 channels"),
        ("conv:f32:1x1x2x2,1x1x3x3", "reaches over 3 elements, with padding there are 2"),
        ("conv:i32:1x1x3x3,1x1x3x3", "not defined for i32"),
        ("conv:f32:1x1x3x3,1x1x3x3:exp", "relu, tanh, sigmoid or gelu"),
        ("conv:f32:1x1x3x3,1x1x3x3:fast", "not known of a convolution"),
        ("pool.max:f32:1x1x3x3", "the window is missing"),
        ("pool.max:f32:1x1x3x3:window2x2,pad2", "nothing of some windows"),
        ("rows.frob:f32:3", "softmax, log_softmax"),
        ("rows.softmax:f32:3:scale", "scales are of norms"),
        ("rows.variance:f32:2x0", "of no elements"),
        ("attention:f32:2x3x4", "heads x queries x keys x depth"),
        ("attention:f32:1x5x4x2:causal", "leave out causal"),
        ("attention:f32:1x5x0x2", "no key"),
        ("attention:i32:1x2x2x2", "not defined for i32"),
        ("scan.sum:f32:3:axis4", "no such axis"),
        ("sort:f32:3:backwards", "not an axis"),
        ("arg.top:f32:3", "count10"),
        ("arg.top:f32:3:count4", "4 of 3 elements"),
        ("gather:f32:3", "count10"),
        ("gather:f32:3:count2,f32", "indices are i32 or i64"),
        ("scatter:bool:3:count2", "cast"),
        ("mask.lt:complex64:3", "no order"),
        ("concat:f32:3x4,3x5:axis0", "the same but along axis 0"),
        ("put:f32:4,2:at3", "do not fit 4"),
        ("cast:f32:3", "type behind the sizes"),
        ("cast:complex64:3:f32", "no real one"),
        ("reduce.max:complex64:3", "no order"),
        ("elementwise.add:bool:3", "comparisons"),
        ("scan.sum:i64:3", "cast"),
        ("fft.forward:f32:8", "transform real numbers by fft.real"),
        ("fft.real:f32:3x0", "fft of no elements"),
        ("fft.real:f32:8:5d", "2d or 3d"),
        ("matmul:f8:2x2x2", "f32, f64, f16, i32, bf16, bool"),
        ("matmul:f32:2x2", "m x n x k"),
        ("matmul:f32:2x-2x2", "is not a size"),
        ("matmul:i32:2x2x2", "matmul is not defined for i32"),
        ("elementwise.frob:f32:2", "neg, abs, exp"),
        ("elementwise.exp:i32:2", "not defined for i32"),
        ("reduce.min:f32:0", "min of no elements"),
        ("reduce.sum:f32:2:axis9", "no such axis"),
        ("matmul:f32:2x2x2:n,n:more", "is too much"),
        ("elementwise.add:f32:2,3", "neither equal nor one"),
    ] {
        let error = text.parse::<Problem>().unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}
