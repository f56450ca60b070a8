"""A gradient that hooks made or looked at is taken by its leaf if none of them keeps it: the hook behind the leaf's
node sees what the hook behind the accumulation did, under either walk. One that somebody keeps is copied."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca

WALKS = [ca.disable, ca.enable, lambda: ca.enable(ca.interpret)]
Rng = np.random.Generator


def leaf(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(shape)).requires_grad_()


def node_of(x: weft.Tensor) -> Any:
    return x.view_as(x).grad_fn.next_functions[0][0]


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("keeps", [False, True])
def test_hooks_of_a_leaf_in_their_order(rng: Rng, walk: Any, keeps: bool) -> None:
    shift, divisor, more, factor = (float(v) for v in rng.uniform(1, 9, 4))
    kept: list[weft.Tensor] = []
    for _ in range(2):
        x = leaf(rng, 3)
        node = node_of(x)
        x.register_hook(lambda g: g - shift)
        node.register_prehook(lambda gs: (gs[0] / divisor,))
        if keeps:
            node.register_prehook(lambda gs: kept.append(gs[0]))

        def behind_the_sum(p: weft.Tensor) -> None:
            p.grad.add_(more)

        def behind_the_node(_: Any, gs: Any, x: weft.Tensor = x) -> None:
            x.grad = gs[0] * factor

        x.register_post_accumulate_grad_hook(behind_the_sum)
        node.register_hook(behind_the_node)
        with walk():
            x.sum().backward()
        taken = 0 if keeps else more
        np.testing.assert_allclose(x.grad.numpy(), np.full(3, ((1 - shift) / divisor + taken) * factor))
    for g in kept:
        np.testing.assert_allclose(g.numpy(), np.full(3, (1 - shift) / divisor))


@pytest.mark.parametrize("walk", WALKS)
def test_one_gradient_of_two_leaves_is_taken_once_at_most(rng: Rng, walk: Any) -> None:
    class Twice(weft.autograd.Function):
        seen: weft.Tensor | None = None

        @staticmethod
        def forward(ctx: Any, a: weft.Tensor, b: weft.Tensor, keeps: bool) -> weft.Tensor:
            ctx.keeps = keeps
            return a + b

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> Any:
            made = g * 3
            Twice.seen = made if ctx.keeps else None
            return made, made, None

    for keeps in (False, True):
        a, b = leaf(rng, 4), leaf(rng, 4)
        for p in (a, b):
            node_of(p).register_hook(lambda _, gs: None)
        enabled: AbstractContextManager[None] = walk()
        with enabled:
            Twice.apply(a, b, keeps).sum().backward()
        a.grad.mul_(2)
        np.testing.assert_array_equal(a.grad.numpy(), np.full(4, 6.0))
        np.testing.assert_array_equal(b.grad.numpy(), np.full(4, 3.0))
        if keeps:
            assert Twice.seen is not None and Twice.seen.tolist() == [3.0] * 4
