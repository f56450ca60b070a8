"""Every result of a program has memory of its own, whatever the passes found equal: to other results, to arguments,
to state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

BUFFER = weft.zeros(3, 2)


def _state(x: weft.Tensor) -> Any:
    before = BUFFER.clone()
    y = x * 2
    BUFFER.copy_(y)
    return before, y, BUFFER.clone(), BUFFER.clone()


def _argument(x: weft.Tensor) -> Any:
    before = x.clone()
    x.mul_(3)
    return before, x.clone(), x * 1


PROGRAMS: dict[str, Callable[[weft.Tensor], Any]] = {
    "equal computations": lambda x: (
        x * 2, x * 2, weft.nn.functional.pad(x, (0, 1)), weft.nn.functional.pad(x, (0, 1))
    ),
    "copies of an argument": lambda x: (x.clone(), x.detach().clone(), x + 0, x.to(weft.float64).to(weft.float32)),
    "state": _state,
    "a written argument": _argument,
    "constants": lambda x: (weft.zeros(2), weft.zeros(2), weft.tensor([1.0, 2.0]), weft.tensor([1.0, 2.0])),
    "orders": lambda x: (x.t().contiguous(), x.t().reshape(-1), x.t().clone(), x[:1].expand(3, 2).contiguous()),
}


@pytest.mark.parametrize("backend", ["interpret", "numpy", "llvm"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_shared(name: str, backend: str, rng: np.random.Generator) -> None:
    step = weft.compile(PROGRAMS[name], backend=backend)
    value = rng.standard_normal((3, 2)).astype(np.float32)
    BUFFER.zero_()
    for _ in range(2):
        x = weft.from_numpy(value.copy())
        BUFFER.fill_(5.0)
        found = step(x)
        seen = [np.array(t.numpy()) for t in (*found, BUFFER)]
        y = weft.from_numpy(value.copy())
        BUFFER.fill_(5.0)
        for a, b in zip(seen, (*PROGRAMS[name](y), BUFFER), strict=True):
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-6)
        arrays = [t.numpy() for t in (*found, x, BUFFER)]
        assert not any(
            np.shares_memory(arrays[i], arrays[j]) for i in range(len(found)) for j in range(len(arrays)) if i != j
        )


@pytest.mark.parametrize("backend", ["numpy", "interpret", "llvm"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_copy_of_a_view_with_one_element(size: int, backend: str) -> None:
    def step(x: weft.Tensor) -> list[weft.Tensor]:
        y = x * 2
        view = y[::2]
        return [y, view, view.clone()]

    y, view, copied = (t.numpy() for t in weft.compile(step, backend=backend)(weft.ones(size)))
    assert np.shares_memory(y, view)
    assert not np.shares_memory(view, copied) and not np.shares_memory(y, copied)
