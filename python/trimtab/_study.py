"""Ask and tell: a search of any settings, for code that runs itself."""

from __future__ import annotations

import inspect
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from math import inf
from os import PathLike
from pathlib import Path
from typing import Any, Union

from ._native import NativeRuntime, NativeStudy
from ._show import html, html_table, line_plot, new_axes, seconds, text_table

Space = Mapping[str, Iterable[Any]]
Where = Union[str, Callable[..., Any], Sequence[Union[str, Callable[..., Any]]], None]

_MOST_LISTED = 4_000_000


class Trial:
    """Settings to try: a mapping, and what `Study.tell` wants.

    >>> import trimtab as tt
    >>> trial = tt.Study({"block": [16]}).ask()
    >>> trial, trial["block"], dict(trial)
    (Trial(block=16), 16, {'block': 16})
    """

    __slots__ = ("id", "settings")
    id: int
    settings: dict[str, Any]

    def __init__(self, id: int, settings: dict[str, Any]) -> None:
        self.id, self.settings = id, settings

    def __getitem__(self, name: str) -> Any:
        return self.settings[name]

    def keys(self) -> Iterable[str]:
        """The names, so that ``f(**trial)`` works."""
        return self.settings.keys()

    def __repr__(self) -> str:
        return f"Trial({', '.join(f'{name}={value!r}' for name, value in self.settings.items())})"


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value


class Values:
    """The values of every parameter, and how those are written that are neither numbers nor texts: by their place."""

    def __init__(self, space: Space) -> None:
        self.of: dict[str, list[Any]] = {name: [_plain(value) for value in values] for name, values in space.items()}
        self._coded = {
            name for name, values in self.of.items() if not all(isinstance(value, (bool, int, float, str)) for value in values)
        }

    def written(self) -> str:
        """As the search reads it."""
        pairs = [
            [name, [f"#{at}" for at in range(len(values))] if name in self._coded else values]
            for name, values in self.of.items()
        ]
        return json.dumps(pairs)

    def read(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """A point of the search as the caller's own values."""
        return {
            name: self.of[name][int(str(value)[1:])] if name in self._coded else value for name, value in point.items()
        }

    def write(self, settings: Mapping[str, Any]) -> str:
        """The caller's settings as a point of the search."""
        coded = {
            name: f"#{self.of[name].index(value)}" if name in self._coded else _plain(value)
            for name, value in settings.items()
        }
        return json.dumps(coded)


def holds(rule: Callable[..., Any], settings: dict[str, Any]) -> bool:
    """Whether a callable allows settings: it takes them by name, or all as one dict."""
    names = list(inspect.signature(rule).parameters)
    if len(names) == 1 and names[0] not in settings:
        return bool(rule(settings))
    return bool(rule(*[settings[name] for name in names]))


def allowed(values: Values, where: Where) -> tuple[list[str], list[list[int]] | None]:
    """Constraints in words, and where a callable says what is legal, the legal points by the places of their values."""
    rules = [] if where is None else [where] if isinstance(where, str) or callable(where) else list(where)
    words = [rule for rule in rules if isinstance(rule, str)]
    calls = [rule for rule in rules if not isinstance(rule, str)]
    if not calls:
        return words, None
    names, listed = list(values.of), []
    compiled = [compile(rule, "<where>", "eval") for rule in words]
    for places in product(*[range(len(values.of[name])) for name in names]):
        settings = {name: values.of[name][place] for name, place in zip(names, places)}
        if all(eval(rule, {"min": min, "max": max}, settings) for rule in compiled):
            if all(holds(rule, settings) for rule in calls):
                listed.append(list(places))
                if len(listed) > _MOST_LISTED:
                    raise ValueError("the space has more than 4,000,000 points; use fewer values or more constraints")
    if not listed:
        raise ValueError("no combination of values is left after the constraints; loosen one of them")
    return [], listed


class Study:
    """Searches settings: ``ask`` for some, try them, ``tell`` what came of them, and ``best`` knows the best.

    >>> import trimtab as tt
    >>> study = tt.Study({"block": [16, 32, 64], "unroll": range(1, 9)}, where="block * unroll <= 256", seed=1)
    >>> for _ in range(20):
    ...     trial = study.ask()
    ...     if trial is None:
    ...         break
    ...     study.tell(trial, abs(trial["block"] - 32) + abs(trial["unroll"] - 4) + 1.0)
    >>> study.best["settings"]
    {'block': 32, 'unroll': 4}

    Values are numbers, texts, truth values or any objects; ``where`` is one or several of Python's expressions as text, or callables. With
    ``name`` the study is kept beside wisdom, and goes on where it ended, also after a crash; ``path`` says where instead.
    """

    def __init__(
        self,
        space: Space,
        *,
        where: Where = None,
        maximise: bool = False,
        limits: Sequence[str] = (),
        strategy: str = "auto",
        seed: int = 0,
        name: str | None = None,
        path: str | PathLike[str] | None = None,
        fresh: bool = False,
        unit: str = "",
        what: str = "",
    ) -> None:
        self._values = Values(space)
        constraints, listed = allowed(self._values, where)
        if name is not None and path is None:
            path = kept_path(name)
        self._given: dict[str, Any] = {
            "constraints": constraints,
            "listed": listed,
            "strategy": strategy,
            "seed": seed,
            "maximise": maximise,
            "limits": list(limits),
            "what": what,
            "unit": unit,
        }
        self._unit, self._maximise = unit, maximise
        self._native = NativeStudy(
            self._values.written(), path=None if path is None else Path(path), fresh=fresh, **self._given
        )
        self._began = time.monotonic()
        self._process = os.getpid()

    def _own(self) -> NativeStudy:
        """The study to write to: what is kept in a file belongs to the process that opened it."""
        if self._process != os.getpid() and self.path is not None:
            raise RuntimeError(f"the study in {self.path} was opened by another process; ask there, or open one of your own here")
        return self._native

    def ask(self) -> Trial | None:
        """The next settings to try; nothing when every point was asked for."""
        asked = self._own().ask()
        return None if asked is None else self._trial(*asked)

    def _trial(self, id: int, point: str) -> Trial:
        return Trial(id, self._values.read(json.loads(point)))

    def left_over(self) -> list[Trial]:
        """What was asked for and never told, by an earlier process too."""
        return [self._trial(*asked) for asked in self._native.left_over()]

    def _id(self, trial: Trial | Mapping[str, Any]) -> int:
        return trial.id if isinstance(trial, Trial) else self._native.find(self._values.write(trial))

    def tell(self, trial: Trial | Mapping[str, Any], value: float | Sequence[float]) -> None:
        """What came of settings: a number, or several of which the smallest (the largest, where more is better) counts."""
        samples = [float(sample) for sample in value] if isinstance(value, Sequence) else [float(value)]
        best = (max if self._maximise else min)(samples)
        self._own().tell(self._id(trial), best, samples, None, "", time.monotonic() - self._began)

    def again(self, trial: Trial | Mapping[str, Any], samples: Sequence[float]) -> None:
        """Further samples of settings that ran."""
        id = self._id(trial)
        known = next((one["value"] for one in self._known() if one["id"] == id and "value" in one), None)
        if known is None:
            raise ValueError("these settings were not told yet, or failed")
        value = (max if self._maximise else min)([known, *samples])
        self._own().again(id, [float(sample) for sample in samples], value)

    def fail(self, trial: Trial | Mapping[str, Any], reason: str, kind: str = "told") -> None:
        """Settings failed; the search avoids the like."""
        self._own().tell(self._id(trial), None, [], reason, kind, time.monotonic() - self._began)

    def run(
        self, objective: Callable[..., float], *, evals: int = 100, budget: float = inf, verbose: bool = False
    ) -> dict[str, Any] | None:
        """Tries settings until so many are known, so many seconds are gone, or the space is spent; the best. ``objective`` takes them by
        name. An exception is a failure of the settings; Ctrl-C ends the search and keeps what is known."""
        ends = time.monotonic() + budget
        left = self.left_over()
        try:
            while self._native.told < evals and time.monotonic() < ends:
                trial = left.pop() if left else self.ask()
                if trial is None:
                    break
                try:
                    value = objective(**trial.settings)
                except Exception as wrong:
                    self.fail(trial, f"{type(wrong).__name__}: {wrong}", "exit")
                    continue
                self.tell(trial, value)
                if verbose:
                    print(f"{trial}: {value}")
        except KeyboardInterrupt:
            pass
        return self.best

    def _known(self) -> list[dict[str, Any]]:
        known: list[dict[str, Any]] = json.loads(self._native.evaluations())
        return known

    def _view(self, known: dict[str, Any]) -> dict[str, Any]:
        view = {"settings": self._values.read(known["point"])}
        return view | {name: known[name] for name in ("value", "failure", "failure_kind", "repeats") if name in known}

    @property
    def best(self) -> dict[str, Any] | None:
        """The best: ``settings`` and ``value``."""
        best = self._native.best()
        return None if best is None else self._view(json.loads(best))

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        """Everything that was told, in order."""
        return [self._view(known) for known in self._known()]

    @property
    def path(self) -> Path | None:
        """Where it is kept."""
        kept = Path(self._native.path)
        return kept if str(kept) != "." else None

    def __len__(self) -> int:
        return self._native.told

    @property
    def size(self) -> int:
        """How many legal points there are."""
        return self._native.size

    def effects(self) -> list[dict[str, Any]]:
        """How much each parameter, and each pair, matters: the share of the spread of values it explains."""
        shares: list[dict[str, Any]] = json.loads(self._native.effects())
        return shares

    def to_dict(self) -> dict[str, Any]:
        """Every number, as dicts and lists."""
        return {"size": self.size, "best": self.best, "evaluations": self.evaluations, "effects": self.effects()}

    def svg(self) -> str:
        """Values and the best so far, as a plot."""
        values = [known.get("value") for known in self._known()]
        return line_plot(values, self._native.convergence(), self._unit)

    def plot(self) -> Any:
        """The same with matplotlib, if it is installed: its axes."""
        axes = new_axes()
        values = [known.get("value") for known in self._known()]
        axes.scatter([at for at, value in enumerate(values) if value is not None], [v for v in values if v is not None], s=8)
        axes.plot(self._native.convergence())
        axes.set(xlabel="evaluation", ylabel=self._unit or "value")
        return axes

    def _rows(self) -> list[dict[str, Any]]:
        known = sorted((one for one in self._known() if "value" in one), key=lambda one: one["value"])
        best = known[::-1][:8] if self._maximise else known[:8]
        show = seconds if self._unit == "s" else (lambda value: f"{value:.6g}")
        return [self._values.read(one["point"]) | {"value": show(one["value"]), "runs": one["repeats"]} for one in best]

    def __repr__(self) -> str:
        told = f"{len(self)} of {self.size} points told"
        return "\n".join(part for part in (told, text_table(self._rows())) if part)

    def _repr_html_(self) -> str:
        return html(f"<p>{len(self)} of {self.size} points told</p>", html_table(self._rows(), 0), self.svg())

    def __reduce__(self) -> tuple[Any, ...]:
        # What is kept in a file belongs to one process at a time: a copy is in memory.
        return _restored, ({name: list(values) for name, values in self._values.of.items()}, self._given, self._known())


def _restored(space: Space, given: dict[str, Any], known: list[dict[str, Any]]) -> Study:
    study: Study = Study.__new__(Study)
    study._values, study._given = Values(space), given
    study._unit, study._maximise, study._began = given["unit"], given["maximise"], time.monotonic()
    study._process = os.getpid()
    study._native = NativeStudy(study._values.written(), path=None, fresh=False, **given)
    for one in known:
        native = study._native
        native.tell(
            one["id"], one.get("value"), one.get("samples", []), one.get("failure"), one.get("failure_kind", ""), one["seconds"]
        )
    return study


def kept_path(name: str, key: str = "study") -> Path | None:
    """Where a study of that name is kept; nothing where wisdom is off."""
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", name):
        raise ValueError(f"{name!r}: use letters, digits, `-`, `_` and `.` in the name of a study: it is a directory's too")
    wisdom = NativeRuntime.current().wisdom_dir
    return None if wisdom is None else Path(wisdom) / "studies" / name / f"{key}.jsonl"
