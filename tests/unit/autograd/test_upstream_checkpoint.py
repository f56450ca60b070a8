"""checkpoint as PyTorch's own tests look at it: whose objects come back, how often, and what is an error."""

from __future__ import annotations

import pytest

import weft
from weft.autograd import Function
from weft.utils.checkpoint import checkpoint


@pytest.fixture
def seen():
    return []


def keeper(seen):
    class Keep(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(y)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (kept,) = ctx.saved_tensors
            seen.append(kept)
            with pytest.raises(RuntimeError, match="already unpacked once"):
                _ = ctx.saved_tensors
            return g * 2, None

    return Keep


@pytest.mark.walked_backwards(0)
@pytest.mark.parametrize("was_written", [False, True])
def test_a_tensor_without_gradient_comes_back_itself_and_once(seen, was_written):
    x, y = weft.ones(2, requires_grad=True), weft.ones(2)
    if was_written:
        y.add_(1)
    out = checkpoint(keeper(seen).apply, x, y, use_reentrant=False)
    out.sum().backward(retain_graph=True)
    out.sum().backward()  # another call may unpack again
    assert [t is y for t in seen] == [True, True]
    assert x.grad.tolist() == [4, 4]


def test_an_argument_written_before_backward_is_an_error():
    w = weft.ones(3, requires_grad=True)
    x = w * 2
    out = checkpoint(lambda t: (t * t).sin(), x, use_reentrant=False)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_every_tensor_that_differs_is_told():
    runs = []

    def region(x):
        runs.append(1)
        if len(runs) > 1:
            return x[:2].exp() * x[:2].sin()
        return x.exp() * x.sin()

    out = checkpoint(region, weft.randn(4, requires_grad=True), use_reentrant=False)
    with pytest.raises(RuntimeError, match=r"(?s)position 0:.*\[4\].*\[2\].*position 1:"):
        out.backward(weft.ones(4))


def test_grad_mode_off_and_options_of_reentrant_ones():
    x = weft.ones(2, requires_grad=True)
    with weft.no_grad():
        assert not checkpoint(lambda t: t.exp(), x, use_reentrant=False).requires_grad
    for options in ({"context_fn": lambda: (None, None)}, {"debug": True}):
        with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
            checkpoint(lambda t: t.sin(), x, use_reentrant=True, **options)
