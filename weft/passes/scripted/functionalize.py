"""functionalize: values in place of writes. What is written gets a new value, from which everything is read that shows
the same memory; a write to a view is a scatter into what it shows. Branches give, and loops carry, what their blocks
write.

A program that may see a write through a value of which that is not certain is refused, with the line.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.ir.builder import Builder
from weft.ir.graph import Block, Graph, Node, Operand, Value
from weft.ir.structure import IF, LOOP
from weft.ops.op import OPS, Op
from weft.ops.packet import aten
from weft.passes.scripted.aliases import Aliases
from weft.passes.scripted.entries import SET_GRAD, TENSOR_GETITEM, TENSOR_PUT, TENSOR_SETITEM
from weft.passes.scripted.grad_modes import unrecorded
from weft.passes.scripted.memory import writes_tensor
from weft.types.tensor_type import BOOL, TENSOR, TensorType

_SCATTERS: dict[Op, Op] = {}


def functionalize(graph: Graph) -> Graph:
    """The graph without writes to tensors; the same object where there are none.

    Raises StateError for a write to a parameter, or to what may be seen through another value.
    """
    if not any(writes_tensor(n) for n in graph.walk()):
        return graph
    aliases = Aliases(graph)
    aliases.refuse_what_is_shared()
    walk = _Walk(aliases)
    return Graph(graph.name, walk.block(graph.block, _State(), [])[0], graph.env, graph.writes)


@dataclass
class _State:
    """What stands for values of the old graph, and the value that each written tensor has now."""

    values: dict[Value, Operand] = field(default_factory=dict)
    current: dict[Value, Value] = field(default_factory=dict)
    shown: dict[Value, tuple[Value, Value]] = field(default_factory=dict)  # a view as it was read, with its tensor then

    def inner(self) -> _State:
        return _State(dict(self.values), dict(self.current), dict(self.shown))


class _Walk:
    def __init__(self, aliases: Aliases) -> None:
        self.aliases, self.unrecorded = aliases, unrecorded(aliases.graph)

    def block(self, block: Block, state: _State, extra: list[Value]) -> tuple[Block, _State]:
        """A block's copy, with the values of these written tensors behind its results."""
        builder = Builder()
        for node in block.nodes:
            builder.where = node.where
            self._node(builder, node, state)
        results = tuple(self._operand(builder, r, state) for r in block.results)
        left = tuple(self._read(builder, v, state) for v in extra)
        return Block(block.params, tuple(builder.nodes), (*results, *left)), state

    # ---- what a value is now
    def _operand(self, builder: Builder, operand: Operand, state: _State) -> Operand:
        if isinstance(operand, Value):
            return self._read(builder, operand, state)
        return tuple(self._operand(builder, o, state) for o in operand) if type(operand) is tuple else operand

    def _read(self, builder: Builder, value: Value, state: _State) -> Operand:
        root = self.aliases.root(value)
        now = state.current.get(root)
        if now is None:
            return state.values.get(value, value)
        if value is root:
            return now
        cached = state.shown.get(value)
        if cached is not None and cached[1] is now:
            return cached[0]
        view = self._shown(builder, value, state)
        state.shown[value] = (view, now)
        return view

    def _shown(self, builder: Builder, value: Value, state: _State) -> Value:
        """A view of what its source is now."""
        source = self._read(builder, self.aliases.parent[value], state)
        node = value.node
        if value in self.aliases.same or node is None:
            return source  # type: ignore[no-any-return]
        rest = tuple(self._operand(builder, a, state) for a in node.args[1:])
        return builder.emit_raw(node.op, (source, *rest), (value.type,)).output

    def _assign(self, builder: Builder, value: Value, new: Value, state: _State) -> None:
        """A tensor that is written, and what it is a view of."""
        parent, node = self.aliases.parent.get(value), value.node
        if parent is None:
            state.current[value] = new
            return
        if value not in self.aliases.same and node is not None:
            source = self._read(builder, parent, state)
            rest = tuple(self._operand(builder, a, state) for a in node.args[1:])
            if node.op is TENSOR_GETITEM:
                new = builder.emit_raw(TENSOR_PUT, (source, *rest, new), (TENSOR,)).output
            else:
                new = builder.emit_raw(_scatter_of(node.op), (source, new, *rest), (TENSOR,)).output
        self._assign(builder, parent, new, state)

    # ---- nodes
    def _node(self, builder: Builder, node: Node, state: _State) -> None:
        if writes_tensor(node):
            return self._write(builder, node, state)
        if node.op is IF:
            return self._if(builder, node, state)
        if node.op is LOOP:
            return self._loop(builder, node, state)
        args = tuple(self._operand(builder, a, state) for a in node.args)
        emitted = builder.emit_raw(node.op, args, tuple([v.type for v in node.outputs]))
        _stand_for(node, emitted, state)
        for old, new in zip(node.outputs, emitted.outputs, strict=True):
            now = state.current.get(self.aliases.root(old))
            if now is not None:
                state.shown[old] = (new, now)
        return None

    def _write(self, builder: Builder, node: Node, state: _State) -> None:
        target, *rest = node.args
        before = self._read(builder, target, state)
        args = tuple(self._operand(builder, a, state) for a in rest)
        if node.op is TENSOR_SETITEM:
            new = builder.emit_raw(TENSOR_PUT, (before, *args), (TENSOR,)).output
        else:
            assert node.op.writes is not None
            new = builder.emit_raw(node.op.writes, (before, *args), (TENSOR,)).output
            if any(isinstance(a, Value) and isinstance(a.type, TensorType) for a in args):
                new = builder.emit_raw(aten.type_as.overloads[0], (new, before), (TENSOR,)).output  # it keeps its dtype
        root = self.aliases.root(target)
        whole = self._read(builder, root, state)
        self._assign(builder, target, new, state)
        if node in self.unrecorded:
            state.current[root] = _with_history_of(builder, state.current[root], whole)

    def _if(self, builder: Builder, node: Node, state: _State) -> None:
        written = self.aliases.written_roots(node)
        condition = self._operand(builder, node.args[0], state)
        blocks = tuple(self.block(b, state.inner(), written)[0] for b in node.blocks)
        types = (*(v.type for v in node.outputs), *(TENSOR for _ in written))
        branch = builder.emit_raw(IF, (condition,), types, blocks)
        _stand_for(node, branch, state)
        state.current.update(zip(written, branch.outputs[len(node.outputs) :], strict=True))

    def _loop(self, builder: Builder, node: Node, state: _State) -> None:
        trip, condition, carried, xs, reverse = node.args
        (block,) = node.blocks
        written = self.aliases.written_roots(node)
        begin = tuple([self._operand(builder, c, state) for c in (*carried, *written)])
        args = (self._operand(builder, trip, state), self._operand(builder, condition, state), begin, xs, reverse)
        inner = state.inner()
        params = [Value(TENSOR, v.name) for v in written]
        inner.current.update(zip(written, params, strict=True))
        body, _ = self.block(block, inner, written)
        types = (*(v.type for v in node.outputs), *(TENSOR for _ in written))
        whole = Block((*block.params, *params), body.nodes, body.results)
        loop = builder.emit_raw(LOOP, args, types, (whole,))
        _stand_for(node, loop, state)
        state.current.update(zip(written, loop.outputs[len(node.outputs) :], strict=True))


def _stand_for(node: Node, emitted: Node, state: _State) -> None:
    for old, new in zip(node.outputs, emitted.outputs, strict=False):
        new.name = old.name
        state.values[old] = new


def _with_history_of(builder: Builder, value: Value, before: Operand) -> Value:
    """What a tensor is behind a write under `no_grad`: its history is what it was."""
    mode = builder.emit_raw(SET_GRAD, (True,), (BOOL,)).output
    output = builder.emit_raw(aten._with_history_of.overloads[0], (value, before), (TENSOR,)).output
    builder.emit_raw(SET_GRAD, (mode,), (BOOL,))
    return output


def _scatter_of(view: Op) -> Op:
    """The operator that puts values where a view shows them."""
    if not _SCATTERS:
        _SCATTERS.update({op.scatters: op for op in OPS.values() if op.scatters is not None})
    return _SCATTERS[view]
