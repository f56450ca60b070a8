"""histogram and histogramdd: how many points, or what weight of them, fall between edges; and their edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalogue.samples import Case, F, P, case, draw
from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import dims_text, same_dims
from weft.support.errors import DTypeError, NotForDType, ShapeError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env

Array = Any
_NAME = "torch.histogramdd"

# ---- edges


def _numbered_edges(points: Any, at: int, bins: Any, span: Sequence[float] | None) -> Any:
    """`bins` equal parts of a range, or of what the coordinates `at` of the points span."""
    if shape_env.less(bins, 1):
        raise ShapeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension {at}")
    if span is not None:
        low, high = (float(v) for v in span[2 * at : 2 * at + 2])
        if low > high:
            raise ShapeError(f"{_NAME}: min should not exceed max, but got min {low:g} max {high:g} for dimension {at}")
        if low == high:
            low, high = low - 0.5, high + 0.5
        return aten.linspace(low, high, bins + 1, dtype=points.dtype)
    if shape_env.is_zero(points.dims[0]):
        return aten.linspace(0.0, 1.0, bins + 1, dtype=points.dtype)
    column = aten.select(points, 1, at)
    text = f"{_NAME}: dimension {at}'s range is not finite"
    limit = float(np.finfo(points.dtype.numpy).max)
    low, high = (aten._checked_values(v, -limit, limit, text) for v in _ends(column))
    is_point = aten.eq(low, high)
    low, high = aten.where(is_point, low - 0.5, low), aten.where(is_point, high + 0.5, high)
    # (from both ends, as linspace goes)
    k = aten._iota(bins + 1)
    step = (high - low) / bins
    return aten.where(k < dm.floordiv(bins + 1, 2), low + step * k, high - step * (bins - k))


def _ends(column: Any) -> tuple[Any, Any]:
    """The least and the greatest coordinate; 0 and 1 where a run finds that there are none."""
    if shape_env.is_known(column.dims[0]):
        return aten.amin(column), aten.amax(column)
    low, high = (
        f(aten.constant_pad_nd(column, (0, 1), of_none))
        for f, of_none in ((aten.amin, float("inf")), (aten.amax, -float("inf")))
    )
    is_empty = aten.lt(high, low)
    return aten.where(is_empty, 0.0, low), aten.where(is_empty, 1.0, high)


def _checked_edges(points: Any, at: int, edges: Any) -> Any:
    if edges.dtype is not points.dtype:
        raise DTypeError(
            f"{_NAME}: input tensor and bins tensors should have the same dtype, but got input with dtype "
            f"{points.dtype} and bins for dimension {at} with dtype {edges.dtype}"
        )
    if edges.ndim != 1:
        raise ShapeError(
            f"{_NAME}: bins tensor should have one dimension, but got {edges.ndim} dimensions in the bins tensor for "
            f"dimension {at}"
        )
    if shape_env.is_zero(edges.dims[0]):
        raise ShapeError(
            f"{_NAME}: bins tensor should have at least 1 element, but got 0 elements in the bins tensor for dimension "
            f"{at}"
        )
    if shape_env.equal(edges.dims[0], 1):
        raise ShapeError(f"torch.histogram(): bins must be > 0, but got 0 for dimension {at}")
    return edges


# ---- points


def _check(points: Any, lead: Sequence[Any], weight: Any, span: Sequence[float] | None, rank: int) -> None:
    """points: [n, rank]; lead: the dims of the input but for the last."""
    if points.dtype not in (dt.float32, dt.float64):
        raise NotForDType(f'"histogramdd" not implemented for {points.dtype}')
    if weight is not None:
        if not same_dims(lead, weight.dims):
            raise ShapeError(
                f"{_NAME}: if weight tensor is provided it should have the same shape as the input tensor excluding "
                f"its innermost dimension, but got input with shape {dims_text((*lead, rank))} and weight with shape "
                f"{dims_text(weight.dims)}"
            )
        if weight.dtype is not points.dtype:
            raise DTypeError(
                f"{_NAME}: if weight tensor is provided, input tensor and weight tensor should have the same dtype, "
                f"but got input({points.dtype}), and weight({weight.dtype})"
            )
    if span is not None and len(span) != 2 * rank:
        raise ShapeError(
            f"{_NAME}: for a {rank}-dimensional histogram range should have {2 * rank} elements, but got {len(span)}"
        )


def _counted(points: Any, edges: Sequence[Any], weight: Any, density: bool) -> Any:
    """What lies in each cell: points [n, d], edges of each dim. The last edge belongs to the last cell."""
    place: Any = 0
    inside: Any = None
    sizes = [e.dims[0] - 1 for e in edges]
    for at, (border, size) in enumerate(zip(edges, sizes, strict=True)):
        column = aten.select(points, 1, at)
        last = aten.select(border, 0, -1)
        cell = aten.searchsorted(border, column, right=True) - 1
        cell = aten.where(aten.eq(column, last), size - 1, cell)
        fits = aten.logical_and(column >= aten.select(border, 0, 0), column <= last)  # NaN fits nowhere
        place = place * size + cell
        inside = fits if inside is None else aten.logical_and(inside, fits)
    count = points.dims[0]
    each = aten.ones((count,), dtype=points.dtype) if weight is None else aten.reshape(weight, (count,))
    total = aten.zeros((dm.product(sizes),), dtype=points.dtype)
    out = aten.scatter_add(total, 0, aten.where(inside, place, 0), aten.where(inside, each, 0))
    out = aten.reshape(out, tuple(sizes))
    if not density:
        return out
    out = out / aten.sum(out)
    for at, border in enumerate(edges):
        width = aten.diff(border)
        out = out / aten.reshape(width, tuple(sizes[at] if i == at else 1 for i in range(len(edges))))
    return out


def _histogram(self: Any, bins: Any, span: Sequence[float] | None, weight: Any, density: bool) -> tuple[Any, Any]:
    points = aten.reshape(self, (dm.product(self.dims), 1))
    flat = None if weight is None else aten.reshape(weight, (dm.product(weight.dims),))
    _check(points, points.dims[:1], flat, span, 1)
    edges = _numbered_edges(points, 0, bins, span) if span is not None or not _is_tensor(bins) else _checked_edges(
        points, 0, bins
    )
    return _counted(points, [edges], flat, density), edges


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "dims")


def _histogramdd(
    self: Any, bins: Any, span: Sequence[float] | None, weight: Any, density: bool
) -> tuple[Any, tuple[Any, ...]]:
    if self.ndim < 2:
        raise ShapeError(f"{_NAME}: input tensor should have at least 2 dimensions")
    rank = shape_env.decided(self.dims[-1])
    by_tensors = isinstance(bins, (tuple, list)) and any(map(_is_tensor, bins))
    every = tuple(bins) if isinstance(bins, (tuple, list)) else (bins,) * rank
    if len(every) != rank:
        raise ShapeError(
            f"{_NAME}: expected {rank} sequences of bin edges for a {rank}-dimensional histogram but got {len(every)}"
            if by_tensors else "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    points = aten.reshape(self, (dm.product(self.dims[:-1]), rank))
    _check(points, self.dims[:-1], weight, span, rank)
    edges = tuple(
        _checked_edges(points, at, b) if _is_tensor(b) else _numbered_edges(points, at, b, span)
        for at, b in enumerate(every)
    )
    return _counted(points, edges, weight, density), edges


# ---- entries

_OPTIONS = "Tensor? weight=None, bool density=False"
_DENSITY = "with `density` over their sum and the size of the cell, so that the integral is 1"


def _oracle(x: Array, bins: Any, span: Any, weight: Any, density: bool) -> tuple[Array, Array]:
    return np.histogram(x, bins, span, density, weight)


define(
    f"aten::histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, {_OPTIONS}) "
    "-> (Tensor hist, Tensor bin_edges)",
    "How many elements (or what weight of them) fall into each of `bins` equal parts of a range, by default their own, "
    f"and the edges; {_DENSITY}.",
    decompose=_histogram,
    out=True,
    samples=draw(case(F(30), 5), case(F(4, 5), 4, range=(-1.0, 1.5), weight=P(4, 5), density=True)),
    reference=_oracle,
)
define(
    f"aten::histogram.bins_tensor(Tensor self, Tensor bins, *, {_OPTIONS}) -> (Tensor hist, Tensor bin_edges)",
    f"How many elements (or what weight of them) fall between ascending edges; {_DENSITY}.",
    decompose=lambda self, bins, weight, density: _histogram(self, bins, None, weight, density),
    out=True,
    samples=lambda rng: [((rng.uniform(-2, 2, 20), np.sort(rng.uniform(-2, 2, 5))), {})],
    reference=lambda x, bins, weight, density: _oracle(x, bins, None, weight, density),
)


def _samples(*bins: Any) -> Any:
    def samples(rng: np.random.Generator) -> list[Case]:
        return [((rng.uniform(-2, 2, (12, 2)), b), more) for b, more in zip(
            bins, ({}, {"range": (-1.0, 1.0, -2.0, 2.0), "weight": rng.uniform(0, 1, 12), "density": True}), strict=True
        )]

    return samples


for _overload, _bins, _how, _drawn in (
    ("", "int[] bins", "each dim of its number of equal parts", _samples((3, 2), (2, 4))),
    (".int_bins", "int bins", "`bins` equal parts along each dim", _samples(3, 2)),
):
    define(
        f"aten::histogramdd{_overload}(Tensor self, {_bins}, float[]? range=None, {_OPTIONS}) "
        "-> (Tensor hist, Tensor[] bin_edges)",
        f"How many points (or what weight of them) fall into each cell, {_how}: self [..., d], range 2 d numbers; "
        f"{_DENSITY}.",
        decompose=_histogramdd,
        public=("weft",),
        samples=_drawn,
        reference=lambda x, bins, span, weight, density: _oracle_of_points(x, bins, span, weight, density),
    )
define(
    f"aten::histogramdd.TensorList_bins(Tensor self, Tensor[] bins, float[]? range=None, {_OPTIONS}) "
    "-> (Tensor hist, Tensor[] bin_edges)",
    f"How many points (or what weight of them) fall into each cell between ascending edges: self [..., d]; {_DENSITY}.",
    decompose=_histogramdd,
    public=("weft",),
    samples=lambda rng: [
        ((rng.uniform(-2, 2, (12, 2)), (np.sort(rng.uniform(-2, 2, 4)), np.sort(rng.uniform(-2, 2, 3)))), {})
    ],
    reference=lambda x, bins, span, weight, density: _oracle_of_points(x, bins, span, weight, density),
)


def _oracle_of_points(x: Array, bins: Any, span: Any, weight: Any, density: bool) -> tuple[Array, ...]:
    spans = None if span is None else [(span[2 * i], span[2 * i + 1]) for i in range(x.shape[-1])]
    hist, edges = np.histogramdd(x, bins, spans, density, weight)
    return (hist, *edges)
