"""Random numbers of further distributions, each from one uniform (or normal) draw: cauchy_, log_normal_, geometric_."""

from __future__ import annotations

import math
from typing import Any

from weft.catalogue.random.factories import fills, normal_values, uniform_values
from weft.ops.packet import aten
from weft.support.errors import StateError
from weft.types import dtype as dt


def _precise(self: Any) -> dt.DType:
    return dt.float64 if self.dtype is dt.float64 else dt.float32


def _cauchy(self: Any, median: Any, sigma: Any, generator: Any) -> Any:
    if isinstance(sigma, (int, float)) and sigma <= 0:
        raise StateError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    angle = (uniform_values(self.dims, _precise(self), generator) - 0.5) * math.pi
    return aten._to_copy(aten.tan(angle) * sigma + median, dtype=self.dtype)


def _log_normal(self: Any, mean: Any, std: Any, generator: Any) -> Any:
    if isinstance(std, (int, float)) and std <= 0:
        raise StateError(f"log_normal_ expects std > 0.0, but found std={std}")
    return aten._to_copy(aten.exp(normal_values(self.dims, _precise(self), generator) * std + mean), dtype=self.dtype)


def _geometric(self: Any, p: Any, generator: Any) -> Any:
    """The number of the first success: ceil(log(1 - u) / log(1 - p)), at least 1."""
    if isinstance(p, (int, float)) and not 0 < p < 1:
        raise StateError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    drawn = aten.log1p(-uniform_values(self.dims, _precise(self), generator)) / aten.log1p(aten.full(
        (), -p, dtype=_precise(self)
    ))
    return aten._to_copy(aten.clamp_min(aten.ceil(drawn), 1), dtype=self.dtype)


fills(
    "cauchy(float median=0, float sigma=1)",
    "Cauchy numbers with a median and a half width, with self's size and dtype.", _cauchy,
)
fills(
    "log_normal(float mean=1, float std=2)",
    "Exponentials of normal numbers with a mean and a standard deviation, with self's size and dtype.", _log_normal,
)
fills(
    "geometric(float p)",
    "How many trials with success probability p it takes to succeed, with self's size and dtype.", _geometric,
)
