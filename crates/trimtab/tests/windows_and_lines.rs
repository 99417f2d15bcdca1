//! Convolution, pooling, softmax, norms, scans and sorting on tensors and views against naive loops; a kernel of a user's that is
//! wrong about one of them is never believed.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its tensors has failed")]

mod support;

use std::borrow::Cow;
use support::{NoSettings, fresh, indices, message, read, runtime};
use trimtab::advanced::core::{
    Bytes, Channels, Decline, DeviceFacts, KernelVersion, LaunchError, Problem, Rows, ScanOp, TypedProblem,
    UnaryOp, Variant, VariantClass, Work,
};
use trimtab::advanced::cpu::{Args, Cpu};
use trimtab::advanced::operands::Lend;
use trimtab::{Tensor, Windows};

/// Numbers that are not whole.
fn reals(shape: &[usize]) -> Tensor<f64> {
    Tensor::from_fn(shape, |index| ((index * 37 % 101) as f64 - 50.0) / 13.0).unwrap()
}

fn near(found: &[f64], wanted: &[f64]) {
    assert_eq!(found.len(), wanted.len());
    for (at, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        let same =
            (found - wanted).abs() <= 1e-12 * wanted.abs().max(1.0) || found.is_nan() && wanted.is_nan();
        assert!(same, "element {at} is {found}, not {wanted}");
    }
}

/// A convolution with channels before the space, in two dimensions.
fn naive_conv(x: &Tensor<f64>, w: &Tensor<f64>, [stride, pad, dilation, groups]: [usize; 4]) -> Tensor<f64> {
    let out = |axis: usize| (x.shape()[axis] + 2 * pad - dilation * (w.shape()[axis] - 1) - 1) / stride + 1;
    let shape = [x.shape()[0], w.shape()[0], out(2), out(3)];
    let outputs = w.shape()[0] / groups;
    let mut values = Vec::new();
    for place in indices(&shape) {
        let mut sum = 0.0;
        for tap in indices(&w.shape()[1..]) {
            let at = |axis: usize| (place[axis] * stride + tap[axis - 1] * dilation).checked_sub(pad);
            let (Some(y), Some(x_at)) = (at(2), at(3)) else { continue };
            let channel = place[1] / outputs * w.shape()[1] + tap[0];
            if let Some(value) = x.get(&[place[0], channel, y, x_at]) {
                sum += value * w.get(&[place[1], tap[0], tap[1], tap[2]]).unwrap();
            }
        }
        values.push(sum);
    }
    Tensor::from_vec(values, &shape).unwrap()
}

#[test]
fn convolutions_agree_with_plain_loops_in_both_layouts_and_on_views() {
    let rt = runtime();
    for (x, w, [stride, pad, dilation, groups]) in [
        (vec![2, 3, 7, 9], vec![4, 3, 3, 3], [1, 1, 1, 1]),
        (vec![1, 4, 8, 8], vec![6, 2, 3, 2], [2, 1, 2, 2]),
        (vec![1, 6, 5, 11], vec![6, 1, 3, 3], [1, 2, 1, 6]),
        (vec![3, 5, 4, 6], vec![7, 5, 1, 1], [1, 0, 1, 1]),
    ] {
        let (x, w) = (reals(&x), reals(&w));
        let wanted = naive_conv(&x, &w, [stride, pad, dilation, groups]);
        let (stride, pad, dilation) = ([stride], [pad], [dilation]);
        let windows =
            Windows { stride: &stride, pad: &pad, dilation: &dilation, groups, ..Windows::default() };
        let found = rt.conv(&x, &w, &windows).unwrap();
        assert_eq!(found.shape(), wanted.shape());
        near(&read(&found), &read(&wanted));
        // A view, and channels behind the space.
        let (turned, back) = ([0, 2, 3, 1], [0, 3, 1, 2]);
        let view = rt.contiguous(&x.permuted(&turned).unwrap()).unwrap().permuted(&back).unwrap();
        near(&read(&rt.conv(&view, &w, &windows).unwrap()), &read(&wanted));
        let behind = Windows { channels: Channels::Last, ..windows };
        let last = rt.conv(&x.permuted(&turned).unwrap(), &w.permuted(&turned).unwrap(), &behind).unwrap();
        near(&read(&last.permuted(&back).unwrap()), &read(&wanted));
        let bias = reals(&[w.shape()[0]]);
        let ended = rt.conv_ending(&x, &w, &windows, Some(&bias), Some(UnaryOp::Relu)).unwrap();
        let each = wanted.len() / wanted.shape()[0] / wanted.shape()[1];
        let with_bias = |(at, value): (usize, f64)| (value + bias.to_vec()[at / each % bias.len()]).max(0.0);
        let wanted: Vec<f64> = read(&wanted).into_iter().enumerate().map(with_bias).collect();
        near(&read(&ended), &wanted);
    }
    let (x, w) = (reals(&[1, 3, 4, 4]), reals(&[2, 3, 3, 3]));
    message(rt.conv(&x, &reals(&[2, 4, 3, 3]), &Windows::default()), &["weights of 3 channels"]);
    let bias = reals(&[3]);
    message(rt.conv_ending(&x, &w, &Windows::default(), Some(&bias), None), &["2 channels of the result"]);
    message(rt.conv_ending(&x, &w, &Windows::default(), None, Some(UnaryOp::Exp)), &["not with exp"]);
}

#[test]
fn pooling_leaves_padding_out() {
    let rt = runtime();
    let x = Tensor::from_fn(&[1, 1, 3, 3], |at| at as f32 - 10.0).unwrap();
    let windows = Windows { pad: &[1], stride: &[2], ..Windows::default() };
    assert_eq!(rt.max_pool(&x, &[2, 2], &windows).unwrap().to_vec(), [-10.0, -8.0, -4.0, -2.0]);
    assert_eq!(rt.mean_pool(&x, &[2, 2], &windows).unwrap().to_vec(), [-10.0, -8.5, -5.5, -4.0]);
    let mut holed = x.to_vec();
    holed[4] = f32::NAN;
    let holed = Tensor::from_vec(holed, &[1, 1, 3, 3]).unwrap();
    let found = rt.max_pool(&holed, &[2, 2], &Windows::default()).unwrap().to_vec();
    assert!(found.iter().all(|value| value.is_nan()), "every window sees the hole: {found:?}");
}

#[test]
fn rows_agree_with_plain_loops_along_every_axis() {
    let rt = runtime();
    let x = reals(&[3, 5, 4]);
    for axis in 0..3 {
        let [softmax, logs] = [rt.softmax(&x, axis).unwrap(), rt.log_softmax(&x, axis).unwrap()];
        let (variance, sums) = (rt.variance(&x, axis).unwrap(), rt.logsumexp(&x, axis).unwrap());
        let (scale, shift) = (reals(&[x.shape()[axis]]), reals(&[x.shape()[axis]]));
        let layer = rt.layer_norm(&x, axis, Some(&scale), Some(&shift), 1e-3).unwrap();
        let rms = rt.rms_norm(&x, axis, None, 1e-3).unwrap();
        for index in indices(x.shape()) {
            let count = x.shape()[axis];
            let line: Vec<f64> = (0..count)
                .map(|at| {
                    let mut other = index.clone();
                    other[axis] = at;
                    x.get(&other).unwrap()
                })
                .collect();
            let own = x.get(&index).unwrap();
            let total: f64 = line.iter().map(|x| x.exp()).sum();
            let mean = line.iter().sum::<f64>() / count as f64;
            let spread = line.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count as f64;
            let squares = line.iter().map(|x| x * x).sum::<f64>() / count as f64;
            let mut kept = index.clone();
            let at = kept.remove(axis);
            let by = |values: &Tensor<f64>| values.to_vec()[at];
            let found = [
                softmax.get(&index).unwrap(),
                logs.get(&index).unwrap(),
                variance.get(&kept).unwrap(),
                sums.get(&kept).unwrap(),
                layer.get(&index).unwrap(),
                rms.get(&index).unwrap(),
            ];
            let normed = (own - mean) / (spread + 1e-3).sqrt() * by(&scale) + by(&shift);
            let wanted = [
                own.exp() / total,
                own - total.ln(),
                spread,
                total.ln(),
                normed,
                own / (squares + 1e-3).sqrt(),
            ];
            near(&found, &wanted);
        }
    }
    message(rt.softmax(&x, 3), &["no such axis"]);
    message(rt.layer_norm(&x, 1, Some(&reals(&[4])), None, 0.0), &["one element for each of 5"]);
}

#[test]
fn scans_and_sorting_keep_what_is_not_a_number_where_it_belongs() {
    let rt = runtime();
    let x = Tensor::from_vec(vec![3.0f32, f32::NAN, -1.0, f32::INFINITY, -0.0, 2.0], &[2, 3]).unwrap();
    let shown = |tensor: Tensor<f32>| format!("{:?}", tensor.to_vec());
    assert_eq!(shown(rt.sort(&x, 1).unwrap()), "[-1.0, 3.0, NaN, -0.0, 2.0, inf]");
    assert_eq!(shown(rt.sort_descending(&x, 1).unwrap()), "[3.0, -1.0, NaN, inf, 2.0, -0.0]");
    assert_eq!(shown(rt.sort(&x, 0).unwrap()), "[3.0, -0.0, -1.0, inf, NaN, 2.0]");
    assert_eq!(shown(rt.scan(ScanOp::Max, &x, 1, false).unwrap()), "[3.0, NaN, NaN, inf, inf, inf]");
    assert_eq!(shown(rt.cumsum(&x, 0).unwrap()), "[3.0, NaN, -1.0, inf, NaN, 1.0]");
    let whole = Tensor::from(vec![i32::MAX, 1, 2]);
    assert_eq!(rt.cumsum(&whole, 0).unwrap().to_vec(), [i32::MAX, i32::MIN, i32::MIN + 2]);
    assert_eq!(rt.scan(ScanOp::Prod, &Tensor::from(vec![2, 3, 4]), 0, true).unwrap().to_vec(), [1, 2, 6]);
    let view = Tensor::from_fn(&[40, 30], |at| (at * 31 % 1201) as i32).unwrap().transposed();
    let sorted = rt.sort(&view, 1).unwrap();
    for row in 0..30 {
        let mut line: Vec<i32> = (0..40).map(|at| view.get(&[row, at]).unwrap()).collect();
        line.sort_unstable();
        assert_eq!((0..40).map(|at| sorted.get(&[row, at]).unwrap()).collect::<Vec<_>>(), line);
    }
}

#[cfg(feature = "wgpu")]
#[test]
fn operands_on_a_device_give_what_they_give_on_the_processor() {
    use trimtab::Offload;
    let rt = fresh().offload(Offload { all: Some(0), ..Offload::default() }).build().unwrap();
    assert!(rt.devices().len() > 1, "{:?}", rt.unusable());
    let x = Tensor::from_fn(&[2, 3, 8], |at| ((at * 37 % 101) as f32 - 50.0) / 30.0).unwrap();
    let (w, windows) =
        (Tensor::full(&[4, 3, 3], 0.25f32).unwrap(), Windows { pad: &[1], ..Windows::default() });
    let (here, there) = (runtime().tanh(&x).unwrap(), rt.lazy(&x).tanh().eval().unwrap());
    let scale = Tensor::full(&[8], 2.0f32).unwrap();
    let on = |rt: &trimtab::Runtime, x: &Tensor<f32>| {
        [
            rt.softmax(x, 1),
            rt.logsumexp(x, 2),
            rt.layer_norm(x, 2, Some(&scale), None, 0.1),
            rt.cumsum(x, 0),
            rt.sort(x, 2),
            rt.conv(x, &w, &windows),
            rt.max_pool(x, &[3], &windows),
        ]
        .map(Result::unwrap)
    };
    for (found, wanted) in on(&rt, &there).iter().zip(on(runtime(), &here)) {
        assert_eq!(found.shape(), wanted.shape());
        let off = read(found).iter().zip(read(&wanted)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(off < 1e-4, "{off}");
    }
}

/// A softmax that forgets the last row from some size on.
struct Forgets;

impl Variant<Cpu> for Forgets {
    type Problem = Rows;
    type Config = NoSettings;

    fn name(&self) -> Cow<'static, str> {
        "user.rows.forgets".into()
    }
    fn version(&self) -> KernelVersion {
        "1".into()
    }
    fn class(&self) -> VariantClass {
        VariantClass::Custom
    }
    fn declines(&self, _: &Rows, _: &DeviceFacts) -> Option<Decline> {
        None
    }
    fn configs(&self, _: &Rows, _: &DeviceFacts) -> Vec<NoSettings> {
        vec![NoSettings {}]
    }
    fn work(&self, _: &Rows, _: NoSettings, _: &DeviceFacts) -> Work {
        Work { bytes: Bytes(1), threads: 1, lanes: 1, ..Work::default() }
    }
    fn launch(&self, problem: &Rows, _: NoSettings, args: Args<'_>) -> Result<(), LaunchError> {
        let Args { inputs, mut out, .. } = args;
        trimtab::device::reference().compute(&Problem::from(*problem), inputs, out.lend())?;
        if problem.outer > 100 {
            let len = problem.len as usize;
            let first = out.len() - len;
            trimtab::advanced::cpu::Element::slice_mut(out)
                .into_iter()
                .for_each(|out: &mut [f32]| out[first..].fill(0.5));
        }
        Ok(())
    }
}

#[test]
fn a_kernel_that_is_wrong_about_large_problems_answers_none() {
    assert_eq!(Rows::OPERATION.name(), "rows");
    let rt = fresh().kernel(Forgets).build().unwrap();
    for rows in [50, 150, 300] {
        let x = Tensor::from_fn(&[rows, 64], |at| (at % 17) as f32 / 5.0).unwrap();
        let y = rt.softmax(&x, 1).unwrap();
        for row in y.to_vec().chunks(64) {
            let total: f32 = row.iter().sum();
            assert!((total - 1.0).abs() < 1e-5, "{rows}: a row adds up to {total}");
        }
    }
}

#[test]
fn attention_is_what_its_three_operations_give_and_a_causal_query_sees_no_later_key() {
    let rt = fresh().build().unwrap();
    let of = |shape: &[usize], seed: usize| {
        Tensor::from_fn(shape, move |at| ((at * 31 + seed * 17) % 89) as f32 / 40.0 - 1.0).unwrap()
    };
    for (queries, keys, depth, width) in [(5, 7, 4, 3), (1, 300, 16, 16), (70, 33, 8, 20)] {
        let (q, k, v) =
            (of(&[2, 3, queries, depth], 1), of(&[2, 3, keys, depth], 2), of(&[2, 3, keys, width], 3));
        let found = rt.attention(&q, &k, &v, false).unwrap();
        assert_eq!(found.shape(), [2, 3, queries, width]);
        let turned = rt.permute(&k, &[0, 1, 3, 2]).unwrap();
        let scores = rt.lazy(&q).matmul(&turned) * (1.0 / (depth as f32).sqrt());
        let apart = scores.softmax(3).matmul(&v).to_vec().unwrap();
        let lazy = rt.lazy(&q).attention(&k, &v, false).to_vec().unwrap();
        for (nth, wanted) in apart.iter().enumerate() {
            for found in [found.to_vec()[nth], lazy[nth]] {
                assert!((found - wanted).abs() <= 2e-5, "{nth}: {found} {wanted}");
            }
        }
    }
    // Of as many queries as keys the first sees one value, the last all.
    let (q, k, v) = (of(&[9, 4], 1), of(&[9, 4], 2), of(&[9, 2], 3));
    let (causal, plain) = (rt.attention(&q, &k, &v, true).unwrap(), rt.attention(&q, &k, &v, false).unwrap());
    for column in 0..2 {
        assert!((causal.get(&[0, column]).unwrap() - v.get(&[0, column]).unwrap()).abs() < 1e-6);
        assert!((causal.get(&[8, column]).unwrap() - plain.get(&[8, column]).unwrap()).abs() < 1e-5);
    }
    let wrong = rt.attention(&q, &of(&[9, 5], 1), &v, false).unwrap_err().to_string();
    assert!(wrong.contains("as many elements"), "{wrong}");
    let wrong = rt.attention(&q, &k, &of(&[8, 2], 1), false).unwrap_err().to_string();
    assert!(wrong.contains("a value for every key"), "{wrong}");
}
