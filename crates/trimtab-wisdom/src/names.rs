//! Texts that repeat from fact to fact, each kept once and known by a number: a million facts name a few devices, kernels and versions.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

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
    texts: Vec<Option<Arc<str>>>,
    numbers: HashMap<Arc<str>, Name, Seeded>,
    /// Numbers whose text was dropped.
    free: Vec<Name>,
}

/// Makes hashers with less to do for a short text than the standard library's. Each begins with a secret of its own: whoever
/// writes lines cannot know which texts would collide.
#[derive(Clone, Debug)]
struct Seeded(u64);

impl Default for Seeded {
    fn default() -> Seeded {
        Seeded(RandomState::new().build_hasher().finish())
    }
}

impl BuildHasher for Seeded {
    type Hasher = Folded;

    fn build_hasher(&self) -> Folded {
        Folded(self.0)
    }
}

/// Folds eight bytes at a time.
struct Folded(u64);

impl Folded {
    fn fold(&mut self, word: u64) {
        // An odd number whose bits look random: the fraction of the golden ratio.
        let product = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for Folded {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.fold(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.fold(u64::from_le_bytes(last) ^ ((bytes.len() as u64) << 56));
    }

    fn write_u8(&mut self, byte: u8) {
        self.fold(u64::from(byte));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Names {
    /// The name of a text, if it has one.
    pub fn get(&self, text: &str) -> Option<Name> {
        self.numbers.get(text).copied()
    }

    /// The name of a text, a new one if need be.
    pub fn name(&mut self, text: &str) -> Name {
        if let Some(name) = self.get(text) {
            return name;
        }
        let text: Arc<str> = text.into();
        let name = self.free.pop().unwrap_or(Name(self.texts.len() as u32));
        match self.texts.get_mut(name.0 as usize) {
            Some(place) => *place = Some(Arc::clone(&text)),
            None => self.texts.push(Some(Arc::clone(&text))),
        }
        self.numbers.insert(text, name);
        name
    }

    /// Whether that is the name of this text.
    pub fn is(&self, name: Name, text: &str) -> bool {
        self.texts.get(name.0 as usize).and_then(Option::as_deref) == Some(text)
    }

    /// The text of a name.
    pub fn text(&self, name: Name) -> &str {
        self.texts.get(name.0 as usize).and_then(Option::as_deref).unwrap_or_default()
    }

    /// Drops the texts of all other names.
    pub fn keep(&mut self, used: impl Iterator<Item = Name>) {
        let mut is_used = vec![false; self.texts.len()];
        for name in used {
            if let Some(is_used) = is_used.get_mut(name.0 as usize) {
                *is_used = true;
            }
        }
        for (number, place) in self.texts.iter_mut().enumerate() {
            if !is_used[number]
                && let Some(text) = place.take()
            {
                self.numbers.remove(&text);
                self.free.push(Name(number as u32));
            }
        }
        self.numbers.shrink_to(2 * self.numbers.len());
    }

    /// The place of each name in the order of texts, by its number.
    pub fn ranks(&self) -> Ranks {
        let mut order: Vec<(&str, usize)> = (self.texts.iter().enumerate())
            .filter_map(|(number, text)| Some((text.as_deref()?, number)))
            .collect();
        order.sort_unstable();
        let mut ranks = vec![0; self.texts.len()];
        for (rank, (_, number)) in order.into_iter().enumerate() {
            ranks[number] = rank as u32;
        }
        Ranks(ranks)
    }

    /// The number of texts.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.numbers.len()
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
        let seeded = Seeded::default();
        for length in [0, 1, 7, 8, 9, 30] {
            let (mut low, mut high) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
            for at in 0..=length {
                for byte in b'!'..=b'~' {
                    let mut text = vec![b' '; length];
                    text.insert(at, byte);
                    let hash = seeded.hash_one(String::from_utf8(text).unwrap());
                    low.insert(hash & 0xffff_ffff);
                    high.insert(hash >> 32);
                }
            }
            // Of n texts in 2³² places fewer than one pair is expected to meet.
            let texts = (length + 1) * 94;
            assert!(
                low.len() + 2 > texts && high.len() + 2 > texts,
                "{length}: {} {}",
                low.len(),
                high.len()
            );
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
        assert!(names.is(a, "a") && !names.is(b, ""), "a number without a text is no name");
        assert_eq!((names.name("d"), names.text(b), names.len()), (b, "d", 3));
    }
}
