"""as_strided of a view from outside reads the view's own memory, also when its base has got another one since."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("backend", ["interpret", "llvm"])
def test_the_base_gets_other_memory_between_calls(backend: str) -> None:
    rows, columns = (int(n) for n in np.random.default_rng(7).integers(2, 6, 2))
    base = weft.arange(float(rows * columns))
    view = base.view(rows, columns)[1]

    def step(x: Any) -> Any:
        return x + view.as_strided((2,), (1,)).sum()

    compiled = weft.compile(step, backend=backend)
    x = weft.zeros(1)
    for i in range(3):
        assert compiled(x).item() == step(x).item() == 2 * columns + 1
        base.data = weft.arange(float(rows * columns)) * (i + 2)
