//! What every device beside the processor offers callers: running kernels on their operands, and what to keep of it.

use crate::slice::{Slice, SliceMut};
use trimtab_core::{KernelId, LaunchError, Nanos, Point, Problem};

/// A device that runs kernels on operands in the caller's memory. What every device beside the processor offers callers.
pub trait Launch: Send + Sync {
    /// Computes; moves operands and result as needed. With `timed` the kernel's own time on the device, where it can tell.
    fn launch(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
        inputs: &[Slice<'_>],
        out: SliceMut<'_>,
        timed: bool,
    ) -> Result<Option<Nanos>, LaunchError>;

    /// How far its results may be from the reference, relative to the larger of the result and one.
    fn tolerance(&self, problem: &Problem) -> f64;

    /// Takes over speeds an earlier process measured, before they are asked for.
    fn offer_speeds(&self, speeds: &str);

    /// Its measured speeds for the next process, if any were measured since this was last asked.
    fn speeds(&self) -> Option<String>;

    /// Takes kernels built by an earlier process, before the first launch.
    fn offer_built(&self, built: Vec<u8>);

    /// The kernels built so far for the next process, if any were built since this was last asked.
    fn built(&self) -> Option<Vec<u8>>;
}
