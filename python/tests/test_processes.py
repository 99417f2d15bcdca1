"""Forked children: runtimes, segments of wisdom and choices of their own, and an end that waits for nobody."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="not run: there is no fork here")


def run(program: str, wisdom: Path, timeout: float = 120.0) -> str:
    """What a program prints that has wisdom in that directory."""
    environment = os.environ | {"TRIMTAB_WISDOM_DIR": str(wisdom), "TRIMTAB_BUDGET": "20ms"}
    words = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)]
    ran = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=timeout)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def segments(wisdom: Path) -> list[str]:
    return sorted(path.name for path in wisdom.glob("*.jsonl"))


def test_a_forked_child_writes_a_segment_of_its_own(tmp_path: Path) -> None:
    said = run(
        """
        import os, numpy as np, trimtab as tt
        from trimtab._native import NativeRuntime
        from pathlib import Path

        def segments():
            return {path.name for path in Path(os.environ["TRIMTAB_WISDOM_DIR"]).glob("*.jsonl")}

        x = np.ones((90, 90), np.float32)
        tt.matmul(x, x)
        NativeRuntime.current().flush()
        before = segments()
        child = os.fork()
        y = x[: 70 if child else 50]
        tt.matmul(y, x)
        NativeRuntime.current().flush()
        if child:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            print(len(before), len(segments() - before))
        """,
        tmp_path,
    )
    assert said.split() == ["1", "1"], said
    # Both learned something the next process knows.
    known = run(
        """
        import trimtab as tt
        print(*(tt.explain(f"matmul:f32:{rows}x90x90").to_dict()["reason"] for rows in (90, 70, 50)))
        """,
        tmp_path,
    )
    assert known.split() == ["remembered"] * 3, known


def test_a_child_that_is_forked_inside_a_runtime_has_that_runtime_anew(tmp_path: Path) -> None:
    said = run(
        """
        import os, sys, numpy as np, trimtab as tt
        x = np.ones((200, 200), np.float32)
        own = tt.Runtime(threads=2, budget="20ms")
        with own, tt.constrained(threads=1):
            tt.matmul(x, x)
            outside = tt.explain("matmul:f32:200x200x200").to_dict()["terms"]
            child = os.fork()
            assert float(tt.matmul(x, x)[0, 0]) == 200.0
            assert tt.explain("matmul:f32:200x200x200").to_dict()["terms"] == outside
            own.flush()
        assert float(own.call(tt.sum, x)) == 40000.0
        if child == 0:
            print("child")
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        print("parent")
        """,
        tmp_path,
    )
    assert said.split() == ["child", "parent"], said


def test_a_child_ends_without_waiting_for_threads_it_does_not_have(tmp_path: Path) -> None:
    said = run(
        """
        import os, sys, numpy as np, trimtab as tt

        @tt.choose(key=lambda x: x.size, name="forked-total")
        def total(x):
            return float(x.sum())

        @total.option
        def other(x):
            return float(np.add.reduce(x))

        def parent():
            kept = [tt.Runtime(wisdom="off", threads=2) for _ in range(2)]
            for runtime in kept:
                runtime.call(tt.matmul, np.ones((120, 120)), np.ones((120, 120)))
            lazy = kept[0].call(lambda: tt.lazy(np.ones((50, 50))) + 1)
            assert total(np.ones(100)) == 100.0
            for _ in range(5):
                child = os.fork()
                if child == 0:
                    # Some is let go of here, the rest when the interpreter ends.
                    kept.pop()
                    assert total(np.ones(100)) == 100.0 and float(lazy.sum().item()) == 5000.0
                    sys.exit(0)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            print("done")

        parent()
        """,
        tmp_path,
    )
    assert said == "done\n", said
