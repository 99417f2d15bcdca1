//! Every kernel of recipes at every legal point against the CPU's reference, random recipes, and values no generated
//! operand has.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "helpers shared by several test programs; clippy exempts only functions marked as tests"
)]

mod conform;

use trimtab_core::{DType, KernelId, Operation, Problem};
use trimtab_operands::{Data, Expected, Operands, Slice, f16};
use trimtab_wgpu::tolerance;

/// Compares, and says if fewer runs were compared than there are problems.
fn conforms(problems: &[&str]) {
    let compared = conform::conforms(Operation::Fused, problems);
    println!("{compared} runs of {} problems", problems.len());
    assert!(compared >= problems.len(), "{compared} runs of {} problems", problems.len());
}

#[test]
fn elementwise_recipes_agree_at_every_point() {
    conforms(&[
        "fused.relu(add(mul(a,#0),#1)):f32:1x0:all",
        "fused.relu(add(mul(a,#0),#1)):f32:1x1:all",
        "fused.relu(sub(mul(a,#0),b)):f32:1x4099:all,one",
        "fused.relu(sub(mul(a,#0),b)):f32:1x65540:all,all",
        "fused.sub(mul(a,b),c):f32:33x130:all,rows,columns",
        "fused.sub(mul(a,b),add(c,#0)):f32:100x36:rows,columns,one",
        "fused.add(a,b):f32:2x65537:all,columns",
        "fused.tanh(div(exp(a),b)):f32:70x8:all,columns",
    ]);
}

#[test]
fn recipes_of_every_type_agree_at_every_point() {
    let mut problems = Vec::new();
    for dtype in ["f32", "f16", "f64", "i32"] {
        for recipe in [
            "relu(sub(neg(a),abs(mul(b,#0)))):T:12x20:all,columns",
            "max(min(a,b),neg(relu(a))):T:7x9:all,rows",
            "add(add(add(a,b),add(c,d)),mul(add(e,f),#0)):T:6x8:all,rows,columns,one,all,rows",
        ] {
            problems.push(format!("fused.{}", recipe.replace(":T:", &format!(":{dtype}:"))));
        }
    }
    let problems: Vec<&str> = problems.iter().map(String::as_str).collect();
    conforms(&problems);
}

#[test]
fn recipes_that_end_in_a_reduction_agree_at_every_point() {
    conforms(&[
        "fused.exp(a):f32:1x0:all:sum",
        "fused.exp(a):f32:1x5001:all:sum",
        "fused.mul(sub(a,#0),sub(a,#0)):f32:1x65536:all:mean",
        "fused.mul(a,b):f32:60x52:all,columns:sum",
        "fused.sub(mul(a,b),c):f32:37x50:all,rows,columns:max.axis1",
        "fused.sub(mul(a,b),c):f32:37x52:all,rows,columns:sum.axis1",
        "fused.sub(mul(a,b),add(c,d)):f32:130x36:all,rows,columns,one:sum.axis0",
        "fused.max(a,#0):f32:70x3:all:min.axis0",
        "fused.add(a,b):f32:9x1:all,all:sum.axis1",
        "fused.add(a,b):f32:3x0:all,rows:sum.axis1",
        "fused.add(add(add(a,b),add(c,d)),add(add(e,f),#0)):f32:40x64:all,rows,columns,one,all,all:mean.axis1",
    ]);
}

#[test]
fn reductions_of_every_type_agree_at_every_point() {
    conforms(&[
        "fused.mul(a,#0):f16:40x64:all:sum.axis1",
        "fused.relu(sub(a,b)):f16:64x12:all,columns:max.axis0",
        "fused.neg(a):i32:50x40:all:max.axis1",
        "fused.sub(a,b):i32:1x999:all,all:min",
        "fused.sub(mul(a,b),#0):f64:36x40:all,rows:sum.axis0",
        "fused.relu(neg(a)):f64:1x512:all:sum",
        "fused.max(neg(a),b):f64:33x40:all,columns:min.axis1",
        "fused.div(a,#0):f32:1x64:all:prod",
    ]);
}

#[test]
fn recipes_that_begin_with_a_product_agree_at_every_point() {
    conforms(&[
        "fused.relu(add(@,c)):f32:33x64x20:n,n,columns",
        "fused.mul(add(@,c),d):f32:16x24x32:n,t,all,rows",
        "fused.tanh(mul(@,#0)):f32:9x7x5:t,n",
        "fused.add(add(add(@,c),add(d,e)),mul(f,#0)):f32:12x16x8:t,t,all,rows,columns,one",
        "fused.add(mul(@,@),c):f32:1x100x64:n,n,columns",
        "fused.add(@,c):f32:64x3x40:n,n,all",
        "fused.add(@,#0):f32:5x7x0:n,n",
        "fused.add(@,c):f32:0x7x3:n,n,columns",
    ]);
}

#[test]
fn products_of_every_type_agree() {
    let problems = [
        "fused.relu(add(@,c)):f16:20x24x16:n,n,columns",
        "fused.sub(max(@,c),#0):f16:9x11x7:n,t,rows",
        "fused.relu(sub(@,c)):f64:20x24x16:n,n,all",
        "fused.min(abs(neg(@)),c):f64:9x11x7:t,n,rows",
    ];
    let compared = conform::conforms_at_first(Operation::Fused, &problems, 4);
    assert!(compared >= 2 * problems.len(), "{compared}");
}

/// A recipe made by rule from a seed.
fn random_recipe(seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % below
    };
    let multiplied = next(4) == 0;
    let own = if multiplied { 2 } else { 0 };
    let (inputs, numbers) = (own + 1 + next(4), next(3));
    // Operands to be joined, each wrapped in functions that stay finite and smooth on what they may be given.
    let mut parts: Vec<String> =
        (own..inputs).map(|input| char::from(b'a' + input as u8).to_string()).collect();
    parts.extend((0..numbers).map(|number| format!("#{number}")));
    if multiplied {
        parts.push("tanh(@)".to_string());
    }
    while parts.len() > 1 {
        let right = parts.swap_remove(next(parts.len()));
        let left = parts.swap_remove(next(parts.len()));
        let op = ["add", "sub", "mul", "min", "max"][next(5)];
        let mut joined = format!("{op}({left},{right})");
        if next(2) == 0 {
            let function = ["neg", "abs", "relu", "tanh", "sigmoid", "gelu"][next(6)];
            joined = format!("{function}({joined})");
        }
        parts.push(joined);
    }
    let mut words: Vec<&str> = (0..own).map(|_| ["n", "t"][next(2)]).collect();
    words.extend((own..inputs).map(|_| ["all", "rows", "columns", "one"][next(4)]));
    let sizes = if multiplied {
        format!("{}x{}x{}", 1 + next(40), 1 + next(40), 1 + next(40))
    } else {
        format!("{}x{}", 1 + next(90), 1 + next(90))
    };
    let ends = ["", "", ":sum", ":max.axis1", ":sum.axis0", ":mean.axis1"];
    let end = if multiplied { "" } else { ends[next(ends.len())] };
    format!("fused.{}:f32:{sizes}:{}{end}", parts[0], words.join(","))
}

#[test]
fn random_recipes_agree_at_the_first_points_of_every_kernel() {
    let recipes: Vec<String> = (1..=40).map(random_recipe).collect();
    let recipes: Vec<&str> = recipes.iter().map(String::as_str).collect();
    let compared = conform::conforms_at_first(Operation::Fused, &recipes, 2);
    println!("{compared} runs");
    assert!(compared >= 2 * recipes.len(), "{compared}");
}

#[test]
fn special_values_pass_through_as_they_do_unfused() {
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 1e4];
    let pairs: Vec<(f64, f64)> = special.iter().flat_map(|&a| special.map(|b| (a, b))).collect();
    for (recipe, dtype) in
        ["max(neg(a),mul(b,#0))", "min(abs(a),b)", "relu(min(mul(a,#0),b))", "max(a,relu(b))"]
            .into_iter()
            .flat_map(|recipe| ["f32", "f16", "f64"].map(|dtype| (recipe, dtype)))
    {
        let text = format!("fused.{recipe}:{dtype}:1x{}:all,all", pairs.len());
        let problem: Problem = text.parse().unwrap();
        let Problem::Fused(fused) = problem else { unreachable!("{text}") };
        let of = |values: Vec<f64>| match fused.dtype {
            DType::F64 => Data::F64(values),
            DType::F16 => Data::F16(values.into_iter().map(f16::from_f64).collect()),
            _ => Data::F32(values.into_iter().map(|value| value as f32).collect()),
        };
        let mut operands = Operands::new(&problem);
        operands.inputs =
            vec![of(pairs.iter().map(|p| p.0).collect()), of(pairs.iter().map(|p| p.1).collect())];
        operands.inputs.extend((fused.numbers() > 0).then(|| of(vec![1.0])));
        let expected = Expected::new(conform::processor().as_ref(), &problem, &operands).unwrap();
        let Expected::All { values: wanted, .. } = expected else {
            unreachable!("recipes are compared whole")
        };
        let mut compared = 0;
        for device in &conform::devices() {
            for (number, kernel) in device.table().iter().enumerate() {
                for point in kernel.space(&problem, device.facts()).points().iter().take(1) {
                    let inputs: Vec<Slice<'_>> = operands.inputs.iter().map(Data::slice).collect();
                    let out = operands.out.slice_mut();
                    device.launch(KernelId(number as u32), &problem, point, &inputs, out).unwrap();
                    compared += 1;
                    for (index, pair) in pairs.iter().enumerate() {
                        let (found, wanted) = (operands.out.at(index).unwrap(), wanted.at(index).unwrap());
                        let same = found.to_bits() == wanted.to_bits() || found.is_nan() && wanted.is_nan();
                        assert!(same, "{text} of {pair:?}: found {found}, wanted {wanted}");
                    }
                }
            }
        }
        assert!(compared > 0, "no kernel takes {text}");
    }
}

#[test]
fn what_an_adapter_lacks_is_declined_with_the_reason() {
    let device = &conform::devices()[0];
    let reasons = |text: &str| -> Vec<String> {
        let problem: Problem = text.parse().unwrap();
        let kernels = device.table().iter().filter(|kernel| kernel.info().operation == Operation::Fused);
        kernels
            .filter_map(|kernel| kernel.declines(&problem, device.facts()))
            .map(|d| d.to_string())
            .collect()
    };
    let has = |text: &str, reason: &str| {
        let found = reasons(text);
        assert!(found.iter().any(|found| found == reason), "{text}: {found:?}");
    };
    has("fused.exp(mul(a,a)):f64:1x64:all", "WGSL has no exp of 64-bit floats");
    has(
        "fused.mul(a,a):f64:1x64:all:min",
        "finds the min of 64-bit floats by their bits, which WGSL does not show of computed ones",
    );
    has("fused.neg(a):f32:1x64:all:sum", "takes elementwise steps, these end in sum");
    has("fused.neg(a):f32:1x64:all", "takes recipes that begin with a product");
    has("fused.neg(@):f32:4x4x4:n,n", "takes recipes that end in a reduction");
}

#[test]
fn a_recipe_is_allowed_more_the_more_functions_it_has() {
    let of = |text: &str| tolerance(&text.parse::<Problem>().unwrap());
    let (one, two) = (of("fused.exp(a):f32:1x64:all"), of("fused.exp(exp(a)):f32:1x64:all"));
    assert!(one > 0.0 && two > 1.5 * one && two < 1e-3, "{one} {two}");
    assert_eq!(of("fused.neg(abs(a)):f32:1x64:all"), 0.0);
}
