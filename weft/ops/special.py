"""Special functions that NumPy lacks, over arrays: erf, erfc, erfinv."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

Array = Any


def _each(fn: Any, x: Array) -> Array:
    return np.frompyfunc(fn, 1, 1)(x.astype(np.float64)).astype(x.dtype)


def erf(x: Array) -> Array:
    """The error function."""
    return _each(math.erf, np.asarray(x))


def erfc(x: Array) -> Array:
    """1 - erf(x), accurate for large x."""
    return _each(math.erfc, np.asarray(x))


def _erfinv_one(v: float) -> float:
    if not -1 < v < 1:
        return math.copysign(math.inf, v) if abs(v) == 1 else math.nan
    x = NormalDist().inv_cdf((v + 1) / 2) / math.sqrt(2)
    for _ in range(2):
        x -= (math.erf(x) - v) / (2 / math.sqrt(math.pi) * math.exp(-x * x))
    return x


def erfinv(x: Array) -> Array:
    """The inverse of erf on (-1, 1)."""
    return _each(_erfinv_one, np.asarray(x))
