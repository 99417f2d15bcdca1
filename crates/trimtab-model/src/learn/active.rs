//! What to measure next: first what covers the space, then half of that and half of what the model is least sure of.

use super::{Learned, Table};

/// Problems measured only to cover the space, before a model is asked.
pub const FIRST: usize = 24;
/// Measuring ends where the expected loss is below this share.
pub const ENOUGH_LOSS: f64 = 0.02;

/// Rows of a table that cover it: each the farthest, in coordinates, from those taken before and from `taken`; at most
/// `count`. The first of all is the one nearest the middle.
pub fn k_centre(table: &Table, taken: &[usize], count: usize) -> Vec<usize> {
    let near = table.axes().near;
    let distance =
        |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).take(near).map(|(a, b)| (a - b) * (a - b)).sum() };
    let mut left = vec![f64::INFINITY; table.len()];
    let take = |row: usize, left: &mut Vec<f64>| {
        for (other, least) in left.iter_mut().enumerate() {
            *least = least.min(distance(table.at(row), table.at(other)));
        }
        left[row] = -1.0;
    };
    taken.iter().filter(|row| **row < table.len()).for_each(|&row| take(row, &mut left));
    let mut found = Vec::new();
    while found.len() < count.min(table.len()) {
        let next = if taken.is_empty() && found.is_empty() {
            let middle: Vec<f64> = (0..near)
                .map(|axis| (0..table.len()).map(|row| table.at(row)[axis]).sum::<f64>() / table.len() as f64)
                .collect();
            (0..table.len())
                .min_by(|&a, &b| distance(table.at(a), &middle).total_cmp(&distance(table.at(b), &middle)))
        } else {
            (0..table.len())
                .filter(|&row| left[row] >= 0.0)
                .max_by(|&a, &b| left[a].total_cmp(&left[b]).then(b.cmp(&a)))
        };
        let Some(row) = next else { break };
        take(row, &mut left);
        found.push(row);
    }
    found
}

/// What to measure next.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    /// Rows of the table of wanted problems, in the order they should be measured; none where enough is known.
    pub rows: Vec<usize>,
    /// The mean expected loss over problems that are not measured, as a share; `None` before there is a model.
    pub expected_loss: Option<f64>,
}

/// Which of the wanted problems to measure next, at most `count`. Of `wanted`, only where problems lie is looked at, so their
/// times may be absent ([`Table::want`]); `measured` are its rows that were measured, and `learned` what was learned from
/// them; `takes` says whether a rival takes the problem of a row at all. No rows once all are measured or the expected loss is below [`ENOUGH_LOSS`].
pub fn next(
    wanted: &Table,
    measured: &[usize],
    learned: Option<&Learned>,
    takes: impl Fn(usize, usize) -> bool,
    count: usize,
) -> Next {
    let Some(learned) = learned.filter(|_| measured.len() >= FIRST) else {
        let first = count.min(FIRST.saturating_sub(measured.len()).max(1));
        return Next { rows: k_centre(wanted, measured, first), expected_loss: None };
    };
    let mut known = vec![false; wanted.len()];
    measured.iter().filter(|row| **row < wanted.len()).for_each(|&row| known[row] = true);
    let mut buffers = learned.buffers();
    let mut losses: Vec<(f64, usize)> = Vec::new();
    for row in (0..wanted.len()).filter(|&row| !known[row]) {
        let choice = learned.choose(wanted.at(row), |rival| takes(row, rival), &mut buffers);
        losses.push((choice.map_or(f64::INFINITY, |choice| choice.expected_log2), row));
    }
    let mean = losses.iter().map(|(loss, _)| loss).sum::<f64>() / losses.len().max(1) as f64;
    let expected_loss = mean.exp2() - 1.0;
    if losses.is_empty() || expected_loss < ENOUGH_LOSS {
        return Next { rows: Vec::new(), expected_loss: Some(expected_loss) };
    }
    losses.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut rows: Vec<usize> = losses.iter().take(count.div_ceil(2)).map(|(_, row)| *row).collect();
    let taken: Vec<usize> = measured.iter().chain(&rows).copied().collect();
    rows.extend(k_centre(wanted, &taken, count - rows.len().min(count)));
    Next { rows, expected_loss: Some(expected_loss) }
}
