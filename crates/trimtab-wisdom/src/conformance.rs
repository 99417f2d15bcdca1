//! The laws of a [`Store`], checked against any implementation. For the tests of whoever writes one; it has no dependencies and
//! needs no feature, and a program that does not call it does not contain it.
//!
//! ```
//! use std::sync::Arc;
//! use trimtab_wisdom::{Memory, conformance};
//! let broken = conformance::check(&|| {
//!     let memory = Memory::default();
//!     [Arc::new(memory.clone()), Arc::new(memory)]
//! });
//! assert_eq!(broken, []);
//! ```

use crate::fact::{FactKey, Outcome, Stats};
use crate::store::{Old, Part, Store};
use crate::warning::WarningKind;
use crate::wisdom::Wisdom;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io::{self, ErrorKind};
use std::sync::{Arc, mpsc};
use std::thread;

/// Two ways to one empty place, as two processes have them: two connections, or the same store twice.
pub type Pair = [Arc<dyn Store>; 2];

/// A law that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The law.
    pub law: &'static str,
    /// What was seen instead.
    pub seen: String,
}

type Checked = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// How often something is done while another thread looks on all the time.
const ROUNDS: usize = 25;

type Law = fn(&Pair) -> Checked;

const LAWS: [(&str, Law); 14] = [
    ("what is not there is not found", nothing_is_not_found),
    ("what is appended is read in order, on from any byte", appended_in_order),
    ("a writer is alive until it is dropped", alive_until_dropped),
    ("two writers do not meet", two_writers),
    ("a name in use is refused", name_in_use),
    ("a reader sees what is written as it grows", growing),
    ("replacing puts the new in place of the old", replaced),
    ("replacing leaves what is alive, has grown or is gone", left_alone),
    ("replacing is never seen half", never_half),
    ("what is set aside is kept under another name", set_aside),
    ("a blob is replaced whole", blobs),
    ("what a dead writer left unfinished costs one line", torn),
    ("other names are left alone", foreign),
    ("wisdom loses nothing while others compact", nothing_lost),
];

/// Checks every law, each with a fresh and empty place, and says which do not hold.
pub fn check(fresh: &dyn Fn() -> Pair) -> Vec<Violation> {
    let broken = LAWS.iter().filter_map(|(law, holds)| {
        let seen = holds(&fresh()).err()?.to_string();
        Some(Violation { law, seen })
    });
    broken.collect()
}

fn same<T: PartialEq + Debug>(what: &str, found: T, expected: T) -> Checked {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: {found:?} instead of {expected:?}").into())
}

fn name(number: usize) -> String {
    format!("seg-{number:016x}.jsonl")
}

fn whole(store: &dyn Store, name: &str) -> io::Result<String> {
    store.read(name, 0, u64::MAX).map(|Part { bytes, .. }| String::from_utf8_lossy(&bytes).into_owned())
}

/// Segments of dead writers.
fn dead(store: &dyn Store, texts: &[&str]) -> io::Result<Vec<Old>> {
    let segments = texts.iter().enumerate().map(|(number, text)| {
        store.create(&name(number), text.as_bytes())?;
        Ok(Old { name: name(number), size: text.len() as u64, set_aside: false })
    });
    segments.collect()
}

/// Does the work again and again while another thread looks on, until that one sees what must not be.
fn watched(mut work: impl FnMut(usize) -> Checked, look: impl Fn() -> Checked + Send + Sync) -> Checked {
    let (looked, looks) = mpsc::channel();
    thread::scope(|scope| {
        // It ends with what it has seen, or once no one asks any more.
        let onlooker = scope.spawn(move || {
            loop {
                look()?;
                if looked.send(()).is_err() {
                    return Checked::Ok(());
                }
            }
        });
        let mut done = Ok(());
        for round in 0..ROUNDS {
            done = done.and_then(|()| work(round));
            // One look from beginning to end at what this round left.
            while looks.try_recv().is_ok() {}
            if looks.recv().and_then(|()| looks.recv()).is_err() {
                break;
            }
        }
        drop(looks);
        onlooker.join().map_err(|_| "it panicked")?.and(done)
    })
}

fn nothing_is_not_found([store, _]: &Pair) -> Checked {
    same("segments", store.list().or_else(|error| if_not_found(error, vec![]))?, vec![])?;
    let read = |name: &str| store.read(name, 0, 1).map(|_| ());
    let not_found = Err(ErrorKind::NotFound);
    same("reading", read(&name(0)).map_err(|error| error.kind()), not_found)?;
    same("a blob", store.blob("none").map(|_| ()).map_err(|error| error.kind()), not_found)?;
    same("setting aside", store.set_aside(&name(0)).map(|_| ()).map_err(|error| error.kind()), not_found)?;
    drop(store.create(&name(0), b"")?);
    same("another", read(&name(1)).map_err(|error| error.kind()), not_found)
}

fn if_not_found<T>(error: io::Error, value: T) -> io::Result<T> {
    if error.kind() == ErrorKind::NotFound { Ok(value) } else { Err(error) }
}

fn appended_in_order([one, two]: &Pair) -> Checked {
    let mut writer = one.create(&name(0), b"header\n")?;
    let mut text = "header\n".to_string();
    for n in 0..50 {
        let lines = format!("line {n}\nand more of it\n");
        writer.append(lines.as_bytes())?;
        text.push_str(&lines);
        for store in [one, two] {
            same("the text", whole(store.as_ref(), &name(0))?, text.clone())?;
        }
    }
    let size = text.len() as u64;
    for (from, most) in [(0, 3), (3, 10), (7, size), (size - 1, 9), (size, 9), (size + 5, 9)] {
        let Part { bytes, size: found, .. } = two.read(&name(0), from, most)?;
        let rest = text.as_bytes().get(from as usize..).unwrap_or_default();
        let expected = &rest[..rest.len().min(most as usize)];
        same(&format!("{most} bytes on from {from}"), bytes.as_slice(), expected)?;
        same("the size", found, size)?;
    }
    same("is in place", writer.is_in_place(), true)?;
    drop(writer);
    same("afterwards", whole(two.as_ref(), &name(0))?, text)
}

fn alive_until_dropped([one, two]: &Pair) -> Checked {
    let alive = || -> io::Result<[bool; 2]> {
        Ok([one.read(&name(0), 0, 9)?.alive, two.read(&name(0), 0, 9)?.alive])
    };
    let mut writer = one.create(&name(0), b"header\n")?;
    same("alive at first", alive()?, [true; 2])?;
    writer.append(b"line\n")?;
    let other = one.create(&name(1), b"header\n")?;
    drop(other);
    same("alive while it writes", alive()?, [true; 2])?;
    same("the other one", two.read(&name(1), 0, 9)?.alive, false)?;
    drop(writer);
    same("alive once dropped", alive()?, [false; 2])
}

fn two_writers([one, two]: &Pair) -> Checked {
    let write = |store: &Arc<dyn Store>, number: usize| -> io::Result<String> {
        let mut text = format!("header {number}\n");
        let mut writer = store.create(&name(number), text.as_bytes())?;
        for n in 0..100 {
            let line = format!("{n} of {number}\n");
            writer.append(line.as_bytes())?;
            text.push_str(&line);
        }
        Ok(text)
    };
    let (first, second) = thread::scope(|scope| {
        let other = scope.spawn(|| write(two, 1));
        (write(one, 0), other.join().map_err(|_| "it panicked"))
    });
    same("the first", whole(two.as_ref(), &name(0))?, first?)?;
    same("the second", whole(one.as_ref(), &name(1))?, second??)?;
    let listed: BTreeSet<String> = one.list()?.into_iter().collect();
    same("the names", listed, BTreeSet::from([name(0), name(1)]))
}

fn name_in_use([one, two]: &Pair) -> Checked {
    let writer = one.create(&name(0), b"first\n")?;
    same("a second writer was let in", two.create(&name(0), b"second\n").is_ok(), false)?;
    same("while alive", whole(two.as_ref(), &name(0))?, "first\n".into())?;
    drop(writer);
    same("another writer was let in", two.create(&name(0), b"third\n").is_ok(), false)?;
    same("once dead", whole(one.as_ref(), &name(0))?, "first\n".into())
}

fn growing([one, two]: &Pair) -> Checked {
    let mut writer = one.create(&name(0), b"header\n")?;
    let text = |rounds: usize| (0..rounds).fold("header\n".to_string(), |text, n| text + &format!("{n}\n"));
    let expected = text(ROUNDS);
    watched(
        |round| Ok(writer.append(format!("{round}\n").as_bytes())?),
        || {
            let (mut seen, mut last) = (Vec::new(), 1);
            while last > 0 && seen.len() <= expected.len() {
                let Part { bytes, .. } = two.read(&name(0), seen.len() as u64, 7)?;
                last = bytes.len();
                seen.extend(bytes);
            }
            same("a part of the text", expected.as_bytes().starts_with(&seen), true)
        },
    )
}

fn replaced([one, two]: &Pair) -> Checked {
    let mut old = dead(one.as_ref(), &["a\n", "bb\n", "", "not all of it\n"])?;
    old[3].set_aside = true;
    let new = [(name(10), b"a\nbb\n".to_vec()), (name(11), b"c\n".to_vec())];
    same("gone", two.replace(&old, &mut new.iter().cloned())?, 4)?;
    for (name, text) in &new {
        let part = one.read(name, 0, 99)?;
        same("the new", &part.bytes, text)?;
        same("no one writes the new, but alive", part.alive, false)?;
    }
    let listed = one.list()?;
    same("an old one is listed", old.iter().any(|old| listed.contains(&old.name)), false)?;
    let kept =
        listed.iter().filter(|name| whole(one.as_ref(), name).is_ok_and(|text| text.contains("not all")));
    same("set aside", kept.count(), 1)?;
    let old = Old { name: name(11), size: 2, set_aside: false };
    same("replacing by nothing", two.replace(&[old], &mut std::iter::empty())?, 1)?;
    same("is it there", one.list()?.contains(&name(11)), false)
}

fn left_alone([one, two]: &Pair) -> Checked {
    let mut old = dead(one.as_ref(), &["dead\n", "has grown\n"])?;
    old[1].size -= 6;
    let mut writer = one.create(&name(2), b"alive\n")?;
    old.push(Old { name: name(2), size: 6, set_aside: false });
    old.push(Old { name: name(3), size: 6, set_aside: true });
    same("replaced", two.replace(&old[1..], &mut std::iter::once((name(10), b"new\n".to_vec())))?, 0)?;
    same("written for nothing", one.list()?.contains(&name(10)), false)?;
    same("replaced", two.replace(&old, &mut std::iter::once((name(11), b"dead\n".to_vec())))?, 1)?;
    writer.append(b"still\n")?;
    same("what grew", whole(one.as_ref(), &name(1))?, "has grown\n".into())?;
    same("what is alive", whole(two.as_ref(), &name(2))?, "alive\nstill\n".into())?;
    same("the new", whole(one.as_ref(), &name(11))?, "dead\n".into())
}

fn never_half([one, two]: &Pair) -> Checked {
    let lines: Vec<String> = (0..4).map(|n| format!("line {n}\n")).collect();
    let mut old = dead(one.as_ref(), &lines.iter().map(String::as_str).collect::<Vec<_>>())?;
    watched(
        |round| {
            // All in one, then in two again.
            let (first, second) = lines.split_at(if round % 2 == 0 { lines.len() } else { 2 });
            let names = [name(100 + 2 * round), name(101 + 2 * round)];
            let new: Vec<(String, Vec<u8>)> =
                names.into_iter().zip([first.concat().into(), second.concat().into()]).collect();
            // Where looking takes a lock, some may stay; the next round takes them too.
            one.replace(&old, &mut new.iter().cloned())?;
            let size =
                |(name, text): (String, Vec<u8>)| Old { name, size: text.len() as u64, set_aside: false };
            old.extend(new.into_iter().map(size));
            old.retain(|old| one.read(&old.name, 0, 0).is_ok());
            Ok(())
        },
        || {
            let mut seen = BTreeSet::new();
            for name in two.list()? {
                match whole(two.as_ref(), &name) {
                    Ok(text) => seen.extend(text.split_inclusive('\n').map(str::to_string)),
                    // Replaced meanwhile; the next look sees what stands for it.
                    Err(error) => return Ok(if_not_found(error, ())?),
                }
            }
            same("the lines there are", seen, lines.iter().cloned().collect())
        },
    )
}

fn set_aside([one, two]: &Pair) -> Checked {
    let mut names = BTreeSet::new();
    for text in ["first\n", "second\n", "third\n"] {
        drop(one.create(&name(0), text.as_bytes())?);
        let aside = two.set_aside(&name(0))?;
        same("listed", one.list()?.contains(&name(0)), false)?;
        same("looks like a segment", aside.starts_with("seg-") && aside.ends_with(".jsonl"), false)?;
        same("the text", whole(one.as_ref(), &aside)?, text.into())?;
        names.insert(aside);
    }
    same("different names", names.len(), 3)
}

fn blobs([one, two]: &Pair) -> Checked {
    let blob = |byte: u8| vec![byte; 20_000 + 1000 * usize::from(byte)];
    one.put_blob("a-1_b.c", &blob(0))?;
    two.put_blob("other", b"")?;
    watched(
        |round| {
            let round = u8::try_from(round)?;
            thread::scope(|scope| {
                let other = scope.spawn(|| two.put_blob("a-1_b.c", &blob(round)));
                one.put_blob("a-1_b.c", &blob(round + 1))?;
                Ok(other.join().map_err(|_| "it panicked")??)
            })
        },
        || {
            let found = two.blob("a-1_b.c")?;
            let byte = found.first().copied().unwrap_or_default();
            same("one blob or the other", found == blob(byte), true)
        },
    )?;
    one.put_blob("a-1_b.c", b"last")?;
    same("the last", two.blob("a-1_b.c")?, b"last".to_vec())?;
    same("the other", one.blob("other")?, vec![])?;
    let listed = one.list().or_else(|error| if_not_found(error, vec![]))?;
    same("a blob is listed", listed.iter().any(|name| name.starts_with("seg-")), false)
}

fn key(kernel: &str) -> FactKey {
    FactKey {
        device: "device".into(),
        kernel: kernel.into(),
        problem: "problem".into(),
        ..FactKey::default()
    }
}

fn remember(wisdom: &Wisdom, kernel: &str) {
    wisdom.record(key(kernel), Outcome::Timed(Stats::single(1.0)));
    wisdom.flush();
}

fn torn([one, two]: &Pair) -> Checked {
    let writing = Wisdom::on(Arc::clone(one));
    remember(&writing, "a");
    let found = two.list()?.into_iter().find(|name| name.ends_with(".jsonl")).ok_or("no segment")?;
    let text = whole(two.as_ref(), &found)?;
    // The same segment of another process, which died in the middle of its third line.
    let mut writer = one.create(&name(0), text.as_bytes())?;
    writer.append(&text.as_bytes()[..20])?;
    let wisdom = Wisdom::on(Arc::clone(two));
    same("warnings while it is alive", wisdom.warnings().len(), 0)?;
    drop(writer);
    wisdom.reload();
    let kinds = |wisdom: &Wisdom| wisdom.warnings().iter().map(|warning| warning.kind).collect::<Vec<_>>();
    same("warnings once it is dead", kinds(&wisdom), vec![WarningKind::TornLine])?;
    same("facts", wisdom.len(), 1)?;
    drop(two.create(&name(1), b"no header\n")?);
    wisdom.reload();
    same("of a damaged segment", kinds(&wisdom).last(), Some(&WarningKind::DamagedFile))?;
    same("listed", one.list()?.contains(&name(1)), false)
}

fn foreign([one, two]: &Pair) -> Checked {
    let names = ["notes.txt", "seg-0123.jsonl.bak", "other-0123.jsonl"];
    names.iter().try_for_each(|name| two.create(name, b"mine\n").map(drop))?;
    remember(&Wisdom::on(Arc::clone(one)), "a");
    remember(&Wisdom::on(Arc::clone(one)), "b");
    let wisdom = Wisdom::on(Arc::clone(one));
    wisdom.compact();
    same("warnings", wisdom.warnings(), vec![])?;
    same("facts", wisdom.len(), 2)?;
    names.iter().try_for_each(|name| same(name, whole(one.as_ref(), name)?, "mine\n".into()))
}

fn nothing_lost([one, two]: &Pair) -> Checked {
    let wisdom = Wisdom::on(Arc::clone(one));
    wisdom.intend("device", "k", "1", "running");
    let mut written = 0;
    let others = Wisdom::on(Arc::clone(two));
    watched(
        |round| {
            // One goes on, others come and go and leave their segments.
            remember(&wisdom, &format!("mine {round}"));
            remember(&Wisdom::on(Arc::clone(one)), &format!("theirs {round}"));
            written += 2;
            Ok(())
        },
        || {
            let before = others.len();
            same("compacting", others.compact().error, None)?;
            others.reload();
            same("fewer than before", others.len() < before, false)
        },
    )?;
    others.reload();
    for store in [one, two] {
        let reader = Wisdom::on(Arc::clone(store));
        same("facts", (reader.len(), others.len()), (written, written))?;
        same("warnings", (reader.warnings(), others.warnings()), (vec![], vec![]))?;
        same("crashed", reader.died("device", "k", "1").len(), 0)?;
    }
    drop(wisdom);
    others.compact();
    others.reload();
    same("crashed, once dead", others.died("device", "k", "1"), vec!["running".to_string()])
}
