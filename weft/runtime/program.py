"""A program: runs a Layout. Native segments are one call each over a frame; host ones are Python between them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from weft.runtime.frame import Array, Frame
from weft.runtime.segments import (
    CHECK_BITS,
    DONE,
    NO_MEMORY,
    ORDER_BITS,
    TOTAL,
    Check,
    HostSegment,
    Layout,
    NativeSegment,
    NumberSlot,
    ObjectSlot,
    Result,
    Segment,
    TensorSlot,
)
from weft.support import errors, limits
from weft.support.counters import counters
from weft.support.errors import OutOfBounds, WeftError, too_large
from weft.support.observers import observers
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dims import Expr

Symbols = Mapping[str, int] | Sequence[int]
HostFunction = Callable[[Sequence[Any], Mapping[str, int]], Sequence[Any]]


class Interrupted(KeyboardInterrupt):
    """An interrupt that came while native code ran: the program has come to its end, and these are its results."""

    def __init__(self, results: list[Any]) -> None:
        super().__init__()
        self.results = results


@dataclass(frozen=True)
class Description:
    """What `explain` shows of a program for given symbols. arena_bytes is None where sizes are not planned
    (no native code)."""

    backend: str
    segments: int
    native_segments: int
    foreign_segments: int
    kernels: int
    arena_bytes: int | None
    steps: tuple[str, ...]


class Program:
    """A compiled graph. `run` may be called from several threads, and again from a host segment of itself.

    layout    what to do
    calls     the native functions by name, each `call(frame address) -> status`; they keep their code alive
    host_function   index of a node -> the Python function that computes it
    pool      (address of the worker pool, address of weft_parallel); `owner` keeps them alive
    where     index of a node -> the user's line, or None
    parts     what it is made of, for who looks at it (codegen/program_parts.py)
    """

    def __init__(
        self,
        layout: Layout,
        calls: Mapping[str, Callable[[int], int]],
        host_function: Callable[[int], HostFunction],
        pool: tuple[int, int] = (0, 0),
        owner: object = None,
        where: Callable[[int], Any] = lambda node: None,
        parts: Callable[[], Any] = lambda: None,
    ) -> None:
        self.layout, self._pool, self._owner, self._where = layout, pool, owner, where
        self._plan, self._end = calls.get(layout.plan), calls.get(layout.end)
        self._segments = tuple(_runnable(s, calls, host_function) for s in layout.segments)
        self._find_parts = parts
        self.is_for_eager = False  # whether its runs are counted apart
        self._ends_native = isinstance(self._segments[-1], _Native) if self._segments else False
        self._native_calls = sum(isinstance(s, NativeSegment) and bool(s.entry) for s in layout.segments)
        self._host_runs = sum(
            not native for native, _ in groupby(isinstance(s, NativeSegment) for s in layout.segments)
        )
        self._constants = tuple((c.root, _constant(c)) for c in layout.constants)
        self._transient = _transient_roots(layout)
        self._fresh = tuple(
            (slot, dt.by_name(slot.dtype).numpy) for slot in dict.fromkeys(_fresh_slots(layout))
        )
        # Most results are arrays that the frame holds anyway; the rest is worked out one by one.
        self._array_roots = [r.slot.root for r in layout.results if _is_held(r)]  # type: ignore[union-attr]
        self._arrays = _getter(self._array_roots)
        self._other_results = tuple((i, r) for i, r in enumerate(layout.results) if not _is_held(r))
        self._given = layout.symbols[: layout.given]
        self._borrows_arena = False
        self._frames: list[Frame] = []

    # ---- running
    def run(self, inputs: Sequence[Any], symbols: Symbols = ()) -> list[Any]:
        """Compute the results, in order. State that the program writes is written in the arrays of its parameters, or,
        if anything raises, not at all.

        inputs: row-major, aligned arrays (Python numbers for number parameters) in the order of the graph's parameters.
        symbols: the values of `layout.symbols[:layout.given]`, by name or in that order.
        Raises OutOfBounds where a bounds check fails.
        """
        frame, results = self._take(), None
        if observers.programs is not None:
            observers.programs.begin(self, frame)
        try:
            frame.fill(inputs)
            values = self._symbol_values(symbols)
            if values != frame.symbols:
                self._size(frame, values)
            if self._borrows_arena:
                frame.borrow_arena()
            for root, dims, dtype in frame.fresh:
                frame.hold(root, np.empty(dims, dtype))
            for segment in self._segments if frame.watch is None else frame.watch.around(self._segments):
                segment.run(self, frame)
            results = self._results(frame)
            self._count()
            self._close(frame)
            return results
        except KeyboardInterrupt as interrupt:  # mostly it came while native code ran, and is raised behind it
            if results is None and not (self._ends_native and frame.words[DONE]):
                self._let_rooms_go(frame)
                raise
            raise Interrupted(self._results(frame) if results is None else results) from interrupt
        except (MemoryError, ValueError, OverflowError) as problem:
            self._close(frame)
            raise too_large("a compiled program", problem) or problem from None
        except BaseException:
            self._close(frame)
            raise

    def let_go(self, arena: bool) -> None:
        """From now on hold no input beyond a call, and, if asked, take turns with others for an arena."""
        self._transient = tuple(sorted({*self._transient, *range(len(self.layout.params))}))
        self._borrows_arena = arena

    def _let_rooms_go(self, frame: Frame) -> None:
        """Free what native code made memory for."""
        if self._end is not None:
            self._end(frame.address)

    def _close(self, frame: Frame) -> None:
        self._let_rooms_go(frame)
        if frame.watch is not None:
            frame.watch.end()
        frame.words[DONE] = 0
        frame.release(self._transient)
        if self._borrows_arena:
            frame.give_arena_back()
        self._give_back(frame)

    def _size(self, frame: Frame, values: tuple[int, ...]) -> None:
        """Compute everything that depends on the symbols alone."""
        frame.bind(values)
        if self._plan is not None:
            self._plan(frame.address)
            if not self._borrows_arena:
                frame.reserve()
        frame.fresh = [(slot.root, frame.dims(slot), dtype) for slot, dtype in self._fresh]
        frame.symbols = values  # only now: had there been no memory, the next call would have to try again

    def _symbol_values(self, symbols: Symbols) -> tuple[int, ...]:
        if isinstance(symbols, tuple):
            return symbols
        if type(symbols) is dict or isinstance(symbols, Mapping):
            return tuple([symbols[name] for name in self._given])
        return tuple(symbols)

    def _take(self) -> Frame:
        try:
            return self._frames.pop()  # atomic: no two threads get the same one
        except IndexError:
            pass
        try:
            return Frame(self.layout, self._constants, self._pool)
        except OverflowError as problem:  # a size that is no number of 64 bits
            raise too_large("a compiled program", problem) or problem from None

    def _give_back(self, frame: Frame) -> None:
        if len(self._frames) < limits.FRAMES_OF_A_PROGRAM:
            self._frames.append(frame)

    def _count(self) -> None:
        if self.is_for_eager:
            counters.eager_calls += 1
            return
        counters.native_calls += self._native_calls
        counters.kernels += self.layout.kernels
        counters.copies += self.layout.copies
        counters.foreign_segments += self._host_runs
        counters.allocations += len(self._fresh)

    def failed(self, status: int) -> Exception:
        """The error of a check, with the operator and the user's line; or that there is no memory."""
        if status == NO_MEMORY:
            return MemoryError()
        check = self.layout.checks[(status & (1 << CHECK_BITS) - 1) - 1]
        where = self._where(check.node)
        if not check.error:
            return OutOfBounds(_bounds_text(check, where))
        order, element = status >> CHECK_BITS & (1 << ORDER_BITS) - 1, status >> CHECK_BITS + ORDER_BITS
        text = check.text.format(order=order, element=element)
        error: type[WeftError] = getattr(errors, check.error)
        return error(text if where is None else f"{where}: {text}")

    @functools.cached_property
    def parts(self) -> Any:
        """What the program is made of: kernels by their numbers, and what Python runs."""
        return self._find_parts()

    def line_of(self, node: int) -> Any:
        """The user's line behind a node, or None."""
        return self._where(node)

    # ---- results
    def _results(self, frame: Frame) -> list[Any]:
        results = list(self._arrays(frame.held)) if self._array_roots else []
        if self._other_results:
            self._add_results(results, frame)
        if self.layout.commits:
            self._commit(frame)
        return results

    def _add_results(self, results: list[Any], frame: Frame) -> None:
        escaped: dict[Any, Array] = {}
        for position, result in self._other_results:
            results.insert(position, self._result(result, frame, escaped, results))

    def _result(self, result: Result, frame: Frame, escaped: dict[Any, Array], others: list[Any]) -> Any:
        kind, slot = result.kind, result.slot
        if isinstance(slot, NumberSlot):
            return frame.read(slot)
        if kind == "value":
            return dm.evaluate(result.value, frame.values) if isinstance(result.value, Expr) else result.value
        if isinstance(slot, ObjectSlot) and not isinstance(frame.held[slot.root], np.ndarray):
            return frame.held[slot.root]
        if slot not in escaped:
            must_copy = kind == "copied" or any(s.root == slot.root for s in escaped)  # type: ignore[union-attr]
            escaped[slot] = self._escaping(frame.read(slot), frame, must_copy, others)  # type: ignore[arg-type]
        return escaped[slot]

    def _escaping(self, value: Array, frame: Frame, must_copy: bool, others: list[Any]) -> Array:
        """The array itself if nobody else sees its memory, else a copy; always row-major.
        others: results that are handed out already."""
        inputs = frame.held[: len(self.layout.params)]
        if must_copy or not value.flags.c_contiguous or _shares(value, inputs) or _shares(value, others):
            counters.allocations += 1
            value = value.copy(order="C")
        return value

    def _commit(self, frame: Frame) -> None:
        """Write results of host calls into state. All sources are read before the first write, for one may show
        another's old bytes."""
        held = frame.held
        written = [held[c.param] for c in self.layout.commits]
        sources = [held[c.source] for c in self.layout.commits]
        sources = [s.copy() if _shares(s, written) else s for s in sources]
        for target, source in zip(written, sources, strict=True):
            np.copyto(target, source.reshape(target.shape), casting="no")

    # ---- looking at it
    def arena_bytes(self, symbols: Symbols = ()) -> int | None:
        """Size of the arena for these symbols; None where there is no plan."""
        if self._plan is None:
            return None
        frame = Frame(self.layout, self._constants, self._pool)
        frame.bind(self._symbol_values(symbols))
        self._plan(frame.address)
        return frame.words[TOTAL]

    def latest(self) -> tuple[list[Any] | None, tuple[int, ...]]:
        """What a run was given last, as far as it is kept (None for the rest), and the symbols; (None, ()) if it was
        never run."""
        for frame in self._frames[-1:]:
            slots = enumerate(self.layout.params)
            inputs = [frame.read(s) if isinstance(s, NumberSlot) else frame.held[i] for i, s in slots]
            return inputs, frame.symbols or ()
        return None, ()

    def describe(self, symbols: Symbols | None = None) -> Description:
        """Steps, kernels, segments; the arena's size too where symbols are given."""
        arena = None if symbols is None else self.arena_bytes(symbols)
        backend = "llvm" if self._native_calls else "numpy"
        count = self._native_calls + self._host_runs
        return Description(
            backend, count, self._native_calls, self._host_runs, self.layout.kernels, arena, self.layout.notes
        )


class _Native:
    """A native segment with its functions."""

    __slots__ = ("buffers", "call", "counts", "plan")

    def __init__(self, segment: NativeSegment, calls: Mapping[str, Callable[[int], int]]) -> None:
        self.call = calls[segment.entry] if segment.entry else None
        self.plan = calls[segment.plan] if segment.plan else None
        self.buffers, self.counts = segment.buffers, segment.counts

    def run(self, program: Program, frame: Frame) -> None:
        for count in self.counts:
            frame.bind_late(count.word, max(int(frame.read(count.slot)), 0))
        if self.plan is not None:
            self.plan(frame.address)
        for slot in self.buffers:
            frame.hold(slot.root, np.empty(frame.dims(slot), dt.by_name(slot.dtype).numpy))
            counters.allocations += 1
        frame.words[DONE] = 0
        if self.call is None:
            return
        status = self.call(frame.address)
        if status:
            raise program.failed(status)


class _Host:
    """A host segment with its Python function."""

    __slots__ = ("function", "segment")

    def __init__(self, segment: HostSegment, host_function: Callable[[int], HostFunction]) -> None:
        self.segment = segment
        self.function = host_function(segment.node)

    def run(self, program: Program, frame: Frame) -> None:
        segment = self.segment
        inputs = [frame.read(slot) for slot in segment.inputs]
        try:
            outputs = self.function(inputs, frame.values)
        except WeftError as error:
            where = program.line_of(segment.node)
            if where is None or str(error).startswith(str(where)):
                raise
            raise type(error)(f"{where}: {error}") from None
        counters.allocations += len(segment.outputs)
        for slot, value in zip(segment.outputs, outputs, strict=True):
            if isinstance(slot, TensorSlot):
                value = _exposed(value, inputs) if segment.exposed else np.asarray(value)
            frame.write(slot, value)
        for bind in segment.binds:
            frame.bind_late(bind.word, outputs[bind.output].shape[bind.axis])
        for root in segment.drops:
            frame.held[root] = None


def _runnable(
    segment: Segment, calls: Mapping[str, Callable[[int], int]], host_function: Callable[[int], HostFunction]
) -> _Native | _Host:
    return _Native(segment, calls) if isinstance(segment, NativeSegment) else _Host(segment, host_function)


def _fresh_slots(layout: Layout) -> list[TensorSlot]:
    """Where the arrays that are made for each call go. A result that occurs twice is one array."""
    return [r.slot for r in layout.results if r.kind == "fresh" and isinstance(r.slot, TensorSlot)]


def _is_held(result: Result) -> bool:
    return result.kind in ("fresh", "given") and not isinstance(result.slot, NumberSlot)


def _getter(positions: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A function that picks elements in C."""
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda items: [items[p] for p in positions]


def _exposed(value: Any, inputs: Sequence[Any]) -> Array:
    """Row-major, aligned, and apart from every input: memory that native code may read at any time
    and nobody writes."""
    array = np.asarray(value)
    if not (array.flags.c_contiguous and array.flags.aligned) or _shares(array, inputs):
        array = array.copy(order="C")
    return array


def _shares(value: Array, others: Sequence[Any]) -> bool:
    return any(isinstance(o, np.ndarray) and np.may_share_memory(value, o) for o in others)


def _constant(constant: Any) -> Array:
    values = np.frombuffer(bytes.fromhex(constant.data), dt.by_name(constant.dtype).numpy)
    copied: Array = values.reshape(constant.dims).copy()
    return copied


def _slots(layout: Layout) -> list[Any]:
    slots: list[Any] = [*layout.params, *(r.slot for r in layout.results if r.slot is not None)]
    for segment in layout.segments:
        slots += segment.buffers if isinstance(segment, NativeSegment) else (*segment.inputs, *segment.outputs)
    return slots


def _transient_roots(layout: Layout) -> tuple[int, ...]:
    """Roots whose arrays belong to one call: everything held but parameters and constants."""
    kept = {*range(len(layout.params)), *(c.root for c in layout.constants)}
    return tuple(sorted({slot.root for slot in _slots(layout) if hasattr(slot, "root")} - kept))


def _bounds_text(check: Check, where: Any) -> str:
    line = f" at {where}" if where is not None else ""
    return f"{check.op}: index out of bounds{line}; an index must be smaller than the size of the dim it selects from"
