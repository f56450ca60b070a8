"""Code that a compiled step calls as Python (a hook or a forward that asks for values) puts another tensor in the place
of a module's buffer: the step goes on with it, as with any other attribute."""

from __future__ import annotations

from typing import Any

import pytest

import weft


class Model(weft.nn.Module):
    kept: weft.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.w = weft.nn.Parameter(weft.tensor(0.5))
        self.register_buffer("kept", weft.ones(()))


def in_a_hook(m: Model, x: weft.Tensor) -> weft.Tensor:
    y = x * m.w

    def note(gradient: weft.Tensor) -> None:
        m.kept = m.kept * 0.5 + float(gradient.sum().item())

    y.register_hook(note)
    return y


def in_a_forward(m: Model, x: weft.Tensor) -> weft.Tensor:
    class Noting(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            m.kept = m.kept * 0.5 + float(x.sum().item())
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: weft.Tensor) -> weft.Tensor:
            return gradient * m.kept

    return Noting.apply(x) * m.w  # type: ignore[no-any-return]


@pytest.mark.parametrize("where", [in_a_hook, in_a_forward])
@pytest.mark.parametrize("is_read", [False, True])
def test_the_step_goes_on_with_the_new_one(where: Any, is_read: bool) -> None:
    def numbers(compiled: bool) -> list[float]:
        m = Model()

        def step(x: weft.Tensor) -> tuple[weft.Tensor, Any]:
            x = x.detach().requires_grad_()
            y = where(m, x)
            loss = (y * m.kept).sum() if is_read else y.sum()
            loss.backward()
            return y.detach(), x.grad

        run = weft.compile(step) if compiled else step
        out: list[float] = []
        for size in (6, 6, 3, 3, 5, 6, 2, 3, 4, 6, 5, 1):
            y, slope = run(weft.linspace(-0.9, 1.2, size))
            out += [y.sum().item(), slope.sum().item(), m.kept.item()]
        return out

    assert numbers(True) == pytest.approx(numbers(False))
