//! Our occupancy against NVIDIA's own calculator, compiled from its header, on random points.

use anyhow::{Context, Result, bail, ensure};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use trimtab_cuda::occupancy::{Multiprocessor, Usage};

/// How many points.
const POINTS: usize = 1_000_000;
const CAPABILITIES: [u32; 11] = [75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121];

/// Reads points, writes blocks: one number for each.
const ORACLE: &str = r#"
#include <cstdio>
#include <cstddef>
#include <climits>
#include "cuda_occupancy.h"
int main() {
  int cc, threads_sm, shared_sm, opt_in, reserved, regs, threads, shared, barriers;
  while (scanf("%d %d %d %d %d %d %d %d %d", &cc, &threads_sm, &shared_sm, &opt_in, &reserved, &regs, &threads, &shared, &barriers) == 9) {
    cudaOccDeviceProp d;
    d.computeMajor = cc / 10; d.computeMinor = cc % 10; d.maxThreadsPerBlock = 1024; d.maxThreadsPerMultiprocessor = threads_sm;
    d.regsPerBlock = 65536; d.regsPerMultiprocessor = 65536; d.warpSize = 32; d.sharedMemPerBlock = 49152;
    d.sharedMemPerMultiprocessor = shared_sm; d.sharedMemPerBlockOptin = opt_in; d.numSms = 1; d.reservedSharedMemPerBlock = reserved;
    cudaOccFuncAttributes a;
    a.maxThreadsPerBlock = 1024; a.numRegs = regs; a.numBlockBarriers = barriers;
    int fixed = shared <= 49152 ? shared : 0, dynamic = shared - fixed;
    a.sharedSizeBytes = fixed; a.maxDynamicSharedSizeBytes = dynamic;
    a.shmemLimitConfig = dynamic ? FUNC_SHMEM_LIMIT_OPTIN : FUNC_SHMEM_LIMIT_DEFAULT;
    cudaOccDeviceState s;
    cudaOccResult r;
    cudaOccError e = cudaOccMaxActiveBlocksPerMultiprocessor(&r, &d, &a, &s, threads, dynamic);
    printf("%d\n", e ? -1 : r.activeBlocksPerMultiprocessor);
  }
}
"#;

pub fn compare(header: &Path, work: &Path) -> Result<()> {
    let (source, program) = (work.join("occupancy.cpp"), work.join("occupancy"));
    std::fs::write(&source, ORACLE)?;
    let built = Command::new("g++")
        .args(["-O1", "-w", "-I"])
        .arg(header)
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .status();
    ensure!(
        built.context("g++ compiles NVIDIA's calculator")?.success(),
        "NVIDIA's calculator does not compile"
    );
    let points = points()?;
    let text: String = points.iter().map(|(multiprocessor, usage)| line(multiprocessor, usage)).collect();
    let mut child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().context("a pipe")?;
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output()?;
    writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    let told = String::from_utf8(output.stdout)?;
    ensure!(
        told.lines().count() == points.len(),
        "NVIDIA's calculator answers {} of {}",
        told.lines().count(),
        points.len()
    );
    let mut launchable = 0;
    for (theirs, (multiprocessor, usage)) in told.lines().zip(&points) {
        let ours = multiprocessor.occupancy(usage).blocks;
        if theirs.parse() != Ok(i64::from(ours)) {
            bail!("{usage:?} on {multiprocessor:?}: NVIDIA's calculator says {theirs}, we say {ours}");
        }
        launchable += u32::from(ours > 0);
    }
    println!("occupancy: {POINTS} random points as NVIDIA's calculator, {launchable} of them launchable");
    Ok(())
}

fn points() -> Result<Vec<(Multiprocessor, Usage)>> {
    let mut state = 0x1234_5678_9abc_def1u64;
    let mut below = |most: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % most
    };
    (0..POINTS)
        .map(|_| {
            let capability = CAPABILITIES[below(CAPABILITIES.len() as u64) as usize];
            let multiprocessor = Multiprocessor::of(capability).context("an architecture without a table")?;
            // Sizes of all orders: small ones matter most.
            let order = below(18);
            let shared_bytes = below(2 << order) as u32;
            let (threads, registers, barriers) =
                (1 + below(1024) as u32, 1 + below(255) as u32, below(17) as u32);
            Ok((multiprocessor, Usage { threads, registers, shared_bytes, barriers }))
        })
        .collect()
}

fn line(m: &Multiprocessor, u: &Usage) -> String {
    let numbers = [
        m.capability,
        m.threads,
        m.shared_bytes,
        m.opt_in_shared_bytes,
        m.reserved_shared_bytes,
        u.registers,
        u.threads,
        u.shared_bytes,
        u.barriers,
    ];
    let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
    words.join(" ") + "\n"
}
