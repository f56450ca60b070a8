"""stop_gradients: no gradient flows through operands that had no history when their node was recorded, and that of
operands with the history of an earlier value flows into that value. Through the outputs of custom Functions they flow
as their backward has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from weft.ir.builder import Builder
from weft.ir.copies import same_operands
from weft.ir.graph import Block, Graph, Node, Operand, Value
from weft.ir.opaque import CALL_FUNCTION, STOP_GRADIENT, WHERE_REACHED, WITH_HISTORY
from weft.passes.dce import dce
from weft.passes.effects import has_effect
from weft.passes.open_opaque import open_opaque
from weft.passes.rebuild import rebuild, rewrite_operators
from weft.types.tensor_type import FLOAT, TensorType

# for each argument of a node, or result of a block, whether it had no history, or the value (or output of a custom
# Function) that it has the history of; of a list, for each of its parts. For a value, what hooks make of its gradient.
Without = tuple[Any, ...]
Notes = Mapping[Node | Block | Value, Without]


@dataclass(eq=False)
class FunctionCall:
    """A call of a custom Function. outputs: their values. inputs: for each tensor that it was given, the value that its
    gradient is of, and what is noted of that; None where no gradient is wanted. grads, gradients: once its backward
    ran, what that was given for the outputs, and gave for the inputs. after: the call whose backward must have run
    before, for the gradients not to pass as they are. is_repeated: it is an operator that gave a value once more, whose
    hooks are not those of the value itself."""

    outputs: tuple[Value | None, ...]
    inputs: tuple[tuple[Value, Any] | None, ...]
    grads: tuple[Value | None, ...] = ()
    gradients: tuple[Value | None, ...] = ()
    after: FunctionCall | None = None
    is_repeated: bool = False

    def note_rule(self, grads: Sequence[Any], gradients: Sequence[Any]) -> None:
        """Its backward ran."""
        self.grads, self.gradients = tuple(grads), tuple(gradients)


@dataclass(frozen=True)
class OutputOf:
    """The history of a tensor that a custom Function gave."""

    call: FunctionCall
    index: int


def hooked(value: Value, before: Value, after: Value) -> Without:
    """What is noted of a value in place of whose gradient hooks put another one."""
    return (OutputOf(FunctionCall((value,), ((value, False),), (before,), (after,)), 0),)


def is_without_some(without: Without) -> bool:
    """Whether any operand had no history, or another one."""
    return any([any(w) if type(w) is tuple else w for w in without])


def leads_elsewhere(without: Without) -> bool:
    """Whether any operand had the history of another value."""
    return any([leads_elsewhere(w) if type(w) is tuple else type(w) is not bool for w in without])


def stop_gradients(graph: Graph, without: Notes, inner: int = 0) -> Graph:
    """The graph with a node of autograd::stop_gradient or with_history in front of each such operand that a gradient
    could reach, and nodes of autograd::call_function behind custom Functions. inner: how many of the last results are
    values that gradients may end at: what a Function gave is what the others read of it."""
    histories = _Histories(graph, without)

    def border(builder: Builder, of: Node | Block, operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        notes = without.get(of)
        return operands if notes is None else tuple(map(partial(histories.seen, builder), operands, _was(of), notes))

    def rewrite(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
        changed = border(builder, node, args)
        if has_hooks(node):
            outputs = builder.emit_like(node, changed).outputs
            histories.unhooked.update(zip(node.outputs, outputs, strict=True))
            return histories.hooked(builder, node.outputs, outputs)
        return None if same_operands(changed, args) else tuple(builder.emit_like(node, changed).outputs)

    def has_hooks(node: Node) -> bool:
        return any(v in without for v in node.outputs)

    def wants(node: Node) -> bool:
        return not node.blocks and ((node in without and is_without_some(without[node])) or has_hooks(node))

    rebuilt = rebuild(graph, rewrite, wants, border)
    count = len(graph.results) - inner
    calls = histories.outputs(set(rebuilt.nodes))
    ends = zip(graph.results[count:], rebuilt.results[count:], strict=True)
    shown = tuple([calls.get(was, now) for was, now in ends])
    block = Block(rebuilt.params, rebuilt.nodes, (*rebuilt.results[:count], *shown))
    return Graph(rebuilt.name, block, rebuilt.env, rebuilt.writes)


def open_functions(graph: Graph) -> Graph:
    """The graph as it is computed, without autograd::call_function."""
    return rewrite_operators(graph, lambda builder, node, args: args[0], lambda op: op is CALL_FUNCTION)


def open_waiting(graph: Graph) -> Graph:
    """The graph where walks come to all nodes that hooks wait for, without autograd::where_reached."""
    opened = rewrite_operators(graph, lambda builder, node, args: (args[0],), lambda op: op is WHERE_REACHED)
    return graph if opened is graph else dce(opened)


def _was(of: Node | Block) -> tuple[Operand, ...]:
    return of.args if isinstance(of, Node) else of.results


class _Histories:
    """What gradients see of the operands of a graph that is rebuilt."""

    def __init__(self, graph: Graph, without: Notes) -> None:
        self.graph, self.without = graph, without
        self.flowing = _flowing(graph)
        self.rules: dict[FunctionCall, Rule | None] = {}
        self.made: dict[tuple[Builder, FunctionCall], dict[Value, Value]] = {}
        self.unhooked: dict[Value, Value] = {}  # for what hooks are on: what the node made

    def seen(self, builder: Builder, now: Any, was: Any, note: Any) -> Any:
        """An operand, which was another one in the graph before, with the history that was noted of it."""
        if type(note) is tuple and type(was) is tuple:
            return tuple([self.seen(builder, n, w, note[i] if i < len(note) else False)
                          for i, (n, w) in enumerate(zip(now, was, strict=True))])
        if not note or type(note) is tuple or type(now) is not Value or not isinstance(now.type, TensorType):
            return now
        earlier: Value | None = None
        if type(note) is OutputOf:
            earlier = self._output(builder, note)
            if earlier is None or was is note.call.outputs[note.index]:
                return earlier or now
        elif note is not True and note in self.flowing:
            earlier = self._now(builder, note)
        if earlier is not None:
            return builder.emit(WITH_HISTORY, (now, earlier)).output
        return builder.emit(STOP_GRADIENT, (now,)).output if was in self.flowing else now

    def _now(self, builder: Builder, was: Value) -> Value:
        current = builder.replaced.get(was, was)
        assert isinstance(current, Value)
        return current

    def _output(self, builder: Builder, of: OutputOf) -> Value | None:
        """An output of a custom Function whose gradients flow as its backward has it; None where that is not known."""
        call, rule = of.call, self._rule_of(of.call)
        if rule is None:
            return self.unhooked.get(call.outputs[of.index]) if call.is_repeated else None  # type: ignore[arg-type]
        if (builder, call) not in self.made:
            inputs = [None if i is None else self._flows_into(builder, call, *i) for i in call.inputs]
            read = [self.seen(builder, self._now(builder, value), value, note) for value, note in rule.read]
            outputs = [self._now(builder, value) for value in rule.outputs]
            types = tuple([v.type for v in outputs])
            node = builder.emit_raw(CALL_FUNCTION, (tuple(outputs), tuple(inputs), tuple(read), rule), types)
            seen = node.outputs if call.is_repeated else self.hooked(builder, rule.outputs, node.outputs)
            self.made[builder, call] = dict(zip(rule.outputs, seen, strict=True))
        return self.made[builder, call].get(call.outputs[of.index])  # type: ignore[arg-type]

    def _flows_into(self, builder: Builder, call: FunctionCall, value: Value, note: Any) -> Any:
        """What the gradient of an input of a call goes to."""
        if call.is_repeated and value in call.outputs and value in self.unhooked:
            return self.unhooked[value]
        return self.seen(builder, self._now(builder, value), value, note)

    def outputs(self, nodes: set[Node]) -> dict[Any, Operand]:
        """What stands, behind the custom Functions among these nodes, for the values that they gave."""
        return {was: v for values in self.made.values() for was, v in values.items() if v.node in nodes}

    def hooked(self, builder: Builder, was: Sequence[Value], now: Sequence[Value]) -> tuple[Value, ...]:
        """What a node made, whose gradients flow as hooks have it: those of what it made, and its own."""
        current = dict(zip(was, now, strict=True))
        for call in dict.fromkeys([note.call for value in was for note in self.without.get(value, ())]):
            rule = self._rule_of(call)
            if rule is None:
                continue
            inputs = tuple([None if i is None else self._input(builder, i, current) for i in call.inputs])
            read = [self.seen(builder, self._now(builder, value), value, of) for value, of in rule.read]
            outputs = tuple([current[v] for v in rule.outputs])
            node = builder.emit_raw(
                CALL_FUNCTION, (outputs, inputs, tuple(read), rule), tuple([v.type for v in outputs])
            )
            current.update(zip(rule.outputs, node.outputs, strict=True))
        return tuple(current.values())

    def _input(self, builder: Builder, noted: tuple[Value, Any], current: Mapping[Value, Value]) -> Any:
        was = noted[0]
        return current[was] if was in current else self.seen(builder, self._now(builder, was), *noted)

    def _rule_of(self, call: FunctionCall) -> Rule | None:
        if call not in self.rules:
            rule = self.rules[call] = _rule(self.graph, self.without, call)
            if rule is not None and call.after is not None:
                rule.after = self._rule_of(call.after)
        return self.rules[call]


@dataclass(eq=False)
class Rule:
    """The backward of a custom Function as a graph. Its parameters: the gradients of the outputs, the outputs, what
    the rule `after` gave, and what else it reads, each with what is noted of it. It gives a gradient for each input, or
    None. after: the rule that must have run before, since this one did; arrived: what this one gave, and in which walk,
    until the one that waits for it has run."""

    graph: Graph
    outputs: tuple[Value, ...]
    read: tuple[tuple[Value, Any], ...]
    after: Rule | None = None
    arrived: tuple[Any, tuple[Any, ...]] = (None, ())


def _rule(graph: Graph, without: Notes, call: FunctionCall) -> Rule | None:
    """The rule that a backward ran by; None where it did not run, or calls Python, or has branches and loops."""
    nodes = _between(graph, call)
    if not call.grads or any(node.blocks or has_effect(node) for node in nodes):
        return None
    builder = Builder("rule", graph.env)
    outputs = tuple([v for v in call.outputs if v is not None])
    seeds = {v: builder.param(v.type) for v in outputs}
    own = {v: builder.param(v.type) for v in outputs}
    after = call.after or FunctionCall((), ())
    inside = {
        g: builder.param(v.type) for v, g in zip(after.outputs, after.gradients, strict=False) if g is not None and v
    }
    arriving = zip(call.outputs, call.grads, strict=True)
    inside.update((g, seeds[v]) for v, g in arriving if g is not None and v is not None)
    read: dict[tuple[Value, Any], Value] = {}

    def operand(was: Any, note: Any) -> Any:
        if type(was) is tuple:
            notes = note if type(note) is tuple else ()
            return tuple([operand(w, notes[i] if i < len(notes) else False) for i, w in enumerate(was)])
        if type(was) is not Value:
            return was
        if was in inside:
            return builder.emit(STOP_GRADIENT, (inside[was],)).output if note is True else inside[was]
        if was in own and (not note or (type(note) is OutputOf and note.call is call)):
            return own[was]
        if (was, note) not in read:
            read[was, note] = builder.param(was.type)
        return read[was, note]

    for node in nodes:
        args = operand(node.args, without.get(node, ()))
        inside.update(zip(node.outputs, builder.emit_raw(
            node.op, args, tuple([v.type for v in node.outputs]), where=node.where
        ).outputs, strict=True))
    rule_graph = builder.graph(operand(call.gradients, ()))
    return Rule(open_opaque(rule_graph), outputs, tuple(read))


def _between(graph: Graph, call: FunctionCall) -> list[Node]:
    """The nodes that compute what a backward gave, of the gradients that it was given and of what there was when the
    function had been called."""
    places = {v: i for i, node in enumerate(graph.nodes) for v in node.outputs}
    start = max([places.get(v, -1) for v in call.outputs if v is not None], default=-1)
    wanted, positions = [r for r in call.gradients if r is not None], set[int]()
    ends = {*call.grads, *(() if call.after is None else call.after.gradients)}
    while wanted:
        value = wanted.pop()
        at = places.get(value, -1)
        if at > start and at not in positions and value not in ends:
            positions.add(at)
            wanted.extend(graph.nodes[at].needs())
    return [graph.nodes[at] for at in sorted(positions)]


def _flowing(graph: Graph) -> set[Value]:
    """The parameters that may have a history, and all that is computed of them."""
    flowing = {p for p in graph.params if p.type is FLOAT or _is_differentiable(p.type)}
    for node in graph.walk():
        if not flowing.isdisjoint(node.needs()):
            flowing.update(node.outputs)
            for block in node.blocks:
                flowing.update(block.params)
    return flowing


def _is_differentiable(kind: Any) -> bool:
    return isinstance(kind, TensorType) and (kind.dtype is None or kind.dtype.is_differentiable)
