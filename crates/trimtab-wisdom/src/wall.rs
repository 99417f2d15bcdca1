//! Wall time, read in this one place. It only orders what is remembered; nothing is timed with it.

use std::time::{SystemTime, UNIX_EPOCH};

/// The last millisecond of the year 9999: a later time in a line is damage or malice, and would win for ever.
pub(crate) const MAX_MS: u64 = 253_402_300_799_999;

/// Milliseconds since 1970; 1 on a machine whose clock is set before that.
#[expect(clippy::disallowed_methods, reason = "the one place of wall time")]
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(MAX_MS).clamp(1, MAX_MS)
}

/// How long ago that was; nothing if it lies in the future.
pub(crate) fn age_ms(then: SystemTime) -> u64 {
    let then = then.duration_since(UNIX_EPOCH).unwrap_or_default();
    now_ms().saturating_sub(u64::try_from(then.as_millis()).unwrap_or(MAX_MS))
}
