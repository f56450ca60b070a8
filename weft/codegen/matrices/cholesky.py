"""Cholesky factors: U^T U = S, row by row of U; of S the upper triangle is read."""

from __future__ import annotations

import math
from collections.abc import Callable

from weft.codegen.emit import I32, I64, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.matrices.blocks import Products, blocks
from weft.codegen.matrices.kernel import MatrixKernel
from weft.codegen.matrices.rows import Matrix, Rows


def emit_cholesky(kernel: MatrixKernel, reports: bool) -> None:
    """Operands: S, U (the other triangle is cleared). Sizes: n. Ends with the first minor that is not positive
    definite; or reports its order, else 0, as a third operand, and U is NaN."""
    n, f = kernel.sizes[0], kernel.f
    rows = kernel.rows()
    products = kernel.products(rows, n)
    held = kernel.room(rows, n, n)

    def body(element: Scalar) -> None:
        rows.copy(kernel.matrix(0, element), held, n, n)
        info = kernel.matrix(2, element).base if reports else None
        if info is not None:
            f.store(const(I32, 0), info)

        def refuse(order: Scalar) -> None:
            if info is None:
                kernel.fail(element, order)
                return
            with f.if_(f.icmp("eq", f.load(I32, info), 0), "first"):
                f.store(f.trunc(order, I32), info)

        if products is None:
            _factor(rows, held, const(I64, 0), n, n, refuse)
        else:
            with blocks(rows, n) as (start, end):
                _subtract_above(products, rows, held, start, end, n)
                _factor(rows, held, start, end, n, refuse)
        is_nan = f.icmp("ne", f.load(I32, info), 0) if info is not None else None
        _give_triangle(rows, held, kernel.matrix(1, element), n, is_nan)

    kernel.emit(body)


def _subtract_above(products: Products, rows: Rows, a: Matrix, start: Scalar, end: Scalar, n: Scalar) -> None:
    """What the rows above a block make of it."""
    f = rows.f
    height = f.sub(end, start)
    above = products.negated(rows.part(a, 0, start), start, height)
    products.add(
        rows.part(a, start, start), above.transposed, rows.part(a, 0, start), height, f.sub(n, start), start
    )


def _factor(
    rows: Rows, a: Matrix, start: Scalar, end: Scalar, n: Scalar, refuse: Callable[[Scalar], None]
) -> None:
    """Row i of a block: what the block's rows above make of it, over the root of its first element. Columns before the
    diagonal come along in the same vectors, and mean nothing."""
    f = rows.f
    with f.loop(start, end, name="i") as row:
        i = row.index
        with f.loop(rows.first(i), n, rows.lanes, "j") as column:
            x = rows.load(a, i, column.index)
            with f.loop(start, i, name="k", carried=[(x, "x")]) as above:
                factor = rows.splat(f.fneg(rows.element(a, above.index, i)))
                above.next(rows.less_product(above.carried[0], factor, rows.load(a, above.index, column.index)))
            rows.store(a, i, column.index, above.results[0])
        pivot = rows.element(a, i, i)
        with f.if_(f.fcmp("ule", pivot, 0.0), "fails"):
            refuse(f.add(i, 1))
        root = rows.math.sqrt(pivot)
        with f.loop(rows.first(i), n, rows.lanes, "j") as column:
            scaled = f.fdiv(rows.load(a, i, column.index), rows.splat(root))
            rows.store(a, i, column.index, scaled)
        rows.put(a, i, i, root)


def _give_triangle(rows: Rows, source: Matrix, target: Matrix, n: Scalar, is_nan: Scalar | None) -> None:
    """The upper triangle, and zeros; row by row of what is written. Or NaN everywhere."""
    f, zero, is_column_major = rows.f, const(rows.type, 0.0), target.is_column_major
    if is_column_major:
        source, target = source.transposed, target.transposed
    with f.loop(const(I64, 0), n, name="row") as row, f.loop(0, n, rows.lanes, "column") as column:
        i, j = row.index, column.index
        x = rows.read(source, i, j, n)
        kept = f.select(rows.since(f.add(i, 1), j), zero, x) if is_column_major else f.select(rows.since(i, j), x, zero)
        rows.write(target, i, j, n, kept if is_nan is None else f.select(is_nan, const(rows.type, math.nan), kept))
