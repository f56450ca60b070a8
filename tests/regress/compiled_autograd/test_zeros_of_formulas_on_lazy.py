"""A formula that makes zeros to put a gradient back into (of sort, topk, pooling) made them on the CPU where a captured
backward ran node by node on lazy tensors: "Expected all tensors to be on the same device"."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import weft
from weft.compiled_autograd import enable

FUNCTIONS: dict[str, Callable[[weft.Tensor], weft.Tensor]] = {
    "sort": lambda x: weft.sort(x)[0] * x,
    "topk": lambda x: x.topk(2)[0].sum() * x,
    "pooling": lambda x: weft.nn.functional.max_pool1d(x[None, None], 2)[0, 0].sum() * x,
    "while_loop": lambda x: weft.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, weft.sort(v)[0] * v), (0, x))[1],
    "masked": lambda x: weft.sort(x[x.detach() > 0])[0].sum() * x,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_on_lazy(name: str) -> None:
    gradients = []
    for device in ("cpu", "lazy"):
        x = weft.linspace(-0.9, 1.1, 4, dtype=weft.float64, device=device).requires_grad_()
        y = FUNCTIONS[name](x)
        with enable():
            (gradient,) = weft.autograd.grad(y.sum(), x)
        gradients.append(gradient.cpu())
    assert weft.equal(*gradients)
