"""Operators whose derivative is neither zero nor written lost the gradient in silence (unique, heaviside, bincount by
its weights, binomial by its chance). Backward through them is refused now, as in PyTorch; beside them it is not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from weft import Tensor

LOST: dict[str, Callable[[Tensor], Tensor]] = {
    "unique": lambda x: x.unique(),
    "unique along a dim": lambda x: x[None].unique(dim=1),
    "unique_consecutive": lambda x: x.unique_consecutive(),
    "heaviside": lambda x: weft.heaviside(weft.zeros_like(x), x),
    "bincount": lambda x: weft.bincount(weft.arange(x.shape[0]) // 2, x),
    "binomial": lambda x: weft.binomial(weft.full_like(x, 5.0), x),
}
WAYS: dict[str, Callable[[Callable[[Tensor], Tensor]], Callable[[Tensor], Tensor]]] = {
    "eager": lambda f: f, "compiled": weft.compile, "split": lambda f: weft.compile(f, split=True),
}


@pytest.mark.parametrize("name", LOST)
def test_backward_says_so(name: str, rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.uniform(0.1, 0.9, int(rng.integers(3, 7))).astype(np.float32)).requires_grad_()
    shown = LOST[name](x)
    assert shown.requires_grad
    with pytest.raises(NotImplementedError, match="is not implemented; detach"):
        ((x * x).sum() + shown.sum()).backward()


@pytest.mark.parametrize("way", WAYS)
def test_what_is_detached_is_no_part_of_it(way: str, rng: np.random.Generator) -> None:
    def step(x: Tensor) -> Tensor:
        return (x * x).sum() + x.unique().detach().sum() + weft.heaviside(x, x).detach().sum()

    run = WAYS[way](step)
    for size in rng.integers(2, 9, 3).tolist():
        x = weft.from_numpy(rng.standard_normal(size)).requires_grad_()
        run(x).backward()
        np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy())


def test_a_compiled_step_says_so(rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal(4)).requires_grad_()
    with pytest.raises(NotImplementedError, match="'_unique2' is not implemented"):
        weft.compile(lambda x: x.unique().sum())(x).backward()


def test_a_compiled_function_may_give_it_back() -> None:
    """Backward refuses, not the call that gives the result."""
    x = weft.tensor([1.0, -2.0, 3.0], requires_grad=True)
    for function in (lambda x: weft.heaviside(x, weft.ones(())), lambda x: (x * 2).unique()):
        for options in ({}, {"split": True}):
            out = weft.compile(function, **options)(x)
            assert weft.equal(out.detach(), function(x).detach()) and out.requires_grad
            with pytest.raises(NotImplementedError, match="is not implemented; detach"):
                out.sum().backward()
