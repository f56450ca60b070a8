"""Second derivatives of i1 and i1e at 0, where the formula of the first divides by 0 in a branch that is not taken."""

from __future__ import annotations

import weft


def test_second_derivatives_at_0() -> None:
    for function, expected in ((weft.special.i1, 0.0), (weft.special.i1e, None)):
        x = weft.zeros(1, dtype=weft.float64, requires_grad=True)
        (first,) = weft.autograd.grad(function(x).sum(), x, create_graph=True)
        (second,) = weft.autograd.grad(first.sum(), x)
        assert first.item() == 0.5 and bool(second.isfinite())
        assert expected is None or second.item() == expected
