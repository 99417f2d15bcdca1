//! Calibrating: whole calls of each class on each device, from operands in the caller's memory to the result there.

use crate::runtime::{CALIBRATION, HOST, Runtime, blob_name};
use std::sync::Arc;
use trimtab_core::{Bytes, Device, Nanos, Patience, Problem};
use trimtab_operands::{Data, Operands, Slice};
use trimtab_plan::calibration::{Calibration, DeviceTimes, Ladder, Origin, measure};
use trimtab_plan::{Class, Plan, TuneRequest};
use trimtab_tune::{Rules, Stopwatch};

/// Time for choosing the kernels of a size of the ladder.
const TUNE: Nanos = Nanos::from_millis(200);
const TUNE_QUICK: Nanos = Nanos::from_millis(40);
/// Calls are repeated within one measurement until they take this long, but no more often than that.
const ENOUGH: Nanos = Nanos(200_000);
const MOST_CALLS: u64 = 64;

/// A size of the ladder made ready: its operands, and the plan of each device with how many calls are timed at once.
struct Ready {
    problem: Problem,
    operands: Operands,
    plans: Vec<Option<(Plan, u64)>>,
}

impl Runtime {
    /// The calibration in force: what decisions between devices rest on where nobody measured the problem.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// assert!(rt.calibration().times(0).is_none()); // nothing was measured yet
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn calibration(&self) -> Arc<Calibration> {
        self.shared.planner.calibration()
    }

    /// Measures whole calls of the ladder's classes on every device, transfers included, in turns. Puts nothing in force: see
    /// [`Runtime::commit_calibration`]. `told` hears of every size.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::{Class, advanced::plan::calibration::Ladder};
    /// let ladder = Ladder { quick: true, rounds: 3, classes: &[Class::Transpose] };
    /// let times = rt.measure_calibration(ladder, &mut |class, problem| println!("{class}: {problem}"));
    /// assert_eq!(times.len(), rt.devices().len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn measure_calibration(
        &self,
        ladder: Ladder<'_>,
        told: &mut dyn FnMut(Class, &Problem),
    ) -> Vec<DeviceTimes> {
        let mut ready: Option<Ready> = None;
        let mut time = |device: usize, problem: &Problem| {
            if ready.as_ref().is_none_or(|ready| ready.problem != *problem) {
                // The operands before go first: two of the largest need not fit.
                ready = None;
                ready = self.make_ready(problem, ladder.quick);
            }
            let ready = ready.as_mut()?;
            let (plan, calls) = (*ready.plans.get(device)?)?;
            self.time_calls(&plan, problem, &mut ready.operands, calls)
        };
        measure(self.devices(), ladder, &mut time, told)
    }

    /// What decisions rest on now, as times of the same ladder: estimates, nothing measured.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let times = rt.expected_calibration(true);
    /// assert_eq!(times.len(), rt.devices().len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn expected_calibration(&self, quick: bool) -> Vec<DeviceTimes> {
        let of = |(at, device): (usize, &Arc<dyn Device>)| {
            let mut times = DeviceTimes::new(device.as_ref(), Origin::Measured);
            for (class, problem) in Class::ALL
                .into_iter()
                .flat_map(|class| class.ladder(quick).into_iter().map(move |p| (class, p)))
            {
                let expected = self.shared.planner.best_on(&problem, self.terms, at);
                if let (Some((_, time)), Some((_, size))) = (expected, Class::calibrated(&problem)) {
                    times.note(class, size, time.0.max(1) as f64);
                }
            }
            times
        };
        self.devices().iter().enumerate().map(of).collect()
    }

    /// A calibration of what is in force and these times; where both speak of a class on a device, these count.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let calibration = rt.calibration_with(&rt.expected_calibration(true));
    /// assert!(calibration.times(0).is_some() && rt.calibration().times(0).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn calibration_with(&self, times: &[DeviceTimes]) -> Calibration {
        let kept = self.calibration();
        let merged = self.devices().iter().enumerate().map(|(at, device)| {
            let fingerprint = &device.facts().fingerprint.0;
            let new = times.iter().find(|times| times.fingerprint == *fingerprint);
            match (kept.times(at).cloned(), new) {
                (Some(mut kept), Some(new)) => {
                    kept.renew(new);
                    Some(kept)
                }
                (kept, new) => new.cloned().or(kept),
            }
        });
        Calibration::new(merged.collect(), HOST)
    }

    /// Keeps a calibration for later processes and puts it in force from the next call on. An error says why it could not be kept; it is
    /// in force all the same.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// rt.commit_calibration(rt.calibration_with(&rt.expected_calibration(true)))?;
    /// assert!(rt.calibration().times(0).is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn commit_calibration(&self, calibration: Calibration) -> Result<(), String> {
        let mut outcome = Ok(());
        for (at, device) in self.devices().iter().enumerate() {
            if let Some(times) = calibration.times(at) {
                let name = blob_name(CALIBRATION, device.as_ref());
                let kept = self.wisdom().keep_blob(&name, times.to_text().as_bytes());
                outcome = outcome.and(kept);
            }
        }
        self.shared.planner.calibrate(calibration);
        self.shared.schedules.clear();
        outcome
    }

    /// Chooses the kernels of a problem on each device and makes its operands; nothing if they do not fit.
    fn make_ready(&self, problem: &Problem, quick: bool) -> Option<Ready> {
        let needed = Bytes(problem.operand_bytes().0.saturating_mul(2));
        if self.cpu().state().memory_free.is_some_and(|free| needed > free) {
            return None;
        }
        let budget = if quick { TUNE_QUICK } else { TUNE };
        let request = TuneRequest { rules: Rules::default(), ..TuneRequest::new(Patience::Measure, budget) };
        // What cannot be tuned is timed as it is planned.
        let _ = self.tune(problem, &request, &mut |_| ());
        let mut operands = Operands::new(problem);
        let plans = (0..self.devices().len()).map(|device| {
            self.planned().find(|(planned, _)| *planned == device)?;
            let (plan, _) = self.shared.planner.best_on(problem, self.terms, device)?;
            // The first call builds and warms.
            self.time_calls(&plan, problem, &mut operands, 1)?;
            let once = self.time_calls(&plan, problem, &mut operands, 1)?;
            Some((plan, (ENOUGH.0 / once.0.max(1)).clamp(1, MOST_CALLS)))
        });
        let plans = plans.collect();
        Some(Ready { problem: *problem, operands, plans })
    }

    /// What one of so many whole calls takes on average; nothing if one fails.
    fn time_calls(
        &self,
        plan: &Plan,
        problem: &Problem,
        operands: &mut Operands,
        calls: u64,
    ) -> Option<Nanos> {
        let Operands { inputs, out } = operands;
        let inputs: Vec<Slice<'_>> = inputs.iter().map(Data::slice).collect();
        let watch = Stopwatch::start();
        for _ in 0..calls {
            self.launch_once(plan, problem, &inputs, out, false).ok()?;
        }
        Some(Nanos(watch.elapsed().0 / calls.max(1)))
    }
}

/// The times of each device that an earlier process kept; what cannot be used is told.
pub(crate) fn kept(
    devices: &[Arc<dyn Device>],
    wisdom: &trimtab_wisdom::Wisdom,
    warnings: &mut Vec<String>,
) -> Option<Calibration> {
    let mut read = |device: &Arc<dyn Device>| {
        let name = blob_name(CALIBRATION, device.as_ref());
        let text = wisdom.blob(&name).and_then(|bytes| String::from_utf8(bytes).ok());
        let times = text.and_then(|text| DeviceTimes::read(&text, device.as_ref()));
        if times.is_none() && wisdom.has_blob(&name) {
            let id = &device.facts().id;
            warnings.push(format!(
                "the calibration of {id} is damaged or was made with another driver or version, and is not used: run `trimtab calibrate`"
            ));
        }
        times
    };
    let times: Vec<Option<DeviceTimes>> = devices.iter().map(&mut read).collect();
    let any = times.iter().any(Option::is_some);
    any.then(|| Calibration::new(times, HOST))
}
