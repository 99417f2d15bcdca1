//! Windows of one element: a product of the weights and the operand as it lies, nothing copied.

use super::ending::{Bias, end, end_places};
use super::{Float, Given, count, given, threads, work};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::matmul::gemm::slabs;
use crate::simd::Level;
use trimtab_core::{Bytes, Channels, Conv, DType, Decline, DeviceFacts, LaunchError, Variant, Work};

trimtab_core::config! {
    /// Threads, and places of the result that one takes at once.
    pub struct PointwiseConfig { threads, places }
}

/// Places of the result that a thread takes at once.
const PLACES: [u32; 2] = [1 << 12, 1 << 9];

/// See the module.
#[derive(Debug)]
pub struct PointwiseKernel {
    pub(super) level: Level,
}

impl Variant<Cpu> for PointwiseKernel {
    type Problem = Conv;
    type Config = PointwiseConfig;

    identity!("cpu.conv.pointwise", Library);

    fn declines(&self, problem: &Conv, _: &DeviceFacts) -> Option<Decline> {
        let wide = || Decline::because("the window has more than one element, or steps over some");
        crate::kernels::not_of_type(problem.dtype).or_else(|| (!problem.window.is_single()).then(wide))
    }

    fn configs(&self, problem: &Conv, device: &DeviceFacts) -> Vec<PointwiseConfig> {
        let with = |threads: u32| PLACES.map(|places| PointwiseConfig { threads, places });
        threads(problem, device).into_iter().flat_map(with).collect()
    }

    fn work(&self, problem: &Conv, config: PointwiseConfig, device: &DeviceFacts) -> Work {
        let (outputs, inputs) = (problem.group_outputs() as u64, problem.depth());
        let places = u64::from(config.places).min(count(problem.window.out()) as u64);
        let work = work(problem, problem.operand_len(), 0, config.threads);
        multiplied(work, device, [outputs, places, inputs], problem.dtype)
    }

    fn launch(&self, problem: &Conv, config: PointwiseConfig, args: Args<'_>) -> Launched {
        if !problem.window.is_single() || config.places == 0 {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_float!(problem, T => {
            products(problem, self.level, config, given::<T>(problem, args)?);
            Ok(())
        })
    }
}

/// The crate `gemm` packs operands in whole tiles, at most so large.
const PACKED: u64 = 64;

/// With what the crate `gemm` keeps for its threads, and with what it packs of products of that many rows, columns and terms: the whole
/// right operand, and the left one where it is short.
pub(super) fn multiplied(work: Work, device: &DeviceFacts, product: [u64; 3], dtype: DType) -> Work {
    let [rows, columns, terms] = product;
    let lines = rows.next_multiple_of(PACKED).saturating_add(columns.next_multiple_of(PACKED));
    let packed = lines.saturating_mul(terms).saturating_mul(dtype.size()).saturating_mul(work.threads.into());
    let scratch = work.scratch.0.saturating_add(slabs(device, work.threads)).saturating_add(packed);
    Work { scratch: Bytes(scratch), ..work }
}

/// A product `rows × columns × depth` with strides of rows and columns.
pub(in crate::kernels) struct Strided<T> {
    pub(in crate::kernels) sizes: [usize; 3],
    pub(in crate::kernels) lhs: (*const T, usize, usize),
    pub(in crate::kernels) rhs: (*const T, usize, usize),
    pub(in crate::kernels) out: (*mut T, usize, usize),
}

impl<T: Float> Strided<T> {
    /// Multiplies on this thread.
    ///
    /// # Safety
    /// The operands must be readable and the result writable for these sizes and strides, and nobody else may use the result.
    pub(super) unsafe fn multiply(self) {
        // SAFETY: as the caller promises.
        unsafe { self.multiply_by(T::ONE, false) }
    }

    /// The same times a factor, and added to the result if that is asked.
    ///
    /// # Safety
    /// As [`Strided::multiply`].
    pub(in crate::kernels) unsafe fn multiply_by(self, factor: T, add: bool) {
        let [rows, columns, depth] = self.sizes;
        let stride = |elements: usize| elements as isize;
        let ((lhs, lhs_row, lhs_column), (rhs, rhs_row, rhs_column)) = (self.lhs, self.rhs);
        let (out, out_row, out_column) = self.out;
        // SAFETY: as the caller promises; the old result is read only if it is added to.
        unsafe {
            ::gemm::gemm(
                rows,
                columns,
                depth,
                out,
                stride(out_column),
                stride(out_row),
                add,
                lhs,
                stride(lhs_column),
                stride(lhs_row),
                rhs,
                stride(rhs_column),
                stride(rhs_row),
                if add { T::ONE } else { T::ZERO },
                factor,
                false,
                false,
                false,
                ::gemm::Parallelism::None,
            );
        }
    }
}

fn products<T: Float>(p: &Conv, level: Level, config: PointwiseConfig, given: Given<'_, T>) {
    let Given { operand, weights, bias, out, pool } = given;
    let places = count(p.window.out());
    let (depth, outputs) = (p.group_inputs(), p.group_outputs());
    if places == 0 || out.is_empty() {
        return;
    }
    let each = (config.places as usize).min(places);
    let tiles = places.div_ceil(each);
    let whole = Disjoint::new(out);
    pool.run(config.threads, p.batch() * p.groups() * tiles, &|task| {
        let (batch, rest) = (task / (p.groups() * tiles), task % (p.groups() * tiles));
        let (group, first) = (rest / tiles, rest % tiles * each);
        let count = each.min(places - first);
        let weights = &weights[group * outputs * depth..(group + 1) * outputs * depth];
        let (input, output) = (group * depth, group * outputs);
        match p.channels {
            Channels::First => {
                // Without input channels nothing is there, and nothing is read.
                let from = operand.get((batch * p.inputs() + input) * places + first..).unwrap_or_default();
                let start = (batch * p.outputs() + output) * places + first;
                let product = Strided {
                    sizes: [outputs, count, depth],
                    lhs: (weights.as_ptr(), depth, 1),
                    rhs: (from.as_ptr(), places, 1),
                    out: (whole.as_mut_ptr().wrapping_add(start), places, 1),
                };
                // SAFETY: `depth` rows of `places` elements begin there, of which `count` are read; every task has its own
                // channels and places of the result.
                unsafe { product.multiply() };
                for channel in 0..outputs {
                    let start = start + channel * places;
                    // SAFETY: every task has its own channels and places.
                    let row = unsafe { whole.part(start..start + count) };
                    end(p, level, bias.map_or(Bias::None, |bias| Bias::One(bias[output + channel])), row);
                }
            }
            Channels::Last => {
                let from = &operand[(batch * places + first) * p.inputs() + input..];
                let start = (batch * places + first) * p.outputs() + output;
                let product = Strided {
                    sizes: [count, outputs, depth],
                    lhs: (from.as_ptr(), p.inputs(), 1),
                    rhs: (weights.as_ptr(), 1, depth),
                    out: (whole.as_mut_ptr().wrapping_add(start), p.outputs(), 1),
                };
                // SAFETY: `count` places of `inputs` channels begin there, of which `depth` are read; every task has its own
                // places and channels of the result.
                unsafe { product.multiply() };
                let (channels, first) = (output..output + outputs, batch * places + first);
                // SAFETY: every task has its own places and channels.
                unsafe { end_places(p, level, bias, &whole, channels, first..first + count) };
            }
        }
    });
}
