//! The kernels of the operation reduce: a result folded by one invocation, by a workgroup, by subgroups, or in two passes.

pub(crate) mod fold;
pub(crate) mod serial;
pub(crate) mod stage;
pub(crate) mod subgroup;
pub(crate) mod tree;
pub(crate) mod twopass;

use crate::kernels::Kernels;
use trimtab_core::erase;

/// In order of preference.
pub fn kernels() -> Kernels {
    vec![
        erase(twopass::TwoPassKernel),
        erase(serial::SerialKernel),
        erase(subgroup::SubgroupKernel),
        erase(tree::TreeKernel),
    ]
}
