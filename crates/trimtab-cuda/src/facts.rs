//! A device's facts in the planner's words.

use crate::driver::DeviceInfo;
use crate::occupancy::Multiprocessor;
use trimtab_core::{AdapterClass, AdapterFacts, Bytes, Cache, DeviceFacts, DeviceKind, Fingerprint, Habits};

impl DeviceInfo {
    /// A device of a compute capability that is known, as its driver would tell it: what tools assume that have none to ask.
    pub fn typical(capability: u32) -> Option<DeviceInfo> {
        Some(DeviceInfo {
            ordinal: 0,
            name: format!("sm_{capability}"),
            uuid: [0; 16],
            memory: 8 << 30,
            capability,
            multiprocessors: 40,
            multiprocessor: Multiprocessor::of(capability)?,
            block_threads: 1024,
            l2_bytes: 4 << 20,
            clock_khz: 1_500_000,
            integrated: false,
            unified: false,
        })
    }

    /// The facts for the planner. What is fast depends on the chip, its size and clock, and on the driver.
    pub fn facts(&self, driver_version: u32) -> DeviceFacts {
        let adapter = AdapterFacts {
            class: if self.integrated { AdapterClass::Integrated } else { AdapterClass::Discrete },
            backend: "cuda".to_string(),
            driver: "nvidia".to_string(),
            driver_info: format!("CUDA {}.{}", driver_version / 1000, driver_version % 1000 / 10),
            max_invocations: self.block_threads,
            max_workgroup: [self.block_threads, self.block_threads, 64],
            max_groups: 65_535,
            workgroup_memory: Bytes(self.multiprocessor.block_shared_bytes.into()),
            max_binding: Bytes(self.memory),
            max_buffer: Bytes(self.memory),
            offset_alignment: 256,
            subgroup: Some((32, 32)),
            f16: true,
            f64: true,
            timestamps: true,
            unified_memory: self.unified,
            pipeline_cache: false,
        };
        let Self { name, capability, multiprocessors, clock_khz, .. } = self;
        let fingerprint =
            format!("cuda {name} sm_{capability} {multiprocessors}x{clock_khz}kHz {}", adapter.driver_info);
        let l2 = Cache { level: 2, size: Bytes(self.l2_bytes), shared_by: *multiprocessors, line: 128 };
        DeviceFacts {
            id: format!("cuda{}", self.ordinal),
            name: name.clone(),
            kind: DeviceKind::Gpu,
            habits: Habits::GPU,
            fingerprint: Fingerprint(fingerprint),
            cores: Some(*multiprocessors),
            threads: 1,
            caches: vec![l2],
            vector_bytes: None,
            features: vec![format!("sm_{capability}")],
            numa_nodes: None,
            memory: Some(Bytes(self.memory)),
            adapter: Some(Box::new(adapter)),
            notes: Vec::new(),
        }
    }
}
