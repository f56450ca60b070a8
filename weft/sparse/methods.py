"""Methods of every tensor that have to do with layouts: to_sparse, to_dense, coalesce, indices, values, ..."""

from __future__ import annotations

from typing import Any, NoReturn

import weft.sparse  # noqa: F401  (its rules)
from weft.ops.packet import aten
from weft.sparse.history import coalesce as coalesced
from weft.sparse.history import converted, dense_of, look_up, make, values_of, with_sparse_dim
from weft.sparse.making import BLOCKED, of_dense, refuse_blocks
from weft.sparse.pattern import Pattern, counting
from weft.sparse.products import mm
from weft.sparse.tensor import SparseTensor, layout_name, refusal
from weft.sparse.writes import become
from weft.support.errors import ArgumentError, StateError
from weft.tensor.tensor import Tensor
from weft.types import formats


def call_method(name: str, tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Call a method of this file by its name."""
    return globals()[name](tensor, *args, **kwargs)


def _refuse(what: str, expected: str, tensor: Tensor) -> NoReturn:
    raise StateError(f"{what} expected {expected} tensor layout but got {layout_name(tensor)}")


def _coo(what: str, tensor: Tensor) -> SparseTensor:
    if not isinstance(tensor, SparseTensor) or not tensor._body.pattern.is_coo:
        _refuse(what, "sparse coordinate", tensor)
    return tensor


def _compressed(what: str, layout: Any, kind: str, tensor: Tensor) -> Pattern:
    if not isinstance(tensor, SparseTensor) or tensor.layout is not layout:
        _refuse(what, kind, tensor)
    return tensor._body.pattern


# ---- conversions
def to_sparse(
    self: Tensor, *args: Any, sparse_dim: int | None = None, sparseDim: int | None = None, layout: Any = None,
    blocksize: Any = None, dense_dim: int | None = None,
) -> SparseTensor:
    """The tensor in a sparse layout (COO by default), with indices for the first sparse_dim dims (all by default)."""
    count = args[0] if args else sparse_dim if sparse_dim is not None else sparseDim
    if count is not None and layout is not None:
        raise ArgumentError("to_sparse(): takes sparse_dim, or a layout")
    layout = layout or formats.sparse_coo
    if layout in BLOCKED or blocksize is not None:
        raise refuse_blocks("to_sparse()")
    if not isinstance(self, SparseTensor):
        return of_dense(self, layout, count, dense_dim, "to_sparse()")
    if count is not None and count != self._body.pattern.sparse_dim:
        raise StateError(
            "to_sparse: conversion from Sparse to Sparse with sparse_dim argument !=self.sparse_dim() is not supported"
        )
    return converted(self, layout)


def to_sparse_coo(self: Tensor) -> Tensor:
    """The tensor in layout sparse_coo."""
    return to_sparse(self)


def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """The tensor in layout sparse_csr."""
    return _to_compressed(self, formats.sparse_csr, dense_dim)


def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """The tensor in layout sparse_csc."""
    return _to_compressed(self, formats.sparse_csc, dense_dim)


def _to_compressed(self: Tensor, layout: Any, dense_dim: int | None) -> Tensor:
    if not isinstance(self, SparseTensor):
        return of_dense(self, layout, None, dense_dim, f"to_{layout.rpartition('.')[2]}()")
    pattern = self._body.pattern
    if pattern.batch_dim:
        return of_dense(dense_of(self), layout, None, pattern.dense_dim, "to_sparse()")
    if pattern.sparse_dim != 2:
        raise StateError(f"Only tensors with two sparse dimensions can be converted to {layout}, got {self.ndim} dims")
    return converted(self, layout)


def to_sparse_bsr(self: Tensor, *args: Any, **options: Any) -> NoReturn:
    """Refused: there are no layouts of blocks. Raises Unsupported."""
    raise refuse_blocks("to_sparse_bsr()")


def to_sparse_bsc(self: Tensor, *args: Any, **options: Any) -> NoReturn:
    """Refused: there are no layouts of blocks. Raises Unsupported."""
    raise refuse_blocks("to_sparse_bsc()")


def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor with all its elements, in layout strided. The gradient of a sparse tensor has values at its places
    alone (masked_grad=True), which is what PyTorch does too unless it is asked."""
    out = dense_of(self) if isinstance(self, SparseTensor) else self
    return out if dtype is None else out.to(dtype)


# ---- what it is made of
def coalesce(self: Tensor) -> Tensor:
    """The COO tensor with sorted indices, each there once: values of equal indices are added."""
    return coalesced(_coo("coalesce", self))


def is_coalesced(self: Tensor) -> bool:
    """Whether the indices are known to be sorted and there once each."""
    return _coo("is_coalesced", self)._body.pattern.is_coalesced


def _coalesced_(self: Tensor, coalesced: bool) -> Tensor:
    """Declare that the indices are sorted and there once each, or that they may not be."""
    body = _coo("_coalesced_", self)._body
    body.pattern = body.pattern.replaced(is_coalesced=bool(coalesced))
    return self


def indices(self: Tensor) -> Tensor:
    """The indices [sparse dims, nnz] of a coalesced COO tensor."""
    pattern = _coo("indices", self)._body.pattern
    if not pattern.is_coalesced:
        raise StateError("Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
    return pattern.first


def _indices(self: Tensor) -> Tensor:
    """The indices [sparse dims, nnz] of a COO tensor as they are kept."""
    if not isinstance(self, SparseTensor) or not self._body.pattern.is_coo:
        raise refusal("_indices", self)
    return self._body.pattern.first


def values(self: Tensor) -> Tensor:
    """The values [nnz, dense sizes]; gradients flow through them."""
    if not isinstance(self, SparseTensor):
        _refuse("values", "sparse", self)
    if not self._body.pattern.is_coalesced:
        raise StateError("Cannot get values on an uncoalesced tensor, please call .coalesce() first")
    return values_of(self)


def _values(self: Tensor) -> Tensor:
    """The values as they are kept, without history."""
    if not isinstance(self, SparseTensor) or not self._body.pattern.is_coo:
        raise refusal("_values", self)
    return self._body.values


def crow_indices(self: Tensor) -> Tensor:
    """Where the rows of a CSR tensor begin among its values [n + 1]."""
    return _compressed("crow_indices", formats.sparse_csr, "sparse row compressed", self).first


def col_indices(self: Tensor) -> Tensor:
    """The columns of a CSR tensor's values [nnz]."""
    second = _compressed("col_indices", formats.sparse_csr, "sparse row compressed", self).second
    assert second is not None
    return second


def ccol_indices(self: Tensor) -> Tensor:
    """Where the columns of a CSC tensor begin among its values [m + 1]."""
    return _compressed("ccol_indices", formats.sparse_csc, "sparse column compressed", self).first


def row_indices(self: Tensor) -> Tensor:
    """The rows of a CSC tensor's values [nnz]."""
    second = _compressed("row_indices", formats.sparse_csc, "sparse column compressed", self).second
    assert second is not None
    return second


def _nnz(self: Tensor) -> Any:
    """The number of values."""
    if not isinstance(self, SparseTensor):
        raise refusal("_nnz", self)
    return self._body.values.shape[self._body.pattern.batch_dim]


def sparse_dim(self: Tensor) -> int:
    """The number of dims with indices; 0 for a dense tensor."""
    return self._body.pattern.sparse_dim if isinstance(self, SparseTensor) else 0


def dense_dim(self: Tensor) -> int:
    """The number of dims that every value has; all of a dense tensor's."""
    return self._body.pattern.dense_dim if isinstance(self, SparseTensor) else self.ndim


_dimI, _dimV = sparse_dim, dense_dim


# ---- with other tensors
def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """The tensor's elements at the places of a sparse tensor of the same sizes (those of places that are there twice,
    twice)."""
    if not isinstance(mask, SparseTensor):
        raise refusal("sparse_mask", mask)
    if self.shape != mask.shape:
        raise StateError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(self.shape)} but mask has size "
            f"{list(mask.shape)}"
        )
    return make(mask._body.pattern, look_up(self, mask._body.pattern))


def _to_sparse_like(self: Tensor, other: Tensor) -> Tensor:
    """The tensor in the layout of another one."""
    if not isinstance(other, SparseTensor):
        return to_dense(self)
    sparse = to_sparse(self, layout=other.layout)
    return with_sparse_dim(sparse, other._body.pattern.sparse_dim)


def smm(self: Tensor, mat: Tensor) -> Tensor:
    """The product of a sparse and a dense matrix, as a sparse one."""
    out = mm(self, mat)
    return out if isinstance(out, SparseTensor) else _full(out)


def _full(dense: Tensor) -> SparseTensor:
    """A dense matrix as COO with a value at every place, zeros too."""
    rows, columns = dense.dims
    place = counting(rows * columns, dense)
    width = columns if columns != 0 else 1
    pattern = Pattern(
        formats.sparse_coo, dense.dims, aten.stack((aten.floor_divide(place, width), aten.remainder(place, width)))
    )
    return make(pattern, aten.reshape(dense, (rows * columns,)))


def sspaddmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * self + alpha * (mat1 @ mat2), sparse; self and mat1 are sparse, mat2 is dense."""
    return aten.add(aten.mul(self, beta), smm(mat1, mat2), alpha=alpha)  # type: ignore[no-any-return]


# ---- other sizes
def sparse_resize_(self: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
    """Give a COO tensor other sizes in place; what has values must keep its indices. Returns self."""
    tensor = _coo("sparse_resize_", self)
    pattern, numbers = tensor._body.pattern, tensor._body.values
    sizes = tuple(size)
    if len(sizes) != sparse_dim + dense_dim:
        raise StateError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(sizes)}, sparse_dim = "
            f"{sparse_dim}, dense_dim = {dense_dim}"
        )
    if numbers.shape[0]:
        if (sparse_dim, dense_dim) != (pattern.sparse_dim, pattern.dense_dim):
            raise StateError(
                "changing the number of sparse or dense dimensions on a non-empty sparse tensor is not supported"
            )
        if any(new < old for new, old in zip(sizes, pattern.dims, strict=True)):
            raise StateError("shrinking the size of dimensions on a non-empty sparse tensor is not supported")
        numbers = _grown(numbers, sizes[sparse_dim:])
        first = pattern.first
    else:
        first = aten.new_zeros(pattern.first, (sparse_dim, 0))
        numbers = aten.new_zeros(numbers, (0, *sizes[sparse_dim:]))
    _resized(tensor, make(pattern.replaced(dims=sizes, first=first), numbers))
    return self


def sparse_resize_and_clear_(self: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
    """Give a COO tensor other sizes in place and take its values away. Returns self."""
    tensor = _coo("sparse_resize_and_clear_", self)
    sizes = tuple(size)
    first, numbers = tensor._body.pattern.first, tensor._body.values
    pattern = Pattern(formats.sparse_coo, sizes, aten.new_zeros(first, (sparse_dim, 0)))
    _resized(tensor, make(pattern, aten.new_zeros(numbers, (0, *sizes[sparse_dim:]))))
    return self


def resize_as_sparse_(self: Tensor, other: Tensor) -> Tensor:
    """sparse_resize_ to the sizes of another sparse tensor. Returns self."""
    shape = _coo("resize_as_sparse_", other)._body.pattern
    return sparse_resize_(self, shape.dims, shape.sparse_dim, shape.dense_dim)


def _grown(values: Tensor, sizes: tuple[Any, ...]) -> Tensor:
    for d, size in enumerate(sizes, 1):
        more = size - values.shape[d]
        if more:
            extra = aten.new_zeros(values, (*values.dims[:d], more, *values.dims[d + 1 :]))
            values = aten.cat((values, extra), d)
    return values


def _resized(tensor: SparseTensor, value: SparseTensor) -> None:
    become(tensor, value)
    tensor._data = value._data.moved_to(tensor)
    tensor._body = value._body
