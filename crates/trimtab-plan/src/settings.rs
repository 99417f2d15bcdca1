//! How a planner behaves, and what is asked of it when a problem is tuned.

use crate::said::KernelRules;
use crate::strategy_name::StrategyName;
use crate::thresholds::Offload;
use trimtab_core::{Nanos, Patience};
use trimtab_model::learn::ModelChoice;
use trimtab_tune::Rules;

/// Foreground time a new problem may cost by default.
pub const DEFAULT_BUDGET: Nanos = Nanos::from_millis(35);
/// Share by which a rival must be better before a plan in force is given up.
pub const DEFAULT_SWITCH_MARGIN: f64 = 0.02;

/// How a planner behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Effort for a problem that is not known.
    pub patience: Patience,
    /// Foreground time a new problem may cost.
    pub budget: Nanos,
    /// How races are run.
    pub rules: Rules,
    /// Share by which a rival must be better before a plan in force is given up.
    pub switch_margin: f64,
    /// The strategy for settings that are searched. With one named, kernels with few settings are searched too.
    pub strategy: Option<StrategyName>,
    /// The model that decides about problems nobody has measured.
    pub model: ModelChoice,
    /// What the user says about which device to use.
    pub offload: Offload,
    /// What the user says about which kernels to use.
    pub kernels: KernelRules,
    /// Whether a plan that rests on no measurement learns the width of its kernel from live calls. Never with
    /// [`Patience::Off`].
    pub live_resize: bool,
    /// Whether calls of a plan that no completed race decided now and then run another rival, within a budget of one per cent of
    /// the time. Only with [`Patience::Measure`] and above: the others promise that nothing is tried. Never on GPUs, where a kernel's
    /// first launch builds it in the caller's time.
    pub explore: bool,
    /// Whether plans nobody is sure of are checked and raced again in the background, in a bounded share of the time and at idle
    /// priority. With [`Patience::Estimate`] they are checked only, with [`Patience::Off`] nothing runs.
    pub settle: bool,
    /// Whether a plan whose calls take another time than before is measured again in the background, beside the next best. No call
    /// runs anything else for it. Only with [`Patience::Measure`] and above.
    pub watch: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            patience: Patience::default(),
            budget: DEFAULT_BUDGET,
            rules: Rules::default(),
            switch_margin: DEFAULT_SWITCH_MARGIN,
            strategy: None,
            model: ModelChoice::Auto,
            offload: Offload::default(),
            kernels: KernelRules::default(),
            live_resize: true,
            explore: true,
            settle: true,
            watch: true,
        }
    }
}

/// How thoroughly a problem is tuned on request.
#[derive(Clone, Debug)]
pub struct TuneRequest {
    /// Effort.
    pub patience: Patience,
    /// Time it may take.
    pub budget: Nanos,
    /// The budget of the whole session this is part of; `budget` if it stands alone. A race that was cut short in a session
    /// of at least this size is not taken up again: asking the same twice measures nothing the second time.
    pub session: Nanos,
    /// How the race is run.
    pub rules: Rules,
    /// The strategy for settings that are searched; that of the planner's settings if absent. Not used by
    /// [`Patience::Exhaustive`], which measures everything; nor are the next two.
    pub strategy: Option<StrategyName>,
    /// Most points measured.
    pub evals: Option<u32>,
    /// Ends when the best reaches this share of the speed that the device's rates allow for the work counted.
    pub good_enough: Option<f64>,
}

impl TuneRequest {
    /// A request that stands alone, with careful rules and nothing special asked of a search.
    pub fn new(patience: Patience, budget: impl Into<Nanos>) -> TuneRequest {
        let (strategy, evals, good_enough, budget) = (None, None, None, budget.into());
        TuneRequest {
            patience,
            budget,
            session: budget,
            rules: Rules::careful(),
            strategy,
            evals,
            good_enough,
        }
    }
}
