//! Who wants to hear what happens in the background: plans that are replaced there, and what live calls took.

use crate::plan::Plan;
use crate::record::Decision;
use trimtab_core::Nanos;

/// Hears of what no caller sees. Called from the background thread and from whoever drains, never by a call on its way to a kernel.
pub trait Witness: Send + Sync {
    /// Live calls showed something better: another plan is in force for a problem.
    fn changed(&self, plan: &Plan, decision: &Decision);

    /// So many calls of the plan of that [number](Plan::number) were timed, and took so much together.
    fn ran(&self, plan: u32, calls: u64, total: Nanos);

    /// Some time has passed: whatever was put aside may be done now.
    fn idle(&self) {}
}
