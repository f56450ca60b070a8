"""Custom Functions that say they may be traced: their operators stand in captured backwards, or they are called as any
other where they cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca
from weft.autograd import Function, grad
from weft.autograd.function import traceable

Rng = np.random.Generator
LOG: list[float] = []


def scaled(deed: Any = None) -> type[Function]:
    @traceable
    class Scaled(Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor, k: float) -> weft.Tensor:
            ctx.save_for_backward(x)
            ctx.k = k
            return x * x * x * k

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> Any:
            (x,) = ctx.saved_tensors
            if deed is not None:
                deed(g)
            return 3 * ctx.k * x * x * g, None

    return Scaled


def loss(function: type[Function], x: weft.Tensor, w: weft.Tensor, k: float) -> weft.Tensor:
    return (function.apply(x * w, k) * w).sum()


def leaves(rng: Rng, n: int) -> tuple[weft.Tensor, weft.Tensor]:
    x, w = (weft.from_numpy(rng.standard_normal(s)).requires_grad_() for s in ((n, 4), (4,)))
    return x, w


def expected(x: weft.Tensor, w: weft.Tensor, k: float) -> Any:
    return grad(((x * w) ** 3 * k * w).sum(), [x, w])


def python_calls() -> list[str]:
    return [node.op.base for node in ca.last_graph().graph.nodes if node.op.base == "call_backward"]


def test_its_backward_is_copied_into_the_graph(rng: Rng) -> None:
    function = scaled()
    for n in (2, int(rng.integers(3, 30)), 1):
        x, w = leaves(rng, n)
        k = float(rng.standard_normal())
        with ca.enable():
            got = grad(loss(function, x, w, k), [x, w])
        for a, b in zip(got, expected(x, w, k), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10)
        assert not python_calls() and "%aot0_" in str(ca.last_graph())


def test_higher_orders_and_the_engine_agree(rng: Rng) -> None:
    function = scaled()
    x, w = leaves(rng, 3)
    assert weft.autograd.gradcheck(lambda a, b: loss(function, a, b, 0.5), (x, w))
    assert weft.autograd.gradgradcheck(lambda a, b: loss(function, a, b, 0.5), (x, w), fast_mode=True)


@pytest.mark.parametrize("deed", [
    lambda g: LOG.append(float(g.sum())), lambda g: LOG.append(g.ndim), lambda g: print("backward"),
])
def test_what_cannot_be_traced_is_called(rng: Rng, capsys: Any, deed: Any) -> None:
    function, runs = scaled(deed), 3
    LOG.clear()
    for n in rng.integers(1, 9, runs):
        x, w = leaves(rng, int(n))
        with ca.enable():
            got = grad(loss(function, x, w, 2.0), [x, w])
        for a, b in zip(got, expected(x, w, 2.0), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10)
        assert python_calls()
    assert len(LOG) + capsys.readouterr().out.count("backward") == runs


def test_errors_are_the_user_s(rng: Rng) -> None:
    @traceable
    class Picky(Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            if x.shape[0] > 4:
                raise KeyError("too long")
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> Any:
            return g * 2

    assert Picky.apply(weft.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(KeyError, match="too long"):
        Picky.apply(weft.ones(5, requires_grad=True))
