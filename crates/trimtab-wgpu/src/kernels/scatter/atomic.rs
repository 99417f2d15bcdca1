//! The elements are copied, then every invocation adds some of the others by atomic operations: floats of 32 bits by exchanging as often as
//! others come in between, in an order that is not said.

use crate::kernels::indices::{self, admits, choices, groups};
use crate::kernels::{in_a_row, with_main};
use crate::program::{BindTarget, Binding, Gpu, Launched, Needs, Writer, spread_groups};
use trimtab_core::{Bytes, DType, Decline, DeviceFacts, Flops, LaunchError, Problem, Scatter, Variant, Work};

trimtab_core::config! {
    /// Invocations of a workgroup, and elements an invocation adds.
    pub struct AtomicConfig { workgroup, items }
}

/// See the module.
#[derive(Debug)]
pub struct AtomicKernel;

/// What an atomic addition costs, in plain ones; about.
const ATOMIC: u64 = 16;

fn not_atomic(dtype: DType) -> Option<Decline> {
    let reason = || Decline::from(format!("shaders have no atomic {dtype}"));
    (!matches!(dtype, DType::F32 | DType::I32)).then(reason)
}

impl Variant<Gpu> for AtomicKernel {
    type Problem = Scatter;
    type Config = AtomicConfig;

    identity!("gpu.scatter.atomic", Vectorized);

    fn declines(&self, problem: &Scatter, device: &DeviceFacts) -> Option<Decline> {
        let declined = not_atomic(problem.dtype)
            .or_else(|| admits(&Problem::from(*problem), problem.len, Needs::default(), device).err());
        let none = || Decline::because("the adapter does not take so many workgroups");
        declined.or_else(|| self.configs(problem, device).is_empty().then(none))
    }

    fn configs(&self, problem: &Scatter, device: &DeviceFacts) -> Vec<AtomicConfig> {
        let admitted = admits(&Problem::from(*problem), problem.len, Needs::default(), device);
        let Ok(adapter) = admitted
            .map_err(drop)
            .and_then(|adapter| not_atomic(problem.dtype).map_or(Ok(adapter), |_| Err(())))
        else {
            return Vec::new();
        };
        let choices = choices(problem.along_count(), adapter).into_iter();
        let config = choices.map(|[workgroup, items]| AtomicConfig { workgroup, items });
        let copied =
            |config: &AtomicConfig| spread_groups(groups(problem.input_len(), config.workgroup, 1), adapter);
        config.filter(|config| copied(config).is_some()).collect()
    }

    fn work(&self, problem: &Scatter, config: AtomicConfig, _: &DeviceFacts) -> Work {
        let (whole, added) = (problem.input_len(), problem.along_count());
        Work {
            flops: Flops(added.saturating_mul(ATOMIC)),
            bytes: Bytes(
                whole.saturating_mul(8).saturating_add(added.saturating_mul(12 + problem.index.size())),
            ),
            launches: 2,
            threads: 1,
            lanes: 1,
            invocations: groups(added, config.workgroup, config.items) * u64::from(config.workgroup),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Scatter, config: AtomicConfig, args: Writer<'_>) -> Launched {
        let illegal = || LaunchError::Point(format!("{config:?}"));
        let (whole, added) = (problem.input_len(), problem.along_count());
        if not_atomic(problem.dtype).is_some()
            || !choices(added, args.adapter).contains(&[config.workgroup, config.items])
        {
            return Err(illegal());
        }
        let spread = |items: u64, each: u32| {
            spread_groups(groups(items, config.workgroup, each), args.adapter).ok_or_else(illegal)
        };
        let (copies, adds) = (spread(whole, 1)?, spread(added, config.items)?);
        let copied = vec![Binding::read(BindTarget::Input(0)), Binding::write(BindTarget::Out)];
        let text = with_main(include_str!("copy.wgsl"));
        let width = config.workgroup;
        args.program.push(in_a_row(text.into(), width, copies, Needs::default(), copied, vec![whole as u32]));
        let nth = if problem.each { "at" } else { "row % count" };
        let add = if problem.dtype == DType::I32 { WHOLE } else { FLOAT };
        let main = with_main(include_str!("atomic.wgsl")).replace("$NTH", nth);
        let text = format!("{}{add}{main}", indices::text(problem.index));
        let invocations = adds[0] * adds[1] * width;
        let params = [added, problem.inner, problem.count, problem.len].map(|word| word as u32).into_iter();
        let bindings = vec![
            Binding::read(BindTarget::Input(2)),
            Binding::read(BindTarget::Input(1)),
            Binding::write(BindTarget::Out),
            Binding::write(BindTarget::Status),
        ];
        let params = params.chain([invocations]).collect();
        args.program.push(in_a_row(text.into(), width, adds, Needs::default(), bindings, params));
        Ok(())
    }
}

const WHOLE: &str = "fn add(to: u32, value: u32) {
    atomicAdd(&result[to], value);
}
";

// Ends when nobody came in between, which happens to somebody in every round.
const FLOAT: &str = "fn add(to: u32, value: u32) {
    var before = atomicLoad(&result[to]);
    loop {
        let sum = bitcast<u32>(bitcast<f32>(before) + bitcast<f32>(value));
        let found = atomicCompareExchangeWeak(&result[to], before, sum);
        if (found.exchanged) {
            break;
        }
        before = found.old_value;
    }
}
";
