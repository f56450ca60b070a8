"""The class of a custom Function lived for ever once a backward call through it was captured: how its nodes are taken
down was kept by class.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import weft
from weft import compiled_autograd as ca


def used_once(size: int) -> weakref.ref[Any]:
    class Double(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: weft.Tensor) -> weft.Tensor:
            return a * 2

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            return g * 2

    x = weft.ones(size, requires_grad=True)
    with ca.enable():
        Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2] * size
    return weakref.ref(Double)


def test_classes_go() -> None:
    classes = [used_once(size) for size in (1, 3, 4)]
    gc.collect()
    assert [cls() for cls in classes] == [None] * 3
