"""Products of matrices of which one or both are sparse."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.sparse.history import coalesced, coalesced_parts, compressed_of, coo_of, make
from weft.sparse.pattern import Pattern, compressed, repeated, summed
from weft.sparse.rules import rule
from weft.sparse.tensor import SparseTensor, refusal
from weft.support.errors import ShapeError, StateError, ValueProblem
from weft.tensor.tensor import Tensor
from weft.types import dims as dm
from weft.types import formats


def _check(what: str, a: Tensor, b: Tensor, ndims: tuple[int, int]) -> None:
    if (a.ndim, b.ndim) != ndims:
        raise ShapeError(f"{what}: expected tensors of {ndims[0]} and {ndims[1]} dims, got {a.ndim} and {b.ndim}")
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise ShapeError(
            f"mat1 and mat2 shapes cannot be multiplied ({'x'.join(map(str, a.shape))} and "
            f"{'x'.join(map(str, b.shape))})"
        )
    if a.dtype is not b.dtype:
        raise StateError(f"expected m1 and m2 to have the same dtype, but got: {a.dtype} != {b.dtype}")


@rule("mm")
def mm(a: Tensor, b: Tensor) -> Tensor:
    """The product of two matrices: dense where one of them is, else sparse."""
    _check("mm", a, b, (2, 2))
    if not isinstance(a, SparseTensor):
        return aten.t(_times_dense(transposed(b), aten.t(a)))  # type: ignore[no-any-return]
    return _times_sparse(a, b) if isinstance(b, SparseTensor) else _times_dense(a, b)


def transposed(matrix: Any) -> SparseTensor:
    """A sparse matrix with rows and columns exchanged, in the order in which the values are kept."""
    pattern, values = coo_of(matrix)
    return make(_exchanged(pattern), values)


def _exchanged(pattern: Pattern) -> Pattern:
    indices = aten.stack((aten.select(pattern.first, 0, 1), aten.select(pattern.first, 0, 0)))
    rows, columns, *rest = pattern.dims
    return Pattern(formats.sparse_coo, (columns, rows, *rest), indices, None, False)


def _check_plain(matrix: SparseTensor) -> None:
    if matrix._body.pattern.dense_dim or matrix._body.pattern.batch_dim:
        raise refusal("mm", matrix)


def _times_dense(a: SparseTensor, b: Tensor) -> Tensor:
    """[n, k] sparse @ [k, m] dense: each value times a row, added up by row."""
    _check_plain(a)
    pattern, values = coo_of(a)
    rows, columns = aten.select(pattern.first, 0, 0), aten.select(pattern.first, 0, 1)
    products = aten.mul(aten.unsqueeze(values, 1), aten.index_select(b, 0, columns))
    return summed(products, rows, a.dims[0])


def reduced(a: Tensor, b: Tensor, reduce: str) -> Tensor:
    """[n, k] sparse @ [k, m] dense, with another reduction of each row's products than their sum."""
    if reduce not in ("mean", "amax", "amin"):
        raise ValueProblem(f"sparse.mm(): reduce is sum, mean, amax or amin, not {reduce!r}")
    _check("mm", a, b, (2, 2))
    if not isinstance(a, SparseTensor) or isinstance(b, SparseTensor):
        raise refusal("_sparse_mm_reduce_impl", a)
    _check_plain(a)
    pattern, values = coalesced(a)
    rows, columns = aten.select(pattern.first, 0, 0), aten.select(pattern.first, 0, 1)
    products = aten.mul(aten.unsqueeze(values, 1), aten.index_select(b, 0, columns))
    places = aten.expand(aten.unsqueeze(rows, 1), products.dims)
    out = aten.new_zeros(products, (a.dims[0], b.dims[1]))
    return aten.scatter_reduce(out, 0, places, products, reduce, include_self=False)  # type: ignore[no-any-return]


def _times_sparse(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """[n, k] @ [k, m], both sparse: each value of a meets the values of one row of b."""
    _check_plain(a)
    _check_plain(b)
    (left, x), (right, y) = coo_of(a), coalesced(b)
    starts = compressed(aten.select(right.first, 0, 0), b.dims[0])
    counts = aten.sub(aten.slice(starts, 0, 1), aten.slice(starts, 0, 0, -1))
    inner = aten.select(left.first, 0, 1)
    of, nth = repeated(aten.index_select(counts, 0, inner))
    partner = aten.add(aten.index_select(aten.index_select(starts, 0, inner), 0, of), nth)
    indices = aten.stack((
        aten.index_select(aten.select(left.first, 0, 0), 0, of),
        aten.index_select(aten.select(right.first, 0, 1), 0, partner),
    ))
    values = aten.mul(aten.index_select(x, 0, of), aten.index_select(y, 0, partner))
    product = coalesced_parts(Pattern(formats.sparse_coo, (a.dims[0], b.dims[1]), indices, None, False), values)
    is_compressed = not a._body.pattern.is_coo and not b._body.pattern.is_coo
    return compressed_of(*product, a.layout) if is_compressed else make(*product)


@rule("mv")
def _mv(a: Tensor, b: Tensor) -> Tensor:
    _check("mv", a, b, (2, 1))
    if not isinstance(a, SparseTensor):
        raise refusal("mv", b)
    return aten.squeeze(mm(a, aten.unsqueeze(_dense(b, "mv"), 1)), 1)  # type: ignore[no-any-return]


def _dense(tensor: Tensor, what: str) -> Tensor:
    if isinstance(tensor, SparseTensor):
        raise refusal(what, tensor)
    return tensor


@rule("bmm")
def bmm(a: Tensor, b: Tensor) -> Tensor:
    """[b, n, k] sparse @ [b, k, m] dense."""
    _check("bmm", a, b, (3, 3))
    if a.shape[0] != b.shape[0]:
        raise ShapeError(f"bmm: batch sizes {a.shape[0]} and {b.shape[0]} differ")
    if not isinstance(a, SparseTensor):
        return aten.mT(bmm(_exchanged_last(b), aten.mT(a)))  # type: ignore[no-any-return]
    pattern, values = coo_of(a)
    if pattern.sparse_dim != 3:
        raise refusal("bmm", a)
    batch, row, column = (aten.select(pattern.first, 0, i) for i in range(3))
    count, rows, columns = a.dims
    flat = aten.reshape(_dense(b, "bmm"), (count * columns, b.dims[2]))
    chosen = aten.index_select(flat, 0, aten.add(aten.mul(batch, columns), column))
    out = summed(aten.mul(aten.unsqueeze(values, 1), chosen), aten.add(aten.mul(batch, rows), row), count * rows)
    return aten.reshape(out, (count, rows, b.dims[2]))  # type: ignore[no-any-return]


def _exchanged_last(tensor: Any) -> SparseTensor:
    pattern, values = coo_of(tensor)
    indices = aten.stack(tuple([aten.select(pattern.first, 0, i) for i in (0, 2, 1)]))
    count, rows, columns = pattern.dims
    return make(Pattern(formats.sparse_coo, (count, columns, rows), indices, None, False), values)


@rule("matmul", "linalg_matmul")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """The product by ranks: of matrices, of a matrix and a vector, of batches."""
    ranks = a.ndim, b.ndim
    if ranks == (2, 2):
        return mm(a, b)
    if ranks == (2, 1):
        return aten.mv(a, b)  # type: ignore[no-any-return]
    if ranks == (1, 2):
        return aten.squeeze(mm(aten.unsqueeze(a, 0), b), 0)  # type: ignore[no-any-return]
    if ranks == (3, 3):
        return bmm(a, b)
    if isinstance(b, SparseTensor) and b.ndim == 2 and not isinstance(a, SparseTensor) and a.ndim > 2:
        flat = mm(aten.reshape(a, (dm.product(a.dims[:-1]), a.dims[-1])), b)
        return aten.reshape(flat, (*a.dims[:-1], b.dims[1]))  # type: ignore[no-any-return]
    raise refusal("matmul", a if isinstance(a, SparseTensor) else b)


@rule("addmm")
def addmm(total: Tensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * total + alpha * (a @ b)."""
    product = mm(a, b)
    product = product if _is_one(alpha) else aten.mul(product, alpha)
    scaled = total if _is_one(beta) else aten.mul(total, beta)
    if scaled.dims != product.dims and not isinstance(scaled, SparseTensor):
        scaled = aten.expand(scaled, product.dims)
    return aten.add(scaled, product)  # type: ignore[no-any-return]


def _is_one(number: Any) -> bool:
    return type(number) in (int, float) and number == 1


@rule("addmv")
def _addmv(total: Tensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return aten.add(aten.mul(total, beta), aten.mv(a, b), alpha=alpha)  # type: ignore[no-any-return]


@rule("linear")
def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    out = matmul(input, aten.t(weight))
    return out if bias is None else aten.add(out, bias)


def sampled_addmm(total: Tensor, a: Tensor, b: Tensor, beta: Any = 1.0, alpha: Any = 1.0) -> SparseTensor:
    """beta * total + alpha * (a @ b) at the places of total, where alone it is computed. Raises Unsupported."""
    if not isinstance(total, SparseTensor):
        raise refusal("sampled_addmm", total)
    pattern, own = coo_of(total)
    rows, columns = aten.select(pattern.first, 0, 0), aten.select(pattern.first, 0, 1)
    chosen = aten.mul(aten.index_select(a, 0, rows), aten.index_select(aten.t(b), 0, columns))
    values = aten.add(aten.mul(own, beta), aten.mul(aten.sum(chosen, 1), alpha))
    return make(total._body.pattern, values)


