"""repeat, tile and a turn of no quarter are row-major, also of permuted tensors, as in PyTorch; in every mode."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.regress.ways import WAYS, Program

ROWS: dict[str, Program] = {
    "repeat": lambda x: x.repeat(1, 1, 1),
    "tile": lambda x: weft.tile(x, ()),
    "repeat twice": lambda x: x.repeat(2, 1, 1),
    "rot90": lambda x: weft.rot90(x, 4, (0, 1)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ROWS)
def test_row_major(name: str, way: str, rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal(tuple(rng.integers(2, 5, 3)))).permute(1, 2, 0)
    out = WAYS[way](ROWS[name], x)
    assert not x.is_contiguous() and out.is_contiguous()
