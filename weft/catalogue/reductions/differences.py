"""Neighbours along a dim: their differences, slopes and trapezoids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalogue.samples import F, P, case, draw
from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import normalize_dim, normalize_dims
from weft.support.errors import IndexBoundsError, ShapeError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim


def _neighbours(x: Any, dim: int) -> tuple[Any, Any]:
    """The elements but the first, and those but the last."""
    return aten.slice(x, dim, 1), aten.slice(x, dim, 0, -1)


def _joined(x: Any, dim: int, before: Any, after: Any) -> Any:
    parts = [p for p in (before, x, after) if p is not None]
    return aten.cat(parts, dim) if len(parts) > 1 else x


def _diff(self: Any, n: int, dim: int, prepend: Any, append: Any) -> Any:
    if not self.ndim:
        raise ShapeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise ShapeError(f"order must be non-negative but got {n}")
    dim = normalize_dim("diff", dim, self.ndim)
    if n == 0:
        return aten.clone(self)  # as PyTorch, which puts nothing before and behind then
    out = _joined(self, dim, prepend, append)
    for _ in range(n):
        if shape_env.is_zero(out.dims[dim]):
            return aten.clone(out)
        later, earlier = _neighbours(out, dim)
        out = aten.logical_xor(later, earlier) if out.dtype is dt.bool_ else later - earlier
    return out


define(
    "aten::diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
    "The n-th difference of neighbours along dim, after other tensors are put before and behind.",
    decompose=_diff,
    out=True,
    samples=draw(case(F(3, 4)), case(F(3, 4), 2, 0), case(F(3, 4), 1, 1, F(3, 2), F(3, 1))),
    reference=lambda x, n, dim, before, after: np.diff(x, n, dim, *([] if before is None else [before, after])),
)


def _spans(x: Any, y: Any, dim: int) -> Any:
    """The widths between the places x, with dims that broadcast against y's."""
    if x.ndim == 1:
        later, earlier = _neighbours(x, 0)
        return aten.reshape(later - earlier, (-1, *(1,) * (y.ndim - 1 - normalize_dim("trapezoid", dim, y.ndim))))
    later, earlier = _neighbours(x, dim)
    return later - earlier


def _trapezoids(y: Any, dim: int, width: Any) -> Any:
    if not y.ndim:
        raise IndexBoundsError("trapezoid: the values must have at least one dim")
    later, earlier = _neighbours(aten.to(y, dt.int64) if y.dtype is dt.bool_ else y, dim)
    return (later + earlier) * (width / 2.0)


def _total(y: Any, dim: int, width: Any) -> Any:
    return aten.sum(_trapezoids(y, dim, width), dim)


for _name, _doc, _join in (
    ("trapezoid", "The integral along dim by the trapezoidal rule", _total),
    ("trapz", "The integral along dim by the trapezoidal rule (the older name of `trapezoid`)", _total),
    ("cumulative_trapezoid", "The integrals along dim from the first place to each later one by the trapezoidal rule",
     lambda y, dim, width: aten.cumsum(_trapezoids(y, dim, width), dim)),
):
    define(
        f"aten::{_name}.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor",
        f"{_doc}; the values y stand at the places x.",
        decompose=lambda y, x, dim, join=_join: join(y, dim, _spans(x, y, dim)),
        public=("weft",),
        samples=draw(case(F(3, 4), P(4)), case(F(3, 4), P(3, 4), dim=0)),
    )
    define(
        f"aten::{_name}.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor",
        f"{_doc}; the values y stand dx apart.",
        decompose=lambda y, dx, dim, join=_join: join(y, dim, dx),
        public=("weft",),
        samples=draw(case(F(3, 4), dx=0.5), case(F(3, 4), dim=0)),
    )


def _vander(x: Any, N: Dim | None, increasing: bool) -> Any:
    if x.ndim != 1:
        raise ShapeError("x must be a one-dimensional tensor.")
    size = x.dims[0] if N is None else N
    shape_env.refuse_less(size, 0, lambda: ShapeError("N must be non-negative."))
    return _powers(x, size, increasing)


def _powers(x: Any, size: Dim, increasing: bool) -> Any:
    """x to the powers 0 ... size - 1 (by running products, whose gradient is right at 0) in a new last dim."""
    whole = aten.to(x, dt.int64) if x.dtype.category <= dt.INT else x
    columns = aten.expand(aten.unsqueeze(whole, -1), (*x.dims, dm.maximum(size - 1, 0)))
    ones = aten.new_ones(whole, (*x.dims, dm.minimum(size, 1)))
    out = aten.cat((ones, aten.cumprod(columns, -1)), -1)
    return out if increasing else aten.flip(out, (-1,))


def _powers_from_0(x: Any, N: Dim | None) -> Any:
    whole = x if x.ndim else aten.reshape(x, (1,))
    size = whole.dims[-1] if N is None else N
    if shape_env.less(size, 2):
        raise ShapeError(f"linalg_vander: N must be greater than 1, but it is {size}.")
    return _powers(whole, size, True)


define(
    "aten::vander(Tensor x, int? N=None, bool increasing=False) -> Tensor",
    "The powers of a vector's elements as columns, from N - 1 down to 0.",
    decompose=_vander,
    public=("weft",),
    samples=draw(case(F(4)), case(F(3), 5, True)),
    reference=lambda x, n, increasing: np.vander(x, n, increasing),
)
define(
    "aten::linalg_vander(Tensor x, *, int? N=None) -> Tensor",
    "The powers 0, 1, ... of each element in a new last dim.",
    decompose=_powers_from_0,
    public=("linalg",),
    samples=draw(case(F(2, 3)), case(F(3), N=5)),
    reference=lambda x, n: x[..., None] ** np.arange(x.shape[-1] if n is None else n),
)


# ---- slopes of sampled functions


def _part(x: Any, dim: int, start: int, end: int | None) -> Any:
    return aten.slice(x, dim, start, end)


def _slope(f: Any, dim: int, spacing: Any, edge_order: int) -> Any:
    """Central differences inside, one-sided ones of the edge order at both ends.
    spacing: a number, or a vector of places."""
    first, second = (_part(f, dim, 0, 1), _part(f, dim, 1, 2)), (_part(f, dim, -1, None), _part(f, dim, -2, -1))
    if getattr(spacing, "ndim", 0):
        steps = aten.reshape(
            _part(spacing, 0, 1, None) - _part(spacing, 0, 0, -1), tuple(-1 if i == dim else 1 for i in range(f.ndim))
        )
    else:
        steps = None
    before, after = (spacing, spacing) if steps is None else (_part(steps, dim, 0, -1), _part(steps, dim, 1, None))
    left, mid, right = _part(f, dim, 0, -2), _part(f, dim, 1, -1), _part(f, dim, 2, None)
    if steps is None:
        inside = (right - left) / (2 * spacing)
    else:
        inside = (
            (right * before * before - left * after * after + mid * (after * after - before * before))
            / (before * after * (before + after))
        )
    ends = []
    for at_end, (edge, inner) in enumerate((first, second)):
        sign = -1 if at_end else 1
        h1 = spacing if steps is None else _part(steps, dim, *((-1, None) if at_end else (0, 1)))
        if edge_order == 1:
            ends.append((inner - edge) * sign / h1)
            continue
        h2 = spacing if steps is None else _part(steps, dim, *((-2, -1) if at_end else (1, 2)))
        third = _part(f, dim, *((-3, -2) if at_end else (2, 3)))
        ends.append((edge * (-(2 * h1 + h2) / (h1 * (h1 + h2))) + inner * ((h1 + h2) / (h1 * h2)) - third * (
            h1 / (h2 * (h1 + h2))
        )) * sign)
    return aten.cat((ends[0], inside, ends[1]), dim)


def _gradient(self: Any, spacing: Any, dim: Sequence[int] | None, edge_order: int) -> tuple[Any, ...]:
    if edge_order not in (1, 2):
        raise ShapeError(f"gradient only supports edge_order=1 and edge_order=2, but got {edge_order}")
    dims = normalize_dims("gradient", dim, self.ndim)
    widths = [1 if spacing is None else spacing] * len(dims) if not isinstance(spacing, tuple) else list(spacing)
    if len(widths) != len(dims):
        raise ShapeError(
            f"gradient expected spacing to be unspecified, a scalar, or a list of length {len(dims)}, "
            f"but got a list of length {len(widths)}"
        )
    for d in dims:
        size = self.dims[d]
        shape_env.refuse_less(size, edge_order + 1, lambda d=d, size=size: ShapeError(  # type: ignore[misc]
            f"gradient expected each dimension size to be at least edge_order+1 = {edge_order + 1}, "
            f"but dim {d} has {size}"))
    f = aten.to(self, dt.get_default()) if self.dtype.category <= dt.INT else self
    return tuple(_slope(f, d, w, edge_order) for d, w in zip(dims, widths, strict=True))


for _overload, _spacing in (
    (("scalar", "Scalar? spacing=None"), ("scalararray", "Scalar[] spacing"), ("tensorarray", "Tensor[] spacing"))
):
    define(
        f"aten::gradient.{_overload}(Tensor self, *, {_spacing}, int[1]? dim=None, int edge_order=1) -> Tensor[]",
        "The slopes along each dim of a function sampled at evenly spaced places, or at the places that vectors in "
        "`spacing` give.",
        decompose=_gradient,
        public=("weft",),
    )
