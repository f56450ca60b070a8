"""A function that asks whether a tensor from outside requires a gradient, of which it computes nothing, is captured
again when that changes: behind a conversion that converts nothing, in autograd.grad and in retain_grad it was not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft

WEIGHT = weft.ones(3, requires_grad=True)
ASKED = weft.ones(3, requires_grad=True)
HELD = [weft.ones(3, requires_grad=True)]


def loss(x: weft.Tensor) -> weft.Tensor:
    return (x * WEIGHT).sum()


def differentiates(x: weft.Tensor) -> Any:
    return weft.autograd.grad(loss(x), [WEIGHT, ASKED], allow_unused=True)[0]


def differentiates_held(x: weft.Tensor) -> Any:
    return weft.autograd.grad(loss(x), [WEIGHT, *HELD], allow_unused=True)[0]


def retains(x: weft.Tensor) -> Any:
    ASKED.retain_grad()
    return loss(x)


def converted(x: weft.Tensor) -> Any:
    return loss(x).detach(), ASKED.to(weft.float32).requires_grad


def contiguous(x: weft.Tensor) -> Any:
    return loss(x).detach(), [t.contiguous().requires_grad for t in HELD]


def like(x: weft.Tensor) -> Any:
    same = ASKED.type_as(x).cpu().float()
    return loss(x).detach(), same.requires_grad, same.is_leaf


def outcome(step: Callable[[weft.Tensor], Any]) -> Any:
    try:
        result = step(weft.ones(3))
    except weft.WeftError as error:
        return type(error).__name__
    parts = result if isinstance(result, tuple) else (result,)
    return [p.tolist() if isinstance(p, weft.Tensor) else p for p in parts]


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("step", [differentiates, differentiates_held, retains, converted, contiguous, like])
def test_requires_grad_changes(step: Callable[[weft.Tensor], Any], split: bool) -> None:
    compiled = weft.compile(step, split=split)
    for wants in (True, False, True, False):
        ASKED.requires_grad_(wants)
        HELD[0].requires_grad_(wants)
        assert outcome(compiled) == outcome(step), wants
