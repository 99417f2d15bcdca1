//! Parts of what finds elements by index: some indices with what they point at, or some lines whole.

use super::{Audit, Axes, Share, Taken, part, sides};
use crate::slice::{Data, Slice};
use trimtab_core::{Gather, Problem, RandomNumbers, Scatter};

/// Some elements of the result, and of the operand what their indices say. What is computed again has other indices: where it lies in the part.
pub(super) fn gather(
    p: &Gather,
    inputs: &[Slice<'_>],
    out: &Slice<'_>,
    most: Share,
    random: &mut RandomNumbers,
) -> Option<Audit> {
    if p.each {
        let small = |outer, inner| {
            let shape = [outer, p.len, inner];
            Gather::new(p.dtype, p.index, &shape, 1, p.count, true).ok().map(Problem::from)
        };
        return lines([p.outer, p.len, p.inner, p.count], true, p.count, small, inputs, out, most, random);
    }
    let each = most.elements(1).max(1);
    let nth = Taken::some(p.count, each, random);
    let (outer, inner) = sides([p.outer, p.inner], (each / nth.len().max(1)).max(1), each, random)?;
    let places: Option<Vec<usize>> = (0..nth.len())
        .map(|taken| {
            let index = match inputs.get(1)? {
                Slice::I32(all) => i64::from(*all.get(nth.at(taken))?),
                Slice::I64(all) => *all.get(nth.at(taken))?,
                _ => return None,
            };
            let place = if index < 0 { index.checked_add(p.len as i64)? } else { index };
            (0..p.len as i64).contains(&place).then_some(place as usize)
        })
        .collect();
    let places = Taken::Some(places?);
    let count = nth.len() as u64;
    let shape = [outer.len() as u64, count, inner.len() as u64];
    let small = Gather::new(p.dtype, p.index, &shape, 1, count, false).ok()?;
    let from: Axes<'_> = vec![(&outer, p.outer), (&places, p.len), (&inner, p.inner)];
    let to: Axes<'_> = vec![(&outer, p.outer), (&nth, p.count), (&inner, p.inner)];
    let mut audit = part(small.into(), inputs.get(..1)?, &[from], out, &to)?;
    let in_order: Vec<f64> = (0..count).map(|at| at as f64).collect();
    audit.part.inputs.push(Data::of_numbers(p.index, &in_order));
    Some(audit)
}

/// Some lines, each whole.
pub(super) fn scatter(
    p: &Scatter,
    inputs: &[Slice<'_>],
    out: &Slice<'_>,
    most: Share,
    random: &mut RandomNumbers,
) -> Option<Audit> {
    let small = |outer, inner| {
        let shape = [outer, p.len, inner];
        Scatter::new(p.dtype, p.index, &shape, 1, p.count, p.each).ok().map(Problem::from)
    };
    lines([p.outer, p.len, p.inner, p.count], p.each, p.len, small, inputs, out, most, random)
}

/// Some lines of `outer × len × inner` with what has an index along them, so many results each.
#[expect(clippy::too_many_arguments, reason = "what an audit is made of, and by which rule")]
fn lines(
    [all_outer, all_len, all_inner, all_count]: [u64; 4],
    each: bool,
    results: u64,
    small: impl Fn(u64, u64) -> Option<Problem>,
    inputs: &[Slice<'_>],
    out: &Slice<'_>,
    most: Share,
    random: &mut RandomNumbers,
) -> Option<Audit> {
    let line = all_len.saturating_add(all_count).max(1) as usize;
    let fit = (most.computed.min(most.taken) / line).max(usize::from(line <= most.taken));
    let (outer, inner) = sides([all_outer, all_inner], fit, fit, random)?;
    let (len, count, results_all) = (Taken::all(all_len), Taken::all(all_count), Taken::all(results));
    let whole = vec![(&outer, all_outer), (&len, all_len), (&inner, all_inner)];
    let counted = vec![(&outer, all_outer), (&count, all_count), (&inner, all_inner)];
    let indices = if each { counted.clone() } else { vec![(&count, all_count)] };
    let to = vec![(&outer, all_outer), (&results_all, results), (&inner, all_inner)];
    let problem = small(outer.len() as u64, inner.len() as u64)?;
    part(problem, inputs, &[whole, indices, counted], out, &to)
}
