//! Elements that are moved, chosen, or turned into others.

use trimtab_core::{Cast, Concat, DType, Gather, Mask, MaskOp, Put, Scatter, Transpose};

/// Numbers of an element: two for complex ones.
fn parts(dtype: DType) -> usize {
    dtype.numbers()
}

/// The digits of a place along axes of these sizes, outermost first.
fn digits(mut at: usize, sizes: &[usize]) -> Vec<usize> {
    let mut digits = vec![0; sizes.len()];
    for (digit, size) in digits.iter_mut().zip(sizes).rev() {
        *digit = at % size;
        at /= size;
    }
    digits
}

fn sizes(sizes: &[u64]) -> Vec<usize> {
    sizes.iter().map(|size| *size as usize).collect()
}

/// So many elements, each taken from somewhere.
fn taken<'a>(count: usize, from: impl Fn(usize) -> &'a [f64]) -> Vec<f64> {
    (0..count).flat_map(|at| from(at).iter().copied()).collect()
}

fn element(input: &[f64], each: usize, place: usize) -> &[f64] {
    &input[place * each..(place + 1) * each]
}

pub fn transposed(p: &Transpose, input: &[f64]) -> Vec<f64> {
    let dims = sizes(p.dims());
    let axes: Vec<usize> = p.permutation().iter().map(|axis| usize::from(*axis)).collect();
    let out: Vec<usize> = axes.iter().map(|axis| dims[*axis]).collect();
    let steps: Vec<usize> = (0..dims.len()).map(|axis| dims[axis + 1..].iter().product()).collect();
    let each = parts(p.dtype);
    taken(dims.iter().product(), |at| {
        let places = digits(at, &out).into_iter().zip(&axes).map(|(digit, axis)| digit * steps[*axis]);
        element(input, each, places.sum())
    })
}

/// Floats to whole numbers stop at the ends of the range; whole numbers keep their lower bits.
pub fn cast(p: &Cast, value: f64) -> f64 {
    let Some((least, most)) = p.to.range() else { return value };
    if p.to == DType::Bool {
        return f64::from(u8::from(value != 0.0));
    }
    if p.dtype.is_float() {
        return if value.is_nan() { 0.0 } else { value.trunc().clamp(least as f64, most as f64) };
    }
    let span = i128::from(most) - i128::from(least) + 1;
    (((value as i128 - i128::from(least)).rem_euclid(span)) + i128::from(least)) as f64
}

/// Where an index points.
fn place(index: f64, len: usize) -> usize {
    (if index < 0.0 { index + len as f64 } else { index }) as usize
}

pub fn gathered(p: &Gather, input: &[f64], indices: &[f64]) -> Vec<f64> {
    let [len, inner, count] = [p.len, p.inner, p.count].map(|size| size as usize);
    let each = parts(p.dtype);
    taken(p.along_count() as usize, |at| {
        let row = at / inner;
        let index = indices[if p.each { at } else { row % count }];
        element(input, each, (row / count * len + place(index, len)) * inner + at % inner)
    })
}

pub fn scattered(p: &Scatter, input: &[f64], indices: &[f64], added: &[f64]) -> Vec<f64> {
    let [len, inner, count] = [p.len, p.inner, p.count].map(|size| size as usize);
    let mut out = input.to_vec();
    for at in 0..p.along_count() as usize {
        let row = at / inner;
        let index = indices[if p.each { at } else { row % count }];
        out[(row / count * len + place(index, len)) * inner + at % inner] += added[at];
    }
    out
}

pub fn masked(p: &Mask, inputs: &[Vec<f64>]) -> Vec<f64> {
    let dims = sizes(p.dims());
    let of = |operand: usize, at: usize| {
        let mut place = 0;
        for (axis, digit) in digits(at, &dims).into_iter().enumerate() {
            if p.varies(operand, axis) {
                place = place * dims[axis] + digit;
            }
        }
        place
    };
    let each = if p.op == MaskOp::Where { parts(p.dtype) } else { 1 };
    taken(dims.iter().product(), |at| {
        let two = || (inputs[0][of(0, at)], inputs[1][of(1, at)]);
        let truth = match p.op {
            MaskOp::Where => {
                let operand = if inputs[0][of(0, at)] != 0.0 { 1 } else { 2 };
                return element(&inputs[operand], each, of(operand, at));
            }
            MaskOp::Eq => two().0 == two().1,
            MaskOp::Ne => two().0 != two().1,
            MaskOp::Lt => two().0 < two().1,
            MaskOp::Le => two().0 <= two().1,
            MaskOp::Gt => two().0 > two().1,
            MaskOp::Ge => two().0 >= two().1,
        };
        if truth { &[1.0] } else { &[0.0] }
    })
}

pub fn side_by_side(p: &Concat, inputs: &[Vec<f64>]) -> Vec<f64> {
    let each = parts(p.dtype);
    let mut out = Vec::new();
    for row in 0..p.outer() as usize {
        for (input, part) in inputs.iter().zip(p.parts()) {
            let part = *part as usize * each;
            out.extend_from_slice(&input[row * part..(row + 1) * part]);
        }
    }
    out
}

pub fn put(p: &Put, base: &[f64], block: &[f64]) -> Vec<f64> {
    let wide = |sizes: &[u32]| sizes.iter().map(|size| *size as usize).collect::<Vec<usize>>();
    let (dims, first, size) = (wide(p.dims()), wide(p.first()), wide(p.size()));
    let each = parts(p.dtype);
    taken(dims.iter().product(), |at| {
        let mut inside = Some(0);
        for (axis, digit) in digits(at, &dims).into_iter().enumerate() {
            let within = digit.checked_sub(first[axis]).filter(|within| *within < size[axis]);
            inside = inside.zip(within).map(|(place, within)| place * size[axis] + within);
        }
        match inside {
            Some(place) => element(block, each, place),
            None => element(base, each, if p.fill { 0 } else { at }),
        }
    })
}
