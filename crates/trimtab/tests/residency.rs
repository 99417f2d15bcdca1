//! Values on devices: moved once, fetched when read, evicted when room is needed, computed by the processor when all else
//! fails. Needs an adapter; `cargo xtask test` installs Mesa's software Vulkan.
#![cfg(feature = "wgpu")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod support;

use support::{builder, numbers};
use trimtab::Bytes;
use trimtab::{Axis, Builder, Error, Offload, Runtime, Tensor, Why};

fn gpu() -> Runtime {
    builder().device("gpu0").build().unwrap()
}

/// The processor and GPUs, everything on a GPU that can be.
fn everything_there() -> Builder {
    builder().offload(Offload { all: Some(0), ..Offload::default() })
}

const BYTES: u64 = 64 * 64 * 4;

#[test]
fn what_is_on_a_device_is_not_moved_again_and_results_come_back_when_they_are_read() {
    let rt = gpu();
    let (x, y) = (numbers::<f32>(&[64, 64]), numbers::<f32>(&[64, 64]));
    let sum = (rt.lazy(&x) + &y).eval().unwrap();
    let first = rt.activity();
    assert_eq!((first.uploads, first.uploaded, first.downloads), (2, Bytes(2 * BYTES), 0));
    // Inputs and results of earlier expressions are there.
    let product = (rt.lazy(&sum).matmul(&x) - &y).eval().unwrap();
    let second = rt.activity();
    assert_eq!((second.uploads, second.downloads), (2, 0));
    assert!(second.reused > first.reused);
    let largest = rt.lazy(&product).max(Axis::All).item().unwrap();
    let third = rt.activity();
    assert_eq!((third.uploads, third.downloads, third.downloaded), (2, 1, Bytes(4)));
    // Read in several ways, fetched once.
    let cpu = support::runtime();
    let expected = cpu.sub(&cpu.matmul(&cpu.add(&x, &y).unwrap(), &x).unwrap(), &y).unwrap();
    assert_eq!(product.get(&[3, 5]), expected.get(&[3, 5]));
    assert_eq!(product.as_slice().unwrap(), expected.as_slice().unwrap());
    assert_eq!(product.slice(0, 1..3).unwrap().to_vec(), expected.slice(0, 1..3).unwrap().to_vec());
    assert_eq!(largest, cpu.max(&expected, Axis::All).unwrap().item().unwrap());
    assert!(format!("{product:?}").starts_with("Tensor<f32>[64, 64] ["));
    assert_eq!(rt.activity().downloads, 2);
}

#[test]
fn numbers_and_eager_operations_work_on_values_that_are_on_a_device() {
    let rt = gpu();
    let x = numbers::<f32>(&[100]);
    let made = ((rt.lazy(&x) * 3.0 - 1.0).relu() / 2.0).eval().unwrap();
    let expected: Vec<f32> = x.to_vec().iter().map(|x| (x * 3.0 - 1.0).max(0.0) / 2.0).collect();
    assert_eq!(rt.activity().downloads, 0);
    // Eager operations use the value where it is and leave their results there.
    let uploads = rt.activity().uploads;
    let negated = rt.neg(&made).unwrap();
    let sum = rt.add(&negated, &made).unwrap();
    let row = rt.matmul(&made.reshaped(&[1, 100]).unwrap(), &negated.reshaped(&[100, 1]).unwrap()).unwrap();
    assert_eq!((rt.activity().uploads, rt.activity().downloads), (uploads, 0));
    assert_eq!(negated.to_vec(), expected.iter().map(|x| -x).collect::<Vec<_>>());
    assert_eq!(rt.activity().downloads, 1);
    assert!(sum.to_vec().iter().all(|x| *x == 0.0));
    let product: f32 = expected.iter().map(|x| -x * x).sum();
    assert!((row.item().unwrap() - product).abs() <= 1e-4 * product.abs(), "{row:?} {product}");
    assert_eq!(made.to_vec(), expected);
}

#[test]
fn beside_the_processor_an_eager_call_goes_where_its_operand_is_only_if_that_is_cheaper() {
    let (here, there) = (builder().build().unwrap(), everything_there().build().unwrap());
    let x = numbers::<f32>(&[64, 64]);
    // By rule everything runs on the GPU, and the eager result of a value that is there stays there.
    let value = (there.lazy(&x) + 1.0).eval().unwrap();
    let twice = there.mul(&value, 2.0).unwrap();
    assert_eq!(there.activity().downloads, 0);
    let expected: Vec<f32> = x.to_vec().iter().map(|x| (x + 1.0) * 2.0).collect();
    assert_eq!(twice.to_vec(), expected);
    // By cost a value of the processor's is computed with at once: nothing is moved for 4,096 elements.
    let own = numbers::<f32>(&[64, 64]);
    assert_eq!(here.mul(&here.add(&own, 1.0).unwrap(), 2.0).unwrap().to_vec(), expected);
    assert_eq!((here.activity().uploads, here.activity().evaluated), (0, 0));
}

#[test]
fn writing_gives_up_the_copies_on_devices() {
    let rt = gpu();
    let mut x = numbers::<f32>(&[64, 64]);
    rt.lazy(&x).abs().eval().unwrap();
    assert_eq!(rt.activity().uploads, 1);
    let pointer = x.as_slice().unwrap().as_ptr();
    x.as_mut_slice()[0] = 1000.0;
    assert_eq!(
        x.as_slice().unwrap().as_ptr(),
        pointer,
        "nothing else holds the data: it is written in place"
    );
    assert_eq!(rt.lazy(&x).abs().max(Axis::All).item().unwrap(), 1000.0);
    assert_eq!(rt.activity().uploads, 2);
    let mut result = (rt.lazy(&x) + &x).eval().unwrap();
    result.as_mut_slice()[1] = 7.0;
    assert_eq!((result.get(&[0, 0]), result.get(&[0, 1])), (Some(2000.0), Some(7.0)));
    assert_eq!(rt.lazy(&result).max(Axis::All).item().unwrap(), 2000.0);
}

#[test]
fn a_device_that_is_full_gives_up_what_was_used_longest_ago_and_is_elsewhere_too() {
    let rt = builder().device("gpu0").device_memory_max(Bytes(3 * BYTES)).build().unwrap();
    let tensors: Vec<Tensor<f32>> = (0..6).map(|_| numbers::<f32>(&[64, 64])).collect();
    let double = |tensor: &Tensor<f32>| (rt.lazy(tensor) + tensor).eval();
    for tensor in &tensors {
        let result = double(tensor).unwrap();
        assert_eq!(result.get(&[1, 1]), tensor.get(&[1, 1]).map(|x| 2.0 * x));
    }
    let full = rt.activity();
    assert!(full.evictions >= 3, "{full:?}");
    assert_eq!(full.uploads, 6);
    // The last two are still there, the first is not.
    double(&tensors[5]).unwrap();
    assert_eq!(rt.activity().uploads, 6);
    double(&tensors[0]).unwrap();
    assert_eq!(rt.activity().uploads, 7);
}

#[test]
fn what_is_only_on_a_full_device_is_not_given_up_until_it_was_read() {
    let rt = builder().device("gpu0").device_memory_max(Bytes(3 * BYTES)).build().unwrap();
    let (x, y) = (numbers::<f32>(&[64, 64]), numbers::<f32>(&[64, 64]));
    let double = (rt.lazy(&x) + &x).eval().unwrap();
    let square = (rt.lazy(&x) * &x).eval().unwrap();
    // Only the operand could go, and that is not enough.
    let refused = (rt.lazy(&y) - &y).eval().unwrap_err().to_string();
    assert!(refused.contains("raise the limit"), "{refused}");
    assert_eq!(double.get(&[1, 2]), x.get(&[1, 2]).map(|x| 2.0 * x));
    assert_eq!((rt.lazy(&y) - &y).max(Axis::All).item().unwrap(), 0.0);
    assert_eq!(square.get(&[1, 2]), x.get(&[1, 2]).map(|x| x * x));
}

#[test]
fn what_does_not_fit_any_device_is_computed_by_the_processor() {
    let rt = everything_there().device_memory_max(Bytes(BYTES)).build().unwrap();
    let x = numbers::<f32>(&[64, 64]);
    let made = (rt.lazy(&x) + &x).eval().unwrap();
    assert_eq!(made.get(&[1, 2]), x.get(&[1, 2]).map(|x| 2.0 * x));
    assert_eq!(rt.activity().downloads, 0);
    let alone = builder().device("gpu0").device_memory_max(Bytes(BYTES)).build().unwrap();
    let refused = (alone.lazy(&x) + &x).eval().unwrap_err();
    assert!(
        matches!(refused, Error::Place(_)) && refused.to_string().contains("raise the limit"),
        "{refused}"
    );
}

#[test]
fn doubles_stay_on_the_processor_where_the_adapter_has_none_and_it_is_said_why() {
    let rt = everything_there().build().unwrap();
    let has =
        rt.devices().iter().filter_map(|device| device.facts().adapter.clone()).any(|adapter| adapter.f64);
    let x = numbers::<f64>(&[64, 64]);
    // Functions of doubles are in no shading language.
    let made = rt.lazy(&x).exp().sum(Axis::All);
    let explained = made.explain().unwrap();
    let exp = &explained.launches[0];
    assert_eq!((exp.device.as_str(), exp.why), ("cpu", Why::Unsupported), "{explained}");
    assert!(exp.note.contains("f64") || exp.note.contains("64-bit"), "{explained}");
    assert!(has || explained.launches.iter().all(|launch| launch.device == "cpu"), "{explained}");
    let cpu = support::runtime();
    let expected = cpu.sum(&cpu.exp(&x).unwrap(), Axis::All).unwrap().item().unwrap();
    assert!((made.item().unwrap() - expected).abs() <= 1e-12 * expected);
}

#[test]
fn a_small_expression_stays_on_the_processor_without_asking_the_others() {
    let rt = builder().build().unwrap();
    assert!(rt.devices().len() > 1);
    let x = numbers::<f32>(&[16, 16]);
    let made = (rt.lazy(&x).matmul(&x) + 1.0).relu();
    let explained = made.explain().unwrap();
    assert!(explained.launches.iter().all(|launch| launch.device == "cpu"), "{explained}");
    assert!(explained.notes.iter().any(|note| note.contains("transfer")), "{explained}");
    made.eval().unwrap();
    let activity = rt.activity();
    assert_eq!((activity.uploads, activity.downloads, activity.placed), (0, 0, 1));
}

#[test]
fn an_expression_evaluated_again_on_a_device_is_not_planned_again() {
    let rt = everything_there().build().unwrap();
    let x = numbers::<f32>(&[64, 64]);
    let layer = || ((rt.lazy(&x).matmul(&x) + 1.0).relu() * 0.5).sum(1).to_vec().unwrap();
    // Once with the operand in the processor's memory, once with it on the device too.
    let first = layer();
    layer();
    let placed = rt.activity().placed;
    assert_eq!(placed, 2);
    let written = rt.journal().written();
    assert_eq!(layer(), first);
    assert_eq!((rt.activity().placed, rt.journal().written()), (placed, written));
}

#[test]
fn thresholds_decide_where_operations_run() {
    let offload = Offload {
        matmul: Some(64 * 64 * 64),
        all: Some(u64::MAX),
        small_batch: Some(3),
        ..Offload::default()
    };
    let rt = builder().offload(offload).build().unwrap();
    let x = numbers::<f32>(&[64, 64]);
    let made = rt.lazy(&x).matmul(&x).exp().matmul(&numbers::<f32>(&[64, 63])).sum(0);
    let explained = made.explain().unwrap();
    let where_and_why: Vec<(bool, Why)> =
        explained.launches.iter().map(|launch| (launch.device == "cpu", launch.why)).collect();
    // The first product, with what follows it, is large enough.
    assert!(where_and_why.contains(&(false, Why::Threshold)), "{explained}");
    assert_eq!(where_and_why.last(), Some(&(true, Why::Threshold)), "{explained}");
    assert_eq!(made.eval().unwrap().shape(), [63]);
    let activity = rt.activity();
    assert!(activity.uploads > 0 && activity.downloads == 1, "{activity:?}");
    let batch =
        rt.lazy(&numbers::<f32>(&[2, 64, 64])).matmul(&numbers::<f32>(&[2, 64, 64])).explain().unwrap();
    assert_eq!(
        (batch.launches[0].device.as_str(), batch.launches[0].why),
        ("cpu", Why::SmallBatch),
        "{batch}"
    );
    let off =
        builder().offload(Offload { off: true, matmul: Some(0), ..Offload::default() }).build().unwrap();
    let explained = off.lazy(&x).matmul(&x).explain().unwrap();
    assert_eq!((explained.launches[0].device.as_str(), explained.launches[0].why), ("cpu", Why::Disabled));
}

#[test]
fn data_that_lies_on_a_device_keeps_operations_there() {
    let rt = builder().offload(Offload { matmul: Some(0), ..Offload::default() }).build().unwrap();
    let x = numbers::<f32>(&[512, 512]);
    let product = rt.lazy(&x).matmul(&x).eval().unwrap();
    // Larger than what is left of it: summing there moves four bytes, summing here a megabyte.
    let sum = rt.lazy(&product).sum(Axis::All);
    let explained = sum.explain().unwrap();
    sum.item().unwrap();
    let activity = rt.activity();
    let moved = activity.downloaded;
    let there = explained.launches[0].device != "cpu";
    assert_eq!(moved, if there { Bytes(4) } else { Bytes(512 * 512 * 4) }, "{explained}");
}

/// A chain of products, which nothing can run as one.
fn products(rt: &Runtime, x: &Tensor<f32>, w: &Tensor<f32>, count: usize) -> trimtab::Expression<f32> {
    (0..count).fold(rt.lazy(x), |chain, _| chain.matmul(w))
}

#[test]
fn launches_in_a_row_are_handed_over_together_and_the_result_comes_with_them() {
    let (rt, cpu) = (gpu(), support::runtime());
    let (x, w) = (numbers::<f32>(&[16, 16]), Tensor::full(&[16, 16], 0.0625f32).unwrap());
    let chain = || products(&rt, &x, &w, 5).max(Axis::All);
    let launches = chain().explain().unwrap().launches.len();
    assert!(launches >= 5);
    let expected = products(cpu, &x, &w, 5).max(Axis::All).item().unwrap();
    assert!((chain().item().unwrap() - expected).abs() < 1e-4);
    let first = rt.activity();
    assert_eq!((first.together, first.downloads, first.downloaded), (1, 1, Bytes(4)));
    // Operands are there now; one of the next runs is made launch by launch, to see what each takes.
    let all: Vec<f32> = (0..8).map(|_| chain().item().unwrap()).collect();
    assert!(all.iter().all(|value| (value - expected).abs() < 1e-4));
    assert_eq!((rt.activity().together, rt.activity().downloads), (8, 9));
    let entries = rt.journal().entries();
    assert!(entries.iter().any(|entry| entry.runs() == 1 && entry.mean().is_some()));
    // Larger than what is read along with a launch.
    let large = numbers::<f32>(&[1100, 2000]);
    let twice = (rt.lazy(&large) + &large).to_vec().unwrap();
    assert_eq!(twice, large.to_vec().iter().map(|x| x + x).collect::<Vec<_>>());
    let counts = Tensor::from_fn(&[1100, 2000], |at| at as i32 - 1_000_000).unwrap();
    let thirds = (rt.lazy(&counts) / 3).to_vec().unwrap();
    assert_eq!(thirds, counts.to_vec().iter().map(|x| x / 3).collect::<Vec<_>>());
}

#[test]
fn what_is_expected_counts_handing_over_once_for_all_launches_in_a_row() {
    let rt = gpu();
    let (x, w) = (numbers::<f32>(&[64, 64]), Tensor::full(&[64, 64], 1.0f32 / 64.0).unwrap());
    let transfers = rt.devices()[1].transfers().unwrap();
    for count in [1, 6] {
        let explained = products(&rt, &x, &w, count).explain().unwrap();
        assert_eq!(explained.launches.len(), count);
        let kernels = explained.launches.iter().map(|launch| launch.other.as_ref().unwrap().1.time.0);
        let moving = |latency: u64, rate: f64| latency as f64 + BYTES as f64 / rate * 1e9;
        let up = moving(transfers.upload_latency.0, transfers.upload_bytes_per_s);
        let down = moving(transfers.download_latency.0, transfers.download_bytes_per_s);
        let expected = kernels.sum::<u64>() as f64 + 2.0 * up + down + transfers.submit.0 as f64;
        // Beside that, what finding the plan takes.
        let beside = explained.expected.unwrap().0 as f64 - expected;
        assert!((-2.0..1_000.0 * count as f64).contains(&beside), "{beside} {explained}");
    }
}

#[test]
fn an_answer_that_does_not_exist_is_told_by_whichever_launch_finds_out() {
    let rt = gpu();
    let (a, zeros) = (Tensor::full(&[16, 4], 5i32).unwrap(), Tensor::full(&[16, 4], 0i32).unwrap());
    for _ in 0..3 {
        let quotient = (rt.lazy(&a).sum(1) + 1) / rt.lazy(&zeros).sum(1);
        let error = quotient.max(Axis::All).item().unwrap_err().to_string();
        assert!(error.contains("division by zero"), "{error}");
        assert_eq!(((rt.lazy(&a).sum(1) + 1) / 3).max(Axis::All).item().unwrap(), 7);
    }
    assert_eq!(rt.activity().recovered, 0);
}

#[test]
fn an_expression_larger_than_the_device_is_handed_over_in_parts() {
    let rt = builder().device("gpu0").device_memory_max(Bytes(4 * BYTES)).build().unwrap();
    let (x, w) = (numbers::<f32>(&[64, 64]), Tensor::full(&[64, 64], 1.0f32 / 64.0).unwrap());
    let expected = products(support::runtime(), &x, &w, 8).eval().unwrap();
    for _ in 0..3 {
        let made = products(&rt, &x, &w, 8).eval().unwrap();
        let off = made.to_vec().iter().zip(expected.to_vec()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(off < 1e-4, "{off}");
    }
    assert!(rt.activity().together > 2, "{:?}", rt.activity());
}

#[test]
fn numbers_are_moved_again_only_when_they_are_others() {
    let rt = gpu();
    let x = numbers::<f32>(&[100]);
    let scaled = |by: f32| ((rt.lazy(&x) * by) + 1.0).to_vec().unwrap();
    scaled(2.0);
    scaled(2.0);
    let uploads = rt.activity().uploads;
    scaled(2.0);
    assert_eq!(rt.activity().uploads, uploads);
    assert_eq!(scaled(3.0), x.to_vec().iter().map(|x| x * 3.0 + 1.0).collect::<Vec<_>>());
    assert!(rt.activity().uploads > uploads);
}

#[test]
fn expressions_that_nobody_reads_are_not_waited_for_and_still_follow_each_other() {
    let rt = gpu();
    let (x, w) = (numbers::<f32>(&[64, 64]), Tensor::full(&[64, 64], 1.0f32 / 64.0).unwrap());
    let mut value = x.clone();
    // More than may be under way at a time.
    for _ in 0..40 {
        value = (rt.lazy(&value).matmul(&w) + &x).eval().unwrap();
    }
    assert_eq!(rt.activity().downloads, 0);
    let cpu = support::runtime();
    let expected = (0..40).fold(x.clone(), |value, _| cpu.add(&cpu.matmul(&value, &w).unwrap(), &x).unwrap());
    let off =
        value.to_vec().into_iter().zip(expected.to_vec()).map(|(a, b)| (a - b).abs() / b.abs().max(1.0));
    assert!(off.fold(0.0, f32::max) < 1e-3);
}

#[test]
fn what_calls_on_operands_in_host_memory_move_is_counted_too() {
    let rt = gpu();
    let (x, y) = (numbers::<f32>(&[64, 64]), numbers::<f32>(&[64, 64]));
    let mut out = vec![0.0f32; 64 * 64];
    let before = rt.activity();
    let problem: trimtab::Problem = "elementwise.add:f32:4096".parse().unwrap();
    rt.execute(&problem, x.as_slice().unwrap(), y.as_slice().unwrap(), &mut out).unwrap();
    let after = rt.activity();
    assert_eq!((after.uploads - before.uploads, after.uploaded.0 - before.uploaded.0), (2, 2 * BYTES));
    assert_eq!((after.downloads - before.downloads, after.downloaded.0 - before.downloaded.0), (1, BYTES));
}

#[test]
fn thresholds_hold_for_expressions_in_mode_off_too() {
    let off = || everything_there().patience(trimtab::Patience::Off);
    let x = numbers::<f32>(&[64, 64]);
    let rt = off().build().unwrap();
    let there = ((rt.lazy(&x) * 2.0) + &x).explain().unwrap();
    assert!(
        there.launches.iter().all(|launch| launch.device == "gpu0" && launch.why == Why::Threshold),
        "{there}"
    );
    assert_eq!(
        ((rt.lazy(&x) * 2.0) + &x).to_vec().unwrap(),
        x.to_vec().iter().map(|x| 3.0 * x).collect::<Vec<_>>()
    );
    // Above the size that was set, and without one, the processor.
    for offload in [Offload { all: Some(1 << 40), ..Offload::default() }, Offload::default()] {
        let rt = off().offload(offload).build().unwrap();
        let here = ((rt.lazy(&x) * 2.0) + &x).explain().unwrap();
        assert!(here.launches.iter().all(|launch| launch.device == "cpu"), "{here}");
    }
}
