//! The one place where a kernel's types are erased, and the table of kernels every device keeps.

use crate::{
    Config, Context, DType, Decline, DeviceFacts, KernelId, KernelInfo, LaunchError, Point, Problem, Space,
    TypedProblem, Variant, VariantClass, Work,
};
use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A kernel without its types: typed problem and settings on one side, nouns on the other.
pub trait AnyKernel<C: Context>: Send + Sync {
    /// Its description.
    fn info(&self) -> KernelInfo;
    /// Whether it computes with elements of that type, see [`Variant::takes`].
    fn takes(&self, dtype: DType) -> bool;
    /// Why it does not take a problem.
    fn declines(&self, problem: &Problem, device: &DeviceFacts) -> Option<Decline>;
    /// Its legal settings; none if it declines.
    fn space(&self, problem: &Problem, device: &DeviceFacts) -> Space;
    /// What one launch does.
    fn work(&self, problem: &Problem, point: &Point, device: &DeviceFacts) -> Work;
    /// Computes, or writes what computes.
    fn launch(&self, problem: &Problem, point: &Point, args: C::Args<'_>) -> Result<(), LaunchError>;
}

struct Erased<V>(V);

/// A kernel ready for a device's table.
pub fn erase<C: Context, V: Variant<C>>(variant: V) -> Box<dyn AnyKernel<C>> {
    Box::new(Erased(variant))
}

impl<C: Context, V: Variant<C>> AnyKernel<C> for Erased<V> {
    fn info(&self) -> KernelInfo {
        KernelInfo {
            name: self.0.name().into_owned(),
            version: self.0.version(),
            operation: V::Problem::OPERATION,
            class: self.0.class(),
        }
    }

    fn takes(&self, dtype: DType) -> bool {
        self.0.takes(dtype)
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
    fn launch(&self, problem: &Problem, point: &Point, args: C::Args<'_>) -> Result<(), LaunchError> {
        match (V::Problem::of(problem), V::Config::from_point(point)) {
            (Some(problem), Some(config)) => self.0.launch(problem, config, args),
            _ => Err(LaunchError::Point(format!("{point:?}"))),
        }
    }
}

/// The kernels of a device. A kernel that panics when it is asked declines, one that panics when launched fails: a user's
/// kernel must not end the planning or the calls of others. Clones are cheap and share the kernels.
pub struct KernelTable<C: Context> {
    kernels: Arc<[Box<dyn AnyKernel<C>>]>,
    infos: Arc<[KernelInfo]>,
    users: Range<usize>,
}

impl<C: Context> Clone for KernelTable<C> {
    fn clone(&self) -> KernelTable<C> {
        let KernelTable { kernels, infos, users } = self;
        KernelTable { kernels: Arc::clone(kernels), infos: Arc::clone(infos), users: users.clone() }
    }
}

impl<C: Context> KernelTable<C> {
    /// Every kernel in order of preference: ours, then the user's, our references last.
    pub fn new(ours: Vec<Box<dyn AnyKernel<C>>>, users: Vec<Box<dyn AnyKernel<C>>>) -> KernelTable<C> {
        let (references, mut kernels): (Vec<_>, Vec<_>) =
            ours.into_iter().partition(|kernel| kernel.info().class == VariantClass::Reference);
        let start = kernels.len();
        kernels.extend(users);
        let users = start..kernels.len();
        kernels.extend(references);
        let mut infos: Vec<KernelInfo> = kernels.iter().map(|kernel| kernel.info()).collect();
        // A user's kernel is that, whatever it says: it is never the yardstick, and trusted as nobody's else.
        for info in &mut infos[users.clone()] {
            info.class = VariantClass::Custom;
        }
        KernelTable { kernels: kernels.into(), infos: infos.into(), users }
    }

    /// The kernels.
    pub fn kernels(&self) -> &[Box<dyn AnyKernel<C>>] {
        &self.kernels
    }

    /// What they are.
    pub fn infos(&self) -> &[KernelInfo] {
        &self.infos
    }

    /// What a kernel is.
    pub fn info(&self, kernel: KernelId) -> Option<&KernelInfo> {
        self.infos.get(kernel.0 as usize)
    }

    /// Whether the user brought it.
    pub fn is_users(&self, kernel: KernelId) -> bool {
        self.users.contains(&(kernel.0 as usize))
    }

    /// A kernel.
    #[inline]
    pub fn get(&self, kernel: KernelId) -> Option<&dyn AnyKernel<C>> {
        self.kernels.get(kernel.0 as usize).map(|kernel| kernel.as_ref())
    }

    /// Why a kernel does not take a problem.
    pub fn declines(&self, kernel: KernelId, problem: &Problem, device: &DeviceFacts) -> Option<Decline> {
        let Some(kernel) = self.get(kernel) else {
            return Some(Decline::because("there is no such kernel"));
        };
        // Kernels count with sizes as constructors let them through.
        if let Err(error) = problem.check() {
            return Some(Decline::from(error.to_string()));
        }
        asked(|| kernel.declines(problem, device)).unwrap_or_else(Some)
    }

    /// A kernel's legal settings; none if it declines.
    pub fn space(&self, kernel: KernelId, problem: &Problem, device: &DeviceFacts) -> Space {
        let space = self.get(kernel).and_then(|kernel| asked(|| kernel.space(problem, device)).ok());
        space.unwrap_or_default()
    }

    /// What one launch does.
    pub fn work(&self, kernel: KernelId, problem: &Problem, point: &Point, device: &DeviceFacts) -> Work {
        let work = self.get(kernel).and_then(|kernel| asked(|| kernel.work(problem, point, device)).ok());
        work.unwrap_or_default()
    }

    /// Launches a kernel.
    #[inline(always)]
    pub fn launch(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
        args: C::Args<'_>,
    ) -> Result<(), LaunchError> {
        let Some(found) = self.get(kernel) else {
            return Err(LaunchError::Kernel(format!("there is no kernel {}", kernel.0)));
        };
        match catch_unwind(AssertUnwindSafe(|| found.launch(problem, point, args))) {
            Ok(outcome) => outcome,
            Err(panic) => Err(LaunchError::Kernel(format!("panicked: {}", panic_message(panic.as_ref())))),
        }
    }
}

/// What a kernel answers about itself.
fn asked<R>(question: impl FnOnce() -> R) -> Result<R, Decline> {
    catch_unwind(AssertUnwindSafe(question))
        .map_err(|panic| Decline::from(format!("panicked when asked: {}", panic_message(panic.as_ref()))))
}

/// What a panic said.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_string())
}
