"""A checkpoint within a transform failed in backward: CheckpointError, or an error about a tensor that is used after
its transform has ended. It keeps what it needs there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import weft
from weft import Tensor, func
from weft.autograd import forward_ad
from weft.utils.checkpoint import checkpoint

Body = Callable[[Tensor], Tensor]


def grad(f: Body) -> Body:
    return func.grad(lambda x: f(x).sum())


def vjp(f: Body) -> Body:
    def run(x: Tensor) -> Tensor:
        y, pull = func.vjp(f, x)
        return y + pull(weft.ones_like(y))[0]

    return run


def jvp(f: Body) -> Body:
    def run(x: Tensor) -> Tensor:
        y, tangent = func.jvp(f, (x,), (weft.ones_like(x),))
        return y + tangent

    return run


def vmap(f: Body) -> Body:
    return lambda x: func.vmap(f)(weft.stack([x, x * 0.5])).sum(0)


def dual(f: Body) -> Body:
    def run(x: Tensor) -> Tensor:
        with forward_ad.dual_level():
            parts = forward_ad.unpack_dual(f(forward_ad.make_dual(x, weft.ones_like(x))))
            return parts.primal + parts.tangent

    return run


def functionalize(f: Body) -> Body:
    return func.functionalize(f)


@pytest.mark.parametrize("outer", [None, grad, vjp, jvp, vmap])
@pytest.mark.parametrize("inner", [grad, vjp, jvp, vmap, dual, functionalize])
@pytest.mark.parametrize("compiles", [False, True])
def test_gradients(outer: Callable[[Body], Body] | None, inner: Callable[[Body], Body], compiles: bool) -> None:
    if compiles and inner in (dual, functionalize):
        return
    w = weft.tensor(1.3, dtype=weft.float64, requires_grad=True)

    def body(x: Tensor) -> Tensor:
        return (x.sin() * w).tanh() * x

    def region(x: Tensor) -> Tensor:
        return checkpoint(body, x, use_reentrant=False)

    seen = []
    for f in (body, region):
        step = inner(f) if outer is None else outer(inner(f))
        step = weft.compile(step, backend="interpret") if compiles and f is region else step
        x = weft.linspace(-1, 1, 3, dtype=weft.float64).requires_grad_()
        w.grad = None
        y = step(x)
        y.sum().backward()
        seen.append((y.detach(), x.grad, weft.zeros(()) if w.grad is None else w.grad))
    for plain, recomputed in zip(*seen, strict=True):
        assert (plain is None) is (recomputed is None)
        assert plain is None or weft.allclose(plain, recomputed)


def test_a_transform_within_a_region_is_run_again() -> None:
    runs = []

    def body(x: Tensor) -> Tensor:
        runs.append(1)
        return func.vmap(lambda v: v.sin() * v)(x)

    x = weft.ones(3, requires_grad=True)
    checkpoint(body, x, use_reentrant=False).sum().backward()
    assert len(runs) == 2
