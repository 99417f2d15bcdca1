//! Windows over an operand, and attention.

use trimtab_core::{Attention, Channels, Pool, PoolOp};

pub fn pooled(p: &Pool, input: &[f64]) -> Vec<f64> {
    let (w, channels) = (&p.window, p.count());
    let (size, out, kernel) = (w.size(), w.out(), w.kernel());
    let (stride, pad, dilation) = (w.stride(), w.pad(), w.dilation());
    let place = |image: usize, channel: usize, [z, y, x]: [usize; 3], of: [usize; 3]| match p.channels {
        Channels::First => (((image * channels + channel) * of[0] + z) * of[1] + y) * of[2] + x,
        Channels::Last => (((image * of[0] + z) * of[1] + y) * of[2] + x) * channels + channel,
    };
    let mut results = vec![f64::NAN; p.out_len() as usize];
    for image in 0..p.batch() {
        for channel in 0..channels {
            for at in 0..out.iter().product() {
                let at = [at / (out[1] * out[2]), at / out[2] % out[1], at % out[2]];
                let mut seen = Vec::new();
                for tap in 0..kernel.iter().product() {
                    let tap = [tap / (kernel[1] * kernel[2]), tap / kernel[2] % kernel[1], tap % kernel[2]];
                    let along = |axis: usize| {
                        let place = at[axis] * stride[axis] + tap[axis] * dilation[axis];
                        place.checked_sub(pad[axis]).filter(|place| *place < size[axis])
                    };
                    if let (Some(z), Some(y), Some(x)) = (along(0), along(1), along(2)) {
                        seen.push(input[place(image, channel, [z, y, x], size)]);
                    }
                }
                let nan = seen.iter().any(|value| value.is_nan());
                results[place(image, channel, at, out)] = match p.op {
                    PoolOp::Max if nan => f64::NAN,
                    PoolOp::Max => seen.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                    PoolOp::Mean => seen.iter().sum::<f64>() / seen.len() as f64,
                };
            }
        }
    }
    results
}

pub fn attended(p: &Attention, inputs: &[Vec<f64>]) -> Vec<f64> {
    let [batch, queries, keys, depth, width] =
        [p.batch, p.queries, p.keys, p.depth, p.width].map(|size| size as usize);
    let mut out = Vec::with_capacity(batch * queries * width);
    for head in 0..batch {
        for query in 0..queries {
            let q = &inputs[0][(head * queries + query) * depth..][..depth];
            let seen = p.seen(query as u64) as usize;
            let score = |key: usize| {
                let k = &inputs[1][(head * keys + key) * depth..][..depth];
                q.iter().zip(k).map(|(a, b)| a * b).sum::<f64>() / (depth as f64).sqrt()
            };
            let scores: Vec<f64> = (0..seen).map(score).collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
            let all: f64 = weights.iter().sum();
            let value = |key: usize, at: usize| inputs[2][(head * keys + key) * width + at];
            out.extend((0..width).map(|at| {
                weights.iter().enumerate().map(|(key, weight)| weight * value(key, at)).sum::<f64>() / all
            }));
        }
    }
    out
}
