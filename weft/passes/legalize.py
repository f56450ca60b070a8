"""Operators, and operators of dtypes, that native code lacks, in terms of those that it has.

legalize_matmul: products, convolutions and max pooling. Half precisions are multiplied in float32, as eager multiplies
them; matrices of integers by a sum of products, one loop nest.
distinct: the distinct elements of a tensor are those of its sorted elements that differ from the one before. A sort, a
comparison and a selection are native code.
complex_parts: sums, scans and products of complex numbers are those of their parts, and views of complex numbers as
pairs are pointwise. All that is left of complex numbers are elements of two parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ir.builder import Builder
from weft.ir.graph import Node, Operand, Value
from weft.ops.packet import aten
from weft.ops.route import call
from weft.ops.rules import normalize_dim
from weft.passes.rebuild import Rewrites, results_of
from weft.types import dims as dm
from weft.types import dtype as dt

NATIVE = frozenset((dt.float32, dt.float64))


def _lacks_dtype(node: Node) -> bool:
    a, b = node.args[:2]
    assert type(a) is Value
    dtype = a.tensor_type.dtype
    is_mixed = type(b) is Value and b.tensor_type.dtype not in (dtype, dt.int64)  # (places of maxima are int64)
    return not (dtype is None or dtype in NATIVE or dtype.is_complex or is_mixed)


# leaves products in float32 or float64 only (complex ones, and convolutions of integers, stay as they are)
legalize_matmul = Rewrites(_lacks_dtype)


@legalize_matmul.of(aten.mm, aten.bmm)
def _product(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...]:
    left, right = builder.handle(args[0]), builder.handle(args[1])
    dtype = left.dtype
    if dtype.is_floating_point:
        wide = call(node.op, (aten._to_copy(left, dtype=dt.float32), aten._to_copy(right, dtype=dt.float32)))
        return results_of(builder, aten._to_copy(wide, dtype=dtype))
    terms = aten.unsqueeze(left, -1) * aten.unsqueeze(right, -3)
    return results_of(builder, aten._to_copy(aten.sum(terms, (-2,)), dtype=dtype))


@legalize_matmul.of(aten._convolve, aten._convolve_input, aten._convolve_weight)
def _convolution(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    left, right = builder.handle(args[0]), builder.handle(args[1])
    dtype = left.dtype
    if not dtype.is_floating_point:
        return None
    wide = call(node.op, (aten._to_copy(left, dtype=dt.float32), aten._to_copy(right, dtype=dt.float32), *args[2:]))
    return results_of(builder, aten._to_copy(wide, dtype=dtype))


@legalize_matmul.of(aten._max_pool)
def _maxima(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    source = builder.handle(args[0])
    if not source.dtype.is_floating_point:
        return None
    values, picked = call(node.op, (aten._to_copy(source, dtype=dt.float32), *args[1:]))
    return results_of(builder, (aten._to_copy(values, dtype=source.dtype), picked))


@legalize_matmul.of(aten._max_pool_input, aten._max_pool_picked)
def _at_maxima(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    grad = builder.handle(args[0])
    if not grad.dtype.is_floating_point:
        return None
    wide = call(node.op, (aten._to_copy(grad, dtype=dt.float32), builder.handle(args[1]), *args[2:]))
    return results_of(builder, aten._to_copy(wide, dtype=grad.dtype))


# ---- complex numbers
def _is_complex(operand: Operand) -> bool:
    if type(operand) is not Value or not hasattr(operand.type, "dtype"):
        return False
    dtype = operand.tensor_type.dtype
    return dtype is not None and dtype.is_complex


def _has_complex(node: Node) -> bool:
    return any(map(_is_complex, (*node.outputs, *node.inputs()))) or _shown_pair(node) is not None


def _shown_pair(node: Node) -> Value | None:
    """The complex numbers of whose pairs a view selects a part."""
    source = node.args[0]
    made_by = source.node if type(source) is Value else None
    return made_by.args[0] if made_by is not None and made_by.op is aten.view_as_real.default.op else None


complex_parts = Rewrites(_has_complex)


def _real(builder: Builder, x: Any) -> Any:
    """The real part of a handle: what the number was put together from, if it was."""
    part = _of_parts(builder, x, 0)
    return aten._real_part(x) if part is None else part


def _imaginary(builder: Builder, x: Any) -> Any:
    part = _of_parts(builder, x, 1)
    return aten._imaginary_part(x) if part is None else part


def _of_parts(builder: Builder, x: Any, part: int) -> Any:
    value = builder.operand(x)
    made_by = value.node if type(value) is Value else None
    is_joined = made_by is not None and made_by.op is aten.complex.default.op
    return builder.handle(made_by.args[part]) if is_joined else None  # type: ignore[union-attr]


@complex_parts.of(aten.select)
def _part(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    pair = _shown_pair(node)
    if pair is None or node.args[1] not in (-1, len(pair.tensor_type.shape)) or node.args[2] not in (0, 1, -1, -2):
        return None
    x = builder.handle(builder.replaced.get(pair, pair))
    return results_of(builder, _imaginary(builder, x) if node.args[2] % 2 else _real(builder, x))


@complex_parts.of(aten.view_as_real)
def _as_real(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...]:
    x = builder.handle(args[0])
    return results_of(builder, aten.stack((_real(builder, x), _imaginary(builder, x)), -1))


@complex_parts.of(aten.view_as_complex)
def _as_complex(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...]:
    return results_of(builder, aten.complex(*(_selected(builder, args[0], k) for k in (0, 1))))


def _selected(builder: Builder, pairs: Operand, part: int) -> Any:
    """A part of pairs, which need not be in memory where one part was written into them."""
    assert type(pairs) is Value
    scatter, last = pairs.node, len(pairs.tensor_type.shape) - 1
    if scatter is not None and scatter.op is aten.select_scatter.default.op and scatter.args[2] in (-1, last):
        base, source, _, index = scatter.args
        if index in (0, 1, -1, -2):
            return builder.handle(source) if index % 2 == part else _selected(builder, base, part)
    return aten.select(builder.handle(pairs), last, part)


@complex_parts.of(
    aten.sum, aten.cumsum, aten._cumsum_from_end, aten.index_add, aten.index_put, aten.embedding_dense_backward)
def _by_parts(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    """Operators that are linear, with real factors: of real parts and of imaginary ones."""
    if any(type(a) is complex for a in args) or (node.op in aten.index_put.overloads and not args[3]):
        return None
    dtype = node.outputs[0].tensor_type.dtype
    operands = [None if isinstance(a, dt.DType) else _handled(builder, a) for a in args]
    if not _is_complex(args[0]):
        operands[0] = aten._to_copy(operands[0], dtype=dtype)

    def of(part: Callable[[Builder, Any], Any]) -> Any:
        is_split = [i == 0 or _is_complex(a) for i, a in enumerate(args)]
        return call(node.op, tuple([part(builder, x) if s else x for x, s in zip(operands, is_split, strict=True)]))

    return results_of(builder, aten.complex(of(_real), of(_imaginary)))


def _handled(builder: Builder, operand: Operand) -> Any:
    if type(operand) is tuple:
        return tuple([_handled(builder, o) for o in operand])
    return builder.handle(operand) if type(operand) is Value else operand


@complex_parts.of(aten.mm, aten.bmm)
def _complex_product(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...]:
    operands = builder.handle(args[0]), builder.handle(args[1])
    parts = [(_real(builder, x), _imaginary(builder, x)) for x in operands]
    (a, b), (c, d) = [[aten._contiguous_copy(p) for p in pair] for pair in parts]
    real = call(node.op, (a, c)) - call(node.op, (b, d))
    return results_of(builder, aten.complex(real, call(node.op, (a, d)) + call(node.op, (b, c))))


# ---- Fourier transforms: native code halves real signals of even length, and transforms all others as complex ones
def _is_even(length: Any) -> bool:
    return type(length) is int and length % 2 == 0


@complex_parts.of(aten.fft_rfft)
def _real_spectrum(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    """The half of a complex spectrum, which is its own mirror image: the mean of both images has no imaginary part
    where a frequency is its own mirror, and no rounding of one."""
    x, n, dim, norm = builder.handle(args[0]), *args[1:]
    axis = normalize_dim("fft_rfft", dim, x.ndim)
    length, half = x.dims[axis] if n is None else n, node.outputs[0].tensor_type.shape[axis]
    if _is_even(length):
        return None
    whole = aten.fft_fft(aten._to_copy(x, dtype=node.outputs[0].tensor_type.dtype), n, axis, norm)
    backwards = aten.slice(aten.flip(aten.slice(whole, axis, 1, length), (axis,)), axis, 0, half - 1)
    mirrored = aten.conj_physical(aten.cat((aten.slice(whole, axis, 0, 1), backwards), axis))
    return results_of(builder, aten.mul(aten.add(aten.slice(whole, axis, 0, half), mirrored), 0.5))


@complex_parts.of(aten.fft_irfft)
def _real_signal(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    """What follows the half spectrum are its conjugates, from its end to element 1."""
    x, _, dim, norm = builder.handle(args[0]), *args[1:]
    axis, result = normalize_dim("fft_irfft", dim, x.ndim), node.outputs[0].tensor_type
    length = result.shape[axis]
    if _is_even(length):
        return None
    half = dm.floordiv(length, 2) + 1
    assert result.dtype is not None
    x = aten._to_copy(x, dtype=result.dtype.to_complex())
    if x.dims[axis] != half:
        x = aten.constant_pad_nd(x, [*[0, 0] * (x.ndim - 1 - axis), 0, half - x.dims[axis]])
    mirrored = aten.flip(aten.conj_physical(aten.slice(x, axis, 1, length - half + 1)), (axis,))
    whole = aten.fft_ifft(aten.cat((x, mirrored), axis), length, axis, norm)
    return results_of(builder, _real(builder, whole))


# ---- distinct elements
# leaves `unique` of complex numbers, which have no order, and along a dim
distinct = Rewrites()


@distinct.of(aten._unique2)
def _unique(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    x = builder.handle(args[0])
    if x.dtype is None or x.dtype.is_complex:
        return None
    elements = aten.reshape(x, (-1,))
    (count,) = elements.dims
    ordered, origins = aten.sort(elements, stable=True, dim=0)
    # (NaN differs from NaN: each is one of the distinct elements)
    differs = aten.ne(ordered, aten.roll(ordered, (1,), (0,)))
    begins = aten.logical_or(differs, aten.eq(aten.arange(count), 0))
    places = aten.select(aten.nonzero(begins), 1, 0)
    numbers = aten.cumsum(aten.to(begins, dt.int64), 0) - 1
    inverse = aten.scatter(aten.zeros((count,), dtype=dt.int64), 0, origins, numbers)
    counts = aten.diff(aten.cat([places, aten.full((1,), count, dtype=dt.int64)]))
    return results_of(builder, (aten.index_select(ordered, 0, places), aten.reshape(inverse, x.dims), counts))
