"""Arguments that share memory take part in a program as themselves: each call's gradients go to its own arguments,
not to the first call's."""

from __future__ import annotations

import weft


def test_later_calls_with_other_tensors() -> None:
    f = weft.compile(lambda a, b: a * b)
    for i in range(3):
        x = weft.full((4,), float(i + 1))
        a, b = x.detach().requires_grad_(), x.detach().requires_grad_()
        f(a, b).sum().backward()
        assert a.grad is not None and b.grad is not None
        assert a.grad.tolist() == b.grad.tolist() == [i + 1.0] * 4
