"""What calls take beside NumPy's and Rust's, in turns in one process, and whether the goals hold: `cargo xtask python --bench`.

Ends with one line a goal. On a machine where others compute at the same time the times are theirs as well: look at the load it prints.
"""

from __future__ import annotations

import os
import statistics
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import trimtab as tt
from trimtab import _native

# The goals: a 2 x 2 product in nanoseconds, a 512 x 512 one as a share of the call from Rust, and how many times the calls of one thread
# come from as many threads as there are cores, as a share of the cores.
MOST_SMALL_NS, MOST_OF_RUST, LEAST_SCALING = 400.0, 1.03, 0.8
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Goals:
    """What must hold, and whether it did."""

    def __init__(self) -> None:
        self.all: list[tuple[bool, str]] = []

    def add(self, holds: bool, what: str) -> None:
        self.all.append((holds, what))

    def show(self) -> bool:
        print()
        for holds, what in self.all:
            print(f"{'holds         ' if holds else 'DOES NOT HOLD '} {what}")
        return all(holds for holds, _ in self.all)


def times_of(calls: dict[str, Callable[[], Any]], number: int, rounds: int = 60) -> dict[str, list[float]]:
    """Nanoseconds a call, a number for each round; rounds are taken in turns, so that all see the same machine."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            began = time.perf_counter_ns()
            for _ in range(number):
                call()
            times[name].append((time.perf_counter_ns() - began) / number)
    return times


def show(what: str, times: dict[str, list[float]]) -> None:
    base = min(times["numpy"])
    told = ", ".join(
        f"{name} {min(ns):,.0f} ns ({min(ns) / base:.2f}; median {statistics.median(ns):,.0f})" for name, ns in times.items()
    )
    print(f"{what:24} {told}")


def products(rng: np.random.Generator, goals: Goals) -> None:
    """Products beside NumPy's."""
    for size, number in ((2, 20_000), (8, 20_000), (64, 2_000), (512, 8)):
        a, b = (rng.random((size, size), np.float32) for _ in range(2))
        out = np.empty_like(a)
        for _ in range(2_000 if size < 64 else 100):
            tt.matmul(a, b)
        times = times_of(
            {"numpy": lambda: a @ b, "trimtab": lambda: tt.matmul(a, b), "trimtab out=": lambda: tt.matmul(a, b, out)}, number
        )
        show(f"matmul f32 {size} x {size}", times)
        if size == 2:
            ours, theirs = (statistics.median(times[name]) for name in ("trimtab", "numpy"))
            goals.add(ours <= MOST_SMALL_NS, f"a warm product of 2 x 2 takes {ours:.0f} ns (median), at most {MOST_SMALL_NS:.0f}")
            goals.add(ours < theirs, f"and less than NumPy's own {theirs:.0f} ns in the same run")


def beside_rust(rng: np.random.Generator, goals: Goals) -> None:
    """The same products called from Rust, on the same memory, in turns; medians of the ratios and the smallest times."""
    for size, number, rounds in ((2, 20_000, 40), (64, 2_000, 40), (512, 8, 200)):
        a, b = (rng.random((size, size), np.float32) for _ in range(2))
        out = np.empty_like(a)
        ratios, least = [], [float("inf"), float("inf")]
        for at in range(rounds):
            # Who begins changes, so that neither always comes after the other.
            took = [0.0, 0.0]
            for way in (0, 1) if at % 2 else (1, 0):
                began = time.perf_counter_ns()
                if way:
                    _native._matmul_in_rust(a, b, out, number)
                else:
                    for _ in range(number):
                        tt.matmul(a, b, out)
                took[way] = (time.perf_counter_ns() - began) / number
            ratios.append(took[0] / took[1])
            least = [min(pair) for pair in zip(least, took)]
        median = statistics.median(ratios)
        print(
            f"matmul f32 {size} x {size} beside Rust   trimtab {least[0]:,.0f} ns, from Rust {least[1]:,.0f} ns: ratio of the smallest "
            f"{least[0] / least[1]:.3f}, median {median:.3f}"
        )
        if size == 512:
            goals.add(median <= MOST_OF_RUST, f"a product of 512 x 512 takes {median:.3f} of the call from Rust, at most {MOST_OF_RUST}")


def others(rng: np.random.Generator) -> None:
    """Elementwise operations, reductions and an expression."""
    for count, number in ((4, 20_000), (10_000, 2_000), (1_000_000, 20)):
        x, y = (rng.random(count, np.float32) for _ in range(2))
        for _ in range(200):
            tt.add(x, y), tt.sum(x), tt.exp(x)
        show(f"add f32 {count}", times_of({"numpy": lambda: x + y, "trimtab": lambda: tt.add(x, y)}, number))
        show(f"exp f32 {count}", times_of({"numpy": lambda: np.exp(x), "trimtab": lambda: tt.exp(x)}, number))
        show(f"sum f32 {count}", times_of({"numpy": lambda: x.sum(), "trimtab": lambda: tt.sum(x)}, number))
    x, w, bias = rng.random((256, 256), np.float32), rng.random((256, 256), np.float32), rng.random(256, np.float32)
    for _ in range(100):
        (tt.lazy(x) @ w + bias).relu().numpy()
    show(
        "relu(x @ w + b) 256",
        times_of({"numpy": lambda: np.maximum(x @ w + bias, 0), "trimtab lazy": lambda: (tt.lazy(x) @ w + bias).relu().numpy()}, 50),
    )


def rate(size: int, threads: int, seconds: float) -> tuple[float, bool]:
    """Calls a second of so many threads at once, each with operands of its own and one kernel thread, and whether all were right."""
    ready, go, right = threading.Barrier(threads + 1), threading.Event(), [True] * threads
    counts, ends = [0] * threads, [0.0] * threads

    def work(at: int) -> None:
        a = np.full((size, size), at + 1, np.float32)
        with tt.constrained(threads=1):
            for _ in range(20):
                tt.matmul(a, a)
            ready.wait()
            go.wait()
            began = time.perf_counter()
            while time.perf_counter() - began < seconds:
                for _ in range(10):
                    result = tt.matmul(a, a)
                counts[at] += 10
            ends[at] = time.perf_counter() - began
        right[at] = bool((result == size * (at + 1) ** 2).all())

    pool = [threading.Thread(target=work, args=(at,)) for at in range(threads)]
    [thread.start() for thread in pool]
    ready.wait()
    go.set()
    [thread.join() for thread in pool]
    return sum(count / end for count, end in zip(counts, ends)), all(right)


def scaling(goals: Goals) -> None:
    """Threads at once against one, in turns."""
    locked = not sysconfig.get_config_var("Py_GIL_DISABLED") or sys._is_gil_enabled()
    for size in (2, 64, 256, 512):
        rate(size, 1, 0.3)
        found: dict[int, list[float]] = {1: [], CORES: [], 8: []}
        correct = True
        for _ in range(5):
            for threads in found:
                calls, right = rate(size, threads, 0.3)
                found[threads].append(calls)
                correct &= right
        # Threads are compared with the one of their own turn.
        shares = {threads: statistics.median(many / one for many, one in zip(found[threads], found[1])) for threads in found}
        told = ", ".join(f"{threads} threads {share:.2f}" for threads, share in shares.items())
        print(f"scaling matmul f32 {size:4}     {told}  ({max(found[1]):,.0f} calls/s of one)")
        goals.add(correct, f"8 threads at once give right products of {size} x {size}")
        if size >= 256 or (not locked and size == 2):
            for threads in sorted({CORES, 8}):
                wanted = LEAST_SCALING * min(threads, CORES)
                goals.add(shares[threads] >= wanted, f"{threads} threads make {shares[threads]:.2f} times the calls of one, at least {wanted:.2f}")


def main() -> int:
    lock = "on" if not hasattr(sys, "_is_gil_enabled") or sys._is_gil_enabled() else "off"
    print(
        f"Python {sys.version.split()[0]} (lock {lock}), numpy {np.__version__}, trimtab {tt.__version__}, load {os.getloadavg()[0]:.2f}, "
        f"{CORES} cores; the smallest of turns, in brackets its ratio to NumPy's and the median"
    )
    rng, goals = np.random.default_rng(0), Goals()
    products(rng, goals)
    beside_rust(rng, goals)
    others(rng)
    scaling(goals)
    print(f"load at the end {os.getloadavg()[0]:.2f}")
    return 0 if goals.show() else 1


if __name__ == "__main__":
    sys.exit(main())
