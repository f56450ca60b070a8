"""Values and gradients that differed from PyTorch's at infinity, on a branch cut, of order 0 and for tolerances of each
matrix (torch 2.13 gives these numbers)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F

INF = float("inf")


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("function", [F.elu, F.selu, F.celu, lambda x: weft.ops.aten.elu(x, 0.7, 1.2, 0.5)])
def test_units_have_no_curvature_at_infinity(function: Callable[..., Any], compiled: bool) -> None:
    def curvature(x: weft.Tensor) -> Any:
        (slope,) = weft.autograd.grad(function(x).sum(), x, create_graph=True)
        return weft.autograd.grad(slope.sum(), x)[0]

    x = weft.tensor([INF, 3.0, 1e308], dtype=weft.float64, requires_grad=True)
    assert (weft.compile(curvature) if compiled else curvature)(x).tolist() == [0.0, 0.0, 0.0]


def test_acosh_has_the_slope_of_its_side_of_the_cut() -> None:
    z = weft.complex(weft.tensor([-2.0, -2.0]), weft.tensor([0.0, -0.0])).requires_grad_()
    (slope,) = weft.autograd.grad(z.acosh().real.sum(), z)
    np.testing.assert_allclose(slope.real.numpy(), [-1 / np.sqrt(3)] * 2, rtol=1e-6)  # of arccosh(2), as x falls


def test_no_differences_are_taken_of_what_is_put_before() -> None:
    x = weft.arange(4.0)
    assert weft.diff(x, 0, prepend=x, append=x).tolist() == x.tolist()


def test_a_number_times_the_logarithm() -> None:
    x = weft.tensor([0.0, 1.0, 3.0], dtype=weft.float64)
    np.testing.assert_allclose(weft.special.xlog1py(2.0, x).numpy(), 2 * np.log1p(x.numpy()))
    assert weft.special.xlog1py(0.0, weft.tensor([INF, 1.0])).tolist() == [0.0, 0.0]


def test_ranks_with_tolerances_of_each_matrix() -> None:
    A = weft.diag_embed(weft.tensor([[1.0, 0.1, 0.01], [1.0, 0.1, 0.01]]))
    assert weft.linalg.matrix_rank(A, atol=weft.tensor([0.5, 0.05])).tolist() == [1, 2]
    assert weft.linalg.matrix_rank(A, rtol=weft.tensor(0.05)).tolist() == [2, 2]
