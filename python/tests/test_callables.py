"""Callables of every kind: a C function by ctypes beside NumPy, settings under constraints and keys, what the next process remembers."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimtab as tt

TOTAL_C = """
double total(const double *x, long n) { double sum = 0; for (long i = 0; i < n; i++) sum += x[i]; return sum; }
void scaled(double *out, const double *x, long n, long block) {
    for (long start = 0; start < n; start += block)
        for (long i = start; i < start + block && i < n; i++) out[i] = 2 * x[i];
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: Any) -> ctypes.CDLL:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("not run: no C compiler on this machine")
    place = tmp_path_factory.mktemp("c")
    (place / "total.c").write_text(TOTAL_C)
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", str(place / "total.c"), "-o", str(place / "total.so")], check=True, timeout=60)
    library = ctypes.CDLL(str(place / "total.so"))
    library.total.restype, library.total.argtypes = ctypes.c_double, [ctypes.c_void_p, ctypes.c_long]
    library.scaled.restype, library.scaled.argtypes = None, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_long]
    return library


def test_numpy_python_and_c_compete_and_the_slowest_is_not_chosen(library: ctypes.CDLL) -> None:
    @tt.choose(key=lambda x: x.size, name="test-ctypes")
    def by_loop(x: Any) -> float:
        return float(sum(x.tolist()))

    @by_loop.option
    def by_numpy(x: Any) -> float:
        return float(x.sum())

    @by_loop.option
    def by_c(x: Any) -> float:
        return float(library.total(x.ctypes.data, x.size))

    x = np.ones(50_000)
    with tt.Runtime(wisdom="off", budget="2s"):
        assert [by_loop(x) for _ in range(20)] == [50_000.0] * 20
    assert by_loop.chosen(x) in ("by_numpy", "by_c"), by_loop.explain(x)
    times = {one["option"]: one["ns"] for one in by_loop.explain(x).to_dict()}
    assert times["by_c"] and times["by_numpy"] and times["by_loop"] > min(times["by_c"], times["by_numpy"])


def test_settings_of_a_c_function_keep_to_constraints_and_keys(library: ctypes.CDLL) -> None:
    tried: list[tuple[int, int]] = []

    def doubled(x: Any) -> Any:
        return 2 * x

    @tt.tune(
        space={"block": [1, 16, 256, 4096], "repeat": [1, 4]},
        where=["block * repeat <= 256", lambda block, repeat: not (block == 1 and repeat == 4)],
        key=lambda x: "large" if x.size > 1000 else "small",
        reference=doubled,
        evals=5,
        name="test-ctypes-tune",
    )
    def scaled(x: Any, *, block: int, repeat: int) -> Any:
        tried.append((block, repeat))
        out = np.empty_like(x)
        for _ in range(repeat):
            library.scaled(out.ctypes.data, x.ctypes.data, x.size, block)
        return out

    for size in (100, 200, 20_000):
        for _ in range(12):
            np.testing.assert_array_equal(scaled(np.ones(size)), np.full(size, 2.0))
    assert set(tried) == {(1, 1), (16, 1), (16, 4), (256, 1)}, set(tried)
    small, large = scaled.study(np.ones(3)), scaled.study(np.ones(5000))
    assert small is scaled.study(np.ones(200)) and small is not large
    assert len(small) == len(large) == small.size == 4
    best = scaled.best(np.ones(5000))
    assert best is not None and best["repeat"] == 1, large


def test_interrupting_a_search_of_settings_keeps_what_is_known() -> None:
    calls = 0

    @tt.tune(space={"a": range(20)}, evals=20, name="test-interrupted")
    def slow(*, a: int) -> int:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return 1

    assert slow.search() is not None and len(slow.study()) == 3
    # The settings that were interrupted are not to blame: they come again.
    slow.search()
    assert len(slow.study()) == 20 and not any("failure" in one for one in slow.study().evaluations)


REMEMBERED = """
import sys, time, numpy as np, trimtab as tt

calls = {"slow": 0, "quick": 0}

@tt.choose(key=lambda x: x.size, name="test-remembered")
def slow(x):
    calls["slow"] += 1
    time.sleep(0.005)
    return float(x.size)

@slow.option
def quick(x):
    calls["quick"] += 1
    return float(x.size)

@tt.tune(space={"ms": [4, 1, 8]}, evals=3, name="test-remembered-tune")
def waits(*, ms):
    calls.setdefault("ms", []).append(ms)
    time.sleep(ms / 1e3)

for _ in range(15):
    assert slow(np.ones(10)) == 10.0
    waits()
print(calls["slow"], calls["quick"], slow.chosen(np.ones(10)), sorted(set(calls["ms"])), waits.best())
"""


def test_what_one_process_finds_of_callables_the_next_begins_with(tmp_path: Path) -> None:
    environment = os.environ | {"TRIMTAB_WISDOM_DIR": str(tmp_path), "TRIMTAB_BUDGET": "2s"}
    said = []
    for _ in range(2):
        words = [sys.executable, "-c", textwrap.dedent(REMEMBERED)]
        ran = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=120)
        assert ran.returncode == 0, ran.stderr
        said.append(ran.stdout.strip())
        time.sleep(0.1)
    assert said[0].endswith("quick [1, 4, 8] {'ms': 1}"), said
    # The second asks the slow one at most for what is right, and tries no settings any more.
    assert said[1].endswith("quick [1] {'ms': 1}") and int(said[1].split()[0]) <= 2, said
