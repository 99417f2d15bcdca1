//! Kept kernels as if their registers had run out: what a compiler seldom does, for tests.

/// The first bytes of kept kernels.
const HEAD: usize = b"trimtab cuda kernels 1\n".len();
/// What stands before the code of each: its number, three counts, the bytes of local memory as the third, and the length.
const BEFORE: usize = 16 + 20;

/// The same kernels, each with 64 bytes of local memory a thread.
pub fn spilling(kept: &[u8]) -> Vec<u8> {
    let (mut bytes, mut at) = (kept.to_vec(), HEAD);
    while at + BEFORE <= bytes.len() {
        bytes[at + 24..at + 28].copy_from_slice(&64u32.to_le_bytes());
        let length = u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + 32 + byte]));
        at += BEFORE + length as usize;
    }
    bytes
}
