//! The operations every call of which counts: products, elementwise operations, reductions. Dense arrays go to the kernel as they lie,
//! and the result is an array of NumPy's making; everything else goes by way of an expression.

use crate::array::{Array, array_of, copy_into, fresh, scalar_if_bare};
use crate::current::runtime;
use crate::errors::{raised, wrong_type};
use crate::operand::{Number, axis_of, expression, give_back, is_others, pair};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use trimtab::advanced::core::{
    BinaryOp, DType, Elementwise, Lookup, Matmul, Operand, ProblemError, Reduce, ReduceOp, UnaryOp,
};
use trimtab::advanced::operands::{Lend, Slice, SliceMut};
use trimtab::{AnyExpression, MAX_TENSOR_RANK};

/// Nanoseconds up to which a launch keeps the interpreter's lock: giving it up and taking it again would be a good part of a call of 2 x 2,
/// and CPython lets whoever waits for it wait for 5 ms (`sys.getswitchinterval`) before it asks.
const SHORT_NS: u64 = 5_000;

/// Runs a problem on memory of arrays. The interpreter's lock is given up unless the launch is known to be short.
#[inline]
fn launch(
    py: Python<'_>,
    problem: &(impl Lookup + Sync),
    inputs: &[Slice<'_>],
    out: SliceMut<'_>,
) -> PyResult<()> {
    let runtime = runtime(py)?;
    let runtime = &*runtime;
    let done = match runtime.expected(problem) {
        Some(expected) if expected.0 <= SHORT_NS => runtime.execute_inputs(problem, inputs, out),
        _ => py.detach(|| runtime.execute_inputs(problem, inputs, out)),
    };
    done.map_err(raised)
}

/// Where a result goes: a new array, or the caller's.
enum Target<'a, 'py> {
    New,
    Given(&'a Bound<'py, PyAny>, Array<'a>),
}

/// Runs a problem into a new array, or into the caller's where that takes it as it lies; else nothing.
#[inline]
fn run<'py>(
    py: Python<'py>,
    problem: &(impl Lookup + Sync),
    inputs: &[Slice<'_>],
    (dtype, shape, by_columns): (DType, &[usize], bool),
    target: Target<'_, 'py>,
    operands: &[Array<'_>],
) -> PyResult<Option<Bound<'py, PyAny>>> {
    match target {
        Target::New => {
            let made = fresh(py, dtype, shape, by_columns)?;
            launch(py, problem, inputs, made.place)?;
            match shape {
                [] => scalar_if_bare(made.object).map(Some),
                _ => Ok(Some(made.object)),
            }
        }
        Target::Given(object, array) => match array.takes(dtype, shape, operands)? && !by_columns {
            true => {
                launch(py, problem, inputs, array.place())?;
                Ok(Some(object.clone()))
            }
            false => Ok(None),
        },
    }
}

/// The caller's output, which must be an array.
fn target<'a, 'py>(out: Option<&'a Bound<'py, PyAny>>) -> PyResult<Target<'a, 'py>> {
    match out {
        None => Ok(Target::New),
        Some(object) => match Array::of(object)? {
            Some(array) => Ok(Target::Given(object, array)),
            None => Err(wrong_type(format!(
                "the output is {}, and must be an array of NumPy's",
                object.get_type()
            ))),
        },
    }
}

fn sizes(shape: &[usize]) -> PyResult<([u64; MAX_TENSOR_RANK], usize)> {
    let mut sizes = [0; MAX_TENSOR_RANK];
    if shape.len() > MAX_TENSOR_RANK {
        return Err(raised(trimtab::Error::Rank { shape: shape.to_vec() }));
    }
    sizes.iter_mut().zip(shape).for_each(|(own, size)| *own = *size as u64);
    Ok((sizes, shape.len()))
}

/// Computes an expression; the result is nobody else's.
pub fn finish<'py>(
    py: Python<'py>,
    made: AnyExpression,
    out: Option<&Bound<'py, PyAny>>,
    shape: Option<&[usize]>,
) -> PyResult<Bound<'py, PyAny>> {
    if let Some(error) = made.error() {
        return Err(raised(error.clone()));
    }
    let into = target(out)?;
    if let Target::Given(_, array) = &into {
        array.takes(made.dtype(), shape.unwrap_or(made.shape()), &[])?;
    }
    let value = py.detach(|| {
        let value = made.eval()?;
        drop(made);
        let value = match shape {
            Some(shape) => value.reshaped(shape)?,
            None => value,
        };
        value.fetched()?;
        Ok(value)
    });
    let result = array_of(py, value.map_err(raised)?, true)?;
    match into {
        Target::New => scalar_if_bare(result),
        Target::Given(object, _) => {
            copy_into(object, &result)?;
            Ok(object.clone())
        }
    }
}

/// Gives a result back as the kind of the first operand that is of neither NumPy nor Python.
fn as_theirs<'py>(
    operands: &[&Bound<'py, PyAny>],
    out: Option<&Bound<'py, PyAny>>,
    result: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    if out.is_none() {
        for operand in operands {
            if is_others(operand)? {
                return give_back(operand, result);
            }
        }
    }
    Ok(result)
}

/// The matrix product over the last two axes; leading axes are batches and may be repeated, a vector is a row or a column.
///
/// >>> import numpy as np, trimtab as tt
/// >>> a = np.arange(6.0).reshape(3, 2)
/// >>> tt.matmul(a.T, a)  # a view, not a copy
/// array([[20., 26.],
///        [26., 35.]])
#[pyfunction]
#[pyo3(signature = (a, b, /, out=None))]
pub fn matmul<'py>(
    py: Python<'py>,
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    if let (Some(x), Some(y)) = (Array::of(a)?, Array::of(b)?)
        && let ([m, k], [rows, n]) = (x.shape(), y.shape())
        && k == rows
        && x.dtype == y.dtype
        && let (Some(left), Some(right)) = (transposed(&x), transposed(&y))
    {
        let operand = |transposed| Operand { transposed, shared: false };
        let problem =
            Matmul::batched(x.dtype, 1, *m as u64, *n as u64, *k as u64, operand(left), operand(right));
        let problem = problem.map_err(|error| raised(error.into()))?;
        let inputs = [x.elements(), y.elements()];
        let of = (problem.out_dtype(), &[*m, *n][..], false);
        if let Some(done) = run(py, &problem, &inputs, of, target(out)?, &[x, y])? {
            return Ok(done);
        }
    }
    let made = {
        let runtime = runtime(py)?;
        expression(&runtime, a)?.matmul(expression(&runtime, b)?)
    };
    as_theirs(&[a, b], out, finish(py, made, out, None)?)
}

/// The same product called from Rust so many times: what `matmul` is compared with by `cargo xtask python --bench`. Nothing else uses it.
#[pyfunction]
pub fn _matmul_in_rust(
    py: Python<'_>,
    a: &Bound<'_, PyAny>,
    b: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    number: u32,
) -> PyResult<()> {
    let unfit = || wrong_type("two matrices and an output are needed, dense by rows and of one type");
    let (Some(x), Some(y), Some(z)) = (Array::of(a)?, Array::of(b)?, Array::of(out)?) else {
        return Err(unfit());
    };
    let ([m, k], [rows, n]) = (x.shape(), y.shape()) else { return Err(unfit()) };
    let alike = x.dtype == y.dtype && k == rows && x.by_rows() && y.by_rows();
    let problem =
        Matmul::new(x.dtype, *m as u64, *n as u64, *k as u64).map_err(|error| raised(error.into()))?;
    if !alike || !z.takes(problem.out_dtype(), &[*m, *n], &[x, y])? {
        return Err(unfit());
    }
    let (inputs, mut place) = ([x.elements(), y.elements()], z.place());
    let runtime = runtime(py)?;
    let runtime = &*runtime;
    py.detach(|| (0..number).try_for_each(|_| runtime.execute_inputs(&problem, &inputs, place.lend())))
        .map_err(raised)
}

/// Where kernels read an operand: the address of its first element where it is lent as it lies, and whether its own memory is read. For
/// the tests that nothing is copied.
#[pyfunction]
pub fn _lies(object: &Bound<'_, PyAny>) -> PyResult<(Option<usize>, bool)> {
    match Array::of(object)? {
        Some(array) if transposed(&array).is_some() => {
            Ok((Some(array.elements().bytes().as_ptr() as usize), true))
        }
        Some(array) => Ok((None, array.is_readable() && array.tensor(object)?.is_foreign())),
        None => {
            let taken = crate::operand::take(object)?;
            if Array::of(&taken)?.is_some() { _lies(&taken) } else { Ok((None, false)) }
        }
    }
}

/// Whether a matrix lies by columns rather than by rows; nothing where it does neither.
#[inline]
fn transposed(matrix: &Array<'_>) -> Option<bool> {
    match matrix.by_rows() {
        true => Some(false),
        false => matrix.by_columns().then_some(true),
    }
}

fn unary<'py>(
    py: Python<'py>,
    op: UnaryOp,
    x: &Bound<'py, PyAny>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    if let Some(array) = Array::of(x)?
        && let Some(by_columns) = transposed(&array)
    {
        let problem = Elementwise::unary(op, array.dtype, &[array.len() as u64]);
        let problem = problem.map_err(|error| raised(error.into()))?;
        let of = (array.dtype, array.shape(), by_columns);
        if let Some(done) = run(py, &problem, &[array.elements()], of, target(out)?, &[array])? {
            return Ok(done);
        }
    }
    let made = expression(&*runtime(py)?, x)?.unary(op);
    as_theirs(&[x], out, finish(py, made, out, None)?)
}

/// The shape two shapes have together; nothing where they do not fit, which problems say better.
fn together(a: &[usize], b: &[usize]) -> Option<([usize; MAX_TENSOR_RANK], usize)> {
    let rank = a.len().max(b.len());
    let mut shape = [0; MAX_TENSOR_RANK];
    let size =
        |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |at| shape[at]);
    for (axis, own) in shape.get_mut(..rank)?.iter_mut().enumerate() {
        *own = match (size(a, axis), size(b, axis)) {
            (one, other) if one == other => one,
            (1, other) | (other, 1) => other,
            _ => return None,
        };
    }
    Some((shape, rank))
}

fn binary<'py>(
    py: Python<'py>,
    op: BinaryOp,
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    match (Array::of(a)?, Array::of(b)?) {
        (Some(x), Some(y)) if x.dtype == y.dtype => {
            if let (Some(left), Some(right)) = (transposed(&x), transposed(&y))
                // Both by rows, or both by columns and alike: then neither the order matters.
                && (!(left || right) || (x.by_columns() && y.by_columns() && x.shape() == y.shape()))
                && let Some((shape, rank)) = together(x.shape(), y.shape())
            {
                let problem = if left || right {
                    Elementwise::binary(op, x.dtype, &[x.len() as u64], &[y.len() as u64])
                } else {
                    let ((lhs, first), (rhs, second)) = (sizes(x.shape())?, sizes(y.shape())?);
                    Elementwise::binary(op, x.dtype, &lhs[..first], &rhs[..second])
                };
                let problem = problem.map_err(|error| raised(error.into()))?;
                let of = (x.dtype, &shape[..rank], left || right);
                let inputs = [x.elements(), y.elements()];
                if let Some(done) = run(py, &problem, &inputs, of, target(out)?, &[x, y])? {
                    return Ok(done);
                }
            }
        }
        (Some(x), None) => {
            if let (Some(number), Some(by_columns)) = (Number::of(b)?, transposed(&x)) {
                let data = number.data(x.dtype)?;
                let problem = Elementwise::binary(op, x.dtype, &[x.len() as u64], &[]);
                let problem = problem.map_err(|error| raised(error.into()))?;
                let of = (x.dtype, x.shape(), by_columns);
                if let Some(done) = run(py, &problem, &[x.elements(), data.slice()], of, target(out)?, &[x])?
                {
                    return Ok(done);
                }
            }
        }
        (None, Some(y)) => {
            if let (Some(number), Some(by_columns)) = (Number::of(a)?, transposed(&y)) {
                let data = number.data(y.dtype)?;
                let problem = Elementwise::binary(op, y.dtype, &[], &[y.len() as u64]);
                let problem = problem.map_err(|error| raised(error.into()))?;
                let of = (y.dtype, y.shape(), by_columns);
                if let Some(done) = run(py, &problem, &[data.slice(), y.elements()], of, target(out)?, &[y])?
                {
                    return Ok(done);
                }
            }
        }
        _ => (),
    }
    let made = {
        let (left, right) = pair(&*runtime(py)?, a, b)?;
        left.binary(op, right)
    };
    as_theirs(&[a, b], out, finish(py, made, out, None)?)
}

/// The axes a reduction runs over, as the caller gives them; nothing for all.
pub fn axes(op: ReduceOp, axis: Option<&Bound<'_, PyAny>>, shape: &[usize]) -> PyResult<Option<Vec<usize>>> {
    let Some(axis) = axis else { return Ok(None) };
    let given: Vec<isize> = match axis.cast::<PyTuple>() {
        Ok(tuple) => tuple.extract()?,
        // As in NumPy, a number has a first and a last axis, but for its mean.
        Err(_) if shape.is_empty() && op != ReduceOp::Mean && matches!(axis.extract::<isize>()?, 0 | -1) => {
            return Ok(None);
        }
        Err(_) => vec![axis.extract()?],
    };
    let mut axes = given.into_iter().map(|axis| axis_of(axis, shape)).collect::<PyResult<Vec<usize>>>()?;
    axes.sort_unstable();
    if axes.windows(2).any(|two| two[0] == two[1]) {
        return Err(crate::errors::wrong_value("an axis is there twice; name each once"));
    }
    Ok(Some(axes))
}

/// The smallest and the largest of nothing are an error also where there is no place for them, as in NumPy.
pub fn has_extremes(op: ReduceOp, shape: &[usize], over: Option<&[usize]>) -> PyResult<()> {
    let nothing = match over {
        None => shape.contains(&0),
        Some(over) => over.iter().any(|axis| shape[*axis] == 0),
    };
    if nothing && matches!(op, ReduceOp::Min | ReduceOp::Max) {
        let shape = shape.iter().map(|size| *size as u64).collect();
        return Err(raised(ProblemError::Empty { op: op.name(), shape }.into()));
    }
    Ok(())
}

fn reduce<'py>(
    py: Python<'py>,
    op: ReduceOp,
    x: &Bound<'py, PyAny>,
    axis: Option<&Bound<'py, PyAny>>,
    keepdims: bool,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let kept = |shape: &[usize], gone: Option<&[usize]>| {
        let is_gone = |at: usize| gone.is_none_or(|gone| gone.contains(&at));
        let sizes = shape.iter().enumerate();
        let sizes = sizes.filter(|(at, _)| keepdims || !is_gone(*at));
        sizes.map(|(at, size)| if is_gone(at) { 1 } else { *size }).collect::<Vec<usize>>()
    };
    if let Some(array) = Array::of(x)?
        && array.by_rows()
    {
        let over = axes(op, axis, array.shape())?;
        has_extremes(op, array.shape(), over.as_deref())?;
        let one = match over.as_deref() {
            None => Some(None),
            Some([axis]) => Some(Some(*axis)),
            Some(_) => None,
        };
        if let Some(one) = one {
            let (lens, rank) = sizes(array.shape())?;
            let problem = Reduce::new(op, array.dtype, &lens[..rank], one);
            let problem = problem.map_err(|error| raised(error.into()))?;
            let shape = kept(array.shape(), over.as_deref());
            let of = (problem.out_dtype(), &shape[..], false);
            if let Some(done) = run(py, &problem, &[array.elements()], of, target(out)?, &[array])? {
                return Ok(done);
            }
        }
    }
    let operand = expression(&*runtime(py)?, x)?;
    let over = axes(op, axis, operand.shape())?;
    has_extremes(op, operand.shape(), over.as_deref())?;
    let shape = kept(operand.shape(), over.as_deref());
    let made = match over {
        None => operand.reduce(op, trimtab::Axis::All),
        // The last first, so that those before keep their places.
        Some(over) => over.into_iter().rev().fold(operand, |made, axis| made.reduce(op, axis)),
    };
    as_theirs(&[x], out, finish(py, made, out, Some(&shape))?)
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident = $op:ident,)*) => {
        $($(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x, /, out=None))]
        pub fn $name<'py>(
            py: Python<'py>,
            x: &Bound<'py, PyAny>,
            out: Option<&Bound<'py, PyAny>>,
        ) -> PyResult<Bound<'py, PyAny>> {
            unary(py, UnaryOp::$op, x, out)
        })*
    };
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident = $op:ident,)*) => {
        $($(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (a, b, /, out=None))]
        pub fn $name<'py>(
            py: Python<'py>,
            a: &Bound<'py, PyAny>,
            b: &Bound<'py, PyAny>,
            out: Option<&Bound<'py, PyAny>>,
        ) -> PyResult<Bound<'py, PyAny>> {
            binary(py, BinaryOp::$op, a, b, out)
        })*
    };
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident = $op:ident,)*) => {
        $($(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x, /, axis=None, *, keepdims=false, out=None))]
        pub fn $name<'py>(
            py: Python<'py>,
            x: &Bound<'py, PyAny>,
            axis: Option<&Bound<'py, PyAny>>,
            keepdims: bool,
            out: Option<&Bound<'py, PyAny>>,
        ) -> PyResult<Bound<'py, PyAny>> {
            reduce(py, ReduceOp::$op, x, axis, keepdims, out)
        })*
    };
}

unary! {
    /// ``-x``; integers wrap.
    ///
    /// >>> import numpy as np, trimtab as tt
    /// >>> tt.neg(np.array([1.5, -2.0])).tolist()
    /// [-1.5, 2.0]
    neg = Neg,
    /// ``|x|``; integers wrap.
    ///
    /// >>> import numpy as np, trimtab as tt
    /// >>> tt.abs(np.array([1, -2])).tolist()
    /// [1, 2]
    abs = Abs,
    /// ``max(x, 0)``.
    ///
    /// >>> import numpy as np, trimtab as tt
    /// >>> tt.relu(np.array([-1.0, 2.0])).tolist()
    /// [0.0, 2.0]
    relu = Relu,
    /// e to the power of x.
    ///
    /// >>> import numpy as np, trimtab as tt
    /// >>> tt.exp(np.zeros(2)).tolist()
    /// [1.0, 1.0]
    exp = Exp,
    /// Natural logarithm.
    ///
    /// >>> import numpy as np, trimtab as tt
    /// >>> tt.log(np.ones(2)).tolist()
    /// [0.0, 0.0]
    log = Log,
    /// Square root.
    ///
    /// >>> import numpy as np, trimtab as tt
    /// >>> tt.sqrt(np.array([4.0, 9.0])).tolist()
    /// [2.0, 3.0]
    sqrt = Sqrt,
    /// Hyperbolic tangent.
    ///
    /// >>> import numpy as np, trimtab as tt
    /// >>> tt.tanh(np.array([0.0, 100.0])).tolist()
    /// [0.0, 1.0]
    tanh = Tanh,
    /// ``1 / (1 + exp(-x))``.
    ///
    /// >>> import numpy as np, trimtab as tt
    /// >>> tt.sigmoid(np.array([0.0, 1000.0])).tolist()
    /// [0.5, 1.0]
    sigmoid = Sigmoid,
    /// The Gaussian error linear unit, in its tanh form.
    ///
    /// >>> import numpy as np, trimtab as tt
    /// >>> tt.gelu(np.array([0.0, 100.0])).tolist()
    /// [0.0, 100.0]
    gelu = Gelu,
}

binary! {
    /// ``a + b``: arrays of one type, whose shapes are repeated as NumPy does, and numbers.
    ///
    /// >>> import numpy as np, trimtab as tt
    /// >>> tt.add(np.array([[1.0], [2.0]]), np.array([10.0, 20.0])).tolist()
    /// [[11.0, 21.0], [12.0, 22.0]]
    add = Add,
    /// ``a - b``; integers wrap.
    ///
    /// >>> import numpy as np, trimtab as tt
    /// >>> tt.sub(1.0, np.array([0.25, 0.5])).tolist()
    /// [0.75, 0.5]
    sub = Sub,
    /// ``a * b``; integers wrap.
    ///
    /// >>> import numpy as np, trimtab as tt
    /// >>> tt.mul(np.array([1, 2]), np.array([3, 4])).tolist()
    /// [3, 8]
    mul = Mul,
    /// ``a / b``; integers round toward zero, and divided by zero they are a ``ZeroDivisionError``.
    ///
    /// >>> import numpy as np, trimtab as tt
    /// >>> tt.div(np.array([7, -7]), 2).tolist()
    /// [3, -3]
    div = Div,
    /// The smaller of each pair; a NaN wins.
    ///
    /// >>> import numpy as np, trimtab as tt
    /// >>> tt.minimum(np.array([1.0, 5.0]), 2.0).tolist()
    /// [1.0, 2.0]
    minimum = Min,
    /// The larger of each pair; a NaN wins.
    ///
    /// >>> import numpy as np, trimtab as tt
    /// >>> tt.maximum(np.array([1.0, 5.0]), 2.0).tolist()
    /// [2.0, 5.0]
    maximum = Max,
    /// ``a`` to the power of ``b``.
    ///
    /// >>> import numpy as np, trimtab as tt
    /// >>> tt.pow(np.array([2.0, 3.0]), 2).tolist()
    /// [4.0, 9.0]
    pow = Pow,
}

reductions! {
    /// The sum over everything, an axis or several. Of integers: exact, or an ``OverflowError``.
    ///
    /// >>> import numpy as np, trimtab as tt
    /// >>> tt.sum(np.array([[1.0, 2.0], [3.0, 4.0]]), axis=0).tolist()
    /// [4.0, 6.0]
    sum = Sum,
    /// The arithmetic mean of floats.
    ///
    /// >>> import numpy as np, trimtab as tt
    /// >>> float(tt.mean(np.array([1.0, 2.0, 6.0])))
    /// 3.0
    mean = Mean,
    /// The smallest element; a NaN wins.
    ///
    /// >>> import numpy as np, trimtab as tt
    /// >>> tt.min(np.array([[3, 9], [4, 1]]), axis=1).tolist()
    /// [3, 1]
    min = Min,
    /// The largest element; a NaN wins.
    ///
    /// >>> import numpy as np, trimtab as tt
    /// >>> int(tt.max(np.array([3, 9, 4])))
    /// 9
    max = Max,
    /// The product. Of integers: exact, or an ``OverflowError``.
    ///
    /// >>> import numpy as np, trimtab as tt
    /// >>> int(tt.prod(np.array([2, 3, 7])))
    /// 42
    prod = Prod,
}
