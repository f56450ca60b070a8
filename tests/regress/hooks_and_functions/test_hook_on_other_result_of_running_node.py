"""A hook that registers one on another result of the node whose turn it is: the engine failed with "dictionary changed
size during iteration", a captured backward where the other gradient was gone. The hooks of a node are those that it
has when its turn begins.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca


@pytest.mark.parametrize("compiler", ["engine", None, ca.interpret])
def test_hooks_added_to_a_sibling(compiler: Any, rng: np.random.Generator) -> None:
    for adds in (False, True, True, False):
        x = weft.from_numpy(rng.standard_normal((3, int(rng.integers(1, 5))))).requires_grad_()
        first, second, _ = (x * 2).unbind()
        told: list[str] = []

        def add(g: Any, second: Any = second, adds: bool = adds, told: list[str] = told) -> None:
            told.append("first")
            if adds:
                second.register_hook(lambda g: (told.append("second"), g * 3)[1])

        first.register_hook(add)
        with nullcontext() if compiler == "engine" else ca.enable(compiler):
            (first + second).sum().backward()
        assert told == ["first"]
        expected = np.zeros(x.shape)
        expected[:2] = 2
        np.testing.assert_allclose(x.grad.numpy(), expected)
