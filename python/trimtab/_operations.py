"""Operations on arrays that are computed by way of an expression. Products, elementwise operations and reductions are in ``_native``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import numpy as np

from ._interop import as_given
from ._interop import take as take_array
from ._native import Expression

_Sizes = Union[int, Sequence[int]]


def _done(made: Expression, out: Any, *like: Any) -> Any:
    return as_given(like, out, made._finish(out))


def _sizes(sizes: _Sizes) -> list[int]:
    return [sizes] if isinstance(sizes, int) else list(sizes)


def _flat(x: Any) -> Any:
    return np.reshape(x.numpy() if isinstance(x, Expression) else take_array(x), -1)


def _along(x: Any, axis: int | None) -> tuple[Any, int]:
    """What an operation along an axis runs over: without an axis everything, as also of a number, which has a first and a last in NumPy."""
    if axis is None or (axis in (0, -1) and getattr(x, "ndim", None) == 0):
        return _flat(x), 0
    return x, axis


def lazy(x: Any) -> Expression:
    """Begins an expression: operations are written down first and computed as a whole, fused, each on the device that fits.

    >>> import numpy as np, trimtab as tt
    >>> x, w = np.ones((2, 3), np.float32), np.full((3, 2), 0.5, np.float32)
    >>> y = (tt.lazy(x) @ w - 1).relu()
    >>> y
    Expression<f32>[2, 2] (not computed)
    >>> y.numpy()
    array([[0.5, 0.5],
           [0.5, 0.5]], dtype=float32)

    The array is not copied. What you write to it before the value is read counts.
    """
    return Expression(x)


def transpose(x: Any, /, axes: Sequence[int] | None = None, *, out: Any = None) -> Any:
    """A copy with the axes in another order, reversed if none is said.

    >>> import numpy as np, trimtab as tt
    >>> tt.transpose(np.array([[1, 2, 3], [4, 5, 6]])).tolist()
    [[1, 4], [2, 5], [3, 6]]
    """
    return _done(Expression(x).transpose(*(axes or ())), out, x)


def _compare(op: str, a: Any, b: Any, out: Any) -> Any:
    if isinstance(a, (bool, int, float)) and not isinstance(b, (bool, int, float)):
        turned = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
        return _done(Expression(b).mask(turned.get(op, op), a), out, b)
    return _done(Expression(a).mask(op, b), out, a, b)


def eq(a: Any, b: Any, /, *, out: Any = None) -> Any:
    """Whether ``a == b``, element by element. What is not a number is equal to nothing.

    >>> import numpy as np, trimtab as tt
    >>> tt.eq(np.array([1.0, np.nan]), np.array([1.0, np.nan])).tolist()
    [True, False]
    """
    return _compare("eq", a, b, out)


def ne(a: Any, b: Any, /, *, out: Any = None) -> Any:
    """Whether ``a != b``, element by element.

    >>> import numpy as np, trimtab as tt
    >>> tt.ne(np.array([1, 2]), 2).tolist()
    [True, False]
    """
    return _compare("ne", a, b, out)


def lt(a: Any, b: Any, /, *, out: Any = None) -> Any:
    """Whether ``a < b``, element by element.

    >>> import numpy as np, trimtab as tt
    >>> tt.lt(np.array([-1.0, np.nan, 2.0]), 0).tolist()
    [True, False, False]
    """
    return _compare("lt", a, b, out)


def le(a: Any, b: Any, /, *, out: Any = None) -> Any:
    """Whether ``a <= b``, element by element.

    >>> import numpy as np, trimtab as tt
    >>> tt.le(np.array([1, 2, 3]), 2).tolist()
    [True, True, False]
    """
    return _compare("le", a, b, out)


def gt(a: Any, b: Any, /, *, out: Any = None) -> Any:
    """Whether ``a > b``, element by element.

    >>> import numpy as np, trimtab as tt
    >>> tt.gt(np.array([1, 2, 3]), 2).tolist()
    [False, False, True]
    """
    return _compare("gt", a, b, out)


def ge(a: Any, b: Any, /, *, out: Any = None) -> Any:
    """Whether ``a >= b``, element by element.

    >>> import numpy as np, trimtab as tt
    >>> tt.ge(np.array([1, 2, 3]), 2).tolist()
    [False, True, True]
    """
    return _compare("ge", a, b, out)


def where(mask: Any, yes: Any, no: Any, /, *, out: Any = None) -> Any:
    """The element of ``yes`` where the mask is true, of ``no`` elsewhere.

    >>> import numpy as np, trimtab as tt
    >>> tt.where(np.array([True, False]), np.array([1.0, 2.0]), 0.0).tolist()
    [1.0, 0.0]
    """
    return _done(Expression(mask).select(yes, no), out, mask, yes, no)


def clip(x: Any, low: Any, high: Any, /, *, out: Any = None) -> Any:
    """``min(max(x, low), high)``; a NaN stays.

    >>> import numpy as np, trimtab as tt
    >>> tt.clip(np.array([-3, 0, 9]), -1, 5).tolist()
    [-1, 0, 5]
    """
    return _done(Expression(x).clip(low, high), out, x)


def concat(arrays: Sequence[Any], /, axis: int = 0, *, out: Any = None) -> Any:
    """Arrays side by side along an axis.

    >>> import numpy as np, trimtab as tt
    >>> tt.concat([np.array([1, 2]), np.array([3])]).tolist()
    [1, 2, 3]
    """
    if not arrays:
        raise ValueError("there is nothing to put side by side")
    first, *others = arrays
    return _done(Expression(first).concat(others, axis), out, *arrays)


def pad(x: Any, by: Sequence[tuple[int, int]], number: Any = 0, /, *, out: Any = None) -> Any:
    """An array with a number around it: so many elements before and behind along each axis.

    >>> import numpy as np, trimtab as tt
    >>> tt.pad(np.array([1, 2]), [(1, 2)], 7).tolist()
    [7, 1, 2, 7, 7]
    """
    return _done(Expression(x).pad([(before, behind) for before, behind in by], number), out, x)


def slice_assign(x: Any, first: Sequence[int], block: Any, /, *, out: Any = None) -> Any:
    """A copy with a block in the place of what begins at an index.

    >>> import numpy as np, trimtab as tt
    >>> tt.slice_assign(np.zeros(4, np.int32), [1], np.array([7, 8], np.int32)).tolist()
    [0, 7, 8, 0]
    """
    return _done(Expression(x).slice_assign(list(first), block), out, x)


def take(x: Any, indices: Any, /, axis: int = 0, *, out: Any = None) -> Any:
    """The elements along an axis that indices name; negative ones count from the end, one that is not there is an ``IndexError``.

    >>> import numpy as np, trimtab as tt
    >>> tt.take(np.array([10, 20, 30]), np.array([2, -3])).tolist()
    [30, 10]
    """
    of, axis = _along(x, axis)
    shape = tuple(getattr(of, "shape", ()))
    if 0 in shape and -len(shape) <= axis < len(shape) and not isinstance(indices, Expression):
        # Nothing is moved, so no kernel looks at indices.
        given, count = np.asarray(take_array(indices)), int(shape[axis])
        wrong = given[(given < -count) | (given >= count)]
        if wrong.size:
            raise IndexError(f"index {wrong.flat[0]} is none of an axis of {count}")
    return _done(Expression(of).take(indices, axis), out, x)


def take_along(x: Any, indices: Any, /, axis: int = -1, *, out: Any = None) -> Any:
    """The elements along an axis, each by an index of its own: what `argsort` and `top_k` name.

    >>> import numpy as np, trimtab as tt
    >>> x = np.array([[3.0, 1.0], [2.0, 8.0]])
    >>> tt.take_along(x, tt.argsort(x)).tolist()
    [[1.0, 3.0], [2.0, 8.0]]
    """
    return _done(Expression(x).take_along(indices, axis), out, x)


def embedding(table: Any, indices: Any, /, *, out: Any = None) -> Any:
    """The rows of a table that indices name.

    >>> import numpy as np, trimtab as tt
    >>> tt.embedding(np.eye(3), np.array([2, 0])).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    return take(table, indices, 0, out=out)


def scatter_add(x: Any, indices: Any, added: Any, /, axis: int = 0, *, out: Any = None) -> Any:
    """A copy with rows added along an axis, each where a list of indices says.

    >>> import numpy as np, trimtab as tt
    >>> tt.scatter_add(np.zeros(3, np.int32), np.array([0, 2, 2]), np.ones(3, np.int32)).tolist()
    [1, 0, 2]
    """
    return _done(Expression(x).scatter_add(indices, added, axis), out, x)


def scatter_add_along(x: Any, indices: Any, added: Any, /, axis: int = -1, *, out: Any = None) -> Any:
    """A copy with elements added along an axis, each where an index of its own says.

    >>> import numpy as np, trimtab as tt
    >>> tt.scatter_add_along(np.zeros((2, 2)), np.array([[0], [1]]), np.ones((2, 1))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _done(Expression(x).scatter_add_along(indices, added, axis), out, x)


def softmax(x: Any, /, axis: int = -1, *, out: Any = None) -> Any:
    """``exp(x) / sum(exp(x))`` along an axis, without overflow.

    >>> import numpy as np, trimtab as tt
    >>> tt.softmax(np.array([1000.0, 1000.0])).tolist()
    [0.5, 0.5]
    """
    return _done(Expression(x).softmax(axis), out, x)


def log_softmax(x: Any, /, axis: int = -1, *, out: Any = None) -> Any:
    """The logarithm of the softmax, along an axis.

    >>> import numpy as np, trimtab as tt
    >>> tt.log_softmax(np.array([1000.0, -1000.0])).tolist()
    [0.0, -2000.0]
    """
    return _done(Expression(x).log_softmax(axis), out, x)


def logsumexp(x: Any, /, axis: int = -1, *, out: Any = None) -> Any:
    """``log(sum(exp(x)))`` along an axis, without overflow; the result does not have the axis.

    >>> import numpy as np, trimtab as tt
    >>> tt.logsumexp(np.array([[1000.0, -1000.0]])).tolist()
    [1000.0]
    """
    return _done(Expression(x).logsumexp(axis), out, x)


def variance(x: Any, /, axis: int = -1, *, out: Any = None) -> Any:
    """The mean of squared distances from the mean along an axis, which the result does not have.

    >>> import numpy as np, trimtab as tt
    >>> tt.variance(np.array([[1.0, 3.0], [5.0, 5.0]])).tolist()
    [1.0, 0.0]
    """
    return _done(Expression(x).variance(axis), out, x)


def layer_norm(
    x: Any, /, scale: Any = None, shift: Any = None, *, axis: int = -1, epsilon: float = 1e-5, out: Any = None
) -> Any:
    """``(x - mean) / sqrt(variance + epsilon)`` along an axis, times a scale and plus a shift for each element along it.

    >>> import numpy as np, trimtab as tt
    >>> tt.layer_norm(np.array([1.0, 3.0]), epsilon=0.0).tolist()
    [-1.0, 1.0]
    """
    return _done(Expression(x).layer_norm(axis, scale, shift, epsilon), out, x)


def rms_norm(x: Any, /, scale: Any = None, *, axis: int = -1, epsilon: float = 1e-5, out: Any = None) -> Any:
    """``x / sqrt(mean(x * x) + epsilon)`` along an axis, times a scale.

    >>> import numpy as np, trimtab as tt
    >>> tt.rms_norm(np.array([2.0, -2.0]), epsilon=0.0).tolist()
    [1.0, -1.0]
    """
    return _done(Expression(x).rms_norm(axis, scale, epsilon), out, x)


def attention(queries: Any, keys: Any, values: Any, /, *, causal: bool = False, out: Any = None) -> Any:
    """``softmax(q @ k.T / sqrt(depth)) @ v`` of each head; axes before the last two count heads.

    >>> import numpy as np, trimtab as tt
    >>> tt.attention(np.zeros((1, 1, 4)), np.ones((1, 2, 4)), np.array([[[1.0], [3.0]]])).tolist()
    [[[2.0]]]
    """
    return _done(Expression(queries).attention(keys, values, causal), out, queries)


def scan(op: str, x: Any, /, axis: int = -1, *, exclusive: bool = False, out: Any = None) -> Any:
    """Every element with those before it along an axis: ``sum``, ``prod``, ``max`` or ``min``.

    >>> import numpy as np, trimtab as tt
    >>> tt.scan("max", np.array([1.0, 3.0, 2.0])).tolist()
    [1.0, 3.0, 3.0]
    """
    return _done(Expression(x).scan(op, axis, exclusive), out, x)


def cumsum(x: Any, /, axis: int | None = None, *, out: Any = None) -> Any:
    """Every element with those before it, added up; without an axis of the flattened array. Of floats and int32, which wraps.

    >>> import numpy as np, trimtab as tt
    >>> tt.cumsum(np.array([1.0, 2.0, 3.0, 4.0])).tolist()
    [1.0, 3.0, 6.0, 10.0]
    """
    of, axis = _along(x, axis)
    return _done(Expression(of).scan("sum", axis), out, x)


def sort(x: Any, /, axis: int = -1, *, descending: bool = False, out: Any = None) -> Any:
    """The elements along an axis in order; what is not a number comes last.

    >>> import numpy as np, trimtab as tt
    >>> tt.sort(np.array([3.0, -1.0, 2.0])).tolist()
    [-1.0, 2.0, 3.0]
    """
    return _done(Expression(x).sort(axis, descending), out, x)


def argsort(x: Any, /, axis: int = -1, *, descending: bool = False, out: Any = None) -> Any:
    """The indices that put the elements along an axis in order, equal ones as they are.

    >>> import numpy as np, trimtab as tt
    >>> tt.argsort(np.array([3.0, -1.0, 2.0])).tolist()
    [1, 2, 0]
    """
    of, axis = _along(x, axis)
    return _done(Expression(of).argsort(axis, descending), out, x)


def argmin(x: Any, /, axis: int | None = None, *, out: Any = None) -> Any:
    """The index of the smallest element, the first of equal ones; without an axis of the flattened array.

    >>> import numpy as np, trimtab as tt
    >>> int(tt.argmin(np.array([3.0, 1.0, 1.0])))
    1
    """
    of, axis = _along(x, axis)
    return _done(Expression(of).argmin(axis), out, x)


def argmax(x: Any, /, axis: int | None = None, *, out: Any = None) -> Any:
    """The index of the largest element, the first of equal ones; without an axis of the flattened array.

    >>> import numpy as np, trimtab as tt
    >>> int(tt.argmax(np.array([3.0, 9.0, 4.0])))
    1
    """
    of, axis = _along(x, axis)
    return _done(Expression(of).argmax(axis), out, x)


def top_k(x: Any, count: int, /, axis: int = -1, *, out: Any = None) -> Any:
    """The indices of so many of the largest elements along an axis, the largest first.

    >>> import numpy as np, trimtab as tt
    >>> tt.top_k(np.array([3.0, 9.0, 4.0]), 2).tolist()
    [1, 2]
    """
    return _done(Expression(x).top_k(count, axis), out, x)


def cast(x: Any, dtype: Any, /, *, out: Any = None) -> Any:
    """Every element as the nearest of another type; whole numbers end where the type does.

    >>> import numpy as np, trimtab as tt
    >>> tt.cast(np.array([1.9, -0.5, 300.0]), np.uint8).tolist()
    [1, 0, 255]
    """
    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    return _done(Expression(x).cast(name), out, x)


def fft(x: Any, /, axes: int = 1, *, out: Any = None) -> Any:
    """The spectrum of complex numbers along the last one to three axes, with NumPy's signs and scales.

    >>> import numpy as np, trimtab as tt
    >>> tt.fft(np.array([1 + 0j, 0, 0, 0])).tolist()
    [(1+0j), (1+0j), (1+0j), (1+0j)]
    """
    return _done(Expression(x).fft(axes), out, x)


def ifft(x: Any, /, axes: int = 1, *, out: Any = None) -> Any:
    """What has that spectrum along the last one to three axes.

    >>> import numpy as np, trimtab as tt
    >>> np.allclose(tt.ifft(np.fft.fft([1j, 2, 3])), [1j, 2, 3])
    True
    """
    return _done(Expression(x).ifft(axes), out, x)


def rfft(x: Any, /, axes: int = 1, *, out: Any = None) -> Any:
    """The first half of the spectrum of real numbers along the last one to three axes.

    >>> import numpy as np, trimtab as tt
    >>> tt.rfft(np.array([1.0, 2.0, 3.0]))[0]
    np.complex128(6+0j)
    """
    return _done(Expression(x).rfft(axes), out, x)


def irfft(x: Any, n: int, /, axes: int = 1, *, out: Any = None) -> Any:
    """The ``n`` real numbers that have that spectrum along the last axis.

    >>> import numpy as np, trimtab as tt
    >>> np.allclose(tt.irfft(np.fft.rfft([1.0, 2.0, 3.0]), 3), [1.0, 2.0, 3.0])
    True
    """
    return _done(Expression(x).irfft(axes, n), out, x)


def conv(
    x: Any,
    weights: Any,
    /,
    *,
    stride: _Sizes = (),
    pad: _Sizes = (),
    dilation: _Sizes = (),
    groups: int = 1,
    channels_last: bool = False,
    bias: Any = None,
    act: str | None = None,
    out: Any = None,
) -> Any:
    """The convolution with weights in one to three dimensions of space, as networks have it: ``N C H W`` and ``K C R S``, or with
    ``channels_last`` ``N H W C`` and ``K R S C``. ``act`` is relu, tanh, sigmoid or gelu.

    >>> import numpy as np, trimtab as tt
    >>> tt.conv(np.ones((1, 1, 4, 4), np.float32), np.ones((1, 1, 3, 3), np.float32), pad=1).shape
    (1, 1, 4, 4)
    """
    made = Expression(x).conv(
        weights, _sizes(stride), _sizes(pad), _sizes(dilation), groups, channels_last, bias, act
    )
    return _done(made, out, x)


def _pool(op: str, x: Any, window: Sequence[int], stride: _Sizes, pad: _Sizes, last: bool, out: Any) -> Any:
    return _done(Expression(x).pool(op, list(window), _sizes(stride), _sizes(pad), [], last), out, x)


def max_pool(
    x: Any, window: Sequence[int], /, *, stride: _Sizes = (), pad: _Sizes = (), channels_last: bool = False, out: Any = None
) -> Any:
    """Of every window the largest element; a NaN wins, padding is not looked at.

    >>> import numpy as np, trimtab as tt
    >>> tt.max_pool(np.arange(4.0).reshape(1, 1, 2, 2), (2, 2)).tolist()
    [[[[3.0]]]]
    """
    return _pool("max", x, window, stride, pad, channels_last, out)


def mean_pool(
    x: Any, window: Sequence[int], /, *, stride: _Sizes = (), pad: _Sizes = (), channels_last: bool = False, out: Any = None
) -> Any:
    """Of every window the mean of the elements that are not padding.

    >>> import numpy as np, trimtab as tt
    >>> tt.mean_pool(np.arange(4.0).reshape(1, 1, 2, 2), (2, 2)).tolist()
    [[[[1.5]]]]
    """
    return _pool("mean", x, window, stride, pad, channels_last, out)
