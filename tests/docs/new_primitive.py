"""What docs/adding-an-op.md promises of its primitive: one operation of tensors, gradients, native code and numbers.
Run by tests/test_adding_an_op.py with a copy of weft that has it."""

import math

import numpy as np

import weft

x = np.array([-27.0, -0.5, 0.0, 1e-3, 8.0, 1e30])
leaf = weft.from_numpy(x).requires_grad_()
np.testing.assert_allclose(weft.cbrt(leaf).detach().numpy(), np.cbrt(x))
(slope,) = weft.autograd.grad(weft.cbrt(leaf[3:]).sum(), leaf)
np.testing.assert_allclose(slope.numpy()[3:], np.cbrt(x[3:]) ** -2 / 3)

compiled = weft.compile(lambda x: x.cbrt() * 2)
for dtype, tolerance in ((np.float64, 1e-13), (np.float32, 1e-5)):
    got = compiled(weft.from_numpy(x.astype(dtype))).numpy()
    np.testing.assert_allclose(got, 2 * np.cbrt(x.astype(dtype)), rtol=tolerance)
assert weft.counters.foreign_segments == 0

if hasattr(math, "cbrt"):

    @weft.jit.script
    def root(a: float) -> float:
        return math.cbrt(a)

    scaled = weft.compile(lambda x, a: x * math.cbrt(a))
    weft.counters.reset()
    for a in (2.5, 3.5, -4.5, -9.0):
        assert root(a) == math.cbrt(a)
        np.testing.assert_allclose(scaled(weft.ones(2), a).numpy(), math.cbrt(a), rtol=1e-6)
    assert weft.counters.captures <= 2 and weft.counters.foreign_segments == 0, str(weft.counters)
