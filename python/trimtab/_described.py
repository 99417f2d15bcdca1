"""A kernel written down for the runner: its source, arguments, grid and space, in a directory of their own."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from ._kernel_source import DEFINED, WHICH, Source, quoted_words, values_of
from ._native import NativeKernel, NativeStudy
from ._study import Study, Values

_TYPES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "int8": "i8", "uint8": "u8", "int16": "i16", "int32": "i32",
    "uint32": "u32", "int64": "i64", "bool": "bool", "complex64": "complex64", "complex128": "complex128",
}  # fmt: skip
_BLOCKS = ("block_size_x", "block_size_y", "block_size_z")
_POINT = "trimtab_point"
# Columns have places of 16 bits.
_MOST_COMPUTED = 65_535


def _quoted(text: str) -> str:
    return json.dumps(text)


class Grid:
    """How many workgroups there are, and how large: formulas of parameters, or numbers of each point where a callable says so."""

    def __init__(self, problem_size: Any, by: Sequence[Any], block_size_names: Sequence[str] | None, names: Sequence[str]) -> None:
        given = list(block_size_names or ())
        self.blocks = [*given, *_BLOCKS[len(given) :]]
        self.group = [block if block in names else other for block, other in zip(self.blocks, ("256", "1", "1"))]
        self._size, self._names = problem_size, names
        self._by = [self._parts(one, block) for one, block in zip(by, self.blocks)]

    def _parts(self, by: Any, block: str) -> list[Any]:
        if by is None:
            by = [block] if block in self._names else []
        return [by] if isinstance(by, (str, int)) or callable(by) else list(by)

    @property
    def is_computed(self) -> bool:
        """Whether formulas do not say it: a callable does, or parts of a whole."""
        parts = [part for parts in self._by for part in parts]
        is_part = any(isinstance(part, str) and re.search(r"(?<!/)/(?!/)", part) for part in parts)
        return is_part or callable(self._size) or any(callable(part) for part in parts)

    @staticmethod
    def _sizes(size: Any) -> list[Any]:
        return [size] if isinstance(size, (int, str, np.integer)) else list(size)

    def formulas(self) -> list[str]:
        """Workgroups along each axis: so many threads, divided by what parameters say, rounded up."""
        groups = []
        for size, parts in zip(self._sizes(self._size), self._by):
            over = " * ".join(f"({part})" for part in parts)
            groups.append(f"(({size}) + {over} - 1) // ({over})" if over else f"{size}")
        return groups

    def at(self, point: dict[str, Any]) -> list[int]:
        """Workgroups along each axis at a point."""

        def number(part: Any) -> Any:
            return part(dict(point)) if callable(part) else values_of(point, part) if isinstance(part, str) else part

        size = self._size(dict(point)) if callable(self._size) else self._size
        groups = []
        for whole, parts in zip_longest(self._sizes(size)[:3], self._by, fillvalue=1):
            over = 1
            for part in parts if isinstance(parts, list) else []:
                over = over * number(part)
            groups.append(int(ceil(number(whole) / over)))
        return groups


class Described:
    """A kernel, its arguments and its space, written down in a directory of their own."""

    def __init__(
        self,
        kernel_name: str,
        source: Source,
        grid: Grid,
        arguments: Sequence[Any],
        study: Study,
        *,
        answer: Sequence[Any] | None = None,
        atol: float = 0.0,
        verified: bool = False,
        device: str | None = None,
        compiler: str | None = None,
        compiler_options: Sequence[str] | None = None,
        defines: Mapping[str, Any] | None = None,
    ) -> None:
        if answer is not None and len(answer) != len(arguments):
            raise ValueError(f"answer has {len(answer)} entries, and there are {len(arguments)} arguments; use None for those not compared")
        self.dir = Path(tempfile.mkdtemp(prefix="trimtab-kernel-"))
        try:
            self._write(kernel_name, source, grid, arguments, study, answer, atol, verified, device, compiler, compiler_options, defines)
        except BaseException:
            self.forget()
            raise

    def _write(
        self, kernel_name: str, source: Source, grid: Grid, arguments: Sequence[Any], study: Study, answer: Sequence[Any] | None,
        atol: float, verified: bool, device: str | None, compiler: str | None, compiler_options: Sequence[str] | None,
        defines: Mapping[str, Any] | None,
    ) -> None:  # fmt: skip
        (self.dir / "built").mkdir()
        self._study = study
        self._columns: tuple[list[dict[str, Any]], list[list[int]]] | None = None
        values, groups, group = study._values, [], grid.group
        if source.written is not None or defines is not None or grid.is_computed:
            values = self._computed(source, grid, defines)
            groups, group = [f"{_POINT}_groups_{axis}" for axis in "xyz"], [f"{_POINT}_block_{axis}" for axis in "xyz"]
        else:
            groups = grid.formulas()
        ending = source.ending
        text = source.text
        if ending == "cu" and 'extern "C"' not in text:
            # So that it is found by its name, as with Kernel Tuner.
            text = f'extern "C" {{\n{text}\n}}\n'
        self._values = values
        self.kernel = self.dir / f"kernel.{ending}"
        self.kernel.write_text(text)
        lines = ["[kernel]", f"entry = {_quoted(kernel_name)}"]
        if ending in ("cl", "cu", "wgsl"):
            lines.append(f"groups = [{', '.join(_quoted(one) for one in groups)}]")
        if ending in ("cl", "cu"):
            lines.append(f"workgroup = [{', '.join(_quoted(one) for one in group)}]")
        # Named here, so that a parameter that only the grid or nobody uses is no mistake, as with Kernel Tuner.
        words = [name for name, known in values.of.items() if any(isinstance(value, str) for value in known)]
        named = {f"tuned_{name}": name for name in values.of if name not in words}
        if defines is None and ending != "wgsl":
            # What Kernel Tuner defines beside the parameters: how large blocks are, and how many there are.
            sizes = {f"grid_size_{axis}": size for axis, size in zip("xyz", [*groups, "1", "1"])} | dict(zip(grid.blocks, group))
            named |= {name: size for name, size in sizes.items() if name not in values.of}
        if defines is None:
            named |= {"kernel_tuner": "1"}
        lines.append(f"defines = {{ {', '.join(f'{name} = {_quoted(value)}' for name, value in named.items())} }}")
        if compiler is not None:
            lines.append(f"compiler = {_quoted(compiler)}")
        if device is not None:
            lines.append(f"device = {_quoted(device)}")
        options = source.options(compiler_options, self.dir)
        flags = " ".join([quoted_words(options), *(f"-Dtuned_{name}={{{name}}}" for name in words if ending != "wgsl")])
        if flags.strip():
            lines.append(f"flags = {_quoted(flags)}")
        labels = self._labels(text, ending, len(arguments))
        self.arrays: list[np.ndarray[Any, Any] | None] = []
        for at, argument in enumerate(arguments):
            # Somebody else looks at the results where there is `verify`.
            wanted = None if answer is None or verified else answer[at]
            unchecked = answer is None or verified
            lines += ["", "[[arguments]]", f"name = {_quoted(labels[at])}", *self._argument(at, argument, wanted, unchecked, atol)]
        self.described = self.dir / "kernel.toml"
        self.described.write_text("\n".join(lines) + "\n")

    def _computed(self, source: Source, grid: Grid, defines: Mapping[str, Any] | None) -> Values:
        """The space the runner sees where callables say what a point is: a column for each number of theirs, one row for each point."""
        listed = self._study._given["listed"]
        if listed is None or len(listed) > _MOST_COMPUTED:
            raise ValueError(f"callables and defines are asked at every point, and may be at most {_MOST_COMPUTED:,} points")
        of = self._study._values.of
        points = [{name: of[name][place] for name, place in zip(of, places)} for places in listed]
        rows: list[dict[str, Any]] = []
        for at, point in enumerate(points):
            groups = grid.at(point)
            blocks = [values_of(point, one) for one in grid.group]
            row: dict[str, Any] = {_POINT: at}
            row |= {f"{_POINT}_groups_{axis}": size for axis, size in zip("xyz", groups)}
            row |= {f"{_POINT}_block_{axis}": size for axis, size in zip("xyz", blocks)}
            rows.append(row if defines is not None else row | point)
        if source.written is not None:
            for row, which in zip(rows, source.given_all(points)):
                row[WHICH] = which
        if defines is not None:
            for row, which in zip(rows, source.define_all(defines, points)):
                row[DEFINED] = which
        columns = {name: list({(type(row[name]), row[name]): row[name] for row in rows}.values()) for name in rows[0]}
        values = Values(columns)
        places = {name: {(type(value), value): at for at, value in enumerate(known)} for name, known in columns.items()}
        table = [[places[name][(type(row[name]), row[name])] for name in columns] for row in rows]
        self._columns = (rows, table)
        return values

    @staticmethod
    def _labels(source: str, ending: str, count: int) -> list[str]:
        if ending != "wgsl":
            return [f"argument{at}" for at in range(count)]
        bound = re.findall(r"@binding\((\d+)\)\s*var(?:<[^>]*>)?\s+(\w+)", source)
        labels = [name for _, name in sorted(bound, key=lambda one: int(one[0]))]
        if len(labels) != count:
            raise ValueError(f"the source binds {len(labels)} variables ({', '.join(labels)}), and there are {count} arguments")
        return labels

    def _argument(self, at: int, argument: Any, wanted: Any, unchecked: bool, atol: float) -> list[str]:
        if isinstance(argument, (int, float)) and not isinstance(argument, np.generic):
            raise TypeError(f"argument {at} is {argument!r}; give numbers a type, such as numpy.int32({argument!r})")
        value = np.asarray(argument)
        if value.dtype.name not in _TYPES:
            raise TypeError(f"argument {at} is of {value.dtype}; there are: {', '.join(_TYPES)}")
        lines = [f'type = "{_TYPES[value.dtype.name]}"']
        if value.ndim == 0:
            self.arrays.append(None)
            return [*lines, f"value = {_quoted(str(value.item()))}"]
        self.arrays.append(value)
        np.save(self.dir / f"{at}.npy", np.ascontiguousarray(value))
        lines += [f"shape = [{', '.join(str(size) for size in value.shape)}]", f'fill = "{at}.npy"']
        if wanted is not None or unchecked:
            lines.append("output = true")
        if wanted is not None:
            right = np.ascontiguousarray(np.asarray(wanted, dtype=value.dtype).reshape(value.shape))
            np.save(self.dir / f"{at}-right.npy", right)
            lines.append(f'expected = "{at}-right.npy"')
            if right.dtype.kind in "fc":
                # Kernel Tuner's is an absolute difference, ours a share of the mean.
                mean = float(np.mean(np.abs(right.astype(np.float64)))) or 1.0
                lines.append(f"tolerance = {min(max(1e-5 + atol / mean, 1e-5), 0.5)!r}")
        return lines

    def opened(self, timeout: float) -> Opened:
        """What runs points of the study."""
        given = self._study._given
        constraints, listed = (given["constraints"], given["listed"]) if self._columns is None else ([], self._columns[1])
        native = NativeKernel(
            self.kernel,
            self.described,
            self._values.written(),
            constraints=constraints,
            listed=listed,
            child=[sys.executable, "-m", "trimtab"],
            built=self.dir / "built",
            timeout=timeout,
        )
        if self._columns is None:
            return Opened(native, None)
        # Whatever order points have there: each is found by what it is.
        rows, table = self._columns
        found = NativeStudy(
            self._values.written(), constraints=[], listed=table, strategy="sweep", seed=0, maximise=False, limits=[], path=None,
            fresh=False, what="", unit="",
        )  # fmt: skip
        of = self._study._values
        points = ({name: of.of[name][place] for name, place in zip(of.of, places)} for places in self._study._given["listed"])
        ids = {self._study._native.find(of.write(point)): found.find(self._values.write(row)) for point, row in zip(points, rows)}
        return Opened(native, ids)

    def results(self, outputs: Sequence[tuple[int, Path]], arguments: Sequence[Any]) -> list[Any]:
        """The arguments after a run: arrays with what the kernel wrote."""
        written = dict(outputs)
        return [
            argument
            if (array := self.arrays[at]) is None or at not in written
            else np.fromfile(written[at], dtype=array.dtype).reshape(array.shape)
            for at, argument in enumerate(arguments)
        ]

    def forget(self) -> None:
        """Removes what was written."""
        shutil.rmtree(self.dir, ignore_errors=True)


class Opened:
    """Runs points by their places in the study."""

    def __init__(self, native: NativeKernel, ids: dict[int, int] | None) -> None:
        self._native, self._ids = native, ids

    def _id(self, point: int) -> int:
        return point if self._ids is None else self._ids[point]

    def measure(self, point: int, repeats: int, rival: tuple[int, float, int] | None) -> dict[str, Any]:
        """Measures a point: its samples in seconds, or its failure. The best so far and its time run in turns with what comes close."""
        beside = None if rival is None else (self._id(rival[0]), *rival[1:])
        ran: dict[str, Any] = json.loads(self._native.measure(self._id(point), repeats, beside))
        return ran

    def outputs(self, point: int) -> list[tuple[int, Path]]:
        """Runs a point once: files with what it wrote, by the places of arguments."""
        return self._native.outputs(self._id(point))
