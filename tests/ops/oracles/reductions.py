"""Over dims: differences, scans, distinct values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.oracles.table import given, given_floats
from weft.catalogue.samples import F, I, case

Array = Any


def linear_scan(coefficient: Array, value: Array, dim: int, reverse: bool) -> Array:
    if not value.ndim:
        return value
    a, out = np.moveaxis(coefficient, dim, 0), np.array(np.moveaxis(value, dim, 0))
    rows = range(len(out) - 2, -1, -1) if reverse else range(1, len(out))
    for i in rows:
        out[i] += a[i] * out[i + 1 if reverse else i - 1]
    return np.moveaxis(out, 0, dim)


def areas(y: Array, x: Any, dim: int) -> Array:
    """The trapezoid between each two neighbours along dim, moved to the end."""
    y = np.moveaxis(y, dim, -1)
    width = x if not isinstance(x, np.ndarray) else np.diff(x if x.ndim == 1 else np.moveaxis(x, dim, -1))
    return (y[..., 1:] + y[..., :-1]) / 2 * width


def gradient(x: Array, spacing: Any, dim: Any, edge_order: int) -> tuple[Array, ...]:
    axes = tuple(range(x.ndim)) if dim is None or dim == () else tuple(dim)
    steps = spacing if isinstance(spacing, tuple) else (1 if spacing is None else spacing,) * len(axes)
    if any(isinstance(s, np.ndarray) and s.ndim and not np.diff(s).all() for s in steps):
        raise ValueError("two places are the same")
    found = np.gradient(x, *steps, axis=axes, edge_order=edge_order)
    return tuple(found) if isinstance(found, (list, tuple)) else (found,)


given("_linear_scan", linear_scan, case(F(3, 4), F(3, 4), 0), case(F(2, 3, 4), F(2, 3, 4), -1, True), case(F(), F(), 0))
given_floats("trapezoid.dx trapz.dx", lambda y, dx, dim: areas(y, dx, dim).sum(-1))
given_floats("trapezoid.x trapz.x", lambda y, x, dim: areas(y, x, dim).sum(-1))
given_floats("cumulative_trapezoid.dx", lambda y, dx, dim: np.moveaxis(np.cumsum(areas(y, dx, dim), -1), -1, dim))
given_floats("cumulative_trapezoid.x", lambda y, x, dim: np.moveaxis(np.cumsum(areas(y, x, dim), -1), -1, dim))
given_floats(
    "gradient.scalar", gradient, case(F(5)), case(F(4, 3), spacing=0.5),
    case(F(4, 3), spacing=2.0, dim=(1,), edge_order=2),
)
given_floats(
    "gradient.scalararray", gradient, case(F(4, 3), spacing=(0.5, 2.0)),
    case(F(4, 3), spacing=(2.0,), dim=(0,), edge_order=2),
)
given_floats("gradient.tensorarray", gradient, lambda rng: [
    ((rng.uniform(-2, 2, (4, 3)),), {"spacing": (np.array([0.0, 0.5, 1.5, 2.0]), np.array([-1.0, 1.0, 1.5]))}),
    ((rng.uniform(-2, 2, 5),), {"spacing": (np.cumsum(rng.uniform(0.3, 1, 5)),), "dim": (0,), "edge_order": 2}),
])


# ---- distinct values
def unique(
    x: Array, _sorted: bool = True, inverse: bool = True, counts: bool = True, dim: int | None = None
) -> tuple[Array, ...]:
    keys = (
        [v.item() for v in x.reshape(-1)] if dim is None
        else [tuple(v.reshape(-1).tolist()) for v in np.moveaxis(x, dim, 0)]
    )
    found = sorted(set(keys))
    values = (
        np.array(found, x.dtype) if dim is None
        else np.stack([np.moveaxis(x, dim, 0)[keys.index(k)] for k in found], dim)
    )
    places = np.array([found.index(k) for k in keys], np.int64)
    parts = (
        values, places.reshape(x.shape) if dim is None else places, np.array([keys.count(k) for k in found], np.int64)
    )
    return (
        parts if inverse and counts else parts[0] if not inverse and not counts
        else (parts[0], parts[1 if inverse else 2])
    )


def unique_consecutive(x: Array, inverse: bool = True, counts: bool = True, dim: int | None = None) -> Any:
    rows = x.reshape(-1) if dim is None else np.moveaxis(x, dim, 0)
    starts = [i for i in range(len(rows)) if i == 0 or (rows[i] != rows[i - 1]).any()]
    values = rows[starts] if dim is None else np.moveaxis(rows[starts], 0, dim)
    places = np.array([sum(s <= i for s in starts) - 1 for i in range(len(rows))], np.int64)
    lengths = np.diff([*starts, len(rows)])
    parts = (values, places.reshape(x.shape) if dim is None else places, lengths)
    return (
        parts if inverse and counts else parts[0] if not inverse and not counts
        else (parts[0], parts[1 if inverse else 2])
    )


_REPEATED = case(I(3, 4, high=4))
given("_unique2", lambda x, *_: unique(x), _REPEATED, case(F(5)))
given("unique", unique, _REPEATED, case(I(4, 2, high=2), True, True, True, 0), case(F(5), return_counts=True))
given("unique_dim", lambda x, dim, *_: unique(x, dim=dim), case(I(5, 2, high=2), 0), case(F(2, 3), -1))
given(
    "_unique_consecutive", lambda x, dim: unique_consecutive(x, dim=dim), case(I(9, high=2), None),
    case(I(6, 2, high=2), 0),
)
given(
    "unique_consecutive", unique_consecutive, case(I(9, high=2)), case(I(6, 1, high=2), True, True, 0),
    case(I(3, 3, high=2), return_inverse=True),
)
