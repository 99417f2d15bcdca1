//! Units as types, so that a nanosecond is never added to a byte.

use std::fmt;
use std::time::Duration;

/// A time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A number of floating-point (or integer) operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flops(pub u64);

impl Nanos {
    /// The longest time that can be written down.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// From whole milliseconds.
    pub const fn from_millis(millis: u64) -> Nanos {
        Nanos(millis.saturating_mul(1_000_000))
    }

    /// From seconds; negative and NaN become zero, overlong times saturate.
    pub fn from_secs_f64(seconds: f64) -> Nanos {
        Nanos((seconds * 1e9) as u64)
    }

    /// As seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// What is left after `other`, at least zero.
    pub fn saturating_sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }

    /// As a standard duration.
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Nanos {
        Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    /// ```
    /// use std::time::Duration;
    /// use trimtab_core::Nanos;
    /// let (expected, deadline) = (Nanos::from_millis(2), Duration::from_secs(1));
    /// assert!(Duration::from(expected) < deadline && Nanos::from(deadline) > expected);
    /// ```
    fn from(nanos: Nanos) -> Duration {
        nanos.duration()
    }
}

impl fmt::Display for Nanos {
    /// Three significant digits with the unit that fits: `812 ns`, `4.51 µs`, `30.0 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&scaled(self.0 as f64, &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")]))
    }
}

impl fmt::Display for Bytes {
    /// Binary units: `512 B`, `4.00 KiB`, `1.50 GiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const KIB: f64 = 1024.0;
        let units = [(KIB * KIB * KIB, "GiB"), (KIB * KIB, "MiB"), (KIB, "KiB"), (1.0, "B")];
        f.pad(&scaled(self.0 as f64, &units))
    }
}

impl fmt::Display for Flops {
    /// Decimal units: `2.00 Mflop`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&scaled(self.0 as f64, &[(1e9, "Gflop"), (1e6, "Mflop"), (1e3, "kflop"), (1.0, "flop")]))
    }
}

/// `value` in the largest unit that leaves at least one; whole numbers in the smallest unit.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let last = units.len() - 1;
    for (index, &(scale, unit)) in units.iter().enumerate() {
        let shown = value / scale;
        if shown >= 1.0 || index == last {
            let digits = match shown {
                _ if scale == 1.0 => 0,
                s if s < 10.0 => 2,
                s if s < 100.0 => 1,
                _ => 0,
            };
            return format!("{shown:.digits$} {unit}");
        }
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_with_three_digits_and_the_unit_that_fits() {
        let shown: Vec<String> =
            [0, 812, 4_512, 30_000_000_000].iter().map(|&ns| Nanos(ns).to_string()).collect();
        assert_eq!(shown, ["0 ns", "812 ns", "4.51 µs", "30.0 s"]);
        assert_eq!(Bytes(1536).to_string(), "1.50 KiB");
        assert_eq!(Flops(2_000_000).to_string(), "2.00 Mflop");
    }

    #[test]
    fn nonsense_seconds_become_zero_or_saturate() {
        assert_eq!(Nanos::from_secs_f64(-1.0), Nanos(0));
        assert_eq!(Nanos::from_secs_f64(f64::NAN), Nanos(0));
        assert_eq!(Nanos::from_secs_f64(1e300), Nanos::MAX);
    }
}
