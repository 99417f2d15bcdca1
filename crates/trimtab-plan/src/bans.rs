//! Cool-downs: who failed is left alone for a while, then tried again. Who fails again and again in live calls takes its kernel with it,
//! then its device.

use crate::plan::Rival;
use rustc_hash::FxHashMap;
use std::sync::Mutex;
use std::time::Duration;
use trimtab_core::{FailureKind, KernelId, Nanos};
use trimtab_tune::Stopwatch;

/// Live calls of a kernel, and of a device, that fail before it is left alone as a whole.
const KERNEL_FAILURES: u32 = 3;
const DEVICE_FAILURES: u32 = 6;
/// How long it is left alone the first time; each time after that twice as long …
const COOL_DOWN: Duration = Duration::from_secs(10 * 60);
/// … so many times over at most.
const MAX_DOUBLINGS: u32 = 6;
/// Kernels and devices kept in mind; with more it starts over.
const MAX_BANNED: usize = 1024;
/// How long what is remembered of a failure holds: a driver, a full memory or a library may have been to blame, and may be mended.
const FAILED_DAYS: u64 = 1;
/// The same for who gave wrong results or ended a process: it would have to be mended itself.
const MISCHIEF_DAYS: u64 = 30;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Whether a failure seen then is old enough for another try. What is dated in the future is not.
pub(crate) fn is_over(kind: FailureKind, seen_ms: u64, now_ms: u64) -> bool {
    let days = match kind {
        FailureKind::Wrong | FailureKind::Crashed => MISCHIEF_DAYS,
        _ => FAILED_DAYS,
    };
    now_ms.saturating_sub(seen_ms) >= days * DAY_MS
}

/// Who failed: a kernel, or a device as a whole.
type Who = (u16, Option<KernelId>);

#[derive(Clone, Debug, Default)]
struct Ban {
    failures: u32,
    /// Left alone until then.
    until: Option<Nanos>,
    times: u32,
    last: String,
}

/// Those that are left alone in this process.
#[derive(Debug)]
pub(crate) struct Bans {
    born: Stopwatch,
    known: Mutex<FxHashMap<Who, Ban>>,
    /// Whose failure is long over, with what it was, and whether that was told.
    forgiven: Mutex<FxHashMap<String, (String, bool)>>,
}

impl Default for Bans {
    fn default() -> Bans {
        Bans { born: Stopwatch::start(), known: Mutex::default(), forgiven: Mutex::default() }
    }
}

impl Bans {
    /// A live call of a rival failed.
    pub(crate) fn failed(&self, rival: &Rival, is_host: bool, what: &str) {
        // Whoever answers when nobody else can is never left alone, nor is the processor.
        let kernel = Some((Some(rival.kernel), KERNEL_FAILURES));
        let device = Some((None, DEVICE_FAILURES)).filter(|_| !is_host);
        let Ok(mut known) = self.known.lock() else { return };
        if known.len() >= MAX_BANNED {
            known.clear();
        }
        for (kernel, most) in kernel.into_iter().chain(device).filter(|_| !rival.is_reference()) {
            let ban = known.entry((rival.device, kernel)).or_default();
            ban.failures += 1;
            ban.last = what.to_string();
            if ban.failures >= most {
                let length = COOL_DOWN * (1 << ban.times.min(MAX_DOUBLINGS));
                ban.until = Some(Nanos(self.born.elapsed().0.saturating_add(length.as_nanos() as u64)));
                ban.times += 1;
            }
        }
    }

    /// Why a rival is left alone.
    pub(crate) fn why(&self, rival: &Rival) -> Option<String> {
        let known = self.known.lock().ok().filter(|known| !known.is_empty() && !rival.is_reference())?;
        let now = self.born.elapsed();
        let ban = |kernel: Option<KernelId>| {
            let ban = known.get(&(rival.device, kernel))?;
            let left = ban.until?.saturating_sub(now);
            let what = if kernel.is_some() { "calls of this kernel" } else { "calls on this device" };
            let minutes = left.0 / 60_000_000_000 + 1;
            let Ban { failures, last, .. } = ban;
            (left.0 > 0)
                .then(|| format!("{failures} {what} failed, last: {last}; tried again in {minutes} min"))
        };
        ban(Some(rival.kernel)).or_else(|| ban(None))
    }

    /// Time since this process began.
    pub(crate) fn now(&self) -> Nanos {
        self.born.elapsed()
    }

    /// Whether a failure of then is old enough for another try in this process.
    pub(crate) fn is_past(&self, then: Nanos) -> bool {
        self.now().saturating_sub(then).duration() >= COOL_DOWN
    }

    /// A rival whose remembered failure is long over is tried again.
    pub(crate) fn let_back(&self, label: String, what: String) {
        if let Ok(mut forgiven) = self.forgiven.lock()
            && forgiven.len() < MAX_BANNED
        {
            forgiven.entry(label).or_insert((what, false));
        }
    }

    /// Whom a cool-down let back among these rivals, by name with what it did last. Each is told once.
    pub(crate) fn take_back(&self, rivals: &[Rival]) -> Vec<(String, String)> {
        let (Ok(mut known), Ok(mut forgiven)) = (self.known.lock(), self.forgiven.lock()) else {
            return Vec::new();
        };
        let now = self.born.elapsed();
        let mut back = Vec::new();
        for (label, (what, told)) in forgiven.iter_mut().filter(|(_, (_, told))| !told) {
            if rivals.iter().any(|rival| rival.label() == *label) {
                back.push((label.clone(), what.clone()));
                *told = true;
            }
        }
        for (&(device, kernel), ban) in known.iter_mut() {
            let its =
                |rival: &&Rival| rival.device == device && kernel.is_none_or(|kernel| rival.kernel == kernel);
            let over = ban.until.is_some_and(|until| until <= now);
            if let Some(rival) = rivals.iter().find(its).filter(|_| over) {
                let name = if kernel.is_some() { &rival.name } else { &rival.device_id };
                back.push((name.to_string(), ban.last.clone()));
                (ban.until, ban.failures) = (None, 0);
            }
        }
        back
    }

    /// Forgets a device that left.
    pub(crate) fn leave(&self, device: u16) {
        if let Ok(mut known) = self.known.lock() {
            known.retain(|who, _| who.0 != device);
        }
    }

    pub(crate) fn clear(&self) {
        if let Ok(mut known) = self.known.lock() {
            known.clear();
        }
    }

    /// As if that much time had passed.
    #[cfg(test)]
    fn pass(&self, time: Duration) {
        if let Ok(mut known) = self.known.lock() {
            for ban in known.values_mut() {
                ban.until = ban.until.map(|until| until.saturating_sub(Nanos(time.as_nanos() as u64)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Standing;
    use trimtab_core::{KernelVersion, Point, VariantClass, Work};

    fn rival(device: u16, kernel: u32, class: VariantClass) -> Rival {
        Rival {
            device,
            device_id: "gpu0".into(),
            kernel: KernelId(kernel),
            name: format!("kernel{kernel}").into(),
            version: KernelVersion::from("1"),
            class,
            point: Point::EMPTY,
            point_name: String::new(),
            work: Work::default(),
            transfer: Nanos(0),
            build: Nanos(0),
            energy_uj: None,
            implausible: None,
            standing: Standing::Unconsidered,
        }
    }

    #[test]
    fn a_kernel_then_its_device_is_left_alone_for_a_while_and_let_back_with_a_word() {
        let (bans, one) = (Bans::default(), rival(1, 1, VariantClass::Tiled));
        bans.failed(&one, false, "lost");
        bans.failed(&one, false, "lost");
        assert_eq!(bans.why(&one), None);
        bans.failed(&one, false, "lost");
        let why = bans.why(&one).unwrap();
        assert_eq!(why, "3 calls of this kernel failed, last: lost; tried again in 10 min");
        let other = rival(1, 2, VariantClass::Tiled);
        assert_eq!(bans.why(&other), None);
        (0..3).for_each(|_| bans.failed(&other, false, "lost"));
        let third = rival(1, 3, VariantClass::Tiled);
        assert!(bans.why(&third).unwrap().contains("calls on this device"));
        assert_eq!(bans.why(&rival(0, 3, VariantClass::Tiled)), None);
        assert!(bans.take_back(std::slice::from_ref(&one)).is_empty(), "not yet");

        bans.pass(COOL_DOWN + Duration::from_secs(1));
        assert_eq!((bans.why(&one), bans.why(&third)), (None, None));
        let mut back = bans.take_back(&[one.clone(), other.clone()]);
        back.sort();
        let names: Vec<&str> = back.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["gpu0", "kernel1", "kernel2"]);
        assert!(bans.take_back(std::slice::from_ref(&one)).is_empty(), "told once");
        // The next time it takes twice as long.
        (0..3).for_each(|_| bans.failed(&one, false, "lost again"));
        bans.pass(COOL_DOWN + Duration::from_secs(1));
        assert!(bans.why(&one).unwrap().contains("lost again"));
    }

    #[test]
    fn a_reference_and_the_processor_go_on() {
        let (bans, reference) = (Bans::default(), rival(0, 1, VariantClass::Reference));
        (0..99).for_each(|_| bans.failed(&reference, true, "no"));
        assert_eq!(bans.why(&reference), None);
        let own = rival(0, 2, VariantClass::Tiled);
        (0..99).for_each(|_| bans.failed(&own, true, "no"));
        assert!(bans.why(&own).is_some());
        assert_eq!(bans.why(&rival(0, 3, VariantClass::Tiled)), None);
    }

    #[test]
    fn what_is_remembered_of_a_failure_holds_for_a_day_and_of_a_lie_for_a_month() {
        let now = 1_000 * DAY_MS;
        for (kind, days, over) in [
            (FailureKind::Launch, 0, false),
            (FailureKind::Launch, 1, true),
            (FailureKind::TimedOut, 2, true),
            (FailureKind::Wrong, 29, false),
            (FailureKind::Wrong, 30, true),
            (FailureKind::Crashed, 29, false),
        ] {
            assert_eq!(is_over(kind, now - days * DAY_MS, now), over, "{kind:?} {days}");
        }
        assert!(!is_over(FailureKind::Launch, now + DAY_MS, now), "a clock that runs ahead");
    }
}
