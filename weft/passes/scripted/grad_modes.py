"""Where a program records history: what is computed under `no_grad` has no derivative."""

from __future__ import annotations

from weft.ir.graph import Block, Graph, Node, Operand, Value
from weft.passes.scripted.entries import SET_GRAD
from weft.support.errors import StateError


def unrecorded(graph: Graph) -> set[Node]:
    """The nodes, in blocks too, that run while no history is recorded. Raises StateError where that hangs on a value
    that is only known when the program runs.
    """
    modes = _Modes()
    modes.block(graph.block, True)
    return modes.unrecorded


class _Modes:
    def __init__(self) -> None:
        self.unrecorded: set[Node] = set()
        self.before: dict[Value, bool] = {}  # what was so before a node set it

    def block(self, block: Block, recorded: bool) -> None:
        """The nodes of a block that begins, and ends, in a mode."""
        mode = recorded
        for node in block.nodes:
            if node.op is SET_GRAD:
                self.before[node.output], mode = mode, self._asked(node, node.args[0])
            for inner in node.blocks:
                self.block(inner, mode)
            if not mode:
                self.unrecorded.add(node)
        if block.nodes and mode != recorded:
            raise _unknown(block.nodes[-1])

    def _asked(self, node: Node, operand: Operand) -> bool:
        enabled = self.before.get(operand) if isinstance(operand, Value) else operand
        if not isinstance(enabled, bool):
            raise _unknown(node)
        return enabled


def _unknown(node: Node) -> StateError:
    line = "" if node.where is None else f" (line {node.where.line})"
    return StateError(f"whether history is recorded is only known when the program runs{line}")
