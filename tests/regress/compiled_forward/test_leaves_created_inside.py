"""Leaves that a compiled function makes (`x.detach().requires_grad_()`): an eager backward afterwards goes by them
as it does in eager mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft


def test_a_gradient_penalty_is_differentiated_afterwards(rng: np.random.Generator) -> None:
    critic = weft.nn.Sequential(weft.nn.Linear(3, 8), weft.nn.Tanh(), weft.nn.Linear(8, 1)).double()

    def penalty(real: weft.Tensor, fake: weft.Tensor) -> weft.Tensor:
        between = (0.3 * real + 0.7 * fake).requires_grad_()
        (slope,) = weft.autograd.grad(critic(between).sum(), between, create_graph=True)
        return ((slope.norm(2, dim=1) - 1) ** 2).mean()

    compiled = weft.compile(penalty)
    for rows in (5, 8, 1):
        real, fake = (weft.from_numpy(rng.standard_normal((rows, 3))) for _ in range(2))
        found = []
        for loss in (penalty, compiled):
            critic.zero_grad()
            loss(real, fake).backward()
            found.append([p.grad.numpy().copy() for p in critic.parameters() if p.grad is not None])
        assert len(found[0]) == len(found[1]) == 3
        for eager, program in zip(*found, strict=True):
            np.testing.assert_allclose(program, eager, rtol=1e-10)


def _kept_to_itself(x: weft.Tensor) -> Any:
    return (x.detach().requires_grad_() * 2).sum()


def _returned(x: weft.Tensor) -> Any:
    leaf = x.detach().requires_grad_()
    return leaf, (leaf * leaf).sum()


def _made_and_returned(x: weft.Tensor) -> Any:
    leaf = (x * 3).requires_grad_()
    return leaf, (leaf * leaf).sum()


def _a_view(x: weft.Tensor) -> Any:
    leaf = (x * 3)[1:].requires_grad_()
    return leaf, (leaf * x[1:]).sum()


def _without_a_loss(x: weft.Tensor) -> Any:
    return (x + 1).requires_grad_(), x.sum()


@pytest.mark.parametrize("function", [_kept_to_itself, _returned, _made_and_returned, _a_view, _without_a_loss])
def test_leaves_made_inside_are_leaves_outside(function: Any, rng: np.random.Generator) -> None:
    compiled = weft.compile(function)
    for rows in (4, 2):
        x = weft.from_numpy(rng.standard_normal((rows, 3)))
        seen = []
        for call in (function, compiled):
            result = call(x)
            tensors = list(result) if isinstance(result, tuple) else [result]
            if tensors[-1].requires_grad:
                tensors[-1].backward()
            seen.append([
                (t.requires_grad, t.is_leaf, None if not t.is_leaf or t.grad is None else t.grad.tolist())
                for t in tensors
            ])
        assert seen[0] == seen[1]
