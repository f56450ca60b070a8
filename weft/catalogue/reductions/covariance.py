"""Covariance and correlation of variables that are rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.catalogue.families import conjugate
from weft.catalogue.samples import F, P, case, draw
from weft.ops.op import define
from weft.ops.packet import aten
from weft.support.errors import DTypeError, ShapeError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim


def _weights(name: str, weights: Any, count: Dim, whole: bool) -> Any:
    if weights.ndim > 1:
        raise ShapeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with {weights.ndim} dimensions"
        )
    if weights.dtype.is_complex or weights.dtype.is_floating_point is whole:
        raise DTypeError(
            f"cov(): expected {name} to have {'integral' if whole else 'floating point'} dtype but got {name} with "
            f"{weights.dtype} dtype"
        )
    if not shape_env.equal(weights.dims[0] if weights.ndim else 1, count):
        raise ShapeError(f"cov(): expected {name} to have the same numel as there are observations in the input")
    return aten._checked_values(weights, 0, None, f"cov(): {name} cannot be negative")


def _cov(self: Any, correction: int, fweights: Any, aweights: Any) -> Any:
    if self.ndim > 2:
        raise ShapeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {self.ndim} dimensions"
        )
    if self.dtype is dt.bool_:
        raise DTypeError("cov(): bool dtype is not supported for input")
    rows = aten.reshape(self, (1, -1)) if self.ndim < 2 else self
    count = rows.dims[1]
    w = None if fweights is None else _weights("fweights", fweights, count, True)
    if aweights is not None:
        a = _weights("aweights", aweights, count, False)
        w = a if w is None else w * a
    total: Any = count
    if w is not None:
        total = aten.sum(w)
    mean = aten.sum(rows if w is None else rows * w, 1) / total
    if w is not None and aweights is not None and correction != 0:
        freedom = aten.clamp_min(total - correction * aten.sum(w * aweights) / total, 0)
    elif w is not None:
        freedom = aten.clamp_min(total - correction, 0)
    else:
        freedom = dm.maximum(count - correction, 0)
    off = rows - aten.unsqueeze(mean, 1)
    products = aten.mm(off, conjugate(aten.t(off if w is None else aten.to(off * w, off.dtype))))
    return aten.squeeze(aten.div(products, freedom))


def _corrcoef(self: Any) -> Any:
    if self.ndim > 2:
        raise ShapeError(
            f"corrcoef(): expected input to have two or fewer dimensions but got an input with {self.ndim} dimensions"
        )
    c = _cov(self, 1, None, None)
    if c.ndim == 0:
        return c / c
    spread = aten.sqrt(aten.real(aten.diagonal(c)) if c.dtype.is_complex else aten.diagonal(c))
    out = c / aten.unsqueeze(spread, 1) / aten.unsqueeze(spread, 0)
    if not out.dtype.is_complex:
        return aten.clamp(out, -1, 1)
    return aten.complex(aten.clamp(aten.real(out), -1, 1), aten.clamp(aten.imag(out), -1, 1))


define(
    "aten::cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor",
    "The covariances of the rows (variables) over the columns (observations), which may be weighted: [n, k] -> [n, n].",
    decompose=_cov,
    samples=draw(
        case(F(3, 5)), case(F(6), correction=0), case(F(2, 4), fweights=np.array([1, 0, 2, 1]), aweights=P(4))
    ),
    reference=lambda x, correction, f, a: np.cov(x, ddof=correction, fweights=f, aweights=a),
)
define(
    "aten::corrcoef(Tensor self) -> Tensor",
    "The correlation coefficients of the rows over the columns: [n, k] -> [n, n].",
    decompose=_corrcoef,
    samples=draw(case(F(3, 5))),
    reference=np.corrcoef,
)
