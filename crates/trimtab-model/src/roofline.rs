//! The analytic estimate: a kernel's counted work against the device's measured rates. It learns nothing.

use trimtab_core::{Basis, Bytes, Estimate, Nanos, Rates, Work};

/// One standard deviation of the analytic estimate in doublings: right within a factor of two, two times in three.
pub const ANALYTIC_SPREAD_LOG2: f64 = 1.0;

/// The longest time an estimate names: about 30 years. Keeps sums finite.
pub(crate) const LONGEST_NS: f64 = 1e18;

/// The parts of the analytic time of one launch, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Roofline {
    /// Arithmetic at the device's rate.
    pub flop_ns: f64,
    /// Moving bytes at the device's rate.
    pub byte_ns: f64,
    /// Handing work over.
    pub launch_ns: f64,
}

impl Roofline {
    /// The time: arithmetic and moving overlap, handing over does not.
    pub fn total_ns(&self) -> f64 {
        let total = self.flop_ns.max(self.byte_ns) + self.launch_ns;
        if total.is_finite() { total.clamp(1.0, LONGEST_NS) } else { LONGEST_NS }
    }

    /// The time as an estimate.
    pub fn estimate(&self) -> Estimate {
        Estimate {
            time: Nanos(self.total_ns() as u64),
            spread_log2: ANALYTIC_SPREAD_LOG2,
            basis: Basis::Analytic,
        }
    }
}

/// The analytic time of one launch, by parts. `dtype_size` is the bytes of an element.
///
/// Vector code is credited with the lanes it uses, never more than the device has for that element size. Each thread
/// brings its own arithmetic and its own cache; memory is shared.
pub fn roofline(work: &Work, dtype_size: u64, rates: &Rates) -> Roofline {
    let threads = f64::from(work.threads.max(1));
    let device_lanes = f64::from(rates.lanes.max(1));
    let lanes_of_dtype = (device_lanes * 4.0 / dtype_size.max(1) as f64).max(1.0);
    let lanes = f64::from(work.lanes.max(1)).min(lanes_of_dtype);
    let filled = filled(work, rates);
    let flops_per_s = rates.flops_per_s / device_lanes * lanes * threads * filled;

    let bytes = work.bytes.0 as f64;
    let memory = (rates.bytes_per_s * threads).min(rates.bytes_per_s_all.max(rates.bytes_per_s));
    let cached = bytes / threads <= rates.cached_up_to.0 as f64;
    let bytes_per_s = if cached { memory.max(rates.cached_bytes_per_s * threads) } else { memory };

    Roofline {
        flop_ns: nanos(work.flops.0 as f64, flops_per_s),
        byte_ns: nanos(bytes, bytes_per_s * filled),
        launch_ns: (f64::from(work.launches) * rates.launch.0 as f64 + barriers(work, rates)).min(LONGEST_NS),
    }
}

/// The least time one launch of that work can take, in nanoseconds: every lane in use, everything in the cache, nothing handed over.
pub fn least_ns(work: &Work, dtype_size: u64, rates: &Rates) -> f64 {
    let rates = Rates { cached_up_to: Bytes(u64::MAX), ..*rates };
    let work = Work { lanes: u32::MAX, launches: 0, barriers: 0, invocations: 0, ..*work };
    let roof = roofline(&work, dtype_size, &rates);
    roof.flop_ns.max(roof.byte_ns)
}

/// The share of a GPU that so few invocations keep busy; one where that is not what limits a device.
fn filled(work: &Work, rates: &Rates) -> f64 {
    match (work.invocations, rates.filled_by) {
        (0, _) | (_, 0) => 1.0,
        (invocations, needed) => (invocations as f64 / needed as f64).min(1.0),
    }
}

/// What a workgroup's waiting for itself costs. A GPU hides most of it; a processor that plays GPU saves and restores every
/// invocation, and pays more for barriers than for arithmetic.
fn barriers(work: &Work, rates: &Rates) -> f64 {
    if rates.barrier_ns > 0.0 && rates.barrier_ns.is_finite() {
        work.barriers as f64 * rates.barrier_ns
    } else {
        0.0
    }
}

/// The analytic estimate of one launch.
pub fn analytic(work: &Work, dtype_size: u64, rates: &Rates) -> Estimate {
    roofline(work, dtype_size, rates).estimate()
}

/// A rate that is not positive (a device that could not measure it) makes the part unknown: it does not count.
fn nanos(amount: f64, per_s: f64) -> f64 {
    if per_s > 0.0 && per_s.is_finite() { (amount / per_s * 1e9).min(LONGEST_NS) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_core::Flops;

    fn rates() -> Rates {
        Rates {
            barrier_ns: 0.0,
            filled_by: 0,
            flops_per_s: 100e9,
            lanes: 16,
            bytes_per_s: 10e9,
            bytes_per_s_all: 15e9,
            cached_bytes_per_s: 100e9,
            cached_up_to: Bytes(1 << 20),
            launch: Nanos(5_000),
        }
    }

    fn work(flops: u64, bytes: u64, threads: u32, lanes: u32) -> Work {
        Work { flops: Flops(flops), bytes: Bytes(bytes), threads, lanes, ..Work::default() }
    }

    #[test]
    fn the_slower_of_arithmetic_and_memory_counts() {
        assert_eq!(analytic(&work(100_000_000, 0, 1, 16), 4, &rates()).time, Nanos(1_000_000));
        assert_eq!(analytic(&work(1, 100_000_000, 1, 16), 4, &rates()).time, Nanos(10_000_000));
    }

    #[test]
    fn scalar_code_pays_for_every_lane_and_wider_elements_have_fewer_lanes() {
        assert_eq!(roofline(&work(1_000_000, 0, 1, 1), 4, &rates()).flop_ns, 160_000.0);
        assert_eq!(roofline(&work(1_000_000, 0, 1, 16), 8, &rates()).flop_ns, 20_000.0);
        // A scalar f64 instruction is as fast as a scalar f32 one.
        assert_eq!(roofline(&work(1_000_000, 0, 1, 1), 8, &rates()).flop_ns, 160_000.0);
    }

    #[test]
    fn threads_scale_arithmetic_but_memory_only_up_to_what_the_machine_has() {
        assert_eq!(roofline(&work(1_000_000, 0, 4, 16), 4, &rates()).flop_ns, 2_500.0);
        assert_eq!(roofline(&work(0, 150_000_000, 4, 16), 4, &rates()).byte_ns, 10_000_000.0);
    }

    #[test]
    fn a_working_set_in_the_cache_moves_at_the_caches_rate() {
        assert_eq!(roofline(&work(0, 1_000_000, 1, 16), 4, &rates()).byte_ns, 10_000.0);
        assert_eq!(roofline(&work(0, 2_000_000, 2, 16), 4, &rates()).byte_ns, 10_000.0);
    }

    #[test]
    fn each_hand_over_costs_a_launch() {
        let two = Work { launches: 2, ..work(100_000, 0, 1, 16) };
        assert_eq!(analytic(&two, 4, &rates()).time, Nanos(11_000));
    }

    #[test]
    fn barriers_cost_and_a_gpu_that_is_not_filled_is_slower() {
        let gpu = Rates { barrier_ns: 50.0, filled_by: 1024, ..rates() };
        let full = Work { invocations: 4096, ..work(100_000, 0, 1, 16) };
        assert_eq!(analytic(&full, 4, &gpu).time, Nanos(1_000));
        assert_eq!(analytic(&Work { invocations: 256, ..full }, 4, &gpu).time, Nanos(4_000));
        assert_eq!(analytic(&Work { barriers: 100, ..full }, 4, &gpu).time, Nanos(6_000));
        assert_eq!(
            analytic(&Work { barriers: 100, invocations: 256, ..full }, 4, &rates()).time,
            Nanos(1_000)
        );
    }

    #[test]
    fn nothing_to_do_and_rates_that_make_no_sense_still_give_a_time() {
        assert_eq!(analytic(&Work::default(), 4, &rates()).time, Nanos(1));
        let most = work(u64::MAX, u64::MAX, u32::MAX, u32::MAX);
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300] {
            let broken = Rates {
                flops_per_s: rate,
                bytes_per_s: rate,
                bytes_per_s_all: rate,
                cached_bytes_per_s: rate,
                lanes: 0,
                ..rates()
            };
            for size in [0, 1, 4, 8, u64::MAX] {
                let time = analytic(&most, size, &broken).time;
                assert!(time >= Nanos(1) && time < Nanos::MAX, "{rate} {size} {time}");
            }
        }
    }

    #[test]
    fn more_work_never_takes_less_time_outside_the_edge_of_the_cache() {
        let mut last = Nanos(0);
        for shift in 0..40 {
            let time = analytic(&work(1 << shift, 1 << shift, 2, 8), 4, &rates()).time;
            assert!(time >= last);
            last = time;
        }
    }
}
