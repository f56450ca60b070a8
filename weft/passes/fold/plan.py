"""Which loop nodes that repeat are: where each operand of an iteration comes from. Or why they are none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.ir.builder import memo_key
from weft.ir.graph import Block, Node, Operand, Value
from weft.ops.geometry import Geometry, contiguous
from weft.ops.packet import aten
from weft.ops.rules import Pointwise
from weft.passes.alias import dims_of, view_geometries, view_inverted
from weft.passes.fold.loop_plan import (
    Counting,
    Inner,
    Invariant,
    ListedRows,
    LoopPlan,
    LoopRows,
    MemoryRows,
    NoLoop,
    NumberRows,
    Record,
    RowSum,
    Slot,
    Source,
)
from weft.passes.fold.repeats import Carries, Run
from weft.passes.fold.rows import Moving, Places, along, moving, shown_by
from weft.passes.group import is_zeros
from weft.types import dtype as dt
from weft.types.dims import Dim, Expr
from weft.types.tensor_type import TensorType, Type

MOST_LAG = 4  # how many iterations back a value may come from


class Planner:
    """Plans loops over the nodes of one block. leaves: the values and numbers of each node's arguments."""

    def __init__(self, block: Block, leaves: Sequence[list[Operand]]) -> None:
        self.nodes, self.leaves = list(block.nodes), leaves
        self.number = {node: i for i, node in enumerate(block.nodes)}
        self.places = Places(block.params)
        self.loop_at: dict[int, LoopPlan] = {}  # by the number of a node

    def plan(self, run: Run, fewest: int) -> LoopPlan:
        """A loop over a run, or over what is one of it. Raises NoLoop."""
        whole, run = run, self._turned(run)
        while run.iterations >= fewest:
            try:
                plan = _Loop(self, run, whole).plan()
            except NoLoop as refused:
                run = _shorter(run, refused)
                continue
            self.loop_at.update(dict.fromkeys(range(run.start, run.end), plan))
            return plan
        raise NoLoop("too few of its iterations are alike")

    def _turned(self, run: Run) -> Run:
        """The run from where an iteration begins, or else no value of an unknown type is handed from one to the next:
        what an opaque call gives is typed by the node that takes it."""
        start = Carries(run, self.leaves, self.number).start
        for at in range(run.start, min(run.start + 2 * run.period, run.end)):
            for operand in self.leaves[at]:
                if type(operand) is Value and not is_typed(operand):
                    producer = self.number.get(operand.node) if operand.node is not None else None
                    if producer is not None and producer < start <= at:
                        start = at + 1
        shift = start - run.start
        return run if not shift else Run(start, run.period, run.iterations - -(-shift // run.period))

    def place(self, value: Value) -> tuple[LoopPlan, int, int] | None:
        """The loop, iteration and position that give a value; None where no loop does."""
        number = self.number.get(value.node) if value.node is not None else None
        loop = None if number is None else self.loop_at.get(number)
        return None if loop is None or number is None else (loop, *divmod(number - loop.run.start, loop.run.period))


def is_typed(value: Value) -> bool:
    """Whether the sizes of a value are known: numbers have none."""
    return not isinstance(value.type, TensorType) or value.type.is_complete


def _shorter(run: Run, refused: NoLoop) -> Run:
    """The run without the iterations that are not like the others."""
    if refused.iteration is None:
        raise refused
    if refused.iteration <= 1:
        return Run(run.start + run.period, run.period, run.iterations - 1)
    return Run(run.start, run.period, refused.iteration)


class _Loop:
    """One run, looked at."""

    def __init__(self, planner: Planner, run: Run, whole: Run) -> None:
        self.planner, self.run = planner, run
        self.result = LoopPlan(run, whole, planner.nodes)
        # memory that nodes write row by row, and sums that rows are added to: what there was before, and the rows
        self.writes: dict[int, tuple[Value, Moving]] = {}
        self.totals: dict[int, tuple[Value, list[tuple[Moving, int]]]] = {}

    def plan(self) -> LoopPlan:
        """The loop. Raises NoLoop."""
        result = self.result
        self._note_records()
        for position in range(self.run.period):
            result.sources.append(self._node(position))
        for position, (initial, moves) in self.writes.items():
            result.records[position] = Record(position, initial, moves, self._source(position, 1))
        for position, (initial, rows) in self.totals.items():
            parts = tuple([(moves, self._source(at, 1)) for moves, at in rows])
            result.sums[position] = RowSum(position, initial, parts)
        for sources in result.sources:
            for source in sources:
                self._note(source)
        for source_of_row in (*result.written_rows, *result.skipped.values()):
            self._note(source_of_row)
        return result

    def _note(self, source: Source | None) -> None:
        """The loop carries it, or goes over it."""
        if isinstance(source, Slot):
            if not is_typed(self.result.node(0, source.position).outputs[source.index]):
                raise NoLoop("a value of unknown sizes is handed on")
            self.result.slots[source] = None
            self._note(source.newer)
        elif isinstance(source, (LoopRows, MemoryRows, ListedRows, NumberRows)):
            self.result.rows[source] = None
            if isinstance(source, ListedRows) and not is_typed(source.values[0]):
                raise NoLoop("a value of unknown sizes is read from outside")

    # ---- nodes
    def _node(self, position: int) -> list[Source]:
        """The sources of a node's operands; none where nothing is computed."""
        result, node = self.result, self.result.node(0, position)
        if position in self.writes or position in result.skipped:
            return []
        reads_record = self._record_read_by(position)
        if reads_record is not None or (node.op.view is not None and self._moves(position)):
            result.skipped[position] = self._view(position, reads_record)
            return []
        return [self._source(position, leaf) for leaf in range(len(self._leaves(0, position)))]

    def _leaves(self, iteration: int, position: int) -> list[Operand]:
        return self.planner.leaves[self.run.start + iteration * self.run.period + position]

    def _column(self, position: int, leaf: int) -> list[Operand]:
        start, period = self.run.start + position, self.run.period
        leaves = self.planner.leaves
        return [leaves[at][leaf] for at in range(start, start + self.run.iterations * period, period)]

    def _moves(self, position: int) -> bool:
        """Whether a number among a node's arguments changes."""
        first, second = self._leaves(0, position), self._leaves(1, position)
        return any(type(a) is not Value and memo_key(a) != memo_key(b) for a, b in zip(first, second, strict=True))

    def _view(self, position: int, record: tuple[int, bool] | None) -> Source:
        """What stands for the result of a view that moves."""
        nodes = [self.result.node(t, position) for t in range(self.run.iterations)]
        if len(nodes[0].outputs) != 1:
            raise NoLoop(f"{nodes[0].op.name}: a view of several results that moves")
        if record is not None:
            return self._row_of_record(nodes, *record)
        source = self._fitted(self._memory_rows, [n.output for n in nodes])
        if source is None:
            raise NoLoop(f"{nodes[0].op.name}: its place in memory does not move evenly")
        return source

    def _own(self, value: Operand) -> tuple[int, int] | None:
        """The iteration and position of this run that give a value."""
        node = value.node if type(value) is Value else None
        number = None if node is None else self.planner.number.get(node)
        if number is None or not self.run.start <= number < self.run.end:
            return None
        return divmod(number - self.run.start, self.run.period)

    # ---- operands
    def _source(self, position: int, leaf: int) -> Source:
        column = self._column(position, leaf)
        if type(column[0]) is not Value:
            return self._number(position, leaf, column)
        if all([value is column[0] for value in column]):
            if self._own(column[0]) is not None:
                raise NoLoop("a value of the first iteration", 1)
            return Invariant(column[0])
        for rule in (self._earlier, self._memory_rows, self._loop_rows):
            source = self._fitted(rule, column)
            if source is not None:
                return source
        if any([self._own(value) is not None for value in column]):
            raise NoLoop(f"an operand of {self.result.node(0, position).op.name} comes from changing places", 1)
        if not isinstance(column[0].type, TensorType):
            raise NoLoop("each iteration reads another number that the program computes")
        return ListedRows(tuple(column))

    def _fitted(
        self, rule: Callable[[list[Value]], tuple[Source, Callable[[int], bool]] | None], column: list[Value]
    ) -> Source | None:
        """What a rule makes of a column. Raises NoLoop where all but some at an end are so."""
        match = rule(column)
        if match is None:
            return None
        source, holds = match
        wrong = next((t for t in range(1, len(column)) if not holds(t)), None)
        if wrong is None:
            if holds(0):
                return source
            raise NoLoop("the first iteration is another", 1)
        if wrong >= max(3, len(column) // 2):
            raise NoLoop("an iteration is another", wrong)
        return None

    def _earlier(self, column: list[Value]) -> tuple[Source, Callable[[int], bool]] | None:
        """Results of the same iteration, or of earlier ones."""
        for t in range(1, min(MOST_LAG, len(column) - 1) + 1):
            own = self._own(column[t])
            if own is not None:
                break
        else:
            return None
        lag, position, index = t - own[0], own[1], column[t].index
        if lag > MOST_LAG or (lag == 0 and t != 1):
            return None

        def holds(t: int) -> bool:
            if t < lag:
                return self._own(column[t]) is None
            return column[t] is self.result.node(t - lag, position).outputs[index]

        if lag == 0:
            return Inner(position, index), holds
        slot: Slot | None = None
        for back in range(1, lag + 1):
            slot = Slot(position, index, back, column[lag - back], slot)
        assert slot is not None
        return slot, holds

    def _memory_rows(self, column: list[Value]) -> tuple[Source, Callable[[int], bool]] | None:
        """Views of a value from outside."""
        if not is_typed(column[1]):
            return None
        places = self.planner.places
        roots = [places.of(value) for value in column[:3]]
        root, second = roots[1]
        if roots[2][0] is not root or self._own(root) is not None:
            return None
        if second == roots[2][1]:  # the same elements, by several views
            return Invariant(column[1]), lambda t: places.of(column[t]) == (root, second)
        if second == contiguous(dims_of(root)):
            return None
        moves = moving([second, roots[2][1]])
        if moves is None:
            return None
        moves = moves.shifted(-1)

        def holds(t: int) -> bool:
            other, place = places.of(column[t])
            return other is root and place == moves.at(t)

        return MemoryRows(root, moves), holds

    def _loop_rows(self, column: list[Value]) -> tuple[Source, Callable[[int], bool]] | None:
        """What another loop has given, one iteration after the other."""
        first, second = (self.planner.place(value) for value in column[1:3])
        if first is None or second is None or first[0] is not second[0] or first[2] != second[2]:
            return None
        loop, iteration, position = first
        direction = second[1] - iteration
        if direction not in (1, -1) or position in loop.skipped or position in loop.records:
            return None
        index, start = column[1].index, iteration - direction
        ends = (start, start + direction * (len(column) - 1))
        inner = Inner(position, index)
        slot = loop.slot_of(inner)
        is_carried = -1 in ends and slot is not None and not isinstance(slot.initial, tuple)

        def holds(t: int) -> bool:
            at = start + direction * t
            if at == -1 and is_carried:
                return slot is not None and column[t] is slot.initial
            return 0 <= at < loop.run.iterations - is_carried and column[t] is loop.node(at, position).outputs[index]

        if is_carried:
            assert slot is not None
            return LoopRows(loop, slot, start + 1, direction), holds
        return LoopRows(loop, inner, start, direction), holds

    # ---- numbers
    def _number(self, position: int, leaf: int, column: list[Any]) -> Source:
        keys = [memo_key(number) for number in column]
        if all([key == keys[0] for key in keys]):
            return Invariant(column[0])
        node = self.result.node(0, position)
        if all([key == keys[1] for key in keys[1:]]):
            raise NoLoop(f"a number of {node.op.name} changes", 1)
        if not isinstance(node.op.type, Pointwise) or node.op.scalar is None:
            raise NoLoop(f"a number of {node.op.name} changes with each iteration")
        if type(column[0]) in (int, Expr):
            step = column[2] - column[1]
            wrong = next((t for t in range(1, len(column) - 1) if column[t + 1] - column[t] != step), None)
            if wrong is None and column[1] - column[0] == step:
                return Counting(column[0], step)
            raise NoLoop(f"an integer of {node.op.name} does not grow evenly", 1 if wrong is None else wrong)
        if type(column[0]) is float and _takes_doubles(node):
            return NumberRows(tuple(column))
        raise NoLoop(f"a number of {node.op.name} changes with each iteration")

    # ---- memory that is written row by row
    def _note_records(self) -> None:
        """Find nodes that write a row of what they wrote the last time, and rows that are added to something."""
        additions: dict[int, Moving] = {}
        for position in range(self.run.period):
            node = self.result.node(0, position)
            if node.op.scatters is None or not self._moves(position):
                continue
            if is_zeros(self.result.node(1, position).args[0]):  # (the first write may be into zeros)
                additions[position] = self._written(position, dims_of(node.args[0]))
            else:
                self._note_record(position)
        if additions:
            self._note_sums(additions)

    def _note_sums(self, additions: dict[int, Moving]) -> None:
        """Find the sums that rows are added to, each a chain of additions. additions: where rows are put among zeros.
        """
        chains: dict[int, list[tuple[int, int]]] = {}  # by where a sum is last: positions of additions and rows
        for position in range(self.run.period):
            operands = [(o, own) for o in self._leaves(1, position) if (own := self._own(o)) is not None]
            rows = [own[1] for _, own in operands if own[0] == 1 and own[1] in additions]
            if not rows:
                continue
            node = self.result.node(1, position)
            others = [own for o, own in operands if own[1] not in additions]
            if node.op is not aten.add.Tensor.op or node.args[2] != 1 or len(rows) != 1 or len(others) != 1:
                raise NoLoop("a row among zeros is read as a whole")
            lag, other = others[0]
            chain = chains.pop(other) if lag == 1 and other in chains else []
            if not chain and lag == 1:
                raise NoLoop("a row is added to what the iteration made")
            chain.append((position, rows[0]))
            chains[position] = chain
        for last, chain in chains.items():
            self._note_sum(last, chain, additions)

    def _note_sum(self, last: int, chain: list[tuple[int, int]], additions: dict[int, Moving]) -> None:
        """One sum. Its additions, and the rows among zeros, are skipped."""
        before: list[Operand] = [None, *[self.result.node(t, last).output for t in range(self.run.iterations)]]
        first = chain[0][0]
        initial: Value | None = None
        for t in range(self.run.iterations):
            row = self.result.node(t, chain[0][1]).output
            others = [v for v in self._leaves(t, first) if type(v) is Value and v is not row]
            if len(others) != 1 or (t and others[0] is not before[t]) or others[0].type is not row.type:
                raise NoLoop("rows are added to different sums", max(t, 1))
            if t == 0:
                initial = others[0]
                if self._own(initial) is not None:
                    raise NoLoop("rows are added to what the iteration made")
        assert initial is not None
        members = {position for position, _ in chain}
        rows = {row for _, row in chain}
        for position in range(self.run.period):
            for operand in self._leaves(1, position):
                own = self._own(operand)
                if own is not None and position not in members and (own[1] in members or own[1] in rows):
                    raise NoLoop("a sum of rows is read while it is made")
        parts = [(additions[row], row) for _, row in chain]
        result = self.result
        result.skipped.update(dict.fromkeys((*members, *rows), None))
        self.totals[last] = initial, _in_order(parts, dims_of(initial))

    def _written(self, position: int, dims: tuple[Dim, ...]) -> Moving:
        """The part of memory of these dims that a node writes."""
        shown = [_written_by(self.result.node(t, position)) for t in range(self.run.iterations)]
        places = [place for place in shown if place is not None]
        if len(places) < len(shown):
            raise NoLoop(f"{self.result.node(0, position).op.name}: what it writes is no view")
        moves = moving(places)
        if moves is None or along(moves, dims) is None:
            raise NoLoop("the part of memory that is written does not move evenly along one dim")
        return moves

    def _note_record(self, position: int) -> None:
        bases = self._column(position, 0)
        if self._own(bases[0]) is not None:
            raise NoLoop("a part of something is written that was made in the same iteration")
        for t in range(1, len(bases)):
            if bases[t] is not self.result.node(t - 1, position).output:
                raise NoLoop("parts of different memory are written", t)
        moves = self._written(position, dims_of(bases[0]))
        self.writes[position] = bases[0], moves

    def _record_read_by(self, position: int) -> tuple[int, bool] | None:
        """Where memory is written row by row that a node reads, and whether it reads it after that."""
        if not self.writes:
            return None
        for operand in self._leaves(1, position):
            own = self._own(operand)
            if own is not None and own[1] in self.writes:
                return own[1], own[0] == 1
        return None

    def _row_of_record(self, nodes: list[Node], position: int, is_after: bool) -> Source:
        """A view of memory that is written row by row: a row of before, or one that is there since the last write."""
        initial, written = self.writes[position]
        place = contiguous(dims_of(initial))
        if nodes[0].op.view is None or nodes[0].op.view.is_free:
            raise NoLoop(f"{nodes[0].op.name} reads all of a tensor that the loop writes")
        bases = [n.args[0] for n in nodes]
        expected = [initial, *[self.result.node(t, position).output for t in range(len(nodes))]]
        if any([a is not b for a, b in zip(bases, expected[is_after:], strict=False)]):
            raise NoLoop("a part of another tensor is read")
        shown = [shown_by(n, place) for n in nodes]
        moves = None if None in shown else moving([s[0] for s in shown if s is not None])
        if moves is None:
            raise NoLoop(f"{nodes[0].op.name} reads parts that do not move evenly")
        row = self._source(position, 1)
        if moves == written:
            return row if is_after else MemoryRows(initial, moves)
        if not is_after and moves == written.shifted(-1) and isinstance(row, Inner):
            return Slot(row.position, row.index, 1, (initial, moves))
        raise NoLoop("a row is read that another iteration writes")


def _written_by(node: Node) -> Geometry | None:
    """The part of its first operand that a scatter writes."""
    view, rest, index = view_inverted(node)
    if view.view is None or view.view.is_free or node.args[0].type.dtype is not node.args[1].type.dtype:
        return None
    geometries = view_geometries(view, contiguous(dims_of(node.args[0])), rest)
    return None if geometries is None else geometries[index]


def _in_order(parts: list[tuple[Moving, int]], dims: tuple[Dim, ...]) -> list[tuple[Moving, int]]:
    """Rows that are added in each iteration, in the order in which a row gets them that several iterations add to."""
    if len({moves for moves, _ in parts}) == 1:
        return parts
    places = [along(moves, dims) for moves, _ in parts]
    first = places[0]
    assert first is not None
    if any(place is None or (place.dim, place.step) != (first.dim, first.step) for place in places):
        raise NoLoop("rows are added that move differently")
    starts = [place.first * (-1 if first.step > 0 else 1) for place in places if place is not None]
    return [part for _, part in sorted(zip(starts, parts, strict=True), key=lambda pair: pair[0])]


def _takes_doubles(node: Node) -> bool:
    operands = [a.type for a in node.args if type(a) is Value]
    return len(node.outputs) == 1 and takes_doubles(node.outputs[0].type, operands)


def takes_doubles(result: Type, operands: Sequence[Type]) -> bool:
    """Whether a 0-dim tensor of float64 means what a number means to a pointwise operator of this result, whose tensors
    are these."""
    return isinstance(result, TensorType) and result.dtype in (dt.float32, dt.float64) and any(
        isinstance(t, TensorType) and t.dtype is result.dtype and (t.ndim or t.dtype is dt.float64) for t in operands
    )
