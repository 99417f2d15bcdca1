"""torch and JAX: their arrays are read where they lie, results are of their kind; settings of Numba, Pallas and Triton are found. `cargo xtask python --partners`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
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


def test_the_settings_of_a_pallas_kernel_are_found() -> None:
    pallas: Any = pytest.importorskip("jax.experimental.pallas")

    def double(x_ref: Any, out_ref: Any) -> None:
        out_ref[...] = x_ref[...] * 2

    @tt.tune(space={"block": [64, 128, 256]}, reference=lambda x: x * 2, evals=3, name="partners-pallas")
    def doubled(x: Any, *, block: int) -> Any:
        # Interpreted: there is no accelerator here, and the call is the same.
        call = pallas.pallas_call(
            double, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(x.shape[0] // block,), interpret=True,
            in_specs=[pallas.BlockSpec((block,), lambda i: (i,))], out_specs=pallas.BlockSpec((block,), lambda i: (i,)),
        )  # fmt: skip
        return call(x).block_until_ready()

    x = jax.numpy.arange(512, dtype=jax.numpy.float32)
    best = doubled.search(x)
    assert best is not None and len(doubled.study(x)) == 3 and not any("failure" in one for one in doubled.study(x).evaluations)
    assert np.asarray(doubled(x)).tolist() == (2 * np.arange(512)).tolist()


TRITON = """
import torch, triton, triton.language as tl, trimtab as tt

@triton.jit
def add(a, b, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(a + at, mask=mask) + tl.load(b + at, mask=mask), mask=mask)

@tt.tune(space={"BLOCK": [64, 128, 256]}, reference=lambda a, b: a + b, evals=3, name="partners-triton")
def added(a, b, *, BLOCK):
    out = torch.empty_like(a)
    add[(triton.cdiv(a.numel(), BLOCK),)](a, b, out, a.numel(), BLOCK=BLOCK)
    return out

a, b = torch.rand(1000), torch.rand(1000)
best = added.search(a, b)
assert torch.equal(added(a, b), a + b)
print(len(added.study(a, b)), sum("failure" in one for one in added.study(a, b).evaluations), best["BLOCK"] in (64, 128, 256))
"""


def test_the_settings_of_a_triton_kernel_are_found(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    # Triton reads kernels from files, and interprets them where there is no GPU.
    program = tmp_path / "program.py"
    program.write_text(TRITON)
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=environment, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["3", "0", "True"], ran.stdout
