//! What the device does in a second: measured with kernels of ours, when first asked for.

use crate::device::CudaDevice;
use crate::run::CudaBuffer;
use crate::staging::TransferPath;
use trimtab_core::{
    BinaryOp, Bytes, DType, Device, Elementwise, KernelId, LaunchError, Matmul, Nanos, Operation, Problem,
    Rates, Transfers,
};
use trimtab_tune::Stopwatch;

/// What transfers to a device take that cannot be used: about 30 years, so that sums stay finite.
pub(crate) const UNUSABLE: Nanos = Nanos(1_000_000_000_000_000_000);

/// A run this long is long enough to say how fast the device is.
const LONG_ENOUGH: Nanos = Nanos(100_000);
/// No run may take longer.
const LONGEST: Nanos = Nanos(5_000_000_000);
/// Repeats of each; the shortest counts, because what disturbs only adds.
const REPEATS: usize = 3;
/// Sides of products and elements of sums, until one takes long enough.
const SIDES: [u64; 5] = [64, 128, 256, 512, 1024];
const ELEMENTS: [u64; 5] = [1 << 14, 1 << 16, 1 << 18, 1 << 21, 1 << 24];
/// Bytes of a large transfer.
const LARGE: usize = 8 << 20;

pub(crate) fn rates(device: &CudaDevice) -> Result<Rates, LaunchError> {
    let sum = |elements: u64| -> Result<Problem, LaunchError> {
        let problem = Elementwise::binary(BinaryOp::Add, DType::F32, &[elements], &[elements]);
        problem.map(Problem::Elementwise).map_err(|error| LaunchError::Kernel(error.to_string()))
    };
    let product = |side: u64| -> Result<Problem, LaunchError> {
        let problem = Matmul::new(DType::F32, side, side, side);
        problem.map(Problem::Matmul).map_err(|error| LaunchError::Kernel(error.to_string()))
    };
    let launch = time(device, Operation::Elementwise, &sum(1)?)?;
    let (elements, moving) =
        until_long(ELEMENTS, |elements| time(device, Operation::Elementwise, &sum(elements)?))?;
    let (side, multiplying) = until_long(SIDES, |side| time(device, Operation::Matmul, &product(side)?))?;
    let a_second =
        |amount: u64, time: Nanos| amount as f64 * 1e9 / time.saturating_sub(launch).0.max(1) as f64;
    let bytes_per_s = a_second(12 * elements, moving);
    let info = device.info();
    Ok(Rates {
        flops_per_s: a_second(2 * side * side * side, multiplying),
        lanes: 1,
        bytes_per_s,
        bytes_per_s_all: bytes_per_s,
        cached_bytes_per_s: bytes_per_s,
        cached_up_to: Bytes(info.l2_bytes),
        launch,
        // Not measured yet: estimates count barriers as nothing.
        barrier_ns: 0.0,
        filled_by: u64::from(info.multiprocessors) * u64::from(info.multiprocessor.threads),
    })
}

/// The first size that takes long enough, or the last, and its time.
fn until_long(
    sizes: [u64; 5],
    mut time: impl FnMut(u64) -> Result<Nanos, LaunchError>,
) -> Result<(u64, Nanos), LaunchError> {
    let mut last = (0, Nanos(0));
    for size in sizes {
        last = (size, time(size)?);
        if last.1 >= LONG_ENOUGH {
            break;
        }
    }
    Ok(last)
}

/// The shortest time of the first kernel that takes a problem and computes as its type does, at its default setting.
fn time(device: &CudaDevice, operation: Operation, problem: &Problem) -> Result<Nanos, LaunchError> {
    let none = || LaunchError::Kernel(format!("no kernel takes {problem}"));
    let kernels = device.kernels().iter().zip(0u32..).filter(|(info, _)| info.operation == operation);
    let mut ids = kernels.map(|(_, at)| KernelId(at));
    let first = |kernel: KernelId| device.space(kernel, problem).points().first().copied();
    let exact = |kernel: KernelId| {
        first(kernel).is_some_and(|point| device.work(kernel, problem, &point).error == 0.0)
    };
    let fits = |kernel: &KernelId| device.declines(*kernel, problem).is_none() && exact(*kernel);
    let kernel = ids.find(fits).ok_or_else(none)?;
    let point = first(kernel).ok_or_else(none)?;
    let prepared = device.prepare(kernel, problem, &point).map_err(|refused| refused.error)?;
    let context = device.context()?;
    let told = |error: crate::CudaError| LaunchError::Kernel(error.to_string());
    let buffer = |bytes: u64| -> Result<CudaBuffer, LaunchError> {
        let allocation = context.allocate(bytes).map_err(told)?;
        context.fill(&allocation, 0).map_err(told)?;
        Ok(CudaBuffer { allocation })
    };
    let inputs = problem.input_bytes().map(buffer).collect::<Result<Vec<_>, _>>()?;
    let (inputs, out): (Vec<&CudaBuffer>, _) = (inputs.iter().collect(), buffer(problem.out_bytes())?);
    let mut least = Nanos::MAX;
    for _ in 0..REPEATS {
        let mut failed = None;
        let run = || {
            failed = device.start(&prepared, &inputs, &out, 0).err();
            Ok(())
        };
        let took = context.timed(LONGEST, run).map_err(told)?;
        if let Some(error) = failed {
            return Err(error);
        }
        least = least.min(took);
    }
    Ok(least)
}

/// Measures what moving data to the device and back takes, through pinned memory and without, and lets it go by the faster from then on; work that does
/// nothing is taken for a small transfer each way.
pub(crate) fn transfers(device: &CudaDevice) -> Result<Transfers, LaunchError> {
    let context = device.context()?;
    let told = |error: crate::CudaError| LaunchError::Kernel(error.to_string());
    let time = |bytes: usize| -> Result<[Nanos; 2], LaunchError> {
        let mut data = vec![1u8; bytes];
        let allocation = context.allocate(bytes as u64).map_err(told)?;
        let mut least = [Nanos::MAX; 2];
        for _ in 0..REPEATS {
            let watch = Stopwatch::start();
            context.upload(&allocation, &data).map_err(told)?;
            // What is under way counts, too.
            context.wait(LONGEST).map_err(told)?;
            let up = watch.elapsed();
            let watch = Stopwatch::start();
            context.download(&allocation, &mut data).map_err(told)?;
            least = [least[0].min(up), least[1].min(watch.elapsed())];
        }
        Ok(least)
    };
    let by = |path: TransferPath| -> Result<[[Nanos; 2]; 2], LaunchError> {
        context.staging.prefer(path);
        Ok([time(4)?, time(LARGE)?])
    };
    let both = |measured: &[[Nanos; 2]; 2]| measured[1][0].0.saturating_add(measured[1][1].0);
    let (pinned, direct) = (by(TransferPath::Pinned)?, by(TransferPath::Direct)?);
    let is_pinned = both(&pinned) <= both(&direct);
    context.staging.prefer(if is_pinned { TransferPath::Pinned } else { TransferPath::Direct });
    let [small, large] = if is_pinned { pinned } else { direct };
    let rate = |way: usize| LARGE as f64 * 1e9 / large[way].saturating_sub(small[way]).0.max(1) as f64;
    Ok(Transfers {
        upload_latency: small[0],
        upload_bytes_per_s: rate(0),
        download_latency: small[1],
        download_bytes_per_s: rate(1),
        submit: Nanos(small[0].0 + small[1].0),
    })
}
