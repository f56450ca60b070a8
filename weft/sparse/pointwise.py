"""Sums, differences, products and quotients of sparse tensors, with sparse ones, dense ones and numbers."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.sparse.history import (
    coalesced,
    coalesced_parts,
    compressed_of,
    coo_of,
    look_up,
    make,
    values_of,
    with_sparse_dim,
)
from weft.sparse.pattern import Pattern, keys_of, positions_among, summed
from weft.sparse.rules import rule
from weft.sparse.tensor import SparseTensor, refusal
from weft.support.errors import IndexBoundsError, ShapeError, StateError
from weft.tensor.tensor import Tensor
from weft.types import dims as dm
from weft.types import promotion

Operand = Any


def is_number(value: Operand) -> bool:
    """Whether a value is a number, or a dense tensor of no dims."""
    return not isinstance(value, Tensor) or (value.ndim == 0 and not isinstance(value, SparseTensor))


def _check_sizes(what: str, a: Tensor, b: Tensor) -> None:
    if a.shape != b.shape:
        raise ShapeError(
            f"{what}: expected sizes of 'self' and 'other' to match, but {list(a.shape)} != {list(b.shape)}"
        )


# ---- addition
@rule("add")
def add(a: Operand, b: Operand, alpha: Any = 1) -> Tensor:
    """a + alpha * b, dense where one of them is."""
    if is_number(a) or is_number(b):
        raise StateError("add(): a number is added to every element; take .to_dense() first")
    if not isinstance(a, SparseTensor):
        return added_to(a, b, alpha)
    return _add_sparse(a, b, alpha) if isinstance(b, SparseTensor) else added_to(b, a, alpha, is_swapped=True)


@rule("sub")
def _sub(a: Operand, b: Operand, alpha: Any = 1) -> Tensor:
    return add(a, b, -alpha)


@rule("rsub")
def _rsub(a: Operand, b: Operand, alpha: Any = 1) -> Tensor:
    return add(b, a, -alpha)


def _scaled(values: Tensor, alpha: Any) -> Tensor:
    return values if type(alpha) in (int, float) and alpha == 1 else aten.mul(values, alpha)


def added_to(dense: Tensor, sparse: SparseTensor, alpha: Any, is_swapped: bool = False) -> Tensor:
    """dense + alpha * sparse (is_swapped: sparse + alpha * dense), a dense tensor. Raises ShapeError."""
    _check_sizes("add", dense, sparse)
    dtype = promotion.promote(dense.dtype, sparse.dtype)
    pattern, values = coo_of(sparse)
    values = aten._to_copy(values, dtype) if values.dtype is not dtype else values
    dense = aten._to_copy(dense, dtype) if dense.dtype is not dtype else dense
    dense, values = (_scaled(dense, alpha), values) if is_swapped else (dense, _scaled(values, alpha))
    rows = dm.product(pattern.sparse_dims)
    flat = aten.reshape(dense, (rows, *pattern.dense_dims))
    out = aten.index_add(flat, 0, keys_of(pattern.first, pattern.sparse_dims), values)
    return aten.reshape(out, dense.dims)  # type: ignore[no-any-return]


def _add_sparse(a: SparseTensor, b: SparseTensor, alpha: Any) -> SparseTensor:
    _check_sizes("add", a, b)
    mine, others = a._body.pattern, b._body.pattern
    if mine.is_same(others):
        return make(mine, aten.add(values_of(a), _scaled(values_of(b), alpha)))
    if mine.layout is not others.layout:
        raise StateError(f"add: operands of layouts {mine.layout} and {others.layout}; convert one of them")
    if mine.dense_dim != others.dense_dim:
        b = with_sparse_dim(b, mine.sparse_dim)
        others = b._body.pattern
    dtype = promotion.promote(a.dtype, b.dtype)
    (first, x), (second, y) = coo_of(a), coo_of(b)
    x, y = (v if v.dtype is dtype else aten._to_copy(v, dtype) for v in (x, _scaled(y, alpha)))
    is_coalesced = mine.is_coalesced and others.is_coalesced
    joint = Pattern(first.layout, a.dims, aten.cat((first.first, second.first), 1), None, False)
    values = aten.cat((x, y))
    if not mine.is_coo:
        return compressed_of(*coalesced_parts(joint, values), mine.layout)
    return make(*coalesced_parts(joint, values)) if is_coalesced else make(joint, values)


# ---- products
@rule("mul")
def mul(a: Operand, b: Operand) -> Tensor:
    """a * b: a number scales the values, a tensor is looked at where the sparse one has values."""
    if not isinstance(a, SparseTensor):
        a, b = b, a
    pattern = a._body.pattern
    if is_number(b):
        return make(pattern, aten.mul(values_of(a), b))
    if not isinstance(b, SparseTensor):
        wide = b if b.dims == a.dims else aten.expand(b, a.dims)
        return make(pattern, aten.mul(values_of(a), look_up(wide, pattern)))
    _check_sizes("mul", a, b)
    if pattern.is_same(b._body.pattern) and pattern.is_coalesced:
        return make(pattern, aten.mul(values_of(a), values_of(b)))
    product = _meet(a, b)
    return make(*product) if pattern.is_coo else compressed_of(*product, pattern.layout)


def _meet(a: SparseTensor, b: SparseTensor) -> tuple[Pattern, Tensor]:
    """The products where both have values."""
    pattern, x = coalesced(a)
    others, y = coalesced(with_sparse_dim(b, pattern.sparse_dim))
    sizes = pattern.sparse_dims
    places, is_there = positions_among(keys_of(others.first, sizes), keys_of(pattern.first, sizes))
    kept = aten.select(aten.nonzero(is_there), 1, 0)
    values = aten.mul(aten.index_select(x, 0, kept), aten.index_select(y, 0, aten.index_select(places, 0, kept)))
    return pattern.replaced(first=aten.index_select(pattern.first, 1, kept)), values


@rule("div", "true_divide")
def _div(a: Operand, b: Operand, rounding_mode: str | None = None) -> Tensor:
    if not isinstance(a, SparseTensor):
        raise refusal("div", b)
    if not is_number(b):
        raise StateError(
            f"Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {list(b.shape)} for "
            "divisor)"
        )
    if rounding_mode is None:
        return make(a._body.pattern, aten.div(values_of(a), b))
    pattern, values = coalesced_parts(a._body.pattern, values_of(a))
    return make(pattern, aten.div(values, b, rounding_mode=rounding_mode))


@rule("floor_divide")
def _floor_divide(a: Operand, b: Operand) -> Tensor:
    return _div(a, b, "floor")


@rule("addcmul")
def _addcmul(a: Operand, b: Operand, c: Operand, value: Any = 1) -> Tensor:
    return add(a, aten.mul(b, c), value)


# ---- sums
@rule("sum")
def sum_of(tensor: SparseTensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """The sum of all elements (dense, no dims), or along dims: sparse, or dense where no dim with indices is left."""
    pattern, values = coo_of(tensor)
    values = values if dtype is None else aten._to_copy(values, dtype)
    if dim is None or dim == ():
        total: Tensor = aten.sum(values)
        return aten.reshape(total, (1,) * tensor.ndim) if keepdim else total
    dims = sorted({within(d, tensor.ndim) for d in ((dim,) if isinstance(dim, int) else dim)})
    sparse_dim = pattern.sparse_dim
    inner = tuple(d - sparse_dim + 1 for d in dims if d >= sparse_dim)
    outer = [d for d in dims if d < sparse_dim]
    if inner:
        values = aten.sum(values, inner, keepdim)
    if not outer:
        sizes = (*pattern.sparse_dims, *values.dims[1:])
        return make(pattern.replaced(dims=sizes), values)
    left = [d for d in range(sparse_dim) if d not in outer]
    if not left and not keepdim:
        return aten.sum(values, 0)  # type: ignore[no-any-return]
    indices = aten.stack(tuple([
        aten.zeros_like(aten.select(pattern.first, 0, d)) if d in outer else aten.select(pattern.first, 0, d)
        for d in (range(sparse_dim) if keepdim else left)
    ]))
    sizes = tuple([1 if d in outer else pattern.dims[d] for d in (range(sparse_dim) if keepdim else left)])
    joint = Pattern(pattern.layout, (*sizes, *values.dims[1:]), indices, None, False)
    if not tensor._body.pattern.is_coo:
        if keepdim and tensor.ndim == 2:
            return compressed_of(*coalesced_parts(joint, values), tensor.layout)
        key = keys_of(indices, sizes)
        return aten.reshape(summed(values, key, dm.product(sizes)), joint.dims)  # type: ignore[no-any-return]
    return make(*coalesced_parts(joint, values))


@rule("mean")
def _mean(tensor: SparseTensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    if dim is not None:
        raise refusal("mean", tensor)
    return aten.div(sum_of(tensor, None, keepdim, dtype), tensor.numel())  # type: ignore[no-any-return]


@rule("any")
def _any(tensor: SparseTensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    if dim is not None:
        raise refusal("any", tensor)
    return aten.any(coalesced(tensor)[1])  # type: ignore[no-any-return]


@rule("linalg_vector_norm")
def _vector_norm(
    tensor: SparseTensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Tensor:
    if dim is not None or ord <= 0:
        raise refusal("linalg_vector_norm", tensor)
    return aten.linalg_vector_norm(coalesced(tensor)[1], ord, dtype=dtype)  # type: ignore[no-any-return]


def within(dim: int, ndim: int) -> int:
    """A dim from 0 on. Raises IndexBoundsError."""
    if not -ndim <= dim < ndim:
        raise IndexBoundsError(
            f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})"
        )
    return dim % ndim
