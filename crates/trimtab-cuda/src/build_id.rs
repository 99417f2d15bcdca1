//! What a kernel is compiled from, as a number.

use crate::program::LaunchStep;

/// A hash (FNV-1a, 128 bits) of a source and what the compiler is told beside the architecture: two steps with one are compiled alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BuildId(pub u128);

impl BuildId {
    /// Of a step.
    pub fn of(step: &LaunchStep) -> BuildId {
        let options = step.options();
        let words = [step.source.as_ref(), step.entry].into_iter().chain(options.iter().map(String::as_str));
        words.fold(BuildId(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d), BuildId::and)
    }

    /// Of something more.
    pub(crate) fn and(self, word: &str) -> BuildId {
        // A zero behind each word: none has one.
        let bytes = word.bytes().chain([0]);
        BuildId(bytes.fold(self.0, |hash, byte| {
            (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
        }))
    }
}

impl std::fmt::Display for BuildId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_apart_and_a_hash_is_the_same_everywhere() {
        let none = BuildId(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_ne!(none.and("ab").and("c"), none.and("a").and("bc"));
        // FNV-1a of the bytes `a` and zero, by definition.
        assert_eq!(none.and("a").to_string(), "0880954519ab1be95aa0733055b70e0c");
    }
}
