//! A workgroup a line, block after block: the sum of a block goes on to the next, and every element is written once.

use super::state::{Carries, ELEMENTS, STATES, admits, counted, lines, params};
use crate::kernels::lines::{fits, workgroups};
use crate::kernels::reduce::stage::LONGEST_WALK;
use crate::kernels::{in_a_row, with_main};
use crate::program::{BindTarget, Binding, Dispatch, Gpu, Launched, Writer, spread_groups};
use trimtab_core::{AdapterFacts, Decline, DeviceFacts, LaunchError, Scan, Variant, Work};

trimtab_core::config! {
    /// Invocations of a workgroup, and elements of each in a block.
    pub struct ChainedConfig { workgroup, items }
}

/// Elements of an invocation in a block that are worth trying.
pub(super) const ITEMS: [u32; 3] = [4, 16, 64];
/// Elements of a line worth sharing.
pub(super) const LEAST: u64 = 64;

/// See the module.
#[derive(Debug)]
pub struct ChainedKernel;

/// Lines to scan: how many, of how many elements, and how far these are apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chains {
    pub count: u64,
    pub len: u64,
    pub stride: u64,
}

impl ChainedConfig {
    /// Elements of a block.
    pub(super) fn block(self) -> u64 {
        u64::from(self.workgroup) * u64::from(self.items)
    }

    /// Barriers a block has.
    fn barriers(self) -> u64 {
        u64::from(2 * self.workgroup.max(1).ilog2() + 2)
    }

    pub(super) fn is_legal(self, carries: Carries, chains: Chains, adapter: &AdapterFacts) -> bool {
        let rounds = u64::from(2 * self.items + self.workgroup.max(1).ilog2() + 1);
        let bytes = carries.state_bytes() * u64::from(self.workgroup);
        self.items > 0
            && self.workgroup.is_power_of_two()
            && chains.len.div_ceil(self.block()) * rounds <= LONGEST_WALK
            && fits(self.workgroup, bytes, chains.count, adapter)
    }

    /// The dispatch.
    pub(super) fn step(
        self,
        carries: Carries,
        chains: Chains,
        of_states: bool,
        bindings: Vec<Binding>,
        adapter: &AdapterFacts,
    ) -> Result<Dispatch, LaunchError> {
        let illegal = || LaunchError::Point(format!("{self:?}"));
        if !self.is_legal(carries, chains, adapter) {
            return Err(illegal());
        }
        let buffers = if of_states { STATES } else { ELEMENTS };
        let main = with_main(include_str!("chained.wgsl")).replace("$EMIT", carries.emit());
        let text = carries.text() + buffers + include_str!("block.wgsl") + &main;
        let groups = spread_groups(chains.count, adapter).ok_or_else(illegal)?;
        let params = params(&[chains.count, chains.len, chains.stride]);
        let mut step = in_a_row(text.into(), self.workgroup, groups, carries.needs(), bindings, params);
        step.constants.push(("ITEMS", f64::from(self.items)));
        step.workgroup_bytes = carries.state_bytes() as u32 * self.workgroup;
        Ok(step)
    }
}

pub(super) fn chains(problem: &Scan) -> Chains {
    Chains { count: lines(problem).count(), len: problem.len, stride: problem.inner }
}

/// Why lines are too short to be shared.
pub(super) fn declines_short(problem: &Scan) -> Option<Decline> {
    let len = problem.len;
    (len < LEAST)
        .then(|| Decline::from(format!("a workgroup shares {LEAST} elements or more, lines have {len}")))
}

impl Variant<Gpu> for ChainedKernel {
    type Problem = Scan;
    type Config = ChainedConfig;

    identity!("gpu.scan.chained", Parallel);

    fn declines(&self, problem: &Scan, device: &DeviceFacts) -> Option<Decline> {
        let len = problem.len;
        let long =
            || Decline::from(format!("an invocation makes up to {LONGEST_WALK} rounds, lines have {len}"));
        let declined = admits(problem, device).err();
        declined
            .or_else(|| declines_short(problem))
            .or_else(|| self.configs(problem, device).is_empty().then(long))
    }

    fn configs(&self, problem: &Scan, device: &DeviceFacts) -> Vec<ChainedConfig> {
        let Ok(adapter) = admits(problem, device) else { return Vec::new() };
        let mut configs = Vec::new();
        for workgroup in workgroups(adapter) {
            for items in ITEMS {
                let config = ChainedConfig { workgroup, items };
                // Half a block would hold the line.
                let is_idle = (workgroup, items) != (32, ITEMS[0]) && config.block() / 2 >= problem.len;
                let legal = config.is_legal(Carries::of(problem), chains(problem), adapter);
                if problem.len >= LEAST && !is_idle && legal {
                    configs.push(config);
                }
            }
        }
        configs
    }

    fn work(&self, problem: &Scan, config: ChainedConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = counted(problem, 2);
        let groups = lines(problem).count();
        Work {
            flops,
            bytes,
            launches: 1,
            threads: 1,
            lanes: 1,
            barriers: groups * problem.len.div_ceil(config.block().max(1)) * config.barriers(),
            invocations: groups * u64::from(config.workgroup),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Scan, config: ChainedConfig, args: Writer<'_>) -> Launched {
        let bindings = vec![Binding::read(BindTarget::Input(0)), Binding::write(BindTarget::Out)];
        let step = config.step(Carries::of(problem), chains(problem), false, bindings, args.adapter)?;
        args.program.push(step);
        Ok(())
    }
}
