"""decompose: open every operator that is given in terms of others, until only those remain that a back end computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from weft.ir.builder import Builder
from weft.ir.graph import Graph, Node, Operand
from weft.ops.op import Op
from weft.passes.openings import Openings
from weft.passes.rebuild import results_of, rewrite_operators


def decompose(graph: Graph, keep: Callable[[Op], bool] = lambda op: False) -> Graph:
    """The graph with decompositions opened (operators to `keep` stay whole)."""

    def is_opened(op: Op) -> bool:
        return op.decompose is not None and not keep(op)

    def builder() -> Builder:
        return _Opener(graph.name, graph.env, opens=is_opened)

    return rewrite_operators(graph, Openings(_open, builder), is_opened, builder())


def decompose_parts(graph: Graph) -> Graph:
    """The same, but for what one native kernel computes whole."""
    return decompose(graph, keep=lambda op: op.is_whole)


def _open(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...]:
    assert node.op.decompose is not None
    return results_of(builder, node.op.decompose(*(builder.handle(a) for a in args)))


class _Opener(Builder):
    """A builder that opens what decompositions call, at once: what they give would be opened next."""

    def __init__(self, *builder: Any, opens: Callable[[Op], bool]) -> None:
        super().__init__(*builder)
        self.opens = opens

    def call(self, op: Op, args: tuple[Any, ...]) -> Any:
        """What an operator is made of, as handles; of one that is not opened, its node's results."""
        if not self.opens(op):
            return super().call(op, args)
        assert op.decompose is not None
        return self.handle(self.operand(op.decompose(*args)))

    @contextmanager
    def inner(self) -> Iterator[Builder]:
        """A builder for a nested block, which opens the same."""
        yield _Opener(self.name, self.env, self, opens=self.opens)
