"""The native half of a program: functions over its frame that compute sizes, fill tables and call kernels in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.codegen.emit import F64, I8, I32, I64, PTR, VOID, Function, Module, Signature, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.lower_dims import DimLowering
from weft.codegen.plan import ALIGNMENT, aligned
from weft.codegen.program_numbers import emit_number
from weft.codegen.program_storage import Copy, Storage, chunk_count
from weft.codegen.program_words import Words
from weft.ir.graph import Node, Value
from weft.loops.kernel import KernelCall
from weft.runtime.segments import ARENA, HEADER, PARALLEL, POOL, TOTAL
from weft.types.dims import Dim, Expr
from weft.types.tensor_type import FLOAT

KERNEL_PARAMS = (PTR, PTR, PTR, PTR, I64, I64)
# What a part of a parallel region is told: function, tables, scratch, bytes of scratch for each part, extent, lowest failing status.
_FUNCTION, _BUFFERS, _INTS, _NUMBERS, _SCRATCH, _STRIDE, _EXTENT, _STATUS, _JOB_WORDS = range(9)


def at(f: Function, frame: Scalar, word: int, name: str = "at") -> Scalar:
    """The address of a word."""
    return f.gep(I64, frame, word, name)


def emit_plan(module: Module, name: str, words: Words, sizes: dict[int, Expr], slots: tuple[int, Sequence[Dim]] | None = None) -> None:
    """A function that stores sizes, and, given (first offset word, slot sizes), the slots' offsets and the arena's total."""
    f = module.function(name, I64, [(PTR, "frame")])
    frame = f.params[0]
    lowering = size_lowering(f, frame, words)
    for word, dim in sizes.items():
        f.store(lowering.value(dim), at(f, frame, word))
    if slots is not None:
        _emit_offsets(f, frame, lowering, *slots)
    f.ret(const(I64, 0))


def _emit_offsets(f: Function, frame: Scalar, lowering: DimLowering, word: int, sizes: Sequence[Dim]) -> None:
    offset: Scalar = const(I64, 0)
    for i, size in enumerate(sizes):
        f.store(offset, at(f, frame, word + i))
        padded = f.and_(f.add(lowering.value(size), ALIGNMENT - 1), -ALIGNMENT)
        offset = f.add(offset, padded, "offset")
    f.store(offset, at(f, frame, TOTAL))


def size_lowering(f: Function, frame: Scalar, words: Words) -> DimLowering:
    """Dims from the symbols' words. Use it in the entry block only."""
    loaded: dict[str, Scalar] = {}

    def symbol(name: str) -> Scalar:
        if name not in loaded:
            loaded[name] = f.load(I64, at(f, frame, words.symbol(name)), name=name)
        return loaded[name]

    return DimLowering(f, symbol)


def emit_launch(module: Module) -> Signature:
    """The function that runs a kernel in `chunks` parts, over the worker pool if there is more than one. Equal sizes give equal parts."""
    part = _emit_part(module)
    names = ("frame", "function", "buffers", "ints", "numbers", "scratch")
    f = module.function("weft_launch", I64, [*((PTR, n) for n in names), *((I64, n) for n in ("stride", "extent", "chunks"))], internal=True)
    frame, function, buffers, ints, numbers, scratch, stride, extent, chunks = f.params
    with f.if_(f.icmp("sle", chunks, 1), "alone"):
        f.ret(f.call_pointer(function, I64, [buffers, ints, numbers, scratch, const(I64, 0), extent]))
    job = f.alloca(I64, _JOB_WORDS, 64, "job")
    for word, value in ((_FUNCTION, function), (_BUFFERS, buffers), (_INTS, ints), (_NUMBERS, numbers), (_SCRATCH, scratch), (_STRIDE, stride),
                        (_EXTENT, extent), (_STATUS, const(I64, -1))):  # fmt: skip
        f.store(value, at(f, job, word), align=8)
    pool, parallel = (f.load(PTR, at(f, frame, word), align=8) for word in (POOL, PARALLEL))
    f.call_pointer(parallel, VOID, [pool, part, job, chunks])
    status = f.load(I64, at(f, job, _STATUS), name="status")
    f.ret(f.select(f.icmp("eq", status, -1), const(I64, 0), status))
    return f.signature


def _emit_part(module: Module) -> Scalar:
    """One part: [chunk * extent / chunks, (chunk + 1) * extent / chunks). The lowest failing status wins, whatever the order of parts."""
    f = module.function("weft_part", VOID, [(PTR, "job"), (I64, "chunk"), (I64, "chunks")], internal=True)
    job, chunk, chunks = f.params
    function, buffers, ints, numbers, scratch = (f.load(PTR, at(f, job, w), align=8) for w in (_FUNCTION, _BUFFERS, _INTS, _NUMBERS, _SCRATCH))
    stride, extent = (f.load(I64, at(f, job, w)) for w in (_STRIDE, _EXTENT))
    begin = f.udiv(f.mul(chunk, extent), chunks)
    end = f.udiv(f.mul(f.add(chunk, 1), extent), chunks)
    own = f.gep(I8, scratch, f.mul(chunk, stride))
    status = f.call_pointer(function, I64, [buffers, ints, numbers, own, begin, end])
    with f.if_(f.icmp("ne", status, 0), "failed"):
        f.atomicrmw("umin", at(f, job, _STATUS), status)
    f.ret()
    return f.pointer


class SegmentEmitter:
    """Writes one native segment: a function over the frame that returns 0, or 1 + the number of a failed check."""

    def __init__(self, module: Module, name: str, storage: Storage, words: Words, word_of: dict[Value, int]) -> None:
        self.module, self.storage, self.words, self.word_of = module, storage, words, word_of
        self.f = module.function(name, I64, [(PTR, "frame")])
        self.frame = self.f.params[0]

    # ---- addresses
    def place_arena(self, offsets: int) -> None:
        """Address of every slot: the arena's plus its offset."""
        f, first, count = self.f, HEADER + self.storage.arena, len(self.storage.placement.sizes)
        base = f.load(I64, at(f, self.frame, ARENA), name="arena")
        with f.loop(0, const(I64, count), name="slot", trip_at_least_one=True) as loop:
            offset = f.load(I64, f.gep(I64, at(f, self.frame, offsets), loop.index))
            f.store(f.add(base, offset), f.gep(I64, at(f, self.frame, first), loop.index))

    def place_numbers(self, roots: dict[int, Value]) -> None:
        """Address of every number that kernels read or write through one: its word."""
        for root, value in roots.items():
            self.f.store(at(self.f, self.frame, self.word_of[value]), at(self.f, self.frame, HEADER + root), align=8)

    def gather(self, table: int, roots: Sequence[int]) -> None:
        """Copy the addresses of `roots` to the words from `table` on, where kernels find them in their order."""
        f = self.f
        which = self.module.table("weft_roots", I32, roots)
        with f.loop(0, const(I64, len(roots)), name="buffer", trip_at_least_one=True) as loop:
            root = f.zext(f.load(I32, f.gep(I32, which, loop.index)), I64, "root")
            address = f.load(I64, f.gep(I64, at(f, self.frame, HEADER), root), name="address")
            f.store(address, f.gep(I64, at(f, self.frame, table), loop.index))

    # ---- numbers
    def read_number(self, value: Value) -> Scalar:
        """A number Value: double or i64."""
        return self.f.load(F64 if value.type is FLOAT else I64, at(self.f, self.frame, self.word_of[value]), align=8)

    def read_dim(self, dim: Dim) -> Scalar:
        """A size, from the word that a plan function stored it in."""
        return self.f.load(I64, at(self.f, self.frame, self.words.dims((dim,)))) if isinstance(dim, Expr) else const(I64, dim)

    def number(self, node: Node) -> None:
        """Compute a node on numbers."""
        result = emit_number(node, self.f, self.read_number, self.read_dim)
        self.f.store(result, at(self.f, self.frame, self.word_of[node.output]), align=8)

    def _fill_numbers(self, call: KernelCall, table: int) -> None:
        f = self.f
        for i, operand in enumerate(call.numbers):
            if not isinstance(operand, (Value, Expr)):
                continue
            number = self.read_number(operand) if isinstance(operand, Value) else self.read_dim(operand)
            f.store(number if number.type is F64 else f.sitofp(number, F64), at(f, self.frame, table + i), align=8)

    # ---- kernels
    def kernel(self, call: KernelCall, buffers: int, launch: Signature | None, first_check: int, scratch_root: int) -> None:
        """Call a kernel whose buffer table starts at word `buffers`."""
        f, frame = self.f, self.frame
        table, is_new = self.words.numbers(call.numbers)
        if is_new:
            self._fill_numbers(call, table)
        ints = at(f, frame, self.words.dims(call.ints), "ints") if call.ints else frame
        scratch = f.load(PTR, at(f, frame, HEADER + scratch_root), align=8, name="scratch") if scratch_root >= 0 else frame
        shared = [at(f, frame, buffers, "buffers"), ints, at(f, frame, table, "numbers"), scratch]
        chunks, extent = chunk_count(call), self.read_dim(call.extent)
        function = self.module.functions[call.function]
        if launch is None or chunks == 1:
            status = f.call(function.signature, [*shared, const(I64, 0), extent], "status")
        else:
            stride = self.read_dim(aligned(call.scratch_bytes))
            status = f.call(launch, [frame, function.pointer, *shared, stride, extent, self.read_dim(chunks)], "status")
        if call.raises:
            with f.if_(f.icmp("ne", status, 0), "failed"):
                f.ret(f.add(status, first_check))

    def copies(self, copies: Iterable[Copy]) -> None:
        """Move bytes between roots."""
        f = self.f
        for copy in copies:
            target, source = (f.load(PTR, at(f, self.frame, HEADER + r), align=8) for r in (copy.target, copy.source))
            f.memcpy(target, source, self.read_dim(copy.size))

    def finish(self) -> None:
        """End of the function: nothing failed."""
        self.f.ret(const(I64, 0))
