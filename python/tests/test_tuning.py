"""Choosing and tuning Python's callables, studies, kernels in files, runtimes."""

from __future__ import annotations

import ctypes.util
import json
import logging
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import xml.dom.minidom
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimtab as tt


def test_a_study_finds_the_best_and_can_be_pickled_and_shown() -> None:
    study = tt.Study({"a": range(1, 21), "b": range(1, 21)}, where=lambda a, b: a + b < 30, seed=3)
    best = study.run(lambda a, b: (a - 13) ** 2 + (b - 5) ** 2 + 1.0, evals=60)
    assert best is not None and best["settings"] == {"a": 13, "b": 5} and best["value"] == 1.0
    again: tt.Study = pickle.loads(pickle.dumps(study))
    assert again.best == study.best and len(again) == len(study) == 60
    told = study.to_dict()
    assert len(told["evaluations"]) == 60 and json.dumps(told)
    assert "<svg" in study._repr_html_() and "13" in repr(study) and study.svg().count("<circle") == 60


def test_a_study_keeps_failures_and_objects_and_goes_on_where_it_ended(tmp_path: Path) -> None:
    kept = tmp_path / "s.jsonl"
    values = {"way": [np.sin, np.cos], "scale": [1, 2]}

    def objective(way: Any, scale: int) -> float:
        if way is np.sin and scale == 2:
            raise RuntimeError("no")
        return float(way(0.0)) * scale + 1

    first = tt.Study(values, path=kept, strategy="sweep")
    first.run(objective, evals=2)
    del first
    study = tt.Study(values, path=kept, strategy="sweep")
    assert len(study) == 2
    best = study.run(objective, evals=10)
    assert best is not None and best["settings"] == {"way": np.sin, "scale": 1}
    assert [one["failure"] for one in study.evaluations if "failure" in one] == ["RuntimeError: no"]
    assert study.ask() is None
    with pytest.raises(ValueError, match="strategy"):
        tt.Study(values, strategy="nothing")
    with pytest.raises(ValueError, match="no combination"):
        tt.Study({"a": [1, 2]}, where="a > 5")


def test_interrupting_a_search_keeps_what_is_known() -> None:
    study = tt.Study({"a": range(100)})
    calls = 0

    def objective(a: int) -> float:
        nonlocal calls
        calls += 1
        if calls == 5:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        return a + 1.0

    best = study.run(objective, evals=50)
    assert best is not None and len(study) == 4


def test_choosing_finds_the_faster_one_and_never_a_wrong_one() -> None:
    @tt.choose(key=lambda x: x.size, name="test-choose")
    def total(x: Any) -> float:
        time.sleep(0.002)
        return float(x.sum())

    @total.option
    def quick(x: Any) -> float:
        return float(x.sum())

    @total.option
    def wrong(x: Any) -> float:
        return 0.0

    @total.option
    def raising(x: Any) -> float:
        raise RuntimeError("not today")

    x = np.ones(1000)
    # Time enough to try all of them, also on a busy machine.
    with tt.Runtime(wisdom="off", budget="2s"):
        assert [total(x) for _ in range(30)] == [1000.0] * 30
    assert total.chosen(x) == "quick", total.explain(x)
    told = {one["option"]: one for one in total.explain(x).to_dict()}
    assert told["wrong"]["out"] and told["raising"]["out"] and "quick" in str(total.explain(x))

    @tt.choose
    def failing(x: Any) -> float:
        raise LookupError("the caller's mistake")

    with pytest.raises(LookupError, match="the caller's mistake"):
        failing(x)


def test_tuning_a_callable_checks_and_remembers() -> None:
    seen: list[int] = []

    def make() -> Any:
        @tt.tune(space={"sleep": [4, 1, 3], "bad": [False, True]}, reference=lambda x: x * 2, evals=6, name="test-tune")
        def double(x: int, *, sleep: int, bad: bool) -> int:
            seen.append(sleep)
            time.sleep(sleep / 1e3)
            if bad and sleep == 3:
                raise RuntimeError("cannot")
            return x * 2 + bad

        return double

    double = make()
    assert [double(21) for _ in range(20)] == [42] * 20
    assert double.best(21) == {"sleep": 1, "bad": False}
    kinds = {one.get("failure_kind") for one in double.study(21).evaluations}
    assert {"wrong", "exit"} <= kinds
    del double
    seen.clear()
    again = make()
    assert again.best(21) == {"sleep": 1, "bad": False}
    assert again.search(21) == {"sleep": 1, "bad": False} and len(again.study(21)) == 6


ADD = """
__kernel void add(__global float *c, __global const float *a, __global const float *b, const int n) {
    int i = get_group_id(0) * block_size_x + get_local_id(0);
    if (i < n) c[i] = a[i] + b[i];
}
"""
ADD_C = """
void add(float *c, const float *a, const float *b, int n) {
    for (int start = 0; start < n; start += block_size_x)
        for (int i = start; i < start + block_size_x && i < n; i++) c[i] = a[i] + b[i] + (WRONG ? 1 : 0);
}
"""


def arguments(n: int) -> list[Any]:
    rng = np.random.default_rng(0)
    a, b = rng.random(n, np.float32), rng.random(n, np.float32)
    return [np.zeros_like(a), a, b, np.int32(n)]


def test_a_kernel_in_c_is_tuned_and_checked_with_kernel_tuners_names(capsys: Any) -> None:
    import trimtab.kernel_tuner as kernel_tuner

    n = 10_000
    args = arguments(n)
    space = {"block_size_x": [16, 64, 256], "WRONG": [0, 1]}
    answer = [args[1] + args[2], None, None, None]
    results, env = kernel_tuner.tune_kernel(
        "add", ADD_C, n, args, space, lang="C", answer=answer, restrictions=["block_size_x > 16"], verbose=True
    )
    assert len(results) == 4 and env["space"] == 4
    good = [result for result in results if "time" in result]
    assert env["best_config"] in good and json.dumps(results)
    assert [result["__error__"] for result in results if result not in good] == ["RuntimeFailedConfig"] * 2
    assert len(good) == 2 and all(result["WRONG"] == 0 and result["time"] > 0 for result in good)
    assert "best performing configuration" in capsys.readouterr().out
    ran = kernel_tuner.run_kernel("add", ADD_C, n, args, {"block_size_x": 64, "WRONG": 0}, lang="C")
    np.testing.assert_allclose(ran[0], args[1] + args[2], rtol=1e-6)


@pytest.mark.skipif(ctypes.util.find_library("cuda") is not None, reason="not run: there is a CUDA driver")
def test_a_kernel_in_cuda_without_a_driver_says_what_it_takes() -> None:
    source = "__global__ void add(float *c, const float *a, const float *b, int n) { c[threadIdx.x] = a[0] + b[0]; }"
    with pytest.raises((RuntimeError, ValueError), match="NVIDIA's driver"):
        tt.tune_kernel("add", source, 64, arguments(64), {"block_size_x": [32, 64]})


@pytest.mark.skipif(not list(Path("/etc/OpenCL/vendors").glob("*")), reason="not run: no OpenCL driver on this machine")
def test_a_kernel_in_opencl_is_tuned() -> None:
    n = 100_000
    args = arguments(n)
    results, _ = tt.tune_kernel(
        "add", ADD, n, args, {"block_size_x": [32, 64, 128]}, answer=[args[1] + args[2], None, None, None], quiet=True
    )
    assert len(results) == 3 and all(result["time"] > 0 for result in results)
    ran = tt.run_kernel("add", ADD, n, args, {"block_size_x": 64})
    np.testing.assert_allclose(ran[0], args[1] + args[2], rtol=1e-6)


SUMS_C = """
void sums(float *out, const float *x, int n) {
    for (int block = 0; block < grid_size_x; block++) {
        float sum = 0;
        for (int i = block; i < n; i += grid_size_x) sum += x[i];
        out[block] = BAD && block == 1 ? 0 : sum;
    }
}
"""


def test_verify_looks_at_results_instead_of_a_comparison() -> None:
    x = np.ones(1000, np.float32)
    seen: list[tuple[Any, Any]] = []

    def verify(answer: Any, results: Any, atol: float) -> bool:
        seen.append((answer, results))
        return bool(np.isclose(answer[0], results[0].sum(), atol=atol))

    results, env = tt.tune_kernel(
        "sums", SUMS_C, "blocks", [np.zeros(8, np.float32), x, np.int32(x.size)], {"blocks": [2, 4, 8], "BAD": [0, 1]},
        grid_div_x=[], answer=[x.sum(), None, None], verify=verify, lang="C", quiet=True,
    )  # fmt: skip
    assert len(seen) == 6 and seen[0][1][1] is None
    assert [result["BAD"] for result in results if "time" in result] == [0, 0, 0]
    assert {result.get("failure") for result in results if result["BAD"]} == {"verify says that the result is wrong"}
    assert env["best_config"]["BAD"] == 0


SLOW_C = """
#include <unistd.h>
void slow(float *out, int n) { usleep(40000); out[0] = n + step; }
"""


def interrupted(program: str, ready: str, timeout: float = 60.0) -> tuple[str, float]:
    """What a program prints that gets Ctrl-C when it has said that it is ready, and how long it took to end."""
    words = [sys.executable, "-u", "-c", textwrap.dedent(program)]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said: list[str] = []
    assert child.stdout is not None and child.stderr is not None
    for line in child.stdout:
        said.append(line)
        if ready in line:
            break
    child.send_signal(signal.SIGINT)
    began = time.monotonic()
    out, errors = child.communicate(timeout=timeout)
    assert child.returncode == 0, errors
    return "".join(said) + out, time.monotonic() - began


def test_interrupting_the_tuning_of_a_kernel_gives_what_is_known() -> None:
    said, took = interrupted(
        f"""
        import numpy as np, trimtab as tt
        source = {SLOW_C!r}
        results, env = tt.tune_kernel(
            "slow", source, 1, [np.zeros(4, np.float32), np.int32(1)], {{"step": list(range(200))}}, lang="C", iterations=1
        )
        print("kept", len(results), "of", env["space"], env["best_config"]["time"] > 30)
        """,
        "time=",
    )
    kept = int(said.partition("kept ")[2].split()[0])
    assert 1 <= kept < 100 and said.rstrip().endswith("of 200 True"), said
    assert took < 10, took


def test_interrupting_the_tuning_of_a_problem_is_heard_at_once() -> None:
    said, took = interrupted(
        """
        import threading, numpy as np, trimtab as tt
        x = np.ones((64, 64), np.float32)
        tt.matmul(x, x)
        try:
            print("ready")
            tt.tune_problem("matmul:f32:1500x1500x1500", budget="30s")
        except KeyboardInterrupt:
            print("interrupted", float(tt.matmul(x, x)[0, 0]))
        """,
        "ready",
    )
    assert "interrupted 64.0" in said, said
    assert took < 15, took


def test_choosing_is_seen_as_a_plot_with_its_crossovers() -> None:
    @tt.choose(key=lambda x: x.size, name="test-crossover")
    def flat(x: Any) -> float:
        time.sleep(0.003)
        return float(x.size)

    @flat.option
    def grows(x: Any) -> float:
        time.sleep(x.size * 1e-5)
        return float(x.size)

    sizes = (10, 100, 1000)
    with tt.Runtime(wisdom="off", budget="2s"):
        for size in sizes:
            assert [flat(np.ones(size)) for _ in range(12)] == [float(size)] * 12
    times = flat.times()
    assert [size for size, _ in times["flat"]] == [size for size, _ in times["grows"]] == list(sizes)
    assert flat.crossovers() == [(100, 1000, "flat")], times
    drawn = flat.svg()
    assert drawn.count("<polyline") == 2 and drawn.count("<rect") == 1 and "from here on flat" in drawn
    assert drawn in flat._repr_html_()
    xml.dom.minidom.parseString(drawn)


def test_letting_go_of_what_chooses_waits_for_nobody_who_waits_for_us() -> None:
    program = """
        import numpy as np, trimtab as tt
        for turn in range(12):
            with tt.Runtime(wisdom="off", budget="50ms"):
                @tt.choose(key=lambda x: x.size, name=f"gone-{turn}")
                def first(x):
                    return float(x.sum())

                @first.option
                def second(x):
                    return float(np.add.reduce(x))

                for size in range(1, 30):
                    first(np.ones(size))
            del first, second
        kept = tt.choose(lambda x: x + 1)
        kept.option(lambda x: 1 + x)
        [kept(n) for n in range(50)]
        print("done")
    """
    words = [sys.executable, "-c", textwrap.dedent(program)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "done\n", "")


@tt.choose(name="test-pickled")
def doubled(x: int) -> int:
    return 2 * x


@tt.tune(space={"by": [1, 2]}, evals=2, name="test-pickled-tune")
def tripled(x: int, *, by: int) -> int:
    return 3 * x * by // by


def test_what_was_decorated_is_pickled_by_name_as_functions_are() -> None:
    assert pickle.loads(pickle.dumps(doubled)) is doubled and pickle.loads(pickle.dumps(tripled)) is tripled
    trial = tt.Study({"a": [1]}).ask()
    assert trial is not None and pickle.loads(pickle.dumps(trial)).settings == {"a": 1}
    told = tt.explain("matmul:f32:2x2x2")
    assert pickle.loads(pickle.dumps(told)).to_dict() == told.to_dict()
    with tt.Runtime(wisdom="off"):
        assert pickle.loads(pickle.dumps(tt.lazy(np.ones(2)) + 1)).numpy().tolist() == [2.0, 2.0]


def test_a_study_in_a_file_stays_with_the_process_that_opened_it(tmp_path: Path) -> None:
    study = tt.Study({"a": [1, 2, 3]}, path=tmp_path / "s.jsonl", strategy="sweep")
    study.tell({"a": 1}, 1.0)
    child = os.fork()
    if child == 0:
        try:
            study.tell({"a": 2}, 0.5)
        except RuntimeError as wrong:
            os._exit(0 if "another process" in str(wrong) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(study) == 1


def test_plots_with_matplotlib_need_it_and_say_so() -> None:
    study = tt.Study({"a": [1, 2]})
    study.tell({"a": 1}, 1.0)
    try:
        import matplotlib
    except ImportError:
        with pytest.raises(ImportError, match="plot\\(\\) needs matplotlib"):
            study.plot()
        with pytest.raises(ImportError, match="svg\\(\\) needs nothing"):
            doubled.plot()
    else:
        matplotlib.use("Agg")
        doubled(3)
        assert study.plot().lines and doubled.plot().get_xlabel() == "size"


def test_runtimes_of_ones_own_are_entered_constrained_and_pickled(tmp_path: Path) -> None:
    own = tt.Runtime(wisdom=tmp_path, threads=1, budget="500ms", device="cpu")
    x = np.ones((64, 64), np.float32)
    with own:
        tt.matmul(x, x)
    assert own.call(tt.matmul, x, x)[0, 0] == 64
    own.flush()
    assert own.wisdom_dir == str(tmp_path) and any(tmp_path.iterdir())
    assert "threads" in own.explain("matmul:f32:64x64x64").to_dict()["terms"]
    assert repr(pickle.loads(pickle.dumps(own))) == repr(own)
    with tt.constrained(threads=1):
        told = tt.explain("matmul:f32:300x300x300").to_dict()
    assert "threads" in told["terms"]
    outside = tt.explain("matmul:f32:300x300x300").to_dict()
    assert outside["terms"] != told["terms"] or os.cpu_count() == 1
    with pytest.raises(ValueError, match="no device"):
        tt.Runtime(device="nothing")
    with pytest.raises(ValueError, match="is no time"):
        tt.Runtime(budget="soon")
    seen: list[str] = []
    with tt.constrained(threads=1):
        thread = threading.Thread(target=lambda: seen.append(tt.explain("matmul:f32:300x300x300").to_dict()["terms"]))
        thread.start()
        thread.join()
    assert seen == [outside["terms"]], "constraints are of the thread that entered them"


def test_what_is_told_has_a_table_html_and_numbers() -> None:
    tt.matmul(np.ones((8, 8)), np.ones((8, 8)))
    told = tt.explain("matmul:f64:8x8x8")
    assert "kernel" in str(told) and "<table>" in told._repr_html_() and told.to_dict()["rivals"]
    devices = tt.devices()
    assert devices.to_dict()[0]["kind"] == "cpu" and "<table>" in devices._repr_html_() and "cpu" in str(devices)
    report = tt.report()
    assert report.to_dict()["devices"] and "<iframe" in report._repr_html_()
    assert "launches" in tt.explain(tt.lazy(np.ones(3)) + 1).to_dict()
    with pytest.raises(ValueError, match="is not a problem"):
        tt.explain("nonsense")


def forked(connection: Any) -> None:
    y = tt.matmul(np.full((70, 70), 2.0), np.ones((70, 70)))
    mine = tt.Runtime(wisdom="off").call(tt.add, np.ones(2), 1)
    connection.send((float(y[0, 0]), mine.tolist(), (tt.lazy(np.ones(4)) * 2).sum().item()))


@pytest.mark.parametrize("way", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*")
def test_children_have_runtimes_of_their_own(way: Any) -> None:
    tt.matmul(np.ones((70, 70)), np.ones((70, 70)))
    context = multiprocessing.get_context(way)
    for _ in range(3):
        here, there = context.Pipe()
        child = context.Process(target=forked, args=(there,))
        child.start()
        assert here.poll(60), "the child hangs"
        assert here.recv() == (140.0, [2.0, 2.0], 8.0)
        child.join(60)
        assert child.exitcode == 0
    with context.Pool(2) as pool:
        assert pool.map(total, range(6)) == [4.0 * n for n in range(6)]


def total(n: int) -> float:
    return float(tt.sum(tt.matmul(np.full((2, 1), n, np.float64), np.ones((1, 2)))))


def test_warnings_go_to_logging(tmp_path: Path, caplog: Any) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no directory")
    with caplog.at_level(logging.WARNING, "trimtab"):
        runtime = tt.Runtime(wisdom=blocked / "wisdom", device="cpu")
    assert runtime.warnings and caplog.records and caplog.records[0].name == "trimtab"


def test_what_one_process_learns_the_next_knows(tmp_path: Path) -> None:
    program = """
        import numpy as np, trimtab as tt
        x = np.ones((96, 96), np.float32)
        tt.matmul(x, x)
        print(tt.explain("matmul:f32:96x96x96").to_dict()["reason"])
    """
    environment = os.environ | {"TRIMTAB_WISDOM_DIR": str(tmp_path), "TRIMTAB_BUDGET": "20ms"}
    said = []
    for _ in range(2):
        words = [sys.executable, "-c", textwrap.dedent(program)]
        said.append(subprocess.run(words, capture_output=True, text=True, env=environment, timeout=120).stdout.strip())
    assert said[1] == "remembered", said
