//! Prints, as JSON, how long opening a directory takes. Arguments: number of facts (10000), number of segments (1).

use std::time::Instant;
use trimtab_wisdom::{FactKey, Outcome, Stats, Wisdom};

#[expect(clippy::disallowed_methods, reason = "this program times the opening, nothing else")]
fn opened_in_ms(dir: &std::path::Path, facts: usize) -> f64 {
    let start = Instant::now();
    let wisdom = Wisdom::open(dir);
    let elapsed = start.elapsed();
    assert_eq!(wisdom.len(), facts);
    elapsed.as_secs_f64() * 1e3
}

fn main() -> std::io::Result<()> {
    let number = |at: usize, default: usize| -> usize {
        std::env::args().nth(at).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (facts, segments) = (number(1, 10_000), number(2, 1).max(1));
    let dir = tempfile::tempdir()?;
    for segment in 0..segments {
        let wisdom = Wisdom::open(dir.path());
        for fact in (0..facts).filter(|fact| fact % segments == segment) {
            let (size, point) = (16 * (fact / 20), fact % 20);
            let key = FactKey {
                device: "cpu:AMD EPYC 7B13:8c16t:avx2+fma:linux-6.8".into(),
                kernel: format!("cpu.matmul.blocked{}", point % 4),
                version: "3f2a9c0d4b5e6f70".into(),
                problem: format!("matmul:f32:{size}x{size}x{size}"),
                point: format!("mc={},kc=256,nc=4096,threads={}", 32 + point, 1 + point % 8),
                condition: "power=performance".into(),
            };
            let ns = 1234.567 + fact as f64 * 1.37;
            if let Some(stats) = Stats::of(&[ns, ns * 1.013, ns * 1.0071]) {
                wisdom.record(key, Outcome::Timed(stats));
            }
        }
        wisdom.flush();
    }
    let bytes: u64 = std::fs::read_dir(dir.path())?
        .flatten()
        .flat_map(|file| file.metadata())
        .map(|data| data.len())
        .sum();
    let mut times: Vec<f64> = (0..21).map(|_| opened_in_ms(dir.path(), facts)).collect();
    times.sort_by(f64::total_cmp);
    println!(
        "{{\"facts\":{facts},\"segments\":{segments},\"bytes\":{bytes},\"runs\":{},\"min_ms\":{:.2},\"median_ms\":{:.2},\"max_ms\":{:.2}}}",
        times.len(),
        times[0],
        times[times.len() / 2],
        times[times.len() - 1]
    );
    Ok(())
}
