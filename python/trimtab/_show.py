"""How things are shown: tables in a terminal, HTML in a notebook, plots as SVG."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from html import escape
from math import isfinite, log10
from typing import Any

_STYLE = (
    "<style>.trimtab{color-scheme:light dark;font:13px/1.45 system-ui,sans-serif}"
    ".trimtab table{border-collapse:collapse}.trimtab th,.trimtab td{padding:2px 10px 2px 0;text-align:left;"
    "border-bottom:1px solid color-mix(in srgb,currentColor 20%,transparent)}.trimtab .chosen{font-weight:600}"
    ".trimtab svg{color:inherit}</style>"
)


def seconds(value: float | None) -> str:
    """A time for people.

    >>> seconds(0.00125)
    '1.25 ms'
    """
    if value is None or not isfinite(value):
        return "–"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def text_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows under headings."""
    if not rows:
        return ""
    names = list(rows[0])
    cells = [names, *[["" if row.get(name) is None else str(row[name]) for name in names] for row in rows]]
    widths = [max(len(line[at]) for line in cells) for at in range(len(names))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells]
    return "\n".join([lines[0], "─" * (sum(widths) + 2 * len(widths) - 2), *lines[1:]])


def html_table(rows: Sequence[Mapping[str, Any]], chosen: int | None = None) -> str:
    """The same for a notebook."""
    if not rows:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    body = ""
    for at, row in enumerate(rows):
        cells = "".join(f"<td>{escape('' if row.get(name) is None else str(row[name]))}</td>" for name in rows[0])
        body += f"<tr{' class=chosen' if at == chosen else ''}>{cells}</tr>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html(*parts: str) -> str:
    """Parts of a page, in light and dark."""
    return f"<div class=trimtab>{_STYLE}{''.join(parts)}</div>"


def line_plot(values: Sequence[float | None], best: Sequence[float | None], unit: str) -> str:
    """Dots and the best so far, as an SVG that fits light and dark."""
    width, height, left, below = 560, 240, 62, 30
    known = [value for value in [*values, *best] if value is not None and isfinite(value)]
    if not known:
        return "<p>nothing was told yet</p>"
    log = min(known) > 0
    scale = [log10(value) if log else value for value in known]
    low, high = min(scale), max(scale)
    span = (high - low) or 1.0

    def at(place: int, value: float) -> tuple[float, float]:
        x = left + (width - left - 10) * (place + 0.5) / max(len(values), 1)
        return x, 10 + (height - below - 10) * (1 - ((log10(value) if log else value) - low) / span)

    dots = "".join(
        "<circle cx='{:.1f}' cy='{:.1f}' r='2.5' fill='currentColor' fill-opacity='.45'/>".format(*at(place, value))
        for place, value in enumerate(values)
        if value is not None
    )
    line = " ".join("{:.1f},{:.1f}".format(*at(place, value)) for place, value in enumerate(best) if value is not None)
    labels = "".join(
        f"<text x='{left - 6}' y='{at(0, 10**mark if log else mark)[1] + 4:.1f}' text-anchor='end'>"
        f"{escape(seconds(10**mark if log else mark) if unit == 's' else f'{10**mark if log else mark:.3g}')}</text>"
        for mark in (low, (low + high) / 2, high)
    )
    return (
        f"<svg viewBox='0 0 {width} {height}' width='{width}' xmlns='http://www.w3.org/2000/svg' role='img' "
        f"font-family='system-ui,sans-serif' font-size='11' fill='currentColor' color='#3b6ea8'>{labels}{dots}"
        f"<polyline points='{line}' fill='none' stroke='currentColor' stroke-width='2'/>"
        f"<text x='{width / 2}' y='{height - 8}' text-anchor='middle'>evaluation</text></svg>"
    )


def new_axes() -> Any:
    """Axes of matplotlib's, if it is installed."""
    try:
        plt: Any = importlib.import_module("matplotlib.pyplot")
    except ImportError as missing:
        raise ImportError("plot() needs matplotlib (pip install matplotlib); svg() needs nothing") from missing
    return plt.subplots()[1]


_HUES = ("#3b6ea8", "#c2571a", "#3d8b4f", "#8e5bb0", "#b03a5b", "#7a7a2a")


def crossover_plot(series: Mapping[str, Sequence[tuple[int, float]]], crossings: Sequence[tuple[int, int, str]]) -> str:
    """Times in seconds over sizes, both by their logarithms, one line a name; where another becomes the fastest is a band."""
    width, height, left, below, right = 560, 260, 62, 34, 110
    points = [point for line in series.values() for point in line if point[0] > 0 and point[1] > 0]
    if not points:
        return "<p>nothing was measured yet</p>"
    sizes, times = [log10(size) for size, _ in points], [log10(time) for _, time in points]
    (first, last), (low, high) = (min(sizes), max(sizes)), (min(times), max(times))
    across, up = (last - first) or 1.0, (high - low) or 1.0

    def x(size: float) -> float:
        return left + (width - left - right) * ((log10(size) - first) / across if last > first else 0.5)

    def y(time: float) -> float:
        return 10 + (height - below - 10) * (1 - (log10(time) - low) / up)

    bands = "".join(
        f"<rect x='{x(before):.1f}' y='10' width='{max(x(after) - x(before), 1):.1f}' height='{height - below - 10}' "
        f"fill='currentColor' fill-opacity='.12'><title>from here on {escape(name)}</title></rect>"
        for before, after, name in crossings
    )
    lines, labels = "", ""
    for at, (name, line) in enumerate(series.items()):
        hue, known = _HUES[at % len(_HUES)], [point for point in line if point[0] > 0 and point[1] > 0]
        if not known:
            continue
        dots = "".join(f"<circle cx='{x(size):.1f}' cy='{y(time):.1f}' r='2.5'/>" for size, time in known)
        path = " ".join(f"{x(size):.1f},{y(time):.1f}" for size, time in known)
        lines += f"<g fill='{hue}' stroke='{hue}'>{dots}<polyline points='{path}' fill='none' stroke-width='2'/></g>"
        labels += f"<text x='{width - right + 8}' y='{24 + 15 * at}' fill='{hue}'>{escape(name)}</text>"
    ticks = "".join(
        f"<text x='{left - 6}' y='{y(10**mark) + 4:.1f}' text-anchor='end'>{escape(seconds(10**mark))}</text>"
        for mark in ((low, (low + high) / 2, high) if high > low else (low,))
    )
    ends = "".join(
        f"<text x='{x(10**mark):.1f}' y='{height - below + 14}' text-anchor='middle'>{round(10**mark):,}</text>"
        for mark in ((first, last) if last > first else (first,))
    )
    return (
        f"<svg viewBox='0 0 {width} {height}' width='{width}' xmlns='http://www.w3.org/2000/svg' role='img' "
        f"font-family='system-ui,sans-serif' font-size='11' fill='currentColor'>{bands}{lines}{labels}{ticks}{ends}"
        f"<text x='{(left + width - right) / 2}' y='{height - 4}' text-anchor='middle'>size</text></svg>"
    )


class Told:
    """An answer: printed it is a table, in a notebook HTML, and `to_dict` has every number.

    >>> import numpy as np, trimtab as tt
    >>> told = tt.explain(tt.lazy(np.ones(3)) + 1)
    >>> told.to_dict()["launches"][0]["operations"]
    1
    """

    def __init__(self, text: str, data: Any, page: str | None = None) -> None:
        self._text, self._data, self._page = text, data, page

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def to_dict(self) -> Any:
        """Every number, as dicts and lists."""
        return self._data

    def _repr_html_(self) -> str:
        if self._page is not None:
            return f"<iframe srcdoc='{escape(self._page, quote=True)}' style='width:100%;height:640px;border:0'></iframe>"
        rows, chosen = _rows(self._data)
        return html(html_table(rows, chosen)) if rows else html(f"<pre>{escape(self._text)}</pre>")


def _of_nanoseconds(value: float | None) -> str | None:
    return None if value is None else seconds(value / 1e9)


def _rows(data: Any) -> tuple[list[dict[str, Any]], int | None]:
    if isinstance(data, dict) and "rivals" in data:
        rows = []
        for rival in data["rivals"]:
            estimate = rival.get("estimate") or {}
            nanoseconds = estimate.get("ns")
            rows.append(
                {
                    "kernel": rival["kernel"],
                    "device": rival["device"],
                    "settings": " ".join(f"{name}={value}" for name, value in (rival.get("point") or {}).items()),
                    "time": _of_nanoseconds(nanoseconds),
                    "basis": estimate.get("basis"),
                    "out because": rival.get("declined"),
                }
            )
        chosen = next((at for at, rival in enumerate(data["rivals"]) if rival.get("chosen")), None)
        return rows, chosen
    if isinstance(data, dict) and "launches" in data:
        rows = [
            {
                "launch": launch["what"],
                "operations": launch["operations"],
                "device": launch["device"],
                "why": launch["why"],
                "on the processor": _of_nanoseconds(launch["processor_ns"]),
                "one by one": _of_nanoseconds(launch["apart_ns"]),
            }
            for launch in data["launches"]
        ]
        return rows, None
    if isinstance(data, list) and data and isinstance(data[0], dict) and "kind" in data[0]:
        rows = [
            {
                "device": device.get("id"),
                "name": device.get("name", device.get("reason")),
                "kind": device["kind"],
                "threads": device.get("threads"),
                "GFLOP/s": f"{device['peak_gflops']:.0f}" if "peak_gflops" in device else None,
                "GB/s": f"{device['bandwidth_gb_s']:.0f}" if "bandwidth_gb_s" in device else None,
                "kernels": len(device["kernels"]) if "kernels" in device else None,
            }
            for device in data
        ]
        return rows, None
    return [], None
