"""Branches and loops of a captured backward (they come with compiled forwards that are copied in), written into a graph
once the types of what they read are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.ir.builder import Builder, Handle
from weft.ir.evaluate import Evaluator, Values
from weft.ir.graph import Block, Node, Operand, Value
from weft.support.errors import CaptureError
from weft.types.dims import Dim
from weft.types.tensor_type import INT, TensorType, Type


class TypedEvaluator(Evaluator):
    """Writes a part's nodes into a builder's graph, for handles and numbers that stand for what it reads. evaluate: the
    results of a node without blocks."""

    def __init__(self, builder: Builder, evaluate: Callable[[Node, tuple[Any, ...]], Sequence[Any]]) -> None:
        super().__init__()
        self.builder, self._evaluate = builder, evaluate
        self.lengths: dict[Value, Dim] = {}  # how many rows a loop of so many steps stacks

    def operand(self, operand: Operand, values: Mapping[Value, Any]) -> Any:
        """What an operand stands for; symbolic integers stay."""
        if type(operand) is tuple:
            return tuple([self.operand(part, values) for part in operand])
        return values[operand] if type(operand) is Value else operand

    def evaluate_node(self, node: Node, values: Values) -> None:
        """Write a node at its line."""
        self.builder.where = node.where
        super().evaluate_node(node, values)

    def operator(self, node: Node, args: tuple[Any, ...]) -> Sequence[Any]:
        """The results of a node without blocks."""
        return self._evaluate(node, args)

    def branch(self, node: Node, values: Values) -> Sequence[Any]:
        """Both branches are written."""
        true, false = (self._block(b, (), values) for b in node.blocks)
        types = tuple([_type(r) for r in true.results])
        _refuse_others(types, false.results, self.builder, "the branches of a backward give")
        return self._emit(node, (self.builder.operand(self.operand(node.args[0], values)),), types, (true, false))

    def loop(self, node: Node, values: Values) -> Sequence[Any]:
        """A step is written."""
        operands = tuple([self.builder.operand(self.operand(a, values)) for a in node.args])
        steps, _, carried, xs, _ = operands
        types = [_type(c) for c in carried]
        body = self._block(node.blocks[0], (INT, *types, *[x.tensor_type.row for x in xs]), values)
        count = 1 + len(types)
        _refuse_others(types, body.results[1:count], self.builder, "a step of a backward's loop gives")
        length = xs[0].tensor_type.shape[0] if xs else self._length(steps)
        stacked = [r.tensor_type.stacked(length) for r in body.results[count:]]
        return self._emit(node, operands, (*types, *stacked), (body,))

    def _length(self, steps: Operand) -> Dim:
        if not isinstance(steps, Value):
            return steps  # type: ignore[no-any-return]
        if steps not in self.lengths:
            self.lengths[steps] = self.builder.env.fresh("u")
        return self.lengths[steps]

    def _block(self, block: Block, params: tuple[Type, ...], values: Values) -> Block:
        """A block with its nodes' types. params: those of its parameters."""
        outer = self.builder
        with outer.inner() as inner, inner.active():
            around = {v: _seen_from(values[v], inner) for v in block.free_values()}
            handles = [inner.handle(inner.param(kind, p.name)) for p, kind in zip(block.params, params, strict=True)]
            self.builder = inner
            try:
                results = self.evaluate_block(block, handles, around)
            finally:
                self.builder = outer
            return inner.block([inner.operand(r) for r in results])

    def _emit(
        self, node: Node, args: tuple[Operand, ...], types: tuple[Type, ...], blocks: tuple[Block, ...]
    ) -> Sequence[Any]:
        emitted = self.builder.emit_raw(node.op, args, types, blocks, node.where)
        return [self.builder.handle(v) for v in emitted.outputs]


def _seen_from(value: Any, inner: Builder) -> Any:
    """What stands for a value, as operators within a block take it: their nodes belong there."""
    return Handle(value.value, inner) if type(value) is Handle else value


def _type(operand: Operand) -> Type:
    assert isinstance(operand, Value), operand
    return operand.type


def _refuse_others(types: Sequence[Type], results: Sequence[Operand], builder: Builder, what: str) -> None:
    """Raises CaptureError unless the results have these types; that sizes are the same is guarded."""
    for kind, other in zip(types, map(_type, results), strict=True):
        if kind is other:
            continue
        if not isinstance(kind, TensorType) or not isinstance(other, TensorType) or not (
            kind.dtype is other.dtype and kind.ndim == other.ndim
            and all(builder.env.equal(a, b) for a, b in zip(kind.shape, other.shape, strict=True))
        ):
            raise CaptureError(f"{what} {other} where {kind} is expected")
