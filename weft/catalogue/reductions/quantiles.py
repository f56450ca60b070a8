"""Quantiles: quantile and nanquantile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.catalogue.samples import F, P, case, draw
from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import normalize_dim
from weft.support.errors import DTypeError, ShapeError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env

_WAYS = ("linear", "lower", "higher", "midpoint", "nearest")


def _check(name: str, self: Any, q: Any, interpolation: str) -> None:
    if interpolation not in _WAYS:
        raise ShapeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    if self.dtype not in (dt.float32, dt.float64):
        raise DTypeError(f"{name}() input tensor must be either float or double dtype")
    shape_env.refuse_equal(dm.product(self.dims), 0, lambda: ShapeError(f"{name}() input tensor must be non-empty"))
    if q.ndim > 1:
        raise ShapeError(f"{name}() q must be a scalar or 1D tensor")
    if q.dtype is not self.dtype:
        raise DTypeError(f"{name}() q tensor must be same dtype as the input tensor")


def _between(ordered: Any, ranks: Any, interpolation: str) -> Any:
    """The elements of the last dim at ranks that may lie between two places."""
    def at(places: Any) -> Any:
        return aten.gather(ordered, -1, aten.to(places, dt.int64))

    if interpolation == "lower":
        return at(aten.floor(ranks))
    if interpolation == "higher":
        return at(aten.ceil(ranks))
    if interpolation == "nearest":
        return at(aten.round(ranks))
    below = aten.floor(ranks)
    weight = aten.full_like(ranks, 0.5) if interpolation == "midpoint" else ranks - below
    low, high = at(below), at(aten.ceil(ranks))
    # equal infinities have no difference
    return aten.where(aten.logical_and(aten.eq(low, high), aten.isinf(low)), low, aten.lerp(low, high, weight))


def _quantile(name: str, self: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str) -> Any:
    _check(name, self, q, interpolation)
    q = aten._checked_values(q, 0, 1, f"{name}() q values must be in the range [0, 1]")
    rank = self.ndim
    axis = 0 if dim is None else normalize_dim(name, dim, rank)
    rows = aten.reshape(self, (dm.product(self.dims),)) if dim is None or not rank else aten.movedim(self, axis, -1)
    ordered = aten.sort(rows, -1)[0]
    steps = aten.reshape(q, (-1,))
    missing = aten.isnan(rows)
    if name == "nanquantile":
        last = aten.sum(aten.logical_not(missing), -1, True) - 1
        ranks = steps * aten.clamp_min(aten.to(last, self.dtype), 0)
        quantiles = _between(ordered, ranks, interpolation)
    else:
        last = rows.dims[-1] - 1
        ranks = aten.expand(steps * last, (*rows.dims[:-1], steps.dims[0]))
        # a NaN is sorted last, and answers for its row
        quantiles = _between(ordered, aten.where(aten.any(missing, -1, True), last, ranks), interpolation)
    out = aten.movedim(quantiles, -1, 0) if q.ndim else aten.squeeze(quantiles, -1)
    if not keepdim or not rank:
        return out
    if dim is not None:
        return aten.unsqueeze(out, axis + q.ndim)
    return aten.reshape(out, (*q.dims, *(1 for _ in range(rank))))


def _oracle(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, q, dim, keepdim, interpolation: function(x, q, axis=dim, keepdims=keepdim, method=interpolation)


for _name in ("quantile", "nanquantile"):
    _doc = (
        "The values below which the fraction q of the elements along dim lies"
        + (", NaN left out." if _name == "nanquantile" else ".")
    )
    define(
        f"aten::{_name}(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, "
        "str interpolation='linear') -> Tensor",
        _doc,
        precision="float32",
        decompose=lambda self, q, dim, keepdim, interpolation, name=_name: _quantile(
            name, self, q, dim, keepdim, interpolation
        ),
        out=True,
        samples=draw(case(F(4, 5), P(3), 1), case(F(6), P(), None, True, interpolation="midpoint")),
        reference=_oracle(np.nanquantile if _name == "nanquantile" else np.quantile),
    )
    define(
        f"aten::{_name}.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, "
        "str interpolation='linear') -> Tensor",
        _doc,
        precision="float32",
        decompose=lambda self, q, dim, keepdim, interpolation, name=_name: _quantile(
            name, self, aten.full((), q, dtype=self.dtype if self.dtype.is_floating_point else None), dim, keepdim,
            interpolation),
        out=True,
        samples=draw(case(F(4, 5), 0.3, 0, True), case(F(6), 0.5, interpolation="lower")),
        reference=_oracle(np.nanquantile if _name == "nanquantile" else np.quantile),
    )
