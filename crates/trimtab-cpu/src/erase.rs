//! The one place where a kernel's types are erased: typed problem and settings on one side, nouns on the other.

use crate::args::{Args, Cpu};
use trimtab_core::{
    Config, Decline, DeviceFacts, KernelInfo, LaunchError, Point, Problem, Space, TypedProblem, Variant, Work,
};

/// A kernel of the CPU without its types.
pub trait AnyKernel: Send + Sync {
    /// Its description.
    fn info(&self) -> KernelInfo;
    /// Why it does not take a problem.
    fn declines(&self, problem: &Problem, device: &DeviceFacts) -> Option<Decline>;
    /// Its legal settings; none if it declines.
    fn space(&self, problem: &Problem, device: &DeviceFacts) -> Space;
    /// What one launch does.
    fn work(&self, problem: &Problem, point: &Point, device: &DeviceFacts) -> Work;
    /// Computes.
    fn launch(&self, problem: &Problem, point: &Point, args: Args<'_>) -> Result<(), LaunchError>;
}

struct Erased<V>(V);

/// A kernel ready for the device's table.
pub fn erase<V: Variant<Cpu>>(variant: V) -> Box<dyn AnyKernel> {
    Box::new(Erased(variant))
}

impl<V: Variant<Cpu>> AnyKernel for Erased<V> {
    fn info(&self) -> KernelInfo {
        KernelInfo {
            name: self.0.name().into_owned(),
            version: self.0.version(),
            operation: V::Problem::OPERATION,
            class: self.0.class(),
        }
    }

    fn declines(&self, problem: &Problem, device: &DeviceFacts) -> Option<Decline> {
        match V::Problem::of(problem) {
            Some(problem) => self.0.declines(problem, device),
            None => Some(Decline::from(format!("does {} only", V::Problem::OPERATION))),
        }
    }

    fn space(&self, problem: &Problem, device: &DeviceFacts) -> Space {
        match V::Problem::of(problem) {
            Some(typed) if self.0.declines(typed, device).is_none() => {
                Space::of(&self.0.configs(typed, device))
            }
            _ => Space::of::<V::Config>(&[]),
        }
    }

    fn work(&self, problem: &Problem, point: &Point, device: &DeviceFacts) -> Work {
        match (V::Problem::of(problem), V::Config::from_point(point)) {
            (Some(problem), Some(config)) => self.0.work(problem, config, device),
            _ => Work::default(),
        }
    }

    #[inline]
    fn launch(&self, problem: &Problem, point: &Point, args: Args<'_>) -> Result<(), LaunchError> {
        match (V::Problem::of(problem), V::Config::from_point(point)) {
            (Some(problem), Some(config)) => self.0.launch(problem, config, args),
            _ => Err(LaunchError::Point(format!("{point:?}"))),
        }
    }
}
