"""What notebooks show can be read on white and on black, and is well-formed; WGSL is tuned where there is a GPU."""

from __future__ import annotations

import os
import re
import xml.dom.minidom
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
import trimtab as tt

# What is behind a cell's output in JupyterLab's and VS Code's light and dark themes.
LIGHT, DARK = ("#ffffff",), ("#111111", "#1e1e1e")
# WCAG's least for graphics and large text.
LEAST = 3.0
OPEN = {"br", "hr", "img", "meta", "link", "input", "col"}


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


class Balanced(HTMLParser):
    """Every element that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in OPEN:
            self.inside.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.inside and self.inside.pop() == tag, f"</{tag}> closes nothing"


def shown() -> list[Any]:
    x = np.ones((16, 16), np.float32)
    study = tt.Study({"a": range(5), "b": ["<", "&"]}, unit="s")
    study.run(lambda a, b: (a + 1) * 1e-6, evals=8)

    @tt.choose(key=lambda x: x.size, name="test-shown")
    def total(x: Any) -> float:
        return float(x.sum())

    @total.option
    def other(x: Any) -> float:
        return float(np.add.reduce(x))

    with tt.Runtime(wisdom="off", budget="200ms"):
        for size in (10, 100, 1000):
            [total(np.ones(size)) for _ in range(8)]
    told = [tt.explain("matmul:f32:16x16x16"), tt.explain((tt.lazy(x) @ x + 1).relu()), tt.devices(), total.explain(x), tt.report()]
    return [*told, study, total]


def test_html_is_well_formed_and_readable_on_light_and_dark() -> None:
    for one in shown():
        page = one._repr_html_()
        parser = Balanced()
        parser.feed(page)
        assert not parser.inside, (type(one), parser.inside)
        if "srcdoc" in page:
            # The report is a page of its own, with both.
            assert "prefers-color-scheme" in page
            continue
        assert not re.search(r"background[\w-]*\s*:", page), "what is behind is the notebook's"
        colours = set(re.findall(r"#[0-9a-f]{6}\b", page))
        for colour in colours:
            for behind in (*LIGHT, *DARK):
                assert contrast(colour, behind) >= LEAST, (type(one), colour, behind, contrast(colour, behind))
        assert not re.search(r"(?:color|fill|stroke)\s*[:=]\s*['\"]?(?:black|white)\b", page), page[:300]
    study = next(one for one in shown() if isinstance(one, tt.Study))
    assert "&lt;" in study._repr_html_()
    xml.dom.minidom.parseString(study.svg())


DOUBLE = """
@group(0) @binding(0) var<storage, read_write> out: array<f32>;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;
override block_size_x: u32 = 64;
@compute @workgroup_size(block_size_x)
fn double(@builtin(global_invocation_id) at: vec3<u32>) {
    if (at.x < arrayLength(&x)) { out[at.x] = 2.0 * x[at.x]; }
}
"""


def has_gpu() -> bool:
    return any(one["kind"] != "cpu" and one.get("usable", True) for one in tt.Runtime(wisdom="off").devices().to_dict())


def test_a_kernel_in_wgsl_is_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(os.environ, "TRIMTAB_DEVICE", raising=False)
    if not has_gpu():
        pytest.skip("not run: no GPU, nor a software Vulkan, on this machine")
    x = np.arange(1000, dtype=np.float32)
    results, env = tt.tune_kernel(
        "double", DOUBLE, x.size, [np.zeros_like(x), x], {"block_size_x": [32, 64]}, answer=[2 * x, None], quiet=True, lang="WGSL",
    )  # fmt: skip
    assert [result["time"] > 0 for result in results] == [True, True], results
    assert env["best_config"]["block_size_x"] in (32, 64)
    ran = tt.run_kernel("double", DOUBLE, x.size, [np.zeros_like(x), x], {"block_size_x": 32}, lang="WGSL")
    np.testing.assert_array_equal(ran[0], 2 * x)
