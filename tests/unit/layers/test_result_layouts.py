"""Results that PyTorch gives row-major are row-major, whatever the layout of the operands:
`.view(-1)` on them works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

Program = Callable[[weft.Tensor], Any]
ROW_MAJOR: dict[str, Program] = {
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(-1, keepdim=True),
    "amax": lambda x: x.amax(0),
    "max": lambda x: x.max(1)[0],
    "any": lambda x: (x > 0).any(2),
    "float16": lambda x: x.half().sum(1),
    "cat": lambda x: weft.cat([x, x], 1),
    "stack": lambda x: weft.stack([x, x]),
    "cumsum": lambda x: x.cumsum(1),
    "cummax": lambda x: x.cummax(0)[0],
    "roll": lambda x: x.roll(1, 1),
    "clone of repeated": lambda x: x[0, :, :1].expand(-1, 3).clone(),
    "cast of repeated": lambda x: x[0, 0].expand(4, -1).to(weft.float32),
    "long of repeated": lambda x: x[0, 0].expand(4, -1).long(),
    "mask of repeated": lambda x: x[0, 0].expand(4, -1).bool(),
}


@pytest.mark.parametrize("name", ROW_MAJOR)
def test_row_major(name: str, rng: np.random.Generator) -> None:
    values = rng.standard_normal(tuple(rng.integers(2, 5, 3)))
    x = weft.from_numpy(np.ascontiguousarray(values.transpose(1, 2, 0))).permute(2, 0, 1)
    assert not x.is_contiguous()
    out = ROW_MAJOR[name](x)
    assert out.is_contiguous()
    straight = ROW_MAJOR[name](weft.from_numpy(values))
    np.testing.assert_array_equal(out.view(-1).float().numpy(), straight.reshape(-1).float().numpy())
    assert weft.compile(ROW_MAJOR[name])(x).is_contiguous()


@pytest.mark.parametrize("name", ["clone", "exp", "double", "plus"])
def test_pointwise_results_keep_the_order(name: str, rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal((3, 4)).astype(np.float32)).t()
    made = {"clone": x.clone(), "exp": x.exp(), "double": x.double(), "plus": x + 1}[name]
    assert made.stride() == x.stride()
