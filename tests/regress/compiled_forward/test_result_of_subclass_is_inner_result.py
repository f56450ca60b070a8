"""A gradient with history by one result of a compiled call was no function of another result of it, where the results
were of a subclass: what the program remembered of them was not the object that the caller has.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor


class Kept(Tensor):
    """A subclass that every operator keeps."""


def function(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    y = h.sin()
    return y * y * x, y


@pytest.mark.parametrize("kind", [Tensor, Kept])
@pytest.mark.parametrize("backend", ["interpret", None])
def test_second_gradient_by_a_result(kind: type[Tensor], backend: str | None, rng: np.random.Generator) -> None:
    step: Callable[..., Any] = weft.compile(function, backend=backend) if backend else weft.compile(function)
    for n in (3, 3, 5, 2):
        x = weft.tensor(rng.standard_normal(n), requires_grad=True)
        h = weft.tensor(rng.standard_normal(n)).as_subclass(kind).requires_grad_()
        z, y = step(x, h)
        (g,) = weft.autograd.grad(z.sum(), x, create_graph=True)
        (second,) = weft.autograd.grad(g.sum(), y, allow_unused=True)
        assert second is not None and type(second) is kind
        assert np.allclose(second.as_subclass(Tensor).numpy(), 2 * np.sin(h.detach().as_subclass(Tensor).numpy()))


def test_results_are_not_kept_alive() -> None:
    h = weft.ones(4).as_subclass(Kept).requires_grad_()
    z, y = weft.compile(function, backend="interpret")(weft.ones(4, requires_grad=True), h)
    memory = weakref.ref(y.storage())
    del y
    gc.collect()
    assert memory() is None
    z.sum().backward()
