//! The rules of a race: how long batches are, when a rival is dropped, when the leader is certain.

use crate::clock;
use trimtab_core::Nanos;

/// A rival is dropped when its minimum exceeds this multiple of the best after 1, 2, … 6 and more samples.
///
/// Found on real samples of a loaded machine: 13 samples for 5 rivals at a geometric-mean regret of 1.017–1.023, where
/// ten samples each take 49 for 1.008–1.015 and a relative standard deviation of 0.5 % takes over 200 for 1.06.
pub const LADDER: [f64; 6] = [4.0, 2.0, 1.5, 1.3, 1.15, 1.07];

/// The rules of a race. Start from [`Rules::default`], [`Rules::careful`] or [`Rules::thorough`].
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Multiple of the best at which a rival is dropped after 1, 2, … samples.
    pub ladder: [f64; 6],
    /// Whether rivals are dropped at all, or not started because they are expected to be slow.
    pub dropping: bool,
    /// The leader is confirmed when this many of its samples, the minimum included, …
    pub confirm_samples: u32,
    /// … lie within this share above its minimum.
    pub confirm_within: f64,
    /// Samples every rival that is not dropped gets at least.
    pub min_samples: u32,
    /// Samples a rival gets at most.
    pub max_samples: u32,
    /// The share of a batch's time the clock's error may be.
    pub clock_error: f64,
    /// The clock's error; measured if absent. Recordings set it so that batches are the same everywhere.
    pub precision: Option<Nanos>,
    /// A batch takes at least this long, however good the clock is.
    pub batch_time_min: Nanos,
    /// A batch of more than one launch takes at most this long, however bad the clock is.
    pub batch_time_max: Nanos,
    /// A run that takes longer failed.
    pub timeout: Nanos,
    /// Runs after the first are given up at this multiple of the best …
    pub slow_factor: f64,
    /// … but not before this time: a machine that pauses is not a slow kernel.
    pub slow_min: Nanos,
    /// Warm-ups shorter than this never drop a rival: cold caches decide them, and going on costs next to nothing.
    pub warm_up_trusted_from: Nanos,
    /// Rivals within this share of the best are tied.
    pub indifference: f64,
    /// How often disturbed samples of one rival are measured again before they are recorded as they are.
    pub max_remeasures: u32,
    /// How long nothing runs before a disturbed sample is measured again: whoever slept is let run undisturbed for a while, also by a
    /// scheduler that shares its cores fairly with others.
    pub rest: Nanos,
    /// Whether nothing runs that long before every sample: of a device that cannot tell which samples were disturbed.
    pub rest_always: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            ladder: LADDER,
            dropping: true,
            confirm_samples: 2,
            confirm_within: 0.05,
            min_samples: 1,
            max_samples: 12,
            clock_error: 0.01,
            precision: None,
            batch_time_min: Nanos(10_000),
            batch_time_max: Nanos::from_millis(20),
            timeout: Nanos::from_millis(10_000),
            slow_factor: 20.0,
            slow_min: Nanos::from_millis(100),
            warm_up_trusted_from: Nanos(100_000),
            indifference: 0.02,
            max_remeasures: 4,
            rest: Nanos(0),
            rest_always: false,
        }
    }
}

impl Rules {
    /// Longer batches and more samples for a better choice, when someone asked for it and waits: the leader is confirmed
    /// by three samples within 3 %, and whoever may still win has five.
    pub fn careful() -> Rules {
        Rules {
            confirm_samples: 3,
            confirm_within: 0.03,
            min_samples: 5,
            max_samples: 20,
            batch_time_min: Nanos(200_000),
            max_remeasures: 24,
            rest: Nanos::from_millis(3),
            ..Rules::default()
        }
    }

    /// A fixed number of rounds and nobody is dropped: for reports and comparisons, not for choosing.
    pub fn thorough() -> Rules {
        Rules { dropping: false, min_samples: 10, max_samples: 10, ..Rules::careful() }
    }

    /// The multiple of the best a rival with that many samples may have; a warm-up alone counts as one.
    pub(crate) fn allowed(&self, samples: usize) -> f64 {
        self.ladder[samples.clamp(1, self.ladder.len()) - 1]
    }

    /// The time a batch must take for the clock's error to be small enough.
    pub(crate) fn batch_time(&self) -> Nanos {
        let precision = self.precision.unwrap_or_else(clock::precision);
        let needed = Nanos((precision.0 as f64 / self.clock_error.max(1e-6)) as u64);
        needed.max(self.batch_time_min).min(self.batch_time_max)
    }

    /// Launches in a batch when one takes about `ns`.
    pub fn iterations(&self, ns: f64) -> u32 {
        // The cast saturates; a launch of no measurable time gets the longest batch, which the next run corrects.
        ((self.batch_time().0 as f64 / ns.max(1.0)).ceil() as u32).max(1)
    }
}
