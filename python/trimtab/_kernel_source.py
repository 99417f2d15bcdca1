"""Sources of kernels as Kernel Tuner takes them: a text, a file, files, or a callable that writes one for each point; languages and options."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

_ENDINGS = {"OPENCL": "cl", "C": "c", "C++": "cpp", "CPP": "cpp", "WGSL": "wgsl", "CUDA": "cu", "CUPY": "cu", "NVCUDA": "cu"}
# What files are called that hold a kernel; those of C are C, and nothing else is.
_FILES = (".cl", ".opencl", ".cu", ".c", ".cc", ".cpp", ".cxx", ".wgsl", ".h", ".hpp")
# Kernel Tuner compiles C as C++. What only C has stays C.
_ONLY_C = re.compile(r"\brestrict\b|\b_(?:Bool|Complex|Generic|Atomic|Alignas|Static_assert)\b")
_C_COMPILERS = re.compile(r"^(?:.*[/\\])?(?:[\w.]+-)*(?:cc|gcc|clang|icx|tcc)(?:-[\d.]+)?(?:\.exe)?$")


class Source:
    """What is compiled: its text, or what writes it, its language as the ending of a file, and where its includes are looked for."""

    def __init__(self, kernel_source: Any, lang: str | None, compiler: str | None) -> None:
        if lang is not None and lang.upper() not in _ENDINGS:
            raise ValueError(f"there is no language {lang!r}; there are: OpenCL, CUDA, C, C++, WGSL")
        first, *others = kernel_source if isinstance(kernel_source, (list, tuple)) else [kernel_source]
        for other in others:
            if not isinstance(other, (str, Path)) or not Path(other).is_file():
                raise ValueError("all but the first of kernel_source are names of files that the first includes, and are there")
        self.written: Callable[[dict[str, Any]], Any] | None = first if callable(first) else None
        self.directories = [Path.cwd()]
        file = None
        if self.written is None:
            file = _file(first)
            self.text = str(first) if file is None else file.read_text()
            self.directories = [*([file.parent] if file else []), *self.directories]
        elif lang is None:
            raise ValueError("say which language a callable writes: lang=\"OpenCL\", for example")
        else:
            self.text = ""
        self.directories += [Path(other).parent for other in others]
        self.directories = list(dict.fromkeys(path.resolve() for path in self.directories))
        self._lang, self._compiler, self._file = lang, compiler, file
        self.ending = self._ending()

    def _ending(self) -> str:
        lang = self._lang
        if lang is None:
            marks = (("__global__", "CUDA"), ("__kernel", "OpenCL"), ("@compute", "WGSL"))
            found = [name for mark, name in marks if mark in self.text]
            lang = found[0] if found else "C"
        if lang.upper() != "C":
            return _ENDINGS[lang.upper()]
        is_c = self._file is not None and self._file.suffix == ".c"
        is_c = is_c or (self._compiler is not None and _C_COMPILERS.match(self._compiler) is not None)
        return "c" if is_c or _ONLY_C.search(self.text) else "cpp"

    def given_all(self, points: Sequence[dict[str, Any]]) -> list[int]:
        """Which text each point has, where a callable writes them: all of them become one, each behind its number."""
        assert self.written is not None
        texts: dict[str, int] = {}
        which: list[int] = []
        for point in points:
            made = self.written(dict(point))
            file = _file(made)
            if file is not None and file.parent.resolve() not in self.directories:
                self.directories.append(file.parent.resolve())
            text = str(made) if file is None else file.read_text()
            which.append(texts.setdefault(text, len(texts)))
        if self.ending == "wgsl" and len(texts) > 1:
            raise ValueError("a callable cannot write WGSL, which has no #if; use a text with constants")
        if len(texts) == 1:
            self.text = next(iter(texts))
        else:
            parts = (f"#if {WHICH} == {at}\n{_unguarded(text)}\n#endif\n" for text, at in texts.items())
            self.text = "".join(parts)
        self.ending = self._ending()
        return which

    def define_all(self, defines: Mapping[str, Any], points: Sequence[dict[str, Any]]) -> list[int]:
        """Which definitions each point has, where the caller says what is defined: all of them are before the text, behind numbers."""
        if self.ending == "wgsl":
            raise ValueError("defines are the preprocessor's, which WGSL does not have; use a text with constants")
        blocks: dict[str, int] = {}
        which: list[int] = []
        for point in points:
            lines = (f"#define {name} {_defined(name, value, point)}\n" for name, value in defines.items())
            which.append(blocks.setdefault("".join(lines), len(blocks)))
        parts = (f"#if {DEFINED} == {at}\n{block}#endif\n" for block, at in blocks.items())
        self.text = f"{''.join(parts)}#line 1\n{self.text}"
        return which

    def options(self, given: Sequence[str] | None, links: Path) -> list[str]:
        """What compilers are told beside parameters: the options, and where includes are. Odd characters are behind a link in ``links``."""
        options = [option for part in given or [] for option in _words(part)]
        if self.ending in ("c", "cpp"):
            if given is None:
                options = ["-O3", "-march=native"]
            # Kernel Tuner leaves it to the options, and what includes this cannot be linked without it.
            if re.search(r"#\s*include\s*<omp\.h>", self.text) and not any("openmp" in option for option in options):
                options.append("-fopenmp")
        if self.ending != "wgsl":
            options += [f"-I{_plain_path(path, links / f'include{at}')}" for at, path in enumerate(self.directories)]
        return options


# By which the text of a point is known, where a callable writes them.
WHICH = "trimtab_source"
# By which the definitions of a point are known, where the caller says what is defined.
DEFINED = "trimtab_defines"


def _defined(name: str, value: Any, point: Mapping[str, Any]) -> str:
    """What a name stands for at a point, as Kernel Tuner has it: names of parameters in a text are their values."""
    if not name.isidentifier():
        raise ValueError(f"{name!r} in defines is no name")
    if callable(value):
        value = value(dict(point))
    elif isinstance(value, str):
        value = re.sub(r"[a-zA-Z0-9_]+", lambda word: str(point.get(word[0], word[0])), value)
    return str(value).replace("\n", "\\\n")


def _unguarded(text: str) -> str:
    # Once in a file, whoever is first: `#if` around it says which.
    return re.sub(r"(?m)^[ \t]*#[ \t]*pragma[ \t]+once[ \t]*$", "", text)


def _file(given: Any) -> Path | None:
    """The file that is named, if it is no text of a kernel."""
    text = os.fspath(given) if isinstance(given, os.PathLike) else str(given)
    if isinstance(given, os.PathLike) or ("\n" not in text and len(text) < 4096 and not set("(){};") & set(text)):
        path = Path(text)
        if path.is_file():
            return path
        if isinstance(given, os.PathLike) or (path.suffix in _FILES and " " not in text.strip()):
            raise FileNotFoundError(f"there is no file {text}; it is looked for in {Path.cwd()}")
    return None


def _words(option: Any) -> list[str]:
    """An option as words; Kernel Tuner's users write several into one text for OpenCL."""
    text = str(option)
    return [text] if "-I" in text or "'" in text or '"' in text else text.split()


def _plain_path(path: Path, link: Path) -> Path:
    """The directory, or a link to it where compilers would stumble over its name."""
    if re.fullmatch(r"[\w./+@:,~\\-]+", str(path)):
        return path
    try:
        link.symlink_to(path, target_is_directory=True)
    except OSError:
        return path
    return link


def quoted_words(words: Sequence[str]) -> str:
    """Words as one text, each whole and as it is: nothing in it is a parameter's place."""
    escaped = (re.sub(r'([\\"])', r"\\\1", word).replace("{", "{{").replace("}", "}}") for word in words)
    return " ".join(f'"{word}"' for word in escaped)


def values_of(point: Mapping[str, Any], text: str) -> Any:
    """What an expression in Python is at a point: it is the caller's, as a callable would be."""
    return eval(compile(text.strip(), "<expression>", "eval"), {"min": min, "max": max, "int": int, "round": round}, dict(point))
