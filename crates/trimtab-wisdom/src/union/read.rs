//! Facts as they are read: what a fact has in common with the one before is neither hashed nor looked up again.

use super::{Change, NamedKey, Union};
use crate::fact::Outcome;
use crate::names::Name;
use crate::quick::{Quick, Told};
use crate::seen::Seen;

impl Union {
    /// Takes a fact in that was just read from that text, in a segment of that origin. `last` are the names of the one before.
    pub fn insert_quick(
        &mut self,
        text: &str,
        origin: &str,
        quick: &Quick,
        last: &mut Option<([Told; 7], [Name; 7])>,
    ) -> Change {
        let told = quick.texts;
        let [own, device, kernel, version, problem, point, condition] = told.map(|told| told.in_text(text));
        if !self.forgets.is_empty() && quick.at_ms <= self.forgotten_until(device, kernel, Some(problem)) {
            return Change::Unchanged;
        }
        let texts = [own, device, kernel, version, problem, point, condition];
        let mut names = [Name::default(); 7];
        for (at, name) in names.iter_mut().enumerate() {
            *name = match last {
                Some((before, names)) if before[at] == told[at] => names[at],
                // A line without an origin is its segment's.
                _ if at == 0 && own.is_empty() => self.names.name(origin),
                _ => self.names.name_hashed(texts[at], told[at].hash),
            };
        }
        *last = Some((told, names));
        let [origin, device, kernel, version, problem, point, condition] = names;
        let key = NamedKey { device, problem, kernel, version, point, condition };
        self.insert_named(key, Seen { origin, at_ms: quick.at_ms, outcome: Outcome::Timed(quick.stats) })
    }
}
