"""Register tiles of convolutions as functions, which write whole vectors.

    WindowTiles    strips of a packed weight times rows of memory, one for each (channel, tap), at offsets from a table
    LineTiles      packed lines times a packed panel: the matrix product's own tile
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen.emit import I1, I8, I64, PTR, VOID, Function, Module, Signature, Value, const
from weft.codegen.gemm.kernel import BY_ROWS, Tile, multiply_add, multiply_tile, store_tile
from weft.codegen.gemm.tiles import GemmPlan

MOST_VECTORS = 8  # of a tile of few rows

_WINDOW = [
    (PTR, "a"), (PTR, "b"), (PTR, "offsets"), (PTR, "c"), (I64, "ldc"), (I64, "depth"), (I1, "adds")
]  # fmt: skip
_LINE = [
    (PTR, "a"), (I64, "lda"), (PTR, "b"), (I64, "ldb"), (PTR, "c"), (I64, "ldc"), (I64, "depth"), (I1, "adds")
]  # fmt: skip


class WindowTiles:
    """Functions (a, b, offsets, c, ldc, depth, adds): C = A x B, or C += A x B, for 1 to `plan.rows` rows: row i of
    column k of A is a[k * rows + i], row k of B begins `offsets[k]` bytes after b, rows of C are ldc bytes apart."""

    def __init__(self, module: Module, plan: GemmPlan) -> None:
        self.plan = plan
        self.widths = {rows: self._widths(rows) for rows in range(1, plan.rows + 1)}
        self.functions = {
            (rows, vectors): self._emit(module, rows, vectors)
            for rows, widths in self.widths.items()
            for vectors in widths
        }

    def _widths(self, rows: int) -> list[int]:
        """Vectors of the tiles of so many rows, most first: what registers hold beside a row of B."""
        most = self.plan.vectors
        spare = self.plan.registers - 2
        while most < MOST_VECTORS and (rows + 1) * (most + 1) <= spare:
            most += 1
        return sorted({most, *range(1, self.plan.vectors + 1), *(n for n in (4,) if n < most)}, reverse=True)

    def _emit(self, module: Module, rows: int, vectors: int) -> Signature:
        plan = self.plan
        name = f"weft_convolution_tile_{rows}x{vectors}_{plan.suffix}"
        f = module.function(name, VOID, _WINDOW, internal=True)
        a, b, offsets, c, ldc, depth, adds = f.params
        zeros = [(const(plan.vector, 0.0), "sum")] * (rows * vectors)
        with f.loop(0, depth, 1, "k", [(a, "a"), *zeros]) as k:
            at, sums = k.carried[0], list(k.carried[1:])
            row = f.gep(I8, b, f.load(I64, f.gep(I64, offsets, k.index)))
            xs = [f.load(plan.vector, f.gep(plan.elem, row, j * plan.lanes), name="b") for j in range(vectors)]
            for i in range(rows):
                w = f.splat(f.load(plan.elem, f.gep(plan.elem, at, i), name="a"), plan.lanes)
                for j, x in enumerate(xs):
                    sums[i * vectors + j] = multiply_add(f, plan, w, x, sums[i * vectors + j])
            k.next(f.gep(plan.elem, at, rows), *sums)
        results = k.results[1:]
        tile = [results[i * vectors : (i + 1) * vectors] for i in range(rows)]
        store_tile(f, plan, Tile(tile, c, ldc, const(I64, 0), const(I64, 0), None, adds))
        f.ret()
        return f.signature

    def multiply(
        self, f: Function, strips: Strips, columns: Value, a: Value, b: Value, offsets: Value, c: Value,
        rest: Sequence[Value],
    ) -> None:
        """All strips of A times `columns` columns; the last tile goes beyond them. rest: ldc, depth, adds."""
        ldc, depth, _ = rest
        with f.if_else(f.icmp("eq", strips.count, 1), "one_strip") as how:
            with how.then:
                self._sweep(f, strips.rows(const(I64, 0)), columns, a, b, offsets, c, rest)
            with how.otherwise, f.loop(0, columns, self.plan.panel, "column") as column:
                # a panel stays in the first-level cache while all strips pass over it
                left = f.sub(columns, column.index)
                vectors = f.smin(f.udiv(f.add(left, self.plan.lanes - 1), self.plan.lanes), self.plan.vectors)
                at, to = (f.gep(self.plan.elem, p, column.index) for p in (b, c))
                with f.loop(0, strips.count, 1, "strip") as strip:
                    row, rows = strips.start(strip.index), strips.rows(strip.index)
                    strip_a, strip_c = f.gep(self.plan.elem, a, f.mul(row, depth)), f.gep(I8, to, f.mul(row, ldc))
                    self._call(f, rows, vectors, [strip_a, at, offsets, strip_c, *rest])

    def _call(self, f: Function, rows: Value, vectors: Value, arguments: Sequence[Value]) -> None:
        cases = [(height, width) for height in self.widths for width in range(1, self.plan.vectors + 1)]
        labels, done = [f.block("tile") for _ in cases], f.block("tile_done")
        number = f.add(f.mul(f.sub(rows, 1), self.plan.vectors), f.sub(vectors, 1))
        f.switch(number, labels[-1], list(enumerate(labels))[:-1])
        for case, label in zip(cases, labels, strict=True):
            f.place(label)
            f.call(self.functions[case], list(arguments))
            f.br(done)
        f.place(done)

    def _sweep(
        self, f: Function, rows: Value, columns: Value, a: Value, b: Value, offsets: Value, c: Value,
        rest: Sequence[Value],
    ) -> None:
        """One strip of `rows` rows, by the widest tiles that there are."""
        labels, done = [f.block("rows") for _ in self.widths], f.block("rows_done")
        f.switch(rows, labels[-1], list(zip(self.widths, labels, strict=True))[:-1])
        for (height, widths), label in zip(self.widths.items(), labels, strict=True):
            f.place(label)
            start: Value = const(I64, 0)
            for vectors in widths:
                width = vectors * self.plan.lanes
                is_last = vectors == widths[-1]
                # a tile at least as wide as what is left is taken where the next narrower one does not cover it
                narrower = 0 if is_last else widths[widths.index(vectors) + 1] * self.plan.lanes
                with f.while_loop([(start, "column")], "columns") as walk:
                    column = walk.carried[0]
                    walk.test(f.icmp("sgt", f.sub(columns, column), narrower))
                    at, to = (f.gep(self.plan.elem, p, column) for p in (b, c))
                    f.call(self.functions[height, vectors], [a, at, offsets, to, *rest])
                    walk.next(f.add(column, width))
                start = walk.results[0]
            f.br(done)
        f.place(done)


class LineTiles:
    """Functions (a, lda, b, ldb, c, ldc, depth, adds): C = A x B, or C += A x B, of 1 to `plan.rows` rows and 1 to
    `plan.vectors` vectors; A lies by rows. Strides are in bytes."""

    def __init__(self, module: Module, plan: GemmPlan) -> None:
        self.plan = plan
        self.functions = {
            (rows, vectors): self._emit(module, rows, vectors)
            for rows in range(1, plan.rows + 1)
            for vectors in range(1, plan.vectors + 1)
        }

    def _emit(self, module: Module, rows: int, vectors: int) -> Signature:
        plan = self.plan
        f = module.function(f"weft_convolution_lines_{rows}x{vectors}_{plan.suffix}", VOID, _LINE, internal=True)
        a, lda, b, ldb, c, ldc, depth, adds = f.params
        sums = multiply_tile(f, plan, BY_ROWS, rows, vectors, a, lda, b, ldb, depth, prefetches=False)
        store_tile(f, plan, Tile(sums, c, ldc, const(I64, 0), const(I64, 0), None, adds))
        f.ret()
        return f.signature

    def call(self, f: Function, rows: Value, vectors: Value, arguments: Sequence[Value]) -> None:
        """The tile of these sizes."""
        cases = list(self.functions)
        labels, done = [f.block("tile") for _ in cases], f.block("tile_done")
        number = f.add(f.mul(f.sub(rows, 1), self.plan.vectors), f.sub(vectors, 1))
        f.switch(number, labels[-1], list(enumerate(labels))[:-1])
        for case, label in zip(cases, labels, strict=True):
            f.place(label)
            f.call(self.functions[case], list(arguments))
            f.br(done)
        f.place(done)

    def vectors_for(self, f: Function, left: Value) -> Value:
        """Vectors of a tile that covers `left` columns, or as many as it can."""
        lanes = self.plan.lanes
        return f.smin(f.udiv(f.add(left, lanes - 1), lanes), self.plan.vectors)


class Strips:
    """`total` rows in as few strips of at most `plan.rows` as there can be; no two differ by more than one row."""

    def __init__(self, f: Function, plan: GemmPlan, total: Value) -> None:
        self.f = f
        self.count = f.udiv(f.add(total, plan.rows - 1), plan.rows, "strips")
        by = f.smax(self.count, 1)
        self.least, self.taller = f.udiv(total, by), f.urem(total, by)

    def start(self, number: Value) -> Value:
        """First row of a strip."""
        f = self.f
        return f.add(f.mul(number, self.least), f.smin(number, self.taller))

    def rows(self, number: Value) -> Value:
        """Rows of a strip."""
        f = self.f
        return f.add(self.least, f.zext(f.icmp("slt", number, self.taller), I64))
