"""The difference of a float and an integer that a program takes as an input dropped the float's fraction: lazy
`linspace(0.5, 3, 5)` went by steps of 0.75, and a compiled `uniform_(-0.5, n)` drew from another range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.types import dims

CALLS: dict[str, Callable[[weft.Tensor, Any], weft.Tensor]] = {
    "linspace": lambda x, n: weft.linspace(0.5, n, 5),
    "linspace down": lambda x, n: weft.linspace(n, -0.25, 6),
    "linspace of integers": lambda x, n: weft.linspace(-n, n, 4),
    "logspace": lambda x, n: weft.logspace(0.5, n, 3),
    "uniform_": lambda x, n: x.clone().uniform_(-0.5, n),
    "uniform_ above": lambda x, n: x.clone().uniform_(-n, 0.5),
    "arange": lambda x, n: weft.arange(0.5, n + 2, 0.75)[:3],
    "histc": lambda x, n: weft.histc(x, 4, -0.5, n),
    "hardtanh": lambda x, n: weft.nn.functional.hardtanh(x, -0.5, n),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("mode", ["compile", "split", "lazy"])
def test_it_is_what_eager_mode_gives(name: str, mode: str) -> None:
    call, device = CALLS[name], "lazy" if mode == "lazy" else "cpu"
    run = {"compile": weft.compile, "split": lambda f: weft.compile(f, split=True)}.get(mode, lambda f: f)(call)
    expected, values = [], []
    for outs, function, where in ((expected, call, "cpu"), (values, run, device)):
        weft.manual_seed(5)
        weft.set_default_device(where)
        try:
            for n in (3, 2, 4, 5, 3):
                outs.append(function(weft.linspace(-2, 3, 12), n).cpu().numpy())
        finally:
            weft.set_default_device("cpu")
    for a, b in zip(values, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_no_polynomial_has_a_fraction() -> None:
    n = dims.symbol("n")
    for wrong in (lambda: n - 0.5, lambda: 0.5 - n, lambda: n + 1.5, lambda: 2.5 * n):
        with pytest.raises(TypeError):
            wrong()
