"""A compiled function whose checkpointed region reads a parameter may be differentiated twice: what the region's second
run reads in the parameter's place is the parameter, and counted as another tensor over its memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from weft.autograd.graph import saved_tensors_hooks
from weft.utils.checkpoint import checkpoint, checkpoint_sequential

layer = weft.nn.Linear(3, 3).double()


def region(x: weft.Tensor) -> weft.Tensor:
    return (x @ layer.weight).sin() @ layer.weight.t() + layer.bias * x


def hooked(x: weft.Tensor) -> weft.Tensor:
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        return region(x)


BODIES: dict[str, Callable[[weft.Tensor], weft.Tensor]] = {
    "function": lambda x: checkpoint(region, x, use_reentrant=False),
    "module": lambda x: checkpoint(layer, x, use_reentrant=False).tanh(),
    "rows": lambda x: checkpoint(lambda v: (v * layer.weight[0]).sin() + layer.weight[1] * v, x, use_reentrant=False),
    "sequential": lambda x: checkpoint_sequential([layer, weft.nn.Tanh(), layer], 2, x, use_reentrant=False),
    "hooks": hooked,
}


def gradients(f: Callable[[weft.Tensor], weft.Tensor], x: weft.Tensor) -> list[np.ndarray]:
    asked = (x, layer.weight)
    first = weft.autograd.grad(f(x).square().sum(), asked, create_graph=True)
    second = weft.autograd.grad(sum(g.square().sum() for g in first), asked)
    return [g.detach().numpy() for g in (*first, *second)]


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("split", [False, True])
def test_gradients(name: str, split: bool, rng: np.random.Generator) -> None:
    compiled = weft.compile(BODIES[name], split=split)
    for n in rng.integers(1, 6, 4).tolist():
        x = weft.from_numpy(rng.uniform(-1, 1, (n, 3))).requires_grad_()
        for a, b in zip(gradients(compiled, x), gradients(BODIES[name], x), strict=True):
            np.testing.assert_allclose(a, b, 1e-9, 1e-9)
