"""differentiate: a graph that also gives gradients of its results. The formulas are the entries' own (ops/backward.py), run on graph values.

The graph is emitted again (`_Tape.run`), then walked backwards (`_Tape.reverse`). A block is differentiated like a graph: the backward of prim::If is a
prim::If over the reversed branches, that of prim::Loop a prim::Loop in the opposite direction over what the forward one stacked. Inside of a block the
forward is computed again, so that nothing but loop state needs to be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.ir.builder import Builder, Handle
from weft.ir.graph import Block, Graph, Node, Operand, Value, map_operand, values_in
from weft.ir.opaque import VALIDATE
from weft.ir.structure import IF, LOOP
from weft.ops.backward import ARG, DIMS, RESULT, Plan, Source, apply_functional, plan_of
from weft.ops.packet import aten
from weft.passes.decompose import decompose
from weft.passes.open_opaque import open_opaque
from weft.support.errors import StateError, Unsupported
from weft.types import dtype as dt
from weft.types.dims import Dim
from weft.types.tensor_type import INT, TensorType, Type, tensor_type

Env = dict[Value, Operand]


def differentiate(graph: Graph, of: Sequence[int] = (0,), wrt: Sequence[int] | None = None) -> Graph:
    """The graph with gradients behind its results: of the sum of all elements of the results `of`, for each parameter in `wrt`.

    wrt: positions of parameters; default every tensor of floating point or complex dtype. A gradient has the type of its parameter, zeros where the
    results do not depend on it. Raises StateError for a result that has no derivative.
    """
    graph = decompose(open_opaque(graph), keep=lambda op: op.vjp is not None)
    wanted = [i for i, p in enumerate(graph.params) if _is_differentiable(p)] if wrt is None else list(wrt)
    builder = Builder(graph.name, graph.env)
    env: Env = {p: builder.param(p.type, p.name) for p in graph.params}
    tape = _Tape(builder, env, {env[graph.params[i]] for i in wanted})
    with builder.active():
        tape.run(graph.nodes)
        results = tuple(map_operand(r, env) for r in graph.results)
        gradients = _Gradients(builder)
        for position in of:
            if not _is_differentiable(results[position]):
                raise StateError(f"result {position} of @{graph.name} has no derivative: it is {graph.results[position]!r}")
            gradients.add(results[position], aten.ones_like(builder.handle(results[position])))
        tape.reverse(gradients)
        found = tuple(gradients.of(env[graph.params[i]]).value for i in wanted)
    return builder.graph((*results, *found), graph.writes)


def pull_back(builder: Builder, node: Node, cotangents: Mapping[int, Value], targets: Sequence[Value]) -> list[Value]:
    """Gradients of `targets` (values that a prim::If or prim::Loop reads) from cotangents of its results, by position. Emits into `builder`."""
    where = builder.where
    tape = _Tape(builder, {}, targets)
    try:
        with builder.active():
            tape.run([node])
            gradients = _Gradients(builder)
            for position, cotangent in cotangents.items():
                gradients.add(tape.nodes[0][1].outputs[position], Handle(cotangent, builder))
            tape.reverse(gradients)
            return [gradients.of(t).value for t in targets]
    finally:
        builder.where = where


def _is_differentiable(operand: Operand) -> bool:
    kind = operand.type if isinstance(operand, Value) else None
    return isinstance(kind, TensorType) and kind.dtype is not None and kind.dtype.is_differentiable


class _Gradients:
    """Cotangents of values, summed as they come in."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.found: dict[Value, Handle] = {}

    def add(self, value: Value, gradient: Handle) -> None:
        """Let a gradient flow into a value, in the value's own shape and dtype."""
        kind = value.tensor_type
        assert VALIDATE.decompose is not None
        fitted = VALIDATE.decompose(gradient, kind.shape, kind.dtype)
        present = self.found.get(value)
        self.found[value] = fitted if present is None else aten.add(present, fitted)

    def get(self, value: Value) -> Handle | None:
        """The cotangent of a value, or None if nothing flowed in."""
        return self.found.get(value)

    def of(self, value: Value) -> Handle:
        """The cotangent of a value, zeros if nothing flowed in."""
        found = self.found.get(value)
        return aten.zeros_like(self.builder.handle(value)) if found is None else found


class _Tape:
    """The nodes of one block as they were emitted anew, and which values lead back to what is wanted."""

    def __init__(self, builder: Builder, env: Env, needs: Iterable[Value]) -> None:
        self.builder, self.env = builder, env
        self.needs: set[Value] = set(needs)
        self.nodes: list[tuple[Node, Node]] = []  # as given, as emitted
        self.kept: dict[Node, tuple[Value, ...]] = {}  # what a loop stacked for its backward

    # ---- forward
    def run(self, nodes: Sequence[Node]) -> None:
        """Emit nodes as they are (without finding equal ones: each needs a cotangent of its own)."""
        for node in nodes:
            self.builder.where = node.where
            emitted = self._emit(node)
            for old, new in zip(node.outputs, emitted.outputs, strict=False):  # a loop also gives what its backward reads
                self.env[old] = new
                new.name = old.name
            self.nodes.append((node, emitted))
            if any(v in self.needs for v in self._reads(node)):
                self.needs.update(v for v in emitted.outputs if _is_differentiable(v))

    def _emit(self, node: Node) -> Node:
        args = tuple(map_operand(a, self.env) for a in node.args)
        types = tuple(v.type for v in node.outputs)
        blocks = tuple(self._copy(b) for b in node.blocks)
        if node.op is not LOOP:
            return self.builder.emit_raw(node.op, args, types, blocks, node.where)
        return self._emit_loop(node, args, types, blocks[0])

    def _copy(self, block: Block) -> Block:
        """A block emitted anew, loops inside of it included."""
        with self.builder.inner() as inner:
            tape = _Tape(inner, dict(self.env), self.needs)
            for p in block.params:
                tape.env[p] = inner.param(p.type, p.name)
            tape.run(block.nodes)
            return inner.block(tuple(map_operand(r, tape.env) for r in block.results))

    def _emit_loop(self, node: Node, args: tuple[Operand, ...], types: tuple[Type, ...], block: Block) -> Node:
        """The loop, which also stacks its carried values as each step found them, and whether the step was made."""
        carried = block.params[1 : 1 + len(args[2])]
        for value in carried:
            if not isinstance(value.type, TensorType):
                raise Unsupported(f"differentiate: a loop carries a number of type {value.type}; make it a 0-dim tensor")
        count = self._count(args[0])
        stacked = tuple(tensor_type(v.tensor_type.dtype, (count, *v.tensor_type.shape)) for v in carried)
        made = tensor_type(dt.bool_, (count,))
        with self.builder.inner() as inner:
            step = inner.constant(_TRUE)
        whole = Block(block.params, (*inner.nodes, *block.nodes), (*block.results, *carried, step))
        emitted = self.builder.emit_raw(node.op, args, (*types, *stacked, made), (whole,), node.where)
        self.kept[emitted] = emitted.outputs[len(types) :]
        return emitted

    def _count(self, trip: Operand) -> Dim:
        return self.builder.env.fresh("u") if isinstance(trip, Value) else trip

    def _reads(self, node: Node) -> list[Value]:
        """The new values that a node reads, those that its blocks find outside included."""
        inside = [v for b in node.blocks for v in b.free_values()]
        return [v for operand in (*node.args, *inside) for v in values_in(map_operand(operand, self.env))]

    # ---- backward
    def reverse(self, gradients: _Gradients) -> None:
        """Walk the nodes backwards and let cotangents flow from results to what they were made of."""
        for node, emitted in reversed(self.nodes):
            outputs = emitted.outputs[: len(node.outputs)]
            if not any(gradients.get(v) is not None for v in outputs) or not any(v in self.needs for v in self._reads(node)):
                continue
            self.builder.where = node.where
            if node.op is IF:
                self._reverse_if(node, emitted, gradients)
            elif node.op is LOOP:
                self._reverse_loop(node, emitted, gradients)
            elif node.op.is_differentiable:
                self._reverse_node(emitted, gradients)

    def _reverse_node(self, node: Node, gradients: _Gradients) -> None:
        plan = plan_of(node.op)
        needs = tuple(any(v in self.needs for v in values_in(node.args[i])) for i in plan.differentiable)
        if not any(needs):
            return
        packed = tuple(self._slot(plan, node, s) for s in plan.slots)
        found = apply_functional(plan, tuple(gradients.get(v) for v in node.outputs), needs, packed)
        for position, gradient in zip(plan.differentiable, found, strict=False):
            targets, given = node.args[position], gradient
            for target, g in zip(targets, given or (), strict=False) if type(targets) is tuple else ((targets, given),):
                if g is not None and target in self.needs:
                    gradients.add(target, g)

    def _slot(self, plan: Plan, node: Node, source: Source) -> Any:
        if source.kind == RESULT:
            return self.builder.handle(node.outputs[source.position])
        value = node.args[source.position]
        if source.kind == ARG:
            return self.builder.handle(value)
        if source.kind == DIMS:
            return tuple(_dims(v) for v in value) if type(value) is tuple else _dims(value)
        return value.tensor_type.dtype if isinstance(value, Value) and isinstance(value.type, TensorType) else None

    def _reverse_if(self, node: Node, emitted: Node, gradients: _Gradients) -> None:
        free = self._free(node)
        seeds = [gradients.get(v) for v in emitted.outputs]
        blocks = []
        for block in node.blocks:
            with self.builder.inner() as inner:
                blocks.append(inner.block(_values(self._pull_back(inner, block, {}, seeds, free))))
        types = tuple(v.type for v in free)
        made = self.builder.emit_raw(IF, emitted.args, types, tuple(blocks))
        for value, gradient in zip(free, made.outputs, strict=False):
            gradients.add(value, Handle(gradient, self.builder))

    def _free(self, node: Node) -> list[Value]:
        """The new values that need a gradient and that the blocks of a node find outside, each once."""
        found = (map_operand(v, self.env) for b in node.blocks for v in b.free_values())
        return [v for v in dict.fromkeys(found) if isinstance(v, Value) and v in self.needs]

    def _pull_back(
        self, inner: Builder, block: Block, params: Env, seeds: Sequence[Handle | None], targets: Sequence[Value], skip: int = 0
    ) -> list[Handle]:
        """In an inner builder: a block computed again, and the gradients of `targets` for cotangents of its results (the first `skip` left out)."""
        with inner.active():
            tape = _Tape(inner, {**self.env, **params}, self.needs | {v for v in params.values() if _is_differentiable(v)})
            tape.run(block.nodes)
            gradients = _Gradients(inner)
            for result, seed in zip(block.results[skip:], seeds, strict=False):
                value = map_operand(result, tape.env)
                if seed is not None and _is_differentiable(value):
                    gradients.add(value, Handle(seed.value, inner))
            tape.reverse(gradients)
            return [gradients.of(t) for t in targets]

    def _reverse_loop(self, node: Node, emitted: Node, gradients: _Gradients) -> None:
        trip, _, carried, xs, reverse = emitted.args
        block = node.blocks[0]
        count = len(carried)
        state = [i for i, v in enumerate(emitted.outputs[:count]) if _is_differentiable(v)]
        rows = [i for i in range(count, len(node.outputs)) if gradients.get(emitted.outputs[i]) is not None]
        free = self._free(node)
        slices = [i for i, x in enumerate(xs) if _is_differentiable(x)]
        zeros = [aten.zeros_like(self.builder.handle(v)) for v in free]
        start = [gradients.of(emitted.outputs[i]) for i in state]
        over = (*self.kept[emitted], *xs, *_values(gradients.of(emitted.outputs[i]) for i in rows))
        with self.builder.inner() as inner:
            index = inner.param(INT)
            flows = [inner.param(h.value.type) for h in (*start, *zeros)]
            seen = [inner.param(_row(v)) for v in over]
            params: Env = dict(zip(block.params, (index, *seen[:count], *seen[count + 1 : count + 1 + len(xs)]), strict=False))
            seeds: list[Handle | None] = [None] * len(node.outputs)
            for i, flow in zip(state, flows, strict=False):
                seeds[i] = Handle(flow, inner)
            for i, row in zip(rows, seen[count + 1 + len(xs) :], strict=False):
                seeds[i] = Handle(row, inner)
            targets = [*(params[block.params[1 + i]] for i in state), *free, *(params[block.params[1 + count + i]] for i in slices)]
            stepped = self._step(inner, block, params, seeds, targets, flows, len(state), seen[count])
            body = inner.block((True, *stepped))
        types = (*(f.type for f in flows), *(xs[i].type for i in slices))
        made = self.builder.emit_raw(LOOP, (trip, True, _values((*start, *zeros)), over, not reverse), types, (body,))
        receivers = [*(carried[i] for i in state), *free, *(xs[i] for i in slices)]
        for value, gradient in zip(receivers, made.outputs, strict=False):
            if isinstance(value, Value) and value in self.needs:
                gradients.add(value, Handle(gradient, self.builder))

    def _step(
        self, inner: Builder, block: Block, params: Env, seeds: Sequence[Handle | None], targets: Sequence[Any], flows: Sequence[Value],
        states: int, was_made: Value,
    ) -> tuple[Value, ...]:
        """One step back: new cotangents of the carried values, sums for free values, rows for xs. A step that was not made changes nothing."""
        with inner.inner() as then:
            found = self._pull_back(then, block, params, seeds, targets, skip=1)
            with then.active():
                for i in range(states, len(flows)):
                    found[i] = aten.add(Handle(flows[i], then), found[i])
            taken = then.block(_values(found))
        with inner.inner() as other, other.active():
            kept = [*flows, *(aten.zeros_like(Handle(t, other)).value for t in targets[len(flows) :])]
            left = other.block(tuple(kept))
        types = tuple(v.type for v in taken.results)
        return inner.emit_raw(IF, (was_made,), types, (taken, left)).outputs


_TRUE = np.array(True)


def _dims(operand: Operand) -> tuple[Dim, ...]:
    return operand.type.shape if isinstance(operand, Value) and isinstance(operand.type, TensorType) else ()


def _row(value: Value) -> TensorType:
    kind = value.tensor_type
    return tensor_type(kind.dtype, kind.shape[1:])


def _values(handles: Iterable[Handle]) -> tuple[Value, ...]:
    return tuple(h.value for h in handles)
