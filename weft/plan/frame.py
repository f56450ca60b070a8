"""The frame of a program: the words of numbers, sizes and kernels, the launches that read them, and the slots through
which Python reaches what it touches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from weft.ir.graph import Graph, Node, Operand, Value
from weft.ir.structure import STEPS
from weft.loops.kernel import HostCall, KernelCall, LoweredGraph
from weft.ops.geometry import contiguous
from weft.plan.arena import aligned
from weft.plan.items import Enter, Event, Item, Leave, NumberStep, event_writes, program_items
from weft.plan.numbers import KINDS, is_number
from weft.plan.numpy_layout import graph_symbols, late_binds
from weft.plan.parts import chunk_count, scratch_bytes
from weft.plan.storage import Storage, assign_storage
from weft.plan.words import Words
from weft.runtime.segments import (
    HEADER,
    Check,
    Constant,
    Count,
    HostSegment,
    NumberSlot,
    ObjectSlot,
    Result,
    Slot,
    TensorSlot,
)
from weft.types.dims import Expr
from weft.types.tensor_type import TensorType


class Launch(NamedTuple):
    """One call of a kernel, by words: function, tables (buffers, ints, numbers), scratch address, bytes of scratch for
    each part, extent, parts; the number of its first check; and that of the kernel among all of the program's."""

    function: int
    buffers: int
    ints: int
    numbers: int
    scratch: int
    stride: int
    extent: int
    chunks: int
    check: int
    number: int


class Frame:
    """A program planned: its steps in order, where everything lives, and which word is whose.

    functions   first word of each kernel's address, one after another; `offsets` the first of the arena's slots
    known       symbols that are bound by now, while segments are laid out in order
    """

    def __init__(self, lowered: LoweredGraph) -> None:
        self.lowered = lowered
        self.graph: Graph = lowered.graph
        self.symbols, self.given = graph_symbols(self.graph)
        late = frozenset(self.symbols[self.given :])
        self.items = program_items(lowered, late)
        self.storage: Storage = assign_storage(lowered, self.items, late)
        self.events = self.storage.lives.events
        self.words = Words(self.storage.roots, self.symbols, self.given)
        self.word_of = self._number_words()
        self._node_index = {id(n): i for i, n in enumerate(self.graph.nodes)}
        self._walk_index = {id(n): i for i, n in enumerate(self.graph.walk())}
        self._position = {id(e): i for i, e in enumerate(self.events)}
        self.checks: list[Check] = []
        self.kernels = [e for e in self.events if isinstance(e, KernelCall)]
        self._numbers = {id(k): i for i, k in enumerate(self.kernels)}
        self.parallel = any(chunk_count(k) != 1 for k in self.kernels)
        called = dict.fromkeys(k.function for k in self.kernels)
        first = self.words.take(len(called))
        self.functions = {name: first + i for i, name in enumerate(called)}
        self._ends = self._endings()
        self._given_to = self._find_given()
        self._fresh = {v: r for i, r in self.storage.fresh.items() if type(v := lowered.results[i]) is Value}
        self._params = frozenset(lowered.params)
        self.offsets = self.words.take(len(self.storage.placement.sizes))
        self.known = set(self.symbols[: self.given])
        self.rooms: list[int] = []  # words of the address and size of each piece of memory that native code makes

    def _number_words(self) -> dict[Value, int]:
        """A word for each number: parameters, and what nodes compute."""
        values = [*self.lowered.params, *(v for e in self.events for v in event_writes(e))]
        for event in self.events:
            if isinstance(event, Enter):
                values += [*event.block.node.outputs, *(p for g in event.block.lowered for p in g.params)]
        owners = dict.fromkeys(self.storage.owner(v) for v in values)
        return {v: self.words.take() for v in owners if is_number(v)}

    # ---- steps
    def launch(self, call: KernelCall, buffers: int, scope: int) -> Launch:
        """The call of a kernel whose addresses are in the words from `buffers` on."""
        words, checks = self.words, len(self.checks) if call.raises else -1
        self.checks += [self._check(call.nodes[n]) for n in call.raises]
        scratch = self.storage.late_scratch.get(id(call), self.storage.scratch)
        stride, extent, chunks = (
            words.dims((d,)) for d in (aligned(call.scratch_bytes), call.extent, chunk_count(call))
        )
        return Launch(
            self.functions[call.function], buffers, words.dims(call.ints), words.numbers(call.numbers, scope)[0],
            HEADER + max(scratch, 0), stride, extent, chunks, checks, self._numbers[id(call)])

    def _check(self, node: Node) -> Check:
        place = (node.op.name, self._walk_index.get(id(node), -1))
        if node.op.failure is None:
            return Check(*place)
        error = node.op.failure(*[a.type if isinstance(a, Value) else a for a in node.args])
        return Check(*place, type(error).__name__, str(error))

    def late_buffers(self, run: Iterable[Item]) -> Iterator[TensorSlot]:
        """What a segment needs memory for that could not be planned on entry."""
        needed: dict[int, list[Value]] = {}
        for value, event in self.storage.dynamic.items():
            needed.setdefault(id(event.block if isinstance(event, (Enter, Leave)) else event), []).append(value)
        for item in run:
            yield from map(self._tensor, needed.get(id(item), ()))
            if id(item) in self.storage.late_scratch and isinstance(item, KernelCall):
                yield TensorSlot(
                    self.storage.late_scratch[id(item)], "uint8", self.words.dims((scratch_bytes(item),)), 1
                )

    def rooms_of(self, run: Iterable[Item]) -> list[int]:
        """What steps need memory for that native code makes when they are reached: the words of the address, of how
        much there is, and of how much is needed.
        """
        words: list[int] = []
        for item in run:
            for root, size in self.storage.rooms.get(id(item), ()):
                self.rooms += (HEADER + root, self.words.take())
                words += (*self.rooms[-2:], self.words.dims((size,)))
        return words

    def host_segment(self, item: HostCall) -> HostSegment:
        """A step that Python runs. The symbols that it binds are known from then on."""
        binds = late_binds(item.node, self.known, {s: self.words.symbol(s) for s in self.symbols})
        inputs, outputs = (tuple(self.slot(v) for v in values) for values in (item.inputs, item.outputs))
        return HostSegment(self._node_index[id(item.node)], inputs, outputs, binds, True, self._drops(item))

    def counts(self, item: HostCall) -> tuple[Count, ...]:
        """What a step that only tells a size binds: the number that an earlier one left in a tensor."""
        word = {s: self.words.symbol(s) for s in self.symbols}
        return tuple([Count(b.word, self.slot(item.inputs[0])) for b in late_binds(item.node, self.known, word)])

    def _endings(self) -> list[tuple[int, int]]:
        """(last position that needs it, root) of each array that Python holds, the first to end
        at the end of the list."""
        held = (*self.storage.held, *self.storage.dynamic)
        return sorted(((self.storage.lives.last[v], self.storage.root[v]) for v in held), reverse=True)

    def _drops(self, item: HostCall) -> tuple[int, ...]:
        """Arrays that nothing needs after this step: they are let go, as eager mode would."""
        position, dead = self._position[id(item)], []
        while self._ends and self._ends[-1][0] <= position:
            dead.append(self._ends.pop()[1])
        return tuple(sorted(dead))

    # ---- what Python touches
    def params(self) -> tuple[Slot, ...]:
        """The slots of the parameters."""
        return tuple(map(self.slot, self.lowered.params))

    def results(self) -> tuple[Result, ...]:
        """Where the results are found."""
        return tuple(self._result(i, o) for i, o in enumerate(self.lowered.results))

    def slot(self, value: Value) -> Slot:
        """How Python reaches a value."""
        if is_number(value):
            return NumberSlot(self.word_of[self.storage.owner(value)], KINDS[value.type])  # type: ignore[index]
        if not isinstance(value.type, TensorType):
            return ObjectSlot(self.storage.of(value))
        return self._tensor(value)

    def _tensor(self, value: Value) -> TensorSlot:
        """Dims always; strides and offset where the value is a view that is not simply its buffer
        in row-major order."""
        root, dtype, dims = self.storage.of(value), _dtype_name(value), value.tensor_type.shape
        if value in self.storage.held or (value in self._params and self.storage.root[value] == root):
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
        param_index = self._given_to.get(index, self._given_to.get(operand))
        if param_index is not None:
            return Result("given", self.slot(self.lowered.params[param_index]))
        if is_number(operand):
            return Result("number", self.slot(operand))
        fresh = self._fresh.get(operand)
        if fresh is not None:
            dims = operand.tensor_type.shape
            return Result("fresh", TensorSlot(fresh, _dtype_name(operand), self.words.dims(dims), len(dims)))
        return Result("given" if operand in self._params else "held", self.slot(operand))

    def _find_given(self) -> dict[int | Value, int]:
        """The parameter that each written result lands in, by the result's position and by its value (the first,
        if it lands in several)."""
        landing: dict[int | Value, int] = dict(self.graph.writes)
        for position, param in self.graph.writes:
            landing.setdefault(self.lowered.results[position], param)
        return landing

    def _immediate(self, operand: Operand) -> Result:
        if isinstance(operand, Expr):
            return Result("number", NumberSlot(self.words.dims((operand,)), "int"))
        return Result("value", None, operand)

    def constants(self) -> Iterator[Constant]:
        """Tensors that stand in the program."""
        for root, value in self.storage.constants.items():
            assert value.node is not None
            flat, dims, dtype = value.node.args
            yield Constant(root, dtype.name, tuple(dims), np.array(flat, dtype.numpy).tobytes().hex())

    def notes(self) -> tuple[str, ...]:
        """Each event in words."""
        return tuple(map(_note, self.events))


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
    kind = "number" if isinstance(item, NumberStep) else "size" if item.node.op is STEPS else "numpy"
    return f"{kind} {item.node.op.name}"
