"""Kernels that move elements: copies of views, scatters into views, concatenation, padding.
Each is one or more copy nests."""

from __future__ import annotations

from dataclasses import replace

from weft.catalogue.shapes.twins import may_overlap, overlaps
from weft.codegen.emit import F64, I8, I64, PTR, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.lower.loops import PARAMETERS
from weft.codegen.lower.lowering import BlockLowering, lowers
from weft.codegen.lower.parts import reads_elsewhere
from weft.ir.graph import Node, Value
from weft.loops.build import build_into
from weft.loops.copies import copy_nest, fill_nest
from weft.loops.kernel import KernelCall
from weft.ops.geometry import Geometry, contiguous, contiguous_strides
from weft.ops.packet import aten
from weft.ops.rules import normalize_dim
from weft.passes.alias import dims_of, dtype_of, view_geometries
from weft.plan.parts import GRAIN
from weft.types import dims as dm
from weft.types.dims import Dim, Expr
from weft.types.tensor_type import TensorType


def lower_copy(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """`select_copy` and the like: a view, copied."""
    view = node.op.copies
    if view is None or len(node.outputs) != 1:
        return None
    root, source = block.aliases.of(node.args[0])
    shown = view_geometries(view, source, node.args[1:])
    dims = dims_of(node.outputs[0])
    if shown is None or len(shown) != 1 or shown[0].ndim != len(dims):
        return None
    return [block.copy(node.outputs[0], dims, root, replace(shown[0], dims=dims), node)]


def lower_scatter(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """`select_scatter` and the like: the base copied (unless it is updated in place), the source written
    where the view shows it."""
    view = node.op.scatters
    out = node.outputs[0]
    if view is None or not isinstance(out.type, TensorType):
        return None
    base, source, *args = node.args
    if base.type.dtype is not source.type.dtype:
        return None
    picked = args.pop(0) if view.schema.returns_list else 0
    places = view_geometries(view, contiguous(dims_of(out)), tuple(args))
    if places is None:
        return None
    place = places[picked]
    if place.ndim != len(dims_of(source)):
        return None
    if any(s == 0 and d != 1 for s, d in zip(place.strides, place.dims, strict=False)):
        return None
    if may_overlap(view, dims_of(out), tuple(args)):
        return None
    return write_into(block, node, base, source, place)


def write_into(block: BlockLowering, node: Node, base: Value, source: Value, place: Geometry) -> list[KernelCall]:
    """out = base with `source` at a place. When base is a buffer of its own, out may take its memory
    and nothing is copied."""
    out = node.outputs[0]
    root, layout = block.aliases.of(base)
    other, source_geometry = block.aliases.of(source)
    is_whole = (
        layout.offset == 0 and layout.strides == contiguous_strides(layout.dims)
        and dm.product(dims_of(root)) == dm.product(dims_of(out))
    )
    before = []
    computed = None if not is_whole else computed_in_place(block, root, out, source, place)
    if computed is None and other is root:  # the part is read before anything is written, which may then be in place
        other = Value(source.type, source.name)
        before = [block.copy(other, dims_of(source), root, source_geometry, node)]
        source_geometry = contiguous(dims_of(source))
    first = _copy_unless_same(block, root, out, node) if is_whole else block.copy(out, dims_of(out), root, layout, node)
    second = computed or block.lowering.nest(
        copy_nest(out, dims_of(source), other, source_geometry, node, block.aliases, place)
    )
    joined = join_calls(block, [first, second], node, is_ordered=True)
    again = [i + len(first.reads) for i, v in enumerate(second.reads) if computed is not None and v is root]
    in_place = tuple([(0, at) for at in (0, *again)]) if is_whole else ()
    return [*before, replace(joined, in_place=in_place, copies=() if root in block.aliases.splats else ((0, 0),))]


def computed_in_place(
    block: BlockLowering, root: Value, out: Value, source: Value, place: Geometry
) -> KernelCall | None:
    """What computes a part where it goes to, if that is short and reads no other place of the memory it writes."""
    group, dims = block.awaited.get(source), dims_of(source)
    place = replace(place, dims=dims)  # the same sizes, and maybe known from another guard
    if group is None or not all([type(n) is int for n in (*dims, *place.strides)]) or overlaps(place):
        return None
    if reads_elsewhere(group, block.aliases, root, dims, place):
        return None
    call = block.lowering.nest(build_into(group, block.aliases, source, out, place))
    if type(call.cost) is not int or call.cost > GRAIN:
        return None
    del block.awaited[source]
    return call


def _copy_unless_same(block: BlockLowering, source: Value, target: Value, node: Node) -> KernelCall:
    """Bytes copied, except when both are one memory."""
    name = block.lowering.function(("copy bytes",), "copy_unless_same", lambda name: _emit_copy(block, name))
    dtype = dtype_of(target)
    assert dtype is not None
    size: Dim = dm.product(dims_of(target)) * dtype.itemsize
    extent = dm.floordiv(size + _BLOCK - 1, _BLOCK)
    return KernelCall(name, (source, target), 1, (size,), (), extent, dm.floordiv(size, 8), 0, ((0, 0),), (node,))


_BLOCK = 16384


def _emit_copy(block: BlockLowering, name: str) -> None:
    f = block.lowering.module.function(name, I64, PARAMETERS)
    source, target = (f.load(PTR, f.gep(PTR, f.params[0], i)) for i in (0, 1))
    with f.if_(f.icmp("ne", source, target), "apart"):
        low = f.mul(f.params[4], _BLOCK, "low")
        high = f.smin(f.mul(f.params[5], _BLOCK), f.load(I64, f.params[1]), "high")
        f.memcpy(f.gep(I8, target, low), f.gep(I8, source, low), f.sub(high, low))
    f.ret(const(I64, 0))


@lowers(aten.cat)
def lower_cat(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """One copy for each operand. Operands of other dtypes are converted on the way."""
    out = node.outputs[0]
    tensors: tuple[Value, ...] = node.args[0]
    if any(dtype_of(t) is None for t in (*tensors, out)):
        return None
    dims = dims_of(out)
    strides = contiguous_strides(dims)
    axis = normalize_dim("cat", node.args[1], len(dims))
    start: Dim = 0
    calls = []
    for t in tensors:
        size = dims_of(t)
        if len(size) != len(dims):
            continue  # an empty vector among tensors of another rank counts as nothing
        root, geometry = block.aliases.of(t)
        place = Geometry(size, strides, start * strides[axis])
        calls.append(block.lowering.nest(copy_nest(out, size, root, geometry, node, block.aliases, place)))
        start = start + size[axis]
    return [join_calls(block, calls, node)] if calls else None


@lowers(aten.constant_pad_nd)
def lower_pad(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """The value everywhere, then the tensor at its place."""
    x, pad, value = node.args
    out = node.outputs[0]
    if type(value) is Value or isinstance(value, Expr):
        return None
    root, geometry = block.aliases.of(x)
    dims, strides, offset = list(geometry.dims), contiguous_strides(dims_of(out)), geometry.offset
    start: Dim = 0
    for i in range(len(pad) // 2):
        before, after, axis = pad[2 * i], pad[2 * i + 1], len(dims) - 1 - i
        dims[axis] = dims[axis] + dm.minimum(before, 0) + dm.minimum(after, 0)
        offset = offset + dm.maximum(-before, 0) * geometry.strides[axis]
        start = start + dm.maximum(before, 0) * strides[axis]
    inside = Geometry(tuple(dims), geometry.strides, offset)
    fill = block.lowering.nest(fill_nest(out, value, node))
    copy = block.lowering.nest(
        copy_nest(out, inside.dims, root, inside, node, block.aliases, Geometry(inside.dims, strides, start))
    )
    return [join_calls(block, [fill, copy], node, is_ordered=True)]


@lowers(aten.flip)
def lower_flip(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """A copy that reads the dims from their ends."""
    x, flipped = node.args
    root, geometry = block.aliases.of(x)
    axes = {normalize_dim("flip", d, len(geometry.dims)) for d in flipped} if geometry.dims else set()
    strides = tuple(-s if i in axes else s for i, s in enumerate(geometry.strides))
    offset = geometry.offset + sum([(geometry.dims[i] - 1) * geometry.strides[i] for i in sorted(axes)], 0)
    return [block.copy(node.outputs[0], geometry.dims, root, Geometry(geometry.dims, strides, offset), node)]


@lowers(aten.roll)
def lower_roll(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Two copies along each dim: what stays in front of the end, and what comes back at the beginning."""
    x, shifts, axes = node.args
    out = node.outputs[0]
    if not axes:
        return None
    root, source = block.aliases.of(x)
    pieces = [(source, contiguous(dims_of(out)))]
    total: dict[int, Dim] = {}  # of a dim that is named more than once too: its parts would be no parts of the whole
    for shift, dim in zip(shifts, axes, strict=True):
        axis = normalize_dim("roll", dim, len(source.dims))
        total[axis] = total.get(axis, 0) + shift
    for axis, shift in total.items():
        size = source.dims[axis]
        by = dm.mod(shift, dm.maximum(size, 1))
        pieces = [
            (_part(a, axis, 0, size - by), _part(b, axis, by, size - by)) for a, b in pieces
        ] + [(_part(a, axis, size - by, by), _part(b, axis, 0, by)) for a, b in pieces]
    calls = [block.lowering.nest(copy_nest(out, a.dims, root, a, node, block.aliases, b)) for a, b in pieces]
    return [join_calls(block, calls, node)]


@lowers(aten._shift)
def lower_shift(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Zeros, then what is still inside, moved."""
    x, dim, by = node.args
    out = node.outputs[0]
    root, source = block.aliases.of(x)
    if not source.dims:
        return None
    axis = normalize_dim("_shift", dim, len(source.dims))
    length = dm.maximum(source.dims[axis] - abs(by), 0)
    inside, place = _part(source, axis, max(-by, 0), length), _part(contiguous(dims_of(out)), axis, max(by, 0), length)
    fill = block.lowering.nest(fill_nest(out, 0, node))
    copy = block.lowering.nest(copy_nest(out, inside.dims, root, inside, node, block.aliases, place))
    return [join_calls(block, [fill, copy], node, is_ordered=True)]


def _part(g: Geometry, axis: int, start: Dim, length: Dim) -> Geometry:
    return Geometry((*g.dims[:axis], length, *g.dims[axis + 1 :]), g.strides, g.offset + start * g.strides[axis])


# ---- several calls as one
def join_calls(block: BlockLowering, calls: list[KernelCall], node: Node, is_ordered: bool = False) -> KernelCall:
    """One kernel that does several, all of which write the same buffer. Unless `is_ordered`,
    its parts may run at the same time."""
    if len(calls) == 1:
        return calls[0]
    functions = tuple(c.function for c in calls)
    shape = tuple((len(c.reads), len(c.ints), len(c.numbers)) for c in calls)
    name = block.lowering.function(
        ("join", functions, shape, is_ordered), f"{node.op.base}_{len(calls)}",
        lambda name: _Join(block, name, calls, is_ordered).emit())
    total: Dim = 0
    for c in calls:
        total = total + c.extent
    cost: Dim = 0
    for c in calls:
        cost = cost + c.cost
    return KernelCall(
        name, (*(v for c in calls for v in c.reads), calls[0].writes[0]), 1,
        (*(c.extent for c in calls), *(d for c in calls for d in c.ints)), tuple(n for c in calls for n in c.numbers),
        1 if is_ordered else total, cost, 0, (), (node,), (), "\n".join(c.text for c in calls))


class _Join:
    """Writes the function that calls several: in a loop where they are alike, else one after the other."""

    def __init__(self, block: BlockLowering, name: str, calls: list[KernelCall], is_ordered: bool) -> None:
        self.module = block.lowering.module
        self.f = self.module.function(name, I64, PARAMETERS)
        self.calls, self.is_ordered = calls, is_ordered
        self.bufs, self.ints, self.numbers, self.scratch, self.begin, self.end = self.f.params
        self.reads = sum(len(c.reads) for c in calls)
        self.table = self.f.alloca(PTR, max(len(c.buffers) for c in calls), 8, "table")

    def emit(self) -> None:
        """The whole function."""
        f, calls = self.f, self.calls
        alike = len({(c.function, len(c.reads), len(c.ints), len(c.numbers)) for c in calls}) == 1
        if alike and len(calls) > 3:
            with f.loop(0, const(I64, len(calls)), name="part", carried=[(const(I64, 0), "before")]) as loop:
                n = loop.index
                first = calls[0]
                places = (
                    f.mul(n, len(first.reads)), f.add(f.mul(n, len(first.ints)), len(calls)),
                    f.mul(n, len(first.numbers)),
                )
                loop.next(self._call(first, n, loop.carried[0], *places))
        else:
            reads, ints, numbers, before = 0, len(calls), 0, const(I64, 0)
            for i, c in enumerate(calls):
                before = self._call(c, const(I64, i), before, *(const(I64, k) for k in (reads, ints, numbers)))
                reads, ints, numbers = reads + len(c.reads), ints + len(c.ints), numbers + len(c.numbers)
        f.ret(const(I64, 0))

    def _call(
        self, call: KernelCall, number: Scalar, before: Scalar, reads: Scalar, ints: Scalar, numbers: Scalar
    ) -> Scalar:
        """Call one for its share of the range; gives the sum of the extents so far."""
        f = self.f
        extent = f.load(I64, f.gep(I64, self.ints, number), name="extent")
        for k in range(len(call.reads)):
            f.store(f.load(PTR, f.gep(PTR, self.bufs, f.add(reads, k))), f.gep(PTR, self.table, k))
        f.store(f.load(PTR, f.gep(PTR, self.bufs, self.reads)), f.gep(PTR, self.table, len(call.reads)))
        low, high = const(I64, 0), extent
        if not self.is_ordered:
            low = f.smax(f.sub(self.begin, before), 0, "low")
            high = f.smin(f.sub(self.end, before), extent, "high")
        with f.if_(f.icmp("slt", low, high), "share"):
            tables = [self.table, f.gep(I64, self.ints, ints), f.gep(F64, self.numbers, numbers), self.scratch]
            f.call(self.module.functions[call.function].signature, [*tables, low, high])
        return f.add(before, extent)
