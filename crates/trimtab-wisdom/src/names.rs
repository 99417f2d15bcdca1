//! Texts that repeat from fact to fact, each kept once and known by a number: a million facts name a few devices, kernels and versions.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// A text of [`Names`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name(u32);

impl Name {
    /// Greater than every other one, for the end of a range.
    pub const LAST: Name = Name(u32::MAX);
}

/// The texts. What no fact uses any more is dropped by [`keep`](Names::keep), so there are never more than facts need.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// All texts, one behind the other: a text of its own on the heap for each made opening a third slower.
    all: String,
    /// Where each is, by its number; `None` for a number whose text was dropped.
    places: Vec<Option<Place>>,
    /// Open addressing: a number and one, or 0. A power of two long, at most half full.
    table: Vec<u32>,
    /// Numbers whose text was dropped.
    free: Vec<Name>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    from: usize,
    length: u32,
    hash: u32,
}

/// A text's hash. It begins with a secret of this process: whoever writes lines cannot know which texts would collide.
#[inline]
pub(crate) fn hash(text: &str) -> u32 {
    static SECRET: OnceLock<u64> = OnceLock::new();
    let secret = *SECRET.get_or_init(|| RandomState::new().build_hasher().finish());
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    let mut hash = words.iter().fold(secret, |hash, word| fold(hash, u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    hash = fold(hash, u64::from_le_bytes(last) ^ ((text.len() as u64) << 56));
    (hash >> 32) as u32 ^ hash as u32
}

/// Folds eight bytes in.
#[inline]
fn fold(hash: u64, word: u64) -> u64 {
    // An odd number whose bits look random: the fraction of the golden ratio.
    let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15;
    (product as u64) ^ ((product >> 64) as u64)
}

impl Names {
    /// The name of a text, if it has one.
    pub fn get(&self, text: &str) -> Option<Name> {
        self.find(text, hash(text)).ok()
    }

    /// The name of a text, a new one if need be.
    pub fn name(&mut self, text: &str) -> Name {
        self.name_hashed(text, hash(text))
    }

    /// The same where somebody hashed the text already.
    pub fn name_hashed(&mut self, text: &str, hash: u32) -> Name {
        if self.table.len() < 2 * (self.places.len() + 1) {
            self.grow();
        }
        let at = match self.find(text, hash) {
            Ok(name) => return name,
            Err(at) => at,
        };
        let place = Some(Place { from: self.all.len(), length: text.len() as u32, hash });
        self.all.push_str(text);
        let name = self.free.pop().unwrap_or(Name(self.places.len() as u32));
        match self.places.get_mut(name.0 as usize) {
            Some(old) => *old = place,
            None => self.places.push(place),
        }
        if let Some(entry) = self.table.get_mut(at) {
            *entry = name.0 + 1;
        }
        name
    }

    /// The name of a text, or the free entry of the table where it belongs.
    fn find(&self, text: &str, hash: u32) -> Result<Name, usize> {
        let mask = self.table.len().wrapping_sub(1);
        let mut at = hash as usize & mask;
        while let Some(number) = self.table.get(at).and_then(|entry| entry.checked_sub(1)) {
            let place = self.places.get(number as usize).copied().flatten();
            if place.is_some_and(|place| place.hash == hash) && self.text(Name(number)) == text {
                return Ok(Name(number));
            }
            at = (at + 1) & mask;
        }
        Err(at)
    }

    /// Makes room for as many names again, and finds every one its entry.
    fn grow(&mut self) {
        self.table = vec![0; (4 * (self.places.len() + 4)).next_power_of_two()];
        let mask = self.table.len() - 1;
        for (number, place) in self.places.iter().enumerate() {
            let Some(place) = place else { continue };
            let mut at = place.hash as usize & mask;
            while self.table[at] != 0 {
                at = (at + 1) & mask;
            }
            self.table[at] = number as u32 + 1;
        }
    }

    /// The text of a name.
    pub fn text(&self, name: Name) -> &str {
        self.at(name).unwrap_or_default()
    }

    fn at(&self, name: Name) -> Option<&str> {
        let Place { from, length, .. } = (*self.places.get(name.0 as usize)?)?;
        self.all.get(from..from + length as usize)
    }

    /// Drops the texts of all other names.
    pub fn keep(&mut self, used: impl Iterator<Item = Name>) {
        let mut is_used = vec![false; self.places.len()];
        for name in used {
            if let Some(is_used) = is_used.get_mut(name.0 as usize) {
                *is_used = true;
            }
        }
        let mut kept = String::new();
        for (number, place) in self.places.iter_mut().enumerate() {
            let Some(old) = place else { continue };
            if is_used[number] {
                let from = kept.len();
                kept.push_str(self.all.get(old.from..old.from + old.length as usize).unwrap_or_default());
                old.from = from;
            } else {
                *place = None;
                self.free.push(Name(number as u32));
            }
        }
        self.all = kept;
        self.grow();
    }

    /// The place of each name in the order of texts, by its number.
    pub fn ranks(&self) -> Ranks {
        let mut order: Vec<(&str, usize)> = (0..self.places.len())
            .filter_map(|number| Some((self.at(Name(number as u32))?, number)))
            .collect();
        order.sort_unstable();
        let mut ranks = vec![0; self.places.len()];
        for (rank, (_, number)) in order.into_iter().enumerate() {
            ranks[number] = rank as u32;
        }
        Ranks(ranks)
    }

    /// The number of texts.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.places.iter().flatten().count()
    }
}

/// The order of texts as numbers: comparing two is not comparing their texts.
pub(crate) struct Ranks(Vec<u32>);

impl Ranks {
    pub fn of(&self, name: Name) -> u32 {
        self.0.get(name.0 as usize).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_in_one_place_are_spread_over_the_table() {
        for length in [0, 1, 7, 8, 9, 30] {
            let mut hashes = std::collections::BTreeSet::new();
            for at in 0..=length {
                for byte in b'!'..=b'~' {
                    let mut text = vec![b' '; length];
                    text.insert(at, byte);
                    hashes.insert(hash(&String::from_utf8(text).unwrap()));
                }
            }
            // Of n texts in 2³² places fewer than one pair is expected to meet.
            let texts = (length + 1) * 94;
            assert!(hashes.len() + 2 > texts, "{length}: {}", hashes.len());
        }
    }

    #[test]
    fn a_text_has_one_name_and_a_dropped_one_leaves_its_number() {
        let mut names = Names::default();
        let [b, a, c] = ["b", "a", "c"].map(|text| names.name(text));
        assert_eq!((names.name("a"), names.text(a), names.get("d")), (a, "a", None));
        let ranks = names.ranks();
        assert_eq!([a, b, c].map(|name| ranks.of(name)), [0, 1, 2]);
        names.keep([a, c].into_iter());
        assert_eq!((names.len(), names.get("b"), names.text(b)), (2, None, ""));
        assert_eq!(names.at(b), None, "a number without a text is no name");
        assert_eq!((names.name("d"), names.text(b), names.len()), (b, "d", 3));
    }
}
