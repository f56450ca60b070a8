"""From a nest to a KernelCall: vector widths, the tables of sizes, the key that lets equal nests share one function."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from weft.codegen.target import Target
from weft.ir.graph import Value
from weft.loops.kernel import KernelCall
from weft.loops.nest import FLAT_BLOCK, FULL, Access, Instr, Nest, Ref
from weft.loops.phases import is_inner_store, operands, phase_roots
from weft.loops.text import nest_text
from weft.ops.geometry import contiguous_strides
from weft.types import dims as dm
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType

SCRATCH, INDEX = -2, -1  # buffers that are no buffers: the scratch memory, the linear index of a range
JOINED_BYTES = 64  # of a vector whose lanes a reduction joins, on every machine
# so many of them are added up side by side, whatever else the kernel computes: its order is that of the shape alone
JOINED_VECTORS = 4
# a sum is added up in blocks of so many steps of the main loop, or rows, so that rounding does not grow with its length
BLOCK_STEPS, BLOCK_ROWS = 16, 32


@dataclass
class Layout:
    """A nest with everything that its machine code depends on, and the tables that its calls pass.

    lanes, wide   lanes of one vector, and of the main loop's step (several vectors).
                  Where lanes are joined they are the same on every machine, so that the order of a sum is
    step          how many lanes of them the machine takes at a time
    is_whole      the vector axis is a multiple of `wide`: no masked rest
    is_short      the vector axis is no longer than `lanes`: one masked step
    is_brief      the vector axis is known to be shorter than the main loop's step, which is cut down to the rest's
                  and adds to the same sums: what a size is known to be does not change the order of a sum
    ints          the i64 table; `slots` says where a size, stride or offset is found in it
                  (constants 0 and 1 are not in it)
    homes         where values stashed for later phases are found
    """

    nest: Nest
    lanes: int
    wide: int
    step: int
    is_whole: bool
    is_short: bool
    is_brief: bool = False
    ints: list[Dim] = field(default_factory=list)
    slots: dict[tuple[Any, ...], int | None] = field(default_factory=dict)
    homes: dict[int, Access] = field(default_factory=dict)
    extent: Dim = 1
    scratch_bytes: Dim = 0

    def place(self, key: tuple[Any, ...], dim: Dim) -> None:
        """Give a dim an entry in the table, unless it is 0 or 1."""
        if isinstance(dim, int) and dim in (0, 1):
            self.slots[key] = None
            return
        self.slots[key] = len(self.ints)
        self.ints.append(dim)

    @property
    def parts(self) -> int:
        """How many times the machine takes its lanes in the one masked step of a short axis; 0 for other axes."""
        if not self.is_short or self.nest.form == "columns":
            return 0
        size, step = self.nest.axes[self.vector_axis] if self.vector_axis >= 0 else 1, min(self.step, self.lanes)
        assert isinstance(size, int)
        return max(1, -(-min(size, self.lanes) // step))

    def is_one_block(self, length: int) -> bool:
        """Whether the last axis is known to be no longer than a last block, which has up to two lengths."""
        size = self.nest.axes[-1] if self.nest.axes else 1
        return isinstance(size, int) and size < 2 * length

    @property
    def vector_axis(self) -> int:
        """The axis whose elements fill a vector; -1 if there is none."""
        nest = self.nest
        if nest.form == "columns":
            return len(nest.outer) - 1
        return len(nest.axes) - 1 if nest.inner else -1


def lay_out(nest: Nest, target: Target) -> Layout:
    """Choose widths and fill the tables."""
    joins = nest.form != "columns" and any(i.kind == "reduce" for i in nest.instrs)
    itemsize = 8 if _is_all_wide(nest, joins) else 4
    at_once = target.lanes(itemsize)
    lanes = JOINED_BYTES // itemsize if joins else at_once
    vectors = _vectors(nest, max((_pass_weight(nest, p) for p in range(nest.phases)), default=0))
    side_by_side = vectors if not joins else 1 if _picks(nest) else JOINED_VECTORS
    layout = Layout(nest, lanes, side_by_side * lanes, vectors * at_once, False, False)
    size = nest.axes[layout.vector_axis] if layout.vector_axis >= 0 else 1
    if isinstance(size, int):
        layout.is_short = size <= lanes
        layout.is_brief = joins and side_by_side > 1 and size < layout.wide
        while layout.wide > lanes and size < layout.wide:
            layout.wide //= side_by_side if joins else 2
        layout.is_whole = size % layout.wide == 0 and size > 0
    if layout.is_short and nest.form == "columns":
        layout.wide = lanes
    layout.step = min(layout.step, layout.wide)
    _place_dims(layout)
    _place_homes(layout)
    layout.extent = _extent(layout)
    return layout


def _is_all_wide(nest: Nest, joins: bool) -> bool:
    """Whether all elements are of eight bytes or more: of what is added up alone where lanes are joined, so that the
    order does not depend on what else is computed."""
    counted = [i for i in nest.instrs if (i.kind == "reduce" if joins else i.level == FULL)]
    return all((i.compute or i.dtype).itemsize >= 8 for i in counted)


def _pass_weight(nest: Nest, phase: int) -> int:
    seen: set[int] = set()
    stack = phase_roots(nest, phase)
    while stack:
        i = stack.pop()
        instr = nest.instrs[i]
        if i in seen or instr.level < FULL:
            continue
        seen.add(i)
        if not (instr.stashed and instr.phase < phase):
            stack += operands(instr)
    return sum(max(1, nest.instrs[i].weight) for i in seen)


def _picks(nest: Nest) -> bool:
    """Whether it tells where an extreme element is: no order changes the answer."""
    return any(i.what in ("argmax", "argmin") and i.kind == "reduce" for i in nest.instrs)


def _vectors(nest: Nest, weight: int) -> int:
    """Cheap bodies take several vectors at a time, so that latencies overlap; heavy ones would spill."""
    if _picks(nest):
        return 1
    if weight <= 10 and len(nest.accesses) <= 6:
        return 4
    return 2 if weight <= 40 and len(nest.accesses) <= 12 else 1


def _place_dims(layout: Layout) -> None:
    nest = layout.nest
    for k, size in enumerate(nest.axes):
        layout.place(("size", k), size)
    for a, access in enumerate(nest.accesses):
        for k, stride in enumerate(access.strides):
            layout.place(("stride", a, k), stride)
        layout.place(("offset", a), access.offset)
    for i, instr in enumerate(nest.instrs):
        if instr.kind == "size":
            layout.slots["number", i] = len(layout.ints)
            layout.ints.append(instr.what)
        if instr.kind in ("offset", "gather"):
            layout.place(("count", i), instr.what.count)
            for k, (stride, size) in enumerate(zip(instr.what.strides, instr.what.sizes, strict=False)):
                layout.slots["looked up", i, k] = len(layout.ints)
                layout.ints += [stride, size]
    if nest.chunks is not None:
        rows = dm.product(nest.outer) if nest.form != "flat" else nest.inner[0]
        portion = dm.floordiv(rows + nest.chunks - 1, nest.chunks)
        if nest.form == "flat":
            portion = dm.floordiv(portion + 63, 64) * 64
        layout.slots["portion",] = len(layout.ints)
        layout.ints.append(portion)


def _place_homes(layout: Layout) -> None:
    """Find memory for stashed values: the buffer they are stored to anyway, or scratch."""
    nest = layout.nest
    stored = {s.index: s.access for s in nest.stores if is_inner_store(nest, s)}
    inner = contiguous_strides(nest.inner)
    width = layout.wide if nest.form == "columns" else 1
    offset: Dim = 0
    for i, instr in enumerate(nest.instrs):
        if not instr.stashed:
            continue
        access = stored.get(i)
        if access is None or access.dtype is not instr.dtype:
            strides = (0,) * len(nest.outer) + tuple(s * width for s in inner)
            access = Access(SCRATCH, instr.dtype, strides, offset)
            nest.accesses.append(access)
            number = len(nest.accesses) - 1
            for k, stride in enumerate(strides):
                layout.place(("stride", number, k), stride)
            layout.place(("offset", number), offset)
            size = dm.product(nest.inner) * (width * instr.dtype.itemsize)
            offset = offset + dm.floordiv(size + 63, 64) * 64
        layout.homes[i] = access
    layout.scratch_bytes = offset


def _extent(layout: Layout) -> Dim:
    nest = layout.nest
    if nest.chunks is not None:
        return nest.chunks
    if nest.form == "flat":
        return dm.floordiv(nest.inner[0] + FLAT_BLOCK - 1, FLAT_BLOCK)
    if nest.form == "columns":
        blocks = dm.floordiv(nest.outer[-1] + layout.wide - 1, layout.wide)
        return dm.product(nest.outer[:-1]) * blocks
    return dm.product(nest.outer)


_ADDED_UP = ("reduce", "column", "total")


def layout_key(layout: Layout) -> tuple[Any, ...]:
    """What the machine code depends on; no names or buffers, and of sizes what `Layout` says of them."""
    nest = layout.nest
    blocks = (BLOCK_STEPS * layout.wide, BLOCK_ROWS) if any(i.kind in _ADDED_UP for i in nest.instrs) else ()
    numbers = {id(a): i for i, a in enumerate(nest.accesses)}
    return (
        nest.form, len(nest.outer), len(nest.inner), layout.lanes, layout.wide, layout.step, layout.is_whole,
        layout.is_short, layout.is_brief, layout.parts, tuple(map(layout.is_one_block, blocks)), nest.chunks is None,
        tuple((a.buffer, a.dtype.short) for a in nest.accesses),
        tuple((k, _stride_class(layout, k)) for k in layout.slots),
        tuple(_instr_key(i) for i in nest.instrs),
        tuple((s.index, numbers[id(s.access)]) for s in nest.stores),
        tuple((i, numbers[id(a)]) for i, a in layout.homes.items()),
    )


def _stride_class(layout: Layout, key: tuple[Any, ...]) -> Any:
    slot = layout.slots[key]
    if slot is not None:
        return slot
    nest = layout.nest
    if key[0] == "stride":
        return ("is", nest.accesses[key[1]].strides[key[2]])
    if key[0] == "offset":
        return ("is", nest.accesses[key[1]].offset)
    if key[0] == "count":
        return ("is", nest.instrs[key[1]].what.count)
    return ("is", nest.axes[key[1]])


def _instr_key(instr: Instr) -> tuple[Any, ...]:
    what = instr.what
    if instr.kind == "apply":
        what = what.name
    elif instr.kind == "size":
        what = None
    elif instr.kind in ("offset", "gather"):
        what = (what.access, len(what.strides), what.wraps)
    elif instr.kind == "literal":
        what = (type(what), repr(what))
    compute = instr.compute.short if instr.compute is not None else None
    return (
        instr.kind, instr.dtype.short, instr.level, instr.phase, tuple(_argument_key(a) for a in instr.args), what,
        compute, instr.stashed,
    )


def _argument_key(argument: Any) -> Any:
    if type(argument) is tuple:
        return (
            (type(argument[1]), repr(argument[1])) if type(argument[0]) is not Ref else (argument[0].index, argument[1])
        )
    return argument.index if type(argument) is Ref else None


def kernel_call(layout: Layout, function: str, with_text: bool = False) -> KernelCall:
    """The call of the nest's function with its tables (and its loops as text)."""
    nest = layout.nest
    weight = sum(i.weight or 1 for i in nest.instrs)
    raises = (0,) if any(i.kind in ("offset", "gather") for i in nest.instrs) else ()
    return KernelCall(
        function, (*nest.reads, *nest.writes), len(nest.writes), tuple(layout.ints), tuple(nest.numbers), layout.extent,
        dm.product(nest.axes) * weight, layout.scratch_bytes, in_place_pairs(nest), nest.nodes, raises,
        nest_text(nest, function) if with_text else "")


def in_place_pairs(nest: Nest) -> tuple[tuple[int, int], ...]:
    """Which output may lie in which input: the same element of each is all that an iteration touches,
    and reading is over when writing starts."""
    uses = _BufferUses(nest)
    pairs = []
    for store in nest.stores:
        o = store.access.buffer - len(nest.reads)
        instr = nest.instrs[store.index]
        if instr.kind in ("total", "column") or (nest.chunks is not None and not is_inner_store(nest, store)):
            continue
        for b, source in enumerate(nest.reads):
            access = uses.only_access.get(b)
            if access is None or access.strides != store.access.strides or access.offset != store.access.offset:
                continue
            if uses.last_phase.get(b, 0) <= instr.phase and _same_room(source, nest.writes[o]):
                pairs.append((o, b))
    return tuple(pairs)


class _BufferUses:
    """For each buffer read: the one access that it is read through (if there is one only),
    and the last pass that reads it."""

    def __init__(self, nest: Nest) -> None:
        moved = {i.what.access for i in nest.instrs if i.kind in ("offset", "gather")}
        self.only_access: dict[int, Access | None] = {}
        for number, access in enumerate(nest.accesses):
            is_first = access.buffer not in self.only_access
            self.only_access[access.buffer] = access if is_first and number not in moved else None
        self.last_phase: dict[int, int] = {}
        for phase in range(nest.phases):
            self._note_pass(nest, phase)

    def _note_pass(self, nest: Nest, phase: int) -> None:
        stack, seen = phase_roots(nest, phase), set()
        while stack:
            i = stack.pop()
            instr = nest.instrs[i]
            if i in seen or instr.level < FULL or (instr.stashed and instr.phase < phase):
                continue
            seen.add(i)
            if instr.kind == "load":
                self.last_phase[nest.accesses[instr.what].buffer] = phase
            stack += operands(instr)


def _same_room(a: Value, b: Value) -> bool:
    if a.type is b.type:
        return isinstance(a.type, TensorType)
    if (
        not isinstance(a.type, TensorType) or not isinstance(b.type, TensorType) or a.type.dtype is None
        or b.type.dtype is None
    ):
        return False
    return a.type.dtype.itemsize == b.type.dtype.itemsize and a.type.numel == b.type.numel
