//! 16-bit floats on a processor without instructions for them: computed as f32 and rounded once.

use crate::args::Args;
use trimtab_core::LaunchError;
use trimtab_operands::{Data, Slice, SliceMut, f16};

/// What a kernel without 16-bit floats answers when it is launched on some all the same; it declines them when asked.
pub(super) fn not_here() -> LaunchError {
    LaunchError::Kernel("this kernel does not compute with f16".to_string())
}

/// Runs a computation on f32 copies of f16 operands and rounds its result.
pub(super) fn widened(
    args: Args<'_>,
    run: impl FnOnce(Args<'_>) -> Result<(), LaunchError>,
) -> Result<(), LaunchError> {
    let wide = args.inputs.iter().map(|&input| wide(input)).collect::<Result<Vec<Data>, _>>()?;
    let inputs: Vec<Slice<'_>> = wide.iter().map(Data::slice).collect();
    let SliceMut::F16(out) = args.out else { return Err(not_here()) };
    let mut result = vec![0.0f32; out.len()];
    run(Args { inputs: &inputs, out: SliceMut::F32(&mut result), pool: args.pool })?;
    out.iter_mut().zip(result).for_each(|(out, value)| *out = f16::from_f32(value));
    Ok(())
}

fn wide(slice: Slice<'_>) -> Result<Data, LaunchError> {
    match slice {
        Slice::None => Ok(Data::None),
        Slice::F16(slice) => Ok(Data::F32(slice.iter().map(|value| value.to_f32()).collect())),
        _ => Err(not_here()),
    }
}
