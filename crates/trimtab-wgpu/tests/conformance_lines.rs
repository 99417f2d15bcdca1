//! Rows, scans and sorting on a GPU against the processor: every kernel, every legal point, and operands of our own for what the made-up
//! ones do not reach (NaN, infinities, zeros, long sums).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "helpers shared by several test programs; clippy exempts only functions marked as tests"
)]

mod conform;

use trimtab_core::{KernelId, Operation, Problem};
use trimtab_operands::{Data, Element, Expected, Operands, f16};
use trimtab_wgpu::tolerance;

/// Texts of a detail, with every type, shape and word.
fn all_of(detail: &str, dtypes: &[&str], shapes: &[&str], words: &[&str]) -> Vec<String> {
    let mut texts = Vec::new();
    for dtype in dtypes {
        for shape in shapes {
            texts.extend(words.iter().map(|words| match (*words, shape.contains(':')) {
                ("", _) => format!("{detail}:{dtype}:{shape}"),
                (_, true) => format!("{detail}:{dtype}:{shape},{words}"),
                (_, false) => format!("{detail}:{dtype}:{shape}:{words}"),
            }));
        }
    }
    texts
}

/// Runs every kernel at every point on one list of problems, at the first two on the other. Returns how many runs were compared.
fn conforms(operation: Operation, whole: &[String], at_first: &[String]) -> usize {
    let of = |texts: &[String], points: usize| {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        conform::conforms_at_first(operation, &texts, points)
    };
    of(whole, usize::MAX) + of(at_first, 2)
}

const SHORT: [&str; 12] = [
    "1",
    "2",
    "7",
    "64",
    "1025",
    "3x7",
    "33x65",
    "300x32",
    "5x4099",
    "3x7:axis0",
    "7x300x33:axis1",
    "2x65x132:axis1",
];

/// For types and words whose texts differ in little else: every text is compiled once.
const FEW: [&str; 3] = ["1025", "33x65", "2x65x132:axis1"];

#[test]
fn every_kernel_of_rows_at_every_point_agrees_with_the_processor() {
    let mut at_first = Vec::new();
    for op in ["softmax", "log_softmax", "logsumexp", "variance", "layer_norm", "rms_norm"] {
        at_first.extend(all_of(&format!("rows.{op}"), &["f32"], &SHORT, &[""]));
        at_first.extend(all_of(&format!("rows.{op}"), &["f16", "f64"], &FEW, &[""]));
    }
    at_first.extend(all_of("rows.layer_norm", &["f32", "f16"], &FEW, &["scale,shift", "scale"]));
    at_first.extend(all_of("rows.rms_norm", &["f32", "f16"], &FEW, &["scale"]));
    let long = ["70001", "9x2048", "3x16384", "2x2000x12:axis1", "0x5"];
    let mut whole = all_of("rows.softmax", &["f32"], &long, &[""]);
    whole.extend(all_of("rows.variance", &["f32", "f64"], &long, &[""]));
    let compared = conforms(Operation::Rows, &whole, &at_first);
    assert!(compared > 250, "{compared}");
}

#[test]
fn every_kernel_of_attention_at_every_point_agrees_with_the_processor() {
    let shapes = [
        "1x1x1x4",
        "2x3x5x4x8",
        "1x33x65x64",
        "3x17x33x8x128",
        "1x1x300x32",
        "2x70x90x16",
        "2x70x90x16:causal",
        "1x5x9x4:causal",
    ];
    let whole: Vec<String> = shapes.iter().map(|shape| format!("attention:f32:{shape}")).collect();
    let at_first: Vec<String> = shapes.iter().map(|shape| format!("attention:f16:{shape}")).collect();
    let compared = conforms(Operation::Attention, &whole, &at_first);
    assert!(compared > 40, "{compared}");
}

#[test]
fn every_scan_kernel_at_every_point_agrees_with_the_processor() {
    let mut at_first = Vec::new();
    for op in ["sum", "prod", "max", "min"] {
        at_first.extend(all_of(&format!("scan.{op}"), &["f32"], &SHORT, &["", "exclusive"]));
        at_first.extend(all_of(&format!("scan.{op}"), &["f16", "f64", "i32"], &FEW, &["", "exclusive"]));
    }
    let long = ["70001", "9x2048", "300001", "2x5000x12:axis1", "0x5"];
    at_first.extend(all_of("scan.sum", &["f32", "i32"], &long, &["exclusive"]));
    let whole = all_of("scan.sum", &["f32"], &long, &[""]);
    let compared = conforms(Operation::Scan, &whole, &at_first);
    assert!(compared > 300, "{compared}");
}

#[test]
fn every_sorting_kernel_at_every_point_agrees_with_the_processor() {
    let mut at_first = all_of("sort", &["f32"], &SHORT, &["", "descending"]);
    at_first.extend(all_of("sort", &["f16", "f64", "i32"], &FEW, &["", "descending"]));
    let long = ["70001", "9x2048", "3x5000x3:axis1", "1000x17", "0x5"];
    let whole = all_of("sort", &["f32"], &long, &["", "descending"]);
    let compared = conforms(Operation::Sort, &whole, &at_first);
    assert!(compared > 150, "{compared}");
}

#[test]
fn every_kernel_of_indices_at_every_point_agrees_with_the_processor() {
    let mut at_first = Vec::new();
    for op in ["min", "max", "sort"] {
        at_first.extend(all_of(&format!("arg.{op}"), &["f32"], &SHORT, &[""]));
        at_first.extend(all_of(&format!("arg.{op}"), &["f16", "f64", "i32"], &FEW, &[""]));
    }
    at_first.extend(all_of("arg.sort", &["f32", "f64"], &FEW, &["descending"]));
    at_first.extend(all_of("arg.top", &["f32", "f16", "f64", "i32"], &FEW, &["count1", "count5", "count65"]));
    let long = ["70001", "9x2048", "3x5000x3:axis1", "1000x17"];
    let mut whole = all_of("arg.max", &["f32"], &long, &[""]);
    whole.extend(all_of("arg.sort", &["f32"], &long, &["descending"]));
    whole.extend(all_of("arg.top", &["f32"], &long, &["count17"]));
    let compared = conforms(Operation::Arg, &whole, &at_first);
    assert!(compared > 200, "{compared}");
}

/// Runs every kernel at its first and last point on these operands and compares with the processor. Returns how many runs were compared.
fn agrees<T: Element>(text: &str, inputs: Vec<Vec<T>>) -> usize {
    let (cpu, problem) = (conform::processor(), text.parse::<Problem>().unwrap());
    let mut operands = Operands::new(&problem);
    assert_eq!(operands.inputs.len(), inputs.len(), "{text}");
    operands.inputs = inputs.into_iter().map(T::own).collect();
    let expected = Expected::new(cpu.as_ref(), &problem, &operands).unwrap();
    let mut compared = 0;
    for device in conform::devices() {
        for (number, kernel) in device.table().iter().enumerate() {
            let space = kernel.space(&problem, device.facts());
            for point in space.points().first().into_iter().chain(space.points().last()) {
                operands.out.poison();
                let inputs: Vec<_> = operands.inputs.iter().map(Data::slice).collect();
                let id = KernelId(number as u32);
                let ran = device.launch(id, &problem, point, &inputs, operands.out.slice_mut());
                let what = format!("{} {} {text}", kernel.info().name, space.name(point));
                assert_eq!(ran, Ok(()), "{what}");
                let checked = expected.check_within(&problem, &operands.out, tolerance(&problem));
                assert_eq!(checked, Ok(()), "{what}");
                compared += 1;
            }
        }
    }
    assert!(compared > 1, "{text}");
    compared
}

#[test]
fn what_is_odd_in_a_row_comes_out_as_from_the_processor() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    // A row each: NaN, both infinities, only minus infinity, one of them among numbers, far apart, large.
    let odd: [&[(usize, f32)]; 7] = [
        &[(3, nan)],
        &[(0, inf), (39, -inf)],
        &[],
        &[(5, -inf), (6, 2.0)],
        &[(7, 1e30), (8, -1e30)],
        &[(9, 200.0), (10, -200.0)],
        &[(39, -nan), (1, inf)],
    ];
    let mut rows = Vec::new();
    for (nth, odd) in odd.into_iter().enumerate() {
        let mut row: Vec<f32> =
            (0..40).map(|at| if nth == 2 { -inf } else { at as f32 * 0.125 - 2.0 }).collect();
        odd.iter().for_each(|&(at, value)| row[at] = value);
        rows.extend(row);
    }
    for op in ["softmax", "log_softmax", "logsumexp", "variance"] {
        agrees(&format!("rows.{op}:f32:7x40"), vec![rows.clone()]);
        agrees(&format!("rows.{op}:f32:40x7:axis0"), vec![turned(&rows, 40)]);
    }
    // Finite squares only: of others a processor, which sums in f64, knows more.
    let small = rows[..4 * 40].to_vec();
    for op in ["layer_norm", "rms_norm"] {
        agrees(&format!("rows.{op}:f32:4x40"), vec![small.clone(), vec![1e-5]]);
    }
}

/// Rows of so many elements as columns.
fn turned<T: Copy>(rows: &[T], len: usize) -> Vec<T> {
    let count = rows.len() / len;
    (0..rows.len()).map(|at| rows[at % count * len + at / count]).collect()
}

#[test]
fn a_large_mean_costs_a_variance_no_digits() {
    let row: Vec<f32> = (0..4096).map(|at| 10_000.0 + (at % 7) as f32).collect();
    let exact = {
        let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / 4096.0;
        row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / 4096.0
    };
    let problem: Problem = "rows.variance:f32:4096".parse().unwrap();
    for device in conform::devices() {
        for (number, kernel) in device.table().iter().enumerate() {
            for point in kernel.space(&problem, device.facts()).points() {
                let mut out = [0.0f32];
                let inputs = [Element::erase(&row)];
                let id = KernelId(number as u32);
                device.launch(id, &problem, point, &inputs, Element::erase_mut(&mut out)).unwrap();
                let off = (f64::from(out[0]) / exact - 1.0).abs();
                assert!(off < 1e-3, "{} {point:?}: {} for {exact}", kernel.info().name, out[0]);
            }
        }
    }
}

#[test]
fn scans_keep_what_is_not_a_number_and_products_that_pass_the_range() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let mut line: Vec<f32> = (0..200).map(|at| (at % 17) as f32 - 8.0).collect();
    line[50] = inf;
    line[120] = -inf;
    for op in ["sum", "max", "min"] {
        agrees(&format!("scan.{op}:f32:200"), vec![line.clone()]);
        agrees(&format!("scan.{op}:f32:200:axis0,exclusive"), vec![line.clone()]);
    }
    line[70] = nan;
    for op in ["sum", "max", "min", "prod"] {
        agrees(&format!("scan.{op}:f32:200"), vec![line.clone()]);
        let wide: Vec<f64> = line.iter().map(|&x| f64::from(x)).collect();
        agrees(&format!("scan.{op}:f64:2x100:axis1,exclusive"), vec![wide]);
        let half: Vec<f16> = line.iter().map(|&x| f16::from_f32(x)).collect();
        agrees(&format!("scan.{op}:f16:200"), vec![half]);
    }
    let mut line = vec![1.0f32; 200];
    [(3, 1e30), (4, 1e30), (90, -1e-30), (150, 1e-30)].into_iter().for_each(|(at, value)| line[at] = value);
    agrees("scan.prod:f32:200", vec![line]);
}

#[test]
fn integers_wrap_in_every_scan() {
    let line: Vec<i32> = (0..300).map(|at| i32::MAX - 7 * at).collect();
    for op in ["sum", "prod", "max", "min"] {
        agrees(&format!("scan.{op}:i32:300"), vec![line.clone()]);
        agrees(&format!("scan.{op}:i32:100x3:axis0,exclusive"), vec![line.clone()]);
    }
}

#[test]
fn a_long_sum_of_equal_numbers_stays_accurate_to_its_end() {
    let line = vec![0.1f32; 300_000];
    agrees("scan.sum:f32:300000", vec![line.clone()]);
    agrees("scan.sum:f32:30000", vec![line[..30_000].to_vec()]);
}

#[test]
fn what_is_not_a_number_is_sorted_last_and_small_numbers_keep_their_order() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let odd =
        [nan, inf, -0.0, 1e-40, -nan, -inf, 0.0, -1e-40, f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1.0, -1.0];
    let line: Vec<f32> = (0..52).map(|at| odd[at % 13]).collect();
    for word in ["axis0", "axis0,descending"] {
        agrees(&format!("sort:f32:52:{word}"), vec![line.clone()]);
        let wide: Vec<f64> = line.iter().map(|&x| f64::from(x)).collect();
        agrees(&format!("sort:f64:52:{word}"), vec![wide]);
        let half: Vec<f16> = line.iter().map(|&x| f16::from_f32(x)).collect();
        agrees(&format!("sort:f16:52:{word}"), vec![half]);
        let whole: Vec<i32> = (0..52).map(|at| [i32::MIN, i32::MAX, 0, -1, 1][at % 5]).collect();
        agrees(&format!("sort:i32:52:{word}"), vec![whole]);
    }
}

#[test]
fn indices_of_equal_elements_are_in_order_and_what_is_not_a_number_is_an_extreme() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let odd = [0.0, -0.0, inf, 1e-40, -inf, -1e-40, f32::MAX, f32::MIN, 1.0, -1.0, nan, -nan, 1.0];
    let line: Vec<f32> = (0..52).map(|at| odd[at % 13]).collect();
    let texts = ["arg.min", "arg.max", "arg.sort", "arg.sort", "arg.top"];
    let words = ["", "", "", ":descending", ":count20"];
    for (op, words) in texts.into_iter().zip(words) {
        agrees(&format!("{op}:f32:52{words}"), vec![line.clone()]);
        // Without what is not a number, and in several lines.
        let numbers: Vec<f32> = (0..40).map(|at| odd[(at * 7) % 10]).collect();
        agrees(&format!("{op}:f32:4x10{words}").replace("count20", "count3"), vec![numbers]);
        let wide: Vec<f64> = line.iter().map(|&x| f64::from(x)).collect();
        agrees(&format!("{op}:f64:52{words}"), vec![wide]);
        let half: Vec<f16> = line.iter().map(|&x| f16::from_f32(x)).collect();
        agrees(&format!("{op}:f16:52{words}"), vec![half]);
        let whole: Vec<i32> = (0..52).map(|at| [i32::MAX, i32::MIN, 0, -1, 1][at % 5]).collect();
        agrees(&format!("{op}:i32:52{words}"), vec![whole]);
    }
}
