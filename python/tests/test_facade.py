"""Every operation of the Rust facade is here, by its name or a word of NumPy's, and every one agrees with NumPy at random shapes and strides."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimtab as tt
from support import close, made, strided

ROOT = Path(__file__).parents[2]
# What the facade has under another name here, and what says it.
OTHERWISE = {
    "select": "where",
    "permute": "transpose",
    "sort_descending": "sort",
    "matmul_bytes": "matmul",
    "matmul_into": "matmul",
    "fftn": "fft",
    "ifftn": "ifft",
    "rfftn": "rfft",
    "irfftn": "irfft",
    "conv_ending": "conv",
    "cast_any": "cast",
}
# What takes the operation as a value, each of which has a function of its own here; and `contiguous`, which arrays of NumPy's have.
BY_VALUE = {"unary", "binary", "reduce", "mask", "pool", "contiguous"}
NO_OPERATIONS = {
    "Chosen", "Expression", "Runtime", "Study", "Told", "Trial", "Tuned", "__version__", "choose", "constrained", "devices", "explain",
    "lazy", "report", "run_kernel", "tune", "tune_kernel", "tune_problem",
}  # fmt: skip
OPERATIONS = sorted(set(tt.__all__) - NO_OPERATIONS)

Array = np.ndarray[Any, Any]
Case = tuple[Callable[[], Any], Callable[[], Any], float]


def of_the_facade() -> set[str]:
    """What the runtime has as methods in Rust: written out, or lines of the macros that write them."""
    found: set[str] = set()
    for file in sorted((ROOT / "crates/trimtab/src/ops").glob("*.rs")):
        text = re.sub(r"(?m)^\s*//.*$", "", file.read_text())
        found |= set(re.findall(r"(?m)^    pub fn ([a-z]\w*)\s*[<(][^{;]*?&self", text))
        found |= set(re.findall(r"(?m)^\s{4,8}([a-z]\w*) = [A-Z]\w*;$", text))
    return found


def test_every_operation_of_the_facade_is_here_and_nothing_else() -> None:
    facade = of_the_facade()
    assert len(facade) > 60 and {"matmul", "relu", "add", "lt", "sum", "irfft", "top_k"} <= facade, sorted(facade)
    gone = (set(OTHERWISE) | BY_VALUE) - facade
    assert not gone, f"the facade has no {gone} any more"
    named = {OTHERWISE.get(name, name) for name in facade - BY_VALUE}
    assert named == set(OPERATIONS), (named - set(OPERATIONS), set(OPERATIONS) - named)


def test_expressions_have_every_operation() -> None:
    # By the words of Rust's expressions where two functions are one method.
    same = {
        "where": "select", "max_pool": "pool", "mean_pool": "pool", "cumsum": "scan", "concat": "concat", "embedding": "take",
        "matmul": "__matmul__", "add": "__add__", "sub": "__sub__", "mul": "__mul__", "div": "__truediv__", "neg": "__neg__",
        "transpose": "permute",
    }  # fmt: skip
    missing = [name for name in OPERATIONS if not hasattr(tt.Expression, same.get(name, name)) and not hasattr(tt.Expression, name)]
    assert not missing, missing


def floats(rng: np.random.Generator, *shape: int) -> Array:
    return strided(rng, made(rng, str(rng.choice(["float32", "float64"])), shape))


def axes_of(rng: np.random.Generator, least: int = 1) -> tuple[int, ...]:
    return tuple(int(size) for size in rng.integers(2, 6, rng.integers(least, 4)))


def one(right: Callable[[Array], Any], scale: float = 10.0) -> Callable[[np.random.Generator, str], Case]:
    """An operation of one array, element by element."""

    def case(rng: np.random.Generator, name: str) -> Case:
        x = floats(rng, *axes_of(rng))
        if name in ("sqrt", "log"):
            x = (np.abs(x) + 0.25).astype(x.dtype)
        return lambda: getattr(tt, name)(x), lambda: np.asarray(right(x), x.dtype), scale

    return case


def two(right: Callable[[Array, Array], Any], scale: float = 10.0) -> Callable[[np.random.Generator, str], Case]:
    """An operation of two arrays that are repeated to one shape, or of an array and a number."""

    def case(rng: np.random.Generator, name: str) -> Case:
        shape = axes_of(rng)
        x = floats(rng, *shape)
        y: Any = strided(rng, made(rng, x.dtype.name, shape[int(rng.integers(0, len(shape))) :]))
        if name == "pow":
            x, y = (np.abs(x) + 0.25).astype(x.dtype), y
        elif name == "div":
            y = np.where(np.abs(y) < 0.25, np.asarray(1, y.dtype), y)
        if rng.random() < 0.2:
            y = x.dtype.type(1.5)
        return lambda: getattr(tt, name)(x, y), lambda: right(x, np.asarray(y)), scale

    return case


def reduced(right: Callable[..., Any]) -> Callable[[np.random.Generator, str], Case]:
    def case(rng: np.random.Generator, name: str) -> Case:
        x = floats(rng, *axes_of(rng))
        axis, keep = int(rng.integers(-x.ndim, x.ndim)), bool(rng.random() < 0.5)
        theirs = lambda: np.asarray(right(x.astype(np.float64), axis=axis, keepdims=keep)).astype(x.dtype)  # noqa: E731
        return lambda: getattr(tt, name)(x, axis, keepdims=keep), theirs, 40.0

    return case


def along(right: Callable[[Array, int], Any], scale: float = 40.0) -> Callable[[np.random.Generator, str], Case]:
    """An operation along an axis, in double precision on NumPy's side."""

    def case(rng: np.random.Generator, name: str) -> Case:
        x = floats(rng, *axes_of(rng))
        axis = int(rng.integers(-x.ndim, x.ndim))

        def theirs() -> Any:
            found = np.asarray(right(x.astype(np.float64), axis))
            return found if found.dtype == np.int64 else found.astype(x.dtype)

        return lambda: getattr(tt, name)(x, axis=axis), theirs, scale

    return case


def softmax(x: Array, axis: int) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def spectrum(right: Callable[..., Any], is_complex: bool) -> Callable[[np.random.Generator, str], Case]:
    def case(rng: np.random.Generator, name: str) -> Case:
        shape, single = axes_of(rng), bool(rng.random() < 0.5)
        count = int(rng.integers(1, len(shape) + 1))
        kind = ("complex64" if single else "complex128") if is_complex else ("float32" if single else "float64")
        x, last = strided(rng, made(rng, kind, shape)), tuple(range(-count, 0))
        result = "complex64" if single else "complex128"
        return lambda: getattr(tt, name)(x, count), lambda: right(x, axes=last).astype(result), 60.0

    return case


def inverse_real(rng: np.random.Generator, _name: str) -> Case:
    shape = axes_of(rng)
    count = int(rng.integers(1, len(shape) + 1))
    last = tuple(range(-count, 0))
    z = strided(rng, np.fft.rfftn(made(rng, "float64", shape), axes=last))
    return lambda: tt.irfft(z, shape[-1], count), lambda: np.fft.irfftn(z, shape[-count:], axes=last), 60.0


def product(rng: np.random.Generator, _name: str) -> Case:
    if rng.random() < 0.3:
        a, b = (strided(rng, made(rng, "int8", shape)) for shape in ((3, 7), (7, 5)))
        return lambda: tt.matmul(a, b), lambda: a.astype(np.int32) @ b.astype(np.int32), 1.0
    x = floats(rng, 4, 6)
    w = strided(rng, made(rng, x.dtype.name, (6, 5)))
    if rng.random() < 0.3:
        out = np.zeros((4, 5), x.dtype)
        return lambda: tt.matmul(x, w, out=out), lambda: x @ w, 40.0
    return lambda: tt.matmul(x, w), lambda: x @ w, 40.0


def normed(rng: np.random.Generator, name: str) -> Case:
    x = floats(rng, *axes_of(rng))
    axis, wide = int(rng.integers(-x.ndim, x.ndim)), x.astype(np.float64)
    scale, shift = (made(rng, x.dtype.name, (x.shape[axis],)) for _ in range(2))
    lies = [1] * x.ndim
    lies[axis] = -1
    a, b = scale.reshape(lies), shift.reshape(lies)
    if name == "rms_norm":
        right = wide / np.sqrt((wide**2).mean(axis, keepdims=True) + 1e-2) * a
        return lambda: tt.rms_norm(x, scale, axis=axis, epsilon=1e-2), lambda: right.astype(x.dtype), 100.0
    right = (wide - wide.mean(axis, keepdims=True)) / np.sqrt(wide.var(axis, keepdims=True) + 1e-2) * a + b
    return lambda: tt.layer_norm(x, scale, shift, axis=axis, epsilon=1e-2), lambda: right.astype(x.dtype), 100.0


def attention(rng: np.random.Generator, _name: str) -> Case:
    q = floats(rng, 2, 3, 4)
    k, v = (strided(rng, made(rng, q.dtype.name, shape)) for shape in ((2, 5, 4), (2, 5, 6)))
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) / 2.0
    causal = bool(rng.random() < 0.5)
    if causal:
        # The last query sees all keys.
        scores = np.where(np.arange(5) <= np.arange(3)[:, None] + 2, scores, -np.inf)
    return lambda: tt.attention(q, k, v, causal=causal), lambda: (softmax(scores, -1) @ v).astype(q.dtype), 40.0


def windows_of(x: Array, window: int, stride: int) -> Array:
    view = np.lib.stride_tricks.sliding_window_view(x, (window, window), axis=(2, 3))
    return np.asarray(view[:, :, ::stride, ::stride])


def convolution(rng: np.random.Generator, _name: str) -> Case:
    x, stride, pad = floats(rng, 2, 3, 7, 8), int(rng.integers(1, 3)), int(rng.integers(0, 2))
    weights = strided(rng, made(rng, x.dtype.name, (4, 3, 3, 3)))
    wide = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    right = np.einsum("nchwrs,kcrs->nkhw", windows_of(wide, 3, stride), weights.astype(np.float64))
    return lambda: tt.conv(x, weights, stride=stride, pad=pad), lambda: right.astype(x.dtype), 200.0


def pooled(right: Callable[..., Any]) -> Callable[[np.random.Generator, str], Case]:
    def case(rng: np.random.Generator, name: str) -> Case:
        x, stride = floats(rng, 2, 3, 7, 8), int(rng.integers(1, 4))
        theirs = lambda: np.asarray(right(windows_of(x, 3, stride), axis=(-2, -1))).astype(x.dtype)  # noqa: E731
        return lambda: getattr(tt, name)(x, (3, 3), stride=stride), theirs, 10.0

    return case


def moved(rng: np.random.Generator, name: str) -> Case:
    x = floats(rng, *axes_of(rng, 2))
    axis = int(rng.integers(-x.ndim, x.ndim))
    size = x.shape[axis]
    some = rng.integers(-size, size, 4)
    other = strided(rng, made(rng, x.dtype.name, x.shape))
    places = rng.integers(-size, size, x.shape)
    order = [int(at) for at in rng.permutation(x.ndim)]
    by = [(int(before), int(behind)) for before, behind in rng.integers(0, 3, (x.ndim, 2))]
    mask = strided(rng, made(rng, "bool", x.shape[1:]))
    rows = rng.integers(-x.shape[0], x.shape[0], 3)
    added = np.take(other, range(2), axis)
    two_places = rng.integers(-size, size, 2)
    first = [int(rng.integers(0, size - 1)) for size in x.shape]
    block = made(rng, x.dtype.name, (2,) * x.ndim)
    inside = tuple(slice(at, at + 2) for at in first)

    def with_rows() -> Array:
        result = x.astype(np.float64)
        np.add.at(np.moveaxis(result, axis, 0), two_places, np.moveaxis(added, axis, 0).astype(np.float64))
        return result.astype(x.dtype)

    def with_elements() -> Array:
        result, indices = x.astype(np.float64), list(np.indices(x.shape))
        indices[axis] = places
        np.add.at(result, tuple(indices), other.astype(np.float64))
        return result.astype(x.dtype)

    def with_block() -> Array:
        result = x.copy()
        result[inside] = block
        return result

    count = int(rng.integers(1, size + 1))
    to = str(rng.choice(["float16", "float64", "int32", "bool", "complex64"]))
    calls: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "cast": (lambda: tt.cast(x, to), lambda: x.astype(to)),
        "clip": (lambda: tt.clip(x, -1.0, 0.5), lambda: np.clip(x, x.dtype.type(-1), x.dtype.type(0.5))),
        "concat": (lambda: tt.concat([x, other, x], axis), lambda: np.concatenate([x, other, x], axis)),
        "embedding": (lambda: tt.embedding(x, rows), lambda: x[rows]),
        "pad": (lambda: tt.pad(x, by, 2.0), lambda: np.pad(x, by, constant_values=2)),
        "scatter_add": (lambda: tt.scatter_add(x, two_places, added, axis), with_rows),
        "scatter_add_along": (lambda: tt.scatter_add_along(x, places, other, axis), with_elements),
        "slice_assign": (lambda: tt.slice_assign(x, first, block), with_block),
        "take": (lambda: tt.take(x, some, axis), lambda: np.take(x, some, axis)),
        "take_along": (lambda: tt.take_along(x, places, axis), lambda: np.take_along_axis(x, places, axis)),
        "top_k": (
            lambda: tt.top_k(x, count, axis),
            lambda: np.take(np.argsort(-x, axis, kind="stable"), range(count), axis),
        ),
        "transpose": (lambda: tt.transpose(x, order), lambda: np.transpose(x, order)),
        "where": (lambda: tt.where(mask, x, other), lambda: np.where(mask, x, other)),
        "scan": (lambda: tt.scan("max", x, axis), lambda: np.maximum.accumulate(x, axis)),
    }
    return *calls[name], 20.0


CASES: dict[str, Callable[[np.random.Generator, str], Case]] = {
    "abs": one(np.abs), "neg": one(np.negative), "relu": one(lambda x: np.maximum(x, 0)), "exp": one(np.exp), "log": one(np.log),
    "sqrt": one(np.sqrt), "tanh": one(np.tanh), "sigmoid": one(lambda x: 1 / (1 + np.exp(-x))),
    "gelu": one(lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x.astype(np.float64) ** 3)))),
    "add": two(np.add), "sub": two(np.subtract), "mul": two(np.multiply), "div": two(np.divide, 100), "pow": two(np.power, 200),
    "minimum": two(np.minimum), "maximum": two(np.maximum), "eq": two(np.equal), "ne": two(np.not_equal), "lt": two(np.less),
    "le": two(np.less_equal), "gt": two(np.greater), "ge": two(np.greater_equal),
    "sum": reduced(np.sum), "mean": reduced(np.mean), "min": reduced(np.min), "max": reduced(np.max), "prod": reduced(np.prod),
    "softmax": along(softmax), "log_softmax": along(lambda x, axis: np.log(softmax(x, axis))),
    "logsumexp": along(lambda x, axis: np.log(np.exp(x).sum(axis))), "variance": along(lambda x, axis: x.var(axis)),
    "cumsum": along(np.cumsum), "sort": along(np.sort), "argmin": along(np.argmin), "argmax": along(np.argmax),
    "argsort": along(lambda x, axis: np.argsort(x, axis, kind="stable")),
    "layer_norm": normed, "rms_norm": normed, "attention": attention, "matmul": product, "conv": convolution,
    "max_pool": pooled(np.max), "mean_pool": pooled(np.mean), "fft": spectrum(np.fft.fftn, True), "ifft": spectrum(np.fft.ifftn, True),
    "rfft": spectrum(np.fft.rfftn, False), "irfft": inverse_real,
    **dict.fromkeys(
        ["cast", "clip", "concat", "embedding", "pad", "scatter_add", "scatter_add_along", "slice_assign", "take", "take_along", "top_k",
         "transpose", "where", "scan"], moved),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_random_calls_of_every_operation_agree_with_numpy(name: str) -> None:
    seed = int(os.environ.get("TRIMTAB_SEED", "6"))
    rng = np.random.default_rng([seed, OPERATIONS.index(name)])
    for _ in range(30):
        ours, theirs, scale = CASES[name](rng, name)
        with np.errstate(all="ignore"):
            right = theirs()
        close(ours(), right, scale)


def test_every_operation_has_random_calls() -> None:
    assert set(CASES) == set(OPERATIONS)
