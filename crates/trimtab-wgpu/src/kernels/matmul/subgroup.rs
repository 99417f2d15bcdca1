//! A few neighbouring results a workgroup: its invocations share out the inner axis and add up by subgroups. For few
//! results of long inner products.

use super::layout::{Layout, Shape, Vectors, shader, sum_bytes, worthwhile};
use crate::program::{Gpu, Launched, Writer};
use std::fmt::Write as _;
use trimtab_core::{DType, Decline, DeviceFacts, LaunchError, Matmul, Variant, Work};

trimtab_core::config! {
    /// Invocations of a workgroup, and neighbouring results it computes.
    pub struct SubgroupConfig { width, count }
}

/// See the module.
#[derive(Debug)]
pub struct SubgroupKernel;

impl SubgroupConfig {
    fn workgroup_bytes(self, dtype: DType) -> u32 {
        self.width * self.count * sum_bytes(dtype)
    }
}

impl Variant<Gpu> for SubgroupKernel {
    type Problem = Matmul;
    type Config = SubgroupConfig;

    identity!("gpu.matmul.subgroup", Parallel);

    fn declines(&self, problem: &Matmul, device: &DeviceFacts) -> Option<Decline> {
        match Layout::on(problem, device) {
            Err(reason) => Some(reason),
            Ok((adapter, _)) if adapter.subgroup.is_none() => {
                Some(Decline::because("the adapter has no subgroups"))
            }
            Ok(_) if problem.dtype == DType::F64 => {
                Some(Decline::because("subgroups do not add 64-bit floats"))
            }
            // One row a workgroup: there must be a legal number of them.
            Ok((adapter, layout)) => (!layout.fits(adapter, [1, 1, 1], 0, [1, 1])).then(|| {
                let results = problem.out_len();
                Decline::from(format!("{results} results are more than a dispatch has workgroups"))
            }),
        }
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<SubgroupConfig> {
        let Ok((adapter, layout)) = Layout::on(problem, device) else { return Vec::new() };
        let most = adapter.subgroup.map_or(32, |(_, most)| most.clamp(8, 128));
        let default = SubgroupConfig { width: most, count: if problem.n >= 8 { 8 } else { 1 } };
        let mut configs = vec![default];
        for width in [most, 2 * most, 4 * most] {
            configs.extend([4, 1, 8].map(|count| SubgroupConfig { width, count }));
        }
        let legal = |config: SubgroupConfig| {
            let bytes = config.workgroup_bytes(problem.dtype);
            layout.fits(adapter, [config.width, 1, 1], bytes, [1, config.count])
        };
        let idle = |SubgroupConfig { width, count }: SubgroupConfig| {
            count > 1 && u64::from(count / 2) >= problem.n
                || width > most && u64::from(width / 2) >= problem.k
        };
        worthwhile(problem, configs, legal, idle)
    }

    fn work(&self, problem: &Matmul, config: SubgroupConfig, device: &DeviceFacts) -> Work {
        let Ok((_, layout)) = Layout::on(problem, device) else { return Work::default() };
        let rows = problem.m * problem.n.div_ceil(u64::from(config.count).max(1));
        let walked = rows * problem.k * u64::from(config.count + 1) + problem.m * problem.n;
        layout.work([1, config.count], walked, [config.width, 1, 1], 1, 1)
    }

    fn launch(&self, problem: &Matmul, config: SubgroupConfig, writer: Writer<'_>) -> Launched {
        let SubgroupConfig { width, count } = config;
        if !matches!(count, 1 | 4 | 8) || width < count || width > 1024 {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let layout = Layout::of_launch(problem, &writer)?;
        let [mut starts, mut round, mut add, mut keep] = [const { String::new() }; 4];
        for at in 0..count {
            let _ = writeln!(
                starts,
                "    let r{at} = tile.right + min(first + {at}u, columns - 1u) * params[3].w;
    var c{at} = A(0.0);"
            );
            let _ = writeln!(round, "        c{at} += a * A(rhs[r{at} + at * params[3].z]);");
            let _ = writeln!(add, "    let s{at} = subgroupAdd(c{at});");
            let _ = writeln!(
                keep,
                "    var p{at} = A(0.0);
    if (lane == 0u) {{
        p{at} = s{at};
    }}
    parts[{at}u * WIDTH + invocation] = p{at};"
            );
        }
        let text = include_str!("subgroup.wgsl")
            .replace("$COUNT", &count.to_string())
            .replace("$STARTS", &starts)
            .replace("$ROUND", &round)
            .replace("$ADD", &add)
            .replace("$KEEP", &keep);
        let shape = Shape {
            text: shader(problem.dtype, Vectors::NONE, &text),
            constants: vec![("WIDTH", width.into())],
            subgroups: true,
            workgroup: [width, 1, 1],
            workgroup_bytes: config.workgroup_bytes(problem.dtype),
            tile: [1, count],
        };
        layout.write(shape, writer)
    }
}
