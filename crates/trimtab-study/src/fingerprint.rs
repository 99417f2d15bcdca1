//! A number for texts and files that is the same when they are: names what was built of them.

use std::path::Path;
use trimtab_wisdom::files;

/// Files beyond this size are told apart by size and time of change.
const MAX_HASHED: u64 = 32 << 20;

/// Two sums of 64 bits (FNV-1a from different starts): 10^9 different inputs collide with a chance of 10^-20.
#[derive(Clone, Debug)]
pub struct Fingerprint([u64; 2]);

impl Default for Fingerprint {
    fn default() -> Fingerprint {
        Fingerprint([0xcbf2_9ce4_8422_2325, 0x9ae1_6a3b_2f90_404f])
    }
}

impl Fingerprint {
    fn bytes(&mut self, bytes: &[u8]) {
        for (sum, salt) in self.0.iter_mut().zip([0u8, 0x5a]) {
            for byte in bytes {
                *sum = (*sum ^ u64::from(byte ^ salt)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
    }

    /// Adds a text, apart from those before and after.
    pub fn text(&mut self, text: &str) {
        self.bytes(&(text.len() as u64).to_le_bytes());
        self.bytes(text.as_bytes());
    }

    /// Adds what a file holds; nothing if there is none of that name.
    pub fn file(&mut self, path: &Path) {
        let Ok(found) = std::fs::metadata(path) else { return };
        if !found.is_file() {
            return;
        }
        match files::read(path, MAX_HASHED) {
            Ok(bytes) => self.bytes(&bytes),
            Err(_) => {
                self.bytes(&found.len().to_le_bytes());
                let changed =
                    found.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
                self.bytes(&changed.unwrap_or_default().as_nanos().to_le_bytes());
            }
        }
    }

    /// Thirty-two digits.
    pub fn finish(&self) -> String {
        format!("{:016x}{:016x}", self.0[0], self.0[1])
    }
}

/// A name for a text: thirty-two digits that are the same when it is.
pub fn fingerprint_of(text: &str) -> String {
    let mut sum = Fingerprint::default();
    sum.text(text);
    sum.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_texts_have_the_same_number_and_others_another() {
        let of = |texts: &[&str]| {
            let mut sum = Fingerprint::default();
            texts.iter().for_each(|text| sum.text(text));
            sum.finish()
        };
        assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
        assert_ne!(of(&["a", "b"]), of(&["ab", ""]));
        assert_ne!(of(&["a", "b"]), of(&["b", "a"]));
        assert_eq!(of(&[]).len(), 32);
    }
}
