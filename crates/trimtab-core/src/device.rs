//! What the planner sees of a device. Real ones run, recorded ones look up. Operands never pass through here.

use crate::{
    Bytes, Decline, Failure, KernelVersion, Nanos, Operation, Point, Problem, Sample, Space, State,
    VariantClass, Work,
};
use std::fmt;

/// A kernel's position in its device's table. Never leaves the process; wisdom uses the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelId(pub u32);

/// The identity of a device for wisdom: everything that changes what is fast, never just the vendor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub String);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

crate::named! {
    /// The kind of a device.
    pub enum DeviceKind {
        /// The processor this process runs on.
        Cpu = "cpu",
        /// A graphics processor.
        Gpu = "gpu",
        /// Recorded measurements of a machine.
        Recorded = "recorded",
    }
}

/// How a device behaves: what the planner has to know of it beside its times. What kind of device it is does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Habits {
    /// It computes in the caller's memory: nothing is moved to it or back.
    pub host_memory: bool,
    /// The first launch of a kernel builds it, in the caller's time.
    pub first_launch_compiles: bool,
    /// Live calls may now and then run another kernel than the one in force.
    pub explored_live: bool,
    /// One launch takes a third more or less than the next: batches are longer and samples more, where there is time for them.
    pub noisy: bool,
    /// What it runs may end the process, ours too: a driver compiles it.
    pub may_crash: bool,
    /// Its times are recorded: the clock of this machine has no part in them.
    pub recorded: bool,
}

impl Habits {
    /// A processor that computes in the caller's memory.
    pub const HOST: Habits = Habits {
        host_memory: true,
        first_launch_compiles: false,
        explored_live: true,
        noisy: false,
        may_crash: false,
        recorded: false,
    };

    /// A GPU behind a driver.
    pub const GPU: Habits = Habits {
        host_memory: false,
        first_launch_compiles: true,
        explored_live: false,
        noisy: true,
        may_crash: true,
        recorded: false,
    };

    /// Recorded measurements.
    pub const RECORDED: Habits = Habits {
        host_memory: false,
        first_launch_compiles: false,
        explored_live: true,
        noisy: false,
        may_crash: false,
        recorded: true,
    };
}

/// One level of cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// 1, 2, 3.
    pub level: u8,
    /// Size of one instance.
    pub size: Bytes,
    /// Hardware threads that share one instance.
    pub shared_by: u32,
    /// Bytes of a line.
    pub line: u32,
}

/// What is fixed about a device while the process runs. What cannot be read is absent.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceFacts {
    /// The short name a person pins a device by: `cpu`, `gpu0`.
    pub id: String,
    /// The model name.
    pub name: String,
    /// What kind it is, for people.
    pub kind: DeviceKind,
    /// How it behaves.
    pub habits: Habits,
    /// The identity for wisdom.
    pub fingerprint: Fingerprint,
    /// Physical cores or compute units.
    pub cores: Option<u32>,
    /// Threads kernels may use at once on this device (for a CPU: hardware threads, or the cap the user set).
    pub threads: u32,
    /// Data and unified caches, smallest level first.
    pub caches: Vec<Cache>,
    /// Bytes of the widest usable vector register.
    pub vector_bytes: Option<u32>,
    /// Instruction-set or device features, sorted.
    pub features: Vec<String>,
    /// NUMA nodes.
    pub numa_nodes: Option<u32>,
    /// Memory of the device.
    pub memory: Option<Bytes>,
    /// What a GPU's adapter told about itself.
    pub adapter: Option<Box<AdapterFacts>>,
    /// Other probed facts, for people: (name, value).
    pub notes: Vec<(String, String)>,
}

impl DeviceFacts {
    /// The size of the data cache of that level.
    pub fn cache(&self, level: u8) -> Option<Bytes> {
        self.caches.iter().find(|cache| cache.level == level).map(|cache| cache.size)
    }

    /// Whether a feature was found.
    pub fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|known| known == feature)
    }
}

crate::named! {
    /// What sort of adapter a GPU is: which strategy it gets.
    pub enum AdapterClass {
        /// A card with memory of its own.
        Discrete = "discrete",
        /// On the processor's chip, sharing its memory.
        Integrated = "integrated",
        /// A GPU of another machine or hypervisor.
        Virtual = "virtual",
        /// The processor pretending to be a GPU.
        Software = "software",
        /// The driver does not say.
        Unknown = "unknown",
    }
}

/// What a GPU's adapter told about itself. Kernels keep within these limits themselves: not every API enforces them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterFacts {
    /// What sort of adapter.
    pub class: AdapterClass,
    /// The API it is reached through: `vulkan`, `metal`, `dx12`, `webgpu`.
    pub backend: String,
    /// The driver's name.
    pub driver: String,
    /// The driver's version and build.
    pub driver_info: String,
    /// Most invocations of one workgroup.
    pub max_invocations: u32,
    /// Most invocations of one workgroup along each axis.
    pub max_workgroup: [u32; 3],
    /// Most workgroups of one dispatch along each axis.
    pub max_groups: u32,
    /// Most memory a workgroup shares.
    pub workgroup_memory: Bytes,
    /// Most of a buffer one kernel sees at once.
    pub max_binding: Bytes,
    /// The largest buffer.
    pub max_buffer: Bytes,
    /// What the start of a part of a buffer is a multiple of, in bytes.
    pub offset_alignment: u32,
    /// Fewest and most invocations of a subgroup; absent without subgroups.
    pub subgroup: Option<(u32, u32)>,
    /// Whether kernels may compute with 16-bit floats.
    pub f16: bool,
    /// Whether kernels may compute with 64-bit floats.
    pub f64: bool,
    /// Whether the device tells the time at which work began and ended.
    pub timestamps: bool,
    /// Whether the processor and the device share memory, so that buffers can be mapped in place.
    pub unified_memory: bool,
    /// Whether built kernels can be kept on disk.
    pub pipeline_cache: bool,
}

/// Measured speeds of a device: what the analytic estimate divides by.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// f32 operations a second of one thread with the widest vectors.
    pub flops_per_s: f64,
    /// Lanes of f32 those vectors have; scalar code runs at `flops_per_s / lanes`.
    pub lanes: u32,
    /// Bytes a second one thread moves to and from memory.
    pub bytes_per_s: f64,
    /// Bytes a second all threads together move to and from memory.
    pub bytes_per_s_all: f64,
    /// Bytes a second one thread moves within the cache, and the size up to which that holds.
    pub cached_bytes_per_s: f64,
    /// The working set up to which `cached_bytes_per_s` holds.
    pub cached_up_to: Bytes,
    /// Cost of handing work to another thread and waiting for it; on a GPU of one dispatch more in a submission.
    pub launch: Nanos,
    /// On a GPU: what one barrier of one workgroup costs, in nanoseconds of the whole device.
    pub barrier_ns: f64,
    /// On a GPU: independent invocations below which the device is not filled; zero where that does not matter.
    pub filled_by: u64,
}

/// Measured costs of moving data to a device and back, and of handing it work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfers {
    /// Time the smallest upload takes.
    pub upload_latency: Nanos,
    /// Bytes a second of large uploads.
    pub upload_bytes_per_s: f64,
    /// Time the smallest download takes.
    pub download_latency: Nanos,
    /// Bytes a second of large downloads.
    pub download_bytes_per_s: f64,
    /// Handing over work that does nothing, and waiting for it.
    pub submit: Nanos,
}

impl Transfers {
    /// Time around the kernel when every operand is uploaded and the result is downloaded.
    pub fn transfer_overhead(&self, problem: &Problem) -> Nanos {
        let time = |latency: Nanos, bytes: u64, bytes_per_s: f64| {
            let moving = if bytes_per_s > 0.0 { bytes as f64 / bytes_per_s * 1e9 } else { 0.0 };
            if bytes == 0 { 0.0 } else { latency.0 as f64 + moving }
        };
        let uploads = problem.input_bytes();
        let up: f64 = uploads.map(|bytes| time(self.upload_latency, bytes, self.upload_bytes_per_s)).sum();
        let down = time(self.download_latency, problem.out_bytes(), self.download_bytes_per_s);
        Nanos(((up + down) as u64).saturating_add(self.submit.0))
    }
}

/// A kernel as the planner sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelInfo {
    /// Its name, the key in wisdom.
    pub name: String,
    /// Its version, part of the key.
    pub version: KernelVersion,
    /// The operation it does.
    pub operation: Operation,
    /// What sort of implementation it is.
    pub class: VariantClass,
}

/// What the planner sees of a device.
pub trait Device: Send + Sync {
    /// Fixed facts: fingerprint, limits, caches.
    fn facts(&self) -> &DeviceFacts;
    /// Measured speeds; measured once, when first asked for.
    fn rates(&self) -> Rates;
    /// What the machine is like now.
    fn state(&self) -> State;
    /// The kernels, frozen, in order of preference, references last. A [`KernelId`] is a position here.
    fn kernels(&self) -> &[KernelInfo];
    /// Why a kernel does not take a problem, or `None`.
    fn declines(&self, kernel: KernelId, problem: &Problem) -> Option<Decline>;
    /// The legal settings, the default first. Empty if the kernel declines.
    fn space(&self, kernel: KernelId, problem: &Problem) -> Space;
    /// What one launch does: the analytic prior and the resource needs.
    fn work(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Work;
    /// Time around the kernel of a call whose operands lie in the caller's memory: moving them to the device, handing the
    /// work over, and moving the result back. Nothing on the processor itself. Measured once, when first asked for.
    fn transfer_overhead(&self, problem: &Problem) -> Nanos {
        self.transfers().map_or(Nanos(0), |transfers| transfers.transfer_overhead(problem))
    }
    /// What moving data to the device and back takes, where it has memory or a queue of its own. Measured once.
    fn transfers(&self) -> Option<Transfers> {
        None
    }
    /// In words, what this device's first guesses for a problem rest on, before anything was measured: for `explain`.
    fn reasoning(&self, problem: &Problem) -> Vec<String> {
        let _ = problem;
        Vec::new()
    }
    /// In words, what a compiler made of a kernel at a point, and how full that lets the device be: for `explain`. May compile it.
    fn compiled(&self, _kernel: KernelId, _problem: &Problem, _point: &Point) -> Option<String> {
        None
    }
    /// A kernel ended a process before: a device that can tries it out where that does no harm, before it runs it here.
    fn distrust(&self, _kernel: KernelId) {}
    /// Runs a kernel on a small stand-in for the problem and compares with the reference, within the time-out.
    fn verify(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
        timeout: Nanos,
    ) -> Result<(), Failure>;
    /// Prepares operands of its own for measuring, unless that would take longer than `limit`.
    fn bench(&self, problem: &Problem, limit: Nanos) -> Result<Box<dyn Bench + '_>, Decline>;
}

/// Measuring one problem on one device. Holds the operands for as long as rivals are compared.
pub trait Bench {
    /// Times a batch of `iterations` launches. The first run of each (kernel, point) is compared with the reference.
    /// A run that takes longer than `timeout` is abandoned and reported as timed out.
    fn run(
        &mut self,
        kernel: KernelId,
        point: &Point,
        iterations: u32,
        timeout: Nanos,
    ) -> Result<Sample, Failure>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_pays_for_each_operand_it_has_for_the_launch_and_for_the_result() {
        let transfers = Transfers {
            upload_latency: Nanos(1_000),
            upload_bytes_per_s: 1e9,
            download_latency: Nanos(2_000),
            download_bytes_per_s: 2e9,
            submit: Nanos(10_000),
        };
        let add: Problem = "elementwise.add:f32:1000".parse().unwrap();
        assert_eq!(transfers.transfer_overhead(&add), Nanos(2 * (1_000 + 4_000) + 10_000 + 2_000 + 2_000));
        let neg: Problem = "elementwise.neg:f32:1000".parse().unwrap();
        assert_eq!(transfers.transfer_overhead(&neg), Nanos(1_000 + 4_000 + 10_000 + 2_000 + 2_000));
    }
}
