"""The inner kernels of the matrix product: one strip of rows of A times a block of B, kept in registers tile by tile.

Each element of a tile is one accumulator that adds a[i, k] * b[k, j] for k in order, so its value depends neither
on the tile's shape
nor on its place: that is why a result does not change with the split of rows over threads.

    by rows A[i * lda + k], read in place: five pointers, three rows each, so that every address
    is base + {0, 1, 2} * stride by columns A[k * lda + i]: a transposed operand in place, or a packed strip
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weft.codegen.emit import I1, I8, I64, PTR, VOID, Function, Loop, Module, Signature, Value, const

from .tiles import CACHE_LINE, GemmPlan

BY_ROWS, BY_COLUMNS = "rows", "columns"
UNROLL = {BY_ROWS: 1, BY_COLUMNS: 2}
ROWS_PER_POINTER = 3
# how far ahead of a packed panel's row the next ones are fetched: 7 to 15% where B is larger than the first-level cache
PREFETCH_ROWS = 16


@dataclass(frozen=True)
class Tile:
    """A finished register tile on its way to memory.

    sums[i][j] is vector j of row i; `corner` is the address of its first element in C and `stride` the bytes from row
    to row; `row` and `column` are its place in C; `mask` is None, or which lanes of the last vector exist; `adds` (i1):
    C += rather than C =.
    """

    sums: Sequence[Sequence[Value]]
    corner: Value
    stride: Value
    row: Value
    column: Value
    mask: Value | None
    adds: Value


Epilogue = Callable[[Function, GemmPlan, Tile], None]


def store_tile(f: Function, plan: GemmPlan, tile: Tile) -> None:
    """The plain epilogue: write the tile to C, or add it to C."""
    with f.if_else(tile.adds, "adds") as how:
        with how.then:
            _store(f, plan, tile, adds=True)
        with how.otherwise:
            _store(f, plan, tile, adds=False)


def _store(f: Function, plan: GemmPlan, tile: Tile, adds: bool) -> None:
    place = tile.corner
    for i, row in enumerate(tile.sums):
        place = f.gep(I8, place, tile.stride, "c_row") if i else place
        for j, total in enumerate(row):
            at = f.gep(plan.elem, place, j * plan.lanes)
            mask = tile.mask if j == len(row) - 1 else None
            if adds and mask is None:
                total = f.fadd(f.load(plan.vector, at), total)
            elif adds and mask is not None:
                total = f.fadd(f.masked_load(plan.vector, at, mask), total)
            if mask is None:
                f.store(total, at)
            else:
                f.masked_store(total, at, mask)


def multiply_add(f: Function, plan: GemmPlan, a: Value, b: Value, c: Value) -> Value:
    """a * b + c; rounded once where the machine can."""
    return f.fma(a, b, c) if plan.has_fma else f.fadd(f.fmul(a, b), c)


class _Operands:
    """Where a K loop reads A and B: loop-carried pointers, moved on once per unrolled iteration."""

    def __init__(
        self, f: Function, plan: GemmPlan, kind: str, rows: int, vectors: int, lda: Value, ldb: Value, prefetches: bool
    ) -> None:
        self.f, self.plan, self.kind, self.rows, self.vectors = f, plan, kind, rows, vectors
        self.prefetches = prefetches
        self.lda, self.ldb = lda, ldb
        # Left to itself, loop strength reduction computes each row's address from the one before it.
        self.rows_apart = [lda, f.opaque(lda), f.opaque(f.mul(lda, 2))] if kind == BY_ROWS else []

    def starts(self, a: Value, b: Value) -> list[Value]:
        """The pointers before the loop: B's, then A's."""
        if self.kind == BY_COLUMNS:
            return [b, a]
        f, starts, at = self.f, [b], a
        for first in range(0, self.rows, ROWS_PER_POINTER):
            at = f.gep(I8, at, f.mul(self.lda, ROWS_PER_POINTER)) if first else at
            starts.append(f.opaque(at))
        return starts

    def step(self, pointers: Sequence[Value], sums: list[Value], count: int) -> tuple[list[Value], list[Value]]:
        """`count` values of k: the pointers after them, and the sums."""
        b, a = pointers[0], list(pointers[1:])
        for u in range(count):
            row = [
                self.f.load(self.plan.vector, self.f.gep(self.plan.elem, b, j * self.plan.lanes), name="b")
                for j in range(self.vectors)
            ]
            for i in range(self.rows):
                element = self.f.splat(self.f.load(self.plan.elem, self._address(a, i, u), name="a"), self.plan.lanes)
                for j in range(self.vectors):
                    at = i * self.vectors + j
                    sums[at] = multiply_add(self.f, self.plan, element, row[j], sums[at])
            if self.prefetches:
                self._prefetch(b)
            b = self.f.gep(I8, b, self.ldb)
            if self.kind == BY_COLUMNS:
                a[0] = self.f.gep(I8, a[0], self.lda)
        if self.kind == BY_ROWS:
            a = [self.f.gep(self.plan.elem, p, count) for p in a]
        return [b, *a], sums

    def _prefetch(self, b: Value) -> None:
        """The row of B that comes PREFETCH_ROWS later, which may lie in the next panel (or past the end:
        a prefetch never faults)."""
        row = self.plan.panel * self.plan.elem.bytes
        for at in range(0, self.vectors * self.plan.lanes * self.plan.elem.bytes, CACHE_LINE):
            self.f.prefetch(self.f.gep(I8, b, PREFETCH_ROWS * row + at, inbounds=False))

    def _address(self, a: list[Value], i: int, u: int) -> Value:
        if self.kind == BY_COLUMNS:
            return self.f.gep(self.plan.elem, a[0], i)
        group, member = divmod(i, ROWS_PER_POINTER)
        at = self.f.gep(I8, a[group], self.rows_apart[member]) if member else a[group]
        return self.f.gep(self.plan.elem, at, u)


def multiply_tile(
    f: Function,
    plan: GemmPlan,
    kind: str,
    rows: int,
    vectors: int,
    a: Value,
    lda: Value,
    b: Value,
    ldb: Value,
    depth: Value,
    prefetches: bool = True,
) -> list[list[Value]]:
    """A[rows, depth] x B[depth, vectors] from zero, in order of k. lda and ldb are in bytes.
    prefetches: whether B is packed in panels, so that what comes next is known."""
    operands = _Operands(f, plan, kind, rows, vectors, lda, ldb, prefetches)
    unroll = UNROLL[kind]
    carried = [(p, "at") for p in operands.starts(a, b)] + [(const(plan.vector, 0.0), "sum")] * (rows * vectors)
    whole = f.and_(depth, -unroll)
    ranges = ((const(I64, 0), whole, unroll), (whole, depth, 1)) if unroll > 1 else ((const(I64, 0), depth, 1),)
    for low, high, count in ranges:
        with f.loop(low, high, count, "k", carried) as loop:
            _advance(loop, operands, count)
        carried = [(value, hint) for value, (_, hint) in zip(loop.results, carried, strict=True)]
    sums = [value for value, hint in carried if hint == "sum"]
    return [sums[i * vectors : (i + 1) * vectors] for i in range(rows)]


def _prefetch_tile(f: Function, plan: GemmPlan, rows: int, corner: Value, ldc: Value) -> None:
    """Fetch the tile of C for writing while the sums are still being made."""
    place = corner
    for i in range(rows):
        place = f.gep(I8, place, ldc) if i else place
        for at in range(0, plan.panel * plan.elem.bytes, CACHE_LINE):
            f.prefetch(f.gep(I8, place, at), write=True)


def _advance(loop: Loop, operands: _Operands, count: int) -> None:
    pointers = len(loop.carried) - operands.rows * operands.vectors
    after, sums = operands.step(loop.carried[:pointers], list(loop.carried[pointers:]), count)
    loop.next(*after, *sums)


def strip_signature(name: str) -> Signature:
    """(A, lda, B, ldb, panel, edge, C, ldc, depth, columns, row, column, adds): see `emit_strip`."""
    return Signature(name, VOID, (PTR, I64, PTR, I64, I64, PTR, PTR, I64, I64, I64, I64, I64, I1))


def emit_strip(
    module: Module, plan: GemmPlan, name: str, kind: str, rows: int, epilogue: Epilogue = store_tile
) -> Signature:
    """A function that multiplies `rows` rows of A with a block of B of any width, panel by panel.

    Strides are in bytes: lda and ldb as the kernel walks them, `panel` from one panel of B to the next, ldc between
    rows of C. `edge` is the last, partial panel, always packed (its row stride is the panel's width). row, column:
    the place of C in the result.
    """
    names = ["a", "lda", "b", "ldb", "panel", "edge", "c", "ldc", "depth", "columns", "row", "column", "adds"]
    params = list(zip(strip_signature(name).params, names, strict=True))
    f = module.function(name, VOID, params, internal=True)
    a, lda, b, ldb, panel, edge, c, ldc, depth, columns, row, column, adds = f.params
    full = f.udiv(columns, plan.panel)
    with f.loop(0, full, 1, "panel", [(b, "b_panel"), (c, "c_panel"), (column, "column")]) as loop:
        at, corner, place = loop.carried
        _prefetch_tile(f, plan, rows, corner, ldc)
        sums = multiply_tile(f, plan, kind, rows, plan.vectors, a, lda, at, ldb, depth)
        epilogue(f, plan, Tile(sums, corner, ldc, row, place, None, adds))
        loop.next(f.gep(I8, at, panel), f.gep(plan.elem, corner, plan.panel), f.add(place, plan.panel))
    _, corner, place = loop.results
    left = f.sub(columns, f.mul(full, plan.panel), "left")
    for vectors in range(1, plan.vectors + 1):
        enough = f.and_(f.icmp("sgt", left, (vectors - 1) * plan.lanes), f.icmp("sle", left, vectors * plan.lanes))
        with f.if_(enough, "edge"):
            mask = f.first_lanes(f.sub(left, (vectors - 1) * plan.lanes), plan.lanes)
            stride = const(I64, plan.panel * plan.elem.bytes)
            sums = multiply_tile(f, plan, kind, rows, vectors, a, lda, edge, stride, depth)
            epilogue(f, plan, Tile(sums, corner, ldc, row, place, mask, adds))
    f.ret()
    return f.signature
