"""The context of a custom Function is made by the call: what forward puts on it is nobody's older state."""

from __future__ import annotations

import weft


class Scaled(weft.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x)
        ctx.k, ctx.rows = k, x.shape[0]
        return x * x * k

    @staticmethod
    def backward(ctx, g):  # type: ignore[no-untyped-def]
        (x,) = ctx.saved_tensors
        return g * 2 * x * ctx.k + ctx.rows, None


def test_one_capture_serves_every_size() -> None:
    w = weft.ones(3, requires_grad=True)

    @weft.compile
    def step(x: weft.Tensor) -> weft.Tensor:
        w.grad = None
        loss = Scaled.apply(x * w, 3.0).sum()
        loss.backward()
        return loss

    weft.counters.reset()
    for n in (4, 2, 1, 5):
        assert step(weft.full((n, 3), 2.0)).item() == 12.0 * 3 * n
        assert w.grad.tolist() == [(24.0 + 2.0 * n) * n] * 3
    assert weft.counters.captures == 1
