"""How far two arrays are apart: for passes that must not change a value, and for programs beside eager mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

TOLERANCE = {2: 5e-2, 4: 1e-4, 8: 1e-9}  # relative to the largest value, by the bytes of a real number
_DIGITS = {2: np.float16, 4: np.float32, 8: np.float64}


@dataclass(frozen=True)
class Difference:
    """Two values that are not the same within a tolerance. where: the index of the largest difference; (), of a number.
    count, size: how many elements differ, of how many. ulp: units in the last place of the expected value, at `where`.
    text: set where shapes or dtypes differ, and there is nothing else to tell.
    """

    actual: Any = None
    expected: Any = None
    where: tuple[int, ...] = ()
    absolute: float = 0.0
    relative: float = 0.0
    ulp: float = 0.0
    count: int = 0
    size: int = 0
    text: str = ""

    def __str__(self) -> str:
        if self.text:
            return self.text
        at = f" at {list(self.where)}" if self.where else ""
        many = f", {self.count} of {self.size} elements differ" if self.size > 1 else ""
        ulp = f", {self.ulp:.3g} ulp" if self.ulp else ""
        return (
            f"{self.actual:.9g} instead of {self.expected:.9g}{at} (absolute {self.absolute:.3g}, relative "
            f"{self.relative:.3g}{ulp}{many})"
        )


def difference(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, scale: float = 0.0
) -> Difference | None:
    """How two numbers or arrays differ; None if they do not. rtol, atol: an element may be off by
    `atol + rtol * |expected|`; by default by 1e-4 (float32; 1e-9 of float64, 5e-2 of 16 bits) of the largest element,
    or of `scale` where that is larger. Integers must be equal; NaN equals NaN."""
    x, y = np.asarray(actual), np.asarray(expected)
    if x.shape != y.shape:
        return Difference(text=f"shape {list(x.shape)} instead of {list(y.shape)}")
    if x.dtype != y.dtype:
        return Difference(text=f"dtype {x.dtype} instead of {y.dtype}")
    if x.dtype.kind in "biu":
        bad = x != y
        return _of(x, y, bad, _distance(x, y)) if bad.any() else None
    if x.dtype.kind not in "fcV" or not x.size:
        return None
    width = y.dtype.itemsize // (2 if y.dtype.kind == "c" else 1)
    wide = np.complex128 if y.dtype.kind == "c" else np.float64
    a, b = x.astype(wide), y.astype(wide)
    finite = np.abs(b[np.isfinite(b)])
    if rtol is None and atol is None:
        allowed: Any = TOLERANCE[width] * max(scale, float(finite.max(initial=0.0)))
    else:
        allowed = (atol or 0.0) + (rtol or 0.0) * np.abs(b)
    with np.errstate(all="ignore"):
        gap = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        gap = np.where(np.isnan(gap), np.inf, gap)
        bad = gap > allowed
    return _of(a, b, bad, gap, width) if bad.any() else None


def _distance(x: Any, y: Any) -> Any:
    return np.abs(x.astype(np.float64) - y.astype(np.float64))


def _of(x: Any, y: Any, bad: Any, gap: Any, width: int = 0) -> Difference:
    where = tuple(int(i) for i in np.unravel_index(int(np.argmax(np.where(bad, gap, -1.0))), gap.shape))
    off, expected = float(gap[where]), y[where].item()
    size = abs(expected)
    ulp = off / float(np.spacing(_DIGITS[width](size))) if width and np.isfinite(off) and np.isfinite(size) else 0.0
    return Difference(
        x[where].item(), expected, where, off, off / size if size else float("inf"), ulp, int(bad.sum()), int(x.size)
    )
