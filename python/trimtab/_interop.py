"""Arrays of other libraries: taken by DLPack without a copy, and results given back as their own kind."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def take(x: Any) -> Any:
    """An array of NumPy's over the same memory where that is possible; else what NumPy makes of it."""
    if isinstance(x, np.generic) or not hasattr(x, "__dlpack__"):
        return np.asarray(x)
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError, ValueError) as wrong:
        kind = f"{type(x).__module__}.{type(x).__qualname__}"
        raise TypeError(f"{kind} cannot be shared with the processor ({wrong}); move it to the CPU first") from wrong


def give(like: Any, result: Any) -> Any:
    """A result as the kind of array that was given."""
    space = like.__array_namespace__() if hasattr(like, "__array_namespace__") else None
    for module in (space, sys.modules.get(type(like).__module__.partition(".")[0])):
        made = getattr(module, "from_dlpack", None)
        if made is not None:
            return made(np.asarray(result))
    return result


def as_given(like: tuple[Any, ...], out: Any, result: Any) -> Any:
    """A result as the kind of the first operand that is of neither NumPy nor Python."""
    if out is None:
        for x in like:
            if not isinstance(x, (np.ndarray, np.generic)) and hasattr(x, "__dlpack__"):
                return give(x, result)
    return result
