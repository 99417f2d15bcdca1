"""Kernels in OpenCL C, CUDA C, C, C++ and WGSL, tuned with Kernel Tuner's argument names. Every point runs in a child process and is checked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from os import PathLike
from typing import Any

from ._described import Described, Grid
from ._kernel_results import Cache, Objective, verifier
from ._kernel_source import Source
from ._study import Study, Trial, Where

# Kernel Tuner's strategies, all of 1.5, as the nearest of ours by what they do.
_STRATEGIES = {
    None: "sweep",
    "brute_force": "sweep",
    "random_sample": "random",
    "bayes_opt": "model",
    "skopt": "model",
    "genetic_algorithm": "evolve",
    "diff_evo": "evolve",
    "pso": "evolve",
    "firefly_algorithm": "evolve",
    "adaptive_tabu_greywolf": "evolve",
    "nsga2": "evolve",
    "nsga3": "evolve",
    "simulated_annealing": "anneal",
    "dual_annealing": "anneal",
    "basinhopping": "anneal",
    "greedy_ils": "hill",
    "greedy_mls": "hill",
    "ordered_greedy_mls": "hill",
    "minimize": "hill",
    "mls": "hill",
    "hybrid_vndx": "hill",
    # Which of several looks next is learned from what they found.
    "pyatf_strategies": "auto",
}
_OURS = ("auto", "model", "hill", "evolve", "anneal", "halving", "natural", "random", "sweep")
# How many run off in the end, how close they must have come, and how often each runs.
_FINALISTS, _CLOSE, _ROUNDS = 5, 1.5, 3
# Kernel Tuner's words for what failed.
_FAILED = {"compile": "CompilationFailedConfig", "start": "InvalidConfig"}


def _rules(restrictions: Any, listed: bool) -> Where:
    rules = [] if restrictions is None else [restrictions] if isinstance(restrictions, str) or callable(restrictions) else restrictions
    where = [rule.replace("&&", " and ").replace("||", " or ") if isinstance(rule, str) else rule for rule in rules]
    # A callable among them makes the study list its points.
    return [*where, _everything] if listed else where or None


def _everything(_all: Any) -> bool:
    return True


def _searched(strategy: Any) -> str:
    """One of our strategies, by its name or by one of Kernel Tuner's."""
    if strategy is not None and not isinstance(strategy, str):
        raise ValueError("a strategy is given by its name; for one of your own use trimtab.Study, which is asked and told")
    if strategy not in _STRATEGIES and strategy not in _OURS:
        raise ValueError(f"there is no strategy {strategy!r}; there are: {', '.join(_OURS)}, and Kernel Tuner's")
    return _STRATEGIES.get(strategy, strategy or "auto")


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
    defines: Mapping[str, Any] | None = None,
    log: None = None,
    iterations: int = 7,
    block_size_names: Sequence[str] | None = None,
    quiet: bool = False,
    strategy: str | None = None,
    strategy_options: Mapping[str, Any] | None = None,
    cache: str | PathLike[str] | None = None,
    metrics: Mapping[str, str | Callable[[dict[str, Any]], Any]] | None = None,
    simulation_mode: None = None,
    parallel: None = None,
    observers: None = None,
    objective: str | Sequence[str] | None = None,
    objective_higher_is_better: bool | Sequence[bool] | None = None,
    objectives: Mapping[str, bool] | None = None,
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
        smem_args=smem_args, cmem_args=cmem_args, texmem_args=texmem_args, simulation_mode=simulation_mode, parallel=parallel,
        observers=observers, platform=platform, device=_numbered(device),
    )  # fmt: skip
    wanted = Objective(objective, objective_higher_is_better, objectives, metrics)
    looks = verifier(verify)
    options = dict(strategy_options or {})
    limit = float(options.get("time_limit") or inf)
    source = Source(kernel_source, lang, compiler)
    grid = Grid(problem_size, (grid_div_x, grid_div_y, grid_div_z), block_size_names, list(tune_params))
    is_computed = source.written is not None or defines is not None or grid.is_computed
    study = Study(
        tune_params, where=_rules(restrictions, is_computed), strategy=_searched(strategy), seed=seed or 0,
        unit="s" if wanted.is_time else "", maximise=wanted.maximise,
    )  # fmt: skip
    most = evals or options.get("max_fevals") or (max(1, round(options["fraction"] * study.size)) if "fraction" in options else None)
    if most is None:
        most = max(1, study.size // 10) if strategy == "random_sample" else 100 if strategy in _OURS[:-1] else study.size
    kept = None if cache is None else Cache(cache, kernel_name, problem_size, tune_params, wanted)
    described = Described(
        kernel_name, source, grid, arguments, study, answer=answer, atol=atol, verified=verify is not None,
        device=device if isinstance(device, str) else None, compiler=compiler, compiler_options=compiler_options, defines=defines,
    )  # fmt: skip
    results: list[dict[str, Any]] = []
    ids: list[int] = []
    began = time.monotonic()
    measured = 0
    try:
        kernel = described.opened(timeout)
        fastest: tuple[int, float, int] | None = None
        while len(study) < most and time.monotonic() - began < limit:
            trial = study.ask()
            if trial is None:
                break
            known = None if kept is None else kept.find(trial.settings)
            result: dict[str, Any] = dict(trial.settings)
            if known is not None:
                result = known
                if "time" in result:
                    wanted.complete(result, [])
            else:
                measured += 1
                ran = kernel.measure(trial.id, iterations, fastest)
                if looks is not None and "value" in ran:
                    after = described.results(kernel.outputs(trial.id), arguments)
                    looked_at = after if answer is None else [one if right is not None else None for one, right in zip(after, answer)]
                    if not looks(answer, looked_at, atol=atol):
                        ran = {"failure": "verify says that the result is wrong", "failure_kind": "wrong"}
                if "value" in ran:
                    if fastest is None or ran["value"] < fastest[1]:
                        fastest = (trial.id, ran["value"], len(ran["samples"]))
                    wanted.complete(result, ran["samples"])
                else:
                    result |= {"__error__": _FAILED.get(ran["failure_kind"], "RuntimeFailedConfig"), "failure": ran["failure"]}
                    result |= {"failure_kind": ran["failure_kind"]}
            if "time" in result:
                study.tell(trial, [time / 1e3 for time in result["times"]] if wanted.is_time else wanted.value(result))
            else:
                study.fail(trial, result["failure"], result.pop("failure_kind", "told"))
            results.append(result)
            ids.append(trial.id)
            if kept is not None and known is None:
                kept.keep([result], at_once=False)
            if verbose or not quiet:
                _say(result, tune_params, verbose)
        # Each was measured at another time, and the machine may have been busy then: those that came close run off, in turns.
        close = sorted((pair for pair in zip(results, ids) if "time" in pair[0]), key=lambda pair: float(pair[0]["time"]))
        close = [pair for pair in close[:_FINALISTS] if pair[0]["time"] < _CLOSE * close[0][0]["time"]]
        for _ in range(_ROUNDS if len(close) > 1 and measured and time.monotonic() - began < limit else 0):
            for result, id in close:
                ran = kernel.measure(id, iterations, None)
                if "value" in ran:
                    wanted.complete(result, ran["samples"])
                    if wanted.is_time:
                        study.again(Trial(id, {name: result[name] for name in tune_params}), ran["samples"])
        if kept is not None:
            kept.keep([result for result, _ in close], at_once=True)
    except KeyboardInterrupt:
        if kept is not None:
            kept.keep([], at_once=True)
    finally:
        described.forget()
    env: dict[str, Any] = {"device_name": device if isinstance(device, str) else "", "evaluations": len(study), "space": study.size,
           "seconds": time.monotonic() - began}  # fmt: skip
    ran_well = [result for result in results if "time" in result]
    if ran_well:
        env["best_config"] = wanted.best(ran_well)
        if not quiet:
            print("best performing configuration:" if len(wanted.higher) == 1 else "configurations that no other surpasses:")
            for result in [env["best_config"]] if len(wanted.higher) == 1 else env["best_config"]:
                _say(result, [*tune_params, *wanted.higher], True)
    elif results:
        first = results[0].get("failure")
        raise RuntimeError(f"no configuration of {kernel_name} ran; the first failed so: {first}")
    return results, env


def _numbered(device: int | str) -> int:
    """The number a device is given by, but for the first: others are given by their names, which ``trimtab devices`` lists."""
    return 0 if isinstance(device, str) else device


# Arguments of Kernel Tuner's that mean nothing here are an error, not passed over; what to do instead.
_REFUSED = {
    "smem_args": "give the array in the source a size, of parameters",
    "cmem_args": "pass constant memory as one of the arguments",
    "texmem_args": "pass textures as arrays among the arguments",
    "simulation_mode": "with cache, what is known is not measured again",
    "parallel": "points are compiled in parallel, and measured one at a time",
    "observers": "points run in a child process, of which times are known; metrics computes from them",
    "platform": "give device a name; `trimtab devices` lists them",
    "device": "give device a name; `trimtab devices` lists them",
}


def _refuse(**given: Any) -> None:
    for name, value in given.items():
        if value:
            raise ValueError(f"{name} is not supported: {_REFUSED[name]} (docs/python.md)")


def _say(result: Mapping[str, Any], shown: Iterable[str], failures: bool) -> None:
    told = ", ".join(f"{name}={result[name]}" for name in shown if name != "time" and name in result)
    if "time" in result:
        print(f"{told}, time={result['time']:.3f}ms")
    elif failures:
        print(f"{told}, {result['__error__']}: {result['failure']}")


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
    defines: Mapping[str, Any] | None = None,
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
    _refuse(smem_args=smem_args, cmem_args=cmem_args, texmem_args=texmem_args, platform=platform, device=_numbered(device))
    source = Source(kernel_source, lang, compiler)
    grid = Grid(problem_size, (grid_div_x, grid_div_y, grid_div_z), block_size_names, list(params))
    study = Study({name: [value] for name, value in params.items()} or {"trimtab_nothing": [0]}, where=_everything)
    described = Described(
        kernel_name, source, grid, arguments, study, device=device if isinstance(device, str) else None, compiler=compiler,
        compiler_options=compiler_options, defines=defines,
    )  # fmt: skip
    try:
        return described.results(described.opened(timeout).outputs(0), arguments)
    finally:
        described.forget()
