"""Branches and loops of a captured backward (they come with compiled forwards that are copied in), written into a graph
once the types of what they read are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.ir.builder import Builder, Handle
from weft.ir.graph import Block, Node, Operand, Value
from weft.ir.structure import IF
from weft.support.errors import CaptureError
from weft.types.dims import Dim
from weft.types.tensor_type import INT, TensorType, Type, tensor_type

Env = Mapping[Value, Any]
Evaluate = Callable[[Node, tuple[Any, ...]], Sequence[Any]]


class TypedBlocks:
    """Writes nodes with blocks into the graph of a builder; evaluate: what gives the results of any other node."""

    def __init__(self, evaluate: Evaluate) -> None:
        self.evaluate = evaluate
        self.lengths: dict[Value, Dim] = {}  # how many rows a loop of so many steps stacks

    def run(self, node: Node, values: Env, builder: Builder) -> Sequence[Any]:
        """The results of a node in an open builder. values: handles and numbers for values of the captured graph."""
        args = tuple([mapped(a, values) for a in node.args])
        if not node.blocks:
            return self.evaluate(node, args)
        return self._branch(node, args, values, builder) if node.op is IF else self._loop(node, args, values, builder)

    def _branch(self, node: Node, args: tuple[Any, ...], values: Env, builder: Builder) -> Sequence[Any]:
        true, false = (self._block(b, {}, values, builder) for b in node.blocks)
        types = tuple([_type(r) for r in true.results])
        _refuse_others(types, false.results, builder, "the branches of a backward give")
        return _emitted(node, (builder.operand(args[0]),), types, (true, false), builder)

    def _loop(self, node: Node, args: tuple[Any, ...], values: Env, builder: Builder) -> Sequence[Any]:
        trip, going, carried, xs, reverse = args
        given = tuple([builder.operand(c) for c in carried])
        slices = tuple([builder.operand(x) for x in xs])
        types = [_type(c) for c in given]
        kinds = [INT, *types, *(_row(x) for x in slices)]
        (block,) = node.blocks
        body = self._block(block, dict(zip(block.params, kinds, strict=True)), values, builder)
        count = 1 + len(given)
        _refuse_others(types, body.results[1:count], builder, "a step of a backward's loop gives")
        steps = builder.operand(trip)
        length = slices[0].tensor_type.shape[0] if slices else self._length(steps, builder)
        stacked = [tensor_type(k.dtype, (length, *k.shape)) for k in (r.tensor_type for r in body.results[count:])]
        operands = (steps, builder.operand(going), given, slices, reverse)
        return _emitted(node, operands, (*types, *stacked), (body,), builder)

    def _length(self, steps: Operand, builder: Builder) -> Dim:
        if not isinstance(steps, Value):
            return steps  # type: ignore[no-any-return]
        if steps not in self.lengths:
            self.lengths[steps] = builder.env.fresh("u")
        return self.lengths[steps]

    def _block(self, block: Block, params: Mapping[Value, Type], values: Env, builder: Builder) -> Block:
        """A block with its nodes' types. params: those of its parameters."""
        with builder.inner() as inner, inner.active():
            scope = {v: _seen_from(values[v], inner) for v in block.free_values()}
            scope.update((p, inner.handle(inner.param(kind, p.name))) for p, kind in params.items())
            for node in block.nodes:
                inner.where = node.where
                scope.update(zip(node.outputs, self.run(node, scope, inner), strict=True))
            return inner.block([inner.operand(mapped(r, scope)) for r in block.results])


def mapped(operand: Any, values: Env) -> Any:
    """An operand with what stands for its values."""
    if type(operand) is Value:
        return values[operand]
    return tuple([mapped(o, values) for o in operand]) if type(operand) is tuple else operand


def _seen_from(value: Any, inner: Builder) -> Any:
    """What stands for a value, as operators within a block take it: their nodes belong there."""
    return Handle(value.value, inner) if type(value) is Handle else value


def _emitted(
    node: Node, args: tuple[Operand, ...], types: tuple[Type, ...], blocks: tuple[Block, ...], builder: Builder
) -> Sequence[Any]:
    made = builder.emit_raw(node.op, args, types, blocks, node.where)
    return [builder.handle(v) for v in made.outputs]


def _type(operand: Operand) -> Type:
    assert isinstance(operand, Value), operand
    return operand.type


def _row(stacked: Value) -> TensorType:
    kind = stacked.tensor_type
    return tensor_type(kind.dtype, kind.shape[1:])


def _refuse_others(types: Sequence[Type], found: Sequence[Operand], builder: Builder, what: str) -> None:
    """Raises CaptureError unless the results have these types; that sizes are the same is guarded."""
    for kind, other in zip(types, map(_type, found), strict=True):
        if kind is other:
            continue
        if not isinstance(kind, TensorType) or not isinstance(other, TensorType) or not (
            kind.dtype is other.dtype and kind.ndim == other.ndim
            and all(builder.env.equal(a, b) for a, b in zip(kind.shape, other.shape, strict=True))
        ):
            raise CaptureError(f"{what} {other} where {kind} is expected")
