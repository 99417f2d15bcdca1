//! Sentences that explanations of several models share.

use super::Axes;

/// The name of an axis.
pub(super) fn axis(axes: &Axes, axis: usize) -> &str {
    axes.names.get(axis).map_or("?", String::as_str)
}

/// The first rivals with how much longer than the first they are expected to take: `a, b +7 %, c +30 %`.
pub(super) fn ranking(log2: &[f64], rivals: &[&str]) -> String {
    let mut order: Vec<usize> =
        (0..log2.len().min(rivals.len())).filter(|&rival| !log2[rival].is_nan()).collect();
    order.sort_by(|&a, &b| log2[a].total_cmp(&log2[b]).then(a.cmp(&b)));
    let Some(&first) = order.first() else { return "nothing is known".to_string() };
    let mut parts = vec![rivals[first].to_string()];
    for &rival in order.iter().skip(1).take(2) {
        let percent = ((log2[rival] - log2[first]).exp2() - 1.0) * 100.0;
        parts.push(format!("{} +{percent:.0} %", rivals[rival]));
    }
    parts.join(", ")
}

/// The two rivals with the least predictions.
pub(super) fn best_two(log2: &[f64]) -> Option<(usize, usize)> {
    let mut order: Vec<usize> = (0..log2.len()).filter(|&rival| !log2[rival].is_nan()).collect();
    order.sort_by(|&a, &b| log2[a].total_cmp(&log2[b]).then(a.cmp(&b)));
    Some((*order.first()?, *order.get(1)?))
}

/// What speaks most for the first of two rivals and against the second: axes by what they add to the difference.
pub(super) fn reasons(axes: &Axes, mut parts: Vec<(usize, f64)>, first: &str, second: &str) -> Vec<String> {
    parts.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()).then(a.0.cmp(&b.0)));
    let told = parts.into_iter().take(4).filter(|(_, part)| part.abs() > 0.005);
    told.map(|(at, part)| {
        let winner = if part > 0.0 { first } else { second };
        format!("{} speaks for {winner} by {:.2} doublings", axis(axes, at), part.abs())
    })
    .collect()
}

/// Where a problem lies, in sizes: `m 512, n 30`.
pub(super) fn place(axes: &Axes, near: &[f64]) -> String {
    let sizes = near.iter().enumerate().map(|(at, value)| {
        let name = axis(axes, at);
        match name.strip_prefix("log2 ") {
            Some(size) => format!("{size} {:.0}", value.exp2()),
            None => format!("{name} {value:.2}"),
        }
    });
    sizes.collect::<Vec<_>>().join(", ")
}

/// As many values as both have room for.
pub(super) fn copy(from: &[f64], to: &mut [f64]) {
    for (slot, value) in to.iter_mut().zip(from) {
        *slot = *value;
    }
}

/// The same from numbers half as wide.
pub(super) fn widen(from: &[f32], to: &mut [f64]) {
    for (slot, value) in to.iter_mut().zip(from) {
        *slot = f64::from(*value);
    }
}
