"""legalize_matmul: matrix products of dtypes that the native product lacks. Half precisions are multiplied in float32,
as eager multiplies them; integers by a sum of products, which is one loop nest."""

from __future__ import annotations

from weft.ir.builder import Builder
from weft.ir.graph import Node, Operand, Value
from weft.ops.packet import aten
from weft.ops.route import call
from weft.passes.rebuild import Rewrites, results_of
from weft.types import dtype as dt

NATIVE = frozenset((dt.float32, dt.float64))


def _lacks_dtype(node: Node) -> bool:
    a, b = node.args
    assert type(a) is Value and type(b) is Value
    dtype = a.tensor_type.dtype
    return not (dtype is None or dtype in NATIVE or dtype.is_complex or b.tensor_type.dtype is not dtype)


# leaves matrix products in float32 or float64 only (complex ones stay as they are)
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
