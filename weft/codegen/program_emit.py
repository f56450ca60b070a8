"""The native half of a program: functions over its frame that compute sizes, fill tables and call kernels in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from weft.codegen.emit import F64, I1, I8, I32, I64, PTR, VOID, Function, Module, Signature, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.lower_dims import DimLowering
from weft.codegen.plan import ALIGNMENT
from weft.codegen.program_numbers import emit_number, is_number
from weft.codegen.program_storage import Copy, Storage
from weft.codegen.program_words import Words
from weft.ir.graph import Node, Operand, Value
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


def emit_plan(
    module: Module,
    name: str,
    words: Words,
    sizes: Mapping[int, Expr],
    functions: Mapping[str, int] = MappingProxyType({}),
    slots: tuple[int, Sequence[Dim]] | None = None,
) -> None:
    """A function that stores sizes; addresses of kernels (name -> word); and, given (first offset word, slot sizes), the slots' offsets
    and the arena's total."""
    f = module.function(name, I64, [(PTR, "frame")])
    frame = f.params[0]
    for kernel, word in functions.items():
        f.store(module.functions[kernel].pointer, at(f, frame, word), align=8)
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


class Launch(NamedTuple):
    """One call of a kernel, by words: function, tables (buffers, ints, numbers), scratch address, bytes of scratch for each part, extent, parts;
    and the number of its first check."""

    function: int
    buffers: int
    ints: int
    numbers: int
    scratch: int
    stride: int
    extent: int
    chunks: int
    check: int


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
            self.f.store(at(self.f, self.frame, self._word(value)), at(self.f, self.frame, HEADER + root), align=8)

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
        return self.f.load(F64 if value.type is FLOAT else I64, at(self.f, self.frame, self._word(value)), align=8)

    def read_dim(self, dim: Dim) -> Scalar:
        """A size, from the word that a plan function stored it in."""
        return self.f.load(I64, at(self.f, self.frame, self.words.dims((dim,)))) if isinstance(dim, Expr) else const(I64, dim)

    def number(self, node: Node) -> None:
        """Compute a node on numbers."""
        result = emit_number(node, self.f, self.read_number, self.read_dim)
        self.write_number(node.output, result)

    def write_number(self, value: Value, number: Scalar) -> None:
        """Store a number Value: double or i64."""
        self.f.store(number, at(self.f, self.frame, self._word(value)), align=8)

    def _word(self, value: Value) -> int:
        return self.word_of[self.storage.owner(value)]

    def fill_numbers(self, call: KernelCall, scope: int) -> None:
        """Store what is not constant in a kernel's table of numbers, unless another kernel's equal table has it already."""
        f = self.f
        table, is_new = self.words.numbers(call.numbers, scope)
        for i, operand in enumerate(call.numbers if is_new else ()):
            if isinstance(operand, (Value, Expr)):
                number = self.read_number(operand) if isinstance(operand, Value) else self.read_dim(operand)
                f.store(number if number.type is F64 else f.sitofp(number, F64), at(f, self.frame, table + i), align=8)

    def operand(self, operand: Operand, like: Value) -> Scalar:
        """A number operand as the double or i64 that `like` is."""
        f = self.f
        if isinstance(operand, Value):
            found = self.read_number(operand)
        elif isinstance(operand, Expr):
            found = self.read_dim(operand)
        else:
            found = const(F64 if type(operand) is float else I64, operand)
        return f.sitofp(found, F64) if like.type is FLOAT and found.type is I64 else found

    def condition(self, operand: Operand) -> Scalar:
        """A bool, a number or a 0-dim bool tensor as i1."""
        f = self.f
        if not isinstance(operand, Value):
            return const(I1, bool(operand))
        if not is_number(operand):
            return f.icmp("ne", f.load(I8, self.address(self.storage.of(operand))), 0, "condition")
        number = self.read_number(operand)
        return f.fcmp("une", number, 0.0) if number.type is F64 else f.icmp("ne", number, 0, "condition")

    # ---- memory
    def address(self, root: int) -> Scalar:
        """Where a root is."""
        return self.f.load(PTR, at(self.f, self.frame, HEADER + root), align=8, name="address")

    def place_row(self, row: int, buffer: int, index: Scalar, size: Dim) -> None:
        """Make `row` the root of one row of a buffer."""
        f = self.f
        moved = f.gep(I8, self.address(buffer), f.mul(index, self.read_dim(size)), "row")
        f.store(moved, at(f, self.frame, HEADER + row), align=8)

    def move(self, target: int, source: int, size: Dim) -> None:
        """Copy one buffer, unless it is there already."""
        if target != source:
            self.f.memcpy(self.address(target), self.address(source), self.read_dim(size))

    # ---- kernels
    def launches(self, records: Sequence[Launch], launch: Signature) -> None:
        """Call kernels one after another. A loop over a table: hundreds of calls in straight-line code cost LLVM a fraction of a millisecond each."""
        f, frame = self.f, self.frame
        table = self.module.table("weft_launches", I32, [n for r in records for n in r])
        with f.loop(0, const(I64, len(records)), name="launch", trip_at_least_one=True) as loop:
            record = f.gep(I32, table, f.mul(loop.index, len(Launch._fields)), "record")
            fields = [f.zext(f.load(I32, f.gep(I32, record, i)), I64) for i in range(len(Launch._fields))]
            function, buffers, ints, numbers, scratch, stride, extent, chunks, check = fields
            tables = [f.gep(I64, frame, word) for word in (buffers, ints, numbers)]
            pointers = [f.load(PTR, f.gep(I64, frame, word), align=8) for word in (function, scratch)]
            sizes = [f.load(I64, f.gep(I64, frame, word)) for word in (stride, extent, chunks)]
            status = f.call(launch, [frame, pointers[0], *tables, pointers[1], *sizes], "status")
            with f.if_(f.icmp("ne", status, 0), "failed"):
                f.ret(f.add(status, check))

    def copies(self, copies: Sequence[Copy]) -> None:
        """Move bytes between roots, in order."""
        f, frame = self.f, self.frame
        records = [n for c in copies for n in (HEADER + c.target, HEADER + c.source, self.words.dims((c.size,)))]
        if not records:
            return
        table = self.module.table("weft_copies", I32, records)
        with f.loop(0, const(I64, len(copies)), name="copy", trip_at_least_one=True) as loop:
            record = f.gep(I32, table, f.mul(loop.index, 3), "record")
            target, source, size = (f.gep(I64, frame, f.zext(f.load(I32, f.gep(I32, record, i)), I64)) for i in range(3))
            f.memcpy(f.load(PTR, target, align=8), f.load(PTR, source, align=8), f.load(I64, size))

    def finish(self) -> None:
        """End of the function: nothing failed."""
        self.f.ret(const(I64, 0))
