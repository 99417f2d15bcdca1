"""Settings of any callable, found while it is called: the first calls try settings, later ones, also of later processes, use the best."""

from __future__ import annotations

import functools
import os
import re
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from ._choose import agree, size_key
from ._study import Space, Study, Trial, Where, kept_path

_R = TypeVar("_R")
_FINALISTS, _FINAL_CALLS = 3, 2


class _Search:
    """The search for one key."""

    def __init__(self, study: Study, evals: int) -> None:
        self.study, self.evals, self.lock = study, evals, threading.Lock()
        self.again: list[Trial] | None = None
        self.settled: dict[str, Any] | None = None
        self.left = study.left_over()

    def next(self) -> tuple[Trial, bool] | None:
        """Settings to try, and whether they ran before; nothing when the best is known."""
        if len(self.study) < self.evals:
            trial = self.left.pop() if self.left else self.study.ask()
            if trial is not None:
                return trial, False
        if self.again is None:
            # One call each may have been disturbed: the best are called some times more, unless an earlier process did.
            ran = sorted((one for one in self.study._known() if "value" in one), key=lambda one: one["value"])
            best = [(Trial(one["id"], self.study._values.read(one["point"])), len(one["samples"])) for one in ran[:_FINALISTS]]
            self.again = [trial for turn in range(_FINAL_CALLS) for trial, calls in best if calls + turn <= _FINAL_CALLS]
        if self.again:
            return self.again.pop(), True
        best_known = self.study.best
        self.settled = None if best_known is None else best_known["settings"]
        return None


class Tuned(Generic[_R]):
    """A callable whose settings are found while it is called. See `trimtab.tune`.

    >>> import trimtab as tt
    >>> @tt.tune(space={"by": [1, 2]}, evals=2, name="docs-tuned")
    ... def tripled(x, *, by):
    ...     return 3 * x
    >>> isinstance(tripled, tt.Tuned), tripled(2)
    (True, 6)
    """

    def __init__(
        self,
        function: Callable[..., _R],
        space: Space,
        where: Where,
        key: Callable[..., Hashable] | None,
        reference: Callable[..., _R] | None,
        check: Callable[[Any, Any], bool] | None,
        evals: int,
        name: str | None,
        strategy: str,
        seed: int,
    ) -> None:
        functools.update_wrapper(self, function)
        self._function, self._space, self._where, self._key = function, {n: list(v) for n, v in space.items()}, where, key
        self._reference, self._check, self._evals = reference, check or agree, evals
        self._strategy, self._seed = strategy, seed
        whole = name or f"{function.__module__}.{getattr(function, '__qualname__', 'call')}"
        self._name = "tuned-" + re.sub(r"[^A-Za-z0-9_.-]+", "-", whole)
        self._searches: dict[str, _Search] = {}
        self._parents: dict[str, _Search] = {}
        self._lock, self._process = threading.Lock(), os.getpid()

    def _search(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Search:
        key = self._key(*args, **kwargs) if self._key else size_key(*args, **kwargs)
        text = re.sub(r"[^A-Za-z0-9_.-]+", "-", str(key)).strip("-.") or "study"
        if self._process != os.getpid():
            # A forked child searches for itself. What it inherited stays open: the files are the parent's.
            self._parents, self._searches, self._lock, self._process = self._searches, {}, threading.Lock(), os.getpid()
        found = self._searches.get(text)
        if found is None:
            with self._lock:
                found = self._searches.get(text)
                if found is None:
                    found = self._searches[text] = _Search(self._opened(text), self._evals)
        return found

    def _opened(self, key: str) -> Study:
        given: dict[str, Any] = {"where": self._where, "strategy": self._strategy, "seed": self._seed, "unit": "s"}
        path = kept_path(self._name, key[:100])
        if path is not None:
            try:
                return Study(self._space, path=path, **given)
            except ValueError as wrong:
                # Of other parameters than now: what was learned means nothing. Another process at it: this one keeps its own.
                if "something else" in str(wrong):
                    return Study(self._space, path=path, fresh=True, **given)
                if "another process" not in str(wrong):
                    raise
        return Study(self._space, **given)

    def __call__(self, *args: Any, **kwargs: Any) -> _R:
        search = self._search(args, kwargs)
        if search.settled is not None:
            return self._function(*args, **kwargs, **search.settled)
        if not search.lock.acquire(blocking=False):
            # Somebody else is trying: this call is as fast as is known.
            return self._function(*args, **kwargs, **self._known(search))
        try:
            turn = search.next()
            if turn is None:
                return self._function(*args, **kwargs, **self._known(search))
            return self._try(search, *turn, args, kwargs)
        finally:
            search.lock.release()

    def _known(self, search: _Search) -> dict[str, Any]:
        best = search.settled or (search.study.best or {}).get("settings")
        if best is None:
            first = search.study._values.of
            raise RuntimeError(f"no settings of {self._name} work: all that were tried of {list(first)} failed")
        return dict(best)

    def _try(
        self, search: _Search, trial: Trial, before: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> _R:
        try:
            began = time.perf_counter()
            result = self._function(*args, **kwargs, **trial.settings)
            took = time.perf_counter() - began
        except Exception as wrong:
            if not before:
                search.study.fail(trial, f"{type(wrong).__name__}: {wrong}", "exit")
            if self._reference is not None:
                return self._reference(*args, **kwargs)
            if search.study.best is None:
                raise
            return self._function(*args, **kwargs, **self._known(search))
        except BaseException:
            # Ctrl-C is not the settings' fault: they come again.
            if not before:
                search.left.append(trial)
            raise
        if before:
            search.study.again(trial, [took])
            return result
        if self._reference is not None:
            right = self._reference(*args, **kwargs)
            if not self._check(right, result):
                search.study.fail(trial, "the result differs from the reference's", "wrong")
                return right
        search.study.tell(trial, took)
        return result

    def best(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        """The best settings known for arguments like these."""
        best = self._search(args, kwargs).study.best
        return None if best is None else dict(best["settings"])

    def study(self, *args: Any, **kwargs: Any) -> Study:
        """The study behind arguments like these."""
        return self._search(args, kwargs).study

    def search(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        """Calls it until the best is known; the best settings. Ctrl-C ends that and keeps what is known."""
        search = self._search(args, kwargs)
        try:
            while search.settled is None and (len(search.study) < self._evals or search.again != []):
                told = len(search.study), search.again and len(search.again)
                self(*args, **kwargs)
                if (len(search.study), search.again and len(search.again)) == told:
                    break
        except KeyboardInterrupt:
            pass
        return self.best(*args, **kwargs)


    def __reduce__(self) -> str:
        # As functions are: by name, so that another process finds its own.
        return str(getattr(self, "__qualname__", self._name))


def tune(
    *,
    space: Space,
    where: Where = None,
    key: Callable[..., Hashable] | None = None,
    reference: Callable[..., Any] | None = None,
    check: Callable[[Any, Any], bool] | None = None,
    evals: int = 40,
    name: str | None = None,
    strategy: str = "auto",
    seed: int = 0,
) -> Callable[[Callable[..., _R]], Tuned[_R]]:
    """Wraps anything callable (Triton, Numba, a ctypes call): its settings are arguments by name, and found while it is called.

    >>> import numpy as np, trimtab as tt
    >>> @tt.tune(space={"chunk": [10, 100, 1000]}, evals=3, name="docs-sum")
    ... def total(x, *, chunk):
    ...     return sum(float(x[at : at + chunk].sum()) for at in range(0, x.size, chunk))
    >>> x = np.ones(1000)
    >>> [total(x) for _ in range(12)] == [1000.0] * 12
    True
    >>> sorted(total.best(x))
    ['chunk']

    ``key`` says which calls are alike (by default the shapes and types of arrays, and numbers); each has its own best settings. With
    ``reference`` every new setting's result is compared with that function's, by ``check`` (by default as `numpy.allclose`), and the
    call is answered by the reference where they differ or the settings fail.
    """

    def wrap(function: Callable[..., _R]) -> Tuned[_R]:
        return Tuned(function, space, where, key, reference, check, evals, name, strategy, seed)

    return wrap


