"""The steps of a program in order, as a tree: kernels, numbers, host calls, and native control flow;
and the same flat, for liveness."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from weft.ir.graph import Block, Node, Operand, Value, values_in
from weft.ir.structure import CONSTANT, IF, STEPS
from weft.loops.kernel import BlockStep, HostCall, KernelCall, LoweredGraph, Step
from weft.ops.geometry import contiguous
from weft.plan.numbers import is_native_number, is_number
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dims import Dim, Expr
from weft.types.shape_env import ShapeEnv
from weft.types.tensor_type import TensorType


@dataclass(frozen=True)
class NumberStep:
    """A node whose result is a number, computed by the program itself."""

    node: Node


@dataclass(frozen=True, eq=False)
class CountStep:
    """A node within control flow that tells a size: the number that an earlier one left in a tensor."""

    node: Node

    @property
    def symbols(self) -> frozenset[str]:
        """What the size is called."""
        return bound_symbols(self.node)


@dataclass(frozen=True, eq=False)
class BlockItem:
    """prim::If or prim::Loop that native code runs. `bodies` are the items of each block, `lowered` what they come
    from, `starts` where the rows that a loop goes over begin in their buffers, in bytes; `tables` the rows of what it
    goes over, or stacks, that is no buffer."""

    node: Node
    lowered: tuple[LoweredGraph, ...]
    bodies: tuple[tuple[Item, ...], ...]
    starts: tuple[Dim, ...] = ()
    tables: Mapping[Value, tuple[Value, ...]] = field(default_factory=dict)

    @property
    def is_if(self) -> bool:
        return self.node.op is IF

    @property
    def results(self) -> tuple[Operand, ...]:
        """Results of the only block of a loop."""
        return tuple(self.lowered[0].results)

    @property
    def params(self) -> tuple[Value, ...]:
        """Parameters of a loop's block: index, carried values, slices."""
        return self.lowered[0].params

    @property
    def carried(self) -> tuple[Operand, ...]:
        """Initial values of what a loop carries."""
        return tuple(self.node.args[2])

    @property
    def sliced(self) -> tuple[Value, ...]:
        """What a loop takes one slice of for each iteration."""
        return tuple(self.node.args[3])

    @property
    def reads(self) -> tuple[Value, ...]:
        """What must be there before it begins."""
        return self._rows(self.node.inputs())

    @property
    def writes(self) -> tuple[Value, ...]:
        """What it gives."""
        return self._rows(self.node.outputs)

    def _rows(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """The values, each once, with the rows of tables in their place."""
        if not self.tables:
            return tuple(dict.fromkeys(values))
        return tuple(dict.fromkeys(v for value in values for v in self.tables.get(value, (value,))))


@dataclass(frozen=True, eq=False)
class Enter:
    """Start of control flow: conditions and initial values are read, a loop's results begin to live."""

    block: BlockItem


@dataclass(frozen=True, eq=False)
class Leave:
    """End of one block: its results are read; after an If's first arm its results live."""

    block: BlockItem
    arm: int


Item = KernelCall | HostCall | NumberStep | CountStep | BlockItem
Event = KernelCall | HostCall | NumberStep | CountStep | Enter | Leave


def program_items(lowered: LoweredGraph, late: frozenset[str]) -> list[Item]:
    """The steps in order, with every number that they need computed before them.
    Kernels that compute nothing but numbers become NumberSteps.

    late: symbols bound while the program runs; control flow that mentions one before that is a host call.
    """
    return _Ordering(lowered, lowered.graph.block, late).items()


def bound_symbols(node: Node) -> frozenset[str]:
    """The sizes that a node's results have and that nobody knew before: dims that are a bare `u` symbol."""
    kinds = [v.type for v in node.outputs if isinstance(v.type, TensorType)]
    names = [d.symbol_name for k in kinds for d in k.dims or () if isinstance(d, Expr)]
    return frozenset(n for n in names if n is not None and n[0] == "u")


class _Ordering:
    """Builds the list for one block."""

    def __init__(
        self, lowered: LoweredGraph, block: Block, late: frozenset[str], is_inner: bool = False
    ) -> None:
        self.lowered, self.own, self.late, self.is_inner = lowered, set(block.nodes), late, is_inner
        self.found: list[Item] = []
        self.done: set[Node] = set()
        self.steps = [part for step in lowered.steps for part in self._parts(step)]
        for step in self.steps:
            self.done.update(step.nodes if isinstance(step, KernelCall) else (step.node,))

    def items(self) -> list[Item]:
        """Every step, after the numbers it needs."""
        for step in self.steps:
            if isinstance(step, HostCall) and step.node.op is CONSTANT:
                continue
            for value in step.node.needs() if isinstance(step, BlockItem) else event_reads(step):
                self._need(value)
            self.found.append(step)
        for value in values_in(tuple(self.lowered.results)):
            self._need(value)
        return self.found

    def _need(self, value: Value) -> None:
        """Compute a number that no step computes, once; those of outer blocks are there already."""
        node = value.node
        if node is None or node in self.done or node not in self.own or node.op is CONSTANT or not is_number(value):
            return
        self.done.add(node)
        for operand in node.inputs():
            self._need(operand)
        self.found += self._parts(HostCall(node, node.needs(), node.outputs))

    def _parts(self, step: Step) -> list[Item]:
        if isinstance(step, BlockStep):
            block = native_block(step, self.lowered, self.late)
            return [block] if block is not None else self._in_python(step)
        if isinstance(step, HostCall):
            self.late = self.late - bound_symbols(step.node)
            if self.is_inner and step.node.op is STEPS:
                return [CountStep(step.node)]
        if isinstance(step, HostCall) and is_native_number(step.node):
            return [NumberStep(step.node)]
        if isinstance(step, KernelCall) and step.nodes and all(is_native_number(n) for n in step.nodes):
            return [NumberStep(n) for n in step.nodes]
        return [step]


    def _in_python(self, step: BlockStep) -> list[Item]:
        """Control flow that Python runs, for which tables are tensors."""
        node, tables = step.node, self.lowered.tables
        read = [v.node for v in dict.fromkeys(node.inputs()) if v in tables and v.node not in self.done]
        written = [tables[v][0].node for v in node.outputs if v in tables]
        nodes = [n for n in (*read, node, *written) if n is not None]
        self.done.update(nodes)
        return [HostCall(n, n.needs(), n.outputs) for n in nodes]


# ---- control flow
def native_block(step: BlockStep, outer: LoweredGraph, late: frozenset[str]) -> BlockItem | None:
    """Control flow as native code, or None where only Python can do it."""
    pairs = zip(step.blocks, step.node.blocks, strict=True)
    bodies = tuple(tuple(_Ordering(b, g, late, is_inner=True).items()) for b, g in pairs)
    sliced = () if step.node.op is IF else step.node.args[3]
    tables = {v: rows for v in (*sliced, *step.node.outputs) if (rows := outer.tables.get(v)) is not None}
    item = BlockItem(step.node, step.blocks, bodies, tuple([_start(v, outer) for v in sliced]), tables)
    return item if _is_native(item, outer, late) else None


def _is_native(item: BlockItem, outer: LoweredGraph, late: frozenset[str]) -> bool:
    events = [e for body in item.bodies for e in flat_events(body)]
    if any(isinstance(e, HostCall) for e in events):
        return False
    mentioned = [v for e in events for v in (*event_reads(e), *event_writes(e))]
    mentioned += [v for g in item.lowered for v in values_in(tuple(g.results))]
    sliced = () if item.is_if else item.sliced
    mentioned += [*[v for v in item.node.inputs() if v not in sliced], *item.writes]
    mentioned += [row for v in sliced for row in item.tables.get(v, ())]
    inner = {v for g in item.lowered for v in g.alias}
    if (
        not all(_is_plain(v, outer) for v in mentioned if v not in inner)
        or not all(_has_plain_rows(v, outer) for v in sliced if v not in item.tables)
        or not all(_lies_plain(v, g) for g in item.lowered for v in values_in(tuple(g.results)))
        or not _is_sized([item], set(late))
    ):
        return False
    env = outer.graph.env
    return _fits_if(item, env) if item.is_if else _fits_loop(item, env)


def _is_sized(items: Iterable[Item], late: set[str]) -> bool:
    """Whether all sizes are known where they are first mentioned."""
    for item in items:
        if isinstance(item, CountStep):
            if not item.symbols <= late:  # known by this name around it, and perhaps another number
                return False
            late -= item.symbols
            continue
        mentioned: list[Operand] = [*event_reads(item), *event_writes(item)]
        if isinstance(item, BlockItem):
            mentioned += [*item.node.args[:1], *item.writes, *(p for g in item.lowered for p in g.params)]
        if any(_symbols(v) & late for v in mentioned):
            return False
        if isinstance(item, BlockItem) and not all(_is_sized(body, set(late)) for body in item.bodies):
            return False
    return True


def _symbols(operand: Operand) -> set[str]:
    if not isinstance(operand, Value):
        return operand.symbols() if isinstance(operand, Expr) else set()
    is_complete = isinstance(operand.type, TensorType) and operand.type.is_complete
    return dm.symbols(operand.tensor_type.numel) if is_complete else set()


def _is_plain(value: Value, outer: LoweredGraph) -> bool:
    """Whether a value is a number, or a tensor that lies row-major in a buffer."""
    if is_number(value):
        return True
    return isinstance(value.type, TensorType) and value.type.is_complete and _lies_plain(value, outer)


def _lies_plain(value: Value, lowered: LoweredGraph) -> bool:
    place = lowered.alias.get(value)
    return place is None or place[1] == contiguous(place[1].dims)


def _has_plain_rows(value: Value, lowered: LoweredGraph) -> bool:
    """Whether the rows of a tensor lie one after the other in its buffer, each row-major; from anywhere on."""
    place = lowered.alias.get(value)
    is_complete = isinstance(value.type, TensorType) and value.type.is_complete
    return is_complete and (place is None or place[1].strides == contiguous(place[1].dims).strides)


def _start(value: Value, lowered: LoweredGraph) -> Dim:
    """Where a tensor begins in its buffer, in bytes."""
    place, dtype = lowered.alias.get(value), value.tensor_type.dtype
    return 0 if place is None or dtype is None else place[1].offset * dtype.itemsize


def _fits_if(item: BlockItem, env: ShapeEnv) -> bool:
    arms = [tuple(g.results) for g in item.lowered]
    return (
        _is_condition(item.node.args[0])
        and all(_fits(r, o, env) for arm in arms for r, o in zip(arm, item.node.outputs, strict=True))
    )


def _fits_loop(item: BlockItem, env: ShapeEnv) -> bool:
    trip, condition, _, _, reverse = item.node.args
    going, following = item.results[0], item.results[1 : 1 + len(item.carried)]
    outputs = item.node.outputs
    stacked = item.results[1 + len(item.carried) :]
    if not _is_count(trip) or not isinstance(reverse, bool):
        return False
    if not (_is_condition(condition) and _is_condition(going)) or (item.tables and not condition is going is True):
        return False
    states = item.params[1 : 1 + len(item.carried)]
    return all(
        _fits(a, o, env) and _fits(b, o, env) and p.type is o.type
        for a, b, p, o in zip(item.carried, following, states, outputs, strict=False)
    ) and all(isinstance(y, Value) and isinstance(y.type, TensorType) for y in stacked)


def _is_count(operand: Operand) -> bool:
    if not isinstance(operand, Value) or is_number(operand):
        return True
    return isinstance(operand.type, TensorType) and operand.type.dtype is dt.int64 and operand.type.ndim == 0


def _is_condition(operand: Operand) -> bool:
    if not isinstance(operand, Value):
        return isinstance(operand, bool)
    return is_number(operand) or (isinstance(operand.type, TensorType) and operand.type.dtype is dt.bool_)


def _fits(operand: Operand, output: Value, env: ShapeEnv) -> bool:
    """Whether an operand's value can be moved to where an output lives."""
    if is_number(output):
        return is_number(operand) if isinstance(operand, Value) else isinstance(operand, (bool, int, float, Expr))
    if not isinstance(operand, Value) or not isinstance(operand.type, TensorType):
        return False
    return operand.type is output.type or _same_size(operand.type, output.tensor_type, env)


def _same_size(a: TensorType, b: TensorType, env: ShapeEnv) -> bool:
    """Whether two types are of as many bytes, by what the program's guards say."""
    return (
        a.dtype is b.dtype and a.is_complete and b.is_complete and a.ndim == b.ndim
        and all(env.proves_equal(x, y) for x, y in zip(a.shape, b.shape, strict=True))
    )


# ---- flat
def flat_events(items: Iterable[Item]) -> Iterator[Event]:
    """Everything in program order; an If's arms one after the other."""
    for item in items:
        if not isinstance(item, BlockItem):
            yield item
            continue
        yield Enter(item)
        for arm, body in enumerate(item.bodies):
            yield from flat_events(body)
            yield Leave(item, arm)


def event_reads(event: Event | BlockItem) -> tuple[Value, ...]:
    """Values that must be there, numbers included."""
    if isinstance(event, KernelCall):
        return (*event.reads, *values_in(event.numbers))
    if isinstance(event, HostCall):
        return event.inputs
    if isinstance(event, Leave):
        return tuple(values_in(tuple(event.block.lowered[event.arm].results)))
    if isinstance(event, (Enter, BlockItem)):
        return (event.block if isinstance(event, Enter) else event).reads
    return tuple(dict.fromkeys(event.node.inputs()))


def event_writes(event: Event | BlockItem) -> tuple[Value, ...]:
    """Values that begin to live."""
    if isinstance(event, KernelCall):
        return event.writes
    if isinstance(event, HostCall):
        return event.outputs
    if isinstance(event, Enter):
        return () if event.block.is_if else event.block.writes
    if isinstance(event, Leave):
        return event.block.node.outputs if event.block.is_if and event.arm == 0 else ()
    if isinstance(event, BlockItem):
        return event.writes
    return () if isinstance(event, CountStep) else event.node.outputs


def early_numbers(run: Sequence[Item]) -> tuple[list[NumberStep], set[Value]]:
    """The numbers of a native segment that can be computed before its kernels, so that the kernels between them are one
    table; and the numbers that kernels, control flow or what waits for these leave."""
    waiting = {v for item in run if not isinstance(item, NumberStep) for v in _late_numbers(item)}
    early: list[NumberStep] = []
    for item in run:
        if isinstance(item, NumberStep):
            if any(v in waiting for v in event_reads(item)):
                waiting.add(item.node.output)
            else:
                early.append(item)
    return early, waiting


def _late_numbers(item: Item) -> Iterator[Value]:
    """Numbers that a kernel or control flow leaves: what hangs on them cannot be computed before."""
    events = flat_events([item])
    values = [v for e in events for v in event_writes(e)]
    if isinstance(item, BlockItem):
        values += item.writes
    yield from (v for v in values if is_number(v))


def can_raise(event: Event) -> bool:
    """Whether it may fail while it runs."""
    return isinstance(event, HostCall) or (isinstance(event, KernelCall) and bool(event.raises))
