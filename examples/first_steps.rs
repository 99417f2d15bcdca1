//! First steps: a runtime, tensors, an operation, and the reason for the kernel that computed it.
//!
//! `cargo run --release -p trimtab-examples --bin first_steps`

use trimtab::Problem;
use trimtab::{Axis, Runtime, Tensor};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Looks at the machine and opens what earlier runs learned; TRIMTAB_WISDOM_DIR=off remembers nothing.
    let rt = Runtime::new()?;
    for device in rt.devices() {
        println!("device {}: {}", device.facts().id, device.facts().name);
    }

    // Shapes are slices; data comes from a vector, a function or one number.
    let x = Tensor::from_fn(&[256, 128], |index| (index % 7) as f32)?;
    let w = Tensor::full(&[128, 64], 0.5f32)?;

    // The first call of a new shape races the kernels that can do it, within 35 ms. The next call goes straight to the winner.
    let y = rt.matmul(&x, &w)?;
    let y = rt.relu(&rt.add(&y, -150.0)?)?;
    println!("sum {}", rt.sum(&y, Axis::All)?.item()?);

    // Views cost nothing: this is the same memory, read in another order.
    let gram = rt.matmul(&y.transposed(), &y)?;
    println!("gram {:?}", gram.shape());

    // Why that kernel: every rival, its time or its reason for standing back.
    let problem: Problem = "matmul:f32:256x64x128".parse()?;
    let decision = rt.explain(&problem)?;
    if let Some(winner) = decision.winner() {
        println!("{problem} runs {} {}: {}", winner.name, winner.point_name, decision.reason);
    }
    for rival in decision.best_per_kernel() {
        match rival.call_time() {
            Some(time) => println!("  {} {time}", rival.name),
            None => println!("  {} {}", rival.name, rival.out_because().unwrap_or_default()),
        }
    }
    Ok(())
}
