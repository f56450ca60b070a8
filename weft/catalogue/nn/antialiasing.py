"""Resizing with antialiasing: a dim times a matrix of weights, whose filter widens with the step so that no
element is passed over."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim

_CUBIC = -0.5  # Keys' kernel as image libraries take it


def resized_smoothly(x: Any, dim: int, size: Dim, factor: float | None, mode: str, corners: bool) -> Any:
    """x with `dim` resized by the triangle (bilinear) or Keys' kernel (bicubic), stretched
    where elements are dropped."""
    have = x.dims[dim]
    if shape_env.equal(have, size):
        return x
    step = (
        aten.full((), have, dtype=dt.float64) / size if factor is None else aten.full((), 1 / factor, dtype=dt.float64)
    )
    if corners:
        gaps = aten.full((), size - 1, dtype=dt.float64)
        step = aten.full((), have - 1, dtype=dt.float64) / aten.clamp_min(gaps, 1) * aten.clamp_max(gaps, 1)
    stretch = aten.clamp_min(step, 1)
    reach = stretch * (2 if mode == "bicubic" else 1)
    centre = aten.unsqueeze((aten.arange(size, dtype=dt.float64) + 0.5) * step, 1)
    place = aten.arange(have, dtype=dt.float64)
    first = aten.clamp_min(aten.trunc(centre - reach + 0.5), 0)
    inside = aten.logical_and(place >= first, place < aten.trunc(centre + reach + 0.5))
    distance = aten.abs(place + 0.5 - centre) / stretch
    weights = aten.where(inside, _keys(distance) if mode == "bicubic" else aten.clamp_min(1 - distance, 0), 0.0)
    weights = aten.to(weights / aten.sum(weights, 1, True), x.dtype)
    return aten.movedim(aten.matmul(aten.movedim(x, dim, -1), aten.t(weights)), -1, dim)


def _keys(d: Any) -> Any:
    a = _CUBIC
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = (((d - 5) * d + 8) * d - 4) * a
    return aten.where(d < 1, near, aten.where(d < 2, far, 0.0))
