"""shapes: dtype, rank and sizes of every tensor of a program, for arguments of given types.

Branches are joined, loops are gone through until nothing changes: a carried value is known as far as it is the same in
every step. Each round can only lose knowledge, so that there are few. Containers that can be written to say nothing of
their elements, and where a node can give a tensor other sizes in place, sizes are not told at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from weft.ir.copies import Copy
from weft.ir.graph import Block, Graph, Node, Operand, Value, readers, values_in
from weft.ir.kinds import type_of_immediate
from weft.ir.structure import IF, LOOP
from weft.passes.scripted.entries import SET_ATTR
from weft.passes.scripted.result_types import Known, forgotten, result_types
from weft.types.tensor_type import (
    INT,
    DictType,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    optional,
    tensor_type,
    tuple_of,
    unify,
)

Poisons = Callable[[Node], bool]


def propagate_shapes(graph: Graph, types: Sequence[Type], poisons: Poisons = lambda node: False) -> Graph:
    """The graph, with the types that its values have for parameters of these types.

    poisons: whether a node may give tensors other sizes in place, besides those that the catalogue knows of.
    """
    kinds: Known = dict(zip(graph.params, types, strict=True))
    if any(poisons(n) or _changes_sizes(n) for n in graph.walk()):
        kinds = {p: _without_sizes(t) for p, t in kinds.items()}
        look = _Look(readers(graph), keeps_sizes=False)
    else:
        look = _Look(readers(graph), keeps_sizes=True)
    look.block(graph.block, kinds)
    return Graph(graph.name, _Annotated(kinds).block(graph.block), graph.env, graph.writes)


def _changes_sizes(node: Node) -> bool:
    """Whether a node writes views (`x.t_()`), or an attribute of a tensor (`x.data = y`)."""
    if node.op.writes is not None:
        return node.op.writes.view is not None
    return node.op is SET_ATTR and isinstance(_type_of(node.args[0]), TensorType)


def _type_of(operand: Operand) -> Type:
    return type_of_immediate(operand)


class _Look:
    """One look at the program's blocks."""

    def __init__(self, readers: dict[Value, list[Node | None]], keeps_sizes: bool) -> None:
        self.readers, self.keeps_sizes = readers, keeps_sizes
        self.numbers: dict[Value, int] = {}

    def block(self, block: Block, kinds: Known) -> None:
        """Learn the types of what a block computes."""
        for node in block.nodes:
            if node.op is IF:
                self._if(node, kinds)
            elif node.op is LOOP:
                self._loop(node, kinds)
            else:
                self._node(node, kinds)

    def _node(self, node: Node, kinds: Known) -> None:
        for value, kind in zip(node.outputs, self._results(node, kinds), strict=True):
            kinds[value] = self._kept(value, kind)
        number = self._number(node, kinds)
        for value in node.outputs:
            self.numbers.pop(value, None)
        if number is not None:
            self.numbers[node.output] = number

    def _results(self, node: Node, kinds: Known) -> tuple[Type, ...]:
        if node.op.writes is not None:  # the first argument, whose dtype and sizes stay
            return (_operand_type(node.args[0], kinds),) * len(node.outputs)
        return result_types(node, kinds, self.numbers)

    def _kept(self, value: Value, kind: Type) -> Type:
        """What may be said of a value: of a list that nobody writes to, also what is in it."""
        if isinstance(kind, (ListType, DictType)) and not self._is_only_read(value):
            return forgotten(kind)
        return kind if self.keeps_sizes else _without_sizes(kind)

    def _is_only_read(self, value: Value) -> bool:
        return all(n is not None and (not n.op.host or n.op.observes) for n in self.readers.get(value, ()))

    def _number(self, node: Node, kinds: Known) -> int | None:
        """The integer that a node results in, if it is known."""
        if not node.op.host or len(node.outputs) != 1 or node.output.type is not INT or node.op.kernel is None:
            return None
        args = [self._value(a, kinds) for a in node.args]
        if any(a is _NOTHING for a in args):
            return None
        try:
            number = node.op.kernel(*args)
        except Exception:  # the program will raise it
            return None
        return number if type(number) is int else None

    def _value(self, operand: Operand, kinds: Known) -> Any:
        """An operand as a kernel takes it: a number, or what tells a tensor's sizes."""
        if not isinstance(operand, Value):
            return _NOTHING if values_in(operand) else operand
        if operand in self.numbers:
            return self.numbers[operand]
        kind = kinds.get(operand, operand.type)
        if isinstance(kind, TensorType) and kind.is_complete:
            return SimpleNamespace(shape=kind.shape, ndim=kind.ndim, numel=lambda: kind.numel)
        return _NOTHING

    # ---- control flow
    def _if(self, node: Node, kinds: Known) -> None:
        for block in node.blocks:
            self.block(block, kinds)
        for i, value in enumerate(node.outputs):
            first, second = (_operand_type(b.results[i], kinds) for b in node.blocks)
            kinds[value] = self._kept(value, unify(first, second))

    def _loop(self, node: Node, kinds: Known) -> None:
        _, _, carried, xs, _ = node.args
        (block,) = node.blocks
        index, *params = block.params
        kinds[index] = index.type
        types = [_operand_type(c, kinds) for c in carried]
        while True:
            kinds.update(zip(params, [*types, *(_row(_operand_type(x, kinds)) for x in xs)], strict=True))
            self.block(block, kinds)
            after = [
                self._kept(p, unify(t, _operand_type(r, kinds)))
                for t, p, r in zip(types, params, block.results[1:], strict=False)
            ]
            if all(a is b for a, b in zip(types, after, strict=True)):
                break
            types = after
        stacked = [forgotten(v.type) for v in node.outputs[len(carried) :]]
        kinds.update(zip(node.outputs, [*types, *stacked], strict=True))


_NOTHING = object()


def _operand_type(operand: Operand, kinds: Known) -> Type:
    return kinds.get(operand, operand.type) if isinstance(operand, Value) else type_of_immediate(operand)


def _row(kind: Type) -> Type:
    if isinstance(kind, TensorType):
        return tensor_type(kind.dtype, None if kind.dims is None else kind.dims[1:], kind.device)
    return kind


def _without_sizes(kind: Type) -> Type:
    if isinstance(kind, TensorType):
        return tensor_type(kind.dtype, None, kind.device)
    if isinstance(kind, OptionalType):
        return optional(_without_sizes(kind.inner))
    if isinstance(kind, TupleType) and not kind.name:
        return tuple_of(*map(_without_sizes, kind.elements))
    return forgotten(kind)


# ---- the graph with its types
class _Annotated(Copy):
    """A copy with what is known as its types."""

    def __init__(self, kinds: Known) -> None:
        super().__init__()
        self.known = kinds

    def type_of(self, value: Value) -> Type:
        """What is known of a value."""
        return _better(value, self.known)


def _better(value: Value, kinds: Known) -> Type:
    """What is known of a value, never more vague than what its kind is."""
    kind = kinds.get(value, value.type)
    return kind if isinstance(kind, (TensorType, ListType, OptionalType, TupleType)) else value.type
