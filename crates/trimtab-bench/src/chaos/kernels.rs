//! Kernels a user might bring: as fast as ours, and each with one fault.

use super::faults::{Fault, FaultLog, STALL, can_be_left_behind, hash_of, is_live, spoil};
use std::borrow::Cow;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock};
use trimtab::Builder;
use trimtab::advanced::core::{
    Bytes, DType, Decline, Device, DeviceFacts, Elementwise, Fused, KernelId, KernelVersion, LaunchError,
    Matmul, Point, Problem, RandomNumbers, Reduce, Transpose, TypedProblem, Variant, VariantClass, Work,
};
use trimtab::advanced::cpu::{Args, Cpu, CpuDevice, CpuOptions, Element};
use trimtab::advanced::operands::{Lend, Reference, Slice, SliceMut};

/// Strikes at one size in so many.
const SIZES_ONE_IN: u64 = 3;
/// Strikes in one call in so many.
const CALLS_ONE_IN: u64 = 3;
/// Strikes on the values of one call in so many.
const VALUES_ONE_IN: u64 = 4;
/// What some take for too large.
const LARGE: f32 = 50.0;
/// A launch of a slow kernel computes so many times.
const SLOW_FACTOR: usize = 50;

/// When a kernel's fault strikes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// At some sizes, whoever asks.
    Sizes,
    /// In some of the caller's own launches: no check before shows it.
    Live,
    /// Where a number is large.
    Large,
    /// Where something is not a number.
    NotANumber,
    /// By the bits of the first element.
    Bits,
    /// From one call to another.
    Calls(u64, u64),
    /// A healthy kernel.
    Never,
}

/// What every kernel of a process shares: who really computes, and where faults are written down.
#[derive(Clone)]
pub(crate) struct Shop {
    honest: Arc<CpuDevice>,
    log: Arc<FaultLog>,
}

impl Shop {
    pub(crate) fn new(log: &Arc<FaultLog>) -> Shop {
        let honest = CpuDevice::new(CpuOptions { threads: Some(1), ..CpuOptions::default() });
        Shop { honest: Arc::new(honest), log: Arc::clone(log) }
    }

    fn bad<P>(&self, name: String, fault: Fault, when: When, salt: u64) -> Bad<P> {
        Bad { name, fault, when, salt, shop: self.clone(), known: RwLock::default(), of: PhantomData }
    }

    /// A runtime with one more bad kernel, for one of the operations.
    pub(crate) fn add(
        &self,
        builder: Builder,
        fault: Fault,
        when: When,
        draws: &mut RandomNumbers,
    ) -> Builder {
        let salt = draws.bits();
        let name = |operation: &str| format!("user.{fault}.{operation}.{:08x}", salt >> 32);
        match draws.below(6) {
            0 => builder.kernel(self.bad::<Matmul>(name("matmul"), fault, when, salt)),
            1 | 2 => builder.kernel(self.bad::<Elementwise>(name("elementwise"), fault, when, salt)),
            3 => builder.kernel(self.bad::<Reduce>(name("reduce"), fault, when, salt)),
            4 => builder.kernel(self.bad::<Transpose>(name("transpose"), fault, when, salt)),
            _ => builder.kernel(self.bad::<Fused>(name("fused"), fault, when, salt)),
        }
    }
}

trimtab::advanced::core::config! { struct NoSettings {} }

/// How a problem is really computed, and whether its size is one the kernel fails at.
#[derive(Clone, Copy)]
struct Known {
    way: Option<(KernelId, Point)>,
    strikes: bool,
}

/// A kernel with a fault.
struct Bad<P> {
    name: String,
    fault: Fault,
    when: When,
    salt: u64,
    shop: Shop,
    known: RwLock<HashMap<Problem, Known>>,
    of: PhantomData<fn() -> P>,
}

impl<P> Bad<P> {
    fn known(&self, problem: &Problem) -> Known {
        if let Some(known) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(problem) {
            return *known;
        }
        let device = &self.shop.honest;
        let takes = |(at, info): (usize, &trimtab::advanced::core::KernelInfo)| {
            let kernel = KernelId(at as u32);
            let fits = info.operation == problem.operation()
                && info.class != VariantClass::Reference
                && device.declines(kernel, problem).is_none();
            let point = fits.then(|| device.space(kernel, problem).points().first().copied())??;
            Some((kernel, point))
        };
        let way = device.kernels().iter().enumerate().find_map(takes);
        let strikes = hash_of(&problem.to_string(), self.salt).is_multiple_of(SIZES_ONE_IN);
        let known = Known { way, strikes };
        self.known.write().unwrap_or_else(PoisonError::into_inner).insert(*problem, known);
        known
    }

    fn strikes(&self, known: Known, inputs: &[Slice<'_>]) -> bool {
        let mut numbers = inputs.iter().filter_map(|&input| f32::slice(input));
        match self.when {
            When::Sizes => known.strikes,
            When::Live => {
                is_live() && hash_of("", self.salt ^ self.shop.log.call()).is_multiple_of(CALLS_ONE_IN)
            }
            When::Large => numbers.any(|input| input.iter().any(|x| x.abs() > LARGE)),
            When::NotANumber => numbers.any(|input| input.iter().any(|x| x.is_nan())),
            When::Bits => {
                let first = numbers.next().and_then(|input| input.first()).map_or(0, |x| x.to_bits());
                hash_of("", self.salt ^ u64::from(first)).is_multiple_of(VALUES_ONE_IN)
            }
            When::Calls(from, until) => (from..until).contains(&self.shop.log.call()),
            When::Never => false,
        }
    }

    fn compute(
        &self,
        known: Known,
        problem: &Problem,
        inputs: &[Slice<'_>],
        out: SliceMut<'_>,
    ) -> Result<(), LaunchError> {
        match known.way {
            Some((kernel, point)) => self.shop.honest.launch(kernel, problem, &point, inputs, out),
            None => self.shop.honest.compute(problem, inputs, out),
        }
    }
}

impl<P: TypedProblem> Variant<Cpu> for Bad<P> {
    type Problem = P;
    type Config = NoSettings;

    fn name(&self) -> Cow<'static, str> {
        self.name.clone().into()
    }
    fn version(&self) -> KernelVersion {
        "1".into()
    }
    fn class(&self) -> VariantClass {
        VariantClass::Custom
    }
    fn declines(&self, problem: &P, _: &DeviceFacts) -> Option<Decline> {
        let problem: Problem = (*problem).into();
        (problem.dtype() != Some(DType::F32)).then(|| Decline::because("does f32 only"))
    }
    fn configs(&self, _: &P, _: &DeviceFacts) -> Vec<NoSettings> {
        vec![NoSettings {}]
    }
    fn work(&self, _: &P, _: NoSettings, _: &DeviceFacts) -> Work {
        // It promises the most, so that it is tried first.
        Work { bytes: Bytes(1), threads: 1, lanes: 1, ..Work::default() }
    }
    #[expect(clippy::panic, reason = "a panic is one of the faults")]
    fn launch(&self, problem: &P, _: NoSettings, args: Args<'_>) -> Result<(), LaunchError> {
        let problem: Problem = (*problem).into();
        let known = self.known(&problem);
        let Args { inputs, mut out, .. } = args;
        if !self.strikes(known, inputs) {
            return self.compute(known, &problem, inputs, out);
        }
        let fault = match self.fault {
            Fault::Hang if is_live() && !can_be_left_behind() => Fault::Stall,
            fault => fault,
        };
        self.shop.log.note(fault, &self.name, &problem.to_string());
        match fault {
            Fault::Error => return Err(LaunchError::Kernel("chaos: refused".to_string())),
            Fault::Memory | Fault::Loss => {
                return Err(LaunchError::Kernel("chaos: out of memory".to_string()));
            }
            Fault::Panic => panic!("chaos: out of ideas"),
            Fault::Abort => std::process::abort(),
            Fault::Stall => std::thread::sleep(STALL),
            Fault::Hang => loop {
                std::thread::park();
            },
            Fault::Slow => {
                (1..SLOW_FACTOR).try_for_each(|_| self.compute(known, &problem, inputs, out.lend()))?;
            }
            Fault::WrongSize | Fault::WrongValue => (),
        }
        self.compute(known, &problem, inputs, out.lend())?;
        if self.fault.is_wrong() {
            spoil(out, self.salt);
        }
        Ok(())
    }
}
