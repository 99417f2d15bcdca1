"""Arrays of other libraries: taken by DLPack without a copy, and results given back as their own kind."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

# DLPack's numbers of the processor's memory, as it is and pinned for CUDA or ROCm.
_HOST = (1, 3, 11)


def take(x: Any) -> Any:
    """An array of NumPy's over the same memory where that is possible; else what NumPy makes of it."""
    if isinstance(x, np.generic) or not hasattr(x, "__dlpack__"):
        return np.asarray(x)
    kind = f"{type(x).__module__}.{type(x).__qualname__}"
    try:
        if int(x.__dlpack_device__()[0]) in _HOST:
            return np.from_dlpack(x)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as wrong:
        raise TypeError(f"{kind} cannot be shared: {wrong}") from wrong
    raise TypeError(f"{kind} lies on a device that the processor does not read; move it to the CPU first")


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
