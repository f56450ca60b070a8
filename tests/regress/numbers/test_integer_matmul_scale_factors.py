"""addmv and its kin take the integer part of their factors for integer tensors, also where the factor is an input of
the program: compiled and lazy programs of one factor serve every other; what the dtype cannot hold is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

PRODUCTS: dict[str, Callable[..., Any]] = {
    "addmm": lambda x, A, B: A[0] @ B[0],
    "addmv": lambda x, A, B: A[0] @ B[0, :, 0],
    "addr": lambda x, A, B: np.outer(A[0, :, 0], B[0, 0]),
    "baddbmm": lambda x, A, B: A @ B,
    "addbmm": lambda x, A, B: (A @ B).sum(0),
}
OPERANDS: dict[str, Callable[..., Any]] = {
    "addmm": lambda x, A, B: (x[0], A[0], B[0]),
    "addmv": lambda x, A, B: (x[0, :, 0], A[0], B[0, :, 0]),
    "addr": lambda x, A, B: (x[0], A[0, :, 0], B[0, 0]),
    "baddbmm": lambda x, A, B: (x, A, B),
    "addbmm": lambda x, A, B: (x[0], A, B),
}


@pytest.mark.parametrize("dtype", [np.int64, np.int16])
@pytest.mark.parametrize("name", PRODUCTS)
def test_integer_parts(name: str, dtype: Any, rng: np.random.Generator) -> None:
    b, n, k, m = (int(d) for d in rng.integers(2, 5, 4))
    x, A, B = (rng.integers(-9, 9, dims).astype(dtype) for dims in ((b, n, m), (b, n, k), (b, k, m)))
    plain = OPERANDS[name](x, A, B)
    product = PRODUCTS[name](x, A, B).astype(dtype)
    operands = [weft.from_numpy(np.ascontiguousarray(p)) for p in plain]

    def step(x: weft.Tensor, *rest: Any) -> weft.Tensor:
        *tensors, beta, alpha = rest
        return getattr(weft, name)(x, *tensors, beta=beta, alpha=alpha)

    compiled = weft.compile(step)
    for beta, alpha in rng.uniform(-4, 4, (3, 2)).tolist():
        wanted = int(beta) * plain[0] + int(alpha) * product
        for way in (step, compiled, weft.func.functionalize(step)):
            np.testing.assert_array_equal(way(*operands, beta, alpha).numpy(), wanted)
        lazy = step(*[t.to("lazy") for t in operands], beta, alpha)
        assert lazy.dtype is operands[0].dtype
        np.testing.assert_array_equal(lazy.cpu().numpy(), wanted)


@pytest.mark.parametrize("factor", [1j, float("inf"), 300])
def test_factors_that_do_not_fit(factor: Any) -> None:
    x = weft.ones(2, 2, dtype=weft.int8)
    with pytest.raises(RuntimeError, match="cannot be converted"):
        weft.addmm(x, x, x, beta=factor)


def test_bools_ask_whether_a_factor_is_0(rng: np.random.Generator) -> None:
    n, m = (int(d) for d in rng.integers(2, 5, 2))
    x, a, b = (rng.integers(0, 2, dims).astype(bool) for dims in ((n, m), n, m))
    operands = [weft.from_numpy(p) for p in (x, a, b)]
    compiled = weft.compile(lambda x, a, b, beta, alpha: weft.addr(x, a, b, beta=beta, alpha=alpha))
    for beta, alpha in ((2, 4), (3, 0), (7, 5)):
        wanted = (x & bool(beta)) | (np.outer(a, b) & bool(alpha))
        lazy = weft.addr(*[t.to("lazy") for t in operands], beta=beta, alpha=alpha)
        for got in (compiled(*operands, beta, alpha), lazy.cpu(), weft.addr(*operands, beta=beta, alpha=alpha)):
            assert got.dtype is weft.bool
            np.testing.assert_array_equal(got.numpy(), wanted)
