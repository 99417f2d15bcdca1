//! Things compared by time: in turns, short ones repeated, the least time of all rounds.

use anyhow::Result;
use trimtab::Nanos;
use trimtab::advanced::tune::Stopwatch;

/// Most repeats within one measurement.
const MOST_REPEATS: u32 = 1 << 16;

/// Nanoseconds each of `N` calls takes, made by their number: in turn for so many rounds, repeated until a measurement takes `least`.
pub(crate) fn turns<const N: usize>(
    rounds: u32,
    least: Nanos,
    mut call: impl FnMut(usize) -> Result<()>,
) -> Result<[f64; N]> {
    let (mut best, mut repeats) = ([f64::INFINITY; N], [1u32; N]);
    for _ in 0..rounds {
        for which in 0..N {
            let stopwatch = Stopwatch::start();
            for _ in 0..repeats[which] {
                call(which)?;
            }
            let elapsed = stopwatch.elapsed();
            best[which] = best[which].min(elapsed.0 as f64 / f64::from(repeats[which]));
            if elapsed < least {
                repeats[which] = (repeats[which] * 2).min(MOST_REPEATS);
            }
        }
    }
    Ok(best)
}
