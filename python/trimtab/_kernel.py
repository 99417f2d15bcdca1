"""Kernels in OpenCL C, CUDA C, C, C++ and WGSL, tuned with Kernel Tuner's argument names. Every point runs in a child process and is checked."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from ._native import NativeKernel
from ._study import Study, Trial, Where

# Kernel Tuner's strategies by what they do; what is not here is one of ours by its own name, or `auto`.
_STRATEGIES = {
    None: "sweep",
    "brute_force": "sweep",
    "random_sample": "random",
    "bayes_opt": "model",
    "genetic_algorithm": "evolve",
    "diff_evo": "evolve",
    "pso": "evolve",
    "firefly_algorithm": "evolve",
    "simulated_annealing": "anneal",
    "dual_annealing": "anneal",
    "basinhopping": "anneal",
    "greedy_ils": "hill",
    "greedy_mls": "hill",
    "ordered_greedy_mls": "hill",
    "minimize": "hill",
    "mls": "hill",
}
_OURS = ("auto", "model", "hill", "evolve", "anneal", "halving", "natural", "random", "sweep")
_TYPES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "int8": "i8", "uint8": "u8", "int16": "i16", "int32": "i32",
    "uint32": "u32", "int64": "i64", "bool": "bool", "complex64": "complex64", "complex128": "complex128",
}  # fmt: skip
_ENDINGS = {"OPENCL": "cl", "C": "c", "C++": "cpp", "CPP": "cpp", "WGSL": "wgsl", "CUDA": "cu", "CUPY": "cu", "NVCUDA": "cu"}
# How many run off in the end, how close they must have come, and how often each runs.
_FINALISTS, _CLOSE, _ROUNDS = 5, 1.5, 3
# Kernel Tuner's words for what failed.
_FAILED = {"compile": "CompilationFailedConfig", "start": "InvalidConfig"}


def _language(lang: str | None, source: str) -> str:
    if lang is not None and lang.upper() not in _ENDINGS:
        raise ValueError(f"there is no language {lang!r}; there are: OpenCL, CUDA, C, C++, WGSL")
    if lang is None:
        found = [name for mark, name in (("__global__", "CUDA"), ("__kernel", "OpenCL"), ("@compute", "WGSL")) if mark in source]
        lang = found[0] if found else "C"
    if lang.upper() == "C" and re.search(r'extern\s+"C"|\bstd::|template\s*<', source):
        return "cpp"
    return _ENDINGS[lang.upper()]


def _text(kernel_source: Any) -> str:
    if callable(kernel_source):
        raise ValueError("kernel_source must be a text or a file; sources that are made for each point are not supported")
    if isinstance(kernel_source, (list, tuple)):
        raise ValueError("give one kernel_source; write #include of the others into it")
    text = str(kernel_source)
    if "\n" not in text and len(text) < 4096 and Path(text).is_file():
        return Path(text).read_text()
    return text


def _divided(size: Any, by: Any, default: str, names: Sequence[str]) -> str:
    """How many workgroups: so many threads, divided by what parameters say, rounded up."""
    if by is None:
        by = [default] if default in names else []
    if callable(by) or any(callable(part) for part in by):
        raise ValueError("grid_div must be a list of parameters or expressions as texts")
    parts = [str(by)] if isinstance(by, (str, int)) else [str(part) for part in by]
    over = " * ".join(f"({part})" for part in parts)
    return f"{size}" if not over else f"(({size}) + {over} - 1) // ({over})"


def _quoted(text: str) -> str:
    return json.dumps(text)


class _Described:
    """A kernel, its arguments and its space, written down in a directory of their own."""

    def __init__(
        self,
        kernel_name: str,
        kernel_source: Any,
        problem_size: Any,
        arguments: Sequence[Any],
        tune_params: Mapping[str, Sequence[Any]],
        grid_div: Sequence[Any],
        answer: Sequence[Any] | None,
        atol: float,
        verified: bool,
        lang: str | None,
        device: str | None,
        compiler: str | None,
        compiler_options: Sequence[str] | None,
        block_size_names: Sequence[str] | None,
    ) -> None:
        source = _text(kernel_source)
        ending = _language(lang, source)
        if ending == "cu" and 'extern "C"' not in source:
            # So that it is found by its name, as with Kernel Tuner.
            source = f'extern "C" {{\n{source}\n}}\n'
        if answer is not None and len(answer) != len(arguments):
            raise ValueError(f"answer has {len(answer)} entries, and there are {len(arguments)} arguments; use None for those not compared")
        self.dir = Path(tempfile.mkdtemp(prefix="trimtab-kernel-"))
        (self.dir / "built").mkdir()
        self.kernel = self.dir / f"kernel.{ending}"
        self.kernel.write_text(source)
        names = list(tune_params)
        lines = ["[kernel]", f"entry = {_quoted(kernel_name)}"]
        sizes = [problem_size] if isinstance(problem_size, (int, str, np.integer)) else list(problem_size)
        blocks = [*(block_size_names or ()), *("block_size_x", "block_size_y", "block_size_z")[len(block_size_names or ()) :]]
        groups = [_divided(size, by, block, names) for size, by, block in zip(sizes, grid_div, blocks)]
        if ending in ("cl", "cu", "wgsl"):
            lines.append(f"groups = [{', '.join(_quoted(group) for group in groups)}]")
        group = [block if block in names else other for block, other in zip(blocks, ("256", "1", "1"))]
        if ending in ("cl", "cu"):
            lines.append(f"workgroup = [{', '.join(_quoted(one) for one in group)}]")
        # Named here, so that a parameter that only the grid or nobody uses is no mistake, as with Kernel Tuner.
        defines = {f"tuned_{name}": name for name in names} | {"kernel_tuner": "1"}
        if ending != "wgsl":
            # What Kernel Tuner defines beside the parameters: how large blocks are, and how many there are.
            grid = {f"grid_size_{axis}": size for axis, size in zip("xyz", [*groups, "1", "1"])}
            defines |= {name: size for name, size in (grid | dict(zip(blocks, group))).items() if name not in names}
        lines.append(f"defines = {{ {', '.join(f'{name} = {_quoted(value)}' for name, value in defines.items())} }}")
        if compiler is not None:
            lines.append(f"compiler = {_quoted(compiler)}")
        if device is not None:
            lines.append(f"device = {_quoted(device)}")
        if compiler_options:
            lines.append(f"flags = {_quoted(' '.join(compiler_options))}")
        labels = self._labels(source, ending, len(arguments))
        self.arrays: list[np.ndarray[Any, Any] | None] = []
        for at, argument in enumerate(arguments):
            # Somebody else looks at the results where there is `verify`.
            wanted = None if answer is None or verified else answer[at]
            unchecked = answer is None or verified
            lines += ["", "[[arguments]]", f"name = {_quoted(labels[at])}", *self._argument(at, argument, wanted, unchecked, atol)]
        self.described = self.dir / "kernel.toml"
        self.described.write_text("\n".join(lines) + "\n")

    @staticmethod
    def _labels(source: str, ending: str, count: int) -> list[str]:
        if ending != "wgsl":
            return [f"argument{at}" for at in range(count)]
        bound = re.findall(r"@binding\((\d+)\)\s*var(?:<[^>]*>)?\s+(\w+)", source)
        labels = [name for _, name in sorted(bound, key=lambda one: int(one[0]))]
        if len(labels) != count:
            raise ValueError(f"the source binds {len(labels)} variables ({', '.join(labels)}), and there are {count} arguments")
        return labels

    def _argument(self, at: int, argument: Any, wanted: Any, unchecked: bool, atol: float) -> list[str]:
        if isinstance(argument, (int, float)) and not isinstance(argument, np.generic):
            raise TypeError(f"argument {at} is {argument!r}; give numbers a type, such as numpy.int32({argument!r})")
        value = np.asarray(argument)
        if value.dtype.name not in _TYPES:
            raise TypeError(f"argument {at} is of {value.dtype}; there are: {', '.join(_TYPES)}")
        lines = [f'type = "{_TYPES[value.dtype.name]}"']
        if value.ndim == 0:
            self.arrays.append(None)
            return [*lines, f"value = {_quoted(str(value.item()))}"]
        self.arrays.append(value)
        np.save(self.dir / f"{at}.npy", np.ascontiguousarray(value))
        lines += [f"shape = [{', '.join(str(size) for size in value.shape)}]", f'fill = "{at}.npy"']
        if wanted is not None or unchecked:
            lines.append("output = true")
        if wanted is not None:
            right = np.ascontiguousarray(np.asarray(wanted, dtype=value.dtype).reshape(value.shape))
            np.save(self.dir / f"{at}-right.npy", right)
            lines.append(f'expected = "{at}-right.npy"')
            if right.dtype.kind in "fc":
                # Kernel Tuner's is an absolute difference, ours a share of the mean.
                mean = float(np.mean(np.abs(right.astype(np.float64)))) or 1.0
                lines.append(f"tolerance = {min(max(1e-5 + atol / mean, 1e-5), 0.5)!r}")
        return lines

    def opened(self, study: Study, timeout: float) -> NativeKernel:
        """What runs points of the study."""
        return NativeKernel(
            self.kernel,
            self.described,
            study._values.written(),
            constraints=study._given["constraints"],
            listed=study._given["listed"],
            child=[sys.executable, "-m", "trimtab"],
            built=self.dir / "built",
            timeout=timeout,
        )

    def results(self, outputs: Sequence[tuple[int, Path]], arguments: Sequence[Any]) -> list[Any]:
        """The arguments after a run: arrays with what the kernel wrote."""
        written = dict(outputs)
        return [
            argument
            if (array := self.arrays[at]) is None or at not in written
            else np.fromfile(written[at], dtype=array.dtype).reshape(array.shape)
            for at, argument in enumerate(arguments)
        ]

    def forget(self) -> None:
        """Removes what was written."""
        shutil.rmtree(self.dir, ignore_errors=True)


def _rules(restrictions: Any) -> Where:
    if restrictions is None:
        return None
    rules = [restrictions] if isinstance(restrictions, str) or callable(restrictions) else list(restrictions)
    return [rule.replace("&&", " and ").replace("||", " or ") if isinstance(rule, str) else rule for rule in rules]


def tune_kernel(
    kernel_name: str,
    kernel_source: Any,
    problem_size: Any,
    arguments: Sequence[Any],
    tune_params: Mapping[str, Sequence[Any]],
    grid_div_x: Any = None,
    grid_div_y: Any = None,
    grid_div_z: Any = None,
    restrictions: Any = None,
    answer: Sequence[Any] | None = None,
    atol: float = 1e-6,
    verify: Callable[..., bool] | None = None,
    verbose: bool = False,
    lang: str | None = None,
    device: int | str = 0,
    platform: int = 0,
    smem_args: None = None,
    cmem_args: None = None,
    texmem_args: None = None,
    compiler: str | None = None,
    compiler_options: Sequence[str] | None = None,
    defines: None = None,
    log: None = None,
    iterations: int = 7,
    block_size_names: Sequence[str] | None = None,
    quiet: bool = False,
    strategy: str | None = None,
    strategy_options: Mapping[str, Any] | None = None,
    cache: None = None,
    metrics: Mapping[str, Callable[[dict[str, Any]], Any]] | None = None,
    simulation_mode: None = None,
    parallel: None = None,
    observers: None = None,
    objective: str | None = None,
    objective_higher_is_better: bool | None = None,
    objectives: None = None,
    seed: int | None = None,
    *,
    timeout: float = 30.0,
    evals: int | None = None,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Finds the fastest settings of a kernel; arguments are Kernel Tuner's. Gives all results, each with ``time`` in milliseconds, and what
    they were measured on.

    The language is OpenCL C, CUDA C (which takes NVIDIA's driver and NVRTC), C, C++ or WGSL, by ``lang`` or by the source. Arrays are
    NumPy's and keep their contents; numbers have a type (``numpy.int32(n)``). ``answer`` has what outputs are compared with, ``None`` for others; ``verify`` compares instead, as
    ``verify(answer, results, atol=atol)``. Without ``strategy`` every point is measured, as
    by Kernel Tuner; ``"auto"`` searches, and ``evals`` or ``strategy_options["max_fevals"]`` say how many points are measured at most.
    ``time`` is the smallest of the runs, of which the best five settings get more in the end; settings that fail have ``__error__`` and
    ``failure`` in its place. A point that crashes or hangs (``timeout`` in seconds) costs one point. Ctrl-C ends the search and gives
    what is known.

    >>> import numpy as np, trimtab as tt
    >>> source = "void twice(float *x, int n) { for (int i = 0; i < n; i += step) for (int j = i; j < i + step; j++) x[j] *= 2; }"
    >>> arguments, answer = [np.ones(64, np.float32), np.int32(64)], [np.full(64, 2, np.float32), None]
    >>> results, env = tt.tune_kernel("twice", source, 64, arguments, {"step": [8, 64]}, answer=answer, lang="C", quiet=True)
    >>> sorted(result["step"] for result in results), env["best_config"]["time"] > 0
    ([8, 64], True)
    """
    _refuse(
        smem_args=smem_args, cmem_args=cmem_args, texmem_args=texmem_args, defines=defines, cache=cache, simulation_mode=simulation_mode,
        parallel=parallel, observers=observers, objectives=objectives, objective=None if objective == "time" else objective,
        objective_higher_is_better=objective_higher_is_better, platform=platform, device=_numbered(device),
    )  # fmt: skip
    if strategy is not None and strategy not in _STRATEGIES and strategy not in _OURS:
        raise ValueError(f"there is no strategy {strategy!r}; there are: {', '.join(_OURS)}, and Kernel Tuner's")
    options = dict(strategy_options or {})
    limit = float(options.get("time_limit") or inf)
    study = Study(
        tune_params, where=_rules(restrictions), strategy=_STRATEGIES.get(strategy, strategy or "auto"), seed=seed or 0, unit="s"
    )
    most = evals or options.get("max_fevals") or (max(1, round(options["fraction"] * study.size)) if "fraction" in options else None)
    if most is None:
        most = max(1, study.size // 10) if strategy == "random_sample" else 100 if strategy in _OURS[:-1] else study.size
    described = _Described(
        kernel_name, kernel_source, problem_size, arguments, tune_params, (grid_div_x, grid_div_y, grid_div_z), answer, atol,
        verify is not None, lang, device if isinstance(device, str) else None, compiler, compiler_options, block_size_names,
    )  # fmt: skip
    results: list[dict[str, Any]] = []
    ids: list[int] = []
    began = time.monotonic()

    def timed(result: dict[str, Any], samples: Sequence[float]) -> None:
        times = [*result.get("times", []), *(sample * 1e3 for sample in samples)]
        result |= {"time": min(times), "times": times}
        result |= {name: metric(result) for name, metric in (metrics or {}).items()}

    try:
        kernel = described.opened(study, timeout)
        best: tuple[int, float, int] | None = None
        while len(study) < most and time.monotonic() - began < limit:
            trial = study.ask()
            if trial is None:
                break
            ran = json.loads(kernel.measure(trial.id, iterations, best))
            if verify is not None and "value" in ran:
                after = described.results(kernel.outputs(trial.id), arguments)
                looked_at = after if answer is None else [one if right is not None else None for one, right in zip(after, answer)]
                if not verify(answer, looked_at, atol=atol):
                    ran = {"failure": "verify says that the result is wrong", "failure_kind": "wrong"}
            result: dict[str, Any] = dict(trial.settings)
            if "value" in ran:
                study.tell(trial, ran["samples"])
                if best is None or ran["value"] < best[1]:
                    best = (trial.id, ran["value"], len(ran["samples"]))
                timed(result, ran["samples"])
            else:
                study.fail(trial, ran["failure"], ran["failure_kind"])
                result |= {"__error__": _FAILED.get(ran["failure_kind"], "RuntimeFailedConfig"), "failure": ran["failure"]}
            results.append(result)
            ids.append(trial.id)
            if verbose or not quiet:
                _say(result, tune_params, verbose)
        # Each was measured at another time, and the machine may have been busy then: those that came close run off, in turns.
        close = sorted((pair for pair in zip(results, ids) if "time" in pair[0]), key=lambda pair: float(pair[0]["time"]))
        close = [pair for pair in close[:_FINALISTS] if pair[0]["time"] < _CLOSE * close[0][0]["time"]]
        for _ in range(_ROUNDS if len(close) > 1 and time.monotonic() - began < limit else 0):
            for result, id in close:
                ran = json.loads(kernel.measure(id, iterations, None))
                if "value" in ran:
                    timed(result, ran["samples"])
                    study.again(Trial(id, {name: result[name] for name in tune_params}), ran["samples"])
    except KeyboardInterrupt:
        pass
    finally:
        described.forget()
    env: dict[str, Any] = {"device_name": device if isinstance(device, str) else "", "evaluations": len(study), "space": study.size,
           "seconds": time.monotonic() - began}  # fmt: skip
    ran_well = [result for result in results if "time" in result]
    if ran_well:
        env["best_config"] = min(ran_well, key=lambda result: float(result["time"]))
        if not quiet:
            print("best performing configuration:")
            _say(env["best_config"], tune_params, True)
    elif results:
        first = results[0].get("failure")
        raise RuntimeError(f"no configuration of {kernel_name} ran; the first failed so: {first}")
    return results, env


def _numbered(device: int | str) -> int:
    """The number a device is given by, but for the first: others are given by their names, which ``trimtab devices`` lists."""
    return 0 if isinstance(device, str) else device


def _refuse(**given: Any) -> None:
    """Arguments of Kernel Tuner's that mean nothing here are an error, not passed over."""
    for name, value in given.items():
        if value:
            raise ValueError(f"{name} is not supported; docs/python.md says what is")


def _say(result: dict[str, Any], tune_params: Mapping[str, Any], failures: bool) -> None:
    settings = ", ".join(f"{name}={result[name]}" for name in tune_params)
    if "time" in result:
        print(f"{settings}, time={result['time']:.3f}ms")
    elif failures:
        print(f"{settings}, {result['__error__']}: {result['failure']}")


def run_kernel(
    kernel_name: str,
    kernel_source: Any,
    problem_size: Any,
    arguments: Sequence[Any],
    params: Mapping[str, Any],
    grid_div_x: Any = None,
    grid_div_y: Any = None,
    grid_div_z: Any = None,
    lang: str | None = None,
    device: int | str = 0,
    platform: int = 0,
    smem_args: None = None,
    cmem_args: None = None,
    texmem_args: None = None,
    compiler: str | None = None,
    compiler_options: Sequence[str] | None = None,
    defines: None = None,
    block_size_names: Sequence[str] | None = None,
    quiet: bool = False,
    log: None = None,
    *,
    timeout: float = 30.0,
) -> list[Any]:
    """Runs a kernel once with these settings; the arguments afterwards, arrays with what the kernel wrote.

    >>> import numpy as np, trimtab as tt
    >>> source = "void twice(float *x, int n) { for (int i = 0; i < n; i++) x[i] *= factor; }"
    >>> tt.run_kernel("twice", source, 3, [np.ones(3, np.float32), np.int32(3)], {"factor": 2}, lang="C")[0].tolist()
    [2.0, 2.0, 2.0]
    """
    _refuse(
        smem_args=smem_args, cmem_args=cmem_args, texmem_args=texmem_args, defines=defines, platform=platform, device=_numbered(device)
    )
    study = Study({name: [value] for name, value in params.items()})
    described = _Described(
        kernel_name, kernel_source, problem_size, arguments, {name: [value] for name, value in params.items()},
        (grid_div_x, grid_div_y, grid_div_z), None, 0.0, False, lang, device if isinstance(device, str) else None, compiler,
        compiler_options, block_size_names,
    )  # fmt: skip
    try:
        return described.results(described.opened(study, timeout).outputs(0), arguments)
    finally:
        described.forget()


