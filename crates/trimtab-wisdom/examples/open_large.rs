//! Prints, as JSON, how long opening a directory of many facts takes and how much memory it needs at most. Argument: number of facts (1000000).
//! Each opening is a process of its own; facts that are as many as the bound keep are all there, of more the newest.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use trimtab_wisdom::{FactKey, Filter, MAX_FACTS, Outcome, Stats, Wisdom};

const OPENINGS: usize = 5;
const A_SEGMENT: usize = 50_000;

fn fact(number: usize) -> (FactKey, Outcome) {
    let (size, point) = (16 + number / 20, number % 20);
    let key = FactKey {
        device: "cpu:AMD EPYC 7B13:8c16t:avx2+fma:linux-6.8".into(),
        kernel: format!("cpu.matmul.blocked{}", point % 4),
        version: "3f2a9c0d4b5e6f70".into(),
        problem: format!("matmul:f32:{size}x{size}x{size}"),
        point: format!("mc={},kc=256,nc=4096,threads={}", 32 + point, 1 + point % 8),
        condition: "quiet".into(),
    };
    let ns = 1234.567 + number as f64 * 1.37;
    let stats = Stats::single(ns).merge(&Stats::single(ns * 1.013)).merge(&Stats::single(ns * 1.0071));
    (key, Outcome::Timed(stats))
}

fn write(dir: &Path, facts: usize) -> std::io::Result<u64> {
    let mut bytes = 0;
    for (segment, first) in (0..facts).step_by(A_SEGMENT).enumerate() {
        let wisdom = Wisdom::in_memory();
        (first..facts.min(first + A_SEGMENT))
            .map(fact)
            .for_each(|(key, outcome)| wisdom.record(key, outcome));
        let text = wisdom.export(&Filter::everything());
        let mut file = std::fs::File::create(dir.join(format!("seg-{segment:016x}.jsonl")))?;
        file.write_all(text.as_bytes())?;
        bytes += text.len() as u64;
    }
    Ok(bytes)
}

/// The most memory this process had, in bytes; zero where the system does not say.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().map_or(0, |kb| kb * 1024)
}

/// The processor time of this process with all its threads, in milliseconds, for machines that do other things too; zero where the system does not say.
fn cpu_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    // In hundredths of a second: user and system are the 12th and 13th after the name.
    after_name.split_whitespace().skip(11).take(2).flat_map(str::parse::<u64>).sum::<u64>() * 10
}

#[expect(clippy::disallowed_methods, reason = "this program times the opening, nothing else")]
fn open(dir: &Path) {
    let start = Instant::now();
    let wisdom = Wisdom::open(dir);
    let elapsed = start.elapsed();
    println!("{:.1} {} {} {}", elapsed.as_secs_f64() * 1e3, peak_bytes(), wisdom.len(), cpu_ms());
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, dir] = &arguments[..]
        && role == "open"
    {
        open(Path::new(dir));
        return Ok(());
    }
    let facts: usize = arguments.get(1).map_or(Ok(1_000_000), |text| text.parse())?;
    let dir = tempfile::tempdir()?;
    let bytes = write(dir.path(), facts)?;
    let mut openings = Vec::new();
    for _ in 0..OPENINGS {
        let output = Command::new(std::env::current_exe()?).arg("open").arg(dir.path()).output()?;
        let text = String::from_utf8(output.stdout)?;
        let numbers: Vec<f64> = text.split_whitespace().flat_map(str::parse).collect();
        let [ms, peak, kept, cpu] = numbers[..] else { return Err(format!("it said {text:?}").into()) };
        if (kept as usize) < facts.min(MAX_FACTS * 9 / 10) {
            return Err(format!("{kept} of {facts} facts are there").into());
        }
        openings.push((ms, peak, kept, cpu));
    }
    openings.sort_by(|a, b| a.0.total_cmp(&b.0));
    let peak = openings.iter().map(|opening| opening.1).fold(0.0, f64::max);
    println!(
        "{{\"facts\":{facts},\"bytes\":{bytes},\"openings\":{OPENINGS},\"min_ms\":{:.0},\"median_ms\":{:.0},\"max_ms\":{:.0},\"cpu_ms\":{:.0},\"peak_mib\":{:.0},\"kept\":{}}}",
        openings[0].0,
        openings[OPENINGS / 2].0,
        openings[OPENINGS - 1].0,
        openings.iter().map(|opening| opening.3).fold(f64::INFINITY, f64::min),
        peak / 1048576.0,
        openings[0].2
    );
    Ok(())
}
