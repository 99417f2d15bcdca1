//! One addition after the other in the widest number of its kind, rounded once: the yardstick.

use super::{Adding, counted, given};
use crate::args::{Args, Launched};
use crate::kernels::indices::{Index, by_index};
use trimtab_core::{Bytes, Scatter};
use trimtab_operands::{Element, by_dtype};

yardstick!(
    "cpu.scatter.reference",
    Scatter,
    |problem: &Scatter| match problem.dtype.range() {
        // Lower bits are right whatever is above them.
        Some(_) => Bytes(0),
        None => Bytes(problem.input_len().saturating_mul(size_of::<[f64; 2]>() as u64)),
    },
    |problem: &Scatter, args: Args<'_>| {
        by_dtype!(problem.dtype, T => by_index!(problem.index, I => run::<T, I>(problem, args)))
    }
);

fn run<T: Element, I: Index>(problem: &Scatter, args: Args<'_>) -> Launched {
    let Adding { data, indices, added, out, len, inner, count, .. } = given::<T, I>(problem, args)?;
    if out.is_empty() {
        return Ok(());
    }
    let place = |at: usize| {
        let (line, nth, column) = (at / inner / count, at / inner % count, at % inner);
        (line * len + indices[if problem.each { at } else { nth }].place(len)) * inner + column
    };
    if T::DTYPE.range().is_some() {
        out.copy_from_slice(data);
        for (at, value) in added.iter().enumerate() {
            let to = &mut out[place(at)];
            *to = T::from_i64(to.to_i64().wrapping_add(value.to_i64()));
        }
        return Ok(());
    }
    let mut sums: Vec<[f64; 2]> = data.iter().map(|value| value.numbers()).collect();
    for (at, value) in added.iter().enumerate() {
        let (sum, value) = (&mut sums[place(at)], value.numbers());
        *sum = [sum[0] + value[0], sum[1] + value[1]];
    }
    out.iter_mut().zip(sums).for_each(|(out, sum)| *out = T::of_numbers(sum));
    Ok(())
}
