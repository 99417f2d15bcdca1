"""The stubs, checked by mypy and pyright as callers see them, and against the module itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import trimtab as tt

USES = """
import numpy as np
from numpy.typing import NDArray
import trimtab as tt
import trimtab.kernel_tuner as kernel_tuner

y = tt.matmul(np.ones((2, 2)), np.ones((2, 2)), out=None)
doubles: NDArray[np.float64] = tt.relu(tt.add(y, 1))
sums: NDArray[np.int32] = tt.matmul(np.ones((2, 2), np.int8), np.ones((2, 2), np.int8))
e: tt.Expression = (tt.lazy(y) @ y + 1).relu().reshape(4, -1).sum(0, keepdims=True)
flags: tt.Expression = tt.lazy(y) < 2
study = tt.Study({"a": [1, 2]}, where="a > 0")
trial = study.ask()
if trial is not None:
    study.tell(trial, 1.0)

@tt.choose
def total(x: list[int]) -> int:
    return sum(x)

@total.option
def other(x: list[int]) -> int:
    return sum(x)

number: int = total([1, 2])

@tt.tune(space={"block": [1, 2]})
def blocked(x: int, *, block: int) -> float:
    return x / block

value: float = blocked(3)
with tt.constrained(threads=1), tt.Runtime(wisdom="off"):
    text: str = str(tt.explain("matmul:f32:2x2x2"))
results, env = kernel_tuner.tune_kernel("k", "s", 1, [], {"a": [1]})
"""


def check(words: list[str], file: Path) -> None:
    pytest.importorskip(words[0], reason="types are checked once, with the first interpreter")
    file.write_text(USES)
    checked = subprocess.run([sys.executable, "-m", *words, str(file)], capture_output=True, text=True, timeout=300)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    wrong = file.with_name("wrong.py")
    wrong.write_text(USES + "\nbad: str = total([1])\n")
    checked = subprocess.run([sys.executable, "-m", *words, str(wrong)], capture_output=True, text=True, timeout=300)
    assert checked.returncode != 0, "a mistake is found"


def test_mypy_and_the_package_itself_strictly(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="types are checked once, with the first interpreter")
    check(["mypy", "--strict", "--cache-dir", str(tmp_path / "cache")], tmp_path / "uses.py")
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "--package", "trimtab"]
    package = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert package.returncode == 0, package.stdout


def test_stubs_are_what_the_module_has_argument_by_argument(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="types are checked once, with the first interpreter")
    words = [sys.executable, "-m", "mypy.stubtest", "trimtab._native"]
    checked = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_pyright(tmp_path: Path) -> None:
    check(["pyright", "--pythonpath", sys.executable], tmp_path / "uses.py")


def test_pyright_knows_the_type_of_everything_public(tmp_path: Path) -> None:
    pytest.importorskip("pyright", reason="types are checked once, with the first interpreter")
    words = [sys.executable, "-m", "pyright", "--verifytypes", "trimtab", "--ignoreexternal", "--outputjson"]
    # It looks for the package where the first interpreter on the path has its own.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = os.environ | {"PATH": path, "VIRTUAL_ENV": sys.prefix}
    checked = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=tmp_path, env=environment)
    known = json.loads(checked.stdout)["typeCompleteness"]
    unknown = [symbol["name"] for symbol in known["symbols"] if symbol["isExported"] and not symbol["isTypeKnown"]]
    assert not unknown and known["completenessScore"] == 1, (unknown, known["completenessScore"])


def test_stubs_name_what_the_module_has() -> None:
    stub = (Path(tt.__file__).parent / "_native.pyi").read_text()
    from trimtab import _native

    for name in dir(_native):
        if not name.startswith("__"):
            assert f"def {name}(" in stub or f"class {name}" in stub, name
    for name in dir(tt.Expression):
        if not name.startswith("_"):
            assert f"def {name}(" in stub, name
