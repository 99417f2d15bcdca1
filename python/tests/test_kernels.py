"""Kernels as Kernel Tuner's programs give them: strategies, sources, includes, grids by callables, definitions, objectives, caches."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimtab as tt
import trimtab.kernel_tuner as kernel_tuner

OPENCL = pytest.mark.skipif(not list(Path("/etc/OpenCL/vendors").glob("*")), reason="not run: no OpenCL driver on this machine")
# Kernel Tuner 1.5's, by its interface.py.
STRATEGIES = """
    brute_force random_sample minimize basinhopping diff_evo genetic_algorithm greedy_mls ordered_greedy_mls greedy_ils dual_annealing mls
    pso simulated_annealing skopt firefly_algorithm bayes_opt pyatf_strategies hybrid_vndx adaptive_tabu_greywolf nsga2 nsga3
""".split()

SCALE = "void scale(float *x, int n) { for (int i = 0; i < n; i++) x[i] = x[i] * factor + 0 * block; }"


def scaled(**more: Any) -> Any:
    """A search of six points in C; whoever scales by two is right."""
    arguments, answer = [np.ones(64, np.float32), np.int32(64)], [np.full(64, 2, np.float32), None]
    given: dict[str, Any] = {"lang": "C", "quiet": True, "answer": answer, "iterations": 2}
    given |= more
    space = {"factor": [1, 2], "block": [1, 2, 4]}
    return kernel_tuner.tune_kernel("scale", given.pop("source", SCALE), 64, arguments, space, **given)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_of_kernel_tuner_searches(strategy: str) -> None:
    results, env = scaled(strategy=strategy, strategy_options={"max_fevals": 4, "popsize": 4}, compiler_options=["-O0"])
    assert 1 <= len(results) <= 4 and env["evaluations"] == len(results)
    assert all((result["factor"] == 2) == ("time" in result) for result in results)


def test_strategies_that_are_not_there_are_told() -> None:
    with pytest.raises(ValueError, match="no strategy 'best'; there are: auto"):
        scaled(strategy="best")
    with pytest.raises(ValueError, match="Study, which is asked and told"):
        scaled(strategy=object())


def test_includes_are_found_beside_the_caller_and_beside_the_file(tmp_path: Path, monkeypatch: Any) -> None:
    here, there = tmp_path / "with a space", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "near.h").write_text("#define TWO 2\n")
    (there / "far.h").write_text("#include <stdint.h>\ninline uint64_t two() { return TWO; }\n")
    (there / "kernel.cc").write_text('#include "near.h"\n#include "far.h"\n' + SCALE.replace("factor", "(two() * factor)"))
    monkeypatch.chdir(here)
    given: dict[str, Any] = {"arguments": [np.ones(3, np.float32), np.int32(3)], "params": {"factor": 1, "block": 1}}
    for source in ("../there/kernel.cc", there / "kernel.cc", ["../there/kernel.cc", "near.h"]):
        assert kernel_tuner.run_kernel("scale", source, 3, lang="C", **given)[0].tolist() == [2.0] * 3
    text = '#include "near.h"\n' + SCALE.replace("factor", "TWO")
    assert kernel_tuner.run_kernel("scale", text, 3, **given)[0].tolist() == [2.0] * 3
    with pytest.raises(FileNotFoundError, match="nothing.cc"):
        kernel_tuner.run_kernel("scale", "nothing.cc", 3, **given)
    with pytest.raises(ValueError, match="names of files that the first includes"):
        kernel_tuner.run_kernel("scale", [text, "nothing.h"], 3, **given)


@OPENCL
def test_includes_are_found_in_opencl(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "two.h").write_text("#define TWO 2\n")
    monkeypatch.chdir(tmp_path / "a b")
    source = '#include "two.h"\n__kernel void fill(__global float *x) { x[get_global_id(0)] = TWO; }'
    ran = kernel_tuner.run_kernel("fill", source, 8, [np.zeros(8, np.float32)], {"block_size_x": 4})
    assert ran[0].tolist() == [2.0] * 8


def test_c_is_compiled_as_kernel_tuner_does_and_openmp_is_there() -> None:
    source = """
    #include <omp.h>
    typedef float lanes __attribute__((vector_size(vector * 4)));
    float sum(lanes *c, lanes *a, int n) {
        double start = omp_get_wtime();
        #pragma omp parallel num_threads(nthreads)
        for (int i = omp_get_thread_num(); i < n / vector; i += nthreads) c[i] = a[i] + a[i];
        return (float)((omp_get_wtime() - start) * 1e3);
    }
    """
    a = np.arange(256, dtype=np.float32)
    space = {"nthreads": [1, 2], "vector": [1, 4]}
    for options in (None, ["-O3", "-fopenmp"], ["-O1"]):
        results, _ = kernel_tuner.tune_kernel(
            "sum", source, 256, [np.zeros_like(a), a, np.int32(256)], space, answer=[2 * a, None, None], compiler_options=options,
            quiet=True,
        )  # fmt: skip
        assert len(results) == 4 and all(result["time"] > 0 for result in results), results
    is_c = "void which(int *x) { x[0] = sizeof('a'); }"
    which: dict[str, Any] = {"arguments": [np.zeros(1, np.int32)], "params": {}}
    assert kernel_tuner.run_kernel("which", is_c, 1, **which)[0][0] == 1
    assert kernel_tuner.run_kernel("which", is_c, 1, compiler="gcc", **which)[0][0] == 4
    assert kernel_tuner.run_kernel("which", is_c.replace("*x", "*restrict x"), 1, **which)[0][0] == 4


def test_grids_and_sizes_are_callables_and_parts() -> None:
    source = "void groups(int *x) { x[0] = grid_size_x; x[1] = grid_size_y; x[2] = block_size_x; }"

    def ran(size: Any, **more: Any) -> list[int]:
        x = [np.zeros(3, np.int32)]
        return list(kernel_tuner.run_kernel("groups", source, size, x, {"block_size_x": 16, "n": 100}, lang="C", **more)[0])

    assert ran((100, 7)) == [7, 7, 16]
    assert ran(lambda p: (p["n"], 7)) == [7, 7, 16]
    assert ran(lambda p: p["n"] + 20) == [8, 1, 16]
    assert ran("n", grid_div_x=lambda p: p["block_size_x"] * 2) == [4, 1, 16]
    assert ran("n", grid_div_x=["block_size_x/32"]) == [200, 1, 16]
    assert ran(("n", "n*2"), grid_div_x=[], grid_div_y=[lambda p: 10, "block_size_x"]) == [100, 2, 16]
    x = [np.zeros(3, np.int32)]
    results, env = kernel_tuner.tune_kernel(
        "groups", source, lambda p: p["n"], x, {"block_size_x": [16, 32], "n": [32, 64, 96]}, restrictions=["n > 32"], lang="C",
        verify=lambda answer, after: after[0][0] * after[0][2] == 96, answer=[x[0]], quiet=True,
    )  # fmt: skip
    assert env["space"] == 4 and {one["n"] for one in results if "time" in one} == {96}
    assert sorted(results[0]) == ["block_size_x", "n", "time", "times"] or "failure" in results[0]


def test_sources_are_written_by_callables() -> None:
    def written(point: dict[str, Any]) -> str:
        return f"#pragma once\nvoid scale(float *x, int n) {{ for (int i = 0; i < n; i++) x[i] *= {point['factor']}; }}"

    results, _ = scaled(source=written)
    assert len(results) == 6 and all((one["factor"] == 2) == ("time" in one) for one in results)
    with pytest.raises(ValueError, match="say which language"):
        scaled(source=written, lang=None)


@OPENCL
def test_sources_sizes_and_definitions_of_opencl_are_made_for_each_point() -> None:
    def written(point: dict[str, Any]) -> str:
        return f"__kernel void fill(__global int *x) {{ x[get_group_id(0) * {point['block_size_x']} + get_local_id(0)] = N; }}"

    results, _ = kernel_tuner.tune_kernel(
        "fill", written, lambda p: 64, [np.zeros(64, np.int32)], {"block_size_x": [8, 16, 32]}, answer=[np.full(64, 6, np.int32)],
        defines={"N": "2 * 3"}, lang="OpenCL", quiet=True,
    )  # fmt: skip
    assert [one["block_size_x"] for one in results if "time" in one] == [8, 16, 32], results


def test_definitions_are_what_the_caller_says() -> None:
    source = "void fill(float *x) { x[0] = FACTOR; x[1] = TWICE; x[2] = FIXED; x[3] = DEFINED; }\n"
    source = "#ifdef factor\n#define DEFINED 1\n#else\n#define DEFINED 0\n#endif\n" + source
    defines = {"FACTOR": "factor", "TWICE": lambda p: 2 * p["factor"], "FIXED": 7}
    ran = kernel_tuner.run_kernel("fill", source, 1, [np.zeros(4, np.float32)], {"factor": 3}, lang="C", defines=defines)
    assert ran[0].tolist() == [3.0, 6.0, 7.0, 0.0]
    with pytest.raises(ValueError, match="is no name"):
        kernel_tuner.run_kernel("fill", source, 1, [np.zeros(4, np.float32)], {"factor": 3}, lang="C", defines={"a b": 1})


def test_texts_are_parameters() -> None:
    results, _ = kernel_tuner.tune_kernel(
        "fill", "void fill(float *x) { number y = 2.5; x[0] = y; }", 1, [np.zeros(1, np.float32)], {"number": ["float", "double", "int"]},
        answer=[np.full(1, 2.5, np.float32)], lang="C", quiet=True,
    )  # fmt: skip
    assert {one["number"] for one in results if "time" in one} == {"float", "double"}


def test_objectives_lead_the_search_and_say_what_is_best() -> None:
    metrics = {"speed": lambda p: p["block"] * 10.0, "twice": "2 * speed", "GB/s": lambda p: 8.0 / p["block"]}
    for more, best in (
        ({"objective": "speed", "objective_higher_is_better": True}, 4),
        ({"objective": "twice", "objective_higher_is_better": False}, 1),
        ({"objective": "GB/s"}, 1),
        ({"objectives": {"speed": True}}, 4),
    ):
        results, env = scaled(metrics=metrics, **more)
        assert env["best_config"]["block"] == best and env["best_config"]["factor"] == 2, more
        assert env["best_config"]["twice"] == 20.0 * best and len(results) == 6
    _, env = scaled(metrics=metrics, objective=["speed", "GB/s"], objective_higher_is_better=[True, True], quiet=False)
    assert {one["block"] for one in env["best_config"]} == {1, 2, 4}
    _, env = scaled(metrics=metrics, objectives={"speed": True, "GB/s": False})
    assert [one["block"] for one in env["best_config"]] == [4]
    for wrong, told in (
        ({"objective": "speed"}, "say with objective_higher_is_better"),
        ({"objective": "nothing", "objective_higher_is_better": True}, "neither time nor one of the metrics"),
        ({"objective": "time", "objectives": {"time": False}}, "not both"),
    ):
        with pytest.raises(ValueError, match=told):
            scaled(metrics=metrics, **wrong)


def test_a_cache_keeps_results_and_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    first, _ = scaled(cache=path, strategy="brute_force", strategy_options={"max_fevals": 4}, metrics={"GFLOP/s": "1 / time"})
    known = json.loads((tmp_path / "kept.json").read_text())
    assert known["tune_params_keys"] == ["factor", "block"] and len(known["cache"]) == 4
    for one in first:
        kept = known["cache"][f"{one['factor']},{one['block']}"]
        assert kept["time"] == one.get("time", one.get("__error__")) and kept.get("GFLOP/s") == one.get("GFLOP/s")
    # What is known is not measured: it would fail now.
    whole, _ = scaled(cache=f"{path}.json")
    assert len(whole) == 6
    again, env = scaled(cache=path, source=SCALE.replace("factor", "nothing_of_that_name"))
    assert [one.get("time") for one in again] == [one.get("time") for one in whole] and env["evaluations"] == 6
    assert [one.get("__error__") for one in again] == [one.get("__error__") for one in whole]
    # As Kernel Tuner leaves it when it is ended.
    text = json.dumps(known)
    (tmp_path / "open.json").write_text(text[: text.rindex("}}")] + ",")
    again, _ = scaled(cache=tmp_path / "open", strategy="brute_force", strategy_options={"max_fevals": 4})
    assert [one.get("time") for one in again] == [one.get("time") for one in first]
    with pytest.raises(ValueError, match="another call: its kernel_name"):
        (tmp_path / "kept.json").write_text(json.dumps(known | {"kernel_name": "other"}))
        scaled(cache=path)
    with pytest.raises(ValueError, match="no cache of results"):
        (tmp_path / "kept.json").write_text("[]")
        scaled(cache=path)


def test_what_is_not_supported_is_refused_with_what_to_do_instead() -> None:
    page = (Path(__file__).parents[2] / "docs/python.md").read_text()
    for name, told in (
        ("smem_args", "give the array in the source a size"),
        ("cmem_args", "as one of the arguments"),
        ("texmem_args", "as arrays among the arguments"),
        ("simulation_mode", "with cache"),
        ("parallel", "one at a time"),
        ("observers", "metrics"),
        ("platform", "name"),
    ):
        with pytest.raises(ValueError, match=f"{name} is not supported: .*{told}"):
            scaled(**{name: {"a": 1}})
        assert re.search(rf"`{name}`", page), f"docs/python.md does not name {name}"


def test_tune_kernel_is_the_same_by_both_names() -> None:
    assert kernel_tuner.tune_kernel is tt.tune_kernel and kernel_tuner.run_kernel is tt.run_kernel
