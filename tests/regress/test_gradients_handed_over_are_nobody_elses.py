"""A captured backward of views alone gives the leaf memory of its own, not the tensor that the caller began with."""

from __future__ import annotations

import numpy as np

import weft
from weft import compiled_autograd as ca


def test_gradients_handed_over_are_nobody_elses():
    for shape in (lambda x: x.view(-1), lambda x: x.view(3, 1), lambda x: x.view(3), lambda x: x[None]):
        for compiler in (ca.native, ca.interpret):
            x = weft.randn(3, requires_grad=True)
            seed = weft.ones(shape(x).shape)
            for _ in range(2):
                with ca.enable(compiler):
                    shape(x).backward(seed)
                assert x.grad.data_ptr() != seed.data_ptr()
            np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 2.0))
            np.testing.assert_array_equal(seed.numpy(), np.ones(seed.shape))


def test_nor_one_anothers():
    for _ in range(2):
        x, y = weft.randn(3, requires_grad=True), weft.randn(3, requires_grad=True)
        with ca.enable():
            ((x.view(-1) + y) * 2).backward(weft.ones(3))
        assert not np.shares_memory(x.grad.numpy(), y.grad.numpy())
