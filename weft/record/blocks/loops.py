"""Loops: a recorded body as a prim::Loop, with its history: what the backward needs of each step is stacked
by running the loop again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autograd.node import Edge, InputMetadata, Node
from weft.ir.builder import Builder
from weft.ir.graph import Block, Operand, Value, map_operand
from weft.ir.structure import LOOP
from weft.ops.packet import aten
from weft.record.blocks.branches import choose
from weft.record.blocks.memory import end_of, write_back
from weft.record.blocks.recorded import ControlBackward, Recorded, record, tensor_of, zeros_at
from weft.record.numbers.random_state import marks
from weft.support.errors import Unsupported
from weft.support.locations import Location
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes, no_grad
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.tensor_type import INT, TensorType, Type

if TYPE_CHECKING:
    from weft.record.capture import Capture

History = Callable[["Capture", "Loop", list[bool]], ControlBackward]
Outcome = tuple[Any, Sequence[Any], Sequence[Any]]  # of a step: whether to go on, the carried values, a row of each ys


@dataclass(eq=False)
class Loop:
    """A prim::Loop that was recorded. entries: where gradients of the block's carried values and slices flow;
    start: the same of what they were given."""

    trip: Operand
    condition: Operand
    carried: tuple[Operand, ...]
    xs: tuple[Operand, ...]
    reverse: bool
    body: Recorded
    entries: tuple[Edge | None, ...]
    start: tuple[Edge | None, ...]

    @property
    def may_stop(self) -> bool:
        """Whether a condition may end it before its trip count does."""
        return self.condition is not True or self.body.results[0] is not True


class LoopEntry(Node):
    """Where the history of a loop's body begins, at a carried value or a slice."""

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        return ()


def repeat(
    capture: Capture, trip: Any, condition: Any, carried: Sequence[Tensor], xs: Sequence[Tensor], reverse: bool,
    body: Callable[[Builder, Value, list[Tensor], list[Tensor]], Outcome], *,
    entries: Sequence[Edge | None] = (), through: Recorded | None = None, where: Location | None = None,
    counter: int | None = None,
    written: Sequence[Tensor] = (), is_again: bool = False, history: History | None = None,
) -> list[Tensor]:
    """The carried values at the end of a loop over `body(builder, index, carried, slices)`, and its stacked ys.

    entries: where the histories of carried values and slices begin if a graph made earlier says so.
    counter: which carried value counts the steps.
    written: outer tensors that the body writes, the last of the carried ones.
    is_again: it is the loop of a graph made earlier, with the histories that its values had there.
    history: what makes the history of the results, even if none of them has one (default: WhileLoopBackward).
    """
    operands = tuple([capture.tensors.operand(v) for v in (*carried, *xs)])
    count, asked = len(carried), len(carried) - len(written)
    kinds = [_type_of(v) for v in operands[:count]] + [v.tensor_type.row for v in operands[count:]]
    begins = tuple([
        edge or _entry(kind)
        for edge, kind in zip((*entries, *(None,) * (len(kinds) - len(entries))), kinds, strict=True)
    ])

    without: list[Any] = []

    def step(inner: Builder) -> list[Any]:
        index = inner.param(INT, "step" if counter is not None else "")
        params = [tensor_of(capture, inner.param(kind), edge) for kind, edge in zip(kinds, begins, strict=True)]
        for base, value in zip(written, params[asked:count], strict=True):
            _begin_with(base, value)
        following, values, rows = body(inner, index, params[:asked], params[count:])
        results = [following, *values, *written, *rows]
        # now: outer tensors are as they were again when the step has been recorded
        without[:] = capture.recorder.histories.lacking(results, list(map(capture.tensors.operand, results)))
        return results

    start = tuple([end_of(v) for v in (*carried, *xs)])
    recorded = record(capture, step, through)
    # recorded again, with the outer tensors that it writes among what it carries
    if len(recorded.memory.tensors) > len(written):
        bases = [base for base, _, _ in recorded.memory.tensors.values()]
        new_entries = (*begins[:asked], *(None,) * len(bases), *begins[count:])
        return repeat(
            capture, trip, condition, [*carried[:asked], *bases], xs, reverse, body,
            entries=new_entries, through=through, where=where, counter=counter, written=bases, history=history,
        )
    steps, test = capture.tensors.operand(trip), capture.tensors.operand(condition)
    loop = Loop(steps, test, operands[:count], operands[count:], reverse, recorded, begins, start)
    rows = recorded.results[1 + count :]
    length = capture.recorder.length_of(steps) if rows else 0
    types = (*kinds[:count], *(r.tensor_type.stacked(length) for r in rows))
    node = capture.recorder.builder.emit_raw(
        LOOP, (steps, test, loop.carried, loop.xs, reverse), types, (recorded.block,), where
    )
    if modes.grad or is_again:
        capture.recorder.histories.note_loop(node, carried, xs, tuple(without))
    outputs = [capture.tensors.fresh(v) for v in node.outputs]
    flows = _flows(loop)
    if any(flows) or history is not None:
        if counter is not None:  # known by now: run again, it is a loop of so many steps
            loop = _counted(loop, node.outputs[counter])
        (history or WhileLoopBackward)(capture, loop, flows).attach(outputs, flows)
    changes = [recorded.ends[1 + i] != begins[i] for i in range(asked, count)]
    write_back(
        [recorded.memory],
        [out if is_new else out.detach() for out, is_new in zip(outputs[asked:count], changes, strict=True)],
    )
    return [*outputs[:asked], *outputs[count:]]


def _begin_with(base: Tensor, value: Tensor) -> None:
    """Let an outer tensor be what a step begins with."""
    with no_grad():
        base.copy_(value)
    edge = end_of(value)
    base._autograd = None if edge is None else AutogradState(False, *edge)


def _counted(loop: Loop, steps: Value) -> Loop:
    body = replace(
        loop.body, block=Block(loop.body.block.params, loop.body.block.nodes, (True, *loop.body.results[1:]))
    )
    return replace(loop, trip=steps, condition=True, body=body)


def _type_of(value: Operand) -> Type:
    if not isinstance(value, Value) or not isinstance(value.type, TensorType):
        raise Unsupported(
            f"a loop carries a number of type {getattr(value, 'type', type(value).__name__)}; make it a 0-dim tensor"
        )
    return value.type


def _entry(kind: Type) -> Edge | None:
    if not modes.grad or not isinstance(kind, TensorType) or kind.dtype is None or not kind.dtype.is_differentiable:
        return None
    node = LoopEntry(())
    node.metadata_of_inputs += (InputMetadata(kind.shape, kind.dtype),)
    return node, 0


def _flows(loop: Loop) -> list[bool]:
    """Which results have a history: they depend on something outside that has one, perhaps over several steps. Under
    no_grad none has: what no step changes is a result of the loop too, and not the tensor that went in."""
    if not modes.grad:
        return [False] * (len(loop.body.ends) - 1)
    ends = loop.body.ends[1:]
    reached = [loop.body.border([e]) for e in ends]
    entries = {e: i for i, e in enumerate(loop.entries) if e is not None}
    count = len(loop.carried)
    flows = [i < count and loop.start[i] is not None for i in range(len(ends))]
    before: list[bool] = []
    while before != flows:
        before = list(flows)
        for i, edges in enumerate(reached):
            flows[i] = flows[i] or any(e not in entries or has_history(loop, entries[e], flows) for e in edges)
    return [
        has_one and (end is not None or i < count) for i, (has_one, end) in enumerate(zip(flows, ends, strict=True))
    ]


def has_history(loop: Loop, entry: int, flows: Sequence[bool]) -> bool:
    """Whether what comes in at an entry of the body has a history. flows: which results have one."""
    return flows[entry] if entry < len(loop.carried) else loop.start[entry] is not None


class WhileLoopBackward(ControlBackward):
    """The history of weft.while_loop, and of the loops that its backward makes."""

    def __init__(self, capture: Capture, loop: Loop, flows: list[bool]) -> None:
        self.loop = loop
        self.states = [i for i in range(len(loop.carried)) if flows[i]]
        own = {e for e in loop.entries if e is not None}
        self.outer = tuple(e for e in loop.body.border() if e not in own)
        super().__init__(capture, (*loop.start, *self.outer))

    @property
    def blocks(self) -> Sequence[Recorded]:
        return (self.loop.body,)

    def edges_of(self, index: int) -> tuple[Edge | None, ...]:
        """What a carried value at the end, or a row, depends on, perhaps over several iterations."""
        loop = self.loop
        place = {e: i for i, e in enumerate(loop.entries) if e is not None}
        states = {index} if index < len(loop.carried) else set()
        ends = [self.end_of(index)]
        while True:
            border = loop.body.border(ends)
            more = {place[e] for e in border if place.get(e, len(loop.carried)) < len(loop.carried)} - states
            if not more:
                break
            states |= more
            ends += [loop.body.ends[1 + i] for i in more]
        arriving = {*border, *(loop.entries[i] for i in states)}
        return (
            *(edge if entry in arriving else None for edge, entry in zip(loop.start, loop.entries, strict=True)),
            *(edge if edge in arriving else None for edge in self.outer),
        )

    def end_of(self, index: int) -> Edge | None:
        """Where the gradient of a result flows within the body."""
        return self.loop.body.ends[1 + index]

    def pull_back(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> Sequence[Tensor]:
        capture, loop = self.capture, self.loop
        count, arity = len(loop.carried), len(loop.start)
        outer = [e for e, wanted in zip(self.outer, needs[arity:], strict=True) if wanted]
        slices = [i for i in range(count, arity) if needs[i]]
        rows = [i for i in range(count, len(grads)) if grads[i] is not None]
        stacks = self._stacks()
        flows = [zeros_at(capture, (self, i)) if grads[i] is None else grads[i] for i in self.states]
        sums = [zeros_at(capture, e) for e in outer]
        entries = [loop.entries[i] for i in (*self.states, *slices)]
        wanted = [*(e for e in entries if e is not None), *outer]
        unreached: list[Edge] = []
        before = marks(capture.random)

        def step(inner: Builder, index: Value, carried: list[Tensor], seen: list[Tensor]) -> Outcome:
            states, totals = carried[: len(self.states)], carried[len(self.states) :]
            taken = (*seen[:count], *seen[len(stacks) : len(stacks) + arity - count])
            params = (index, *(capture.tensors.operand(s) for s in taken))
            cotangents: list[Any] = [None] * len(loop.body.ends)
            for i, g in (
                *zip(self.states, states, strict=True), *zip(rows, seen[len(stacks) + arity - count :], strict=True)
            ):
                cotangents[1 + i] = g

            def back(_: Builder) -> list[Tensor]:
                parts = loop.body.pull_back(capture, params, cotangents, wanted, unreached)
                through = len(parts) - len(outer)
                return [*parts[: len(states)], *map(aten.add, totals, parts[through:]), *parts[len(states) : through]]

            def stay(_: Builder) -> list[Tensor]:
                return [*carried, *(zeros_at(capture, e) for e in wanted[len(states) : len(wanted) - len(outer)])]

            if len(stacks) == count:
                results = back(inner)
            else:  # a step that was not made changes nothing
                results = choose(capture, seen[count], (record(capture, back, loop.body), record(capture, stay)))
            return True, results[: len(carried)], results[len(carried) :]

        begins = [*loop.entries[:count], *(None,) * (len(stacks) - count), *loop.entries[count:]]
        over = [*stacks, *(self._again(i) for i in range(count, arity)), *(grads[i] for i in rows)]
        gradients = repeat(
            capture, self._now(loop.trip), True, [*flows, *sums], over, not loop.reverse, step,
            entries=[*(None,) * (len(flows) + len(sums)), *begins], through=loop.body,
        )
        ends = entries[: len(self.states)]
        is_cut = any(grads[i] is None for i in self.states) or any(edge in ends for edge in unreached)
        if is_cut and marks(capture.random) != before:
            capture.calls.refuse_draws(
                "the backward of a loop draws random numbers, and not at each step: some steps have no gradient"
            )
        by_edge = {
            **dict(zip(self.states, gradients, strict=False)),
            **dict(zip(slices, gradients[len(flows) + len(sums) :], strict=True)),
        }
        return [*(by_edge[i] for i in range(arity) if needs[i]), *gradients[len(flows) : len(flows) + len(sums)]]

    def _now(self, operand: Operand) -> Any:
        return tensor_of(self.capture, map_operand(operand, self.capture.recorder.values))

    def _again(self, i: int) -> Tensor:
        """A value that the loop was given, with its history."""
        value = (*self.loop.carried, *self.loop.xs)[i]
        return tensor_of(self.capture, map_operand(value, self.capture.recorder.values), self.loop.start[i])  # type: ignore[no-any-return]

    def _stacks(self) -> list[Tensor]:
        """The loop once more, for what each step found in the carried values; behind them whether the step was made,
        where that is not certain."""
        capture, loop = self.capture, self.loop
        count = len(loop.carried)

        def step(inner: Builder, index: Value, carried: list[Tensor], slices: list[Tensor]) -> Outcome:
            loop.body.rerun(capture, (index, *(capture.tensors.operand(v) for v in (*carried, *slices))))
            following, *values = loop.body.tensors(capture)[: 1 + count]
            is_made = [capture.tensors.fresh(inner.constant(np.array(True, dt.bool_.numpy)))] if loop.may_stop else []
            return following, values, [*carried, *is_made]

        start = [self._again(i) for i in range(len(loop.start))]
        outputs = repeat(
            capture, self._now(loop.trip), self._now(loop.condition), start[:count], start[count:], loop.reverse, step,
            entries=loop.entries, through=loop.body, is_again=True,
        )
        return outputs[count:]
