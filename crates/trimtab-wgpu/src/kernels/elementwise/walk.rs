//! Which elements an invocation handles, and in which order: all by parameters, so that no pipeline depends on it.

use super::digits::{advance, digits, step_digits};
use crate::kernels::{in_a_row, with_main};
use crate::program::{Binding, Dispatch, Needs, spread_groups};
use std::borrow::Cow;
use trimtab_core::{AdapterClass, AdapterFacts};

trimtab_core::config! {
    /// Invocations of a workgroup, vectors an invocation handles, elements of a vector, and the order of the items:
    /// 0 the grid apart, 1 one after the other.
    pub struct WalkConfig { workgroup, items, vector, order }
}

/// An invocation's items are as far apart as the whole grid is wide: neighbours touch neighbouring elements.
pub(crate) const GRID: u32 = 0;
/// An invocation's items follow each other.
pub(crate) const RUN: u32 = 1;

impl WalkConfig {
    /// Invocations that handle so many elements in one dispatch.
    pub(crate) fn invocations(self, elements: u64) -> u64 {
        let per_group = u64::from(self.workgroup) * u64::from(self.items) * u64::from(self.vector);
        elements.div_ceil(per_group.max(1)) * u64::from(self.workgroup)
    }
}

/// Where an invocation begins and how it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    /// Items of all invocations.
    count: u32,
    /// Workgroups, and invocations of each.
    groups: [u32; 3],
    workgroup: u32,
    /// Items of an invocation.
    items: u32,
    /// From one item of an invocation to the next.
    step: u32,
    /// From one workgroup to the next.
    group: u32,
    /// From one invocation to the next.
    invocation: u32,
}

impl Walk {
    /// The walk over `count` items; `None` if no dispatch holds it.
    pub(crate) fn new(count: u64, config: WalkConfig, adapter: &AdapterFacts) -> Option<Walk> {
        let WalkConfig { workgroup, items, order, .. } = config;
        let per_group = workgroup.checked_mul(items).filter(|&per_group| per_group > 0)?;
        let groups = spread_groups(count.div_ceil(per_group.into()), adapter)?;
        let threads = groups[0].checked_mul(groups[1])?.checked_mul(workgroup)?;
        let (step, group, invocation) = match order {
            GRID => (threads, workgroup, 1),
            RUN => (1, per_group, items),
            _ => return None,
        };
        // What lies beyond the last item must not wrap around to the first.
        let beyond = u64::from(groups[0]) * u64::from(groups[1]) * u64::from(per_group);
        let count = u32::try_from(count).ok()?;
        (beyond < 1 << 32).then_some(Walk { count, groups, workgroup, items, step, group, invocation })
    }

    /// The dispatch of a text that [`text`] made, for axes of these sizes and strides.
    pub(crate) fn dispatch(
        &self,
        text: Cow<'static, str>,
        needs: Needs,
        bindings: Vec<Binding>,
        axes: &[[u64; 3]],
    ) -> Dispatch {
        let mut params = vec![self.count, self.items, self.step, 0, self.group, self.invocation, 0, 0];
        let sizes: Vec<u64> = axes.iter().map(|axis| axis[0]).collect();
        for (axis, digit) in axes.iter().zip(step_digits(&sizes, self.step)) {
            params.extend(axis.map(|word| word as u32));
            params.push(digit);
        }
        in_a_row(text, self.workgroup, self.groups, needs, bindings, params)
    }
}

/// The text of a walk over positions of that many digits: statements before the first, and one at each.
pub(crate) fn text(rank: usize, once: &str, each: &str) -> String {
    let [digits, advance] = if rank > 0 { [digits(rank), advance(rank)] } else { Default::default() };
    with_main(include_str!("walk.wgsl"))
        .replace("$ROWS", &(rank + 2).to_string())
        .replace("$ONCE", once)
        .replace("$DIGITS", &digits)
        .replace("$ADVANCE", &advance)
        .replace("$EACH", each)
}

/// The choices worth considering for `count` items, each a vector of that length, the default first.
///
/// On a software adapter (lavapipe, two cores at load 7, four rounds) 2^20 elements of gelu took 2.5 to 2.9 ms in runs of
/// 16 by workgroups of 256, 3.9 to 7.8 ms one by one, and additions 2.2 to 2.6 ms against 2.9 to 3.2 ms. Without
/// vectors of four the best addition took twice as long. Cards want neighbours to touch neighbours, and enough
/// invocations to hide the latency: that default is not measured.
pub(crate) fn choices(count: u64, vector: u32, adapter: &AdapterFacts) -> Vec<WalkConfig> {
    let most = adapter.max_invocations.min(adapter.max_workgroup[0]).max(1);
    let choice = |workgroup, items, order| WalkConfig { workgroup, items, vector, order };
    let mut all = vec![match adapter.class {
        AdapterClass::Software if count < 1 << 16 => choice(64, 4, RUN),
        AdapterClass::Software => choice(256, 16, RUN),
        _ if count >= 1 << 20 => choice(256, 4, GRID),
        _ => choice(256, 1, GRID),
    }];
    all.extend([256, 64, 32, 128, 512, 1024].map(|workgroup| choice(workgroup, 1, GRID)));
    for workgroup in [64, 256] {
        for items in [4, 16, 64] {
            all.extend([GRID, RUN].map(|order| choice(workgroup, items, order)));
        }
    }
    let mut kept: Vec<WalkConfig> = Vec::new();
    for mut choice in all {
        choice.workgroup = choice.workgroup.min(most);
        let per_group = u64::from(choice.workgroup) * u64::from(choice.items);
        // Half of a lone workgroup would have nothing to do: a smaller one, or fewer items, do the same.
        let idle = per_group >= 2 * count.max(1) && (choice.items > 1 || choice.workgroup > 32);
        if Walk::new(count, choice, adapter).is_some() && !idle {
            kept.push(choice);
        }
    }
    // Adapters whose workgroups are smaller than the smallest here.
    if kept.is_empty() {
        kept.push(choice(most.min(32), 1, GRID));
    }
    kept
}
