"""In a compiled step a gradient was added to a wrapper's `.grad` part by part, whatever the class says of a sum; hooks
on a wrapper that is an argument heard nothing, and what backward(inputs=[it]) gave was lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.utils.dispatch import return_and_correct_aliasing
from weft.utils.pytree import tree_map


class Masked(weft.Tensor):
    """Values with a mask of ones, which no operator changes."""

    inside: weft.Tensor
    mask: weft.Tensor

    @staticmethod
    def __new__(cls: Any, inside: weft.Tensor, mask: weft.Tensor) -> Any:
        out = weft.Tensor._make_wrapper_subclass(cls, inside.shape, dtype=inside.dtype)
        out.inside, out.mask = inside, mask
        return out

    def __tensor_flatten__(self) -> Any:
        return ["inside", "mask"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Masked(inner["inside"], inner["mask"])

    @classmethod
    def __weft_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inner = tree_map(lambda t: t.inside if isinstance(t, Masked) else t, args)
        out = func(*inner, **(kwargs or {}))
        return return_and_correct_aliasing(func, args, kwargs, tree_map(lambda t: Masked(t, weft.ones_like(t)), out))


def double(leaf: weft.Tensor) -> None:
    leaf.grad.mul_(2)


@pytest.mark.parametrize("options", [{}, {"split": True}], ids=["compile", "split"])
def test_a_sum_is_the_classes(options: dict[str, Any], rng: np.random.Generator) -> None:
    def step(w: weft.Tensor, x: weft.Tensor) -> bool:
        (w * x).sum().backward()
        (w * x).sum().backward(inputs=[w])
        return w.is_leaf

    outcomes = []
    size, rows = int(rng.integers(1, 6)), rng.standard_normal((5, 6))
    for run in (step, weft.compile(step, backend="interpret", **options)):
        w: Any = Masked(weft.ones(size), weft.ones(size)).requires_grad_()
        held: Any = None
        for call, row in enumerate(rows):
            if call == 4:
                w.register_hook(lambda g: g * 3)
                w.register_post_accumulate_grad_hook(double)
            assert run(w, weft.tensor(row[:size], dtype=weft.float32))
            assert call in (0, 3) or w.grad is held
            held = w.grad
            outcomes.append((held.inside.tolist(), held.mask.tolist()))
            if call == 2:
                w.grad = None
    for ours, theirs in zip(outcomes[5:], outcomes[:5], strict=True):
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5)
        assert ours[1] == theirs[1] == [1.0] * size


def test_a_wrapper_for_an_argument_that_is_none(rng: np.random.Generator) -> None:
    """The function runs as it is written: a program would have lost what it assigns."""

    def step(x: weft.Tensor, w: weft.Tensor) -> None:
        x.grad = w * 2

    x, row = weft.ones(3), rng.standard_normal(3)
    weft.compile(step, backend="interpret")(x, Masked(weft.tensor(row, dtype=weft.float32), weft.ones(3)))
    assert isinstance(x.grad, Masked)
    np.testing.assert_allclose(x.grad.inside.tolist(), row * 2, rtol=1e-5)
