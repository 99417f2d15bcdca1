//! Every injected bug is found, named by kind, and by the line of the CUDA source.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests; clippy exempts only functions marked as tests"
)]

mod support;

use support::*;
use trimtab_ptx::{Checks, Fault, FaultKind, GridLaunch};

/// Two blocks of 64 threads on 128 elements.
fn bug(kernel: &str, checks: Checks) -> Result<(), Fault> {
    let mut memory = memory();
    let x = upload(&mut memory, &numbers(128, 11));
    let y = empty::<f32>(&mut memory, 128);
    let mut launch = GridLaunch::new([2, 1, 1], [64, 1, 1]).u64(x).u64(y).u32(128);
    launch.checks = checks;
    launch.limits.instructions = 100_000;
    match module("bugs").kernel(kernel).unwrap().launch(&mut memory, &launch) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.fault().cloned().unwrap_or_else(|| panic!("{error}"))),
    }
}

const BUGS: [(&str, FaultKind, &str); 22] = [
    ("out_of_bounds_read", FaultKind::OutOfBounds, "nothing is allocated"),
    ("out_of_bounds_write", FaultKind::OutOfBounds, "nothing is allocated"),
    ("out_of_bounds_shared", FaultKind::OutOfBounds, "shared memory, of which there are 252 bytes"),
    ("before_the_start", FaultKind::OutOfBounds, "nothing is allocated"),
    ("null_pointer", FaultKind::OutOfBounds, "at 0x0 of global memory"),
    ("misaligned", FaultKind::Misaligned, "no multiple of 16"),
    ("uninitialised_shared", FaultKind::Uninitialised, "never written"),
    ("uninitialised_global", FaultKind::Uninitialised, "never written"),
    ("write_write_race", FaultKind::Race, "has written it"),
    ("read_write_race", FaultKind::Race, "has read it"),
    ("no_warp_barrier", FaultKind::Race, "has read it"),
    ("lanes_in_lockstep", FaultKind::Race, "has written it"),
    ("race_of_blocks", FaultKind::Race, "another block has written it"),
    ("read_of_another_block", FaultKind::Race, "another block has written it"),
    ("plain_beside_atomic", FaultKind::Race, "has updated it"),
    ("barrier_some_skip", FaultKind::Barrier, "reached by 48 of 64"),
    ("different_barriers", FaultKind::Barrier, "different barriers"),
    ("shuffle_of_some", FaultKind::Deadlock, "never arrive"),
    ("shuffle_outside_mask", FaultKind::Mask, "does not take part"),
    ("not_in_its_mask", FaultKind::Mask, "does not name"),
    ("endless", FaultKind::TooLong, "more than 100000"),
    ("trapped", FaultKind::Trap, "trap"),
];

#[test]
fn every_injected_bug_is_found() {
    let source =
        std::fs::read_to_string(format!("{}/tests/data/bugs.cu", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let lines: Vec<&str> = source.lines().collect();
    for (kernel, kind, part) in BUGS {
        let fault = bug(kernel, Checks::default()).expect_err(kernel);
        assert_eq!(fault.kind, kind, "{kernel}: {fault}");
        assert!(fault.to_string().contains(part), "{kernel}: {fault}");
        assert_eq!(fault.kernel, kernel);
        // The line is one of this kernel's.
        let line = fault.source_line.unwrap_or_else(|| panic!("{kernel}: no line")) as usize;
        let start = lines[..line].iter().rposition(|line| line.starts_with("extern")).unwrap();
        assert!(lines[start].contains(&format!("void {kernel}(")), "{kernel}: {fault}");
    }
}

#[test]
fn division_by_zero_is_found() {
    let mut memory = memory();
    let x = upload(&mut memory, &[5i32; 128]);
    let y = empty::<i32>(&mut memory, 128);
    let launch = GridLaunch::new([2, 1, 1], [64, 1, 1]).u64(x).u64(y).u32(128);
    let found = fault(&module("bugs"), "division_by_zero", &mut memory, &launch);
    assert_eq!((found.kind, found.block, found.thread), (FaultKind::DivisionByZero, [0, 0, 0], [0, 0, 0]));
}

#[test]
fn a_check_that_is_off_finds_nothing() {
    let all = Checks::default();
    for (kernel, checks) in [
        ("write_write_race", Checks { shared_races: false, ..all }),
        ("read_write_race", Checks { shared_races: false, ..all }),
        ("race_of_blocks", Checks { global_races: false, ..all }),
        ("uninitialised_shared", Checks { uninitialised: false, ..all }),
        ("uninitialised_global", Checks { uninitialised: false, ..all }),
        ("barrier_some_skip", Checks { exited_at_barrier: false, ..all }),
    ] {
        assert_eq!(bug(kernel, checks), Ok(()), "{kernel}");
    }
}

/// A product with a bug, on a shape that shows it.
fn multiply(
    file: &str,
    kernel: &str,
    tile: usize,
    block: [u32; 3],
    (m, n, k): (usize, usize, usize),
) -> Fault {
    let mut memory = memory();
    let (a, b) = (upload(&mut memory, &numbers(m * k, 1)), upload(&mut memory, &numbers(k * n, 2)));
    let c = empty::<f32>(&mut memory, m * n);
    let grid = [n.div_ceil(tile) as u32, m.div_ceil(tile) as u32, 1];
    let launch = GridLaunch::new(grid, block).u64(a).u64(b).u64(c).u32(m as u32).u32(n as u32).u32(k as u32);
    fault(&module(file), kernel, &mut memory, &launch)
}

#[test]
fn products_without_a_barrier_are_races() {
    let shape = (32, 32, 32);
    for (file, part) in
        [("tiled_no_first_barrier", "has written it"), ("tiled_no_second_barrier", "has read it")]
    {
        let found = multiply(file, "tiled", 16, [16, 16, 1], shape);
        assert_eq!(found.kind, FaultKind::Race, "{found}");
        assert!(found.message.contains(part), "{found}");
    }
    let found = multiply("tiled_bad_store", "tiled", 16, [16, 16, 1], (32, 20, 32));
    assert!(matches!(found.kind, FaultKind::OutOfBounds | FaultKind::Race), "{found}");
}

#[test]
fn asynchronous_copies_nobody_waits_for_are_found() {
    let found = multiply("copies_no_wait", "async_matmul", 32, [128, 1, 1], (32, 32, 32));
    assert_eq!(found.kind, FaultKind::CopyInFlight, "{found}");
    let found = multiply("copies_no_last_barrier", "async_matmul", 32, [128, 1, 1], (32, 32, 64));
    assert_eq!(found.kind, FaultKind::Race, "{found}");
}

#[test]
fn tensor_cores_race_with_stores_without_a_warp_barrier() {
    let mut memory = memory();
    let (a, b) = (upload(&mut memory, &[0x3c00u16; 16 * 32]), upload(&mut memory, &[0x3c00u16; 8 * 32]));
    let c = empty::<f32>(&mut memory, 128);
    let launch = GridLaunch::new([1, 1, 1], [32, 1, 1]).u64(a).u64(b).u64(c).u32(32);
    let found = fault(&module("ldmatrix_no_warp_barrier"), "mma_ldmatrix", &mut memory, &launch);
    assert_eq!(found.kind, FaultKind::Race, "{found}");
    let half = GridLaunch::new([1, 1, 1], [16, 1, 1]).u64(a).u64(b).u64(c).u32(32);
    let found = fault(&module("tensor"), "mma_f16", &mut memory, &half);
    assert_eq!(found.kind, FaultKind::Mask, "{found}");
}
