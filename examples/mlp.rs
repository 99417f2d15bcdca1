//! A multilayer perceptron of 784, 256, 128 and 10 units, call by call and as one expression.
//!
//! `cargo run --release -p trimtab-examples --bin mlp`

use trimtab::{Error, Expression, Runtime, Tensor};

/// Weights and bias of a layer.
struct Layer {
    weights: Tensor<f32>,
    bias: Tensor<f32>,
}

impl Layer {
    fn new(inputs: usize, outputs: usize, seed: usize) -> Result<Layer, Error> {
        // Small numbers of both signs, the same in every run.
        let number = |index: usize| ((index * 7919 + seed * 104_729) % 2_001) as f32 / 1_000.0 - 1.0;
        let scale = 1.0 / (inputs as f32).sqrt();
        let weights = Tensor::from_fn(&[inputs, outputs], |index| number(index) * scale)?;
        Ok(Layer { weights, bias: Tensor::from_fn(&[outputs], |index| number(index + 31) * 0.1)? })
    }
}

/// Each call computes at once.
fn eager(rt: &Runtime, layers: &[Layer], x: &Tensor<f32>) -> Result<Tensor<f32>, Error> {
    let mut y = x.clone();
    for (depth, layer) in layers.iter().enumerate() {
        y = rt.add(&rt.matmul(&y, &layer.weights)?, &layer.bias)?;
        if depth + 1 < layers.len() {
            y = rt.relu(&y)?;
        }
    }
    rt.softmax(&y, 1)
}

/// Nothing runs until somebody reads the result; then bias and relu run together with the product where that is faster.
fn lazy(rt: &Runtime, layers: &[Layer], x: &Tensor<f32>) -> Expression<f32> {
    let mut y = rt.lazy(x);
    for (depth, layer) in layers.iter().enumerate() {
        y = y.matmul(&layer.weights) + &layer.bias;
        if depth + 1 < layers.len() {
            y = y.relu();
        }
    }
    y.softmax(1)
}

fn main() -> Result<(), Error> {
    let rt = Runtime::new()?;
    let layers = [Layer::new(784, 256, 1)?, Layer::new(256, 128, 2)?, Layer::new(128, 10, 3)?];
    for batch in [1, 32] {
        let x = Tensor::from_fn(&[batch, 784], |index| (index % 255) as f32 / 255.0)?;
        let one_by_one = eager(&rt, &layers, &x)?;
        let whole = lazy(&rt, &layers, &x);
        println!("batch {batch}");
        println!("{}", whole.explain()?);
        let whole = whole.eval()?;
        // Kernels add up in different orders, so the last digits may differ.
        let apart =
            one_by_one.to_vec().iter().zip(whole.to_vec()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        println!("largest difference between the two: {apart:.1e}");
        println!("most likely: {:?}\n", rt.argmax(&whole, 1)?.to_vec());
    }
    Ok(())
}
