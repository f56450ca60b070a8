"""The computation that tensors wait for: `weft.lazy.computation`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from weft.lazy.api import lazy_payload
from weft.lazy.graphs import InputOf, NumberOf
from weft.lazy.programs import Plan
from weft.lazy.recorded import ResultOf
from weft.tensor.tensor import Tensor


def get_graph_hash(tensors: Sequence[Tensor]) -> str:
    """A text that is equal for computations of equal structure, whatever their sizes and numbers."""
    texts = []
    values = [lazy_payload(t, "get_graph_hash").read() for t in tensors]
    for trace in {id(v.trace): v.trace for v in values}.values():
        mine = [v for v in values if v.trace is trace]
        with trace.lock:
            for value in mine:
                trace.bring(value)
            texts.append(_described(Plan(trace, mine)))
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def _described(plan: Plan) -> str:
    lines = [f"{dtype} {rank}" for dtype, rank in plan.kinds]
    lines += [f"{call.op.name}({', '.join(map(_argument, call.args))})" for call in plan.calls]
    return "\n".join([*lines, *map(_argument, plan.wanted)])


def _argument(a: Any) -> str:
    if type(a) is InputOf:
        return f"x{a.turn}"
    if type(a) is ResultOf:
        return f"%{a.call}.{a.index}"
    if type(a) is NumberOf:
        return "number"
    return f"[{', '.join(map(_argument, a))}]" if type(a) is tuple else repr(a)


__all__ = ["get_graph_hash"]
