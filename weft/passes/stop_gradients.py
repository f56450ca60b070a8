"""stop_gradients: no gradient flows through operands that had no history when their node was recorded, and that of
operands with the history of an earlier value flows into that value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.ir.builder import Builder
from weft.ir.copies import same_operands
from weft.ir.graph import Block, Graph, Node, Operand, Value
from weft.ir.opaque import STOP_GRADIENT, WITH_HISTORY
from weft.passes.rebuild import rebuild
from weft.types.tensor_type import FLOAT, TensorType

# for each argument of a node, or result of a block, whether it had no history, or the value that it has the
# history of; of a list, for each of its parts
Without = tuple[Any, ...]


def is_without_some(without: Without) -> bool:
    """Whether any operand had no history, or another one."""
    return any([any(w) if type(w) is tuple else w for w in without])


def stop_gradients(graph: Graph, without: Mapping[Node | Block, Without]) -> Graph:
    """The graph with a node of autograd::stop_gradient or with_history in front of each such operand that a gradient
    could reach."""
    flowing = _flowing(graph)

    def border(builder: Builder, of: Node | Block, operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        known = without.get(of)
        if known is None:
            return operands

        def stopped(was: Any, now: Any, lacks: Any) -> Any:
            if type(lacks) is tuple and type(was) is tuple:
                return tuple([
                    stopped(a, b, lacks[i]) if i < len(lacks) else b
                    for i, (a, b) in enumerate(zip(was, now, strict=True))
                ])
            if lacks is False or type(was) is not Value or type(now) is not Value or type(lacks) is tuple:
                return now
            if not isinstance(now.type, TensorType):
                return now
            if lacks is not True and lacks in flowing:
                return builder.emit(WITH_HISTORY, (now, builder.replaced.get(lacks, lacks))).output
            return builder.emit(STOP_GRADIENT, (now,)).output if was in flowing else now

        was = of.args if isinstance(of, Node) else of.results
        return tuple([stopped(*each) for each in zip(was, operands, known, strict=True)])

    def rewrite(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
        changed = border(builder, node, args)
        return None if same_operands(changed, args) else tuple(builder.emit_like(node, changed).outputs)

    def wants(node: Node) -> bool:
        return not node.blocks and node in without and is_without_some(without[node])

    return rebuild(graph, rewrite, wants, border)


def _flowing(graph: Graph) -> set[Value]:
    """The parameters that may have a history, and all that is computed of them."""
    found = {p for p in graph.params if p.type is FLOAT or _is_differentiable(p.type)}
    for node in graph.walk():
        if not found.isdisjoint(node.needs()):
            found.update(node.outputs)
            for block in node.blocks:
                found.update(block.params)
    return found


def _is_differentiable(kind: Any) -> bool:
    return isinstance(kind, TensorType) and (kind.dtype is None or kind.dtype.is_differentiable)
