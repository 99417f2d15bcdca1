//! What the tests share: modules of `data`, arrays in memory, made-up numbers.

#![allow(dead_code, reason = "each test uses a part")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests; clippy exempts only functions marked as tests"
)]

use trimtab_ptx::{Counters, Fault, GlobalMemory, GridLaunch, Module};

/// A module of `tests/data`.
pub fn module(name: &str) -> Module {
    let path = format!("{}/tests/data/{name}.ptx", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    Module::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub fn memory() -> GlobalMemory {
    GlobalMemory::new(1 << 26)
}

/// Numbers in -1 to 1, the same every time.
pub fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Bytes of anything that has them.
pub trait Bytes: Copy {
    const SIZE: usize;
    fn put(self, to: &mut Vec<u8>);
    fn get(from: &[u8]) -> Self;
}

macro_rules! bytes {
    ($($type:ty),*) => { $(
        impl Bytes for $type {
            const SIZE: usize = size_of::<$type>();
            fn put(self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }
            fn get(from: &[u8]) -> Self {
                <$type>::from_le_bytes(from.try_into().unwrap())
            }
        }
    )* };
}
bytes!(u8, u16, i32, u32, f32, f64, i64);

/// An array with these values.
pub fn upload<T: Bytes>(memory: &mut GlobalMemory, values: &[T]) -> u64 {
    let mut bytes = Vec::new();
    values.iter().for_each(|value| value.put(&mut bytes));
    let address = memory.allocate(bytes.len() as u64).unwrap();
    memory.write(address, &bytes).unwrap();
    address
}

/// An array that nobody wrote.
pub fn empty<T: Bytes>(memory: &mut GlobalMemory, count: usize) -> u64 {
    memory.allocate((count * T::SIZE) as u64).unwrap()
}

pub fn download<T: Bytes>(memory: &GlobalMemory, address: u64, count: usize) -> Vec<T> {
    let mut bytes = vec![0; count * T::SIZE];
    memory.read(address, &mut bytes).unwrap();
    bytes.chunks_exact(T::SIZE).map(T::get).collect()
}

/// Launches, and must succeed.
pub fn run(module: &Module, kernel: &str, memory: &mut GlobalMemory, launch: &GridLaunch) -> Counters {
    let found = module.kernel(kernel).unwrap_or_else(|| panic!("no kernel {kernel}"));
    found.launch(memory, launch).unwrap_or_else(|error| panic!("{error}"))
}

/// Launches, and must find a mistake.
pub fn fault(module: &Module, kernel: &str, memory: &mut GlobalMemory, launch: &GridLaunch) -> Fault {
    let found = module.kernel(kernel).unwrap_or_else(|| panic!("no kernel {kernel}"));
    match found.launch(memory, launch) {
        Err(error) => error.fault().cloned().unwrap_or_else(|| panic!("{error}")),
        Ok(counters) => panic!("{kernel}: nothing found; {counters}"),
    }
}

/// a · b in f64: m × k by k × n.
pub fn product(a: &[f32], b: &[f32], m: usize, n: usize, k: usize) -> Vec<f64> {
    let sum = |row: usize, column: usize| {
        (0..k).map(|i| f64::from(a[row * k + i]) * f64::from(b[i * n + column])).sum()
    };
    (0..m * n).map(|at| sum(at / n, at % n)).collect()
}

pub fn assert_close(got: &[f32], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), expected.len());
    for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
        let error = (f64::from(*got) - expected).abs();
        assert!(error <= tolerance * expected.abs().max(1.0), "{what}: [{at}] is {got}, not {expected}");
    }
}
