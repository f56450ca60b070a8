"""legalize_matmul: matrix products, convolutions and max pooling of dtypes that the native ones lack. Half precisions
are multiplied in float32, as eager multiplies them; matrices of integers by a sum of products, one loop nest."""

from __future__ import annotations

from weft.ir.builder import Builder
from weft.ir.graph import Node, Operand, Value
from weft.ops.packet import aten
from weft.ops.route import call
from weft.passes.rebuild import Rewrites, results_of
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
