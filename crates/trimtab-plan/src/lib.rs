//! From problem to plan: choosing among devices, kernels and settings; feedback; explaining.
//!
//! The planner never sees operands. A framework author needs this crate and `trimtab-core`: implement
//! [`Device`](trimtab_core::Device), ask for a plan, run it, report how long it took.
#![forbid(unsafe_code)]

mod bans;
mod build;
pub mod calibration;
mod class;
mod crossover;
mod decide;
mod devices;
mod donors;
mod drain;
mod drift;
mod event;
mod experience;
mod feedback;
mod field;
mod force;
mod goal;
mod guard;
mod learned;
mod live;
mod measure;
mod objective;
mod offload;
mod overflow;
pub mod place;
mod plan;
mod planner;
mod recall;
mod record;
pub mod regret;
mod remembered;
mod resize;
mod rounds;
mod said;
mod search;
mod settings;
mod settle;
mod shown;
mod strategy_name;
mod sync;
mod table;
mod thresholds;
mod training;
mod trust;
mod why;
mod witness;

pub use class::Class;
pub use crossover::{Crossover, crossover};
pub use decide::PlanError;
pub use event::{Event, ResizeStep, SearchEnd, Unmeasured};
pub use field::family_of;
pub use guard::Guarded;
pub use learned::{ENOUGH_PROBLEMS, TrainingTable};
pub use objective::IMPLAUSIBLE;
pub use plan::{Plan, Reason, Rival, Standing};
pub use planner::Planner;
pub use recall::forget;
pub use record::Decision;
pub use said::{KernelRules, WrongKernelRules};
pub use settings::{DEFAULT_BUDGET, DEFAULT_SWITCH_MARGIN, Settings, TuneRequest};
pub use strategy_name::{StrategyName, TuneMode, UnknownMode, UnknownStrategy};
pub use table::{MAX_NUMBER, TermsId};
pub use thresholds::{Offload, Said, Side};
pub use training::wanted;
/// Models of which rival is fastest.
pub use trimtab_model::learn;
pub use trimtab_model::learn::Ledger;
pub use trimtab_model::{Assumed, Profile, Rung, least_ns};
pub use trust::Trust;
pub use why::Why;
pub use witness::Witness;
