"""lower_tuples: elements in place of tuples, also where loops carry and branches yield them."""

from __future__ import annotations

from collections.abc import Sequence

from weft.ir.builder import Builder
from weft.ir.copies import Copy
from weft.ir.graph import Block, Graph, Node, Operand, Value
from weft.ir.structure import IF, LOOP
from weft.passes.dce import dce
from weft.passes.rebuild import rebuild
from weft.passes.scripted.entries import BLANK, TUPLE, TUPLE_INDEX, TUPLE_UNPACK
from weft.types.tensor_type import TupleType, Type


def lower_tuples(graph: Graph) -> Graph:
    """The graph with the elements of its own tuples in place of their uses. Tuples that come from outside or go there
    stay; what nobody reads then is left out.
    """
    before = graph
    while True:
        after = rebuild(graph, _lower, keep_order=True)
        if after is graph:
            return graph if graph is before else dce(graph)
        graph = after


def _lower(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    if node.op is TUPLE_UNPACK:
        return _elements(args[0])
    if node.op is TUPLE_INDEX:
        items = _elements(args[0])
        return None if items is None else (items[args[1]],)
    if node.op is IF:
        return _branches(builder, node)
    if node.op is LOOP:
        return _carried(builder, node)
    return None


def _elements(operand: Operand) -> tuple[Operand, ...] | None:
    """The elements of a tuple that was made in sight."""
    if isinstance(operand, Value) and operand.node is not None and operand.node.op is TUPLE:
        elements: tuple[Operand, ...] = operand.node.args[0]
        return elements
    return None


def _is_blank(operand: Operand) -> bool:
    """Whether it stands where no value will be read."""
    return isinstance(operand, Value) and operand.node is not None and operand.node.op is BLANK


def _flat(kinds: Sequence[Type], which: Sequence[int]) -> list[Type]:
    flat: list[Type] = []
    for i, kind in enumerate(kinds):
        flat += kind.elements if i in which and isinstance(kind, TupleType) else [kind]
    return flat


def _spread(operands: Sequence[Operand], which: Sequence[int], into: list[Node]) -> tuple[Operand, ...]:
    """Operands with the elements of tuples in place of those at `which`; what takes one apart is appended."""
    spread: list[Operand] = []
    for i, operand in enumerate(operands):
        if i not in which:
            spread.append(operand)
            continue
        items = _elements(operand)
        if items is None and _is_blank(operand):
            blanks = [Node(BLANK, (str(kind),), (kind,)) for kind in operand.type.elements]
            into += blanks
            items = tuple(b.output for b in blanks)
        if items is None:
            unpacked = Node(TUPLE_UNPACK, (operand,), operand.type.elements)
            into.append(unpacked)
            items = unpacked.outputs
        spread += items
    return tuple(spread)


def _gathered(values: Sequence[Value], kinds: Sequence[Type], which: Sequence[int], into: list[Node]) -> list[Operand]:
    """Tuples made anew of elements, in the place of those at `which`."""
    gathered: list[Operand] = []
    remaining = iter(values)
    for i, kind in enumerate(kinds):
        if i in which and isinstance(kind, TupleType):
            items = tuple(next(remaining) for _ in kind.elements)
            packed = Node(TUPLE, (items, str(kind) if kind.name else ""), (kind,))
            into.append(packed)
            gathered.append(packed.output)
        else:
            gathered.append(next(remaining))
    return gathered


def _branches(builder: Builder, node: Node) -> tuple[Operand, ...] | None:
    """Where either branch makes the tuple that it yields, both yield elements."""
    which = [
        i for i, v in enumerate(node.outputs)
        if isinstance(v.type, TupleType) and all(b.results[i] is not None for b in node.blocks)
        and any(_elements(b.results[i]) is not None or _is_blank(b.results[i]) for b in node.blocks)
    ]
    if not which:
        return None
    blocks: list[Block] = []
    for block in node.blocks:
        nodes = list(block.nodes)
        results = _spread(block.results, which, nodes)
        blocks.append(Block(block.params, tuple(nodes), results))
    kinds = [v.type for v in node.outputs]
    branch = builder.emit_raw(IF, node.args, tuple(_flat(kinds, which)), tuple(blocks))
    return tuple(_gathered(branch.outputs, kinds, which, builder.nodes))


def _carried(builder: Builder, node: Node) -> tuple[Operand, ...] | None:
    """A loop that carries tuples carries their elements."""
    trip, condition, carried, xs, reverse = node.args
    (block,) = node.blocks
    kinds = [v.type for v in node.outputs]
    which = [i for i in range(len(carried)) if isinstance(kinds[i], TupleType)]
    if not which or any(not isinstance(carried[i], Value) for i in which):
        return None
    index, *params = block.params
    inner = [Value(kind, "") for kind in _flat([p.type for p in params], which)]
    nodes: list[Node] = []
    gathered = _gathered(inner, [p.type for p in params], which, nodes)
    copy = Copy(dict(zip(params, gathered, strict=True)))
    nodes += map(copy.node, block.nodes)
    again, *left = map(copy.operand, block.results)
    results = (again, *_spread(left, which, nodes))
    first = _spread(carried, which, builder.nodes)
    body = Block((index, *inner), tuple(nodes), results)
    loop = builder.emit_raw(LOOP, (trip, condition, first, xs, reverse), tuple(_flat(kinds, which)), (body,))
    return tuple(_gathered(loop.outputs, kinds, which, builder.nodes))

