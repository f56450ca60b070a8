"""Cholesky factors: U^T U = S, row by row of U; of S the upper triangle is read."""

from __future__ import annotations

from weft.codegen.emit import I64, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.matrices.kernel import MatrixKernel
from weft.codegen.matrices.rows import Matrix, Rows


def emit_cholesky(kernel: MatrixKernel) -> None:
    """Operands: S, U (the other triangle is cleared). Sizes: n. Ends with the first minor that is not positive
    definite."""
    (n,) = kernel.sizes
    rows = kernel.rows()

    def body(element: Scalar) -> None:
        held = rows.scratch(kernel.memory, n)
        rows.copy(kernel.matrix(0, element), held, n, n)
        _factor(kernel, rows, held, n, element)
        _give_triangle(rows, held, kernel.matrix(1, element), n)

    kernel.emit(body)


def _factor(kernel: MatrixKernel, rows: Rows, a: Matrix, n: Scalar, element: Scalar) -> None:
    """Row i: what the rows above make of it, over the root of its first element. Columns before the diagonal come along
    in the same vectors, and mean nothing."""
    f = kernel.f
    with f.loop(0, n, name="i") as row:
        i = row.index
        with f.loop(rows.first(i), n, rows.lanes, "j") as column:
            x = rows.load(a, i, column.index)
            with f.loop(0, i, name="k", carried=[(x, "x")]) as above:
                factor = rows.splat(f.fneg(rows.element(a, above.index, i)))
                above.next(rows.less_product(above.carried[0], factor, rows.load(a, above.index, column.index)))
            rows.store(a, i, column.index, above.results[0])
        pivot = rows.element(a, i, i)
        with f.if_(f.fcmp("ole", pivot, 0.0), "fails"):
            kernel.fail(element, f.add(i, 1))
        root = rows.math.sqrt(pivot)
        with f.loop(rows.first(i), n, rows.lanes, "j") as column:
            scaled = f.fdiv(rows.load(a, i, column.index), rows.splat(root))
            rows.store(a, i, column.index, scaled)
        rows.put(a, i, i, root)


def _give_triangle(rows: Rows, source: Matrix, target: Matrix, n: Scalar) -> None:
    f = rows.f
    with f.loop(const(I64, 0), n, name="row") as row, f.loop(0, n, rows.lanes, "column") as column:
        x = rows.load(source, row.index, column.index)
        kept = f.select(rows.since(row.index, column.index), x, const(rows.type, 0.0))
        rows.write(target, row.index, column.index, n, kept)
