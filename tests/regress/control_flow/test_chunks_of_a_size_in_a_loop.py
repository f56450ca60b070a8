"""Chunks of which the last one is smaller by a size: a folded loop took them for rows that move forwards, and the
program was refused (negative strides)."""

from __future__ import annotations

from typing import Any

import pytest

import weft


@pytest.mark.parametrize("width", [4, 16, 5])
def test_chunks(width: int) -> None:
    def gated(a: Any, b: Any) -> Any:
        i, f, g, o = weft.cat([a * 2 + b, b * 1.0, a - b, weft.tanh(b)]).chunk(4)
        return i.sigmoid() * g.tanh() + f * o

    def step(p: Any, y: Any) -> Any:
        out, s, r = [], y * p.sum(), y * 1.0
        for t in range(7):
            v = gated(p, s)
            s = s * 0.9 + v * 0.1
            r = weft.nn.functional.dropout(r, 0.3)  # (no loop while it is recorded)
            out.append(v)
            if t > 2:
                r = r + v * 0.1
        loss = sum(o.sum() for o in out)
        (g,) = weft.autograd.grad(loss, p, create_graph=True)
        (g * g).sum().backward()
        return loss, r

    weft.manual_seed(width)
    p, y = weft.randn(width), weft.randn(width)
    q = p.clone().requires_grad_()
    weft.manual_seed(1)
    expected = step(q, y)
    for fold in ("on", "all"):
        r = p.clone().requires_grad_()
        weft.manual_seed(1)
        with weft.knobs(fold=fold):
            weft.testing.assert_close(weft.compile(step)(r, y), expected)
        weft.testing.assert_close(r.grad, q.grad, rtol=1e-4, atol=1e-4)
