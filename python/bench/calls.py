"""What calls take beside NumPy's, in turns in one process: `cargo xtask python --bench`."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import trimtab as tt
from trimtab import _native


def best_of(calls: dict[str, Callable[[], Any]], number: int, rounds: int = 40) -> dict[str, float]:
    """The smallest time of a call in nanoseconds; rounds are taken in turns, so that all see the same machine."""
    times = {name: float("inf") for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            began = time.perf_counter_ns()
            for _ in range(number):
                call()
            times[name] = min(times[name], (time.perf_counter_ns() - began) / number)
    return times


def show(what: str, times: dict[str, float]) -> None:
    base = times["numpy"]
    told = ", ".join(f"{name} {ns:,.0f} ns ({ns / base:.2f})" for name, ns in times.items())
    print(f"{what:28} {told}")


def main() -> None:
    print(f"numpy {np.__version__}, load {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores; in brackets the ratio to NumPy")
    rng = np.random.default_rng(0)
    for size, number in ((2, 20_000), (8, 20_000), (64, 2_000), (512, 8)):
        a, b = (rng.random((size, size), np.float32) for _ in range(2))
        out = np.empty_like(a)
        for _ in range(50):
            tt.matmul(a, b)
        show(
            f"matmul f32 {size} x {size}",
            best_of({"numpy": lambda: a @ b, "trimtab": lambda: tt.matmul(a, b), "trimtab out=": lambda: tt.matmul(a, b, out)}, number),
        )
    beside_rust(rng)
    for count, number in ((4, 20_000), (10_000, 2_000), (1_000_000, 20)):
        x, y = (rng.random(count, np.float32) for _ in range(2))
        for _ in range(50):
            tt.add(x, y), tt.sum(x), tt.exp(x)
        show(f"add f32 {count}", best_of({"numpy": lambda: x + y, "trimtab": lambda: tt.add(x, y)}, number))
        show(f"exp f32 {count}", best_of({"numpy": lambda: np.exp(x), "trimtab": lambda: tt.exp(x)}, number))
        show(f"sum f32 {count}", best_of({"numpy": lambda: x.sum(), "trimtab": lambda: tt.sum(x)}, number))
    x, w, bias = rng.random((256, 256), np.float32), rng.random((256, 256), np.float32), rng.random(256, np.float32)
    for _ in range(50):
        (tt.lazy(x) @ w + bias).relu().numpy()
    show(
        "relu(x @ w + b) 256",
        best_of({"numpy": lambda: np.maximum(x @ w + bias, 0), "trimtab lazy": lambda: (tt.lazy(x) @ w + bias).relu().numpy()}, 50),
    )
    scaling()


def beside_rust(rng: np.random.Generator) -> None:
    """The same products called from Rust, on the same memory, in turns; medians of the ratios and the smallest times."""
    for size, number, rounds in ((2, 20_000, 40), (64, 2_000, 40), (512, 8, 150)):
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
        print(
            f"matmul f32 {size} x {size} beside Rust   trimtab {least[0]:,.0f} ns, from Rust {least[1]:,.0f} ns: ratio of the smallest "
            f"{least[0] / least[1]:.3f}, median {statistics.median(ratios):.3f}"
        )


def scaling() -> None:
    """Threads at once, each with operands of its own and one kernel thread: calls a second against one thread's."""
    for size, number in ((2, 40_000), (64, 2_000), (256, 60)):
        rates = {}
        for count in (1, 2, 8):
            def work() -> None:
                a = np.ones((size, size), np.float32)
                with tt.constrained(threads=1):
                    for _ in range(number):
                        tt.matmul(a, a)

            work()
            threads = [threading.Thread(target=work) for _ in range(count)]
            began = time.perf_counter()
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            rates[count] = count * number / (time.perf_counter() - began)
        told = ", ".join(f"{count} threads {rate / rates[1]:.2f}" for count, rate in rates.items())
        print(f"scaling matmul f32 {size:4}     {told}  ({rates[1]:,.0f} calls/s of one)")


if __name__ == "__main__":
    main()
