//! PTX: read or refused with a line, never a panic; what is read runs to an end on a few words of memory, or is told to have failed.
#![no_main]

use trimtab_ptx::{GlobalMemory, GridLaunch, Module};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let module = match Module::parse(&text) {
        Ok(module) => module,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    for kernel in module.kernels() {
        // A real driver takes 4,096 bytes.
        if kernel.parameter_bytes() > 4096 {
            continue;
        }
        let mut memory = GlobalMemory::new(1 << 16);
        let Ok(address) = memory.allocate(256) else { return };
        let mut launch = GridLaunch::new([2, 1, 1], [33, 1, 1]);
        launch.parameters = vec![0; kernel.parameter_bytes()];
        for word in launch.parameters.chunks_exact_mut(8) {
            word.copy_from_slice(&address.to_le_bytes());
        }
        launch.limits.instructions = 20_000;
        if let Err(error) = kernel.launch(&mut memory, &launch) {
            assert!(!error.to_string().is_empty());
        }
    }
});
