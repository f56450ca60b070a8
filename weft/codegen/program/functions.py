"""The native half of a program: functions over its frame that compute sizes, fill tables and call kernels in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.codegen.emit import F64, I1, I8, I32, I64, PTR, Module, Signature, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.program.launch import SERVICES, at
from weft.codegen.program.numbers import emit_number
from weft.ir.graph import Node, Operand, Value
from weft.loops.kernel import KernelCall
from weft.plan.frame import Launch
from weft.plan.numbers import is_number
from weft.plan.sizes import Operation, SizeTable
from weft.plan.storage import Copy, Storage
from weft.plan.words import Words
from weft.runtime.segments import DONE, HEADER, NO_MEMORY, TOTAL
from weft.types.dims import Dim, Expr
from weft.types.tensor_type import FLOAT


def emit_plan(
    module: Module,
    name: str,
    words: Words,
    sizes: Mapping[int, Expr],
    functions: tuple[int, Sequence[str]] = (0, ()),
    slots: tuple[int, Sequence[Dim]] | None = None,
) -> None:
    """A function that stores sizes; addresses of kernels, given (first word, names);
    and, given (first offset word, slot sizes), the slots' offsets and the arena's total. All of it is tables,
    so that its code does not grow with the program."""
    f = module.function(name, I64, [(PTR, "frame")])
    frame = f.params[0]
    first, names = functions
    if names:
        addresses = module.addresses("weft_kernels", [module.functions[k].signature for k in names])
        f.memcpy(at(f, frame, first), addresses, const(I64, PTR.bytes * len(names)))
    table = SizeTable(words)
    for word, dim in sizes.items():
        table.put(dim, word)
    if slots is not None:
        put_offsets(table, *slots)
    if len(table):
        callee = module.declare("weft_calculate", *SERVICES["weft_calculate"])
        f.call(callee, [frame, module.table("weft_sizes", I32, table.numbers), const(I64, len(table))])
    f.ret(const(I64, 0))


def emit_end(module: Module, name: str, rooms: Sequence[int]) -> None:
    """A function that lets go of memory that native code made. rooms: words of addresses and sizes."""
    f = module.function(name, I64, [(PTR, "frame")])
    callee = module.declare("weft_let_go", *SERVICES["weft_let_go"])
    f.call(callee, [f.params[0], module.table("weft_rooms", I32, rooms), const(I64, len(rooms) // 2)])
    f.ret(const(I64, 0))


def put_offsets(table: SizeTable, word: int, sizes: Sequence[Dim]) -> None:
    """The words of the offsets follow each other; the total is the offset behind the last slot."""
    table.put(0, word if sizes else TOTAL)
    for i, size in enumerate(sizes, 1):
        table.step(Operation.AFTER, word + i - 1, table.word(size), word + i if i < len(sizes) else TOTAL)


class SegmentEmitter:
    """Writes one native segment: a function over the frame that returns 0, or 1 + the number of a failed check."""

    def __init__(self, module: Module, name: str, storage: Storage, words: Words, word_of: dict[Value, int]) -> None:
        self.module, self.storage, self.words, self.word_of = module, storage, words, word_of
        self.f = module.function(name, I64, [(PTR, "frame")])
        self.frame = self.f.params[0]

    # ---- addresses
    def place_arena(self, offsets: int) -> None:
        """Address of every slot: the arena's plus its offset."""
        first, count = HEADER + self.storage.arena, len(self.storage.placement.sizes)
        self._service("weft_place_slots", at(self.f, self.frame, offsets), at(self.f, self.frame, first), count=count)

    def place_numbers(self, roots: dict[int, Value]) -> None:
        """Address of every number that kernels read or write through one: its word."""
        for root, value in roots.items():
            self.f.store(at(self.f, self.frame, self._word(value)), at(self.f, self.frame, HEADER + root), align=8)

    def gather(self, table: int, roots: Sequence[int]) -> None:
        """Copy the addresses of `roots` to the words from `table` on, where kernels find them in their order."""
        which = self.module.table("weft_roots", I32, roots)
        self._service("weft_gather", which, at(self.f, self.frame, table), count=len(roots))

    def make_room(self, records: Sequence[int]) -> None:
        """Have memory of the sizes that are known by now: words of address, of what is there, of what is needed."""
        if not records:
            return
        status = self._service("weft_make_room", self.module.table("weft_rooms", I32, records), count=len(records) // 3)
        with self.f.if_(self.f.icmp("ne", status, 0), "no_memory"):
            self.f.ret(const(I64, NO_MEMORY))

    def bind(self, word: int, source: Value) -> None:
        """Let a symbol be a number, or that in a 0-dim tensor; 0 for a negative one."""
        f = self.f
        number = (
            self.read_number(source) if is_number(source)
            else f.load(I64, self.address(self.storage.of(source)), name="count")
        )
        f.store(f.select(f.icmp("slt", number, 0), const(I64, 0), number), at(f, self.frame, word), align=8)

    def calculate(self, plan: str) -> None:
        """Call a function that computes sizes."""
        self.f.call(Signature(plan, I64, (PTR,)), [self.frame])  # it is written last, when every size is listed

    def _service(self, name: str, *args: Scalar, count: int) -> Scalar:
        """Call one of the functions that every program shares."""
        callee = self.module.declare(name, *SERVICES[name])
        return self.f.call(callee, [self.frame, *args, const(I64, count)], "status")

    # ---- numbers
    def read_number(self, value: Value) -> Scalar:
        """A number Value: double or i64."""
        return self.f.load(F64 if value.type is FLOAT else I64, at(self.f, self.frame, self._word(value)), align=8)

    def read_dim(self, dim: Dim) -> Scalar:
        """A size, from the word that a plan function stored it in."""
        return (
            self.f.load(I64, at(self.f, self.frame, self.words.dims((dim,)))) if isinstance(dim, Expr)
            else const(I64, dim)
        )

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
        """Store what is not constant in a kernel's table of numbers, unless another kernel's equal
        table has it already."""
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
            scalar = self.read_number(operand)
        elif isinstance(operand, Expr):
            scalar = self.read_dim(operand)
        else:
            scalar = const(F64 if type(operand) is float else I64, operand)
        return f.sitofp(scalar, F64) if like.type is FLOAT and scalar.type is I64 else scalar

    def count(self, operand: Operand, like: Value) -> Scalar:
        """A number operand, or the value of a 0-dim int64 tensor, as the i64 that `like` is."""
        if isinstance(operand, Value) and not is_number(operand):
            return self.f.load(I64, self.address(self.storage.of(operand)), name="count")
        return self.operand(operand, like)

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

    def row_address(self, buffer: int, start: Dim, index: Scalar, size: Dim) -> Scalar:
        """Where one row of a buffer is. start: where the first one is, in bytes."""
        f = self.f
        first = self.address(buffer) if start == 0 else f.gep(I8, self.address(buffer), self.read_dim(start), "first")
        return f.gep(I8, first, f.mul(index, self.read_dim(size)), "row")

    def listed_address(self, roots: Sequence[int], index: Scalar) -> Scalar:
        """Where one of several roots is."""
        f = self.f
        table = at(f, self.frame, self.words.addresses(tuple(roots)), "table")
        word = f.load(I64, f.gep(I64, table, index), name="word")
        return f.load(PTR, f.gep(I64, self.frame, word), align=8, name="address")

    def place(self, root: int, address: Scalar) -> None:
        """Let a root be at an address."""
        self.f.store(address, at(self.f, self.frame, HEADER + root), align=8)

    def move(self, target: int, source: int, size: Dim) -> None:
        """Copy one buffer, unless it is there already."""
        if target != source:
            self.f.memcpy(self.address(target), self.address(source), self.read_dim(size))

    # ---- kernels
    def launches(self, records: Sequence[Launch]) -> None:
        """Call kernels one after another."""
        f = self.f
        table = self.module.table("weft_launches", I32, [n for r in records for n in r])
        status = self._service("weft_launch_all", table, count=len(records))
        if any(r.check >= 0 for r in records):
            with f.if_(f.icmp("ne", status, 0), "failed"):
                f.ret(status)

    def copies(self, copies: Sequence[Copy]) -> None:
        """Move bytes between roots, in order."""
        records = [n for c in copies for n in (HEADER + c.target, HEADER + c.source, self.words.dims((c.size,)))]
        if records:
            self._service("weft_copy_all", self.module.table("weft_copies", I32, records), count=len(copies))

    def finish(self) -> None:
        """End of the function: nothing failed."""
        self.f.store(const(I64, 1), at(self.f, self.frame, DONE), align=8)
        self.f.ret(const(I64, 0))
