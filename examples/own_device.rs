//! A device of your own beside the processor: it competes, is explained, and is replaced when it fails. `device.rs` has the device.
//!
//! `cargo run --release -p trimtab-examples --bin own_device`

use trimtab::Problem;
use trimtab::{Offload, Runtime, Tensor};
use trimtab_examples::Second;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let x = Tensor::from_fn(&[96, 64], |index| (index % 9) as f32 - 4.0)?;
    let problem: Problem = "matmul:f32:96x96x64:n,t".parse()?;

    // Beside the processor, where it has to win with moving the operands counted.
    let rt = Runtime::builder().add_device(Second::new()).build()?;
    for device in rt.devices() {
        println!("{}: {}", device.facts().id, device.facts().name);
    }
    let here = rt.matmul(&x, &x.transposed())?;
    let decision = rt.explain(&problem)?;
    println!("{problem}: {}", decision.reason);
    for rival in decision.best_per_kernel() {
        match rival.call_time() {
            Some(_) => println!("  {} {}, moving {}", rival.device_id, rival.name, rival.transfer),
            None => println!("  {} {}", rival.device_id, rival.name),
        }
    }

    // A rule is obeyed, not weighed: everything it can do goes there. This is how you test your device.
    let everything = Offload { all: Some(0), ..Offload::default() };
    let rt =
        Runtime::builder().wisdom_in_memory().add_device(Second::new()).device("second").offload(everything);
    let rt = rt.build()?;
    let there = rt.matmul(&x, &x.transposed())?;
    let decision = rt.explain(&problem)?;
    let device = decision.winner().map_or("nowhere", |winner| &*winner.device_id);
    println!("by rule it runs on {device}");
    println!("same result: {}", here == there);
    Ok(())
}
