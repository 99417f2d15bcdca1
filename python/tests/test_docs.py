"""The Python code of README and docs is Python, and names what the package has."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import trimtab as tt

ROOT = Path(__file__).parents[2]


def snippets() -> list[tuple[str, str]]:
    """Every snippet with its page and line."""
    found = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        lines = page.read_text(encoding="utf-8").splitlines()
        starts = [at for at, line in enumerate(lines) if line.startswith("```python")]
        for start in starts:
            end = next(at for at in range(start + 1, len(lines)) if lines[at].startswith("```"))
            found.append((f"{page.name}:{start + 1}", "\n".join(lines[start + 1 : end])))
    return found


@pytest.mark.parametrize(("where", "code"), snippets(), ids=lambda value: value.split("\n")[0][:40])
def test_snippets_compile_and_name_what_is_there(where: str, code: str) -> None:
    tree = ast.parse(code, filename=where)
    names = [
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "tt"
    ]
    missing = [name for name in names if not hasattr(tt, name)]
    assert not missing, f"{where}: trimtab has no {missing}"


def test_there_are_snippets() -> None:
    assert len(snippets()) >= 4
