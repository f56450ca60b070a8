"""A product of matrices or vectors added to a tensor: addmm and its kin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.catalogue.families import is_one, scaled
from weft.catalogue.linalg.matmul import bmm_type, conjugate, mm_type, mv_type
from weft.catalogue.shapes.singletons import expanded_geometry
from weft.catalogue.widening import cast, widened
from weft.ops.geometry import contiguous
from weft.ops.layout import ROW_MAJOR
from weft.ops.op import Out, Rule, define
from weft.ops.packet import aten
from weft.support.errors import DTypeError, ShapeError
from weft.types import dtype as dt
from weft.types.tensor_type import TensorType, tensor_type


def _times(x: Any, factor: Any) -> Any:
    """x * factor in the dtype of x: an integer matrix takes the integer part of a factor, a matrix of bools
    whether it is not 0."""
    if is_one(factor):
        return x
    if x.dtype.is_differentiable:
        return x * factor
    whole = aten.full((), factor, dtype=x.dtype)  # the factor may be known only in the run
    return aten.logical_and(x, whole) if x.dtype is dt.bool_ else x * whole


def _sum(product: Rule, self: Any, a: Any, b: Any, beta: Any, alpha: Any) -> Any:
    """beta * self + alpha * the product of a and b, rounded once; with beta 0, self does not count, NaN or not."""
    scaled_product = _times(product(widened(a), widened(b)), alpha)
    if type(beta) in (int, float) and beta == 0:
        return cast(scaled_product, a.dtype)
    return cast(aten.expand(_times(widened(self), beta), scaled_product.dims) + scaled_product, a.dtype)


def _sum_type(self: TensorType, product: TensorType) -> TensorType:
    if self.dtype is not None and product.dtype is not None and self.dtype is not product.dtype:
        raise DTypeError(f"self and mat2 must have the same dtype, but got {self.dtype} and {product.dtype}")
    if self.is_complete and product.is_complete:
        expanded_geometry(contiguous(self.shape), product.shape)  # for its check of the sizes
    return product


def _scaled(g: Any, factor: Any) -> Any:
    """g times the conjugate of a number."""
    return scaled(g, factor.conjugate() if type(factor) is complex else factor)


def _addbmm_type(batch1: TensorType, batch2: TensorType) -> TensorType:
    product = bmm_type(batch1, batch2)
    return tensor_type(product.dtype, None if product.dims is None else product.dims[1:], product.device)


def _outer_type(vec1: TensorType, vec2: TensorType) -> TensorType:
    if not (vec1.is_complete and vec2.is_complete):
        return tensor_type(vec1.dtype or vec2.dtype, (None, None))
    if vec1.ndim != 1 or vec2.ndim != 1:
        raise ShapeError(f"addr: Expected 1-D argument vec{1 if vec1.ndim != 1 else 2}")
    return tensor_type(vec1.dtype, (*vec1.shape, *vec2.shape), vec1.device)


def _added(base: str, arguments: str, doc: str, product: Rule, type: Rule, vjp: Mapping[str, Rule]) -> None:
    define(
        f"aten::{base}({arguments}, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        doc,
        precision="lower" if base in ("addmm", "baddbmm", "addbmm") else "",
        type=lambda self, a, b, beta, alpha: _sum_type(self, type(a, b)),
        decompose=lambda self, a, b, beta, alpha: _sum(product, self, a, b, beta, alpha),
        vjp={"self": lambda g, beta: _scaled(g, beta), **vjp},
        specialize={"beta": lambda beta: beta == 0},
        lies=None if base == "addr" else ROW_MAJOR,
        inplace=True,
        out=Out("castable") if base == "addr" else True,
    )


def _bmm_left(g: Any, right: Any) -> Any:
    return aten.bmm(g, conjugate(aten.transpose(right, 1, 2)))


def _bmm_right(g: Any, left: Any) -> Any:
    return aten.bmm(conjugate(aten.transpose(left, 1, 2)), g)


_added(
    "addmm", "Tensor self, Tensor mat1, Tensor mat2", "beta * self + alpha * mat1 @ mat2, for matrices.",
    lambda a, b: aten.mm(a, b), mm_type,
    {
        "mat1": lambda g, mat2, alpha: _scaled(aten.mm(g, conjugate(aten.t(mat2))), alpha),
        "mat2": lambda g, mat1, alpha: _scaled(aten.mm(conjugate(aten.t(mat1)), g), alpha),
    },
)
_added(
    "addmv", "Tensor self, Tensor mat, Tensor vec", "beta * self + alpha * mat @ vec.",
    lambda a, b: aten.mv(a, b), mv_type,
    {
        "mat": lambda g, vec, alpha: _scaled(aten.unsqueeze(g, 1) * conjugate(vec), alpha),
        "vec": lambda g, mat, alpha: _scaled(aten.mv(conjugate(aten.t(mat)), g), alpha),
    },
)
_added(
    "baddbmm", "Tensor self, Tensor batch1, Tensor batch2", "beta * self + alpha * batch1 @ batch2, in batches.",
    lambda a, b: aten.bmm(a, b), bmm_type,
    {
        "batch1": lambda g, batch2, alpha: _scaled(_bmm_left(g, batch2), alpha),
        "batch2": lambda g, batch1, alpha: _scaled(_bmm_right(g, batch1), alpha),
    },
)
_added(
    "addr", "Tensor self, Tensor vec1, Tensor vec2", "beta * self + alpha * the outer product of vec1 and vec2.",
    lambda a, b: aten.outer(a, b), _outer_type,
    {
        "vec1": lambda g, vec2, alpha: _scaled(aten.mv(g, conjugate(vec2)), alpha),
        "vec2": lambda g, vec1, alpha: _scaled(aten.mv(aten.t(g), conjugate(vec1)), alpha),
    },
)
_added(
    "addbmm", "Tensor self, Tensor batch1, Tensor batch2",
    "beta * self + alpha * the sum of batch1 @ batch2 over the batch.",
    lambda a, b: aten.sum(aten.bmm(a, b), 0, dtype=a.dtype), _addbmm_type,
    {
        "batch1": lambda g, batch2, batch1_dims, alpha: _scaled(
            _bmm_left(aten.expand(g, (batch1_dims[0], *g.dims)), batch2), alpha
        ),
        "batch2": lambda g, batch1, alpha: _scaled(
            _bmm_right(aten.expand(g, (batch1.dims[0], *g.dims)), batch1), alpha
        ),
    },
)
