"""Operations on arrays: the same as NumPy's, without copies of operands, for any stride."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import array_api_strict as xp
import numpy as np
import pytest
import trimtab as tt
from support import close, relu
from trimtab import _native


class OnDevice:
    """An array of a library whose memory is not the processor's, as CuPy's is."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("nobody asks for what cannot be read")


def test_kernels_read_the_arrays_own_memory() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((6, 8), np.float32)
    for operand in (x, x.T, x[2:], x[2:].T, np.asfortranarray(x), x.reshape(3, 2, 8), x.view(np.ndarray)):
        assert _native._lies(operand) == (operand.ctypes.data, True), operand.strides
    # Views with gaps or in another order are read where they are, too, when they are brought into order.
    for operand in (x[::2], x[:, :1], x[:, ::3], x[::-1], x[:, ::-1], x.reshape(3, 2, 8).transpose(1, 2, 0), np.broadcast_to(x[:1], (4, 6, 8))):
        assert _native._lies(operand) == (None, True), operand.strides
    # Arrays of others are shared.
    strict = xp.asarray(x, copy=False)
    assert _native._lies(strict) == (x.ctypes.data, True)
    # What cannot be read as it lies is copied: see docs/python.md.
    unaligned = np.zeros(41, np.uint8)[1:].view(np.float32)
    assert _native._lies(unaligned) == (None, False) and _native._lies(np.ones(3, bool)) == (None, False)


IS_NOT_COPIED = """
import resource, sys
import numpy as np, trimtab as tt

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

x, w = np.ones((2048, 2048), np.float32, order=sys.argv[1]), np.ones((2048, 1), np.float32)
tt.matmul(x[:, :1024], w[:1024]), tt.matmul(x, w), tt.sum(x)
before = peak()
for _ in range(3):
    y = tt.matmul(x, w)
    (tt.lazy(x) @ w).numpy()
    tt.sum(x)
assert y.flags.owndata and y.flags.writeable
print(peak() - before, x.nbytes)
"""


@pytest.mark.parametrize("order", ["C", "F"])
def test_no_memory_is_taken_for_copies_of_operands(order: str) -> None:
    ran = subprocess.run([sys.executable, "-c", IS_NOT_COPIED, order], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    grown, size = map(int, ran.stdout.split())
    assert grown < size / 2, (grown, size)


def test_lazy_reads_the_array_itself() -> None:
    x = np.ones(5)
    y = tt.lazy(x) + 1
    x[0] = 41.0
    assert y.numpy().tolist() == [42.0, 2.0, 2.0, 2.0, 2.0]
    assert not y.numpy().flags.writeable
    kept = weakref.ref(x)
    del x
    assert kept() is not None, "the expression keeps it"
    del y
    assert kept() is None, "and lets go of it"


def test_out_is_written_also_where_it_is_an_operand_or_lies_otherwise() -> None:
    a, b = np.arange(4, dtype=np.float32).reshape(2, 2), np.array([[0, 1], [1, 0]], np.float32)
    out = np.zeros((2, 2), np.float32)
    assert tt.matmul(a, b, out=out) is out and out.tolist() == [[1, 0], [3, 2]]
    assert tt.matmul(a, b, out=a) is a and a.tolist() == [[1, 0], [3, 2]]
    wide = np.zeros((2, 4), np.float32)
    tt.add(a, 1, out=wide[:, ::2])
    assert wide.tolist() == [[2, 0, 1, 0], [4, 0, 3, 0]]
    tt.softmax(a, out=out)
    close(out, tt.softmax(a))
    with pytest.raises(ValueError, match=r"the output has shape \[3\], the result has shape \[2, 2\]"):
        tt.add(a, a, out=np.zeros(3, np.float32))
    with pytest.raises(TypeError, match="the output is f64, the result is f32"):
        tt.add(a, a, out=np.zeros((2, 2)))
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        tt.add(a, a, out=out)


def test_errors_are_pythons_with_our_text() -> None:
    a = np.ones((2, 3), np.float32)
    with pytest.raises(ValueError, match="the left has 3 columns, the right has 2 rows"):
        tt.matmul(a, a)
    with pytest.raises(TypeError, match="the left operand is f32, the right one f64; cast one of them"):
        tt.add(a, a.astype(np.float64))
    with pytest.raises(TypeError, match="arrays of uint64 are not computed with"):
        tt.add(np.ones(2, np.uint64), 1)
    with pytest.raises(TypeError, match=">f4"):
        tt.exp(np.ones(2, ">f4"))
    with pytest.raises(TypeError, match="object"):
        tt.exp(np.array([None]))
    with pytest.raises(OverflowError, match="300 is not a number of the type u8"):
        tt.add(np.ones(2, np.uint8), 300)
    with pytest.raises(ValueError, match="axis 2 is none of shape"):
        tt.sum(a, 2)
    with pytest.raises(ZeroDivisionError):
        tt.div(np.ones(2, np.int32), 0)
    with pytest.raises(IndexError):
        tt.take(a, np.array([5]), 0)
    with pytest.raises(ValueError, match="more than 8 dimensions"):
        tt.exp(np.ones((1,) * 9)[:, ::-1])
    with pytest.raises(TypeError, match="masks are not looked at"):
        tt.sum(np.ma.masked_array([1.0, 2.0], [True, False]))
    with pytest.raises(TypeError):
        tt.matmul(a)


def test_truth_values_that_are_other_bytes_are_true() -> None:
    odd = np.array([0, 1, 7, 255], np.uint8).view(bool)
    assert int(tt.sum(odd)) == 3
    assert tt.where(odd, 1.0, 0.0).tolist() == [0.0, 1.0, 1.0, 1.0]
    assert tt.eq(odd, np.array([False, True, True, True])).all()
    assert tt.where(odd[::-1], 1.0, 0.0).tolist() == [1.0, 1.0, 1.0, 0.0]


def test_truth_values_that_change_later_stay_truth_values() -> None:
    # Through a view of another type anything can be written, also after an expression or a result has the array.
    flags = np.array([True, False, True, False])
    picked = tt.lazy(flags).select(np.full(4, 5.0), np.zeros(4))
    turned = tt.lazy(flags).T
    flags.view(np.uint8)[:] = [2, 0, 254, 0]
    assert picked.numpy().tolist() == [5.0, 0.0, 5.0, 0.0]
    assert turned.numpy().view(np.uint8).tolist() == [1, 0, 1, 0]
    for count in (4, 200_000):
        x = np.arange(count, dtype=np.float64)
        found = tt.lt(x, count / 2)
        found.view(np.uint8)[:] = 3
        # Results give their memory to later ones: what was written there must not show.
        del found
        again = tt.ge(x, count / 2)
        assert int(again.view(np.uint8).max()) == 1 and int(np.sum(again)) == count // 2
    out = np.zeros(4, bool)
    out.view(np.uint8)[:] = 7
    tt.lt(np.arange(4.0), 2.0, out=out)
    assert out.view(np.uint8).tolist() == [1, 1, 0, 0]


def test_results_are_nobody_elses() -> None:
    x = np.arange(5.0).reshape(1, 5)
    lazy = tt.lazy(x) * 2
    kept = lazy.numpy()
    for result in (tt.transpose(lazy), tt.cast(lazy, np.float64), tt.sum(lazy, 0), lazy._finish(), tt.transpose(x), tt.cast(x, "f64")):
        result[...] = -1.0
        assert lazy.numpy().tolist() == kept.tolist() == [[0.0, 2.0, 4.0, 6.0, 8.0]] and x[0, 4] == 4.0
    with pytest.raises(ValueError, match="read-only"):
        kept[0, 0] = 1.0
    with pytest.raises(ValueError):
        kept.flags.writeable = True


@pytest.mark.skipif(os.cpu_count() == 1, reason="not run: needs two cores")
def test_the_interpreters_lock_is_given_up_while_a_kernel_runs() -> None:
    a = np.ones((900, 900))
    counted, running = [0], threading.Event()

    def count() -> None:
        running.set()
        while running.is_set():
            counted[0] += 1

    def rate(work: Callable[[], Any]) -> float:
        began, before = time.perf_counter(), counted[0]
        while time.perf_counter() - began < 0.3:
            work()
        return (counted[0] - before) / (time.perf_counter() - began)

    with tt.constrained(threads=1):
        for _ in range(3):
            tt.matmul(a, a)
        other = threading.Thread(target=count)
        other.start()
        running.wait()
        alone, beside = rate(lambda: time.sleep(0.05)), rate(lambda: tt.matmul(a, a))
        running.clear()
        other.join()
    # A call takes tens of milliseconds. With the lock held others would run for 5 between two of them.
    assert beside > 0.3 * alone, (beside, alone)


def test_every_operation_of_the_facade_is_there_and_right() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(0.5, 2, (4, 6)).astype(np.float32)
    e = np.exp(x - x.max(-1, keepdims=True))
    close(tt.softmax(x), e / e.sum(-1, keepdims=True))
    close(tt.log_softmax(x), np.log(e / e.sum(-1, keepdims=True)), 10)
    close(tt.logsumexp(x), np.log(np.exp(x).sum(-1)))
    close(tt.variance(x), x.var(-1))
    close(tt.sigmoid(x), 1 / (1 + np.exp(-x)))
    close(tt.log(x), np.log(x))
    close(tt.pow(x, 2), x**2)
    close(tt.div(x, x + 1), x / (x + 1))
    close(tt.gelu(x), 0.5 * x * (1 + np.tanh(np.float32(np.sqrt(2 / np.pi)) * (x + 0.044715 * x**3))), 10)
    close(tt.layer_norm(x, epsilon=0.0), (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True), 100)
    close(tt.rms_norm(x, epsilon=0.0), x / np.sqrt((x * x).mean(-1, keepdims=True)), 10)
    close(tt.cumsum(x, 1), np.cumsum(x, 1), 10)
    close(tt.cumsum(x), np.cumsum(x), 60)
    close(tt.scan("max", x, 0), np.maximum.accumulate(x, 0))
    close(tt.sort(x, 0, descending=True), np.sort(x, 0)[::-1])
    assert tt.argsort(x, 1).tolist() == np.argsort(x, 1, kind="stable").tolist()
    assert tt.argmin(x) == np.argmin(x)
    close(tt.take_along(x, tt.top_k(x, 2), 1), np.sort(x, 1)[:, ::-1][:, :2].copy())
    close(tt.clip(x, 0.7, 1.5), np.clip(x, np.float32(0.7), np.float32(1.5)))
    close(tt.pad(x, [(1, 0), (0, 2)], 3), np.pad(x, [(1, 0), (0, 2)], constant_values=3))
    close(tt.embedding(x, np.array([3, 0])), x[[3, 0]])
    close(tt.scatter_add(x, np.array([1, 1]), x[:2]), x + np.array([[0], [1], [0], [0]], np.float32) * (x[0] + x[1]), 4)
    z = x.astype(np.complex128)
    close(tt.fft(z), np.fft.fft(z), 10)
    close(tt.ifft(tt.fft(z, 2), 2), z, 10)
    close(tt.rfft(x.astype(float)), np.fft.rfft(x.astype(float)), 10)
    close(tt.irfft(tt.rfft(x.astype(float)), 6), x.astype(float), 10)
    close(tt.cast(x, np.int32), x.astype(np.int32))
    image, weights = rng.uniform(-1, 1, (1, 2, 5, 5)).astype(np.float32), rng.uniform(-1, 1, (3, 2, 3, 3)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (2, 3))
    close(tt.conv(image, weights), np.einsum("nchwrs,kcrs->nkhw", windows, weights).astype(np.float32), 20)
    close(tt.conv(image, weights, act="relu"), relu(np.einsum("nchwrs,kcrs->nkhw", windows, weights).astype(np.float32)), 20)
    close(tt.max_pool(image, (3, 3)), windows.max((-2, -1)))
    close(tt.mean_pool(image, (3, 3)), windows.mean((-2, -1)).astype(np.float32), 4)
    q = rng.uniform(-1, 1, (2, 3, 4)).astype(np.float64)
    scores = np.exp(q @ q.swapaxes(1, 2) / 2)
    close(tt.attention(q, q, q), scores / scores.sum(-1, keepdims=True) @ q, 4)
    close(tt.slice_assign(x, [1, 1], x[:1, :2]), np.block([[x[:1]], [x[1:2, :1], x[:1, :2], x[1:2, 3:]], [x[2:]]]))
    for name, right in [("eq", np.equal), ("ne", np.not_equal), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal)]:
        assert (getattr(tt, name)(x, x[::-1]) == right(x, x[::-1])).all(), name
        assert (getattr(tt, name)(1.0, x) == right(np.float32(1.0), x)).all(), name


def test_expressions_are_as_in_rust() -> None:
    x, w, b = np.ones((4, 3), np.float32), np.full((3, 2), 2.0, np.float32), np.array([-6.0, 1.0], np.float32)
    y = (tt.lazy(x) @ w + b).relu()
    assert (y.shape, y.dtype, y.ndim) == ((4, 2), "f32", 2)
    assert np.asarray(y).tolist() == [[0.0, 7.0]] * 4
    assert f"{y.sum():.1f}" == "28.0" and str(y.max()) == "7.0" and float(y.mean()) == 3.5
    assert (x + tt.lazy(x)).numpy().tolist() == (2 * x).tolist(), "NumPy leaves operators to us"
    assert (2 - tt.lazy(x)).T.numpy().shape == (3, 4)
    assert (x.T @ tt.lazy(x)).numpy().tolist() == (x.T @ x).tolist()
    assert "expected altogether" in y.explain() and "not computed" in repr(tt.lazy(x) * 2)
    with pytest.raises(ValueError, match="do not fit"):
        tt.lazy(x) @ x
    with pytest.raises(ValueError, match="cannot have shape"):
        tt.lazy(x).reshape(5, -1)
    with pytest.raises(ValueError, match="one size may be -1"):
        tt.lazy(x).reshape((-1, -1))
    assert tt.lazy(x).reshape([2, 6]).shape == tt.lazy(x).reshape(2, -1).shape == (2, 6)
    total = tt.lazy(x).sum((0, 1), keepdims=True)
    assert total.shape == tt.lazy(x).max(keepdims=True).shape == (1, 1) and total.item() == 12.0
    assert (tt.lazy(x).pow(2) ** 2).mean(1, keepdims=True).shape == (4, 1)
    # Comparisons by sign but for ``==``, which asks whether two expressions are one and the same.
    for found in (tt.lazy(x) < 2, 2 > tt.lazy(x), x >= tt.lazy(x), tt.lazy(x).eq(1), tt.lazy(x).ne(0)):
        assert found.dtype == "bool" and found.numpy().all()
    assert y == y and y != tt.lazy(x) and len({y, y}) == 1
    assert pickle.loads(pickle.dumps(y)).numpy().tolist() == y.numpy().tolist()


def test_arrays_that_are_not_the_processors_are_refused() -> None:
    with pytest.raises(TypeError, match="OnDevice lies on a device that the processor does not read; move it to the CPU first"):
        tt.add(OnDevice(), 1.0)
    with pytest.raises(TypeError, match="move it to the CPU first"):
        tt.matmul(np.ones((2, 2)), OnDevice())


def test_arrays_of_others_come_back_as_their_own_kind() -> None:
    x = xp.ones((2, 2), dtype=xp.float32)
    for y in (tt.matmul(x, x), tt.exp(x), tt.add(x, 1), tt.softmax(x), tt.sum(x, 0)):
        assert type(y) is type(x), type(y)
    assert type(tt.add(np.ones((2, 2), np.float32), x)) is type(x)
    assert isinstance(tt.add([1.0, 2.0], [3.0, 4.0]), np.ndarray)
    # Without an axis everything is one row, of whatever kind it is.
    for flat in (x, tt.lazy(np.ones((2, 2))), [[1.0, 1.0], [1.0, 1.0]]):
        assert int(tt.argmax(flat)) == 0 and np.asarray(tt.cumsum(flat)).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert type(tt.argmax(x)) is type(x)


def test_eight_threads_at_once_give_right_results() -> None:
    wrong: list[str] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for size in [2, 3, 16, 64, 130] * 20:
            a, b = rng.uniform(-1, 1, (size, size)), rng.uniform(-1, 1, (size, size))
            if not np.allclose(tt.matmul(a, b), a @ b) or not np.allclose((tt.lazy(a) @ b + a).sum(0).numpy(), (a @ b + a).sum(0)):
                wrong.append(f"{seed} {size}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    [thread.start() for thread in threads]
    [thread.join(120) for thread in threads]
    assert not wrong and not any(thread.is_alive() for thread in threads)


LEAKS = """
import gc
import numpy as np, trimtab as tt

def resident():
    gc.collect()
    with open("/proc/self/statm") as told:
        return int(told.read().split()[1]) * 4096

a, b, f = np.ones((2, 2), np.float32), np.ones((2, 2), np.float32), np.ones((5, 7), np.float32, order="F")
flags, out = np.array([True, False]), np.zeros((2, 2), np.float32)

def calls(count):
    for _ in range(count // 10):
        tt.matmul(a, b), tt.add(a, 1.0), tt.sum(a, 0), tt.exp(f), tt.matmul(a, b, out)
        tt.transpose(f), tt.where(flags, a, 0.0), tt.lt(a, b), tt.max(f[::2])
        try:
            tt.matmul(a, f)
        except ValueError:
            pass

def expressions(count):
    for _ in range(count):
        ((tt.lazy(a) @ b + a).relu() * f[:2, :2]).numpy()

calls(1_000), expressions(100)
rounds = [resident()]
for _ in range(3):
    calls(100_000), expressions(1000)
    rounds.append(resident())
print(*(after - before for before, after in zip(rounds, rounds[1:])))
"""


def test_a_hundred_thousand_calls_and_a_thousand_expressions_keep_no_memory() -> None:
    ran = subprocess.run([sys.executable, "-c", LEAKS], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    grown = sorted(map(int, ran.stdout.split()))
    print(grown)
    # What the background takes to race, once, 1.2 MB at most, not every round has.
    assert grown[1] < 1 << 20 and grown[0] < 1 << 18, grown
