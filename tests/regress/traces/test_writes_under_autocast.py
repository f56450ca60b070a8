"""Within autocast a trace left out every in-place operator, `out=`, and the running statistics of BatchNorm."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable

import numpy as np
import pytest

import weft
from weft import Tensor
from weft.nn import functional as F

Body = Callable[[Tensor], Tensor]
linear = weft.nn.Linear(3, 3)


def _writes(write: Callable[[Tensor, Tensor], object], make: Body = lambda x: x * 2.0) -> Body:
    def body(x: Tensor) -> Tensor:
        y = make(x)
        write(y, x)
        return y

    return body


BODIES: dict[str, Body] = {
    "operator": _writes(lambda y, x: y.add_(1).mul_(x)),
    "of a view": _writes(lambda y, x: y[..., 1:].mul_(x[..., 1:])),
    "augmented": _writes(lambda y, x: y.__iadd__(x), linear),
    "item": _writes(lambda y, x: y.__setitem__(0, x.sum())),
    "copy": _writes(lambda y, x: y.copy_(x), lambda x: weft.zeros(2, 3)),
    "fill": _writes(lambda y, x: (y[0].zero_(), y[1, 1:].fill_(3))),
    "masked": _writes(lambda y, x: y.masked_fill_(x > 0, 3.0)),
    "places": _writes(lambda y, x: y.index_put_((weft.tensor([0]),), x[1])),
    "product": _writes(lambda y, x: y.addmm_(x, linear.weight.detach())),
    "out": _writes(lambda y, x: weft.add(x, 1, out=y)),
    "sizes": _writes(lambda y, x: y.t_().unsqueeze_(0)),
    "inplace=True": lambda x: F.relu(linear(x), inplace=True) + 1,
    "function": lambda x: F.threshold_(x * 1, 0.1, 7.0) + weft.relu_(x * 2),
}


@pytest.mark.parametrize("name", BODIES)
def test_the_trace_writes(name: str, rng: np.random.Generator) -> None:
    body, example = BODIES[name], weft.tensor(rng.standard_normal((2, 3)), dtype=weft.float32)
    with weft.autocast("cpu", dtype=weft.bfloat16):
        traced, file = weft.jit.trace(body, (example,), check_trace=False), io.BytesIO()
    weft.jit.save(traced, file)
    file.seek(0)
    loaded = weft.jit.load(file)
    for _ in range(2):
        x = weft.tensor(rng.standard_normal((2, 3)), dtype=weft.float32)
        with weft.autocast("cpu", dtype=weft.bfloat16):
            expected = body(x)
        for f in (traced, loaded):
            value = f(x)
            assert value.dtype is expected.dtype and weft.equal(value, expected)


def test_running_statistics() -> None:
    model = weft.nn.Sequential(linear, weft.nn.BatchNorm1d(3))
    eager, x = copy.deepcopy(model), weft.randn(4, 3)
    with weft.autocast("cpu", dtype=weft.bfloat16):
        traced = weft.jit.trace(model, (x,), check_trace=False)
        begun = int(model[1].num_batches_tracked)
        traced(x)
        for _ in range(begun + 1):
            eager(x)
    assert model[1].num_batches_tracked == begun + 1
    assert weft.allclose(model[1].running_mean, eager[1].running_mean)
