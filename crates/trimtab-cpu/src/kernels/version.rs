//! Versions of kernels: a hash of the source they are compiled from, so that an edit forgets what was learned of it alone.

use trimtab_core::KernelVersion;

/// The version of a kernel of our own, from the source texts it is compiled from.
pub(crate) fn source_version(sources: &[&str]) -> KernelVersion {
    KernelVersion::from(format!("{:016x}", hash(sources)))
}

/// The version of a kernel around a crate: the crate's version and the hash of our side of it.
pub(crate) fn crate_version(version: &str, sources: &[&str]) -> KernelVersion {
    KernelVersion::from(format!("{version}+{:016x}", hash(sources)))
}

/// FNV-1a, 64 bits, over all the texts in turn.
fn hash(sources: &[&str]) -> u64 {
    let bytes = sources.iter().flat_map(|source| source.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
