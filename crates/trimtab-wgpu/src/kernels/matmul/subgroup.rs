//! A few neighbouring results a workgroup: its invocations share out the inner axis and add up by subgroups. For few
//! results of long inner products.

use super::layout::{Layout, Shape, Vectors, adapter, head, sum_bytes, worthwhile};
use crate::program::{Gpu, Launched, Writer};
use std::fmt::Write as _;
use trimtab_core::{Bytes, DType, Decline, DeviceFacts, Flops, LaunchError, Matmul, Variant, Work};

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
        let adapter = match adapter(problem, device) {
            Ok(adapter) => adapter,
            Err(reason) => return Some(reason),
        };
        if adapter.subgroup.is_none() {
            return Some(Decline::because("the adapter has no subgroups"));
        }
        if problem.dtype == DType::F64 {
            return Some(Decline::because("subgroups do not add 64-bit floats"));
        }
        match Layout::new(problem, adapter) {
            // One row a workgroup: there must be a legal number of them.
            Ok(layout) if !layout.fits(adapter, [1, 1, 1], 0, [1, 1]) => Some(Decline::from(format!(
                "{} results are more than a dispatch has workgroups",
                problem.out_len()
            ))),
            Ok(_) => None,
            Err(reason) => Some(reason),
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
        let mut seen = Vec::new();
        configs.retain(|config| {
            let bytes = config.workgroup_bytes(problem.dtype);
            let legal = layout.fits(adapter, [config.width, 1, 1], bytes, [1, config.count]);
            let idle = config.count > 1 && u64::from(config.count / 2) >= problem.n
                || config.width > most && u64::from(config.width / 2) >= problem.k;
            let wanted = legal && !seen.contains(config) && (*config == default || !idle);
            seen.push(*config);
            wanted
        });
        worthwhile(problem, configs)
    }

    fn work(&self, problem: &Matmul, config: SubgroupConfig, device: &DeviceFacts) -> Work {
        let Ok((_, layout)) = Layout::on(problem, device) else { return Work::default() };
        let (all, largest, launches) = layout.groups([1, config.count]);
        let rows = problem.m * problem.n.div_ceil(u64::from(config.count).max(1));
        let walked = rows * problem.k * u64::from(config.count + 1) + problem.m * problem.n;
        Work {
            flops: Flops(problem.flops()),
            bytes: Bytes(walked.saturating_mul(problem.batch).saturating_mul(problem.dtype.size())),
            launches,
            threads: 1,
            lanes: 1,
            barriers: all,
            invocations: largest * u64::from(config.width),
            ..Work::default()
        }
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
            text: head(problem.dtype, Vectors::NONE) + &text,
            constants: vec![("WIDTH", width.into())],
            subgroups: true,
            workgroup: [width, 1, 1],
            workgroup_bytes: config.workgroup_bytes(problem.dtype),
            tile: [1, count],
        };
        layout.write(shape, writer)
    }
}
