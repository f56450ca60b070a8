"""When two values count as the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weft.ir.differences import Difference, difference


@dataclass(frozen=True)
class Tolerance:
    """An element may be off by `atol + rtol * |expected|`. None for both: by 1e-4 (float32; 1e-9 of float64, 5e-2 of 16
    bits) of the largest number that goes into the value or is in it."""

    rtol: float | None = None
    atol: float | None = None

    def difference(self, actual: Any, expected: Any, scale: float = 0.0) -> Difference | None:
        """How two values differ; None if they are the same."""
        return difference(actual, expected, self.rtol, self.atol, scale)
