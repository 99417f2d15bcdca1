//! A store in memory, for several [`Wisdom`](crate::Wisdom)s of one process, for tests, and to write behind of.

use crate::store::{NewSegment, Old, Part, Store, Writer, aside_name};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Segments and blobs in memory. Clones are the same store.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Text, and whether its writer is alive.
    segments: BTreeMap<String, (Vec<u8>, bool)>,
    blobs: BTreeMap<String, Vec<u8>>,
}

impl Kept {
    fn set_aside(&mut self, name: &str) -> io::Result<String> {
        let segment = self.segments.remove(name).ok_or(ErrorKind::NotFound)?;
        let mut number = 1;
        while self.segments.contains_key(&aside_name(name, number)) {
            number += 1;
        }
        let aside = aside_name(name, number);
        self.segments.insert(aside.clone(), segment);
        Ok(aside)
    }
}

impl Memory {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Memory {
    fn place(&self) -> String {
        "memory".to_string()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.kept().segments.keys().cloned().collect())
    }

    fn read(&self, name: &str, from: u64, most: u64) -> io::Result<Part> {
        let kept = self.kept();
        let (text, alive) = kept.segments.get(name).ok_or(ErrorKind::NotFound)?;
        let end = |bytes: u64| usize::try_from(bytes).map_or(text.len(), |bytes| bytes.min(text.len()));
        let bytes = text[end(from)..end(from.saturating_add(most))].to_vec();
        Ok(Part { bytes, size: text.len() as u64, alive: *alive })
    }

    fn create(&self, name: &str, text: &[u8]) -> io::Result<Box<dyn Writer>> {
        let mut kept = self.kept();
        if kept.segments.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        kept.segments.insert(name.to_string(), (text.to_vec(), true));
        Ok(Box::new(MemoryWriter { store: self.clone(), name: name.to_string() }))
    }

    fn replace(&self, old: &[Old], new: &mut dyn Iterator<Item = NewSegment>) -> io::Result<usize> {
        let mut kept = self.kept();
        let dead = |old: &&Old| {
            let same = |(text, alive): &(Vec<u8>, bool)| !alive && text.len() as u64 == old.size;
            kept.segments.get(&old.name).is_some_and(same)
        };
        let gone: Vec<&Old> = old.iter().filter(dead).collect();
        for Old { name, set_aside, .. } in &gone {
            match set_aside {
                true => drop(kept.set_aside(name)?),
                false => drop(kept.segments.remove(name)),
            }
        }
        if !gone.is_empty() {
            kept.segments.extend(new.map(|(name, text)| (name, (text, false))));
        }
        Ok(gone.len())
    }

    fn set_aside(&self, name: &str) -> io::Result<String> {
        self.kept().set_aside(name)
    }

    fn blob(&self, name: &str) -> io::Result<Vec<u8>> {
        Ok(self.kept().blobs.get(name).ok_or(ErrorKind::NotFound)?.clone())
    }

    fn put_blob(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.kept().blobs.insert(name.to_string(), bytes.to_vec());
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryWriter {
    store: Memory,
    name: String,
}

impl Writer for MemoryWriter {
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut kept = self.store.kept();
        let (text, _) = kept.segments.get_mut(&self.name).ok_or(ErrorKind::NotFound)?;
        text.extend_from_slice(lines);
        Ok(())
    }

    fn is_in_place(&mut self) -> bool {
        self.store.kept().segments.contains_key(&self.name)
    }
}

impl Drop for MemoryWriter {
    fn drop(&mut self) {
        if let Some((_, alive)) = self.store.kept().segments.get_mut(&self.name) {
            *alive = false;
        }
    }
}
