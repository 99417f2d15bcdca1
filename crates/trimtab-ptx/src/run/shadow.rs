//! Who used which bytes since when: races are found by order, not by luck.

use super::LANES;

/// Who used some bytes last.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// The barrier interval; 0 is nobody.
    epoch: u64,
    /// The time of the warp.
    time: u32,
    thread: u16,
}

/// The last uses of some bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record {
    writer: Mark,
    reader: Mark,
    /// The reader before, if it was another.
    earlier: Mark,
    atomic: bool,
}

/// How bytes are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Read,
    Write,
    Atomic,
}

/// A thread at a moment.
pub(super) struct Who<'a> {
    pub thread: u16,
    pub epoch: u64,
    /// Where this block began; what is before it, but not before `grid_epoch`, other blocks of the launch did.
    pub block_epoch: u64,
    pub grid_epoch: u64,
    pub time: u32,
    /// What this thread knows of the other lanes of its warp.
    pub known: &'a [u32; LANES],
}

/// An unordered use by somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Race {
    pub before: &'static str,
    /// The thread of this block, or none if it was another block.
    pub thread: Option<u16>,
}

impl Who<'_> {
    fn mark(&self) -> Mark {
        Mark { epoch: self.epoch, time: self.time, thread: self.thread }
    }

    /// Whether nothing orders that use before this one.
    #[inline]
    fn unordered(&self, mark: &Mark) -> bool {
        if mark.epoch != self.epoch {
            return mark.epoch < self.block_epoch && mark.epoch >= self.grid_epoch;
        }
        if mark.thread == self.thread {
            return false;
        }
        let lanes = LANES as u16;
        mark.thread / lanes != self.thread / lanes || mark.time > self.known[usize::from(mark.thread % lanes)]
    }

    fn race(&self, before: &'static str, mark: &Mark) -> Option<Race> {
        let ours = mark.epoch >= self.block_epoch;
        self.unordered(mark).then_some(Race { before, thread: ours.then_some(mark.thread) })
    }
}

impl Record {
    /// Notes a use, and the use it races with. Writing what is there already is no race with another write.
    #[inline]
    pub(super) fn note(&mut self, how: Use, who: &Who<'_>, same: bool) -> Option<Race> {
        let written = if self.atomic { "updated" } else { "written" };
        let harmless = match how {
            Use::Read => false,
            Use::Write => same,
            Use::Atomic => self.atomic,
        };
        let mut race = if harmless { None } else { who.race(written, &self.writer) };
        if how == Use::Read {
            // Of the readers before, one of another warp tells most: within a warp lanes often meet.
            let warp = |mark: &Mark| mark.thread / LANES as u16;
            let ours = warp(&self.reader) == who.thread / LANES as u16;
            let keep = ours && self.earlier.epoch == who.epoch && warp(&self.earlier) != warp(&self.reader);
            if self.reader.thread != who.thread && !keep {
                self.earlier = self.reader;
            }
            self.reader = who.mark();
        } else {
            race =
                race.or_else(|| who.race("read", &self.reader)).or_else(|| who.race("read", &self.earlier));
            self.writer = who.mark();
            self.atomic = how == Use::Atomic;
        }
        race
    }
}
