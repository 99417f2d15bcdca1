//! Settings of your own code, found while it runs: the tile of a transpose.
//!
//! `cargo run --release -p trimtab-examples --bin tune_closure`

use trimtab::{Error, Runtime};

/// Transposes by tiles of `tall` x `wide`.
fn transpose(from: &[f32], to: &mut [f32], n: usize, tall: usize, wide: usize) {
    for top in (0..n).step_by(tall) {
        for left in (0..n).step_by(wide) {
            for row in top..(top + tall).min(n) {
                for column in left..(left + wide).min(n) {
                    to[column * n + row] = from[row * n + column];
                }
            }
        }
    }
}

fn main() -> Result<(), Error> {
    let rt = Runtime::new()?;
    let tuned = rt
        .tuned("transpose")
        .parameter("tall=4..128:*2") // doubling
        .parameter("wide=4..128:*2")
        .constraint("tall * wide <= 4096")
        .evaluations(12)
        .build()?;
    for n in [256usize, 512] {
        let from: Vec<f32> = (0..n * n).map(|index| index as f32).collect();
        let mut to = vec![0.0; n * n];
        // Every call computes what it should. The first ones try settings, later ones, also of later processes, use the best.
        for _ in 0..30 {
            tuned.run(&[n as u64], |settings| {
                let setting =
                    |name| settings.get(name).and_then(|value| value.number()).unwrap_or(16.0) as usize;
                transpose(&from, &mut to, n, setting("tall"), setting("wide"));
            });
        }
        let right = (0..n * n).all(|index| to[index] == from[index % n * n + index / n]);
        let tried = tuned.tried(&[n as u64]);
        println!("{n}: right {right}, {tried} settings tried");
        for (name, value) in tuned.best(&[n as u64]).map_or(vec![], |best| best.0) {
            println!("  {name} = {value}");
        }
    }
    Ok(())
}
