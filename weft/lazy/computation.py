"""The computation that tensors wait for: `weft.lazy.computation`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from weft.lazy.api import lazy_payload
from weft.lazy.graphs import Call, InputOf, NumberOf
from weft.lazy.programs import Plan
from weft.lazy.recorded import ResultOf
from weft.tensor.tensor import Tensor


def get_graph_hash(tensors: Sequence[Tensor]) -> str:
    """A text that is equal for computations of equal structure, whatever their sizes and numbers, but for those that
    name dims.
    """
    texts = []
    shown = [lazy_payload(t, "get_graph_hash").read() for t in tensors]
    values = [v for v in shown if v.cell is None]
    texts += [f"{i}: {v.dtype} {v.ndim}" for i, v in enumerate(shown) if v.cell is not None]  # it waits for nothing
    for trace in {id(v.trace): v.trace for v in values}.values():
        mine = [v for v in values if v.trace is trace]
        with trace.lock:
            for value in mine:
                trace.bring(value)
            plan = Plan(trace, mine)
            texts.append(_described(plan, plan.numbers_of_calls(trace)))
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def _described(plan: Plan, numbers: Sequence[Any]) -> str:
    lines = [f"{dtype} {rank}" for dtype, rank in plan.kinds]
    lines += [f"{call.op.name}({', '.join(_arguments(call, numbers))})" for call in plan.calls]
    return "\n".join([*lines, *[_argument(place, ()) for place in plan.wanted]])


def _arguments(call: Call, numbers: Sequence[Any]) -> list[str]:
    declared = call.op.schema.arguments
    return [_argument(a, numbers if "dim" in d.name else ()) for a, d in zip(call.args, declared, strict=True)]


def _argument(a: Any, numbers: Sequence[Any]) -> str:
    """An argument's text. numbers: those of the plan, where they are told too."""
    if type(a) is InputOf:
        return f"x{a.turn}"
    if type(a) is ResultOf:
        return f"%{a.call}.{a.index}"
    if type(a) is NumberOf:
        return repr(numbers[a.turn]) if numbers else a.kind.__name__
    return f"[{', '.join([_argument(v, numbers) for v in a])}]" if type(a) is tuple else repr(a)


__all__ = ["get_graph_hash"]
