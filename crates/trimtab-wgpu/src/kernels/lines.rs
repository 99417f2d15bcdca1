//! Lines along the middle of `outer × len × inner`: what the kernels of rows, scans and sorting share.

use super::{adapter_with, over};
use crate::program::{Needs, spread_groups};
use trimtab_core::{AdapterClass, AdapterFacts, DType, Decline, DeviceFacts};

/// Where the elements of lines lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    pub dtype: DType,
    pub outer: u64,
    pub len: u64,
    pub inner: u64,
}

impl Lines {
    /// How many there are.
    pub(super) fn count(self) -> u64 {
        self.outer.saturating_mul(self.inner)
    }

    /// Elements of all.
    pub(super) fn elements(self) -> u64 {
        self.count().saturating_mul(self.len)
    }

    /// What the adapter told, or why it cannot hold them.
    pub(super) fn admits(self, needs: Needs, device: &DeviceFacts) -> Result<&AdapterFacts, Decline> {
        let Lines { dtype, .. } = self;
        if !matches!(dtype, DType::F32 | DType::F16 | DType::F64 | DType::I32) {
            return Err(Decline::from(format!("does not compute with {dtype}")));
        }
        let adapter = adapter_with(needs, device)?;
        let (len, binding) = (self.elements(), adapter.max_binding.0.min(adapter.max_buffer.0));
        if len == 0 {
            return Err(Decline::because("there are no elements"));
        }
        // Elements are counted in 32 bits, with room for a last stride.
        let too_many = || Decline::from(format!("takes operands up to 2147483648 elements, this has {len}"));
        let decline = over([("the operand", len)], dtype, binding, "bindings")
            .or_else(|| (len > 1 << 31).then(too_many));
        decline.map_or(Ok(adapter), Err)
    }
}

/// Workgroups worth trying where one works on a line. Barriers are ruinous where the processor plays the GPU: small ones first.
pub(super) fn workgroups(adapter: &AdapterFacts) -> [u32; 6] {
    match adapter.class {
        AdapterClass::Software => [32, 64, 128, 256, 512, 1024],
        _ => [256, 128, 64, 512, 32, 1024],
    }
}

/// Workgroups worth trying where every invocation works alone on so many lines: not those of which half would do.
pub(super) fn alone(lines: u64) -> impl Iterator<Item = u32> {
    let idle = move |workgroup: u32| workgroup > 32 && u64::from(workgroup / 2) >= lines;
    [64, 32, 128, 256].into_iter().filter(move |&workgroup| !idle(workgroup))
}

/// Whether the adapter takes so many workgroups of so many invocations with so many bytes each.
pub(super) fn fits(workgroup: u32, bytes: u64, groups: u64, adapter: &AdapterFacts) -> bool {
    workgroup > 0
        && workgroup <= adapter.max_invocations.min(adapter.max_workgroup[0])
        && bytes <= adapter.workgroup_memory.0
        && spread_groups(groups, adapter).is_some()
}
