//! What `TRIMTAB_KERNELS` says: what is read is written as text that means the same.
#![no_main]

use trimtab::KernelRules;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = trimtab_fuzz::text(data);
    let Ok(rules) = text.parse::<KernelRules>() else { return };
    assert_eq!(rules.to_string().parse(), Ok(rules.clone()), "{text} was written as {rules}");
    let _ = rules.unmatched(&["cpu.matmul.gemm", "cpu.matmul.blocked", "gpu.reduce.tree"]);
    let twice = rules.clone().and(rules.clone());
    assert_eq!(rules.is_open(), twice.is_open());
});
