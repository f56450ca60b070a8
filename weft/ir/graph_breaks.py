"""Graph breaks: where a graph calls Python. Its nodes are split into parts that end with such calls; what each part
reads, which of its values are read later, and what is dead after it is found from who reads each value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from weft.ir.graph import Graph, Node, Value, values_in
from weft.ir.python_calls import READ_AFTER

Uses = Mapping[Value, Sequence[int]]  # the numbers of the nodes that read a value, in order


class Call(NamedTuple):
    """A call of Python, by the number of its node; rereads: what reads memory again after it, for Python may have
    written there."""

    number: int
    node: Node
    rereads: list[Node]


@dataclass(eq=False)
class Part:
    """Pure nodes, then the calls of Python that end them.

    first, after: the numbers of its first node and of the one after its pure nodes; last: of the one after its calls.
    reads: what its pure nodes read of earlier values; outputs: those of its pure nodes' results that are read after
    them. dead: what nobody reads after the part, but did before or in it; results of the graph never die.
    """

    first: int = 0
    nodes: list[Node] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    after: int = 0
    last: int = 0
    reads: tuple[Value, ...] = ()
    outputs: tuple[Value, ...] = ()
    dead: list[Value] = field(default_factory=list)


def uses_of(graph: Graph) -> dict[Value, list[int]]:
    """For each value that is read, by whom. Results are read by number `len(graph.nodes)`."""
    uses: dict[Value, list[int]] = {}
    for i, node in enumerate(graph.nodes):
        for value in _values_read(node):
            uses.setdefault(value, []).append(i)
    for value in dict.fromkeys(v for r in graph.results for v in values_in(r)):
        uses.setdefault(value, []).append(len(graph.nodes))
    return uses


def _values_read(node: Node) -> Sequence[Value]:
    """What is read again in the memory of a parameter is no read of the value that was there before."""
    return () if node.op is READ_AFTER and node.args[2] >= 0 else node.needs()


def _always(call: Node) -> bool:
    return True


def parts_of(
    graph: Graph, uses: Uses, ends: Callable[[Node], bool] = _always, most_waiting: int | None = None, start: int = 0
) -> list[Part]:
    """The parts of a graph, in order.

    ends: whether a call ends the part that it is in. One that does not (it gives nothing to anybody, and runs no code
    of the user's) waits for the end, and at most `most_waiting` of them do. start: the number of a pure node that
    begins a part in any case.
    """
    parts = [Part()]
    is_over = False
    for i, node in enumerate(graph.nodes):
        part = parts[-1]
        if node.op.effect == "python":
            part.calls.append(Call(i, node, []))
            is_over = is_over or ends(node) or (most_waiting is not None and len(part.calls) >= most_waiting)
        elif node.op is READ_AFTER:
            part.calls[-1].rereads.append(node)
        else:
            if part.last and (is_over or i == start):
                parts.append(part := Part(i))
                is_over = False
            part.nodes.append(node)
            part.after = i + 1
        part.last = i + 1
    for part in parts:
        _find_reads(part, uses)
    _find_ends(graph, parts, uses)
    return parts


def _find_reads(part: Part, uses: Uses) -> None:
    own_values = [v for node in part.nodes for v in node.outputs]
    inner, called = set(own_values), {v for call in part.calls for v in call.node.needs()}
    part.reads = tuple(dict.fromkeys(v for node in part.nodes for v in node.needs() if v not in inner))
    part.outputs = tuple([v for v in own_values if v in called or is_read_from(v, part.last, uses)])


def _find_ends(graph: Graph, parts: Sequence[Part], uses: Uses) -> None:
    """What nobody reads at all is dead after the part that makes it; a parameter, after the last part."""
    owners = [part for part in parts for _ in range(part.first, part.last)]
    unread = len(owners) - 1
    for number, values in [(unread, graph.params), *[(i, node.outputs) for i, node in enumerate(graph.nodes)]]:
        for value in values:
            last = uses[value][-1] if value in uses else number
            if last < len(owners):
                (owners[last] if owners else parts[-1]).dead.append(value)


def is_read_from(value: Value, number: int, uses: Uses) -> bool:
    """Whether a node of this number or a later one reads a value, or it is a result."""
    return value in uses and uses[value][-1] >= number
