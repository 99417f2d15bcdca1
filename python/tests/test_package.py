"""The wheel itself: what it holds, its command, its stubs, its examples."""

from __future__ import annotations

import ast
import doctest
import importlib
import json
import pathlib
import shutil
import subprocess
import sys
import sysconfig

import pytest
import trimtab as tt

HERE = pathlib.Path(tt.__file__).parent
CLASSES = [tt.Chosen, tt.Expression, tt.Runtime, tt.Study, tt.Told, tt.Trial, tt.Tuned]
MODULES = ["trimtab"] + [
    f"trimtab.{path.stem}" for path in sorted(HERE.glob("*.py")) if path.stem not in ("__init__", "__main__")
]


def test_the_package_is_the_installed_one_and_whole() -> None:
    assert "site-packages" in str(HERE), f"{HERE} is the tree, not the wheel"
    for name in ("py.typed", "_native.pyi"):
        assert (HERE / name).is_file(), name
    for name in tt.__all__:
        assert getattr(tt, name) is not None
        assert name == "__version__" or getattr(tt, name).__doc__, f"{name} has no docstring"


def test_nothing_of_rust_is_needed_and_the_lock_stays_off_where_there_is_none() -> None:
    kinds = {path.suffix for path in HERE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert kinds == {".py", ".pyi", ".typed", ".so"}, kinds
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        assert not sys._is_gil_enabled(), "importing the package turned the interpreter's lock on"


def examples(what: str, of: object) -> doctest.DocTest:
    # Helpers that are not public are known by their own name alone.
    return doctest.DocTestParser().get_doctest(str(getattr(of, "__doc__", None) or ""), {what: of}, what, None, 0)


def held(test: doctest.DocTest) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE, verbose=False)
    told: list[str] = []
    runner.run(test, out=told.append)
    assert runner.summarize(verbose=False)[0] == 0, "".join(told)


@pytest.mark.parametrize("name", [name for name in tt.__all__ if name != "__version__"])
def test_every_public_name_has_an_example_that_runs(name: str) -> None:
    # Taken from the docstring itself: finders pass over what another module's code is behind, as it is here.
    test = examples(name, getattr(tt, name))
    assert test.examples, f"{name} has no example"
    held(test)


def test_examples_of_modules_methods_and_helpers_run() -> None:
    tests = [examples(name, importlib.import_module(name)) for name in MODULES]
    tests += [examples(f"{kind.__name__}.{name}", of) for kind in CLASSES for name, of in vars(kind).items()]
    tests += [examples("seconds", importlib.import_module("trimtab._show").seconds)]
    having = [test for test in tests if test.examples]
    assert len(having) >= 3, [test.name for test in having]
    for test in having:
        held(test)


@pytest.mark.parametrize("kind", CLASSES)
def test_every_method_says_what_it_does(kind: type) -> None:
    public = [name for name in vars(kind) if not name.startswith("_")]
    missing = [name for name in public if callable(getattr(kind, name)) and not getattr(kind, name).__doc__]
    assert not missing, f"{kind.__name__}: {missing}"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=120)


def test_the_command_comes_with_it() -> None:
    script = pathlib.Path(sys.executable).parent / "trimtab"
    assert script.exists() or shutil.which("trimtab")
    for command in ([sys.executable, "-m", "trimtab"], [str(script)]):
        helped = run(*command, "--help")
        assert helped.returncode == 0 and "tune-command" in helped.stdout, helped
        wrong = run(*command, "explain", "matmul:f32:2x")
        assert wrong.returncode == 2 and "is not a problem" in wrong.stderr, wrong
    ran = run(sys.executable, "-m", "trimtab", "run", "reduce.sum:f32:1000", "--device", "cpu")
    assert ran.returncode == 0, ran.stderr


def test_the_notebook_runs_and_shows_itself() -> None:
    notebook = pathlib.Path(__file__).parents[2] / "examples/python/tour.ipynb"
    space: dict[str, object] = {}
    shown = 0
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] != "code":
            continue
        parsed = ast.parse("".join(cell["source"]))
        last = parsed.body.pop() if isinstance(parsed.body[-1], ast.Expr) else None
        exec(compile(parsed, "cell", "exec"), space)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), space)
            shown += "<" in value._repr_html_() if hasattr(value, "_repr_html_") else value is not None
    assert shown == 8, shown
