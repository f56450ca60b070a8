"""Scans along a dim: cumulative sums, products and extrema, and the linear recurrence that gradients are made of.
Scans go side by side in the lanes of vectors: of columns behind the dim, or of rows if it is the last one, which are
turned in squares. The order of each scan is eager's."""

from __future__ import annotations

from weft.codegen.emit import I64, PTR, Function, Module, const, vec
from weft.codegen.emit import Value as Scalar
from weft.codegen.lower.accumulate import COLUMNS, whole_buffer
from weft.codegen.lower.loops import PARAMETERS
from weft.codegen.lower.lowering import BlockLowering, lowers
from weft.codegen.lower.scan_steps import Held, ScanKind, ScanSteps
from weft.codegen.target import Target
from weft.ir.graph import Node
from weft.loops.kernel import KernelCall
from weft.ops.packet import aten
from weft.ops.rules import normalize_dim
from weft.passes.alias import dims_of, dtype_of
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dims import is_one

_INTS = ("count", "inner", "chunks", "outer")
_FLOATS = (dt.float32, dt.float64)
_SUMS = (*_FLOATS, dt.int64, dt.int32)
_ORDERED = (*_SUMS, dt.int16, dt.int8, dt.uint8, dt.bool_)
_DTYPES = {"_linear_scan": _FLOATS, "logcumsumexp": _FLOATS, "cummax": _ORDERED, "cummin": _ORDERED}
_WORK = {"logcumsumexp": 60}


@lowers(
    aten.cumsum, aten._cumsum_from_end, aten.cumprod, aten._exclusive_cumprod, aten._linear_scan, aten.cummax,
    aten.cummin, aten.logcumsumexp,
)
def lower_scan(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """A scan of one or two values along a dim."""
    name, dtype, dims = node.op.base, dtype_of(node.outputs[0]), dims_of(node.outputs[0])
    if dtype is None or not dims or dtype not in _DTYPES.get(name, _SUMS):
        return None
    is_linear = name == "_linear_scan"
    kind = ScanKind(name, dtype, name == "_cumsum_from_end" or (is_linear and bool(node.args[3])))
    axis = normalize_dim(name, node.args[kind.operands], len(dims))
    sources = [whole_buffer(block, v, node, dtype) for v in node.args[: kind.operands]]
    count, inner, outer = dims[axis], dm.product(dims[axis + 1 :]), dm.product(dims[:axis])
    target = block.lowering.target
    are_rows = is_one(inner)
    side = _side(target)
    chunks = dm.floordiv(inner + COLUMNS - 1, COLUMNS)
    extent = dm.floordiv(outer + side - 1, side) if are_rows else outer * chunks
    emit = _emit_rows if are_rows else _emit_columns
    function = block.lowering.function(
        ("scan", kind, are_rows), f"{name.strip('_')}_{dtype.short}",
        lambda name: emit(block.lowering.module, name, kind, target))
    buffers = (*[v for v, _ in sources], *node.outputs)
    call = KernelCall(
        function, buffers, len(node.outputs), (count, inner, chunks, outer), (), extent,
        dm.product(dims) * _WORK.get(name, 4), 0, ((0, kind.operands - 1),), (node,))
    return [*[c for _, c in sources if c is not None], call]


def _side(target: Target) -> int:
    """Rows that go side by side."""
    return target.lanes(8)


class _Scan:
    """What both ways share: the table, the buffers, what each is read and written as."""

    def __init__(self, module: Module, name: str, kind: ScanKind) -> None:
        self.f: Function = module.function(name, I64, PARAMETERS)
        self.kind = kind
        f = self.f
        bufs, table, _, _, self.begin, self.end = f.params
        self.count, self.inner, self.chunks, self.outer = (
            f.load(I64, f.gep(I64, table, i), name=key) for i, key in enumerate(_INTS)
        )
        types = (*[kind.elem] * kind.operands, *kind.outputs)
        self.buffers = [(f.load(PTR, f.gep(PTR, bufs, i)), type) for i, type in enumerate(types)]
        self.sources, self.targets = self.buffers[: kind.operands], self.buffers[kind.operands :]


# ---- columns
def _emit_columns(module: Module, name: str, kind: ScanKind, target: Target) -> None:
    """A part is one outer index and some of the columns behind the dim."""
    scan = _Scan(module, name, kind)
    f, lanes = scan.f, target.lanes(kind.dtype.itemsize)
    with f.loop(scan.begin, scan.end, name="part") as part:
        outer = f.sdiv(part.index, scan.chunks, "outer")
        low = f.mul(f.sub(part.index, f.mul(outer, scan.chunks)), COLUMNS, "low")
        high = f.smin(f.add(low, COLUMNS), scan.inner, "high")
        start = f.mul(outer, f.mul(scan.count, scan.inner), "start")
        with f.loop(low, high, lanes, "column") as column:
            mask = f.first_lanes(f.sub(high, column.index), lanes)
            _scan_columns(scan, ScanSteps(f, kind, lanes, target), f.add(start, column.index), mask)
    f.ret(const(I64, 0))


def _scan_columns(scan: _Scan, steps: ScanSteps, start: Scalar, mask: Scalar) -> None:
    """One scan for each lane."""
    f, lanes = scan.f, steps.lanes
    is_reversed = scan.kind.is_reversed
    first, end, step = (f.sub(scan.count, 1), const(I64, -1), -1) if is_reversed else (0, scan.count, 1)
    with f.loop(first, end, step, "row", carried=[(v, "held") for v in steps.start()]) as row:
        at = f.add(start, f.mul(row.index, scan.inner))
        operands = [f.masked_load(vec(type, lanes), f.gep(type, p, at), mask) for p, type in scan.sources]
        held, outs = steps.step(row.carried, operands, row.index)
        for out, (p, type) in zip(outs, scan.targets, strict=True):
            f.masked_store(out, f.gep(type, p, at), mask)
        row.next(*held)


# ---- rows
def _emit_rows(module: Module, name: str, kind: ScanKind, target: Target) -> None:
    """A part is as many rows as go side by side; the last one again and again where there are fewer. A row that is left
    alone goes by itself."""
    scan = _Scan(module, name, kind)
    f, side = scan.f, _side(target)
    with f.loop(scan.begin, scan.end, name="part") as part:
        first = f.mul(part.index, side)
        with f.if_else(f.icmp("eq", f.sub(scan.outer, first), 1), "alone") as rows:
            with rows.then:
                _scan_row(scan, ScanSteps(f, kind, 1, target), f.mul(first, scan.count))
            with rows.otherwise:
                _scan_rows(scan, ScanSteps(f, kind, side, target), first)
    f.ret(const(I64, 0))


def _scan_row(scan: _Scan, steps: ScanSteps, start: Scalar) -> None:
    f, is_reversed = scan.f, scan.kind.is_reversed
    first, end, step = (f.sub(scan.count, 1), const(I64, -1), -1) if is_reversed else (0, scan.count, 1)
    with f.loop(first, end, step, "element", carried=[(v, "held") for v in steps.start()]) as loop:
        at = f.add(start, loop.index)
        operands = [f.load(type, f.gep(type, p, at)) for p, type in scan.sources]
        held, outs = steps.step(loop.carried, operands, loop.index)
        for out, (p, type) in zip(outs, scan.targets, strict=True):
            f.store(out, f.gep(type, p, at))
        loop.next(*held)


def _scan_rows(scan: _Scan, steps: ScanSteps, first: Scalar) -> None:
    """Whole squares and the columns behind them, from whichever end the scan begins at."""
    f, side, is_reversed = scan.f, steps.lanes, scan.kind.is_reversed
    rows = [f.smin(f.add(first, k), f.sub(scan.outer, 1), "row") for k in range(side)]
    starts = [f.mul(row, scan.count) for row in rows]
    whole = f.and_(scan.count, -side, "whole")
    held = steps.start()
    for is_rest in (True, False) if is_reversed else (False, True):
        low, high, step = const(I64, 0), whole, side
        if is_rest:
            low, high = whole, scan.count
        elif is_reversed:
            low, high, step = f.sub(whole, side), const(I64, -1), -side
        with f.loop(low, high, step, "square", carried=[(v, "held") for v in held]) as loop:
            mask = f.first_lanes(f.sub(scan.count, loop.index), side) if is_rest else None
            loop.next(*_scan_square(scan, steps, starts, loop.index, mask, loop.carried))
        held = loop.results


def _scan_square(
    scan: _Scan, steps: ScanSteps, starts: list[Scalar], column: Scalar, mask: Scalar | None, held: Held
) -> Held:
    """As many columns of the rows as they are, turned, so that a vector has one element of each row."""
    f, side = scan.f, steps.lanes
    places = [f.add(start, column) for start in starts]
    operands: list[list[Scalar]] = []
    for p, type in scan.sources:
        at = [f.gep(type, p, place) for place in places]
        kind = vec(type, side)
        operands.append(_turned(f, [f.load(kind, a) if mask is None else f.masked_load(kind, a, mask) for a in at]))
    columns: list[list[Scalar]] = [[] for _ in range(side)]
    for k in reversed(range(side)) if scan.kind.is_reversed else range(side):
        following, outs = steps.step(held, [o[k] for o in operands], f.add(column, k))
        held = following if mask is None else _kept(f, f.extractelement(mask, k), following, held)
        columns[k] = list(outs)
    for number, (p, type) in enumerate(scan.targets):
        turned = _turned(f, [outs[number] for outs in columns])
        for x, place in zip(turned, places, strict=True):
            at_place = f.gep(type, p, place)
            if mask is None:
                f.store(x, at_place)
            else:
                f.masked_store(x, at_place, mask)
    return held


def _kept(f: Function, is_there: Scalar, following: Held, held: Held) -> Held:
    """What is held after an element, if there is one."""
    return tuple(f.select(is_there, a, b) for a, b in zip(following, held, strict=True))


def _turned(f: Function, rows: list[Scalar]) -> list[Scalar]:
    """The columns of a square: rows of its upper half alternate with those of its lower one, as often as it can be
    halved."""
    side = len(rows)
    half, steps = side // 2, side.bit_length() - 1
    low = [i // 2 + (i % 2) * side for i in range(side)]
    high = [n + half for n in low]
    for _ in range(steps):
        pairs = [(rows[i], rows[i + half]) for i in range(half)]
        rows = [f.shufflevector(a, b, lanes) for a, b in pairs for lanes in (low, high)]
    return rows
