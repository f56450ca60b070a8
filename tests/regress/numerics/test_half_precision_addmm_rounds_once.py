"""Half precision: what is added to a product is added before the product is rounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F

# in each the product is 1 + tiny, which the dtype does not have; 1 is taken away again
TINY = {weft.bfloat16: 2.0**-8, weft.float16: 2.0**-11}
SUMS: dict[str, Callable[[weft.Tensor, weft.Tensor, weft.Tensor], weft.Tensor]] = {
    "addmm": lambda a, b, c: weft.addmm(c, a, b),
    "addmm beta alpha": lambda a, b, c: weft.addmm(c, a, b, beta=2, alpha=2),
    "addmv": lambda a, b, c: weft.addmv(c[0], a, b[:, 0]),
    "baddbmm": lambda a, b, c: weft.baddbmm(c[None], a[None], b[None]),
    "addbmm": lambda a, b, c: weft.addbmm(c, a[None], b[None]),
    "linear": lambda a, b, c: F.linear(a, b.t(), c[0]),
    "linear of a batch": lambda a, b, c: F.linear(a[None, None], b.t(), c[0]),
    "vmap of linear": lambda a, b, c: weft.vmap(F.linear)(a[None], b.t()[None], c),
    "conv1d": lambda a, b, c: F.conv1d(a.t()[None], b.t()[:, :, None], c[0]),
    "conv2d": lambda a, b, c: F.conv2d(a.t()[None, :, :, None], b.t()[:, :, None, None], c[0]),
    "conv3d": lambda a, b, c: F.conv3d(a.t()[None, :, :, None, None], b.t()[:, :, None, None, None], c[0]),
    "conv_transpose1d": lambda a, b, c: F.conv_transpose1d(a.t()[None], b[:, :, None], c[0]),
    "conv_transpose2d": lambda a, b, c: F.conv_transpose2d(a.t()[None, :, :, None], b[:, :, None, None], c[0]),
    "bilinear": lambda a, b, c: F.bilinear(a, weft.ones_like(c), b.t()[:, :, None], c[0]),
}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("dtype", TINY, ids=str)
@pytest.mark.parametrize("is_compiled", [False, True])
def test_the_sum_is_rounded_once(name: str, dtype: Any, is_compiled: bool) -> None:
    tiny, add = TINY[dtype], SUMS[name]

    def step(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor) -> tuple[Any, ...]:
        y = add(a, b, c)
        return y, weft.autograd.grad(y.sum(), (a, b, c))

    a, c = weft.tensor([[1.0, tiny]], dtype=dtype).requires_grad_(), weft.tensor([[-1.0]], dtype=dtype).requires_grad_()
    b = weft.ones(2, 1, dtype=dtype).requires_grad_()
    y, slopes = (weft.compile(step) if is_compiled else step)(a, b, c)
    factor = 2 if "beta" in name else 1
    assert y.dtype is dtype
    assert y.item() == factor * tiny
    assert [g.dtype for g in slopes] == [dtype] * 3
    assert slopes[0].tolist() == [[factor, factor]]
    assert slopes[1].tolist() == [[factor], [factor * tiny]]
    assert slopes[2].tolist() == [[factor]]


def test_averages_of_windows_round_once() -> None:
    x = weft.linspace(-3, 5, 2 * 7 * 9).reshape(1, 2, 7, 9).bfloat16()
    for pool in (lambda t: F.avg_pool2d(t, 3, 2), lambda t: F.adaptive_avg_pool2d(t, (3, 4))):
        want = pool(x.double()).bfloat16().float().numpy()
        for run in (pool, weft.compile(pool)):
            np.testing.assert_array_equal(run(x).float().numpy(), want)
