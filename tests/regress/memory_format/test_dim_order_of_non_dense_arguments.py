"""The order in which an argument's dims lie in memory is that of the results that follow it: arguments with gaps that
lie in another order have another program."""

from __future__ import annotations

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("backend", ["interpret", "llvm"])
def test_calls_with_other_orders(backend: str, rng: np.random.Generator) -> None:
    n = int(rng.integers(2, 5))
    f = weft.compile(lambda x, y: x + y, backend=backend)
    weft.counters.reset()
    for is_transposed in (True, False, True, False):
        x, y = (weft.from_numpy(rng.standard_normal((8, 8)))[:n, 1 : n + 1] for _ in range(2))
        given = (x.t(), y.t()) if is_transposed else (x, y)
        found, expected = f(*given), given[0] + given[1]
        assert found.stride() == expected.stride()
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
    assert weft.counters.captures == 2
