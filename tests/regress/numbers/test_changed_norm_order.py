"""A lifted number that decides what an operator computes: rules that asked its value got True, whatever it was."""

from __future__ import annotations

import math
import random

import pytest

import weft
from weft import Tensor
from weft.ir.builder import Builder
from weft.types.tensor_type import FLOAT

INF = math.inf
ORDERS = (0.0, 1.0, 2.0, INF, -INF)


@pytest.mark.parametrize("backend", ["llvm", "interpret"])
@pytest.mark.parametrize("order", ORDERS)
def test_the_order_of_a_norm_changes(order: float, backend: str) -> None:
    def function(x: Tensor, p: float) -> tuple[Tensor, Tensor]:
        norm = weft.linalg.vector_norm(x, p)
        return norm.detach(), weft.autograd.grad(norm, x)[0]

    compiled = weft.compile(function, backend=backend)
    generic = [random.uniform(2.1, 6) for _ in range(3)]
    for p in (*generic, order, generic[0], order):
        x = weft.tensor([1.0, -1.0, 0.5, 0.0], dtype=weft.float64, requires_grad=True)
        weft.testing.assert_close(compiled(x, p), function(x, p))
    # the constant, the lifted number, and the order that is computed in a way of its own
    assert len(compiled.misses) == 2, compiled.misses


def test_a_changed_order_within_transforms() -> None:
    def function(x: Tensor, p: float) -> tuple[Tensor, Tensor, Tensor]:
        def norm(row: Tensor) -> Tensor:
            return weft.linalg.vector_norm(row, p)

        rows = weft.func.vmap(weft.func.grad(norm))(x)
        value, tangent = weft.func.jvp(norm, (x[0],), (weft.ones_like(x[0]),))
        return rows, value, tangent

    compiled = weft.compile(function)
    for p in (2.5, 3.5, INF, 1.0, 0.0, 4.5):
        x = weft.tensor([[1.0, -1.0, 0.5], [0.25, 2.0, -3.0]], dtype=weft.float64)
        weft.testing.assert_close(compiled(x, p), function(x, p))


@pytest.mark.parametrize("order", ORDERS)
def test_a_changed_order_within_a_branch_and_a_loop(order: float) -> None:
    def function(x: Tensor, p: float) -> tuple[Tensor, Tensor]:
        chosen = weft.cond(x.sum() > 0, lambda v: weft.linalg.vector_norm(v, p), lambda v: v.sum(), (x,))
        steps, _ = weft.while_loop(
            lambda i, v: i < 3, lambda i, v: (i + 1, v / (1 + weft.linalg.vector_norm(v, p))), (weft.tensor(0), x * 2)
        )
        return chosen, weft.autograd.grad(chosen, x)[0] * steps

    compiled = weft.compile(function)
    for p in (2.5, 3.5, order, 4.5):
        x = weft.tensor([1.0, -1.0, 0.5], dtype=weft.float64, requires_grad=True)
        weft.testing.assert_close(compiled(x, p), function(x, p))


def test_a_factor_that_becomes_0_leaves_nan_out() -> None:
    def function(x: Tensor, a: Tensor, beta: float) -> Tensor:
        return weft.addmm(x, a, a, beta=beta)

    compiled = weft.compile(function)
    x, a = weft.full((2, 2), math.nan), weft.ones(2, 2)
    for beta in (0.5, 0.25, 0.0, 0.75):
        weft.testing.assert_close(compiled(x, a, beta), function(x, a, beta), equal_nan=True)


def test_an_exponent_that_becomes_0_has_no_slope() -> None:
    def function(x: Tensor, p: float) -> Tensor:
        return weft.autograd.grad((x**p).sum(), x)[0]

    compiled = weft.compile(function)
    x = weft.tensor([0.0, 2.0], requires_grad=True)
    for p in (2.5, 1.5, 0.0, 1.0):
        weft.testing.assert_close(compiled(x, p), function(x, p))


def test_a_graph_value_is_no_truth_value() -> None:
    builder = Builder()
    number = builder.handle(builder.param(FLOAT, "p"))
    for ask in (bool, float, int, complex, lambda p: p == 0 or p, lambda p: [1, 2][p]):
        with pytest.raises(weft.WeftError, match="which is only known when the program runs"):
            if ask(number):
                pass
