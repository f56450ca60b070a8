"""A loop whose body reads a view of something outside, or goes over a slice, was left to NumPy or copied the slice."""

from __future__ import annotations

import numpy as np

import weft


def scanned(w: weft.Tensor, c: weft.Tensor, x: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
    transposed = w.t()
    return weft.scan(lambda c, row: (weft.tanh(c @ transposed + row), c.sum()), c, x[1:])


def test_it_is_native_and_copies_nothing() -> None:
    rng = np.random.default_rng(0)
    sizes = ((5, 5), (5,), (8, 5))
    w, c, x = (weft.tensor(rng.normal(size=s).astype(np.float32)) for s in sizes)
    step = weft.compile(scanned)
    expected = scanned(w, c, x)
    for _ in range(2):
        for a, b in zip(step(w, c, x), expected, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    (program,) = weft.explain(step, w, c, x).programs
    assert not program.foreign
    assert not any("clone" in kernel for kernel in program.kernels)
