"""Tables of addresses: what loops of a block go over, or stack, that is no memory of its own."""

from __future__ import annotations

from collections import Counter

from weft.ir.graph import Block, Value, values_in
from weft.ir.structure import LOOP, ROWS, TABLE


def tables_of(block: Block) -> dict[Value, tuple[Value, ...]]:
    """The rows of each value of a block that only loops go over, or that a loop stacks and that is read as rows only.
    """
    nodes = [node for node in block.nodes if node.op in (TABLE, ROWS)]
    if not nodes:
        return {}
    readers = Counter(v for node in block.nodes for v in node.reads()) + Counter(values_in(block.results))
    gone_over = Counter(v for node in block.nodes if node.op is LOOP for v in node.args[3])
    tables: dict[Value, tuple[Value, ...]] = {}
    for node in nodes:
        if node.op is TABLE and readers[node.output] == gone_over[node.output]:
            tables[node.output] = tuple(node.args[0])
        elif node.op is ROWS and readers[node.args[0]] == 1 and _is_stacked(node.args[0]):
            tables[node.args[0]] = node.outputs
    return tables


def _is_stacked(value: Value) -> bool:
    """Whether a loop stacks a value."""
    return value.node is not None and value.node.op is LOOP and value.index >= len(value.node.args[2])
