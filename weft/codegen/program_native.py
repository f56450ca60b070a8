"""A lowered graph as a Layout plus the native functions it names: segments in order, tables, slots for what Python touches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from weft.codegen.emit import Module, Signature
from weft.codegen.plan import aligned
from weft.codegen.program_emit import Launch, SegmentEmitter, emit_launch, emit_plan
from weft.codegen.program_numbers import KINDS, is_number
from weft.codegen.program_numpy import graph_symbols, late_binds
from weft.codegen.program_storage import (
    Item,
    NumberStep,
    Storage,
    assign_storage,
    chunk_count,
    item_reads,
    item_writes,
    program_items,
    scratch_bytes,
)
from weft.codegen.program_words import Words
from weft.ir.graph import Graph, Node, Operand, Value, values_in
from weft.loops.kernel import ForeignStep, KernelCall, LoweredGraph
from weft.ops.geometry import contiguous
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
        self.items = program_items(lowered)
        self.storage: Storage = assign_storage(lowered, self.items, frozenset(self.symbols[self.given :]))
        self.words = Words(self.storage.roots, self.symbols, self.given)
        self.word_of = self._number_words()
        self.node_index = {id(n): i for i, n in enumerate(self.graph.nodes)}
        self.walk_index = {id(n): i for i, n in enumerate(self.graph.walk())}
        self.checks: list[Check] = []
        self.parallel = any(isinstance(i, KernelCall) and chunk_count(i) != 1 for i in self.items)
        self.launch: Signature = emit_launch(module)
        self.functions: dict[str, int] = {}
        self.offsets = self.words.take(len(self.storage.placement.sizes))
        self.known = set(self.symbols[: self.given])
        self.segments = 0
        # Functions for sizes that are known only while the program runs -> symbols known by then. Emitted last, when every size is listed.
        self.late_plans: dict[str, frozenset[str]] = {}

    def _number_words(self) -> dict[Value, int]:
        """A word for each number: parameters, and what nodes compute."""
        produced = [v for item in self.items for v in item_writes(item)]
        return {v: self.words.take() for v in dict.fromkeys((*self.lowered.params, *produced)) if is_number(v)}

    def layout(self) -> Layout:
        params = tuple(self._param(i, v) for i, v in enumerate(self.lowered.params))
        segments = tuple(self._segments())
        results = tuple(self._result(i, o) for i, o in enumerate(self.lowered.results))
        plan = self._emit_main_plan()
        words, kernels = self.words, sum(isinstance(i, KernelCall) for i in self.items)
        return Layout(
            params, results, segments, self.storage.roots, words.count, tuple(words.preset.items()), self.symbols, self.given,
            words.symbol_word, plan, tuple(sorted({p for _, p in self.graph.writes})), (), tuple(self._constants()), tuple(self.checks),
            kernels, self.parallel, tuple(map(_note, self.items)))

    # ---- segments
    def _segments(self) -> Iterator[Segment]:
        run: list[tuple[int, Item]] = []  # consecutive items that native code does in one go
        for i, item in enumerate(self.items):
            if not isinstance(item, ForeignStep):
                run.append((i, item))
                continue
            yield from self._native(run)
            run = []
            yield from self._foreign(item)
        yield from self._native(run, is_last=True)

    def _native(self, run: list[tuple[int, Item]], is_last: bool = False) -> Iterator[Segment]:
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

    def _emit_items(self, emitter: SegmentEmitter, run: list[tuple[int, Item]]) -> None:
        """Numbers as early as they can be, so that the kernels between them are one table."""
        calls = [item for _, item in run if isinstance(item, KernelCall)]
        roots = [self.storage.of(v) for call in calls for v in call.buffers]
        table = self.words.take(len(roots))
        if roots:
            emitter.gather(table, roots)
        launches: list[Launch] = []
        waiting = {v for call in calls for v in call.writes if is_number(v)}
        for _, item in run:
            if isinstance(item, NumberStep) and not self._waits(item, waiting):
                emitter.number(item.node)
        for call in calls:
            if not any(v in waiting for v in values_in(call.numbers)):
                emitter.fill_numbers(call)
        for i, item in run:
            if isinstance(item, KernelCall):
                if any(v in waiting for v in values_in(item.numbers)):
                    self._flush(emitter, launches)
                    emitter.fill_numbers(item)
                launches.append(self._launch(i, item, table))
                table += len(item.buffers)
            elif isinstance(item, NumberStep) and item.node.output in waiting:
                self._flush(emitter, launches)
                emitter.number(item.node)
        self._flush(emitter, launches)

    def _waits(self, item: NumberStep, waiting: set[Value]) -> bool:
        """Whether a number depends on what a kernel of the same segment writes; such numbers join `waiting`."""
        if not any(v in waiting for v in item_reads(item)):
            return False
        waiting.add(item.node.output)
        return True

    def _flush(self, emitter: SegmentEmitter, launches: list[Launch]) -> None:
        if launches:
            emitter.launches(launches, self.launch)
            launches.clear()

    def _launch(self, index: int, call: KernelCall, buffers: int) -> Launch:
        words, checks = self.words, len(self.checks)
        self.checks += [self._check(call.nodes[n]) for n in call.raises]
        if call.function not in self.functions:
            self.functions[call.function] = words.take()
        scratch = self.storage.late_scratch.get(index, self.storage.scratch)
        stride, extent, chunks = (words.dims((d,)) for d in (aligned(call.scratch_bytes), call.extent, chunk_count(call)))
        return Launch(
            self.functions[call.function], buffers, words.dims(call.ints), words.numbers(call.numbers)[0], HEADER + max(scratch, 0), stride,
            extent, chunks, checks)

    def _check(self, node: Node) -> Check:
        return Check(node.op.name, self.walk_index.get(id(node), -1))

    def _late_buffers(self, run: list[tuple[int, Item]]) -> Iterator[TensorSlot]:
        """What a segment needs memory for that could not be planned on entry."""
        indices = {i for i, _ in run}
        yield from (self._tensor(v) for v, i in self.storage.dynamic.items() if i in indices)
        for i, item in run:
            if i in self.storage.late_scratch and isinstance(item, KernelCall):
                yield TensorSlot(self.storage.late_scratch[i], "uint8", self.words.dims((scratch_bytes(item),)), 1)

    def _foreign(self, item: ForeignStep) -> Iterator[Segment]:
        binds = late_binds(item.node, self.known, {s: self.words.symbol(s) for s in self.symbols})
        inputs, outputs = (tuple(self._slot(v) for v in values) for values in (item_reads(item), item.outputs))
        yield ForeignSegment(self.node_index[id(item.node)], inputs, outputs, binds, True)
        if binds:
            name = f"weft_late_{len(self.late_plans)}"
            self.late_plans[name] = frozenset(self.known)
            yield NativeSegment("", name)

    # ---- plans
    def _emit_main_plan(self) -> str:
        sizes = {w: d for w, d in self.words.sizes.items() if not self.words.is_late(d)}
        slots = (self.offsets, self.storage.placement.sizes)
        emit_plan(self.module, "weft_plan", self.words, sizes, self.functions, slots)
        rest = {w: d for w, d in self.words.sizes.items() if w not in sizes}
        for name, known in self.late_plans.items():
            ready = {w: d for w, d in rest.items() if d.symbols() <= known}
            rest = {w: d for w, d in rest.items() if w not in ready}
            emit_plan(self.module, name, self.words, ready)
        return "weft_plan"

    # ---- what Python touches
    def _param(self, index: int, value: Value) -> Slot:
        if is_number(value):
            return NumberSlot(self.word_of[value], KINDS[value.type])  # type: ignore[index]
        if isinstance(value.type, TensorType):
            return TensorSlot(index, _dtype_name(value))
        return ObjectSlot(index)

    def _slot(self, value: Value) -> Slot:
        if is_number(value):
            return NumberSlot(self.word_of[value], KINDS[value.type])  # type: ignore[index]
        if not isinstance(value.type, TensorType):
            return ObjectSlot(self.storage.of(value))
        return self._tensor(value)

    def _tensor(self, value: Value) -> TensorSlot:
        """Dims always; strides and offset where the value is a view that is not simply its buffer in row-major order."""
        root, dtype, dims = self.storage.of(value), _dtype_name(value), value.tensor_type.shape
        if value in self.storage.held or (value in self.lowered.params and self.storage.root[value] == root):
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
        written = dict(self.graph.writes)
        given = written.get(index, next((p for o, p in self.graph.writes if self.lowered.results[o] is operand), None))
        if given is not None:
            return Result("given", self._param(given, self.lowered.params[given]))
        if is_number(operand):
            return Result("number", self._slot(operand))
        fresh = next((r for i, r in self.storage.fresh.items() if self.lowered.results[i] is operand), None)
        if fresh is not None:
            dims = operand.tensor_type.shape
            return Result("fresh", TensorSlot(fresh, _dtype_name(operand), self.words.dims(dims), len(dims)))
        return Result("given" if operand in self.lowered.params else "held", self._slot(operand))

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


def _note(item: Item) -> str:
    if isinstance(item, KernelCall):
        names = ", ".join(dict.fromkeys(n.op.name for n in item.nodes))
        return f"kernel {item.function}: {names}" if names else f"kernel {item.function}"
    kind = "number" if isinstance(item, NumberStep) else "numpy"
    return f"{kind} {item.node.op.name}"

