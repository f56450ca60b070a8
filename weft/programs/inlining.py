"""The backward of a program as nodes that another graph takes in (weft.compiled_autograd): its calls opened, what
nobody asks for left out, and every symbol named, so that whoever copies it can put numbers in their place."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from weft.autograd.saved import SavedTensor
from weft.ir.graph import Block, Graph, Value, values_in
from weft.ir.opaque import CALL_FUNCTION
from weft.ir.printer import print_graph
from weft.passes.dce import dce
from weft.passes.effects import ORDERED, has_effect
from weft.passes.open_opaque import open_opaque
from weft.passes.unbacked import symbols_in, symbols_of
from weft.types.tensor_type import FLOAT, TensorType


class Body:
    """A graph to copy. Its parameters: what is taken from the forward, then `tangents` gradients of results.

    Two are equal if they compute the same in the same steps: text is their identity, and equal ones are one object.
    reads: which parameters of the graph that it was made from it has.
    """

    def __init__(self, graph: Graph, tangents: int, reads: tuple[int, ...], text: str) -> None:
        self.graph, self.tangents, self.reads, self.text = graph, tangents, reads, text
        self.symbols = tuple(sorted(set(_operand_symbols(graph.block)).union(
            s for p in graph.params[len(graph.params) - tangents :] for s in symbols_of(p.type)
        )))

    @property
    def taken(self) -> tuple[Value, ...]:
        """The parameters that are taken from the forward."""
        return self.graph.params[: len(self.graph.params) - self.tangents]

    @property
    def given(self) -> tuple[Value, ...]:
        """The parameters that are gradients of results."""
        return self.graph.params[len(self.graph.params) - self.tangents :]

    def __repr__(self) -> str:
        return f"<body of {len(self.graph.nodes)} nodes>"


class Whole(NamedTuple):
    """A gradient that is put together: `node.apply` makes it of its parts, which are results of a body by number, or
    wholes themselves."""

    node: Any
    parts: tuple[int | Whole, ...]


class Inlined(NamedTuple):
    """A run of a backward as nodes to copy: what they take of the forward (and where that was saved), the numbers that
    their symbols are, which gradients of results they take, and for which edges they give one, in order: a result of
    the body by number, or a whole of some."""

    body: Body
    taken: list[tuple[Any, SavedTensor | None]]
    numbers: list[int]
    tangents: tuple[int, ...]
    edges: dict[int, int | Whole]


_bodies: weakref.WeakValueDictionary[str, Body] = weakref.WeakValueDictionary()


def body_of(graph: Graph, tangents: int, results: Sequence[int]) -> Body | None:
    """Some of a backward graph's results as a body; None for what is not copied: calls of Python, and nodes that take
    sizes which are found on the way.

    tangents: how many of its last parameters are gradients of results; those that nothing reads are left out.
    """
    block = Block(graph.params, graph.nodes, tuple([graph.results[i] for i in results]))
    opened = dce(open_opaque(Graph(graph.name, block, graph.env)))
    if not _can_be_copied(opened):
        return None
    read = {v for node in opened.nodes for v in node.needs()} | {v for r in opened.results for v in values_in(r)}
    reads = tuple([i for i, p in enumerate(opened.params) if p in read])
    pruned = Graph(
        graph.name, Block(tuple([opened.params[i] for i in reads]), opened.nodes, opened.results), opened.env
    )
    count = sum(i >= len(graph.params) - tangents for i in reads)
    text = f"{count} {reads} {print_graph(pruned, locations=False, symbols=False)}"
    body = _bodies.get(text)
    if body is None:
        body = _bodies[text] = Body(pruned, count, reads, text)
    return body


def _can_be_copied(graph: Graph) -> bool:
    symbols = [*_operand_symbols(graph.block), *(s for p in graph.params for s in symbols_of(p.type))]
    return (
        not any(s[0] == "u" for s in symbols)
        and all(p.type is FLOAT or isinstance(p.type, TensorType) for p in graph.params)
        and all(isinstance(r, Value) for r in graph.results)
        and not any(
            has_effect(node, ORDERED) or node.op is CALL_FUNCTION
            or not all(isinstance(v.type, TensorType) for v in node.outputs)
            for node in graph.walk()
        )
    )


def _operand_symbols(block: Block) -> Iterator[str]:
    for node in block.nodes:
        yield from symbols_in(node.args)
        for inner in node.blocks:
            yield from _operand_symbols(inner)
    yield from symbols_in(block.results)
