//! Stores: the conformance test holds for ours, fails for broken ones, and several wisdoms share one store.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use trimtab_wisdom::conformance::{self, Pair};
use trimtab_wisdom::{
    Directory, FactKey, Filter, Memory, NewSegment, Old, Outcome, Part, Stats, Store, WarningKind, Wisdom,
    Writer,
};

fn key(kernel: &str) -> FactKey {
    FactKey { device: "cpu".into(), kernel: kernel.into(), problem: "p".into(), ..FactKey::default() }
}

fn timed(ns: f64) -> Outcome {
    Outcome::Timed(Stats::single(ns))
}

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    EmptyInsteadOfNotFound,
    DropsEverySecondAppend,
    AppendsInFront,
    ReadsFromTheStart,
    AlwaysAlive,
    NeverAlive,
    OneWriterForAll,
    OverwritesNames,
    ShowsWhatIsTakenBack,
    KeepsTheOld,
    ReplacesTheLiving,
    ReplacesWhatGrew,
    RemovesFirst,
    ShowsHalfOfTheNew,
    RemovesInsteadOfSettingAside,
    SetsAsideUnderOneName,
    ShowsHalfOfABlob,
    CutsUnfinishedLines,
    RemovesForeignNames,
    ForgetsOnReplacing,
}

/// Memory with a fault.
#[derive(Debug)]
struct Faulty {
    memory: Memory,
    fault: Fault,
    /// How often someone began to look, and who did last.
    looks: Arc<Mutex<(usize, Option<ThreadId>)>>,
    refuses: AtomicBool,
}

impl Faulty {
    fn new(memory: &Memory, fault: Fault) -> Arc<Faulty> {
        let (memory, looks, refuses) = (memory.clone(), Arc::default(), AtomicBool::default());
        Arc::new(Faulty { memory, fault, looks, refuses })
    }

    /// Waits until another thread has looked from beginning to end, if any looks.
    fn until_seen(&self) {
        let (before, who) = *self.looks.lock().unwrap();
        if who.is_none_or(|who| who == thread::current().id()) {
            return;
        }
        for _ in 0..200 {
            if self.looks.lock().unwrap().0 > before + 1 {
                return;
            }
            thread::yield_now();
        }
    }

    fn looked(&self) {
        let mut looks = self.looks.lock().unwrap();
        *looks = (looks.0 + 1, Some(thread::current().id()));
    }

    fn refusing(&self) -> io::Result<()> {
        if self.refuses.load(SeqCst) { Err(io::Error::other("no room")) } else { Ok(()) }
    }

    fn remove(&self, name: &str) {
        let Ok(Part { size, .. }) = self.memory.read(name, 0, 0) else { return };
        self.memory
            .replace(&[Old { name: name.into(), size, set_aside: false }], &mut std::iter::empty())
            .unwrap();
    }
}

impl Store for Faulty {
    fn place(&self) -> String {
        format!("memory with {:?}", self.fault)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.looked();
        self.memory.list()
    }

    fn read(&self, name: &str, from: u64, most: u64) -> io::Result<Part> {
        if self.fault == Fault::ShowsWhatIsTakenBack && from == 0 {
            self.looked();
        }
        let from = if self.fault == Fault::ReadsFromTheStart { 0 } else { from };
        match self.memory.read(name, from, most) {
            Ok(mut part) => {
                part.alive = match self.fault {
                    Fault::AlwaysAlive => true,
                    Fault::NeverAlive => false,
                    _ => part.alive,
                };
                if self.fault == Fault::CutsUnfinishedLines {
                    part.bytes
                        .truncate(part.bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1));
                }
                Ok(part)
            }
            Err(_) if self.fault == Fault::EmptyInsteadOfNotFound => {
                Ok(Part { bytes: vec![], size: 0, alive: false })
            }
            Err(error) => Err(error),
        }
    }

    fn create(&self, name: &str, text: &[u8]) -> io::Result<Box<dyn Writer>> {
        self.refusing()?;
        if self.fault == Fault::OverwritesNames {
            self.remove(name);
        }
        let name = if self.fault == Fault::OneWriterForAll { "seg-0.jsonl" } else { name };
        let writer = match self.memory.create(name, text) {
            Err(_) if self.fault == Fault::OneWriterForAll => None,
            writer => Some(writer?),
        };
        let (memory, name) = (self.memory.clone(), name.to_string());
        let store =
            Faulty { memory, fault: self.fault, looks: Arc::clone(&self.looks), refuses: false.into() };
        Ok(Box::new(FaultyWriter { store, name, writer, appended: 0, text: text.to_vec() }))
    }

    fn replace(&self, old: &[Old], new: &mut dyn Iterator<Item = NewSegment>) -> io::Result<usize> {
        let memory = &self.memory;
        match self.fault {
            Fault::KeepsTheOld => {
                for (name, text) in new {
                    drop(memory.create(&name, &text)?);
                }
                Ok(old.len())
            }
            Fault::ReplacesWhatGrew => {
                let now = |old: &Old| Old {
                    size: memory.read(&old.name, 0, 0).map_or(0, |part| part.size),
                    ..old.clone()
                };
                memory.replace(&old.iter().map(now).collect::<Vec<_>>(), new)
            }
            Fault::ReplacesTheLiving => {
                let mut gone = memory.replace(old, new)?;
                for old in old.iter().filter(|old| memory.read(&old.name, 0, 0).is_ok_and(|part| part.alive))
                {
                    memory.set_aside(&old.name)?;
                    gone += 1;
                }
                Ok(gone)
            }
            Fault::RemovesFirst => {
                let gone = memory.replace(old, &mut std::iter::empty())?;
                self.until_seen();
                if gone > 0 {
                    for (name, text) in new {
                        drop(memory.create(&name, &text)?);
                    }
                }
                Ok(gone)
            }
            Fault::ShowsHalfOfTheNew => {
                let half = |(name, text): &NewSegment| (name.clone(), text[..text.len() / 2].to_vec());
                let new: Vec<NewSegment> = new.collect();
                let gone = memory.replace(old, &mut new.iter().map(half))?;
                self.until_seen();
                for (name, text) in new.iter().filter(|_| gone > 0) {
                    self.remove(name);
                    drop(memory.create(name, text)?);
                }
                Ok(gone)
            }
            Fault::ForgetsOnReplacing => {
                let less = |(name, text): NewSegment| {
                    let lines: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b'\n').collect();
                    (name, lines[..lines.len() - usize::from(lines.len() > 2)].concat())
                };
                memory.replace(old, &mut new.map(less))
            }
            Fault::RemovesForeignNames => {
                let foreign = memory.list()?.into_iter().filter(|name| !name.starts_with("seg-"));
                foreign.for_each(|name| self.remove(&name));
                memory.replace(old, new)
            }
            _ => memory.replace(old, new),
        }
    }

    fn set_aside(&self, name: &str) -> io::Result<String> {
        match self.fault {
            Fault::RemovesInsteadOfSettingAside => {
                self.remove(name);
                Ok(format!("{name}.gone"))
            }
            Fault::SetsAsideUnderOneName => {
                self.remove(&format!("{name}.damaged-1"));
                self.memory.set_aside(name)
            }
            _ => self.memory.set_aside(name),
        }
    }

    fn blob(&self, name: &str) -> io::Result<Vec<u8>> {
        self.looked();
        self.memory.blob(name)
    }

    fn put_blob(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.refusing()?;
        if self.fault == Fault::ShowsHalfOfABlob {
            self.memory.put_blob(name, &bytes[..bytes.len() / 2])?;
            self.until_seen();
        }
        self.memory.put_blob(name, bytes)
    }
}

#[derive(Debug)]
struct FaultyWriter {
    store: Faulty,
    name: String,
    writer: Option<Box<dyn Writer>>,
    appended: usize,
    text: Vec<u8>,
}

impl Writer for FaultyWriter {
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.appended += 1;
        let Some(writer) = &mut self.writer else { return Ok(()) };
        match self.store.fault {
            Fault::DropsEverySecondAppend if self.appended.is_multiple_of(2) => return Ok(()),
            Fault::AppendsInFront => {
                self.text.splice(0..0, lines.iter().copied());
                self.writer = None;
                self.store.remove(&self.name);
                self.writer = Some(self.store.memory.create(&self.name, &self.text)?);
                return Ok(());
            }
            Fault::ShowsWhatIsTakenBack => {
                let before = self.store.memory.read(&self.name, 0, u64::MAX)?.bytes;
                writer.append(b"soon: ")?;
                self.store.until_seen();
                self.writer = None;
                self.store.remove(&self.name);
                self.writer = Some(self.store.memory.create(&self.name, &[&before, lines].concat())?);
                return Ok(());
            }
            _ => {}
        }
        writer.append(lines)
    }

    fn is_in_place(&mut self) -> bool {
        self.writer.as_mut().is_some_and(|writer| writer.is_in_place())
    }
}

fn broken(fault: Fault) -> BTreeSet<&'static str> {
    let violations = conformance::check(&|| {
        let store = Faulty::new(&Memory::default(), fault);
        [Arc::clone(&store) as Arc<dyn Store>, store]
    });
    violations.into_iter().map(|violation| violation.law).collect()
}

#[test]
fn a_directory_keeps_every_law() {
    let dir = tempfile::tempdir().unwrap();
    let place = Cell::new(0);
    let fresh = || -> Pair {
        place.set(place.get() + 1);
        let dir = dir.path().join(place.get().to_string());
        [Arc::new(Directory::new(&dir)), Arc::new(Directory::new(&dir))]
    };
    assert_eq!(conformance::check(&fresh), []);
}

#[test]
fn memory_keeps_every_law() {
    let fresh = || -> Pair {
        let memory = Memory::default();
        [Arc::new(memory.clone()), Arc::new(memory)]
    };
    assert_eq!(conformance::check(&fresh), []);
    assert_eq!(broken(Fault::None), BTreeSet::new(), "what the faults are put into has none itself");
}

#[test]
fn every_law_catches_a_store_that_breaks_it() {
    let expected = [
        (Fault::EmptyInsteadOfNotFound, "what is not there is not found"),
        (Fault::DropsEverySecondAppend, "what is appended is read in order, on from any byte"),
        (Fault::AppendsInFront, "what is appended is read in order, on from any byte"),
        (Fault::ReadsFromTheStart, "what is appended is read in order, on from any byte"),
        (Fault::AlwaysAlive, "a writer is alive until it is dropped"),
        (Fault::NeverAlive, "a writer is alive until it is dropped"),
        (Fault::OneWriterForAll, "two writers do not meet"),
        (Fault::OverwritesNames, "a name in use is refused"),
        (Fault::ShowsWhatIsTakenBack, "a reader sees what is written as it grows"),
        (Fault::KeepsTheOld, "replacing puts the new in place of the old"),
        (Fault::ReplacesTheLiving, "replacing leaves what is alive, has grown or is gone"),
        (Fault::ReplacesWhatGrew, "replacing leaves what is alive, has grown or is gone"),
        (Fault::RemovesFirst, "replacing is never seen half"),
        (Fault::ShowsHalfOfTheNew, "replacing is never seen half"),
        (Fault::RemovesInsteadOfSettingAside, "what is set aside is kept under another name"),
        (Fault::SetsAsideUnderOneName, "what is set aside is kept under another name"),
        (Fault::ShowsHalfOfABlob, "a blob is replaced whole"),
        (Fault::CutsUnfinishedLines, "what a dead writer left unfinished costs one line"),
        (Fault::RemovesForeignNames, "other names are left alone"),
        (Fault::ForgetsOnReplacing, "wisdom loses nothing while others compact"),
    ];
    for (fault, law) in expected {
        let broken = broken(fault);
        assert!(broken.contains(law), "{fault:?} breaks {broken:?}");
    }
}

#[test]
fn wisdoms_on_one_memory_see_each_other_and_compact_what_the_dead_left() {
    let memory = Memory::default();
    let on = || Wisdom::on(Arc::new(memory.clone()));
    let (one, two) = (on(), on());
    one.record(key("a"), timed(10.0));
    one.flush();
    assert_eq!((two.reload(), two.len(), two.place().as_deref(), two.dir()), (1, 1, Some("memory"), None));
    two.record(key("a"), timed(30.0));
    two.keep_blob("built", b"kernels").unwrap();
    drop(two);
    one.reload();
    assert_eq!(one.facts("cpu", "p")[0].outcome.stats().unwrap().mean(), 20.0);
    assert_eq!((one.blob("built").as_deref(), one.has_blob("other")), (Some(&b"kernels"[..]), false));
    assert_eq!(on().forget(&Filter::kernel("a")), 1);
    drop(one);
    let report = on().compact();
    assert_eq!((report.segments_merged, report.segments_written, report.error), (3, 1, None));
    assert_eq!((on().len(), memory.list().unwrap().len()), (0, 1), "the forgetting is what is left");
}

#[test]
fn a_store_that_refuses_is_one_warning_and_gets_everything_once_it_takes_it() {
    let memory = Memory::default();
    let store = Faulty::new(&memory, Fault::None);
    store.refuses.store(true, SeqCst);
    let wisdom = Wisdom::on(Arc::clone(&store) as Arc<dyn Store>);
    for n in 0..10 {
        wisdom.record(key(&format!("k{n}")), timed(1.0));
        wisdom.flush();
    }
    wisdom.intend("cpu", "k", "1", "p");
    let warnings = wisdom.warnings();
    assert_eq!((warnings.len(), warnings[0].kind), (1, WarningKind::NotWritable));
    assert!(warnings[0].message.contains("no room"), "{}", warnings[0]);
    assert!(wisdom.keep_blob("b", b"x").unwrap_err().contains("could not be written"));
    assert_eq!((wisdom.len(), Wisdom::on(Arc::new(memory.clone())).len()), (10, 0));

    store.refuses.store(false, SeqCst);
    wisdom.flush();
    let other = Wisdom::on(Arc::new(memory.clone()));
    assert_eq!((other.len(), other.died("cpu", "k", "1").len()), (10, 0));
    drop(wisdom);
    other.reload();
    assert_eq!(other.died("cpu", "k", "1"), ["p"]);
}

#[test]
fn a_segment_that_was_taken_away_is_written_again_elsewhere() {
    let memory = Memory::default();
    let wisdom = Wisdom::on(Arc::new(memory.clone()));
    wisdom.record(key("a"), timed(1.0));
    wisdom.flush();
    let first = memory.list().unwrap().remove(0);
    memory.set_aside(&first).unwrap();
    wisdom.record(key("b"), timed(1.0));
    wisdom.flush();
    assert_eq!(Wisdom::on(Arc::new(memory.clone())).len(), 2);
    assert_eq!(memory.read(&first, 0, 1).unwrap_err().kind(), ErrorKind::NotFound);
}
