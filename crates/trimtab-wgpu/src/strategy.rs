//! What first guesses rest on, per kind of adapter: what it told and what was measured of it, never a table of models.

use trimtab_core::{AdapterClass, AdapterFacts, Problem, Rates};

/// In words: what the adapter is like, what limits the problem on it, and what follows for the order of settings.
pub(crate) fn reasoning(problem: &Problem, adapter: &AdapterFacts, rates: &Rates) -> Vec<String> {
    let (peak, bandwidth) = (rates.flops_per_s, rates.bytes_per_s_all);
    let mut lines = vec![kind(adapter, rates)];
    let (flops, bytes) = (problem.flops() as f64, problem.operand_bytes().0 as f64);
    if peak > 0.0 && bandwidth > 0.0 && bytes > 0.0 {
        let (intensity, balance) = (flops / bytes, peak / bandwidth);
        let limit = if intensity > balance { "arithmetic" } else { "memory" };
        let least = (flops / peak).max(bytes / bandwidth) * 1e6;
        lines.push(format!(
            "{intensity:.2} operations a byte against {balance:.2} of the device ({:.1} GFLOP/s, {:.1} GB/s, measured): \
             limited by {limit}, no kernel takes less than {least:.1} µs",
            peak * 1e-9,
            bandwidth * 1e-9,
        ));
    }
    let results = problem.out_len();
    if rates.filled_by > results && results > 0 {
        lines.push(format!(
            "{results} results do not fill the device, which takes {} invocations: a kernel that does not split the work of a \
             result leaves part of it idle",
            rates.filled_by
        ));
    }
    lines
}

fn kind(adapter: &AdapterFacts, rates: &Rates) -> String {
    let lost = rates.barrier_ns * 1e-9 * rates.flops_per_s;
    let barriers =
        format!("a barrier costs {:.0} ns a workgroup ({lost:.0} operations, measured)", rates.barrier_ns);
    let memory = adapter.workgroup_memory;
    let subgroups = match adapter.subgroup {
        Some((least, most)) if least == most => format!("subgroups of {least}"),
        Some((least, most)) => format!("subgroups of {least} to {most}"),
        None => "no subgroups".to_string(),
    };
    match adapter.class {
        AdapterClass::Software => format!(
            "a software adapter: {barriers}; the first setting of each kernel has few invocations that each do much"
        ),
        AdapterClass::Discrete | AdapterClass::Integrated | AdapterClass::Virtual | AdapterClass::Unknown => {
            let name = adapter.class.name();
            format!(
                "a {name} adapter over {}: {barriers}, {memory} of workgroup memory, {subgroups}, filled by {} invocations",
                adapter.backend, rates.filled_by
            )
        }
    }
}
