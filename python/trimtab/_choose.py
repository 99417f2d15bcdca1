"""Choosing among callables that do the same: measured, checked against each other, learned and remembered by sizes."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterable
from math import prod
from typing import Any, Generic, TypeVar, overload

import numpy as np

from ._native import NativeChoice, NativeRuntime
from ._show import Told, crossover_plot, html, new_axes, seconds, text_table

_R = TypeVar("_R")
# What a problem of the user's own has room for.
_MOST_SIZES, _LONGEST_NAME = 4, 22
_MOST_SEEN = 200


def _short(name: str) -> str:
    """A name that fits: what is cut is told apart by a hash."""
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[-(_LONGEST_NAME - 9) :]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def agree(right: Any, found: Any) -> bool:
    """Whether two results are the same: numbers and arrays as `numpy.allclose` has it, sequences element by element."""
    if isinstance(right, (tuple, list)):
        return type(found) is type(right) and len(found) == len(right) and all(map(agree, right, found))
    if isinstance(right, dict):
        return isinstance(found, dict) and right.keys() == found.keys() and all(agree(right[k], found[k]) for k in right)
    try:
        a, b = np.asarray(right), np.asarray(found)
        if a.dtype.kind in "fc" or b.dtype.kind in "fc":
            loose = 1e-2 if a.dtype.itemsize == 2 else 1e-4 if a.dtype.itemsize in (4, 8) and a.dtype != np.float64 else 1e-9
            return a.shape == b.shape and bool(np.allclose(a, b, rtol=loose, atol=loose, equal_nan=True))
        return a.shape == b.shape and bool(np.all(a == b))
    except (TypeError, ValueError):
        return bool(right == found)


def _numbers(value: Any) -> Iterable[int]:
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        yield from (int(size) for size in shape)
    elif isinstance(value, (list, tuple, dict, str, bytes)):
        yield len(value)
    elif isinstance(value, (bool, int)) and value >= 0:
        yield int(value)


def sizes(*args: Any, **kwargs: Any) -> tuple[int, ...]:
    """The sizes of arguments: shapes of arrays, lengths of sequences, whole numbers."""
    return tuple(size for value in (*args, *kwargs.values()) for size in _numbers(value))


def size_key(*args: Any, **kwargs: Any) -> str:
    """The same with the types of arrays, as a text."""
    types = [str(value.dtype) for value in (*args, *kwargs.values()) if hasattr(value, "dtype")]
    return "x".join(str(size) for size in sizes(*args, **kwargs)) + "-".join(["", *types])


class Chosen(Generic[_R]):
    """Several implementations of one thing, of which the fastest for the sizes at hand is called. See `trimtab.choose`.

    >>> import trimtab as tt
    >>> doubled = tt.choose(lambda x: 2 * x)
    >>> isinstance(doubled, tt.Chosen), doubled(4)
    (True, 8)
    """

    def __init__(
        self,
        first: Callable[..., _R],
        key: Callable[..., Any] | None,
        check: Callable[[Any, Any], bool] | None,
        name: str | None,
    ) -> None:
        functools.update_wrapper(self, first)
        whole = name or f"{first.__module__}.{getattr(first, '__qualname__', 'call')}"
        self._name = _short(re.sub(r"[^A-Za-z0-9_]+", "_", whole).strip("_"))
        self._key, self._check = key or sizes, check or agree
        self._options: list[tuple[str, Callable[..., _R]]] = [(_named(first, []), first)]
        self._choice: NativeChoice | None = None
        # Sizes that were called with, for plots: as many as a plot can show.
        self._seen: set[tuple[int, ...]] = set()
        self._process = os.getpid()
        self._lock = threading.Lock()

    def option(self, function: Callable[..., _R], name: str | None = None) -> Callable[..., _R]:
        """Adds an implementation, as a decorator or by a call; what it gives is compared with what the first gives."""
        with self._lock:
            taken = [known for known, _ in self._options]
            self._options.append((name or _named(function, taken), function))
            self._choice = None
        return function

    def _built(self) -> NativeChoice:
        if self._choice is None or self._process != os.getpid():
            with self._lock:
                if self._choice is None or self._process != os.getpid():
                    runtime, self._process = NativeRuntime.current(), os.getpid()
                    self._choice = NativeChoice(runtime, self._name, self._version(), list(self._options), self._check)
        return self._choice

    def _version(self) -> str:
        code = hashlib.sha256()
        for name, function in self._options:
            inner = getattr(function, "__code__", None)
            code.update(name.encode() + (inner.co_code + repr(inner.co_consts).encode() if inner else b""))
        return code.hexdigest()[:12]

    def _sizes(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:
        key = self._key(*args, **kwargs)
        given = [key] if isinstance(key, int) else list(key)
        # A problem has few sizes: what is beyond them is one.
        head, tail = (given, []) if len(given) <= _MOST_SIZES else (given[: _MOST_SIZES - 1], given[_MOST_SIZES - 1 :])
        return head + ([functools.reduce(lambda a, b: (a * 31 + b) % (1 << 31), tail, len(tail))] if tail else [])

    def __call__(self, *args: Any, **kwargs: Any) -> _R:
        sizes = self._sizes(args, kwargs)
        if len(self._seen) < _MOST_SEEN:
            self._seen.add(tuple(sizes))
        result: _R = self._built().run(sizes, args, kwargs or None)
        return result

    def chosen(self, *args: Any, **kwargs: Any) -> str | None:
        """The name of the implementation that would run for arguments like these, if that is known."""
        return self._built().chosen(self._sizes(args, kwargs))

    def explain(self, *args: Any, **kwargs: Any) -> Told:
        """Every implementation with its time, or why it is out."""
        known = self._built().explain(self._sizes(args, kwargs))
        chosen = self.chosen(*args, **kwargs)
        rows = [
            {
                "option": name,
                "chosen": "▶" if name == chosen else "",
                "time": None if nanoseconds is None else seconds(nanoseconds / 1e9),
                "out because": why,
            }
            for name, nanoseconds, why in known
        ]
        data = [{"option": name, "ns": nanoseconds, "out": why, "chosen": name == chosen} for name, nanoseconds, why in known]
        return Told(text_table(rows), data)

    def times(self) -> dict[str, list[tuple[int, float]]]:
        """Every implementation's times in seconds, by how large the calls were: the product of their sizes."""
        lines: dict[str, dict[int, float]] = {name: {} for name, _ in self._options}
        for sizes in sorted(self._seen, key=lambda sizes: prod(sizes)):
            for name, nanoseconds, _ in self._built().explain(list(sizes)):
                if nanoseconds is not None and name in lines:
                    lines[name][prod(sizes)] = nanoseconds / 1e9
        return {name: sorted(line.items()) for name, line in lines.items()}

    def crossovers(self) -> list[tuple[int, int, str]]:
        """Between which sizes another implementation becomes the fastest, and which."""
        lines = {name: dict(line) for name, line in self.times().items()}
        fastest: list[tuple[int, str]] = []
        for size in sorted({size for line in lines.values() for size in line}):
            fastest.append((size, min((name for name in lines if size in lines[name]), key=lambda name: lines[name][size])))
        pairs = zip(fastest, fastest[1:])
        return [(before[0], after[0], after[1]) for before, after in pairs if before[1] != after[1]]

    def svg(self) -> str:
        """Times over sizes, and where another implementation becomes the fastest, as a plot."""
        return crossover_plot(self.times(), self.crossovers())

    def plot(self) -> Any:
        """The same with matplotlib, if it is installed: its axes."""
        axes = new_axes()
        for name, line in self.times().items():
            axes.loglog([size for size, _ in line], [seconds for _, seconds in line], marker="o", label=name)
        for before, after, _ in self.crossovers():
            axes.axvspan(before, after, alpha=0.12)
        axes.set(xlabel="size", ylabel="s")
        axes.legend()
        return axes

    def _repr_html_(self) -> str:
        return html(f"<p>{len(self._options)} implementations, {len(self._seen)} sizes</p>", self.svg())

    def __reduce__(self) -> str:
        # As functions are: by name, so that another process finds its own.
        return str(getattr(self, "__qualname__", self._name))


def _named(function: Callable[..., Any], taken: list[str]) -> str:
    name = re.sub(r"[^a-z0-9_]+", "_", str(getattr(function, "__name__", "option")).lower()).strip("_") or "option"
    return name if name not in taken else f"{name}_{len(taken)}"


@overload
def choose(first: Callable[..., _R], /) -> Chosen[_R]: ...


@overload
def choose(
    first: None = None,
    /,
    *,
    key: Callable[..., Any] | None = None,
    check: Callable[[Any, Any], bool] | None = None,
    name: str | None = None,
) -> Callable[[Callable[..., _R]], Chosen[_R]]: ...


def choose(
    first: Callable[..., Any] | None = None,
    /,
    *,
    key: Callable[..., Any] | None = None,
    check: Callable[[Any, Any], bool] | None = None,
    name: str | None = None,
) -> Any:
    """Several implementations of one thing: the fastest for the sizes at hand is found, checked, remembered and called.

    >>> import numpy as np, trimtab as tt
    >>> @tt.choose(key=lambda x: x.size)
    ... def total(x):
    ...     return float(x.sum())
    >>> @total.option
    ... def by_loop(x):
    ...     return float(sum(x.tolist()))
    >>> total(np.ones(10_000))
    10000.0
    >>> total.chosen(np.ones(10_000)) in ("total", "by_loop")
    True

    The first implementation says what is right: one that gives something else (``check``, by default as `numpy.allclose`) or raises where
    the first does not is never chosen. ``key`` gives the sizes that matter; by default shapes, lengths and whole numbers.
    """
    if first is not None:
        return Chosen(first, key, check, name)
    return lambda function: Chosen(function, key, check, name)
