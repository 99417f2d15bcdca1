//! A store someone else wrote by the recipe in CONTRIBUTING.md: an object store, which can list, get, put and delete
//! objects, the last two on condition, and has neither appends nor locks. Leases say who is alive.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use trimtab_wisdom::conformance::{self, Pair};
use trimtab_wisdom::{FactKey, NewSegment, Old, Outcome, Part, Stats, Store, Wisdom, Writer, aside_name};

/// How long a lease lasts.
const LEASE_MS: u64 = 60_000;

/// The service: whole objects only, each with a tag that changes at every put.
#[derive(Debug, Default)]
struct Service {
    objects: Mutex<BTreeMap<String, (Vec<u8>, u64)>>,
    tags: AtomicU64,
    now_ms: AtomicU64,
}

impl Service {
    fn get(&self, key: &str) -> io::Result<(Vec<u8>, u64)> {
        Ok(self.objects.lock().unwrap().get(key).ok_or(ErrorKind::NotFound)?.clone())
    }

    /// `when` is the tag that must be there, or `None` for nothing there.
    fn put_if(&self, key: &str, bytes: &[u8], when: Option<u64>) -> io::Result<u64> {
        let mut objects = self.objects.lock().unwrap();
        if objects.get(key).map(|object| object.1) != when {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let tag = self.tags.fetch_add(1, SeqCst);
        objects.insert(key.to_string(), (bytes.to_vec(), tag));
        Ok(tag)
    }

    fn put(&self, key: &str, bytes: &[u8]) {
        let tag = self.tags.fetch_add(1, SeqCst);
        self.objects.lock().unwrap().insert(key.to_string(), (bytes.to_vec(), tag));
    }

    fn delete_if(&self, key: &str, tag: u64) -> bool {
        let mut objects = self.objects.lock().unwrap();
        objects.get(key).is_some_and(|object| object.1 == tag) && objects.remove(key).is_some()
    }
}

#[derive(Clone, Debug)]
struct Bucket(Arc<Service>);

impl Bucket {
    fn alive(&self, name: &str) -> bool {
        let until = self
            .0
            .get(&lease(name))
            .ok()
            .and_then(|(bytes, _)| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
        until.is_some_and(|until| until > self.0.now_ms.load(SeqCst))
    }

    fn renew(&self, name: &str) {
        self.0.put(&lease(name), &(self.0.now_ms.load(SeqCst) + LEASE_MS).to_le_bytes());
    }

    fn move_aside(&self, name: &str, bytes: &[u8]) -> String {
        let mut asides = (1..).map(|number| aside_name(name, number));
        asides.find(|aside| self.0.put_if(aside, bytes, None).is_ok()).unwrap()
    }
}

fn lease(name: &str) -> String {
    format!("lease/{name}")
}

impl Store for Bucket {
    fn place(&self) -> String {
        "bucket://test".into()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let objects = self.0.objects.lock().unwrap();
        Ok(objects.keys().filter(|key| !key.contains('/')).cloned().collect())
    }

    fn read(&self, name: &str, from: u64, most: u64) -> io::Result<Part> {
        let alive = self.alive(name);
        let (text, _) = self.0.get(name)?;
        let bytes = text.iter().skip(from as usize).take(most as usize).copied().collect();
        Ok(Part { bytes, size: text.len() as u64, alive })
    }

    fn create(&self, name: &str, text: &[u8]) -> io::Result<Box<dyn Writer>> {
        // The lease first, or someone sees the segment without a writer.
        if self.0.get(name).is_err() {
            self.renew(name);
        }
        let tag = self.0.put_if(name, text, None)?;
        Ok(Box::new(Put { bucket: self.clone(), name: name.into(), text: text.to_vec(), tag }))
    }

    fn replace(&self, old: &[Old], new: &mut dyn Iterator<Item = NewSegment>) -> io::Result<usize> {
        let dead = |old: &Old| {
            let (text, tag) = self.0.get(&old.name).ok()?;
            (!self.alive(&old.name) && text.len() as u64 == old.size).then_some((text, tag))
        };
        let dead: Vec<_> = old.iter().filter_map(|old| Some((old, dead(old)?))).collect();
        if !dead.is_empty() {
            for (name, text) in new {
                self.0.put_if(&name, &text, None)?;
            }
        }
        let mut gone = 0;
        for (Old { name, set_aside, .. }, (text, tag)) in dead {
            if *set_aside {
                self.move_aside(name, &text);
            }
            gone += usize::from(self.0.delete_if(name, tag));
        }
        Ok(gone)
    }

    fn set_aside(&self, name: &str) -> io::Result<String> {
        let (text, tag) = self.0.get(name)?;
        let aside = self.move_aside(name, &text);
        self.0.delete_if(name, tag);
        Ok(aside)
    }

    fn blob(&self, name: &str) -> io::Result<Vec<u8>> {
        Ok(self.0.get(&format!("blobs/{name}"))?.0)
    }

    fn put_blob(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.0.put(&format!("blobs/{name}"), bytes);
        Ok(())
    }

    fn segment_bytes(&self) -> u64 {
        64 * 1024
    }
}

/// Appends by putting the whole object again, if it is still the one put last.
#[derive(Debug)]
struct Put {
    bucket: Bucket,
    name: String,
    text: Vec<u8>,
    tag: u64,
}

impl Writer for Put {
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let text = [&self.text, lines].concat();
        self.tag = self.bucket.0.put_if(&self.name, &text, Some(self.tag))?;
        self.text = text;
        Ok(())
    }

    fn is_in_place(&mut self) -> bool {
        self.bucket.renew(&self.name);
        self.bucket.0.get(&self.name).is_ok_and(|object| object.1 == self.tag)
    }
}

impl Drop for Put {
    fn drop(&mut self) {
        self.bucket.0.objects.lock().unwrap().remove(&lease(&self.name));
    }
}

fn timed(wisdom: &Wisdom, kernel: &str) {
    let key = FactKey { device: "cpu".into(), kernel: kernel.into(), ..FactKey::default() };
    wisdom.record(key, Outcome::Timed(Stats::single(1.0)));
    wisdom.flush();
}

#[test]
fn an_object_store_keeps_every_law() {
    let fresh = || -> Pair {
        let service = Arc::<Service>::default();
        [Arc::new(Bucket(Arc::clone(&service))), Arc::new(Bucket(service))]
    };
    assert_eq!(conformance::check(&fresh), []);
}

#[test]
fn a_process_that_was_gone_too_long_for_its_lease_loses_nothing() {
    let service = Arc::<Service>::default();
    let on = || Wisdom::on(Arc::new(Bucket(Arc::clone(&service))));
    timed(&on(), "past");
    let sleeper = on();
    timed(&sleeper, "a");
    sleeper.intend("cpu", "k", "1", "running");
    let other = on();
    assert_eq!((other.len(), other.died("cpu", "k", "1").len()), (2, 0));
    // The laptop was closed: its lease runs out, and what it wrote is compacted away.
    service.now_ms.fetch_add(2 * LEASE_MS, SeqCst);
    other.reload();
    assert_eq!(other.died("cpu", "k", "1"), ["running"]);
    assert_eq!(other.compact().segments_merged, 2);
    timed(&sleeper, "b");
    sleeper.done("cpu", "k", "1", "running");
    let reader = on();
    assert_eq!((reader.len(), reader.died("cpu", "k", "1").len(), reader.warnings()), (3, 0, vec![]));
}

#[test]
fn a_small_segment_is_followed_by_the_next() {
    let service = Arc::<Service>::default();
    let bucket = Bucket(Arc::clone(&service));
    let wisdom = Wisdom::on(Arc::new(bucket.clone()));
    for n in 0..100 {
        timed(&wisdom, &format!("{n}{}", "x".repeat(2000)));
    }
    let sizes: Vec<u64> =
        bucket.list().unwrap().iter().map(|name| bucket.read(name, 0, 0).unwrap().size).collect();
    assert!(sizes.len() > 3 && sizes.iter().all(|&size| size <= bucket.segment_bytes()), "{sizes:?}");
    assert_eq!(Wisdom::on(Arc::new(bucket)).len(), 100);
}
