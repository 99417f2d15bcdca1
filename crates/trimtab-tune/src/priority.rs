//! Work that must not be in anybody's way.

/// Lets the calling thread, and those it starts, run only where others leave time. Where a system cannot do that for one thread, its
/// priority stays.
pub fn run_when_idle() {
    #[cfg(target_os = "linux")]
    {
        /// The lowest there is.
        const LOWEST: i32 = 19;
        // A system that refuses leaves it as it is: a share of the time is kept in any case.
        let _ = rustix::process::nice(LOWEST);
    }
}
