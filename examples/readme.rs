//! The example of the README, word for word; `tests/programs.rs` compares the two.

use trimtab::{Axis, Runtime, Tensor};
fn main() -> Result<(), trimtab::Error> {
    let rt = Runtime::new()?; // probes the machine, opens what was learned before
    let (x, w) = (Tensor::full(&[64, 32], 2.0f32)?, Tensor::full(&[32, 16], 0.5f32)?);
    let y = rt.relu(&rt.add(&rt.matmul(&x, &w)?, -10.0)?)?; // each call: the best kernel for that shape
    println!("{}", rt.sum(&y, Axis::All)?.item()?);
    Ok(())
}
