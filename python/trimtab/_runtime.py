"""Runtimes: which one calls use, under which constraints, and what can be asked of it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from os import PathLike
from types import TracebackType
from typing import Any, TypeVar

from ._native import Expression, NativeRuntime, _forked
from ._show import Told

_R = TypeVar("_R")


class _Entered(threading.local):
    """What this thread is inside of, the innermost last."""

    def __init__(self) -> None:
        self.all: list[Runtime | constrained] = []


_entered = _Entered()


def after_fork() -> None:
    """In a child that was just forked: runtimes are its own from now on, also those it is inside of."""
    _forked()
    for one in _entered.all:
        one._enter()


class _Within:
    """What is entered by ``with`` for the calls of a thread."""

    def _enter(self) -> None:
        raise NotImplementedError

    def __exit__(
        self, kind: type[BaseException] | None, wrong: BaseException | None, trace: TracebackType | None
    ) -> None:
        _entered.all.pop()
        NativeRuntime.leave()


class Runtime(_Within):
    """A runtime of your own: with settings, wisdom and plans apart from those of the process's default one.

    >>> import numpy as np, trimtab as tt
    >>> apart = tt.Runtime(wisdom="off", threads=1)
    >>> with apart:
    ...     y = tt.add(np.ones(3), 1.0)
    >>> y.tolist()
    [2.0, 2.0, 2.0]

    ``with`` holds for calls of this thread. ``wisdom`` is a directory or ``"off"``; ``mode`` is off, estimate, measure or exhaustive;
    ``budget`` is the time races of a new problem may take (``"50ms"``). What is not said comes from the environment.
    """

    def __init__(
        self,
        *,
        device: str | None = None,
        threads: int | None = None,
        wisdom: str | PathLike[str] | None = None,
        mode: str | None = None,
        budget: str | None = None,
        blas: bool = True,
    ) -> None:
        self._given: dict[str, Any] = {
            "device": device,
            "threads": threads,
            "wisdom": wisdom,
            "mode": mode,
            "budget": budget,
            "blas": blas,
        }
        self._made, self._process = NativeRuntime(**self._given), os.getpid()

    @property
    def _native(self) -> NativeRuntime:
        # The parent's threads are not here: a forked child makes its own, with a segment of wisdom of its own.
        if self._process != os.getpid():
            self._made, self._process = NativeRuntime(**self._given), os.getpid()
        return self._made

    def _enter(self) -> None:
        self._native.enter()

    def __enter__(self) -> Runtime:
        self._enter()
        _entered.all.append(self)
        return self

    def call(self, function: Callable[..., _R], *args: Any, **kwargs: Any) -> _R:
        """Calls a function whose operations use this runtime."""
        with self:
            return function(*args, **kwargs)

    def explain(self, problem: str, *, all: bool = False) -> Told:
        """As `trimtab.explain`, of this runtime."""
        return _explained(self._native, problem, all)

    def devices(self) -> Told:
        """As `trimtab.devices`, of this runtime."""
        return _devices(self._native)

    def report(self) -> Told:
        """As `trimtab.report`, of this runtime."""
        return _report(self._native)

    def tune(self, problem: str, *, budget: str = "10s") -> str | None:
        """As `trimtab.tune_problem`, of this runtime."""
        return self._native.tune(problem, budget)

    def flush(self) -> None:
        """Writes what was learned."""
        self._native.flush()

    @property
    def wisdom_dir(self) -> str | None:
        """Where what is learned is kept."""
        kept = self._native.wisdom_dir
        return None if kept is None else str(kept)

    @property
    def warnings(self) -> list[str]:
        """What could not be set up, and what to do about it."""
        return self._native.warnings

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self._given.items() if value not in (None, True))
        return f"Runtime({given})"

    def __reduce__(self) -> tuple[Callable[..., Runtime], tuple[dict[str, Any]]]:
        return _made_again, (self._given,)


def _made_again(given: dict[str, Any]) -> Runtime:
    return Runtime(**given)


class constrained(_Within):
    """Calls of this thread keep to constraints: plans that break one are never used.

    >>> import numpy as np, trimtab as tt
    >>> with tt.constrained(threads=1):
    ...     y = tt.matmul(np.ones((64, 64)), np.ones((64, 64)))
    >>> float(y[0, 0])
    64.0

    ``memory`` are bytes beside the operands, ``latency`` is the longest a call may take (``"2ms"``), ``tolerance`` opens kernels that are
    less accurate than the type, up to that share.
    """

    def __init__(
        self,
        *,
        threads: int | None = None,
        memory: int | None = None,
        latency: str | None = None,
        tolerance: float | None = None,
    ) -> None:
        self._given: dict[str, Any] = {"threads": threads, "memory": memory, "latency": latency, "tolerance": tolerance}

    def _enter(self) -> None:
        NativeRuntime.current().constrained(**self._given).enter()

    def __enter__(self) -> constrained:
        self._enter()
        _entered.all.append(self)
        return self


def _explained(runtime: NativeRuntime, problem: str, everything: bool) -> Told:
    text = runtime.answer("explain", "text", problem, everything)
    return Told(text, json.loads(runtime.answer("explain", "json", problem, everything)))


def _devices(runtime: NativeRuntime) -> Told:
    lines = runtime.answer("devices", "json").splitlines()
    return Told(runtime.answer("devices", "text"), [json.loads(line) for line in lines])


def _report(runtime: NativeRuntime) -> Told:
    data = json.loads(runtime.answer("report", "json"))
    return Told(runtime.answer("report", "text"), data, runtime.answer("report", "page"))


def explain(what: str | Expression, *, all: bool = False) -> Told:
    """Why a problem or an expression runs as it does: the plan, every rival with its time or its reason, what would change it.

    >>> import trimtab as tt
    >>> told = tt.explain("matmul:f32:64x64x64")
    >>> told.to_dict()["problem"]
    'matmul:f32:64x64x64'
    """
    if isinstance(what, Expression):
        text, numbers = what._explanation()
        return Told(text, json.loads(numbers))
    return _explained(NativeRuntime.current(), what, all)


def devices() -> Told:
    """What there is to run on: facts, measured speeds, kernels.

    >>> import trimtab as tt
    >>> tt.devices().to_dict()[0]["kind"]
    'cpu'
    """
    return _devices(NativeRuntime.current())


def report() -> Told:
    """Everything that decides where problems run; in a notebook the page that ``trimtab report --html`` writes.

    >>> import trimtab as tt
    >>> "devices" in tt.report().to_dict()
    True
    """
    return _report(NativeRuntime.current())


def tune_problem(problem: str, *, budget: str = "10s") -> str | None:
    """Measures a problem now, puts the fastest kernel in force and remembers it; its name.

    >>> import trimtab as tt
    >>> tt.tune_problem("reduce.sum:f32:1000", budget="100ms") is not None
    True
    """
    return NativeRuntime.current().tune(problem, budget)
