"""The history of a recognised loop: its backward is a loop that goes back over what the forward one found.

Its sums are those of the engine without a loop, in the same order. What an iteration hands to the one before, or to a
value from outside, is added to what has arrived there already (`arrived`), contribution by contribution. Iterations at
the end that not all gradients flow into yet are recorded one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from weft.autograd import engine
from weft.autograd.node import Edge, InputMetadata, Node
from weft.autograd.record import gradient_edge
from weft.ir.builder import Builder
from weft.ir.graph import Node as GraphNode
from weft.ir.graph import Operand, Value
from weft.ops.packet import aten
from weft.record.blocks.loops import Loop, Outcome, WhileLoopBackward, has_history, repeat
from weft.record.blocks.recorded import zeros_at
from weft.record.repeats.for_statement import LATE
from weft.record.restart import Restart
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types.sym import IntLike, to_dim, wrap

if TYPE_CHECKING:
    from weft.record.capture import Capture


_SEGMENTS = 8  # parts of a loop with gradients of other rows, each a loop of its own


class ForwardValues(dict[Value, Operand]):
    """What stands for the values of a loop's block: made of each that is read, when it is."""

    def __init__(self, own: frozenset[Value], standing_for: Callable[[Value], Operand]) -> None:
        super().__init__()
        self._own, self._standing_for = own, standing_for

    def __bool__(self) -> bool:
        return True

    def __contains__(self, value: object) -> bool:
        return value in self._own

    def get(self, value: Any, default: Any = None) -> Any:
        """What stands for a value; the default for those of others."""
        if value not in self._own:
            return default
        if not super().__contains__(value):
            self[value] = self._standing_for(value)
        return self[value]


class RepeatedBackward(WhileLoopBackward):
    """The history of what a recognised loop gives: carried values, and rows that were asked for."""

    def __init__(self, capture: Capture, loop: Loop, flows: list[bool]) -> None:
        super().__init__(capture, loop, flows)
        self.node: GraphNode = capture.recorder.builder.nodes[-1]
        block = loop.body.block
        self._own = frozenset((*block.params, *(v for node in block.nodes for v in node.outputs)))
        self._stacked: dict[Value, Value] = {}  # results of the loop, by the value of its block that they stack
        self._entries = {e: i for i, e in enumerate(loop.entries) if e is not None}
        self._flows = flows
        self.ends: dict[int, Edge] = {}  # of rows that have a history, by their place among the results
        self.without: frozenset[Value] = frozenset()  # values of its block that have no history
        # by carried value: where among them what it began with is read for the last time, and in which iteration
        self.read_last: Sequence[tuple[int, int]] = ()
        # of tensors whose rows are read in two directions: what has arrived there would be added to in no fixed order
        self.both_ways: Sequence[Edge] = ()
        self.is_summed: Sequence[bool] = ()  # by slices: whether a gradient of one has zeros for the others
        # by the place of rows: whether gradients flow into pieces of them (the first one has what is not a late one)
        self.reached_pieces: dict[int, list[bool]] = {}
        self.heads: dict[int, int] = {}  # by the place of rows: how many iterations have a piece in front of that
        # rows of a carried value, by their place among the results: which one, and how many iterations later
        self._carried_rows: dict[int, tuple[int, int]] = {}

    # ---- rows of what iterations computed
    def stack(self, value: Value) -> Value:
        """The result of the loop that has a value of its block for each iteration."""
        stacked = self._stacked.get(value)
        if stacked is None:
            params = self.loop.body.block.params
            first = 1 + len(self.loop.carried)
            if value in params[first:]:
                return self.loop.xs[params.index(value) - first]  # type: ignore[no-any-return]
            node, block = self.node, self.node.blocks[0]
            stacked = Value(value.tensor_type.stacked(self.loop.trip), "", node, len(node.outputs))
            node.outputs = (*node.outputs, stacked)
            block.results = (*block.results, value)
            notes = self.capture.recorder.histories.of
            if block in notes:
                notes[block] = (*notes[block], value in self.without)
            self._stacked[value] = stacked
        return stacked

    def rows(self, value: Value, end: Edge | None, carried: tuple[int, int] | None) -> Tensor:
        """A tensor of what a call of the block gave in each iteration. end: where its gradient flows within it.
        carried: its place among the carried values, and how many iterations later it is there (of several places the
        latest one: gradients from behind the loop arrive there)."""
        out: Tensor = self.capture.tensors.fresh(self.stack(value))
        border = self.loop.body.border([end])
        if end is None or not any(self._has_history(e) for e in border):
            return out
        new = [e for e in border if e not in self._entries and e not in self.outer]
        self.outer, self.edges = (*self.outer, *new), (*self.edges, *new)
        number = len(self.metadata_of_inputs)
        self.metadata_of_inputs += (InputMetadata(out.dims, out.dtype),)
        self.ends[number] = end
        if carried is not None:
            self._carried_rows[number] = carried
        out._autograd = AutogradState(False, self, number)
        self.capture.note_history(out)
        return out

    def end_of(self, index: int) -> Edge | None:
        """Where the gradient of a result flows within the body."""
        return self.ends[index] if index in self.ends else super().end_of(index)

    def _has_history(self, edge: Edge) -> bool:
        entry = self._entries.get(edge)
        return entry is None or has_history(self.loop, entry, self._flows)

    # ---- the way back
    def pull_back(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> Sequence[Any]:
        if modes.grad or modes.special is not None or any(map(_has_arrived, self.both_ways)):
            raise Restart(unrolled=True)  # (of a loop, the second gradient has sums in another order)
        return _WayBack(self, grads, needs).gradients()


class RowsBackward(Node):
    """The history of single rows of a loop's result. What flows into a row here is not all of its value's gradient: the
    iterations behind it have theirs. Whoever asks for all of it gets the loop iteration by iteration."""

    def __init__(self, stacked: Tensor, rows: Sequence[Tensor], head: int) -> None:
        """rows: pieces of a loop's result. head: how many iterations the first one has, where that is not the one with
        all but the last."""
        super().__init__(tuple([gradient_edge(row) for row in rows]))
        edge = gradient_edge(stacked)
        assert edge is not None and isinstance(edge[0], RepeatedBackward)
        self._history, self._number = edge[0], edge[1]
        self._history.heads[self._number] = head
        for i, row in enumerate(rows):
            self.metadata_of_inputs += (InputMetadata(row.dims, row.dtype),)
            row._autograd = AutogradState(False, self, i)

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        """What flows in. The loop is told of rows that nothing flows into: a gradient of zeros is not the same, where a
        derivative has no value."""
        self._history.reached_pieces[self._number] = [g is not None for g in grads]
        return grads

    def arrival(self, index: int) -> Node:
        raise Restart(unrolled=True)


class _WayBack:
    """One backward call through a recognised loop."""

    def __init__(self, node: RepeatedBackward, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> None:
        self.node, self.loop, self.capture = node, node.loop, node.capture
        self.count, self.arity = len(self.loop.carried), len(self.loop.start)
        self.needs = needs
        self.outer = [e for e, wanted in zip(node.outer, needs[self.arity :], strict=True) if wanted]
        self.ends = node.ends
        rows = {i: g for i, g in enumerate(grads) if i in self.ends and g is not None}
        self.states = {i: grads[i] for i in range(self.count) if i < len(grads) and grads[i] is not None}
        later = {i: node._carried_rows[i] for i in rows if i in node._carried_rows}
        self.carried_rows = {later[i][0]: rows[i] for i in later}
        self.shifts = dict(later.values())
        self.roots = {i: g for i, g in rows.items() if i not in node._carried_rows}
        self.border = self.loop.body.border([*self.loop.body.ends, *self.ends.values()])
        self.totals: dict[Edge, Any] = {e: _taken(e) for e in self.outer}
        at_last = self._reached_at_last()
        self.slices = [i for i in range(self.count, self.arity) if needs[i] and self.loop.entries[i] in at_last]
        self.pieces: dict[int, list[Tensor]] = {i: [] for i in self.slices}  # rows of gradients, the last ones first

    def gradients(self) -> list[Any]:
        """The gradients of the edges that need one."""
        first = self._arrived_at_begins()
        least = 1 + max(first, default=-1)
        roots, carried_rows = self.roots, self.carried_rows
        for begin, end, absent in reversed(self._segments()):
            self.roots = {i: g for i, g in roots.items() if i not in absent}
            self.carried_rows = {i: g for i, g in carried_rows.items() if i not in absent}
            left, low = end, begin if begin > least else least
            is_short = type(end - begin) is int and end - begin <= LATE
            while left > low and (is_short or not self._is_steady()):
                left -= 1
                self._step(left)
                if end - left > len(self.node.states) + 2 + LATE * is_short:
                    raise Restart(unrolled=True)
            if left > low:
                self._loop(low, left)
                left = low
            while left > begin:
                left -= 1
                self._step(left, first.get(left, {}))
        by_place: dict[int, Any] = {i: self.states.get(i) for i in range(self.count)}
        by_place.update({i: self._of_rows(i, aten.cat(tuple(reversed(rows)), 0)) for i, rows in self.pieces.items()})
        return [
            *(by_place.get(i) for i in range(self.arity) if self.needs[i]),
            *(self.totals[e] for e in self.outer),
        ]

    def _segments(self) -> list[tuple[IntLike, IntLike, frozenset[int]]]:
        """Iterations in which gradients flow into the same rows: from which one on, up to which one, and the rows
        without (carried values by their place, others by that among the results). Of a loop of a size the first piece
        of rows is all but the last ones."""
        trip = wrap(self.loop.trip, self.capture.env)
        # by rows: their name here, how many iterations later, how many have a piece in front, and the pieces
        absent: list[tuple[int, int, int, list[bool]]] = []
        for i, pieces in self.node.reached_pieces.items():
            head = self.node.heads[i]
            if i in self.roots:
                absent.append((i, 0, head, pieces))
            elif i in self.node._carried_rows and self.node._carried_rows[i][0] in self.carried_rows:
                absent.append((*self.node._carried_rows[i], head, pieces))
        late = 0 if type(trip) is int else LATE  # (places are counted from the end of the first piece on)

        def present(pieces: list[bool], shift: int, head: int, place: int) -> bool:
            if place < 0:  # (counted from the end of what stands in front of that)
                return pieces[0 if place + first - shift < head else bool(head)]
            return pieces[max(0, place - shift) + bool(head)]

        first = max((head + shift for _, shift, head, _ in absent if head), default=0)
        count = max((len(pieces) - bool(head) for _, _, head, pieces in absent), default=1)
        names = [frozenset([i for i, s, h, p in absent if not present(p, s, h, k)]) for k in range(-first, count)]
        borders = [k for k in range(1, len(names)) if names[k] != names[k - 1]]
        if len(borders) > _SEGMENTS or (first and late and trip < first + late):
            raise Restart(unrolled=True)
        starts = [*range(first), first, *[trip - late + k for k in range(count - 1)]] if late else range(count)
        places = [0, *[starts[k] for k in borders], trip]
        return [(places[j], places[j + 1], names[k]) for j, k in enumerate([0, *borders])]

    def _of_rows(self, place: int, rows: Tensor) -> Tensor:
        """The gradient of slices. One by one each is added to zeros where the others lie, which makes 0.0 of -0.0."""
        return aten.add(rows, 0) if self.node.is_summed[place - self.count] else rows

    def _reached(self, states: Iterable[int], rows: Iterable[int]) -> dict[Edge, None]:
        """The edges of the border that gradients of these carried values and rows flow into."""
        body = self.loop.body
        return body.border([*(body.ends[1 + i] for i in states), *(self.ends[i] for i in rows)])

    def _reached_at_last(self) -> dict[Edge, None]:
        """The same after as many iterations as it takes."""
        states = set(self.states) | self.carried_rows.keys()
        while True:
            reached = self._reached(states, self.roots)
            more = {i for i in self.node.states if self.loop.entries[i] in reached} - states
            if not more:
                return reached
            states |= more

    def _is_steady(self) -> bool:
        """Whether gradients flow on into the carried values that they come from."""
        reached = self._reached(self.states, self.roots)
        on = {i for i in self.node.states if self.loop.entries[i] in reached or i in self.carried_rows}
        return on == self.states.keys()

    def _wanted(self) -> list[tuple[Any, Edge]]:
        """Where gradients of an iteration are asked for: carried values, slices, and edges that lead out."""
        entries = [(i, self.loop.entries[i]) for i in (*self.node.states, *self.slices)]
        return [(i, e) for i, e in entries if e is not None] + [(e, e) for e in self.outer]

    def _through(
        self, states: dict[int, Any], rows: dict[int, Any], before: dict[int, Any], totals: dict[Edge, Any],
        standing_for: Callable[[Value], Operand],
    ) -> dict[Any, Any]:
        """The gradients of an iteration, by what `_wanted` calls them; None where nothing flows.

        states, rows: the gradients of what it gave; before, totals: what has arrived at the carried values that it
        began with, and at values from outside; standing_for: makes what stands for a value of the forward block.
        """
        ends, recorder, wanted = self.loop.body.ends, self.capture.recorder, self._wanted()
        pairs = [*((self.ends[i], g) for i, g in rows.items()), *((ends[1 + i], g) for i, g in states.items())]
        roots, seeds = [e for e, _ in pairs if e is not None], [g for e, g in pairs if e is not None]
        arrived = {e: g for e, g in totals.items() if g is not None}
        arrived.update([(e, g) for i, g in before.items() if (e := self.loop.entries[i]) is not None])
        values, recorder.values = recorder.values, ForwardValues(self.node._own, standing_for)
        try:
            parts = engine.run_between(roots, seeds, [e for _, e in wanted], self.border, arrived)
        finally:
            recorder.values = values
        return {key: g for (key, _), g in zip(wanted, parts, strict=True)}

    # ---- one iteration
    def _step(self, number: IntLike, first: dict[int, Any] | None = None) -> None:
        """One iteration by itself. first: what has arrived at the values that the loop began with."""
        tensors = self.capture.tensors

        def row(value: Value) -> Operand:
            return tensors.operand(aten.select(tensors.fresh(self.node.stack(value)), 0, number))

        before = dict(first or {})
        for i, g in self.carried_rows.items():
            shift = self.shifts[i]
            if type(number) is not int or number >= shift:
                before[i] = aten.select(g, 0, number - shift)
        rows = {i: aten.select(g, 0, number) for i, g in self.roots.items()}
        gradients = self._through(self.states, rows, before, self.totals, row)
        self.states = {i: gradients[i] for i in self.node.states if gradients.get(i) is not None}
        for i in self.slices:
            self.pieces[i].append(aten.unsqueeze(self._or_zeros(gradients, i), 0))
        self.totals.update({e: gradients[e] for e in self.outer})

    def _or_zeros(self, gradients: dict[Any, Any], key: Any) -> Any:
        gradient = gradients[key]
        return zeros_at(self.capture, dict(self._wanted())[key]) if gradient is None else gradient

    # ---- the others
    def _loop(self, first: IntLike, end: IntLike) -> None:
        """The iterations from the first up to the end, as a loop."""
        capture = self.capture
        states = list(self.states)
        reached = self._reached(self.states, self.roots)
        outer = [e for e in self.outer if e in reached]
        shifted = list(self.carried_rows)
        roots = list(self.roots)
        totals = [_nothing_at(e) if self.totals[e] is None else self.totals[e] for e in outer]
        carried = [*self.states.values(), *totals]
        over = [self._earlier(self.carried_rows[i], first, end, self.shifts[i]) for i in shifted]
        over += [aten.slice(self.roots[i], 0, first, end, 1) for i in roots]
        sources: list[Value] = []

        def step(inner: Builder, index: Value, before: list[Tensor], seen: list[Tensor]) -> Outcome:
            def parameter(value: Value) -> Operand:
                sources.append(value)
                return inner.param(value.type)

            totals: dict[Edge, Any] = dict(zip(outer, before[len(states) :], strict=True))
            arrived, rows = dict(zip(shifted, seen, strict=False)), dict(zip(roots, seen[len(shifted) :], strict=True))
            gradients = self._through(dict(zip(states, before, strict=False)), rows, arrived, totals, parameter)
            each = [self._or_zeros(gradients, key) for key in (*states, *outer, *self.slices)]
            return True, each[: len(before)], each[len(before) :]

        outputs = repeat(capture, end - first, True, carried, over, True, step, through=self.loop.body)
        node = capture.recorder.builder.nodes[-1]
        steps, test, begins, xs, reverse = node.args
        extra = [self._stack_of(value, first, end) for value in sources]
        # (what the block was found to read is stacked by now, before the loop that reads it)
        builder = capture.recorder.builder
        builder.nodes.remove(node)
        builder.nodes.append(node)
        node.take((steps, test, begins, (*xs, *extra), reverse))
        self.states = dict(zip(states, outputs, strict=False))
        self.totals.update(zip(outer, outputs[len(states) :], strict=False))
        for i, rows in zip(self.slices, outputs[len(carried) :], strict=True):
            self.pieces[i].append(rows)

    def _stack_of(self, value: Value, first: IntLike, end: IntLike) -> Operand:
        whole = self.capture.tensors.fresh(self.node.stack(value))
        if (to_dim(first), to_dim(end)) == (0, self.loop.trip):
            return self.capture.tensors.operand(whole)
        return self.capture.tensors.operand(aten.slice(whole, 0, first, end, 1))

    def _earlier(self, rows: Tensor, first: IntLike, end: IntLike, shift: int) -> Tensor:
        """Of rows for each iteration, those of so many iterations before."""
        if first >= shift:
            return aten.slice(rows, 0, first - shift, end - shift, 1)  # type: ignore[no-any-return]
        begin = aten.full_like(aten.slice(rows, 0, 0, shift - first, 1), -0.0)
        return aten.cat((begin, aten.slice(rows, 0, 0, end - shift, 1)), 0)  # type: ignore[no-any-return]

    def _arrived_at_begins(self) -> dict[int, dict[int, Any]]:
        """By iteration and carried value: what has arrived at what the loop began with, where iterations read it."""
        arrived: dict[int, dict[int, Any]] = {}
        for i, edge in enumerate(self.loop.start[: self.count]):
            gradient = _taken(edge) if edge is not None and self.needs[i] else None
            if gradient is not None:
                last, iteration = self.node.read_last[i]
                arrived.setdefault(iteration, {})[last] = gradient
        return arrived


def _buffer_of(edge: Edge) -> Any:
    """Where the walk adds up what arrives at an edge; None where nothing has."""
    walk = engine.current_walk()
    node, index = edge
    buffer = None if walk is None else walk.buffers.get(node)
    return None if buffer is None or index >= len(buffer) or buffer[index] is None else buffer


def _has_arrived(edge: Edge) -> bool:
    return _buffer_of(edge) is not None


def _taken(edge: Edge) -> Any:
    """What has arrived at an edge that leads out, taken from there: the loop adds to it."""
    buffer, walk = _buffer_of(edge), engine.current_walk()
    if buffer is None or walk is None:
        return None
    taken, buffer[edge[1]] = buffer[edge[1]], None
    return walk.evaluator.handed_out(taken)


def _nothing_at(edge: Edge) -> Any:
    """What leaves the bits of whatever is added to it: the gradient of what nothing has arrived at yet."""
    metadata = edge[0].metadata_of_inputs[edge[1]]
    assert metadata is not None
    return aten.full(metadata.dims, -0.0, dtype=metadata.dtype)
