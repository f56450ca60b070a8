"""A lowered graph as a Layout plus the native functions it names: segments in order, tables, slots for what Python touches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from weft.codegen.emit import Module
from weft.codegen.program.control_flow import emit_if, emit_loop
from weft.codegen.program.functions import SegmentEmitter, emit_plan
from weft.codegen.program.launch import Launch
from weft.ir.graph import Graph, Node, Operand, Value, values_in
from weft.loops.kernel import ForeignStep, KernelCall, LoweredGraph
from weft.ops.geometry import contiguous
from weft.plan.arena import aligned
from weft.plan.items import (
    BlockItem,
    Enter,
    Event,
    Item,
    Leave,
    NumberStep,
    event_reads,
    event_writes,
    flat_events,
    program_items,
)
from weft.plan.numbers import KINDS, is_number
from weft.plan.numpy_layout import graph_symbols, late_binds
from weft.plan.storage import Storage, assign_storage, chunk_count, scratch_bytes
from weft.plan.words import Words
from weft.runtime.segments import (
    HEADER,
    Check,
    Constant,
    ForeignSegment,
    Layout,
    NativeSegment,
    NumberSlot,
    ObjectSlot,
    Result,
    Segment,
    Slot,
    TensorSlot,
)
from weft.types.dims import Expr
from weft.types.tensor_type import TensorType


def native_layout(lowered: LoweredGraph, module: Module) -> Layout:
    """Emit the program's functions into `module`, which has the kernels, and describe how to run them."""
    return _Assembly(lowered, module).layout()


class _Assembly:
    """Everything that is put together for one program."""

    def __init__(self, lowered: LoweredGraph, module: Module) -> None:
        self.lowered, self.module = lowered, module
        self.graph: Graph = lowered.graph
        self.symbols, self.given = graph_symbols(self.graph)
        late = frozenset(self.symbols[self.given :])
        self.items = program_items(lowered, late)
        self.storage: Storage = assign_storage(lowered, self.items, late)
        self.events = self.storage.lives.events
        self.words = Words(self.storage.roots, self.symbols, self.given)
        self.word_of = self._number_words()
        self.node_index = {id(n): i for i, n in enumerate(self.graph.nodes)}
        self.walk_index = {id(n): i for i, n in enumerate(self.graph.walk())}
        self.checks: list[Check] = []
        self.parallel = any(isinstance(e, KernelCall) and chunk_count(e) != 1 for e in self.events)
        called = dict.fromkeys(e.function for e in self.events if isinstance(e, KernelCall))
        for name in {k.function for k in lowered.kernels()} - called.keys():
            module.functions.pop(name, None)  # of numbers alone, which segments compute themselves
        first = self.words.take(len(called))
        self.functions = {name: first + i for i, name in enumerate(called)}  # consecutive words
        self.position = {id(e): i for i, e in enumerate(self.events)}
        self.ending = self._ending()
        self.given_to = self._given_to()
        self.fresh_of = {v: r for i, r in self.storage.fresh.items() if type(v := lowered.results[i]) is Value}
        self.params = frozenset(lowered.params)
        self.offsets = self.words.take(len(self.storage.placement.sizes))
        self.known = set(self.symbols[: self.given])
        self.segments = self.scopes = 0
        # Functions for sizes that are known only while the program runs -> symbols known by then. Emitted last, when every size is listed.
        self.late_plans: dict[str, frozenset[str]] = {}

    def _number_words(self) -> dict[Value, int]:
        """A word for each number: parameters, and what nodes compute."""
        values = [*self.lowered.params, *(v for e in self.events for v in event_writes(e))]
        for event in self.events:
            if isinstance(event, Enter):
                values += [*event.block.node.outputs, *(p for g in event.block.lowered for p in g.params)]
        owners = dict.fromkeys(self.storage.owner(v) for v in values)
        return {v: self.words.take() for v in owners if is_number(v)}

    def layout(self) -> Layout:
        params = tuple(self._param(i, v) for i, v in enumerate(self.lowered.params))
        segments = tuple(self._segments())
        results = tuple(self._result(i, o) for i, o in enumerate(self.lowered.results))
        plan = self._emit_main_plan()
        words, kernels = self.words, sum(isinstance(e, KernelCall) for e in self.events)
        return Layout(
            params, results, segments, self.storage.roots, words.count, tuple(words.preset.items()), self.symbols, self.given,
            words.symbol_word, plan, tuple(sorted({p for _, p in self.graph.writes})), (), tuple(self._constants()), tuple(self.checks),
            kernels, self.parallel, tuple(map(_note, self.events)))

    # ---- segments
    def _segments(self) -> Iterator[Segment]:
        run: list[Item] = []  # consecutive items that native code does in one go
        for item in self.items:
            if not isinstance(item, ForeignStep):
                run.append(item)
                continue
            yield from self._native(run)
            run = []
            yield from self._foreign(item)
        yield from self._native(run, is_last=True)

    def _native(self, run: list[Item], is_last: bool = False) -> Iterator[Segment]:
        endings = [*self.storage.copies, *self.storage.commits] if is_last else []
        if not run and not endings:
            return
        self.segments += 1
        name = f"weft_segment_{self.segments}"
        emitter = SegmentEmitter(self.module, name, self.storage, self.words, self.word_of)
        if self.segments == 1:
            if self.storage.placement.sizes:
                emitter.place_arena(self.offsets)
            emitter.place_numbers(self.storage.numbers)
        self._emit_items(emitter, run)
        emitter.copies(endings)
        emitter.finish()
        yield NativeSegment(name, "", tuple(self._late_buffers(run)))

    def _emit_items(self, emitter: SegmentEmitter, run: Sequence[Item]) -> None:
        """Numbers as early as they can be, so that the kernels between them are one table."""
        self.scopes += 1
        scope, calls = self.scopes, [item for item in run if isinstance(item, KernelCall)]
        roots = [self.storage.of(v) for call in calls for v in call.buffers]
        table = self.words.take(len(roots))
        if roots:
            emitter.gather(table, roots)
        waiting = {v for item in run if not isinstance(item, NumberStep) for v in _late_numbers(item)}
        early = [item for item in run if isinstance(item, NumberStep) and not self._waits(item, waiting)]
        for number in early:
            emitter.number(number.node)
        placed = set(map(id, early))
        launches: list[Launch] = []
        for item in run:
            if isinstance(item, KernelCall):
                if any(v in waiting for v in values_in(item.numbers)):
                    self._flush(emitter, launches)
                emitter.fill_numbers(item, scope)
                launches.append(self._launch(item, table, scope))
                table += len(item.buffers)
            elif id(item) not in placed:
                self._flush(emitter, launches)
                self._emit_single(emitter, item)
        self._flush(emitter, launches)

    def _emit_single(self, emitter: SegmentEmitter, item: Item) -> None:
        """A number that kernels had to be run for, or control flow."""
        if isinstance(item, NumberStep):
            emitter.number(item.node)
        elif isinstance(item, BlockItem):
            emit = emit_if if item.is_if else emit_loop
            emit(emitter, item, lambda arm: self._emit_items(emitter, item.bodies[arm]))

    def _waits(self, item: NumberStep, waiting: set[Value]) -> bool:
        """Whether a number depends on what a kernel of the same segment writes; such numbers join `waiting`."""
        if not any(v in waiting for v in event_reads(item)):
            return False
        waiting.add(item.node.output)
        return True

    def _flush(self, emitter: SegmentEmitter, launches: list[Launch]) -> None:
        if launches:
            emitter.launches(launches)
            launches.clear()

    def _launch(self, call: KernelCall, buffers: int, scope: int) -> Launch:
        words, checks = self.words, len(self.checks) if call.raises else -1
        self.checks += [self._check(call.nodes[n]) for n in call.raises]
        scratch = self.storage.late_scratch.get(id(call), self.storage.scratch)
        stride, extent, chunks = (words.dims((d,)) for d in (aligned(call.scratch_bytes), call.extent, chunk_count(call)))
        return Launch(
            self.functions[call.function], buffers, words.dims(call.ints), words.numbers(call.numbers, scope)[0], HEADER + max(scratch, 0), stride,
            extent, chunks, checks)

    def _check(self, node: Node) -> Check:
        return Check(node.op.name, self.walk_index.get(id(node), -1))

    def _late_buffers(self, run: list[Item]) -> Iterator[TensorSlot]:
        """What a segment needs memory for that could not be planned on entry."""
        needed: dict[int, list[Value]] = {}
        for value, event in self.storage.dynamic.items():
            needed.setdefault(id(event), []).append(value)
        for item in run:
            yield from map(self._tensor, needed.get(id(item), ()))
            if id(item) in self.storage.late_scratch and isinstance(item, KernelCall):
                yield TensorSlot(self.storage.late_scratch[id(item)], "uint8", self.words.dims((scratch_bytes(item),)), 1)

    def _foreign(self, item: ForeignStep) -> Iterator[Segment]:
        binds = late_binds(item.node, self.known, {s: self.words.symbol(s) for s in self.symbols})
        inputs, outputs = (tuple(self._slot(v) for v in values) for values in (item.inputs, item.outputs))
        yield ForeignSegment(self.node_index[id(item.node)], inputs, outputs, binds, True, self._drops(item))
        if binds:
            name = f"weft_late_{len(self.late_plans)}"
            self.late_plans[name] = frozenset(self.known)
            yield NativeSegment("", name)

    def _ending(self) -> list[tuple[int, int]]:
        """(last position that needs it, root) of each array that Python holds, the first to end at the end of the list."""
        held = (*self.storage.held, *self.storage.dynamic)
        return sorted(((self.storage.lives.last[v], self.storage.root[v]) for v in held), reverse=True)

    def _drops(self, item: ForeignStep) -> tuple[int, ...]:
        """Arrays that nothing needs after this step: they are let go, as eager mode would."""
        position, dead = self.position[id(item)], []
        while self.ending and self.ending[-1][0] <= position:
            dead.append(self.ending.pop()[1])
        return tuple(sorted(dead))

    # ---- plans
    def _emit_main_plan(self) -> str:
        sizes = {w: d for w, d in self.words.sizes.items() if not self.words.is_late(d)}
        slots = (self.offsets, self.storage.placement.sizes)
        functions = (min(self.functions.values(), default=0), tuple(self.functions))
        emit_plan(self.module, "weft_plan", self.words, sizes, functions, slots)
        rest = {w: d for w, d in self.words.sizes.items() if w not in sizes}
        for name, known in self.late_plans.items():
            ready = {w: d for w, d in rest.items() if d.symbols() <= known}
            rest = {w: d for w, d in rest.items() if w not in ready}
            emit_plan(self.module, name, self.words, ready)
        return "weft_plan"

    # ---- what Python touches
    def _param(self, index: int, value: Value) -> Slot:
        if is_number(value):
            return NumberSlot(self.word_of[self.storage.owner(value)], KINDS[value.type])  # type: ignore[index]
        if isinstance(value.type, TensorType):
            return TensorSlot(index, _dtype_name(value))
        return ObjectSlot(index)

    def _slot(self, value: Value) -> Slot:
        if is_number(value):
            return NumberSlot(self.word_of[self.storage.owner(value)], KINDS[value.type])  # type: ignore[index]
        if not isinstance(value.type, TensorType):
            return ObjectSlot(self.storage.of(value))
        return self._tensor(value)

    def _tensor(self, value: Value) -> TensorSlot:
        """Dims always; strides and offset where the value is a view that is not simply its buffer in row-major order."""
        root, dtype, dims = self.storage.of(value), _dtype_name(value), value.tensor_type.shape
        if value in self.storage.held or (value in self.params and self.storage.root[value] == root):
            return TensorSlot(root, dtype)
        start = self.words.dims(dims)
        geometry = self.lowered.alias[value][1] if value in self.lowered.alias else None
        if geometry is None or geometry == contiguous(geometry.dims):
            return TensorSlot(root, dtype, start, len(dims))
        strides, offset = self.words.dims(geometry.strides), self.words.dims((geometry.offset,))
        return TensorSlot(root, dtype, start, len(dims), strides, offset)

    def _result(self, index: int, operand: Operand) -> Result:
        if type(operand) is not Value:
            return self._immediate(operand)
        given = self.given_to.get(index, self.given_to.get(operand))
        if given is not None:
            return Result("given", self._param(given, self.lowered.params[given]))
        if is_number(operand):
            return Result("number", self._slot(operand))
        fresh = self.fresh_of.get(operand)
        if fresh is not None:
            dims = operand.tensor_type.shape
            return Result("fresh", TensorSlot(fresh, _dtype_name(operand), self.words.dims(dims), len(dims)))
        return Result("given" if operand in self.params else "held", self._slot(operand))

    def _given_to(self) -> dict[int | Value, int]:
        """The parameter that each written result lands in, by the result's position and by its value (the first, if it lands in several)."""
        found: dict[int | Value, int] = dict(self.graph.writes)
        for position, param in self.graph.writes:
            found.setdefault(self.lowered.results[position], param)
        return found

    def _immediate(self, operand: Operand) -> Result:
        if isinstance(operand, Expr):
            return Result("number", NumberSlot(self.words.dims((operand,)), "int"))
        return Result("value", None, operand)

    def _constants(self) -> Iterator[Constant]:
        for root, value in self.storage.constants.items():
            assert value.node is not None
            flat, dims, dtype = value.node.args
            yield Constant(root, dtype.name, tuple(dims), np.array(flat, dtype.numpy).tobytes().hex())


def _dtype_name(value: Value) -> str:
    dtype = value.tensor_type.dtype
    assert dtype is not None
    return dtype.name


def _note(item: Event) -> str:
    if isinstance(item, KernelCall):
        names = ", ".join(dict.fromkeys(n.op.name for n in item.nodes))
        return f"kernel {item.function}: {names}" if names else f"kernel {item.function}"
    if isinstance(item, (Enter, Leave)):
        return f"{'enter' if isinstance(item, Enter) else 'leave'} {item.block.node.op.name}"
    kind = "number" if isinstance(item, NumberStep) else "numpy"
    return f"{kind} {item.node.op.name}"


def _late_numbers(item: Item) -> Iterator[Value]:
    """Numbers that a kernel or control flow leaves: what hangs on them cannot be computed before."""
    events = flat_events([item])
    values = [v for e in events for v in event_writes(e)]
    if isinstance(item, BlockItem):
        values += item.node.outputs
    yield from (v for v in values if is_number(v))

