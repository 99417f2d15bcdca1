//! A kernel of your own: a product by strips of columns. It is checked, measured, tuned and remembered like ours.
//!
//! `cargo run --release -p trimtab-examples --bin own_kernel`

use std::borrow::Cow;
use trimtab::advanced::core::{
    Bytes, DType, Decline, DeviceFacts, Flops, KernelVersion, LaunchError, Matmul, Operand, Problem, Variant,
    VariantClass, Work,
};
use trimtab::advanced::cpu::{Args, Cpu};
use trimtab::{Runtime, Tensor};

trimtab::advanced::core::config! {
    /// Columns of the result that stay in the cache while all rows pass by. Each field is a setting that is tuned.
    struct StripConfig { columns }
}

struct Strips;

impl Variant<Cpu> for Strips {
    type Problem = Matmul;
    type Config = StripConfig;
    fn name(&self) -> Cow<'static, str> {
        "mine.strips".into()
    }
    fn version(&self) -> KernelVersion {
        "1".into() // change it when the code changes: what was learned of the old code is then forgotten
    }
    fn class(&self) -> VariantClass {
        VariantClass::Custom
    }
    fn declines(&self, p: &Matmul, _: &DeviceFacts) -> Option<Decline> {
        let mine =
            p.dtype == DType::F32 && p.batch == 1 && p.lhs == Operand::PLAIN && p.rhs == Operand::PLAIN;
        (!mine).then(|| Decline::because("takes one product of plain f32 matrices"))
    }
    fn configs(&self, _: &Matmul, _: &DeviceFacts) -> Vec<StripConfig> {
        [64, 16, 256].map(|columns| StripConfig { columns }).to_vec() // the default first
    }
    fn work(&self, p: &Matmul, _: StripConfig, _: &DeviceFacts) -> Work {
        let bytes = Bytes(4 * (p.m * p.k + p.k * p.n + p.m * p.n));
        Work { flops: Flops(2 * p.m * p.n * p.k), bytes, threads: 1, lanes: 1, ..Work::default() }
    }
    fn launch(&self, p: &Matmul, config: StripConfig, args: Args<'_>) -> Result<(), LaunchError> {
        let args = args.typed::<f32>([p.m * p.k, p.k * p.n, p.m * p.n])?;
        let (n, k) = (p.n as usize, p.k as usize);
        args.out.fill(0.0); // what it holds before means nothing
        for left in (0..n).step_by(config.columns.max(1) as usize) {
            let strip = left..(left + config.columns.max(1) as usize).min(n);
            for (out, lhs) in args.out.chunks_exact_mut(n).zip(args.lhs.chunks_exact(k.max(1))) {
                for (x, row) in lhs.iter().zip(args.rhs.chunks_exact(n)) {
                    let sums = out[strip.clone()].iter_mut();
                    sums.zip(&row[strip.clone()]).for_each(|(sum, y)| *sum += x * y);
                }
            }
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rt = Runtime::builder().kernel(Strips).build()?;
    let x = Tensor::from_fn(&[48, 24], |index| (index % 5) as f32)?;
    let product = rt.matmul(&x, &x.transposed())?; // a transposed operand: it declines, and others answer
    println!("{:?} {}", product.shape(), product.get(&[1, 1]).unwrap_or_default());
    let problem: Problem = "matmul:f32:48x24x48".parse()?;
    rt.matmul(&product, &x)?;
    let decision = rt.explain(&problem)?;
    println!("{}", decision.reason);
    for rival in decision.best_per_kernel() {
        let said = rival.call_time().map(|time| time.to_string()).or_else(|| rival.out_because());
        println!("  {} {}: {}", rival.name, rival.point_name, said.unwrap_or_default());
    }
    Ok(())
}
