"""The notebook in Jupyter itself, from the top. `cargo xtask python --partners`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def test_the_notebook_runs_in_jupyter_and_shows_tables_and_plots() -> None:
    nbclient: Any = pytest.importorskip("nbclient")
    nbformat: Any = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(Path(__file__).parents[2] / "examples/python/tour.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    shown = [output["data"] for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output]
    pages = [data["text/html"] for data in shown if "text/html" in data]
    assert sum("<table>" in page for page in pages) >= 4, len(pages)
    assert sum("<svg" in page for page in pages) >= 2, len(pages)
