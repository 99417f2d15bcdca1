//! Lines in blocks of many workgroups: what each block has together, what is before each block, and then each block from there on.

use super::chained::{ChainedConfig, Chains, ITEMS, chains, declines_short};
use super::state::{Carries, admits, counted, lines, params};
use crate::kernels::lines::{fits, workgroups};
use crate::kernels::{in_a_row, with_main};
use crate::program::{BindTarget, Binding, Dispatch, Gpu, Launched, Writer, spread_groups};
use trimtab_core::{
    AdapterClass, AdapterFacts, Bytes, Decline, DeviceFacts, LaunchError, Scan, Variant, Work,
};

trimtab_core::config! {
    /// Invocations of a workgroup, and elements of each in a block.
    pub struct TwoPassConfig { workgroup, items }
}

/// See the module.
#[derive(Debug)]
pub struct TwoPassKernel;

impl TwoPassConfig {
    fn block(self) -> ChainedConfig {
        ChainedConfig { workgroup: self.workgroup, items: self.items }
    }

    /// Blocks of a line.
    fn blocks(self, problem: &Scan) -> u64 {
        problem.len.div_ceil(self.block().block().max(1))
    }

    /// The scan of what blocks have together.
    fn middle(self, problem: &Scan, adapter: &AdapterFacts) -> (ChainedConfig, Chains) {
        let workgroup = if adapter.class == AdapterClass::Software { 32 } else { 256 };
        let chains = Chains { count: lines(problem).count(), len: self.blocks(problem), stride: 1 };
        (ChainedConfig { workgroup, items: 4 }, chains)
    }

    /// Workgroups of the first and the last step.
    fn groups(self, problem: &Scan) -> u64 {
        lines(problem).count().saturating_mul(self.blocks(problem))
    }

    fn scratch(self, problem: &Scan) -> u64 {
        self.groups(problem).saturating_mul(Carries::of(problem).state_bytes())
    }

    fn is_legal(self, problem: &Scan, adapter: &AdapterFacts) -> bool {
        let carries = Carries::of(problem);
        let one = Chains { len: self.block().block(), ..chains(problem) };
        let (middle, sums) = self.middle(problem, adapter);
        let bytes = carries.state_bytes() * u64::from(self.workgroup);
        self.items > 0
            && self.blocks(problem) > 1
            && self.block().is_legal(carries, one, adapter)
            && middle.is_legal(carries, sums, adapter)
            && self.scratch(problem) <= adapter.max_binding.0.min(adapter.max_buffer.0)
            && fits(self.workgroup, bytes, self.groups(problem), adapter)
    }

    /// The first or the last step.
    fn step(
        self,
        problem: &Scan,
        text: String,
        bindings: Vec<Binding>,
        adapter: &AdapterFacts,
    ) -> Result<Dispatch, LaunchError> {
        let carries = Carries::of(problem);
        let illegal = || LaunchError::Point(format!("{self:?}"));
        let groups = spread_groups(self.groups(problem), adapter).ok_or_else(illegal)?;
        let params = params(&[self.groups(problem), problem.len, problem.inner, self.blocks(problem)]);
        let mut step = in_a_row(text.into(), self.workgroup, groups, carries.needs(), bindings, params);
        step.constants.push(("ITEMS", f64::from(self.items)));
        step.workgroup_bytes = carries.state_bytes() as u32 * self.workgroup;
        Ok(step)
    }
}

/// Operand and what blocks have together.
const TOTALS: &str = "@group(0) @binding(0) var<storage, read> input: array<T>;
@group(0) @binding(1) var<storage, read_write> totals: array<State>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 2>;
fn load(place: u32) -> State { return state_of(input[place]); }
";

/// Operand, what is before blocks, and the result.
const BLOCKS: &str = "@group(0) @binding(0) var<storage, read> input: array<T>;
@group(0) @binding(1) var<storage, read> starts: array<State>;
@group(0) @binding(2) var<storage, read_write> output: array<T>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 2>;
fn load(place: u32) -> State { return state_of(input[place]); }
fn store(place: u32, s: State) { output[place] = element(s); }
";

impl Variant<Gpu> for TwoPassKernel {
    type Problem = Scan;
    type Config = TwoPassConfig;

    identity!("gpu.scan.twopass", Tiled);

    fn declines(&self, problem: &Scan, device: &DeviceFacts) -> Option<Decline> {
        let len = problem.len;
        let whole = || Decline::from(format!("no way to cut lines of {len} elements fits the adapter"));
        let declined = admits(problem, device).err();
        declined
            .or_else(|| declines_short(problem))
            .or_else(|| self.configs(problem, device).is_empty().then(whole))
    }

    fn configs(&self, problem: &Scan, device: &DeviceFacts) -> Vec<TwoPassConfig> {
        let Ok(adapter) = admits(problem, device) else { return Vec::new() };
        let mut configs = Vec::new();
        for workgroup in workgroups(adapter) {
            for items in ITEMS {
                let config = TwoPassConfig { workgroup, items };
                if declines_short(problem).is_none() && config.is_legal(problem, adapter) {
                    configs.push(config);
                }
            }
        }
        configs
    }

    fn work(&self, problem: &Scan, config: TwoPassConfig, _: &DeviceFacts) -> Work {
        let (flops, mut bytes) = counted(problem, 2);
        let scratch = config.scratch(problem);
        bytes.0 = bytes.0.saturating_add(4 * scratch);
        let steps = u64::from(config.workgroup.max(1).ilog2());
        Work {
            flops,
            bytes,
            scratch: Bytes(2 * scratch),
            launches: 3,
            threads: 1,
            lanes: 1,
            barriers: config.groups(problem) * (3 * steps + 3),
            invocations: config.groups(problem) * u64::from(config.workgroup),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Scan, config: TwoPassConfig, args: Writer<'_>) -> Launched {
        if !config.is_legal(problem, args.adapter) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let (carries, bytes) = (Carries::of(problem), config.scratch(problem));
        let (totals, starts) = (args.program.scratch(bytes), args.program.scratch(bytes));
        let text = |buffers: &str, main: &str| {
            let main = with_main(main).replace("$EMIT", carries.emit());
            carries.text() + buffers + include_str!("block.wgsl") + &main
        };
        let operand = Binding::read(BindTarget::Input(0));
        let first = text(TOTALS, include_str!("totals.wgsl"));
        args.program.push(config.step(
            problem,
            first,
            vec![operand, Binding::write(totals)],
            args.adapter,
        )?);
        let (middle, sums) = config.middle(problem, args.adapter);
        let bindings = vec![Binding::read(totals), Binding::write(starts)];
        args.program.push(middle.step(carries.exclusive(), sums, true, bindings, args.adapter)?);
        let last = text(BLOCKS, include_str!("blocks.wgsl"));
        let bindings = vec![operand, Binding::read(starts), Binding::write(BindTarget::Out)];
        args.program.push(config.step(problem, last, bindings, args.adapter)?);
        Ok(())
    }
}
