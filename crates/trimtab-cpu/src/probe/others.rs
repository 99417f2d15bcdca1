//! How much others use the machine now: the load average lags by a minute, a race takes a few hundredths of a second.

use super::read::text;
use std::path::Path;
use std::sync::Mutex;

/// Ticks of each core that must have passed between two readings: the system counts in hundredths of a second.
const WINDOW: u64 = 10;

/// What was counted since boot, in ticks: time of all cores, time they worked, and time they worked for this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    cores: u64,
    all: u64,
    worked: u64,
    own: u64,
}

impl Reading {
    fn new(root: &Path) -> Option<Reading> {
        let stat = text(root, "proc/stat")?;
        let is_core = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
        let cores = stat.lines().filter(is_core).count() as u64;
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        // user nice system idle iowait irq softirq steal; guest time is part of user time.
        let ticks: Option<Vec<u64>> = line.split_whitespace().take(8).map(|tick| tick.parse().ok()).collect();
        let ticks = ticks?;
        let sum = |ticks: &[u64]| ticks.iter().fold(0, |sum: u64, tick| sum.saturating_add(*tick));
        let all = sum(&ticks);
        let idle = sum(ticks.get(3..5)?);
        let own = text(root, "proc/self/stat")?;
        // Behind the name, which may hold anything: the state is the third field, time as user and system the 14th and 15th.
        let mut fields = own.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut own = || fields.next()?.parse::<u64>().ok();
        let own = own()?.saturating_add(own()?);
        (cores > 0).then_some(Reading { cores, all, worked: all - idle, own })
    }

    /// Cores' worth of work others did since an earlier reading, if that is long enough ago.
    fn others_since(&self, earlier: &Reading) -> Option<f64> {
        let passed = self.all.checked_sub(earlier.all)? / self.cores;
        let worked = self.worked.saturating_sub(earlier.worked);
        let others = worked.saturating_sub(self.own.saturating_sub(earlier.own));
        (passed >= WINDOW).then(|| others as f64 / passed as f64)
    }
}

/// The readings of a device, each compared with the last that is long enough ago.
#[derive(Debug, Default)]
pub(crate) struct Others(Mutex<Vec<Reading>>);

impl Others {
    /// Watches from now on.
    pub(crate) fn watch(root: &Path) -> Others {
        Others(Mutex::new(Reading::new(root).into_iter().collect()))
    }

    /// Cores' worth of work others do; nothing where the system does not tell, or not yet.
    pub(crate) fn now(&self, root: &Path) -> Option<f64> {
        let now = Reading::new(root)?;
        let mut known = self.0.lock().ok()?;
        let at = known.iter().rposition(|earlier| now.others_since(earlier).is_some());
        let others = at.and_then(|at| now.others_since(&known[at]));
        // What is older than the one compared with is not needed again.
        known.drain(..at.unwrap_or(0));
        let ticks = now.all / now.cores;
        if known.last().is_none_or(|last| ticks >= last.all / last.cores + WINDOW / 2) {
            known.push(now);
        }
        others
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::silent;
    use super::*;

    #[test]
    fn what_others_do_is_told_from_what_this_process_does() {
        let tree = silent();
        let write = |worked: u64, own: u64, idle: u64| {
            tree.write(
                "proc/stat",
                &format!("cpu  {worked} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1\ncpu1 1\nintr 5\n"),
            );
            tree.write(
                "proc/self/stat",
                &format!("7 (a ) b) R 1 7 7 0 -1 4194304 0 0 0 0 {own} 0 0 0 20 0 1 0"),
            );
        };
        write(1000, 500, 1000);
        let others = Others::watch(tree.root());
        assert_eq!(others.now(tree.root()), None, "no time has passed");
        write(1010, 510, 1000);
        assert_eq!(others.now(tree.root()), None, "too little time has passed");
        write(1030, 520, 1010);
        assert_eq!(others.now(tree.root()), Some(10.0 / 15.0), "since the last reading that is old enough");
        write(1070, 560, 1010);
        assert_eq!(others.now(tree.root()), Some(0.0), "all of it is this process");
    }

    #[test]
    fn a_machine_that_tells_nothing_tells_nothing_of_others() {
        let tree = silent();
        assert_eq!(Others::watch(tree.root()).now(tree.root()), None);
    }
}
