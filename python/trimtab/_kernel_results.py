"""What a search of kernels is for and what it keeps: metrics, objectives, and Kernel Tuner's cache file."""

from __future__ import annotations

import inspect
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ._kernel_source import values_of

# Kernel Tuner's: of these more is better; of a time, an energy or a cost less is.
_MORE = {"fitness", "GFLOP/s", "TFLOP/s", "GB/s", "TB/s", "GFLOPS/W", "TFLOPS/W", "GFLOP/J", "TFLOP/J"}
_LESS = {"time", "energy", "cost", "loss"}
# The whole file is written each time.
_SECONDS = 1.0
Metrics = Mapping[str, Any]


class Objective:
    """What is searched for: times, or metrics, of which more or less is better. The first leads the search."""

    def __init__(self, objective: Any, higher: Any, objectives: Mapping[str, bool] | None, metrics: Metrics | None) -> None:
        if objectives is not None and objective is not None:
            raise ValueError("give objective or objectives, not both")
        if objectives is None:
            names = [objective or "time"] if objective is None or isinstance(objective, str) else list(objective)
            sides = list(higher) if isinstance(higher, Sequence) else [higher] * len(names)
            if not names or len(sides) != len(names):
                raise ValueError(f"{len(names)} objectives, and objective_higher_is_better has {len(sides)}")
            objectives = {name: self._side(name, side) for name, side in zip(names, sides)}
        if not objectives:
            raise ValueError("objectives are a dict of names, and whether more of each is better")
        missing = [name for name in objectives if name != "time" and name not in (metrics or {})]
        if missing:
            raise ValueError(f"the objective {missing[0]!r} is neither time nor one of the metrics")
        self.higher: dict[str, bool] = {name: bool(side) for name, side in objectives.items()}
        self.name, self.maximise = next(iter(self.higher.items()))
        self._metrics = metrics or {}

    @staticmethod
    def _side(name: str, side: bool | None) -> bool:
        if side is None and name not in _MORE | _LESS:
            raise ValueError(f"say with objective_higher_is_better whether more of {name!r} is better")
        return name in _MORE if side is None else bool(side)

    @property
    def is_time(self) -> bool:
        """Whether the fastest is the best."""
        return list(self.higher) == ["time"] and not self.maximise

    def complete(self, result: dict[str, Any], samples: Sequence[float]) -> None:
        """Adds runs in seconds to a result, and computes its metrics anew."""
        times = [*result.get("times", []), *(sample * 1e3 for sample in samples)]
        result |= {"time": min(times), "times": times}
        for name, metric in self._metrics.items():
            result[name] = metric(result) if callable(metric) else values_of(result, metric)

    def value(self, result: Mapping[str, Any]) -> float:
        """What leads the search, of a result that ran."""
        return float(result[self.name]) * (1e-3 if self.name == "time" else 1.0)

    def best(self, results: Sequence[dict[str, Any]]) -> Any:
        """The best result; where there are several objectives, all that no other result surpasses."""
        if len(self.higher) == 1:
            return min(results, key=self._losses)
        return [one for one in results if not any(self._surpasses(other, one) for other in results)]

    def _losses(self, result: Mapping[str, Any]) -> list[float]:
        return [-float(result[name]) if side else float(result[name]) for name, side in self.higher.items()]

    def _surpasses(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        mine, others = self._losses(one), self._losses(other)
        return all(a <= b for a, b in zip(mine, others)) and mine != others


class Cache:
    """Results in a file of Kernel Tuner's form, one that goes on where an earlier call ended."""

    def __init__(self, path: Any, kernel_name: str, problem_size: Any, tune_params: Mapping[str, Sequence[Any]], objective: Objective) -> None:
        self.path = Path(path) if str(path).endswith(".json") else Path(f"{path}.json")
        size = problem_size
        if callable(size):
            size = "callable"
        elif not isinstance(size, str):
            size = [_plain(one) for one in size] if isinstance(size, (list, tuple)) else _plain(size)
        self._names, self._kept = list(tune_params), -_SECONDS
        self._file: dict[str, Any] = {
            "device_name": "", "kernel_name": kernel_name, "problem_size": size, "tune_params_keys": self._names,
            "tune_params": {name: [_plain(value) for value in values] for name, values in tune_params.items()},
            "objective": list(objective.higher), "cache": {},
        }  # fmt: skip
        if self.path.is_file():
            self._read()

    def _read(self) -> None:
        text = self.path.read_text().strip()
        try:
            try:
                known = json.loads(text)
            except json.JSONDecodeError:
                # Kernel Tuner's own is without its end while it is written.
                known = json.loads(text.rstrip(",") + "}}")
            results = known["cache"]
            assert isinstance(results, dict)
        except (json.JSONDecodeError, TypeError, KeyError, AssertionError):
            raise ValueError(f"{self.path} is no cache of results; move it away, or name another") from None
        for name in ("kernel_name", "problem_size", "tune_params_keys"):
            if known.get(name) != self._file[name]:
                raise ValueError(f"{self.path} is of another call: its {name} is {known.get(name)!r}, here it is {self._file[name]!r}")
        self._file |= {"cache": results, "device_name": known.get("device_name", "")}

    def _key(self, settings: Mapping[str, Any]) -> str:
        return ",".join(str(settings[name]) for name in self._names)

    def find(self, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """What is known of settings. Kernel Tuner writes what failed in place of a time."""
        known = self._file["cache"].get(self._key(settings))
        if known is None:
            return None
        result: dict[str, Any] = dict(settings) | known
        if isinstance(result.get("time"), str):
            result["__error__"] = result.pop("time")
        if "__error__" in result:
            return result | {"failure": result.get("failure", "it failed in an earlier call")}
        times = result.get("times") or [result["time"]]
        return result | {"times": times, "time": min(times)}

    def keep(self, results: Sequence[Mapping[str, Any]], at_once: bool) -> None:
        """Writes results, not more often than every second: the whole file, so that whoever reads it meets all or nothing of them."""
        for result in results:
            kept = {name: _plain(value) for name, value in result.items()}
            if "__error__" in kept:
                kept["time"] = kept["__error__"]
            self._file["cache"][self._key(result)] = kept
        if not at_once and time.monotonic() - self._kept < _SECONDS:
            return
        self._kept = time.monotonic()
        unfinished = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        unfinished.write_text(json.dumps(self._file, indent=0, default=str))
        os.replace(unfinished, self.path)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value


def verifier(verify: Callable[..., bool] | None) -> Callable[..., bool] | None:
    """``verify`` as it is called here, whether or not it takes ``atol``."""
    if verify is None:
        return None
    own = verify
    parameters = inspect.signature(own).parameters.values()
    if any(one.name == "atol" or one.kind is one.VAR_KEYWORD for one in parameters):
        return own
    return lambda answer, results, atol: own(answer, results)
