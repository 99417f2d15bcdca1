//! What every device beside the processor offers callers: running kernels on their operands, and what to keep of it.

use crate::slice::{Slice, SliceMut};
use std::any::Any;
use trimtab_core::{Bytes, KernelId, LaunchError, Nanos, Point, Problem};

/// Memory of a device that holds a value for as long as this lives. Only the device that made it knows what is inside.
pub trait Held: Any + Send + Sync {
    /// Bytes of the value.
    fn bytes(&self) -> Bytes;
}

/// A launch on values that are on the device; the result stays there.
#[derive(Clone)]
pub struct HeldLaunch<'a> {
    /// The kernel,
    pub kernel: KernelId,
    /// what it computes
    pub problem: &'a Problem,
    /// and its setting.
    pub point: &'a Point,
    /// The operands.
    pub inputs: Vec<&'a dyn Held>,
    /// Memory for the result.
    pub out: &'a dyn Held,
}

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

    /// Memory on the device with a copy of the data.
    fn hold(&self, data: Slice<'_>) -> Result<Box<dyn Held>, LaunchError>;

    /// Memory on the device for a result. What it holds before means nothing.
    fn reserve(&self, bytes: Bytes) -> Result<Box<dyn Held>, LaunchError>;

    /// Copies a value from the device, after every launch made before.
    fn fetch(&self, from: &dyn Held, out: SliceMut<'_>) -> Result<(), LaunchError>;

    /// Computes on values that are on the device; the result stays there. With `timed` as in [`Launch::launch`].
    fn launch_held(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
        inputs: &[&dyn Held],
        out: &dyn Held,
        timed: bool,
    ) -> Result<Option<Nanos>, LaunchError>;

    /// Makes several launches in this order, each seeing the results of those before; copies the last result to the processor's
    /// memory where asked. Waits for all of them at once, or without `wait` perhaps not at all: then whoever reads a result is told
    /// what went wrong. After an error nobody knows which of them were made.
    fn launch_together(
        &self,
        launches: &[HeldLaunch<'_>],
        result: Option<SliceMut<'_>>,
        wait: bool,
    ) -> Result<(), LaunchError>;

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
