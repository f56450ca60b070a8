"""Blocks of rows, for sizes that may be large: what earlier blocks do to a later one is one product."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.codegen.emit import I32, I64, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.gemm import declare_gemm
from weft.codegen.matrices.rows import Matrix, Rows

SIZE = 64  # rows of a block: a multiple of every vector's lanes


class Products:
    """Subtracts products from blocks. space: the products' workspace; panel: room for one operand of each, SIZE rows or
    SIZE columns of it."""

    def __init__(self, rows: Rows, space: Scalar, panel: Scalar) -> None:
        self.rows, self.space, self.panel = rows, space, panel
        dtype = "float32" if rows.elem.bits == 32 else "float64"
        self._gemm = declare_gemm(rows.f.module, dtype, rows.target).gemm

    def negated(self, a: Matrix, m: Scalar, n: Scalar) -> Matrix:
        """-a [m, n], until the next one is asked for."""
        rows, f = self.rows, self.rows.f
        negated = Matrix(self.panel, rows.padded(n), const(I64, 1))
        with f.loop(0, m, name="row") as row, f.loop(0, n, rows.lanes, "column") as column:
            x = rows.read(a, row.index, column.index, n)
            rows.store(negated, row.index, column.index, f.fneg(x))
        return negated

    def add(
        self, target: Matrix, a: Matrix, b: Matrix, m: Scalar, n: Scalar, k: Scalar, begins: bool = False
    ) -> None:
        """target [m, n] += a [m, k] b [k, n], or = where that begins it; the columns of the target follow each other.
        """
        f = self.rows.f
        with f.if_(f.icmp("sgt", n, 0), "product"):
            f.call(self._gemm, [
                a.base, b.base, target.base, m, n, k, a.rows, a.columns, b.rows, b.columns, target.rows,
                const(I32, not begins), self.space, const(I64, 0), m, const(I64, 0), n,
            ])


def multiply(products: Products | None, rows: Rows, a: Matrix, b: Matrix, target: Matrix, n: Scalar) -> None:
    """target = a b, for matrices of whole vectors, n rows and n columns."""
    f = rows.f
    if products is not None:
        products.add(target, a, b, n, n, n, begins=True)
        return
    with f.loop(0, n, name="i") as row, f.loop(0, n, rows.lanes, "c") as column:
        with f.loop(0, n, name="k", carried=[(const(rows.type, 0.0), "x")]) as inner:
            factor = rows.splat(rows.element(a, row.index, inner.index))
            inner.next(rows.math.mad(factor, rows.load(b, inner.index, column.index), inner.carried[0]))
        rows.write(target, row.index, column.index, n, inner.results[0])


@contextmanager
def blocks(rows: Rows, n: Scalar) -> Iterator[tuple[Scalar, Scalar]]:
    """A loop over blocks of n rows: the first row of each, and the one after its last."""
    f = rows.f
    with f.loop(0, n, SIZE, "block") as block:
        yield block.index, f.smin(f.add(block.index, SIZE), n, "end")


@contextmanager
def blocks_from_end(rows: Rows, n: Scalar) -> Iterator[tuple[Scalar, Scalar]]:
    """The same blocks, the last one first."""
    f = rows.f
    last = f.sub(f.sdiv(f.add(n, SIZE - 1), SIZE), 1)
    with f.loop(last, const(I64, -1), -1, "block") as block:
        start = f.mul(block.index, SIZE)
        yield start, f.smin(f.add(start, SIZE), n, "end")
