"""The C entry of a program that is shipped: functions over plain memory that set up a frame, run the program's segments
over it, and say what went wrong.

The frame lies at the beginning of the arena, which the caller gives: nothing is allocated, and nothing is kept between
two calls but the state. What the functions are for, and in which order their arguments come, says the header that is
written beside the object (weft/export/header.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.codegen.emit import I8, I32, I64, NULL, PTR, VOID, Function, Module, Signature, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.program.functions import put_offsets
from weft.codegen.program.launch import SERVICES, at
from weft.codegen.program.sizes import emit_dim
from weft.plan.arena import ALIGNMENT
from weft.plan.frame import Frame
from weft.plan.sizes import SizeTable
from weft.plan.storage import value_bytes
from weft.plan.words import Words
from weft.runtime import pool_ir
from weft.runtime.segments import (
    ARENA,
    CHECK_BITS,
    HEADER,
    PARALLEL,
    POOL,
    TOTAL,
    Layout,
    NativeSegment,
    NumberSlot,
    TensorSlot,
)
from weft.types.dims import Dim
from weft.types.relation import ShapeGuard

WORD = 8  # bytes
_THREAD_POOL, _THREAD_NUMBER, _THREAD_BYTES = 8, 16, 24  # what a worker is told, behind its handle
POOL_BYTES = pool_ir.STATE_BYTES + _THREAD_BYTES * pool_ir.MAX_CHUNKS + ALIGNMENT
SPIN = 2000  # pauses before a worker sleeps, as the process's own pool has it


@dataclass(frozen=True)
class InState:
    """Bytes of the state, from an offset on."""

    offset: int


@dataclass(frozen=True)
class InInput:
    """The memory that an input points to."""

    index: int


@dataclass(frozen=True)
class FromResult:
    """A result of the program, by its position."""

    position: int


Place = InState | InInput


@dataclass(frozen=True)
class EntryPoint:
    """What the C functions of a program are given, and where it goes.

    name      begins the names of all of them
    params    for each parameter of the program, where its bytes are (a number's: eight of them)
    sizes     the symbols that come as arguments, with the least and the largest value of each; names: for texts
    symbols   of all symbols that are bound on entry: a size in terms of those, or where its eight bytes are
    checks    what is asked about sizes, with texts for where the answer is another one
    asked     the same about all symbols
    outputs   what is stored where each output points to: a result, or an integer of the symbols
    late      symbols that the program itself determines, and the positions of the results that have them
    updates   offsets of numbers in the state, and what they are afterwards
    flags     offsets of bytes in the state, and what they are afterwards
    has_pool  whether the object has a worker pool
    """

    name: str
    params: tuple[Place, ...]
    sizes: Mapping[str, tuple[int, int]]
    names: Mapping[str, str]
    symbols: Mapping[str, Place | Dim]
    checks: tuple[tuple[ShapeGuard, str], ...]
    asked: tuple[tuple[ShapeGuard, str], ...]
    outputs: tuple[FromResult | Dim, ...]
    late: Mapping[str, int]
    updates: tuple[tuple[int, FromResult | Dim], ...]
    flags: tuple[tuple[int, bool], ...]
    has_pool: bool

    @property
    def exports(self) -> tuple[str, ...]:
        """The functions that others may call."""
        names = ["step", "arena_bytes", "text", *(["pool_start", "pool_stop"] if self.has_pool else [])]
        return tuple(f"{self.name}_{n}" for n in names)


def emit_entry_point(module: Module, entry: EntryPoint, frame: Frame, layout: Layout) -> Dim:
    """Write the functions of an entry point into the module that has the program's own. Returns how many bytes its
    arena needs."""
    emitter = _Emitter(module, entry, frame, layout)
    emitter.emit()
    return emitter.arena_at + ALIGNMENT + frame.storage.placement.total


class _Emitter:
    """The functions of one entry point. texts: what each status says."""

    def __init__(self, module: Module, entry: EntryPoint, frame: Frame, layout: Layout) -> None:
        self.module, self.entry, self.frame, self.layout = module, entry, frame, layout
        self.texts: dict[int, str] = {0: "no error"}
        self.params = frame.lowered.params
        outputs = [o.position for o in entry.outputs if isinstance(o, FromResult)]
        fresh = {position: r.slot.root for position, r in enumerate(layout.results) if _is_fresh(r)}  # type: ignore[union-attr]
        self.output_of: dict[int, int] = {}  # the output whose memory a root is
        for j, output in enumerate(entry.outputs):
            if isinstance(output, FromResult) and output.position in fresh:
                self.output_of.setdefault(fresh[output.position], j)
        assert all(r.kind != "held" for i, r in enumerate(layout.results) if i in outputs)
        # results that nobody gets: single numbers, each in a line of its own behind the frame
        self.private = {
            root: i for i, root in enumerate(dict.fromkeys(r for r in fresh.values() if r not in self.output_of))
        }
        self.constants = [(c.root, bytes.fromhex(c.data)) for c in layout.constants]
        self.private_at = _rounded(WORD * layout.words)
        self.constants_at = self.private_at + ALIGNMENT * len(self.private)
        self.arena_at = self.constants_at + sum(_rounded(len(data)) for _, data in self.constants)

    def emit(self) -> None:
        check = self._emit_check()
        self._emit_arena_bytes(check)
        self._emit_step(check)
        if self.entry.has_pool:
            self._emit_pool()
        self._emit_text()

    def _function(self, name: str, params: Sequence[str], internal: bool = False) -> Function:
        return self.module.function(f"{self.entry.name}_{name}", I64, [(PTR, p) for p in params], internal=internal)

    def _failure(self, text: str) -> Scalar:
        """The status of a call that is refused: numbers below zero."""
        status = -2 - sum(s < 0 for s in self.texts)
        self.texts[status] = text
        return const(I64, status)

    # ---- sizes
    def _sizes(self, f: Function, sizes: Scalar) -> dict[str, Scalar]:
        return {name: f.load(I64, at(f, sizes, i), name=name) for i, name in enumerate(self.entry.sizes)}

    def _emit_check(self) -> Signature:
        """A function that says whether the program may be run for these sizes: 0, or a status."""
        f = self._function("check", ["sizes"], internal=True)
        symbols = self._sizes(f, f.params[0])
        for name, (least, most) in self.entry.sizes.items():
            text = f"{self.entry.names[name]} must lie between {least} and {most}"
            is_less, is_more = f.icmp("slt", symbols[name], least), f.icmp("sgt", symbols[name], most)
            with f.if_(f.or_(is_less, is_more), "outside"):
                f.ret(self._failure(text))
        self._ask(f, self.entry.checks, symbols)
        f.ret(const(I64, 0))
        return f.signature

    def _ask(self, f: Function, checks: Sequence[tuple[ShapeGuard, str]], symbols: Mapping[str, Scalar]) -> None:
        for guard, text in checks:
            value = emit_dim(f, guard.relation.expr, symbols)
            holds = f.icmp("eq" if guard.relation.op == "==" else "slt", value, 0)
            with f.if_(f.not_(holds) if guard.answer else holds, "refused"):
                f.ret(self._failure(text))

    def _emit_arena_bytes(self, check: Signature) -> None:
        """How much memory a call with these sizes needs besides state, inputs and outputs; or a status below zero."""
        f = self._function("arena_bytes", ["sizes"])
        (sizes,) = f.params
        problem = f.call(check, [sizes])
        with f.if_(f.icmp("ne", problem, 0), "refused"):
            f.ret(problem)
        slots = self.frame.storage.placement.sizes
        words = Words(0, self.frame.symbols, self.frame.given)
        table = SizeTable(words)
        put_offsets(table, words.take(len(slots)), slots)
        small = f.alloca(I64, words.count, ALIGNMENT, "words")
        preset = [words.preset.get(i, 0) for i in range(words.count)]
        f.memcpy(small, self.module.table("weft_preset", I64, preset), const(I64, WORD * words.count))
        symbols = self._sizes(f, sizes)
        for name, place in self.entry.symbols.items():
            if not isinstance(place, (InState, InInput)) and name in self.frame.symbols[: self.frame.given]:
                f.store(emit_dim(f, place, symbols), at(f, small, words.symbol(name)))
        callee = self.module.declare("weft_calculate", *SERVICES["weft_calculate"])
        f.call(callee, [small, self.module.table("weft_sizes", I32, table.numbers), const(I64, len(table))])
        f.ret(f.add(f.load(I64, at(f, small, TOTAL)), self.arena_at + ALIGNMENT))

    # ---- the step
    def _emit_step(self, check: Signature) -> None:
        f = self._function("step", ["state", "inputs", "outputs", "sizes", "arena", "pool"])
        state, inputs, outputs, sizes, arena, pool = f.params
        problem = f.call(check, [sizes])
        with f.if_(f.icmp("ne", problem, 0), "refused"):
            f.ret(problem)
        call = _Call(f, state, inputs, outputs, _aligned(f, arena))
        symbols = self._symbols(call, sizes)
        self._ask(f, self.entry.asked, symbols)
        self._fill_frame(call, symbols, pool)
        f.call(Signature(self.layout.plan, I64, (PTR,)), [call.frame])
        self._run(call)
        symbols |= {name: self._result(call, position) for name, position in self.entry.late.items()}
        self._store_outputs(call, symbols)
        new = [(offset, self._value(call, value, symbols)) for offset, value in self.entry.updates]
        for offset, number in new:
            f.store(number, f.gep(I8, state, offset), align=WORD)
        for offset, flag in self.entry.flags:
            f.store(const(I8, flag), f.gep(I8, state, offset))
        f.ret(const(I64, 0))

    def _symbols(self, call: _Call, sizes: Scalar) -> dict[str, Scalar]:
        """The values of the symbols that are bound on entry."""
        f, symbols = call.f, self._sizes(call.f, sizes)
        for name, place in self.entry.symbols.items():
            if name not in symbols:
                is_there = isinstance(place, (InState, InInput))
                symbols[name] = (
                    f.load(I64, call.address(place), name=name) if is_there else emit_dim(f, place, symbols)  # type: ignore[arg-type]
                )
        return symbols

    def _fill_frame(self, call: _Call, symbols: Mapping[str, Scalar], pool: Scalar) -> None:
        f, frame, layout = call.f, call.frame, self.layout
        f.memset(frame, 0, const(I64, WORD * layout.words))
        self._store_preset(f, frame)
        f.store(f.gep(I8, frame, self.arena_at), at(f, frame, ARENA), align=WORD)
        parallel = self.module.declare("weft_parallel", VOID, [PTR, PTR, PTR, I64])
        none = self.module.variable("weft_no_pool", I64, pool_ir.STATE_BYTES // WORD)
        is_alone = f.icmp("eq", pool, NULL)
        f.store(f.select(is_alone, none, _aligned(f, pool)), at(f, frame, POOL), align=WORD)
        f.store(Scalar(PTR, "@" + parallel.name), at(f, frame, PARALLEL), align=WORD)
        for slot, place in zip(layout.params, self.entry.params, strict=True):
            address = call.address(place)
            if isinstance(slot, TensorSlot):
                f.store(address, at(f, frame, HEADER + slot.root), align=WORD)
            else:
                assert isinstance(slot, NumberSlot)
                f.store(f.load(I64, address), at(f, frame, slot.word))
        for i, name in enumerate(layout.symbols[: layout.given]):
            f.store(symbols[name], at(f, frame, layout.symbol_word + i))
        self._place_constants(f, frame)
        for root, j in self.output_of.items():
            f.store(call.output(j), at(f, frame, HEADER + root), align=WORD)
        for root, number in self.private.items():
            f.store(f.gep(I8, frame, self.private_at + ALIGNMENT * number), at(f, frame, HEADER + root), align=WORD)

    def _place_constants(self, f: Function, frame: Scalar) -> None:
        """Copies of the tensors that stand in the program: kernels may write there."""
        offset = self.constants_at
        for root, data in self.constants:
            place = f.gep(I8, frame, offset)
            content = self.module.table("weft_constant", I8, np.frombuffer(data, np.int8).tolist())
            f.memcpy(place, content, const(I64, len(data)))
            f.store(place, at(f, frame, HEADER + root), align=WORD)
            offset += _rounded(len(data))

    def _store_preset(self, f: Function, frame: Scalar) -> None:
        """The words that never change."""
        preset = dict(self.layout.preset)
        words = self.module.table("weft_words", I32, list(preset))
        contents = self.module.table("weft_contents", I64, list(preset.values()))
        with f.loop(0, const(I64, len(preset)), name="preset") as loop:
            word = f.sext(f.load(I32, f.gep(I32, words, loop.index)), I64)
            f.store(f.load(I64, f.gep(I64, contents, loop.index)), f.gep(I64, frame, word))

    def _run(self, call: _Call) -> None:
        """The segments in order, with what binds the sizes between them."""
        f, frame = call.f, call.frame
        for segment in self.layout.segments:
            assert isinstance(segment, NativeSegment)
            for count in segment.counts:
                number = self._slot(call, count.slot)
                f.store(f.select(f.icmp("slt", number, 0), const(I64, 0), number), at(f, frame, count.word))
            if segment.plan:
                f.call(Signature(segment.plan, I64, (PTR,)), [frame])
            if segment.entry:
                status = f.call(Signature(segment.entry, I64, (PTR,)), [frame], "status")
                with f.if_(f.icmp("ne", status, 0), "failed"):
                    f.ret(status)
        for i, check in enumerate(self.layout.checks):
            where = list(self.frame.graph.walk())[check.node].where if check.node >= 0 else None
            text = check.text or f"{check.op}: index out of bounds"
            self.texts[1 + i] = text if where is None else f"{where}: {text}"

    def _slot(self, call: _Call, slot: object) -> Scalar:
        """The integer in a word, or in a 0-dim tensor."""
        if isinstance(slot, NumberSlot):
            return call.f.load(I64, at(call.f, call.frame, slot.word))
        assert isinstance(slot, TensorSlot)
        address = call.root(slot.root)
        if slot.offset >= 0:
            address = call.f.gep(I64, address, call.f.load(I64, at(call.f, call.frame, slot.offset)))
        return call.f.load(I64, address)

    def _result(self, call: _Call, position: int) -> Scalar:
        """The eight bytes of a result that is a number, or a 0-dim tensor of one."""
        return self._slot(call, self.layout.results[position].slot)

    def _value(self, call: _Call, value: FromResult | Dim, symbols: Mapping[str, Scalar]) -> Scalar:
        return self._result(call, value.position) if isinstance(value, FromResult) else emit_dim(call.f, value, symbols)

    def _store_outputs(self, call: _Call, symbols: Mapping[str, Scalar]) -> None:
        """What is not computed where the outputs are."""
        for j, output in enumerate(self.entry.outputs):
            slot = self.layout.results[output.position].slot if isinstance(output, FromResult) else None
            if not isinstance(slot, TensorSlot):
                call.f.store(self._value(call, output, symbols), call.output(j), align=WORD)
            elif self.output_of.get(slot.root) != j:
                assert isinstance(output, FromResult)
                value = self.frame.lowered.results[output.position]
                size = emit_dim(call.f, value_bytes(value), symbols)
                call.f.memcpy(call.output(j), call.root(slot.root), size)

    # ---- the pool
    def _emit_pool(self) -> None:
        """Functions that start and end the workers of a pool in memory that the caller gives."""
        module, name = self.module, self.entry.name
        worker = module.declare("weft_pool_worker", VOID, [PTR, I64])
        thread = module.function(f"{name}_thread", PTR, [(PTR, "record")], internal=True)
        (record,) = thread.params
        pool = thread.load(PTR, thread.gep(I8, record, _THREAD_POOL), align=WORD)
        thread.call(worker, [pool, thread.load(I64, thread.gep(I8, record, _THREAD_NUMBER))])
        thread.ret(NULL)
        self._emit_pool_start(thread.pointer)
        self._emit_pool_stop()

    def _emit_pool_start(self, thread: Scalar) -> None:
        """The number of threads that take part, the caller of a step among them."""
        f = self.module.function(f"{self.entry.name}_pool_start", I64, [(PTR, "pool"), (I64, "threads")])
        pool, threads = _aligned(f, f.params[0]), f.params[1]
        create = self.module.declare("pthread_create", I32, [PTR, PTR, PTR, PTR])
        f.memset(pool, 0, const(I64, POOL_BYTES - ALIGNMENT))
        f.store(const(I64, SPIN), f.gep(I8, pool, pool_ir.SPIN))
        most = const(I64, pool_ir.MAX_CHUNKS)
        wanted = f.select(f.icmp("sgt", threads, most), most, threads)
        count = f.alloca(I64, 1, WORD, "count")
        f.store(const(I64, 1), count)
        with f.loop(1, wanted, name="worker"):
            number = f.load(I64, count)
            record = _thread_record(f, pool, number)
            f.store(pool, f.gep(I8, record, _THREAD_POOL), align=WORD)
            f.store(number, f.gep(I8, record, _THREAD_NUMBER))
            status = f.call(create, [record, NULL, thread, record])
            f.store(f.add(number, f.zext(f.icmp("eq", status, 0), I64)), count)
        f.store(f.sub(f.load(I64, count), 1), f.gep(I8, pool, pool_ir.WORKERS))
        f.ret(f.load(I64, count))

    def _emit_pool_stop(self) -> None:
        f = self.module.function(f"{self.entry.name}_pool_stop", VOID, [(PTR, "pool")])
        pool = _aligned(f, f.params[0])
        join = self.module.declare("pthread_join", I32, [I64, PTR])
        stop = self.module.declare("weft_pool_stop", VOID, [PTR])
        workers = f.load(I64, f.gep(I8, pool, pool_ir.WORKERS))
        f.store(const(I64, 0), f.gep(I8, pool, pool_ir.WORKERS))
        f.call(stop, [pool])
        with f.loop(0, workers, name="worker") as loop:
            record = _thread_record(f, pool, f.add(loop.index, 1))
            f.call(join, [f.load(I64, record), NULL])
        f.ret()

    # ---- texts
    def _emit_text(self) -> None:
        """What a status says, as text that ends in a zero byte."""
        f = self.module.function(f"{self.entry.name}_text", PTR, [(I64, "status")])
        (status,) = f.params
        is_check = f.icmp("sgt", status, 0)
        number = f.select(is_check, f.and_(status, (1 << CHECK_BITS) - 1), status, "number")
        blocks = [(number, f.block("text"), text) for number, text in self.texts.items()]
        other = f.block("other")
        f.switch(number, other, [(number, label) for number, label, _ in blocks])
        for label, text in [*[(label, text) for _, label, text in blocks], (other, "unknown status")]:
            f.place(label)
            signed = np.frombuffer(text.encode() + b"\0", np.int8)
            f.ret(self.module.table("weft_text", I8, signed.tolist(), 1))


class _Call:
    """What one call of the step is given."""

    def __init__(self, f: Function, state: Scalar, inputs: Scalar, outputs: Scalar, frame: Scalar) -> None:
        self.f, self.state, self.inputs, self.outputs, self.frame = f, state, inputs, outputs, frame

    def address(self, place: Place) -> Scalar:
        """Where bytes of the state, or of an input, are."""
        if isinstance(place, InState):
            return self.f.gep(I8, self.state, place.offset)
        return self.f.load(PTR, self.f.gep(PTR, self.inputs, place.index), align=WORD)

    def output(self, index: int) -> Scalar:
        """Where an output goes."""
        return self.f.load(PTR, self.f.gep(PTR, self.outputs, index), align=WORD)

    def root(self, root: int) -> Scalar:
        """Where a root of the frame is."""
        return self.f.load(PTR, at(self.f, self.frame, HEADER + root), align=WORD)


def _is_fresh(result: object) -> bool:
    return getattr(result, "kind", "") == "fresh"


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _aligned(f: Function, address: Scalar) -> Scalar:
    """The first multiple of the alignment that is not before an address."""
    place = f.alloca(PTR, 1, WORD, "address")
    f.store(address, place, align=WORD)
    number = f.load(I64, place)
    return f.gep(I8, address, f.and_(f.sub(const(I64, 0), number), ALIGNMENT - 1))


def _thread_record(f: Function, pool: Scalar, number: Scalar) -> Scalar:
    first = f.gep(I8, pool, pool_ir.STATE_BYTES - _THREAD_BYTES)  # (numbers begin with 1)
    return f.gep(I8, first, f.mul(number, _THREAD_BYTES), "record")
