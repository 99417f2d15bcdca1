"""torch and JAX: their arrays are read where they lie, and results are of their kind. `cargo xtask python --partners`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import trimtab as tt
from support import close
from trimtab import _native

torch: Any = pytest.importorskip("torch")
jax: Any = pytest.importorskip("jax")


def of_torch(x: np.ndarray[Any, Any]) -> Any:
    return torch.tensor(x)


def of_jax(x: np.ndarray[Any, Any]) -> Any:
    return jax.numpy.asarray(x)


KINDS = [of_torch, of_jax]


@pytest.mark.parametrize("of", KINDS)
def test_results_are_of_the_operands_kind(of: Callable[[Any], Any]) -> None:
    rng = np.random.default_rng(0)
    x, w, b = rng.random((4, 3), np.float32), rng.random((3, 5), np.float32), rng.random(5, np.float32)
    kind = type(of(x))
    cases: list[tuple[Any, Any]] = [
        (tt.matmul(of(x), of(w)), x @ w),
        (tt.add(of(x), 1), x + 1),
        (tt.sub(2.0, of(x)), 2 - x),
        (tt.relu(of(x - 0.5)), np.maximum(x - 0.5, 0)),
        (tt.sum(of(x), 0), x.sum(0)),
        (tt.max(of(x)), x.max()),
        (tt.transpose(of(x)), x.T),
        (tt.lt(of(x), 0.5), x < 0.5),
        (tt.where(of(x < 0.5), of(x), 0.0), np.where(x < 0.5, x, np.float32(0))),
        (tt.concat([of(x), of(x)]), np.concatenate([x, x])),
        (tt.add(x, of(x)), x + x),
        (tt.softmax(of(x)), np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    ]
    for at, (found, right) in enumerate(cases):
        assert isinstance(found, kind), (at, type(found))
        close(np.asarray(found), right, 10)
    lazy = (tt.lazy(of(x)) @ of(w) + of(b)).relu()
    close(lazy.numpy(), np.maximum(x @ w + b, 0), 10)
    index = tt.argmax(of(x), 1)
    assert np.asarray(index).tolist() == x.argmax(1).tolist() and isinstance(index, kind)


@pytest.mark.parametrize("of", KINDS)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "int32", "float16", "float32"])
def test_every_type_both_have_is_taken(of: Callable[[Any], Any], dtype: str) -> None:
    x = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    close(np.asarray(tt.transpose(of(x))), x.T)
    assert int(tt.max(of(x))) == 1


def test_memory_is_shared_with_torch_and_jax() -> None:
    x = torch.rand(6, 8)
    assert _native._lies(x) == (x.data_ptr(), True)
    assert _native._lies(x.t()) == (x.data_ptr(), True)
    assert _native._lies(x[::2]) == (None, True)
    y = jax.numpy.ones((6, 8), jax.numpy.float32)
    assert _native._lies(y) == (y.unsafe_buffer_pointer(), True)
    # What is written through torch before the value is asked for counts.
    lazy = tt.lazy(x) + 1
    x[0, 0] = 41.0
    assert float(lazy.numpy()[0, 0]) == 42.0


def test_results_given_to_torch_can_be_written_and_outlive_their_operands() -> None:
    x = torch.ones(300, 300)
    y = tt.matmul(x, x)
    del x
    y += 1
    assert float(y[0, 0]) == 301.0


def test_what_cannot_be_shared_says_why() -> None:
    with pytest.raises(TypeError, match="requires? grad|detach"):
        tt.add(torch.ones(3, requires_grad=True), 1.0)
    with pytest.raises(TypeError, match="cannot be shared|not computed with"):
        tt.add(torch.ones(3, dtype=torch.bfloat16), 1.0)
    with pytest.raises(TypeError):
        tt.add(torch.ones(3, device="meta"), 1.0)


def test_numba_is_one_of_the_options() -> None:
    numba: Any = pytest.importorskip("numba")

    @tt.choose(key=lambda x: x.size, name="partners-numba")
    def total(x: Any) -> float:
        return float(sum(x.tolist()))

    @total.option
    @numba.njit
    def by_numba(x: Any) -> float:
        sum = 0.0
        for value in x:
            sum += value
        return sum

    @total.option
    def by_numpy(x: Any) -> float:
        return float(x.sum())

    x = np.ones(100_000)
    by_numba(x)
    with tt.Runtime(wisdom="off", budget="2s"):
        assert [total(x) for _ in range(20)] == [100_000.0] * 20
    assert total.chosen(x) in ("by_numba", "by_numpy"), total.explain(x)


def test_the_settings_of_a_numba_function_are_found() -> None:
    numba: Any = pytest.importorskip("numba")

    @numba.njit
    def blocked(x: Any, block: int) -> float:
        sum = 0.0
        for start in range(0, x.size, block):
            for at in range(start, min(start + block, x.size)):
                sum += x[at]
        return sum

    @tt.tune(space={"block": [1, 16, 256, 4096]}, reference=lambda x: float(x.sum()), evals=4, name="partners-blocks")
    def total(x: Any, *, block: int) -> float:
        return float(blocked(x, block))

    x = np.ones(50_000)
    blocked(x, 1)
    best = total.search(x)
    assert best is not None and best["block"] in (1, 16, 256, 4096) and total(x) == 50_000.0
