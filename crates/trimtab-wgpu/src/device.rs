//! A GPU as a device: what the planner asks, and the launch the facade makes.

use crate::engine::{Engine, engines};
use crate::erase::AnyKernel;
use crate::kernels;
use std::sync::Arc;
use trimtab_core::{KernelId, KernelInfo, LaunchError, Point, Problem};
use trimtab_operands::{Slice, SliceMut};

/// A GPU of this machine.
pub struct GpuDevice {
    engine: Arc<Engine>,
    kernels: Vec<Box<dyn AnyKernel>>,
    infos: Vec<KernelInfo>,
}

impl GpuDevice {
    /// Every GPU of this machine, and in words what could not be used.
    pub fn all() -> (Vec<GpuDevice>, Vec<String>) {
        let (engines, problems) = engines();
        let device = |engine: &Arc<Engine>| {
            let kernels = kernels::all();
            let infos = kernels.iter().map(|kernel| kernel.info()).collect();
            GpuDevice { engine: Arc::clone(engine), kernels, infos }
        };
        (engines.iter().map(device).collect(), problems.clone())
    }

    /// Fixed facts.
    pub fn facts(&self) -> &trimtab_core::DeviceFacts {
        &self.engine.facts
    }

    /// The kernels.
    pub fn table(&self) -> &[Box<dyn AnyKernel>] {
        &self.kernels
    }

    /// Runs a kernel on operands in the caller's memory.
    pub fn launch(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
        lhs: Slice<'_>,
        rhs: Slice<'_>,
        out: SliceMut<'_>,
    ) -> Result<(), LaunchError> {
        let Some(found) = self.kernels.get(kernel.0 as usize) else {
            return Err(LaunchError::Kernel(format!("there is no kernel {}", kernel.0)));
        };
        let _ = &self.infos;
        let program = found.program(problem, point, self.engine.told()?)?;
        let out = match out {
            SliceMut::F32(out) => bytemuck::cast_slice_mut(out),
            SliceMut::F64(out) => bytemuck::cast_slice_mut(out),
            SliceMut::F16(out) => bytemuck::cast_slice_mut(out),
            SliceMut::I32(out) => bytemuck::cast_slice_mut(out),
        };
        self.engine.run(&program, bytes(&lhs), bytes(&rhs), out)
    }
}

fn bytes<'a>(slice: &Slice<'a>) -> &'a [u8] {
    match slice {
        Slice::None => &[],
        Slice::F32(slice) => bytemuck::cast_slice(slice),
        Slice::F64(slice) => bytemuck::cast_slice(slice),
        Slice::F16(slice) => bytemuck::cast_slice(slice),
        Slice::I32(slice) => bytemuck::cast_slice(slice),
    }
}
