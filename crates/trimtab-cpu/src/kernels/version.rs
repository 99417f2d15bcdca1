//! Versions of kernels: a hash of the source they are compiled from, so that an edit forgets what was learned of it alone.

use trimtab_core::KernelVersion;

/// The version of a kernel of our own, from the source texts it is compiled from.
pub(crate) fn source_version(sources: &[&str]) -> KernelVersion {
    KernelVersion::of_sources(sources)
}

/// The version of a kernel around a crate: the crate's version and the hash of our side of it.
pub(crate) fn crate_version(version: &str, sources: &[&str]) -> KernelVersion {
    KernelVersion::from(format!("{version}+{}", source_version(sources)))
}
