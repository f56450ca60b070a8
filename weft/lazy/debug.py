"""What waits, as text: `weft.lazy.debug`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.lazy.api import lazy_payload
from weft.lazy.calls import needed_for, values_in
from weft.lazy.metrics import traced_name
from weft.lazy.payload import LazyPayload
from weft.lazy.recorded import Opened
from weft.lazy.trace import Trace
from weft.lazy.values import Deferred, Node
from weft.support.errors import ArgumentError
from weft.support.locations import located
from weft.tensor.tensor import Tensor


def dump_ir(tensors: Sequence[Tensor], form: str = "text") -> str:
    """The calls that tensors wait for, each with the user's line. form: "text" (one call a line) or "dot" (Graphviz).
    Raises ArgumentError for another form.
    """
    if form not in ("text", "dot"):
        raise ArgumentError(f"dump_ir: form must be 'text' or 'dot', got {form!r}")
    payloads = [lazy_payload(t, "dump_ir") for t in tensors]
    values = [p.read() for p in payloads]
    lines: list[str] = []
    for trace in {id(v.trace): v.trace for v in values}.values():
        mine = [v for v in values if v.trace is trace]
        with trace.lock:
            for value in mine:
                trace.bring(value)
            lines += (_text if form == "text" else _dot)(trace, mine)
    return "\n".join(lines if form == "text" else ["digraph lazy {", *lines, "}"])


def _text(trace: Trace, wanted: list[Deferred]) -> list[str]:
    needed, wanted = _plain(trace, wanted)
    lines = [f"%{_input_name(trace, v)} = {v.type_}" for v in _inputs(trace, needed, wanted)]
    for node in needed:
        several = len(node.types) > 1
        names = ", ".join(f"%{node.position}" + (f".{i}" if several else "") for i in range(len(node.types)))
        args = ", ".join(_argument(trace, a) for a in node.args)
        where = located(node.where)
        lines.append(
            f"{names} = {node.op.schema.namespace}::{traced_name(node.op)}({args}) : "
            f"{', '.join(map(str, node.types))}" + ("" if where is None else f"  # {where}")
        )
    return [*lines, f"return {', '.join(_value(trace, v) for v in wanted)}"]


def _dot(trace: Trace, wanted: list[Deferred]) -> list[str]:
    needed, wanted = _plain(trace, wanted)
    lines = [f'  {_input_name(trace, v)} [shape=box, label="{v.type_}"];' for v in _inputs(trace, needed, wanted)]
    for node in needed:
        where = located(node.where)
        label = f"{node.op.schema.namespace}::{traced_name(node.op)}" + ("" if where is None else f"\\n{where}")
        lines.append(f'  n{node.position} [label="{label}"];')
        lines += [f"  {_name(trace, v)} -> n{node.position};" for v in values_in(node.args)]
    return [*lines, *(f"  {_name(trace, v)} -> out{i};" for i, v in enumerate(wanted))]


def _plain(trace: Trace, wanted: list[Deferred]) -> tuple[list[Node], list[Deferred]]:
    """The calls that values need, those of recorded rules among them, and what stands for the values."""
    plain = Opened(trace)
    wanted = [plain.value(v) for v in wanted]
    return [plain.nodes[i] for i in needed_for(plain.nodes, wanted)], wanted


def _inputs(trace: Trace, needed: list[Node], wanted: list[Deferred]) -> list[Deferred]:
    inputs = [v for node in needed for v in values_in(node.args) if v.node is None]
    inputs += [v for v in wanted if v.node is None]
    return list({id(v): v for v in inputs}.values())


def _input_name(trace: Trace, value: Deferred) -> str:
    return f"x{trace.turns.get(id(value), 0)}"


def _name(trace: Trace, value: Deferred) -> str:
    return _input_name(trace, value) if value.node is None else f"n{value.node.position}"


def _value(trace: Trace, value: Deferred) -> str:
    if value.node is None:
        return f"%{_input_name(trace, value)}"
    return f"%{value.node.position}" + (f".{value.index}" if len(value.node.types) > 1 else "")


def _argument(trace: Trace, a: Any) -> str:
    if type(a) is Deferred:
        return _value(trace, a)
    return f"[{', '.join(_argument(trace, v) for v in a)}]" if type(a) is tuple else str(a)


def queue_length(tensor: Tensor) -> int:
    """How many writes to parts of a tensor's storage wait: a later one to the same part takes an earlier one's place.
    """
    return lazy_payload(tensor, "queue_length").storage.queued


def is_functional(tensor: Any) -> bool:
    """Whether a tensor is a view of a storage whose writes give it another value, as every lazy tensor is."""
    return isinstance(tensor, Tensor) and isinstance(tensor._data, LazyPayload)


__all__ = ["dump_ir", "is_functional", "queue_length"]
