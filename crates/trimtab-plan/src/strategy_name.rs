//! Words for how to tune: the names of search strategies, and modes together with them.

use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use trimtab_core::Patience;
use trimtab_tune::search::STRATEGIES;

/// Another name of `halving`.
const RACE: &str = "race";

/// The name of a search strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct StrategyName(&'static str);

impl StrategyName {
    /// The strategy of everyone who does not choose one.
    pub(crate) const DEFAULT: StrategyName = StrategyName(STRATEGIES[0]);

    /// The name as it is written.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for StrategyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// A word that names no search strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a search strategy; use one of: {list}", list = strategies())]
pub struct UnknownStrategy(pub String);

impl FromStr for StrategyName {
    type Err = UnknownStrategy;

    /// Case does not matter; `race` is another name of `halving`.
    fn from_str(text: &str) -> Result<StrategyName, UnknownStrategy> {
        let word = text.trim().to_ascii_lowercase();
        let word = if word == RACE { "halving" } else { &word };
        let known = STRATEGIES.into_iter().find(|name| *name == word);
        known.map(StrategyName).ok_or_else(|| UnknownStrategy(text.to_string()))
    }
}

fn strategies() -> String {
    let shown =
        |name: &str| if name == "halving" { format!("{name} (also {RACE})") } else { name.to_string() };
    STRATEGIES.map(shown).join(", ")
}

/// How a new problem is tuned: with how much effort, and by which strategy where settings are searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TuneMode {
    /// Effort.
    pub patience: Patience,
    /// The strategy, if one was named.
    pub strategy: Option<StrategyName>,
}

impl TuneMode {
    /// Every word that is understood, for messages and help.
    pub fn words() -> String {
        format!("off (also 0, false), estimate, measure, exhaustive; or a search strategy: {}", strategies())
    }
}

/// A word that names neither a mode nor a search strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a tuning mode; use one of: {words}", words = TuneMode::words())]
pub struct UnknownMode(pub String);

impl FromStr for TuneMode {
    type Err = UnknownMode;

    /// A mode, or the name of a strategy, which means `measure` with that strategy.
    fn from_str(text: &str) -> Result<TuneMode, UnknownMode> {
        if let Ok(patience) = text.parse() {
            return Ok(TuneMode { patience, strategy: None });
        }
        let strategy = text.parse().map_err(|_| UnknownMode(text.to_string()))?;
        Ok(TuneMode { patience: Patience::Measure, strategy: Some(strategy) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_is_a_mode_and_race_is_another_name_of_halving() {
        for name in STRATEGIES {
            let mode: TuneMode = name.to_ascii_uppercase().parse().unwrap();
            assert_eq!((mode.patience, mode.strategy.unwrap().name()), (Patience::Measure, name));
        }
        assert_eq!("race".parse::<StrategyName>().unwrap().name(), "halving");
        assert_eq!("0".parse(), Ok(TuneMode { patience: Patience::Off, strategy: None }));
        assert_eq!(StrategyName::DEFAULT.name(), "auto");
    }

    #[test]
    fn a_wrong_word_lists_the_right_ones() {
        let error = "fast".parse::<TuneMode>().unwrap_err().to_string();
        for part in ["`fast`", "off (also 0, false), estimate, measure, exhaustive", "halving (also race)"] {
            assert!(error.contains(part), "{error}");
        }
        let error = "fast".parse::<StrategyName>().unwrap_err().to_string();
        assert!(error.contains("auto, model") && !error.contains("estimate"), "{error}");
    }
}
