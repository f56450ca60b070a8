"""What may stand behind the end of a shorter example, so that it does not count, entry by entry. An entry without it
runs example by example where sizes differ."""

from __future__ import annotations

from typing import Any

from weft.ops.op import Op
from weft.ops.packet import Packet, aten

_OF_REDUCTIONS = {
    "sum": 0, "prod": 1, "max": "lowest", "min": "highest", "any": False, "all": True, "argmax": "lowest",
    "argmin": "highest",
}


def padded_with(fill: Any, *operators: Packet, by_rank: bool = False) -> None:
    """Enter the padding of entries that stand elsewhere."""
    for packet in operators:
        (op,) = packet.overloads
        object.__setattr__(op, "padding", fill)
        object.__setattr__(op, "by_rank", by_rank)


padded_with(0, aten.matmul, aten.mm, aten.mv, aten.dot, by_rank=True)
padded_with(
    0, aten.bmm, aten.linear, aten.embedding, aten.cumsum, aten.native_layer_norm, aten.layer_norm,
    aten.linalg_vector_norm,
)
padded_with("lowest", aten.softmax.int, aten.log_softmax.int, aten._softmax, aten._log_softmax, aten.logsumexp)
padded_with("lowest", aten.max.dim, aten.max.default, aten.cummax)
padded_with("highest", aten.min.dim, aten.min.default, aten.cummin)
padded_with(1, aten.cumprod)
padded_with(lambda self, k, dim, largest, is_sorted: "lowest" if largest else "highest", aten.topk)


def padding_of(op: Op, args: tuple[Any, ...]) -> Any:
    """What may stand behind the ends of these operands; None where nothing may."""
    if callable(op.padding):
        return op.padding(*args)
    if op.padding is not None or op.reduce is None:
        return op.padding
    is_place = op.reduce.combine.startswith("arg") and args[op.schema.index("dim")] is None
    return None if is_place else _OF_REDUCTIONS[op.reduce.combine]  # (a place among all elements hangs on the sizes)
