"""The caller of a compiled forward writes a clone() that it was given, while the backward needs what was cloned: the
program may have made both one memory."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft import Tensor


def forward(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    v = w * x
    return (v * 0.7 * v.cos()).tanh(), v.tanh(), v.clone()


@pytest.mark.parametrize("options", [{}, {"backend": "interpret"}, {"split": True}], ids=str)
def test_a_clone_is_written_before_backward(options: dict[str, Any]) -> None:
    gradients = []
    for run in (forward, weft.compile(forward, **options)):
        w = weft.ones(3).requires_grad_()
        a, b, clone = run(weft.ones(3), w)
        (a + b * clone.mul_(2)).sum().backward()
        gradients.append(w.grad)
    assert weft.allclose(*gradients)


def test_a_trace_writes_a_clone() -> None:
    def step(x: Tensor, w: Tensor) -> Tensor:
        v = w * x
        return ((v * 0.7 * v.cos()).tanh() + (v.tanh() * v.clone().mul_(2.0)).tanh()).sum()

    gradients = []
    for run in (step, weft.jit.trace(step, (weft.ones(3), weft.ones(3)))):
        w = weft.ones(3).requires_grad_()
        run(weft.ones(3), w).backward()
        gradients.append(w.grad)
    assert weft.allclose(*gradients)
