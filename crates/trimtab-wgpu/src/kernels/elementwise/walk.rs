//! Which elements an invocation handles, and in which order: all by parameters, so that no pipeline depends on it.

use crate::program::spread_groups;
use trimtab_core::{AdapterClass, AdapterFacts};

/// An invocation's items are as far apart as the whole grid is wide: neighbours touch neighbouring elements.
pub(crate) const GRID: u32 = 0;
/// An invocation's items follow each other.
pub(crate) const RUN: u32 = 1;

/// Where an invocation begins and how it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    /// Workgroups.
    pub groups: [u32; 3],
    /// Items of an invocation.
    pub items: u32,
    /// From one item of an invocation to the next.
    pub step: u32,
    /// From one workgroup to the next.
    pub group: u32,
    /// From one invocation to the next.
    pub invocation: u32,
}

impl Walk {
    /// The walk over `count` items; `None` if no dispatch holds it.
    pub(crate) fn new(
        count: u64,
        workgroup: u32,
        items: u32,
        order: u32,
        adapter: &AdapterFacts,
    ) -> Option<Walk> {
        let per_group = u64::from(workgroup) * u64::from(items);
        let groups = spread_groups(count.div_ceil(per_group.max(1)), adapter)?;
        let threads = groups[0].checked_mul(groups[1])?.checked_mul(workgroup)?;
        let per_group = u32::try_from(per_group).ok()?;
        let (step, group, invocation) = match order {
            GRID => (threads, workgroup, 1),
            RUN => (1, per_group, items),
            _ => return None,
        };
        // What lies beyond the last item must not wrap around to the first.
        let beyond = u64::from(groups[0]) * u64::from(groups[1]) * u64::from(per_group);
        (beyond < 1 << 32).then_some(Walk { groups, items, step, group, invocation })
    }

    /// The first two rows of parameters.
    pub(crate) fn params(&self, count: u32) -> Vec<u32> {
        vec![count, self.items, self.step, 0, self.group, self.invocation, 0, 0]
    }
}

/// One choice of workgroup, items and order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub workgroup: u32,
    pub items: u32,
    pub order: u32,
}

/// The choices worth considering for `count` items, the default first; none twice.
///
/// On a software adapter (lavapipe, two cores at load 7, four rounds) 2^20 elements of gelu took 2.5 to 2.9 ms in runs of
/// 16 by workgroups of 256, 3.9 to 7.8 ms one by one, and additions 2.2 to 2.6 ms against 2.9 to 3.2 ms. Without
/// vectors of four the best addition took twice as long. Cards want neighbours to touch neighbours, and enough
/// invocations to hide the latency: that default is not measured.
pub(crate) fn choices(count: u64, adapter: &AdapterFacts) -> Vec<Choice> {
    let most = adapter.max_invocations.min(adapter.max_workgroup[0]).max(1);
    let default = match adapter.class {
        AdapterClass::Software if count < 1 << 16 => Choice { workgroup: 64, items: 4, order: RUN },
        AdapterClass::Software => Choice { workgroup: 256, items: 16, order: RUN },
        _ if count >= 1 << 20 => Choice { workgroup: 256, items: 4, order: GRID },
        _ => Choice { workgroup: 256, items: 1, order: GRID },
    };
    let mut all = vec![default];
    for workgroup in [256, 64, 32, 128, 512, 1024] {
        all.push(Choice { workgroup, items: 1, order: GRID });
    }
    for workgroup in [64, 256] {
        for items in [4, 16, 64] {
            all.extend([GRID, RUN].map(|order| Choice { workgroup, items, order }));
        }
    }
    let mut kept: Vec<Choice> = Vec::new();
    for mut choice in all {
        choice.workgroup = choice.workgroup.min(most);
        let per_group = u64::from(choice.workgroup) * u64::from(choice.items);
        // Half of a lone workgroup would have nothing to do: a smaller one, or fewer items, do the same.
        let idle = per_group >= 2 * count.max(1) && (choice.items > 1 || choice.workgroup > 32);
        let legal = Walk::new(count, choice.workgroup, choice.items, choice.order, adapter).is_some();
        if legal && !idle && !kept.contains(&choice) {
            kept.push(choice);
        }
    }
    // Adapters whose workgroups are smaller than the smallest here.
    if kept.is_empty() {
        kept.push(Choice { workgroup: most.min(32), items: 1, order: GRID });
    }
    kept
}
