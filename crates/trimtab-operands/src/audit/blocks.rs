//! Parts of masks and of blocks: some indices of each axis.

use super::{Audit, Axes, Share, Taken, part, some_of_each};
use crate::slice::Slice;
use trimtab_core::{Concat, Mask, Put, RandomNumbers};

pub(super) fn mask(
    p: &Mask,
    inputs: &[Slice<'_>],
    out: &Slice<'_>,
    most: Share,
    random: &mut RandomNumbers,
) -> Option<Audit> {
    let axes = some_of_each(p.dims(), most, random);
    let operand = |place: usize| -> Axes<'_> {
        let all = axes.iter().zip(p.dims()).enumerate().filter(|(axis, _)| p.varies(place, *axis));
        all.map(|(_, (taken, size))| (taken, *size)).collect()
    };
    let shape = |place: usize| -> Vec<u64> {
        let sizes = axes.iter().enumerate();
        sizes.map(|(axis, taken)| if p.varies(place, axis) { taken.len() as u64 } else { 1 }).collect()
    };
    let shapes: Vec<Vec<u64>> = (0..p.operands()).map(shape).collect();
    let shapes: Vec<&[u64]> = shapes.iter().map(Vec::as_slice).collect();
    let small = Mask::new(p.op, p.dtype, &shapes).ok()?;
    let taken: Vec<Axes<'_>> = (0..p.operands()).map(operand).collect();
    let to: Axes<'_> = axes.iter().zip(p.dims()).map(|(taken, size)| (taken, *size)).collect();
    part(small.into(), inputs, &taken, out, &to)
}

pub(super) fn concat(
    p: &Concat,
    inputs: &[Slice<'_>],
    out: &Slice<'_>,
    most: Share,
    random: &mut RandomNumbers,
) -> Option<Audit> {
    let side = ((most.elements(1) as f64).sqrt() as usize).max(2);
    let rows = Taken::some(p.outer(), side, random);
    let each = side / p.parts().len().max(1) + 2;
    let parts: Vec<Taken> = p.parts().iter().map(|&part| Taken::some(part, each, random)).collect();
    // Where they lie in a row of the result.
    let (mut columns, mut first) = (Vec::new(), 0);
    for (taken, part) in parts.iter().zip(p.parts()) {
        columns.extend((0..taken.len()).map(|nth| first + taken.at(nth)));
        first += *part as usize;
    }
    let columns = Taken::Some(columns);
    let shapes: Vec<[u64; 2]> = parts.iter().map(|taken| [rows.len() as u64, taken.len() as u64]).collect();
    let shapes: Vec<&[u64]> = shapes.iter().map(<[u64; 2]>::as_slice).collect();
    let small = Concat::new(p.dtype, &shapes, 1).ok()?;
    let row = (&rows, p.outer());
    let taken: Vec<Axes<'_>> =
        parts.iter().zip(p.parts()).map(|(taken, part)| vec![row, (taken, *part)]).collect();
    part(small.into(), inputs, &taken, out, &vec![row, (&columns, p.row())])
}

pub(super) fn put(
    p: &Put,
    inputs: &[Slice<'_>],
    out: &Slice<'_>,
    most: Share,
    random: &mut RandomNumbers,
) -> Option<Audit> {
    let dims: Vec<u64> = p.dims().iter().map(|&dim| u64::from(dim)).collect();
    let axes = some_of_each(&dims, most, random);
    let (mut whole, mut block, mut first) = (Vec::new(), Vec::new(), Vec::new());
    let mut within: Vec<(Taken, u64)> = Vec::new();
    for (taken, (&at, &size)) in axes.iter().zip(p.first().iter().zip(p.size())) {
        // Indices are in order, so those inside the block lie side by side.
        let all = (0..taken.len()).map(|nth| taken.at(nth));
        let inside: Vec<usize> = all
            .clone()
            .filter(|index| (at as usize..(at + size) as usize).contains(index))
            .map(|index| index - at as usize)
            .collect();
        first.push(all.filter(|index| *index < at as usize).count() as u64);
        whole.push(taken.len() as u64);
        block.push(inside.len() as u64);
        within.push((Taken::Some(inside), u64::from(size)));
    }
    let small = Put::new(p.dtype, &whole, &block, &first, p.fill).ok()?;
    let to: Axes<'_> = axes.iter().zip(&dims).map(|(taken, dim)| (taken, *dim)).collect();
    let one = Taken::all(1);
    let base = if p.fill { vec![(&one, 1)] } else { to.clone() };
    let of_block: Axes<'_> = within.iter().map(|(taken, size)| (taken, *size)).collect();
    part(small.into(), inputs, &[base, of_block], out, &to)
}
