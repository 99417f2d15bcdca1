"""What tests share: random arrays that lie in memory in every way, and what agrees."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

DTYPES = ["bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "float16", "float32", "float64", "complex64", "complex128"]
FLOATS = ["float16", "float32", "float64"]
# How far results may be off, as a share of the size of what was added up.
TOLERANCE = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-11, "complex64": 2e-5, "complex128": 1e-11}
# What is raised where NumPy raises, or where a documented difference says so.
RAISED = (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError)
# Documented: nothing is converted unasked, and operations are of some types only.
REFUSALS = re.compile(r"cast one of them|(is|are) not defined for|is not a number of the type|the output is \w+, the result is")


def close(found: Any, right: Any, scale: float = 1.0) -> None:
    found, right = np.asarray(found), np.asarray(right)
    assert found.shape == right.shape, (found.shape, right.shape)
    assert found.dtype == right.dtype, (found.dtype, right.dtype)
    allowed = TOLERANCE.get(found.dtype.name, 0.0) * max(scale, 1.0)
    np.testing.assert_allclose(
        found.astype(np.complex128), right.astype(np.complex128), rtol=allowed, atol=allowed, equal_nan=True
    )


def made(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0 if dtype.startswith("u") else -9, 10, shape).astype(dtype)
    real = rng.uniform(-2, 2, shape)
    return (real + 1j * rng.uniform(-2, 2, shape)).astype(dtype) if dtype.startswith("c") else real.astype(dtype)


def strided(rng: np.random.Generator, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same numbers, lying otherwise: by columns, backwards, with gaps, permuted, unaligned, repeated, or read-only."""
    way = rng.integers(0, 8)
    if x.ndim == 0 or way == 0:
        return x
    if way == 1:
        return np.asfortranarray(x)
    if way == 2:
        return np.ascontiguousarray(x[::-1])[::-1]
    if way == 3:
        wide = np.zeros((*x.shape[:-1], x.shape[-1] * 2), x.dtype)
        wide[..., ::2] = x
        return wide[..., ::2]
    if way == 4:
        axes = rng.permutation(x.ndim)
        return np.ascontiguousarray(x.transpose(axes)).transpose(np.argsort(axes))
    if way == 5:
        return np.broadcast_to(x[:1], x.shape)
    if way == 6:
        fixed = x.copy()
        fixed.flags.writeable = False
        return fixed
    raw = np.zeros(x.nbytes + 1, np.uint8)[1:]
    apart = raw.view(x.dtype).reshape(x.shape) if x.size else x
    apart[...] = x
    return apart


def broadcastable(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[int, ...]:
    cut = shape[rng.integers(0, len(shape) + 1) :]
    return tuple(1 if rng.random() < 0.25 else size for size in cut)


def shapes(rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(int(size) for size in rng.integers(0 if rng.random() < 0.1 else 1, 7, rng.integers(0, 5)))


def relu(x: Any) -> Any:
    return np.maximum(x, np.zeros((), x.dtype))


def outcome(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        with np.errstate(all="ignore"):
            return call(), None
    except RAISED as wrong:
        return None, wrong


def same_outcome(ours: Callable[[], Any], theirs: Callable[[], Any], compare: Callable[[Any, Any], None]) -> str:
    """``agreed``, ``raised`` by both, or ``refused`` by us with a reason that is documented; anything else is an error."""
    right, wrong = outcome(theirs)
    found, refused = outcome(ours)
    if wrong is not None:
        assert refused is not None, f"NumPy raises {wrong!r}, trimtab gives {found!r}"
        kinds = tuple(kind for kind in type(wrong).__mro__ if kind in RAISED)
        # Two mistakes at once: types are looked at before shapes.
        of_types = isinstance(refused, TypeError) and REFUSALS.search(str(refused)) is not None
        assert isinstance(refused, kinds) or of_types, f"NumPy raises {wrong!r}, trimtab {refused!r}"
        return "raised"
    if refused is not None:
        assert isinstance(refused, TypeError) and REFUSALS.search(str(refused)), refused
        return "refused"
    compare(found, right)
    return "agreed"
