"""A backward that is differentiated again reads the arguments of its program: one that lies in memory with gaps was
refused, though nothing writes it.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft

LAYOUTS = {
    "columns": lambda x: x[:, :2],
    "steps": lambda x: x[::2, 1:],
    "turned": lambda x: x[:, :2].t(),
    "repeated": lambda x: x[:, :2].unsqueeze(0).expand(3, 4, 2),
    "one": lambda x: x[1:, 1:2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_second_gradient_of_a_part(layout, rng) -> None:
    def f(x):
        return (x * x).tanh() * x.exp()

    compiled, show = weft.compile(f), LAYOUTS[layout]
    for _ in range(2):
        values, found = rng.standard_normal((4, 3)), []
        for function in (f, compiled):
            x = weft.tensor(values, requires_grad=True)
            (first,) = weft.autograd.grad(function(show(x)).sum(), [x], create_graph=True)
            found.append(weft.autograd.grad((first * first).sum(), [x])[0].numpy())
        np.testing.assert_allclose(*found, rtol=1e-10)
