//! A blob and its name: any name keeps any bytes, and bytes that nobody kept are damaged or somebody's.
#![no_main]

use std::sync::Arc;
use trimtab::advanced::wisdom::{Memory, NewSegment, Old, Part, Store, Wisdom, Writer};
use trimtab_fuzz::parts;

/// A store that gives back these bytes under every name, and refuses names that no store has to take.
#[derive(Debug)]
struct Hostile(Vec<u8>);

/// The longest name of a segment or blob.
const LONGEST: usize = 128;

impl Store for Hostile {
    fn place(&self) -> String {
        "nowhere".to_string()
    }

    fn list(&self) -> std::io::Result<Vec<String>> {
        Ok(String::from_utf8_lossy(&self.0).lines().map(str::to_string).collect())
    }

    fn read(&self, _: &str, from: u64, most: u64) -> std::io::Result<Part> {
        let bytes: Vec<u8> = self.0.iter().copied().skip(from as usize).take(most as usize).collect();
        Ok(Part { bytes, size: self.0.len() as u64, alive: false })
    }

    fn create(&self, _: &str, _: &[u8]) -> std::io::Result<Box<dyn Writer>> {
        Err(std::io::ErrorKind::PermissionDenied.into())
    }

    fn replace(&self, _: &[Old], _: &mut dyn Iterator<Item = NewSegment>) -> std::io::Result<usize> {
        Ok(0)
    }

    fn set_aside(&self, name: &str) -> std::io::Result<String> {
        Ok(name.to_string())
    }

    fn blob(&self, name: &str) -> std::io::Result<Vec<u8>> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        assert!(name.len() <= LONGEST && name.bytes().all(plain), "{name:?} is no name of a blob");
        Ok(self.0.clone())
    }

    fn put_blob(&self, _: &str, _: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [name, bytes] = parts(data);
    let name = String::from_utf8_lossy(name);
    let wisdom = Wisdom::on(Arc::new(Memory::default()));
    wisdom.keep_blob(&name, bytes).expect("memory takes a blob");
    assert_eq!(wisdom.blob(&name).as_deref(), Some(bytes));
    let hostile = Wisdom::on(Arc::new(Hostile(bytes.to_vec())));
    if let Some(found) = hostile.blob(&name) {
        assert!(bytes.ends_with(&found));
    }
});
