"""What every program shares: launching kernels from a table, computing sizes, gathering addresses, moving bytes.
Compiled once for a machine.

Straight-line code for hundreds of calls costs LLVM half a millisecond each; a table costs nothing.
Programs call these functions by name, and the loader supplies them.
"""

from __future__ import annotations

from weft.codegen.emit import I8, I32, I64, NULL, PTR, VOID, Function, LType, Module, Signature, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.program.sizes import emit_calculate
from weft.plan.frame import Launch
from weft.runtime.segments import ARENA, HEADER, PARALLEL, POOL, TRACE
from weft.runtime.trace import BEGIN, CAPACITY, COUNT, END, FIRST, NUMBER, PART, RECORD, THREAD, WHOLE

# name -> (result, parameters); the first parameter is the frame, the last a count (but for the clock, which has none)
SERVICES: dict[str, tuple[LType, tuple[LType, ...]]] = {
    "weft_launch_all": (I64, (PTR, PTR, I64)),
    "weft_gather": (I64, (PTR, PTR, PTR, I64)),
    "weft_copy_all": (I64, (PTR, PTR, I64)),
    "weft_place_slots": (I64, (PTR, PTR, PTR, I64)),
    "weft_calculate": (I64, (PTR, PTR, I64)),
    "weft_make_room": (I64, (PTR, PTR, I64)),
    "weft_let_go": (I64, (PTR, PTR, I64)),
    "weft_ticks": (I64, ()),
}
# What a part of a parallel region is told: function, tables, scratch, bytes of scratch for each part, extent,
# lowest failing status; where times are noted, or 0, and the number of the kernel.
_FUNCTION, _BUFFERS, _INTS, _NUMBERS, _SCRATCH, _STRIDE, _EXTENT, _STATUS, _TRACE, _NUMBER, _JOB_WORDS = range(11)


def at(f: Function, frame: Scalar, word: int, name: str = "at") -> Scalar:
    """The address of a word."""
    return f.gep(I64, frame, word, name)


def emit_services(module: Module) -> None:
    """Write the functions of SERVICES."""
    note = _emit_note(module)
    _emit_launch_all(module, _emit_launch(module, note), note)
    _emit_gather(module)
    _emit_copy_all(module)
    _emit_place_slots(module)
    emit_calculate(module)
    _emit_make_room(module)
    _emit_let_go(module)
    f, _ = _service(module, "weft_ticks")
    f.ret(_ticks(f, module))


def _service(module: Module, name: str) -> tuple[Function, tuple[Scalar, ...]]:
    result, params = SERVICES[name]
    f = module.function(name, result, [(t, f"a{i}") for i, t in enumerate(params)])
    return f, f.params


def _emit_launch_all(module: Module, launch: Signature, note: Signature) -> None:
    """Launches in the order of a table; ends with the status of the first that fails, counted from its first check.
    Where times are noted, that is another loop: the usual one asks nothing for each kernel."""
    f, (frame, table, count) = _service(module, "weft_launch_all")
    trace = f.load(PTR, at(f, frame, TRACE), align=8, name="trace")
    with f.if_(f.icmp("ne", trace, NULL), "traced"):
        with f.loop(0, count, name="timed") as loop:
            begin = _ticks(f, module)
            status, check, number = _emit_record(f, launch, frame, table, loop.index, trace)
            f.call(note, [trace, number, const(I64, WHOLE), const(I64, 0), begin, _ticks(f, module)])
            with f.if_(f.icmp("ne", status, 0), "failed"):
                f.ret(f.add(status, check))
        f.ret(const(I64, 0))
    with f.loop(0, count, name="launch") as loop:
        status, check, _ = _emit_record(f, launch, frame, table, loop.index, NULL)
        with f.if_(f.icmp("ne", status, 0), "failed"):
            f.ret(f.add(status, check))
    f.ret(const(I64, 0))


def _emit_record(
    f: Function, launch: Signature, frame: Scalar, table: Scalar, index: Scalar, trace: Scalar
) -> tuple[Scalar, Scalar, Scalar]:
    """One launch of a table: its status, the number of its first check, that of its kernel."""
    record = f.gep(I32, table, f.mul(index, len(Launch._fields)), "record")
    function, buffers, ints, numbers, scratch, stride, extent, chunks, check, number = _words(
        f, record, len(Launch._fields)
    )
    tables = [f.gep(I64, frame, word) for word in (buffers, ints, numbers)]
    pointers = [f.load(PTR, f.gep(I64, frame, word), align=8) for word in (function, scratch)]
    sizes = [f.load(I64, f.gep(I64, frame, word)) for word in (stride, extent, chunks)]
    status = f.call(launch, [frame, pointers[0], *tables, pointers[1], *sizes, trace, number], "status")
    return status, check, number


def _ticks(f: Function, module: Module) -> Scalar:
    """What the processor's clock says, in units of its own; it goes on evenly, and is one for all cores."""
    # x86's counter of cycles, and ARM's, are such clocks; RISC-V's may not be read
    clock = "llvm.readsteadycounter" if module.triple.startswith("riscv") else "llvm.readcyclecounter"
    return f.call(module.declare(clock, I64), [], "ticks")


def _emit_note(module: Module) -> Signature:
    """Notes one time in a trace, unless it is full: then it is only counted."""
    names = ("number", "part", "thread", "begin", "end")
    f = module.function("weft_note", VOID, [(PTR, "trace"), *((I64, n) for n in names)], internal=True)
    trace, *values = f.params
    place = f.atomicrmw("add", at(f, trace, COUNT), const(I64, 1))
    with f.if_(f.icmp("ult", place, f.load(I64, at(f, trace, CAPACITY))), "room"):
        record = f.gep(I64, at(f, trace, FIRST), f.mul(place, RECORD), "record")
        for word, value in zip((NUMBER, PART, THREAD, BEGIN, END), values, strict=True):
            f.store(value, at(f, record, word))
    f.ret()
    return f.signature


def _words(f: Function, record: Scalar, count: int) -> list[Scalar]:
    return [f.sext(f.load(I32, f.gep(I32, record, i)), I64) for i in range(count)]


def _emit_gather(module: Module) -> None:
    """Addresses of the roots in a table, to consecutive words."""
    f, (frame, table, target, count) = _service(module, "weft_gather")
    with f.loop(0, count, name="buffer") as loop:
        (root,) = _words(f, f.gep(I32, table, loop.index), 1)
        address = f.load(I64, f.gep(I64, at(f, frame, HEADER), root), name="address")
        f.store(address, f.gep(I64, target, loop.index))
    f.ret(const(I64, 0))


def _emit_copy_all(module: Module) -> None:
    """Records of target, source (words of addresses) and size (a word)."""
    f, (frame, table, count) = _service(module, "weft_copy_all")
    with f.loop(0, count, name="copy") as loop:
        target, source, size = (f.gep(I64, frame, w) for w in _words(f, f.gep(I32, table, f.mul(loop.index, 3)), 3))
        f.memcpy(f.load(PTR, target, align=8), f.load(PTR, source, align=8), f.load(I64, size))
    f.ret(const(I64, 0))


def _emit_place_slots(module: Module) -> None:
    """The arena's address plus each offset."""
    f, (frame, offsets, slots, count) = _service(module, "weft_place_slots")
    base = f.load(I64, at(f, frame, ARENA), name="arena")
    with f.loop(0, count, name="slot") as loop:
        offset = f.load(I64, f.gep(I64, offsets, loop.index))
        f.store(f.add(base, offset), f.gep(I64, slots, loop.index))
    f.ret(const(I64, 0))


def _emit_make_room(module: Module) -> None:
    """Memory of the sizes that records ask for, where there is less: at least twice as much as before, so that sizes
    that grow from step to step ask seldom. What was in it is lost. Ends with 1 where there is none.
    """
    f, (frame, table, count) = _service(module, "weft_make_room")
    make, free = module.declare("malloc", PTR, [I64]), module.declare("free", VOID, [PTR])
    with f.loop(0, count, name="room") as loop:
        address, room, size = (f.gep(I64, frame, w) for w in _words(f, f.gep(I32, table, f.mul(loop.index, 3)), 3))
        needed, there = f.load(I64, size, name="needed"), f.load(I64, room, name="there")
        with f.if_(f.icmp("ugt", needed, there), "more"):
            with f.if_(f.icmp("ne", there, 0), "again"):
                f.call(free, [f.load(PTR, address, align=8)])
            twice = f.mul(there, 2)
            most = f.select(f.icmp("ugt", needed, twice), needed, twice)
            f.store(const(I64, 0), room)
            f.store(f.call(make, [most], "made"), address, align=8)
            with f.if_(f.icmp("eq", f.load(I64, address), 0), "none"):
                f.ret(const(I64, 1))
            f.store(most, room)
    f.ret(const(I64, 0))


def _emit_let_go(module: Module) -> None:
    """Free the memory of records of address and size."""
    f, (frame, table, count) = _service(module, "weft_let_go")
    free = module.declare("free", VOID, [PTR])
    with f.loop(0, count, name="room") as loop:
        address, room = (f.gep(I64, frame, w) for w in _words(f, f.gep(I32, table, f.mul(loop.index, 2)), 2))
        with f.if_(f.icmp("ne", f.load(I64, room, name="there"), 0), "some"):
            f.call(free, [f.load(PTR, address, align=8)])
            f.store(const(I64, 0), room)
    f.ret(const(I64, 0))


def _emit_launch(module: Module, note: Signature) -> Signature:
    """Runs one kernel in `chunks` parts, over the worker pool if there is more than one.
    Equal sizes give equal parts."""
    part = _emit_part(module, note)
    names = ("frame", "function", "buffers", "ints", "numbers", "scratch")
    f = module.function(
        "weft_launch", I64,
        [
            *((PTR, n) for n in names), *((I64, n) for n in ("stride", "extent", "chunks")),
            (PTR, "trace"), (I64, "number"),
        ],
        internal=True,
    )
    frame, function, buffers, ints, numbers, scratch, stride, extent, chunks, trace, number = f.params
    with f.if_(f.icmp("sle", chunks, 1), "alone"):
        f.ret(f.call_pointer(function, I64, [buffers, ints, numbers, scratch, const(I64, 0), extent]))
    job = f.alloca(I64, _JOB_WORDS, 64, "job")
    for word, value in (
        (_FUNCTION, function), (_BUFFERS, buffers), (_INTS, ints), (_NUMBERS, numbers), (_SCRATCH, scratch),
        (_STRIDE, stride), (_EXTENT, extent), (_STATUS, const(I64, -1)), (_TRACE, trace), (_NUMBER, number),
    ):
        f.store(value, at(f, job, word), align=8)
    pool, parallel = (f.load(PTR, at(f, frame, word), align=8) for word in (POOL, PARALLEL))
    f.call_pointer(parallel, VOID, [pool, part, job, chunks])
    status = f.load(I64, at(f, job, _STATUS), name="status")
    f.ret(f.select(f.icmp("eq", status, -1), const(I64, 0), status))
    return f.signature


def _emit_part(module: Module, note: Signature) -> Scalar:
    """One part: [chunk * extent / chunks, (chunk + 1) * extent / chunks). The lowest failing status wins,
    whatever the order of parts."""
    names = ("chunk", "chunks", "thread")
    f = module.function("weft_part", VOID, [(PTR, "job"), *((I64, n) for n in names)], internal=True)
    job, chunk, chunks, thread = f.params
    function, buffers, ints, numbers, scratch = (
        f.load(PTR, at(f, job, w), align=8) for w in (_FUNCTION, _BUFFERS, _INTS, _NUMBERS, _SCRATCH)
    )
    stride, extent = (f.load(I64, at(f, job, w)) for w in (_STRIDE, _EXTENT))
    begin = f.udiv(f.mul(chunk, extent), chunks)
    end = f.udiv(f.mul(f.add(chunk, 1), extent), chunks)
    own = f.gep(I8, scratch, f.mul(chunk, stride))
    trace = f.load(PTR, at(f, job, _TRACE), align=8)
    is_traced = f.icmp("ne", trace, NULL)
    since = f.alloca(I64, 1, 8, "since")
    with f.if_(is_traced, "started"):
        f.store(_ticks(f, module), since)
    status = f.call_pointer(function, I64, [buffers, ints, numbers, own, begin, end])
    with f.if_(is_traced, "ended"):
        number = f.load(I64, at(f, job, _NUMBER))
        f.call(note, [trace, number, chunk, thread, f.load(I64, since), _ticks(f, module)])
    with f.if_(f.icmp("ne", status, 0), "failed"):
        f.atomicrmw("umin", at(f, job, _STATUS), status)
    f.ret()
    return f.pointer
