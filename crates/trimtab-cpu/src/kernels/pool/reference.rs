//! Pooling element by element, means in `f64`: the yardstick.

use super::{at, count, lens, share, taps};
use crate::args::{Args, Launched};
use trimtab_core::{Bytes, Channels, Flops, Pool, PoolOp};
use trimtab_operands::Element;

reference!("cpu.pool.reference", Pool);

fn counted(problem: &Pool) -> (Flops, Bytes) {
    super::counted(problem)
}

fn run<T: Element>(problem: &Pool, args: Args<'_>) -> Launched {
    let p = problem;
    let typed = args.typed::<T>(lens(p))?;
    let (out, size) = (p.window.out(), p.window.size());
    let (places, elements) = (count(out), count(size));
    for (index, result) in typed.out.iter_mut().enumerate() {
        let (batch, channel, place) = match p.channels {
            Channels::First => (index / places / p.count(), index / places % p.count(), index % places),
            Channels::Last => (index / p.count() / places, index % p.count(), index / p.count() % places),
        };
        let place = [place / (out[1] * out[2]), place / out[2] % out[1], place % out[2]];
        let mut value = if p.op == PoolOp::Max { f64::NEG_INFINITY } else { 0.0 };
        for a in taps(p, 0, place[0]) {
            for b in taps(p, 1, place[1]) {
                for c in taps(p, 2, place[2]) {
                    let line = at(p, 0, place[0], a) * size[1] + at(p, 1, place[1], b);
                    let here = line * size[2] + at(p, 2, place[2], c);
                    let x = match p.channels {
                        Channels::First => typed.lhs[(batch * p.count() + channel) * elements + here],
                        Channels::Last => typed.lhs[(batch * elements + here) * p.count() + channel],
                    }
                    .to_f64();
                    value = match p.op {
                        PoolOp::Max if x > value || x.is_nan() => x,
                        PoolOp::Max => value,
                        PoolOp::Mean => value + x,
                    };
                }
            }
        }
        *result = T::from_f64(value * share(p, place));
    }
    Ok(())
}
