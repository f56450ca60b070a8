"""The calls of Python in a captured backward: what is known of each before it is made, and how it gets its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from weft.compiled_autograd.evaluate import Results
from weft.ir.backward_calls import ACCUMULATE_LEAF, CHECK_GRADIENT, POST_HOOK_CALL
from weft.ir.graph import Graph, Node, Operand, Value, values_in
from weft.support.written import Code
from weft.types.tensor_type import NONE, TENSOR

Values = dict[Value, Any]


class Turn(NamedTuple):
    """What is known of a call of Python before it is made.

    read: its operands. call: what gives its results; there: which of them there are, so the graph goes by.
    is_users: whether it may run code of the user's. step: its number in the walk. is_last: for a leaf, whether nobody
    reads its gradient afterwards; ends: what nobody reads behind it. gradient: what a leaf takes.
    """

    read: Callable[[Values], tuple[Any, ...]]
    call: Callable[..., Results]
    outputs: tuple[Value, ...]
    there: tuple[bool, ...]
    is_users: bool
    step: int
    next_step: int
    is_last: bool
    ends: tuple[Value, ...]
    gradient: Value | None


def turns_of(
    graph: Graph, calling: Callable[[Node], Callable[..., Results]], steps_of: Callable[[int], int]
) -> dict[Node, Turn]:
    """The turn of each call of Python. calling: what gives its results of its operands; steps_of: how many steps of the
    walk are done with so many nodes."""
    lasts, ends = _last_reads(graph)
    turns = {}
    for i, node in enumerate(graph.nodes):
        if node.op.effect == "python":
            gradient = node.args[1] if node.op is ACCUMULATE_LEAF else None
            turns[node] = Turn(
                reader(node.args), calling(node), node.outputs, tuple([v.type is not NONE for v in node.outputs]),
                runs_user_code(node) and node.op is not CHECK_GRADIENT, steps_of(i), steps_of(i + 1), node in lasts,
                tuple(ends.get(node, ())), gradient if type(gradient) is Value else None,
            )
    return turns


def runs_user_code(call: Node) -> bool:
    """Whether a call of Python is, or follows on, code of the user's: all but a leaf without hooks."""
    return call.op is not ACCUMULATE_LEAF or bool(call.arg("calls_hooks"))


def _last_reads(graph: Graph) -> tuple[set[Node], dict[Node, list[Value]]]:
    """The leaves' calls whose gradient nobody reads afterwards but hooks on the leaf's own node; and of calls of
    Python, which of the values they are given nobody reads afterwards."""
    last: dict[Value, Node] = {}
    for node in graph.nodes:
        if node.op is not POST_HOOK_CALL:
            last.update(dict.fromkeys(node.inputs(), node))
    behind = {  # what hooks on other nodes than leaves read again
        v for node in graph.nodes if node.op is POST_HOOK_CALL and node.args[1] for v in node.inputs()
    }
    behind.update(v for r in graph.results for v in values_in(r))
    leaves = {
        node for node in graph.nodes
        if node.op is ACCUMULATE_LEAF and isinstance(v := node.args[1], Value) and last[v] is node and v not in behind
    }
    read_later = {v for node in graph.nodes if node.op is POST_HOOK_CALL for v in node.inputs()} | behind
    ends: dict[Node, list[Value]] = {}
    for value, node in last.items():
        if node.op.effect == "python" and value.type is TENSOR and value not in read_later:
            ends.setdefault(node, []).append(value)
    return leaves, ends


def reader(operands: Sequence[Operand]) -> Callable[[Values], tuple[Any, ...]]:
    """What looks operands up in the values of a run."""
    code = Code("operands", "operands(v)")
    code.lines.append(f"return {_text(tuple(operands), code)}")
    return code.function()


def _text(operand: Operand, code: Code) -> str:
    """An operand in the lines of a function that has the values of a run as `v`."""
    if type(operand) is tuple and any(values_in(operand)):
        return f"({''.join([_text(part, code) + ', ' for part in operand])})"
    name = code.name(operand)
    return f"v[{name}]" if type(operand) is Value else name
