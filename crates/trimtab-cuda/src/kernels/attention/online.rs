//! A team of threads a query, blocks of keys and values in shared memory: scores are never written.

use crate::kernels::{computed_bytes, not_float, of_number, walked};
use crate::program::{Cuda, MAX_GRID, Program, StepArgument, fits};
use trimtab_core::{Attention, Bytes, DType, Decline, DeviceFacts, Flops, LaunchError, Variant, Work};

trimtab_core::config! {
    /// Threads of a block, those of them that share a query, and keys between barriers.
    pub struct OnlineConfig { width, team, block }
}

/// Elements of a query and a result that a thread keeps in registers at most, in words.
const MOST_WORDS: u64 = 128;
/// In the order they are tried.
const CONFIGS: [[u32; 3]; 7] =
    [[128, 4, 32], [128, 8, 32], [128, 1, 32], [64, 4, 16], [256, 8, 16], [128, 32, 16], [256, 4, 64]];

/// See the module.
#[derive(Debug)]
pub struct TeamAttention;

impl OnlineConfig {
    fn queries(self) -> u64 {
        u64::from(self.width / self.team.max(1)).max(1)
    }

    fn grid(self, problem: &Attention) -> [u64; 3] {
        [problem.queries.div_ceil(self.queries()), problem.batch, 1]
    }

    fn is_legal(self, problem: &Attention, device: &DeviceFacts) -> bool {
        let bytes = computed_bytes(problem.dtype);
        let each = |size: u64| size.div_ceil(self.team.max(1).into());
        let words = (each(problem.depth) + each(problem.width)) * bytes / 4;
        let shared = u64::from(self.block) * (problem.depth + problem.width) * bytes;
        let grid = self.grid(problem).iter().zip(MAX_GRID).all(|(size, most)| *size <= most);
        words <= MOST_WORDS
            && grid
            && u32::try_from(shared).is_ok_and(|shared| fits(device, self.width, shared))
    }
}

impl Variant<Cuda> for TeamAttention {
    type Problem = Attention;
    type Config = OnlineConfig;

    identity!("cuda.attention.online", Tiled);

    fn declines(&self, problem: &Attention, device: &DeviceFacts) -> Option<Decline> {
        let none = || Decline::because("there are no elements");
        let large = || {
            let (depth, width) = (problem.depth, problem.width);
            Decline::from(format!("no block holds keys of {depth} and values of {width} elements"))
        };
        not_float(problem.dtype)
            .or_else(|| walked::declines(&(*problem).into(), device))
            .or_else(|| (problem.depth == 0 || problem.keys == 0).then(none))
            .or_else(|| self.configs(problem, device).is_empty().then(large))
    }

    fn configs(&self, problem: &Attention, device: &DeviceFacts) -> Vec<OnlineConfig> {
        let all = CONFIGS.map(|[width, team, block]| OnlineConfig { width, team, block });
        all.into_iter().filter(|config| config.is_legal(problem, device)).collect()
    }

    fn work(&self, problem: &Attention, config: OnlineConfig, _: &DeviceFacts) -> Work {
        let [queries, keys, values] = problem.input_lens();
        let [along, heads, _] = config.grid(problem);
        let elements = queries.saturating_add(keys.saturating_add(values).saturating_mul(along));
        let blocks = along.saturating_mul(heads);
        let elements = elements.saturating_add(problem.out_len());
        Work {
            flops: Flops(problem.flops().saturating_add(problem.pairs().saturating_mul(20))),
            bytes: Bytes(elements.saturating_mul(problem.dtype.size())),
            launches: 1,
            threads: 1,
            lanes: 1,
            invocations: blocks.saturating_mul(config.width.into()),
            barriers: blocks.saturating_mul(2 * problem.keys.div_ceil(config.block.max(1).into())),
            ..Work::default()
        }
    }

    fn launch(
        &self,
        problem: &Attention,
        config: OnlineConfig,
        program: &mut Program,
    ) -> Result<(), LaunchError> {
        let OnlineConfig { width, team, block } = config;
        let teams = team.is_power_of_two() && team <= 32 && width.is_multiple_of(32) && block > 0;
        if !teams || !(32..=1024).contains(&width) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let mut macros = of_number(problem.dtype);
        let settings = [("WIDTH", width), ("TEAM", team), ("BLOCK", block)];
        macros.extend(settings.map(|(name, value)| (name, value.to_string())));
        macros.extend([("DEPTH", problem.depth.to_string()), ("SPAN", problem.width.to_string())]);
        macros.push(("CAUSAL", u32::from(problem.causal).to_string()));
        let factor = 1.0 / (problem.depth as f64).sqrt();
        let factor = match problem.dtype {
            DType::F64 => StepArgument::F64(factor),
            _ => StepArgument::F32(factor as f32),
        };
        let mut given: Vec<StepArgument> = [0, 1, 2].map(StepArgument::Input).to_vec();
        given.push(StepArgument::Out);
        let sizes = [problem.queries, problem.keys, problem.seen(0)];
        given.extend(sizes.map(|size| StepArgument::U32(size as u32)));
        given.push(factor);
        let source = concat!(include_str!("../number.cu"), include_str!("online.cu"));
        program.push(source, "attention_online", macros, config.grid(problem), [width, 1, 1], given)
    }
}
