//! Sharing wisdom: one runtime measures, another takes over what it learned and measures nothing.
//!
//! Between machines the text travels as a file: `trimtab wisdom export`, `trimtab wisdom import`. What was measured on the same kind of
//! device counts there at once; of other devices it tells a search where to begin.
//!
//! `cargo run --release -p trimtab-examples --bin share_wisdom`

use trimtab::TuneRequest;
use trimtab::advanced::wisdom::Filter;
use trimtab::{Nanos, Patience, Problem};
use trimtab::{Runtime, Tensor};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let problems = ["matmul:f32:96x96x96", "reduce.sum:f32:200000"];

    // The one that measures, for up to half a second a problem.
    let teacher = Runtime::builder().wisdom_in_memory().device("cpu").build()?;
    for problem in problems {
        let request = TuneRequest::new(Patience::Measure, Nanos::from_millis(500));
        let decision = teacher.tune(&problem.parse()?, &request, &mut |_| ())?;
        println!(
            "{problem}: {} ({})",
            decision.winner().map_or("-", |winner| &*winner.name),
            decision.reason
        );
    }
    let text = teacher.wisdom().export(&Filter::everything());
    println!("{} lines to share", text.lines().count());

    // Another one: first look, then take it over.
    let pupil = Runtime::builder().wisdom_in_memory().device("cpu").build()?;
    let before = pupil.import(&text, false)?;
    println!("a dry run: {} new, {} rejected", before.new, before.rejected_count);
    let taken = pupil.import(&text, true)?;
    println!("taken over: {}", taken.committed);

    // The same plans, and nothing was measured for them.
    for problem in problems {
        let problem: Problem = problem.parse()?;
        let (ours, theirs) = (pupil.explain(&problem)?, teacher.explain(&problem)?);
        let named = |decision: &trimtab::Decision| {
            decision.winner().map(|winner| (winner.name.to_string(), winner.point_name.clone()))
        };
        println!("{problem}: {}; same plan: {}", ours.reason, named(&ours) == named(&theirs));
    }
    let x = Tensor::full(&[96, 96], 1.0f32)?;
    println!("computed {}", pupil.matmul(&x, &x)?.get(&[0, 0]).unwrap_or_default());
    Ok(())
}
