//! One expression on two devices: it is placed as a whole, moves included, and says where each launch runs and why.
//!
//! `cargo run --release -p trimtab-examples --features wgpu --bin two_devices` takes a GPU where there is one.

use trimtab::{Axis, Offload, Runtime, Tensor};
use trimtab_examples::Second;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Left alone, every launch goes where the whole takes least. Here a rule sends products elsewhere, so that both have work.
    let products = Offload { matmul: Some(0), all: Some(u64::MAX), ..Offload::default() };
    let mut builder = Runtime::builder().wisdom_in_memory().offload(products);
    if Runtime::new()?.devices().len() < 2 {
        // No GPU: a device of our own takes its place.
        builder = builder.add_device(Second::new());
    }
    let rt = builder.build()?;
    let names: Vec<&str> = rt.devices().iter().map(|device| device.facts().id.as_str()).collect();
    println!("devices: {}", names.join(", "));

    let x = Tensor::from_fn(&[128, 96], |index| (index % 11) as f32 - 5.0)?;
    let w = Tensor::from_fn(&[96, 64], |index| (index % 5) as f32 - 2.0)?;
    let bias = Tensor::full(&[64], 1.0f32)?;

    // Written down; nothing has run.
    let y = (rt.lazy(&x).matmul(&w) + &bias).relu();
    let total = (&y * 2.0).sum(Axis::All);
    println!("{}", total.explain()?);

    // Computed as a whole when it is read. Results stay where they were computed until then.
    println!("total {}", total.item()?);
    let moved = rt.activity();
    println!("moved {} there, {} back", moved.uploads, moved.downloads);

    // What was decided, and what really happened.
    for entry in rt.journal().entries() {
        println!("{entry}");
    }

    // The processor alone gives the same.
    let alone = Runtime::builder().wisdom_in_memory().device("cpu").build()?;
    let same = (alone.lazy(&x).matmul(&w) + &bias).relu();
    println!("same result: {}", (&same * 2.0).sum(Axis::All).item()? == total.item()?);
    Ok(())
}
