"""Compiled autograd writes the steps of a backward call anew where a Function gives no gradient for an input: those
that were done stay as they were, also where a checkpoint has packed what no formula reads."""

from contextlib import nullcontext

import numpy as np

import weft
from weft.compiled_autograd import enable, interpret
from weft.utils.checkpoint import checkpoint


class Sometimes(weft.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a)
        return a * 2 + b

    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        return g * a, None


def test_packed_values_that_no_formula_reads() -> None:
    def run(compiler):
        log = []
        for n in (4, 4, 2, 3):
            x = weft.linspace(-1, 1, n, requires_grad=True)
            h = weft.linspace(0.5, 2, n, requires_grad=True)
            v = Sometimes.apply(h - x, x)
            loss = checkpoint(lambda a, b: (a.sin() * b).tanh() * b, v, h, use_reentrant=False).sum()
            with nullcontext() if compiler is None else enable(compiler):
                (g,) = weft.autograd.grad(loss, x)
            log += g.tolist()
        return log

    expected = run(None)
    np.testing.assert_allclose(run(interpret), expected, 1e-6)
    np.testing.assert_allclose(run(weft.compile), expected, 1e-5)
