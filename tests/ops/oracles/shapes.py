"""Views, their copies and scatters, and what copies elements to other places."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.oracles.table import given, given_floats
from weft.catalogue.samples import Drawn, F, I, case
from weft.types import dtype as dt

Array = Any


def C(*dims: int) -> Drawn:
    """Complex numbers."""
    return Drawn("complex", dims)


def written(x: Array, index: Any, src: Array) -> Array:
    """A copy of x that shows src where `index` points."""
    out = np.array(x)
    out[index] = src
    return out


def along(dim: int, index: Any, ndim: int) -> tuple[Any, ...]:
    """x[along(dim, i, x.ndim)] is what i picks along dim."""
    return (slice(None),) * (dim % ndim) + (index,)


def strided(x: Array, size: Any, stride: Any, offset: int | None) -> Array:
    """The places in x's flattened elements that a view of sizes, strides and offset shows."""
    if not x.flags.c_contiguous or (x.base is not None and x.base.size != x.size):
        raise ValueError("as_strided speaks of the storage, of which an array does not know all")
    places = np.full(tuple(size), offset or 0)
    for axis, (n, s) in enumerate(zip(size, stride, strict=True)):
        places += np.arange(n).reshape((-1,) + (1,) * (len(size) - 1 - axis)) * s
    return places


def strided_backward(grad: Array, input_sizes: Any, size: Any, stride: Any, offset: int | None) -> Array:
    out = np.zeros(int(np.prod(input_sizes)), grad.dtype)
    np.add.at(out, strided(out, size, stride, offset).reshape(-1), grad.reshape(-1))
    return out.reshape(input_sizes)


given("as_strided as_strided_copy", lambda x, *where: x.reshape(-1)[strided(x, *where)], of_bits=True)
given("as_strided_backward", strided_backward)
given(
    "as_strided_scatter", lambda x, src, *where: written(x.reshape(-1), strided(x, *where), src).reshape(x.shape),
    of_bits=True,
)


# ---- the whole shape
given("alias alias_copy detach_copy", lambda x: x)
given("alias_scatter", lambda x, src: src)
given("adjoint mH", lambda x: np.conj(np.swapaxes(x, -2, -1)))
given("mT", lambda x: np.swapaxes(x, -2, -1))
given("matrix_H", lambda x: np.conj(x.T))
given("numpy_T", lambda x: x.T)
given("ravel", lambda x: x.reshape(-1))
given("reshape_as view_as", lambda x, other: x.reshape(other.shape), case(F(3, 4), F(2, 6)), case(F(6), F(3, 2)))
given("_unsafe_view", lambda x, size: x.reshape(size))
given(
    "unflatten.int", lambda x, dim, sizes: x.reshape(x.shape[:dim % x.ndim] + tuple(sizes) + x.shape[dim % x.ndim + 1:])
)
given(
    "broadcast_to",
    lambda x, size: np.broadcast_to(
        x, tuple(n if d < 0 else d for d, n in zip(size, (1,) * (len(size) - x.ndim) + x.shape, strict=True))
    ),
    case(F(3), (2, 3)), case(F(2, 1), (4, 2, 3)), case(F(1, 3), (2, -1)),
)
given("expand_as", lambda x, other: np.broadcast_to(x, other.shape), case(F(3), F(2, 3)), case(F(2, 1), F(4, 2, 3)))
given("sum_to_size", lambda x, size: x.sum(tuple(range(x.ndim - len(size)))).sum(
    tuple(i for i, n in enumerate(size) if n == 1 != x.shape[i + x.ndim - len(size)]), keepdims=True))
given("moveaxis.int movedim.int", np.moveaxis, case(F(2, 3, 4), 0, -1), case(F(3, 4), -1, 0))
given("moveaxis.intlist movedim.intlist", np.moveaxis, case(F(2, 3, 4), (0, 1), (2, 0)), case(F(3, 4), (1,), (0,)))
given("swapaxes swapdims", np.swapaxes, case(F(2, 3, 4), 0, -1), case(F(3, 4), 1, 1))
given(
    "view_scatter reshape_scatter squeeze_scatter squeeze_scatter.dim squeeze_scatter.dims unsqueeze_scatter",
    lambda x, src, *_: src.reshape(x.shape),
)
given("expand_scatter", lambda x, src, *_: src.reshape(x.shape), case(F(3), F(1, 3), (1, 3)))
given("permute_scatter", lambda x, src, dims: np.transpose(src, np.argsort([d % len(dims) for d in dims])))
given("t_scatter", lambda x, src: src.T)
given("transpose_scatter", lambda x, src, a, b: np.swapaxes(src, a, b))


# ---- parts
def diagonal_scatter(x: Array, src: Array, offset: int, dim1: int, dim2: int) -> Array:
    out = np.array(x)
    moved, i = np.moveaxis(out, (dim1, dim2), (-2, -1)), np.arange(src.shape[-1])
    moved[..., i + max(-offset, 0), i + max(offset, 0)] = src
    return out


def diag_embed(x: Array, offset: int, dim1: int, dim2: int) -> Array:
    n, i = x.shape[-1] + abs(offset), np.arange(x.shape[-1])
    out = np.zeros((*x.shape[:-1], n, n), x.dtype)
    out[..., i + max(-offset, 0), i + max(offset, 0)] = x
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def pieces(x: Array, sizes: Any, dim: int) -> tuple[Array, ...]:
    return tuple(np.split(x, np.cumsum(sizes)[:-1], dim))


def sizes_of(total: int, size: int) -> list[int]:
    """Pieces of one size, the last one what is left."""
    return [min(size, total - start) for start in range(0, total, size)] or [0]


def split_scatter(x: Array, src: Array, output: int, sizes: Any, dim: int) -> Array:
    starts = np.cumsum([0, *sizes])
    return written(x, along(dim, slice(starts[output], starts[output + 1]), x.ndim), src)


def unfold_scatter(x: Array, src: Array, dim: int, size: int, step: int) -> Array:
    out, dim = np.array(x), dim % x.ndim
    for i in range(src.shape[dim]):
        np.moveaxis(out, dim, -1)[..., i * step:i * step + size] = src.take(i, dim)
    return out


def unfold_backward(grad: Array, input_sizes: Any, dim: int, size: int, step: int) -> Array:
    out = np.zeros(tuple(input_sizes), grad.dtype)
    for i in range(grad.shape[dim % out.ndim]):
        np.moveaxis(out, dim, -1)[..., i * step:i * step + size] += grad.take(i, dim % out.ndim)
    return out


given("linalg_diagonal", lambda x, offset, dim1, dim2: np.diagonal(x, offset, dim1, dim2))
given("diagonal_scatter", diagonal_scatter)
given("diag_embed", diag_embed)
given("diagflat", np.diagflat)
given(
    "narrow narrow_copy",
    lambda x, dim, start, length: x[along(dim, slice(start, None), x.ndim)].take(range(length), dim),
)
given(
    "narrow.Tensor", lambda x, dim, start, length: x.take(range(int(start), int(start) + length), dim),
    case(F(5, 3), 0, I(high=3), 2), case(F(3, 4), -1, I(high=2), 3),
)
given("slice.Tensor slice_copy.Tensor", lambda x, dim, start, end, step: x[along(dim, slice(start, end, step), x.ndim)])
given(
    "slice_scatter", lambda x, src, dim, start, end, step: written(x, along(dim, slice(start, end, step), x.ndim), src)
)
given("select_scatter", lambda x, src, dim, index: written(x, along(dim, index, x.ndim), src))
given("unbind_scatter", lambda x, src, output, dim: written(x, along(dim, output, x.ndim), src))
given(
    "chunk unsafe_chunk",
    lambda x, chunks, dim: pieces(x, sizes_of(x.shape[dim], max(-(-x.shape[dim] // chunks), 1)), dim),
)
given(
    "split.sizes split_copy.sizes split_with_sizes split_with_sizes_copy unsafe_split_with_sizes", pieces,
    case(F(5, 3), (2, 3)), case(F(3, 4), (1, 0, 3), -1),
)
given(
    "split_scatter", lambda x, src, output, size, dim: split_scatter(x, src, output, sizes_of(x.shape[dim], size), dim)
)
given(
    "split_scatter.sizes split_with_sizes_scatter", split_scatter, case(F(5, 3), F(3, 3), 1, (2, 3)),
    case(F(3, 4), F(3, 1), 0, (1, 3), -1),
)
given("unfold_scatter", unfold_scatter, case(F(7), F(3, 2), 0, 2, 2), case(F(2, 5), F(2, 2, 2), -1, 2, 3))
given("unfold_backward", unfold_backward)
given(
    "tensor_split.sections", lambda x, n, dim: tuple(np.array_split(x, n, dim)), case(F(5, 3), 2), case(F(3, 4), 3, 1)
)
given(
    "tensor_split.indices", lambda x, at, dim: tuple(np.array_split(x, list(at), dim)), case(F(5, 3), (1, 3)),
    case(F(3, 4), (2,), -1),
)
given(
    "tensor_split.tensor_indices_or_sections", lambda x, at, dim: tuple(np.array_split(x, at.tolist(), dim)),
    lambda rng: [
        ((rng.uniform(-2, 2, (5, 3)), np.array([1, 3])), {}), ((rng.uniform(-2, 2, (3, 4)), np.array(3), 1), {})
    ],
)
for _name, _split, _shape in (
    (("hsplit", np.hsplit, (2, 6, 2)), ("vsplit", np.vsplit, (6, 2)), ("dsplit", np.dsplit, (2, 1, 6)))
):
    given(f"{_name}.int", lambda x, n, split=_split: tuple(split(x, n)), case(F(*_shape), 3))
    given(f"{_name}.array", lambda x, at, split=_split: tuple(split(x, list(at))), case(F(*_shape), (1, 4)))


# ---- element types and bits
for _name, _as in (
    ("bfloat16", dt.bfloat16), ("half", dt.float16), ("float", dt.float32), ("double", dt.float64),
    ("cfloat", dt.complex64), ("cdouble", dt.complex128), ("char", dt.int8), ("short", dt.int16), ("int", dt.int32),
    ("long", dt.int64), ("byte", dt.uint8), ("bool", dt.bool_),
):
    given(_name, lambda x, to=_as: as_dtype(x, to))


def as_dtype(x: Array, to: dt.DType) -> Array:
    if to is dt.bool_:
        return x != 0
    x = x if to.is_complex else x.real
    return (x.astype(np.int64) if to.category == dt.INT else x).astype(to.numpy)


given(
    "to.dtype", lambda x, to, *_: as_dtype(x, to), case(F(3, 4), dt.float32), case(F(3), dt.int32),
    case(F(3, 4), dt.float64, copy=True),
)
given("to.other", lambda x, other, *_: x.astype(other.dtype), case(F(3, 4), I(1, high=2)), case(F(3), F(2)))
given("type_as", lambda x, other: x.astype(other.dtype), case(F(3, 4), I(1, high=2)), case(F(3), F(2)))
given("real", lambda x: x.real, case(C(3, 4)), case(F(3)))
given("imag", lambda x: x.imag, case(C(3, 4)), case(C(1)))
given("view_as_real view_as_real_copy", lambda x: np.stack([x.real, x.imag], -1), case(C(3, 4)), case(C(1)))
given("view_as_complex view_as_complex_copy", lambda x: x[..., 0] + 1j * x[..., 1], case(F(3, 2)), case(F(2)))
given_floats("view_as_real_scatter", lambda x, src: src[..., 0] + 1j * src[..., 1], case(C(3), F(3, 2)))
given("view_as_complex_scatter", lambda x, src: np.stack([src.real, src.imag], -1), case(F(3, 2), C(3)))
given("view.dtype", lambda x, to: x.view(to.numpy), case(F(3, 4), dt.int64), case(F(3, 4), dt.int32), of_bits=True)
given(
    "view_bits view_bits_copy", lambda x, to, size: x.view(to.numpy), case(I(3, 4, high=99), dt.float64, 8),
    case(I(3, 4, high=99), dt.int32, 8), of_bits=True,
)
given(
    "view_bits_scatter", lambda x, src, to, size: src.view(x.dtype),
    lambda rng: [((rng.integers(0, 99, (3, 4)), rng.integers(0, 99, (3, 8)).astype(np.int32), dt.int32, 8), {})],
    of_bits=True,
)


# ---- joined and rearranged
given("atleast_1d", np.atleast_1d)
given("atleast_2d", np.atleast_2d)
given("atleast_3d", np.atleast_3d)
for _name, _function in (("atleast_1d", np.atleast_1d), ("atleast_2d", np.atleast_2d), ("atleast_3d", np.atleast_3d)):
    given(f"{_name}.Sequence", lambda xs, f=_function: tuple(f(x) for x in xs), case((F(), F(3), F(2, 3))))
given("concat concatenate", np.concatenate, case((F(2, 3), F(1, 3))), case((F(2, 3), F(2, 2)), -1))
given("hstack", np.hstack, case((F(2, 3), F(2, 1))), case((F(2), F(3))))
given("vstack row_stack", np.vstack, case((F(2, 3), F(1, 3))), case((F(3), F(3))))
given("dstack", np.dstack, case((F(2, 3), F(2, 3))), case((F(3), F(3))), case((F(2, 3, 1), F(2, 3, 2))))
given("column_stack", np.column_stack, case((F(3), F(3, 2))), case((F(3), F(3))))
given("block_diag.one", np.atleast_2d)
given("fliplr", np.fliplr)
given("flipud", np.flipud)
given("tile", np.tile, case(F(2, 3), (2,)), case(F(2, 3), (2, 1, 3)), case(F(3), (0,)))
given("_shift", lambda x, dim, by: np.moveaxis(np.array([
    np.moveaxis(x, dim, 0)[i - by] if 0 <= i - by < x.shape[dim] else np.zeros_like(
        np.moveaxis(x, dim, 0)[0]
    ) for i in range(x.shape[dim])]),
    0, dim),
      case(F(3, 4), 0, 1), case(F(3, 4), -1, -2), case(F(3), 0, 4))
given("pixel_shuffle", lambda x, r: x.reshape(*x.shape[:-3], -1, r, r, *x.shape[-2:]).transpose(
    *range(x.ndim - 3), *(x.ndim - 3 + k for k in (0, 3, 1, 4, 2))).reshape(*x.shape[:-3], x.shape[-3] // r**2,
    x.shape[-2] * r, x.shape[-1] * r),
      case(F(8, 2, 3), 2), case(F(2, 4, 1, 2), 2))
given("pixel_unshuffle", lambda x, r: x.reshape(*x.shape[:-2], x.shape[-2] // r, r, x.shape[-1] // r, r).transpose(
    *range(x.ndim - 3), *(x.ndim - 3 + k for k in (0, 2, 4, 1, 3))).reshape(*x.shape[:-3], x.shape[-3] * r**2,
    x.shape[-2] // r, x.shape[-1] // r),
      case(F(2, 4, 6), 2), case(F(2, 1, 2, 2), 2))


def padded(x: Array, pad: Any, mode: str = "constant", value: float | None = None) -> Array:
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + [(pad[2 * i], pad[2 * i + 1]) for i in reversed(range(len(pad) // 2))]
    x = x[tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(pairs, x.shape, strict=True))]
    widths = [(max(a, 0), max(b, 0)) for a, b in pairs]
    if mode == "constant":
        return np.pad(x, widths, constant_values=value or 0)
    return np.pad(x, widths, mode={"replicate": "edge", "circular": "wrap"}.get(mode, mode))


given("constant_pad_nd", lambda x, pad, value: padded(x, pad, "constant", value))
given(
    "pad nn::pad", padded, case(F(2, 3), (1, 2)), case(F(2, 3, 4), (1, 0, -1, 2), "constant", 0.5),
    case(F(2, 3, 4), (2, 1), "reflect"), case(F(2, 3, 4, 5), (1, 2, 0, 1), "replicate"),
    case(F(2, 3, 4), (1, 3), "circular"), case(F(1, 3, 4), (1, 2), "replicate"),
)
