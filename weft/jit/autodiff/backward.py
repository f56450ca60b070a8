"""The backward of a program's nodes, as nodes: one opaque call of each operator's formulas, a branch for a branch, a
loop the other way for a loop. Which gradients are undefined is decided when the program runs.

Blocks are run again in the backward, from the values outside that they read; a loop keeps what it carries in lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set

from weft.ir.copies import Copy
from weft.ir.graph import Block, Graph, Node, Operand, Value, map_operand, values_in
from weft.ir.opaque import opaque_op
from weft.ir.structure import GRADIENTS_OF, IF, LOOP
from weft.jit.autodiff.regions import REGION, holds_tensors, silent
from weft.ops.backward import ARG, DIMS, RESULT, Source, needed_slots, plan_of
from weft.ops.op import OPS, Op
from weft.passes.scripted.entries import CAST, LIST, PRINT, SET_GRAD
from weft.passes.scripted.rewrite import Emitter
from weft.support.errors import StateError
from weft.types import tensor_type as tt
from weft.types.tensor_type import (
    TENSOR,
    DictType,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    dict_of,
    list_of,
    optional,
    tuple_of,
)

GRAD: Type = optional(TENSOR)
_ADD, _FIT, _METADATA, _FILL, _GENERIC = (
    OPS[f"prim::{n}"]
    for n in ("AutogradAdd", "fit_gradient", "metadata_if_not_equal", "fill_gradients", "backward_of")
)
RANDOM_STATE, _SET_STATE = OPS["prim::random_state"], OPS["prim::set_random_state"]
STATE: Type = RANDOM_STATE.type()  # type: ignore[misc]
_APPEND, _ITEM, _SUB, _COUNT = (OPS[f"prim::{n}"] for n in ("append", "getitem", "sub", "add"))
_SIZE, _DTYPE = OPS["aten::size"], OPS["prim::dtype"]
Grads = dict[Value, Operand]
Saved = Callable[[Operand], Operand]


def carries_gradient(kind: Type) -> bool:
    """Whether gradients flow to a value of the type: a tensor of a floating dtype, or what holds tensors."""
    kind = kind.inner if isinstance(kind, OptionalType) else kind
    if isinstance(kind, TensorType):
        return kind.dtype is None or kind.dtype.is_differentiable
    return holds_tensors(kind)


def gradient_type(kind: Type) -> Type:
    """The type of gradients of values of a type: undefined ones are None, those of a list are a list."""
    kind = kind.inner if isinstance(kind, OptionalType) else kind
    if isinstance(kind, ListType):
        return optional(list_of(gradient_type(kind.element)))
    if isinstance(kind, DictType):
        return optional(dict_of(kind.key, gradient_type(kind.value)))
    if isinstance(kind, TupleType):
        return optional(tuple_of(*map(gradient_type, kind.elements)))
    return GRAD


def find_active(nodes: Sequence[Node], active: set[Value], unrecorded: Set[Node]) -> None:
    """Add to `active` what hangs on what is in it, and carries gradients: nothing that is computed while no history is
    recorded.
    """
    for node in nodes:
        if node.op is LOOP:
            _active_in_loop(node, active, unrecorded)
        elif node.op is IF:
            for block in node.blocks:
                find_active(block.nodes, active, unrecorded)
            for i, value in enumerate(node.outputs):
                if any(v in active for b in node.blocks for v in values_in(b.results[i])):
                    active.add(value)
        elif node.op is REGION:
            if any(v in active for v in node.needs()):
                active.update(v for v in node.outputs if carries_gradient(v.type))
        elif node in unrecorded and node.op is not CAST:
            continue
        elif any(v in active for v in node.inputs()) and _flows(node):
            active.update(v for v in node.outputs if carries_gradient(v.type))


def _flows(node: Node) -> bool:
    """Whether an operator's results hang on its arguments in a way that has a derivative."""
    op = node.op
    return op.is_differentiable or op.opens_above_autograd or (op.host and any(
        carries_gradient(v.type) for v in node.outputs))


def _active_in_loop(node: Node, active: set[Value], unrecorded: Set[Node]) -> None:
    _, _, carried, _, _ = node.args
    (block,) = node.blocks
    before = -1
    while before != len(active):
        before = len(active)
        for i, operand in enumerate(carried):
            reaches = any(v in active for v in (*values_in(operand), *values_in(block.results[1 + i])))
            if reaches and carries_gradient(node.outputs[i].type):
                active.update((block.params[1 + i], node.outputs[i]))
        find_active(block.nodes, active, unrecorded)


def draws(node: Node) -> bool:
    """Whether a node, or one in its blocks, draws random numbers."""
    return any(n.op.effect == "random" for n in (node, *(n for b in node.blocks for n in b.walk())))


class Reverse:
    """Emits the backward of nodes. `saved` gives what stands for a value of the forward program, `states` where the
    stream of random numbers was before nodes that draw.
    """

    def __init__(
        self, emitter: Emitter, active: set[Value], saved: Saved, remember: Callable[[Node], Operand],
        states: dict[Node, Value],
    ) -> None:
        self.emitter, self.active, self.saved, self.remember = emitter, active, saved, remember
        self.states = states

    def run(self, nodes: Sequence[Node], grads: Grads) -> None:
        """Go back through nodes, the last first. `grads` has the gradients of their results, and gains others."""
        for node in reversed(nodes):
            if not any(grads.get(v) is not None for v in node.outputs):
                continue
            self.emitter.where = node.where
            state = self.states.get(node)
            now = None if state is None else self._go_to(state)
            if node.op is IF:
                self._if(node, grads)
            elif node.op is LOOP:
                self._loop(node, grads)
            elif node.op is REGION:
                self._region(node, grads)
            else:
                self._node(node, grads)
            if now is not None:
                self.emitter.emit(_SET_STATE, (now,))

    def _go_to(self, state: Value) -> Value:
        """What is run again draws what it drew; where the stream is now."""
        now = self.emitter.emit(RANDOM_STATE, (), STATE).output
        self.emitter.emit(_SET_STATE, (self.saved(state),))
        return now

    def add(self, grads: Grads, value: Value, gradient: Operand) -> None:
        """One more part of a value's gradient."""
        partial = grads.get(value)
        if gradient is not None:
            kind = gradient_type(value.type)
            grads[value] = gradient if partial is None else self.emitter.emit(_ADD, (partial, gradient), kind).output

    # ---- operators
    def _node(self, node: Node, grads: Grads) -> None:
        output_grads: tuple[Operand, ...] = tuple(grads.get(v) for v in node.outputs)
        if len(output_grads) > 1:
            results = tuple(self.saved(v) for v in node.outputs)
            output_grads = self.emitter.emit(_FILL, (output_grads, results), *(GRAD,) * len(output_grads)).outputs
        targets, input_grads = (
            self._formulas(node, output_grads) if node.op.is_differentiable and not _is_listed(node)
            else self._generic(node, output_grads)
        )
        for target, gradient in zip(targets, input_grads, strict=True):
            self.add(grads, target, self._fitted(node, target, gradient))

    def _formulas(self, node: Node, output_grads: tuple[Operand, ...]) -> tuple[list[Value], tuple[Value, ...]]:
        """A call of the operator's formulas, with what they read."""
        plan = plan_of(node.op)
        needs = tuple(any(v in self.active for v in values_in(node.args[i])) for i in plan.differentiable)
        wanted = needed_slots(plan, needs)
        packed = tuple(self._slot(node, s) if i in wanted else None for i, s in enumerate(plan.slots))
        targets = [
            v for i, need in zip(plan.differentiable, needs, strict=True) if need for v in values_in(node.args[i])
        ]
        if not targets:
            return [], ()
        call = self.emitter.emit(opaque_op(plan), (output_grads, needs, packed), *(GRAD,) * len(targets))
        return targets, call.outputs

    def _slot(self, node: Node, source: Source) -> Operand:
        if source.kind == ARG:
            return self._saved(node.args[source.position])
        if source.kind == RESULT:
            return self.saved(node.outputs[source.position])
        return self._fact(node.args[source.position], _SIZE if source.kind == DIMS else _DTYPE)

    def _fact(self, operand: Operand, op: Op) -> Operand:
        """Sizes or dtype of an argument, of each tensor if it is a list."""
        if isinstance(operand, tuple):
            return tuple(self._fact(o, op) for o in operand)
        if not isinstance(operand, Value):
            return operand
        return self.remember(Node(op, (operand,), (list_of(tt.INT) if op is _SIZE else tt.DTYPE,)))

    def _saved(self, operand: Operand) -> Operand:
        return map_operand(operand, {v: self.saved(v) for v in values_in(operand)})

    def _generic(self, node: Node, output_grads: tuple[Operand, ...]) -> tuple[list[Value], tuple[Value, ...]]:
        """For an operator without formulas of its own: its gradients by the engine, when the program runs."""
        if node.op.effect in ("io", "python") and not node.op.observes:
            raise StateError(f"differentiate: {node.op.name} has no derivative as a part of a graph{_line(node)}")
        leaves = list(_leaves(node.args))
        targets = [v for v in leaves if isinstance(v, Value) and v in self.active]
        if any(isinstance(v.type, ListType) for v in node.outputs):
            raise StateError(
                f"differentiate: gradients do not flow through the list that {node.op.name} gives{_line(node)}; "
                "unpack it"
            )
        needs = tuple(isinstance(v, Value) and v in self.active for v in leaves)
        args = (str(node.op.name), output_grads, needs, tuple(self._saved(a) for a in node.args))
        call = self.emitter.emit(_GENERIC, args, *(GRAD,) * len(targets))
        return targets, call.outputs

    def _fitted(self, node: Node, target: Value, gradient: Operand) -> Operand:
        """A gradient with the sizes and dtype of what it belongs to: broadcasting and promotion are taken back."""
        if node.op.how != "scalar" or len(node.op.tensor_positions) < 2 or _have_one_type(target, node.outputs[0]):
            return gradient
        fact = self.remember(Node(_METADATA, (target, node.outputs[0]), (_METADATA_TYPE,)))
        return self.emitter.emit(_FIT, (gradient, fact), GRAD).output

    def _region(self, node: Node, grads: Grads) -> None:
        """What has lists runs again as a whole, and the engine goes back through it."""
        block = silent(Graph("", node.blocks[0])).block
        inputs = block.free_values()
        again = Copy().block(Block(inputs, block.nodes, block.results))
        targets = [v for v in inputs if v in self.active]
        args = (
            tuple(grads.get(v) for v in node.outputs), tuple(self.saved(v) for v in inputs),
            tuple(v in self.active for v in inputs),
        )
        region = self.emitter.emit(GRADIENTS_OF, args, *(gradient_type(v.type) for v in targets), blocks=(again,))
        for target, gradient in zip(targets, region.outputs, strict=True):
            self.add(grads, target, gradient)

    # ---- control flow
    def _again(self, nodes: Sequence[Node], values: dict[Value, Operand], into: Emitter) -> None:
        """Run a block's nodes once more."""
        for node in nodes:
            if node.op is PRINT:
                continue
            _refuse_effects(node)
            for value in node.needs():
                if value not in values:
                    values[value] = self.saved(value)
            into.nodes.append(Copy(values).node(node))

    def _inside(self, values: dict[Value, Operand], into: Emitter) -> Reverse:
        """What goes back within a block whose nodes have been run again."""

        def saved(operand: Operand) -> Operand:
            return values[operand] if operand in values else self.saved(operand)

        def remember(node: Node) -> Operand:
            args = tuple(map_operand(a, {v: saved(v) for v in values_in(a)}) for a in node.args)
            return into.emit(node.op, args, *(v.type for v in node.outputs)).output

        return Reverse(into, self.active, saved, remember, self.states)

    def _outer(self, node: Node) -> list[Value]:
        """The values outside of a node's blocks that gradients flow to from within."""
        return [v for v in dict.fromkeys(f for b in node.blocks for f in b.free_values()) if v in self.active]

    def _if(self, node: Node, grads: Grads) -> None:
        targets, blocks = self._outer(node), []
        for block in node.blocks:
            into, values, inner = Emitter(), {}, {}  # type: tuple[Emitter, dict[Value, Operand], Grads]
            into.where = node.where
            self._again(block.nodes, values, into)
            inside = self._inside(values, into)
            for value, result in zip(node.outputs, block.results, strict=True):
                if isinstance(result, Value) and result in self.active:
                    inside.add(inner, result, grads.get(value))
            inside.run(block.nodes, inner)
            blocks.append(Block((), tuple(into.nodes), tuple(inner.get(t) for t in targets)))
        if targets:
            conditional = self.emitter.emit(
                IF, (self.saved(node.args[0]) if isinstance(node.args[0], Value) else node.args[0],),
                *(GRAD,) * len(targets), blocks=tuple(blocks),
            )
            for target, gradient in zip(targets, conditional.outputs, strict=True):
                self.add(grads, target, gradient)

    def _loop(self, node: Node, grads: Grads) -> None:
        _, _, carried, xs, _ = node.args
        (block,) = node.blocks
        if xs:
            raise StateError(f"differentiate: a loop over slices has no derivative in a graph{_line(node)}")
        kept, steps = self._kept(node)
        flows = [i for i in range(len(carried)) if block.params[1 + i] in self.active]
        mine = {block.params[0], *block.params[1:]}
        targets = [v for v in self._outer(node) if v not in mine]
        index = Value(tt.INT, "k")
        params = [Value(GRAD) for _ in (*flows, *targets)]
        into = Emitter()
        into.where = node.where
        last = into.emit(_SUB, (steps, 1), tt.INT).output
        at = into.emit(_SUB, (last, index), tt.INT).output
        values: dict[Value, Operand] = {block.params[0]: at}
        for param, states in zip(block.params[1:], kept, strict=False):
            values[param] = into.emit(_ITEM, (states, at), param.type).output
        if len(kept) == len(block.params):  # where the stream was when each step began
            into.emit(_SET_STATE, (into.emit(_ITEM, (kept[-1], at), STATE).output,))
        self._again(block.nodes, values, into)
        inside, inner = self._inside(values, into), Grads()
        for place, i in enumerate(flows):
            result = block.results[1 + i]
            if isinstance(result, Value) and result in self.active:
                inside.add(inner, result, params[place])
        for place, target in enumerate(targets):
            inside.add(inner, target, params[len(flows) + place])
        inside.run(block.nodes, inner)
        left = tuple(inner.get(block.params[1 + i]) for i in flows) + tuple(inner.get(t) for t in targets)
        start = tuple(grads.get(node.outputs[i]) for i in flows) + (None,) * len(targets)
        loop = self.emitter.emit(
            LOOP, (steps, True, start, (), False), *(GRAD,) * len(params),
            blocks=(Block((index, *params), tuple(into.nodes), (True, *left)),),
        )
        for i, gradient in zip(flows, loop.outputs, strict=False):
            if isinstance(carried[i], Value) and carried[i] in self.active:
                self.add(grads, carried[i], gradient)
        for target, gradient in zip(targets, loop.outputs[len(flows) :], strict=True):
            self.add(grads, target, gradient)

    def _kept(self, node: Node) -> tuple[list[Value], Value]:
        """The loop once more, keeping what each step begins with: a list for each carried value, and how many steps."""
        trip, condition, carried, _, _ = node.args
        (block,) = node.blocks
        lists = [
            self.emitter.emit(LIST, ((), str(list_of(p.type))), list_of(p.type)).output for p in block.params[1:]
        ]
        into, values = Emitter(), {}  # type: tuple[Emitter, dict[Value, Operand]]
        into.where = node.where
        index, count = Value(tt.INT, "i"), Value(tt.INT, "steps")
        params = [Value(p.type, p.name) for p in block.params[1:]]
        values.update(zip(block.params, (index, *params), strict=True))
        if draws(node):
            kind = list_of(STATE)
            lists.append(self.emitter.emit(LIST, ((), str(kind)), kind).output)
            into.emit(_APPEND, (lists[-1], into.emit(RANDOM_STATE, (), STATE).output))
        for states, param in zip(lists, params, strict=False):
            into.emit(_APPEND, (states, param))
        self._again(block.nodes, values, into)
        following = into.emit(_COUNT, (count, 1), tt.INT).output
        again, *left = (map_operand(r, values) for r in block.results)
        again, left = self._resolved(again, values), [self._resolved(r, values) for r in left]
        loop = self.emitter.emit(
            LOOP, (self._saved(trip), self._saved(condition), (*(self._saved(c) for c in carried), 0), (), False),
            *(p.type for p in params), tt.INT,
            blocks=(Block((index, *params, count), tuple(into.nodes), (again, *left, following)),),
        )
        return lists, loop.outputs[-1]

    def _resolved(self, operand: Operand, values: dict[Value, Operand]) -> Operand:
        """An operand that may be a value of the forward program, outside of the loop."""
        emitted = {v for v in values.values() if isinstance(v, Value)}
        return map_operand(operand, {v: self.saved(v) for v in values_in(operand) if v not in emitted})


_METADATA_TYPE = OPS["prim::metadata_if_not_equal"].type(TENSOR, TENSOR)  # type: ignore[misc]


def _leaves(operand: Operand) -> Iterator[Operand]:
    """The operands in a nested tuple."""
    if isinstance(operand, tuple):
        for part in operand:
            yield from _leaves(part)
    else:
        yield operand


def _is_listed(node: Node) -> bool:
    return any(isinstance(v.type, ListType) for v in node.outputs)


def _have_one_type(a: Value, b: Value) -> bool:
    kind = a.type
    return kind is b.type and isinstance(kind, TensorType) and kind.is_complete


def _refuse_effects(node: Node) -> None:
    for one in (node, *(n for b in node.blocks for n in b.walk())):
        op = one.op
        if op.effect in ("io", "python") and not op.observes and op not in (PRINT, RANDOM_STATE, SET_GRAD):
            raise StateError(
                f"differentiate: {op.name} within a branch or loop is not run again for the backward{_line(one)}; "
                "move it out"
            )


def _line(node: Node) -> str:
    return "" if node.where is None else f" (line {node.where.line})"

