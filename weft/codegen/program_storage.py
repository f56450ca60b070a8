"""Where every value of a lowered graph lives: an input's memory, an array made for the call, the arena, a word. Decides what may be updated in place."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from weft.codegen.lower_dims import is_covered
from weft.codegen.plan import Placement, Request, aligned, plan_slots
from weft.codegen.program_foreign import node_inputs
from weft.codegen.program_numbers import can_emit_number, is_number
from weft.ir.graph import Node, Value, values_in
from weft.ir.structure import CONSTANT
from weft.loops.kernel import BlockStep, ForeignStep, KernelCall, LoweredGraph, Step
from weft.types import dims as dm
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType

GRAIN = 1 << 16  # cost (elements times weight) of some 10 us: a chunk below it is not worth handing to another thread
MAX_CHUNKS = 32


@dataclass(frozen=True)
class NumberStep:
    """A node whose result is a number, computed by the program itself."""

    node: Node


Item = KernelCall | ForeignStep | NumberStep


@dataclass(frozen=True)
class Copy:
    """Bytes moved at the end of the program, from root to root."""

    target: int
    source: int
    size: Dim


def chunk_count(call: KernelCall) -> Dim:
    """Into how many parts a kernel is cut: by its sizes alone, so that results are the same for every number of threads."""
    return 1 if call.extent == 1 else _chunks(call.extent, call.cost)


@lru_cache(4096)
def _chunks(extent: Dim, cost: Dim) -> Dim:
    return dm.maximum(1, dm.minimum(dm.minimum(extent, MAX_CHUNKS), cost // GRAIN))


def scratch_bytes(call: KernelCall) -> Dim:
    """Private memory of all parts of a kernel."""
    return aligned(call.scratch_bytes) * chunk_count(call) if call.scratch_bytes != 0 else 0


def value_bytes(value: Value) -> Dim:
    """Bytes of a tensor."""
    return _bytes_of(value.tensor_type)


@lru_cache(4096)
def _bytes_of(type: TensorType) -> Dim:
    assert type.dtype is not None
    return type.numel * type.dtype.itemsize


def program_items(lowered: LoweredGraph) -> list[Item]:
    """The steps in order, with every number that they need computed before them. Control flow is one foreign step."""
    steps: list[Item] = [_item(s) for s in lowered.steps]
    covered = {id(n) for s in steps for n in (s.nodes if isinstance(s, KernelCall) else (s.node,))}
    items: list[Item] = []
    done: set[Node] = set()

    def need(value: Value) -> None:
        node = value.node
        if node is None or node in done or id(node) in covered or node.op is CONSTANT or not is_number(value):
            return
        done.add(node)
        for operand in values_in(node.args):
            need(operand)
        items.append(_item(ForeignStep(node, node_inputs(node), node.outputs)))

    for step in steps:
        if isinstance(step, ForeignStep) and step.node.op is CONSTANT:
            continue
        for value in item_reads(step):
            need(value)
        items.append(step)
    for value in values_in(tuple(lowered.results)):
        need(value)
    return items


def _item(step: Step) -> Item:
    if isinstance(step, BlockStep):
        return ForeignStep(step.node, node_inputs(step.node), step.outputs)
    if isinstance(step, ForeignStep) and can_emit_number(step.node):
        return NumberStep(step.node)
    return step


def item_reads(item: Item) -> tuple[Value, ...]:
    """Values that a step needs, numbers included."""
    if isinstance(item, KernelCall):
        return (*item.reads, *values_in(item.numbers))
    return tuple(dict.fromkeys(values_in(item.node.args))) if isinstance(item, NumberStep) else item.inputs


def item_writes(item: Item) -> tuple[Value, ...]:
    """Values that a step produces."""
    if isinstance(item, KernelCall):
        return item.writes
    return item.node.outputs if isinstance(item, NumberStep) else item.outputs


def can_raise(item: Item) -> bool:
    """Whether a step may fail while it runs."""
    return isinstance(item, ForeignStep) or (isinstance(item, KernelCall) and bool(item.raises))


@dataclass
class Storage:
    """The roots of a program. Parameters come first, the arena's slots last.

    root       root of each buffer (numbers too, where a kernel reads them through an address)
    fresh      result position -> root of the array made for it
    held       buffers that foreign steps leave, `dynamic` those that are allocated once late sizes are known (with the item that needs them)
    numbers    number values with an address, `constants` tensors that stand in the program
    arena      first root of the arena; `placement` says how many follow
    scratch    root of the kernels' scratch memory, -1 without; `late_scratch` those of single items whose need is known late
    copies     copies to results and snapshots, then `commits`, into state, both at the end
    """

    lowered: LoweredGraph
    items: list[Item]
    late: frozenset[str]
    root: dict[Value, int] = field(default_factory=dict)
    roots: int = 0
    fresh: dict[int, int] = field(default_factory=dict)
    copied: dict[int, int] = field(default_factory=dict)
    held: set[Value] = field(default_factory=set)
    dynamic: dict[Value, int] = field(default_factory=dict)
    numbers: dict[int, Value] = field(default_factory=dict)
    constants: dict[int, Value] = field(default_factory=dict)
    arena: int = 0
    placement: Placement = field(default_factory=Placement)
    scratch: int = -1
    late_scratch: dict[int, int] = field(default_factory=dict)
    copies: list[Copy] = field(default_factory=list)
    commits: list[Copy] = field(default_factory=list)
    direct: dict[int, Value] = field(default_factory=dict)

    def of(self, value: Value) -> int:
        """The root of a value, through its alias."""
        return self.root[self.lowered.root(value)]


def assign_storage(lowered: LoweredGraph, items: list[Item], late: frozenset[str]) -> Storage:
    """Decide where everything lives. late: symbols that are bound while the program runs."""
    return _Assignment(lowered, items, late).run()


class _Assignment:
    """The decisions in their order; each looks at what the earlier ones left."""

    def __init__(self, lowered: LoweredGraph, items: list[Item], late: frozenset[str]) -> None:
        self.lowered, self.items, self.late = lowered, items, late
        self.s = Storage(lowered, items, late)
        self.writes = dict(lowered.graph.writes)
        self.written = set(self.writes.values())
        self.producer: dict[Value, int] = {}
        self.first: dict[Value, int] = {}
        self.last: dict[Value, int] = {}
        self.end = len(items)
        self.last_raise = max((i for i, item in enumerate(items) if can_raise(item)), default=-1)

    def run(self) -> Storage:
        self._lives()
        for value in self.lowered.params:
            self.s.root[value] = self._new()
        self._constants()
        self._direct_state()
        self._results()
        self._foreign_and_numbers()
        self._dynamic()
        self._scratch_sizes()
        self._arena()
        self._endings()
        return self.s

    def _new(self) -> int:
        self.s.roots += 1
        return self.s.roots - 1

    # ---- when values live
    def _lives(self) -> None:
        for i, item in enumerate(self.items):
            for value in item_reads(item):
                self.last[self.lowered.root(value)] = i
            for value in item_writes(item):
                self.producer[value] = i
                self.first.setdefault(value, i)
                self.last[value] = max(self.last.get(value, i), i)
        for value in values_in(tuple(self.lowered.results)):
            self.last[self.lowered.root(value)] = self.end

    def _reads_of(self, root: Value, after: int) -> list[int]:
        """Items from `after` on that read a buffer, directly or through an alias."""
        return [i for i in range(after, self.end) if any(self.lowered.root(v) is root for v in item_reads(self.items[i]))]

    # ---- who lives where
    def _constants(self) -> None:
        mentioned = [self.lowered.root(v) for item in self.items for v in item_reads(item)]
        mentioned += [self.lowered.root(v) for v in values_in(tuple(self.lowered.results))]
        for value in mentioned:
            if value.node is not None and value.node.op is CONSTANT and value not in self.s.root:
                self.s.root[value] = self._new()
                self.s.constants[self.s.root[value]] = value

    def _direct_state(self) -> None:
        for position, param in self.lowered.graph.writes:
            value = self.lowered.results[position]
            root = self.lowered.root(value)
            target = self.lowered.params[param]
            if root not in self.s.root and self._may_be_direct(root, target, position):
                self.s.root[root] = self.s.root[target]
                self.s.direct[param] = root

    def _may_be_direct(self, root: Value, target: Value, position: int) -> bool:
        """Whether the kernel that produces `root` may write over the parameter: nothing can fail from then on, and nothing needs the old value."""
        at = self.producer.get(root)
        if at is None or at <= self.last_raise or not isinstance(self.items[at], KernelCall):
            return False
        if root.type is not target.type and value_bytes(root) != value_bytes(target):
            return False
        others = [r for i, r in enumerate(self.lowered.results) if i != position and type(r) is Value]
        if any(self.lowered.root(r) is target for r in others):
            return False
        reads = self._reads_of(target, at)
        return not reads or (reads == [at] and self._overwrites(self.items[at], root, target))

    def _overwrites(self, call: Item, output: Value, source: Value) -> bool:
        """Whether a kernel may put `output` into the memory of `source`, which it reads in one place only."""
        assert isinstance(call, KernelCall)
        places = [i for i, v in enumerate(call.reads) if self.lowered.root(v) is source]
        return len(places) == 1 and (call.writes.index(output), places[0]) in call.in_place

    def _results(self) -> None:
        """An array for each result that leaves: its producer writes into it where it can, else it is copied at the end."""
        seen: set[Value] = set()
        for position, value in enumerate(self.lowered.results):
            if type(value) is not Value or not isinstance(value.type, TensorType) or position in self.writes or value in seen:
                continue
            seen.add(value)
            root = self.lowered.root(value)
            if self._is_written_result(value) or self._is_late(value) or self._is_foreign(root) or self._is_untouched(value):
                continue
            self.s.fresh[position] = self._new()
            if root in self.s.root or root not in self.producer:
                self.s.copied[position] = self.s.fresh[position]
            else:
                self.s.root[root] = self.s.fresh[position]

    def _is_untouched(self, value: Value) -> bool:
        return value in self.lowered.params and self.lowered.params.index(value) not in self.written

    def _is_written_result(self, value: Value) -> bool:
        return any(self.lowered.results[o] is value for o in self.writes)

    def _is_foreign(self, root: Value) -> bool:
        at = self.producer.get(root)
        return at is not None and isinstance(self.items[at], ForeignStep)

    def _is_late(self, value: Value) -> bool:
        return bool(self.late) and isinstance(value.type, TensorType) and bool(dm.symbols(value_bytes(value)) & self.late)

    def _foreign_and_numbers(self) -> None:
        for item in self.items:
            for value in item_writes(item):
                if isinstance(item, ForeignStep) and not is_number(value):
                    self.s.root[value] = self._new()
                    self.s.held.add(value)
            if isinstance(item, KernelCall):
                for value in item.buffers:
                    self._number_address(value)

    def _number_address(self, value: Value) -> None:
        if is_number(value) and (value not in self.s.root or self.s.root[value] < len(self.lowered.params)):
            self.s.root[value] = self._new()
            self.s.numbers[self.s.root[value]] = value

    def _dynamic(self) -> None:
        for i, item in enumerate(self.items):
            for value in item_writes(item):
                if value not in self.s.root and isinstance(item, KernelCall) and self._is_late(value):
                    self.s.root[value] = self._new()
                    self.s.dynamic[value] = i

    def _arena(self) -> None:
        """Everything else, and the scratch memory; kernels run one after another, so they share it."""
        requests = []
        for i, item in enumerate(self.items):
            if isinstance(item, KernelCall):
                requests += [self._request(v, i, item) for v in item.writes if v not in self.s.root]
        env = self.lowered.graph.env
        hint = lambda d: dm.evaluate(d, {s: env.examples.get(s, 64) for s in dm.symbols(d)})  # noqa: E731
        self.s.placement = plan_slots(requests, hint)
        self.s.arena = self.s.roots
        for request in requests:
            self.s.root[request.key] = self.s.arena + self.s.placement.slot[request.key]  # type: ignore[index]
        self._snapshots()
        if self._scratch_total != 0:
            self.s.scratch = self._slot(self._scratch_total)
        self.s.roots += len(self.s.placement.sizes)

    def _request(self, value: Value, at: int, call: KernelCall) -> Request:
        output = call.writes.index(value)
        dying = [self.lowered.root(call.buffers[i]) for o, i in call.in_place if o == output]
        takes = tuple(v for v in dying if self.last[v] == at and self._overwrites(call, value, v) and v not in self.s.root)
        return Request(value, value_bytes(value), at, self.last[value], takes)

    def _slot(self, size: Dim) -> int:
        self.s.placement.sizes.append(size)
        return self.s.arena + len(self.s.placement.sizes) - 1

    def _scratch_sizes(self) -> None:
        """The most that one kernel needs; those that need a late size get memory of their own."""
        total: Dim = 0
        for i, item in enumerate(self.items):
            size = scratch_bytes(item) if isinstance(item, KernelCall) else 0
            if dm.symbols(size) & self.late:
                self.s.late_scratch[i] = self._new()
            else:
                total = size if is_covered(total, size) else dm.maximum(total, size)
        self._scratch_total = total

    # ---- what is moved at the end
    def _snapshots(self) -> None:
        """Old values of written parameters that are written into other parameters: kept aside before the first write."""
        self._snapshot: dict[int, int] = {}
        for position, param in self.lowered.graph.writes:
            source = self.lowered.root(self.lowered.results[position])
            if source in self.lowered.params and source is not self.lowered.params[param]:
                old = self.lowered.params.index(source)
                if old in self.written and old not in self._snapshot:
                    self._snapshot[old] = self._slot(value_bytes(source))

    def _endings(self) -> None:
        for position, root in self.s.copied.items():
            value = self.lowered.results[position]
            self.s.copies.append(Copy(root, self.s.of(value), value_bytes(value)))
        for old, slot in self._snapshot.items():
            self.s.copies.append(Copy(slot, old, value_bytes(self.lowered.params[old])))
        for position, param in self.lowered.graph.writes:
            value = self.lowered.results[position]
            source = self.s.of(value)
            if source != param:
                self.s.commits.append(Copy(param, self._snapshot.get(source, source), value_bytes(value)))

