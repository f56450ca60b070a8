"""Substitution: L X = B for a lower triangular L, several columns of X at a time. Others are this one, read by strides
that run backwards or are exchanged."""

from __future__ import annotations

from weft.codegen.emit import Value as Scalar
from weft.codegen.matrices.kernel import MatrixKernel


def emit_substitution(kernel: MatrixKernel, is_unit: bool, lanes: int) -> None:
    """Operands: L, B, X. Sizes: n, columns. is_unit: L's diagonal counts as ones. lanes: 1 for one column, 0 for as
    many as a register has."""
    n, count = kernel.sizes
    rows = kernel.rows(lanes)
    f = kernel.f

    def body(element: Scalar) -> None:
        lower, right, result = (kernel.matrix(i, element) for i in range(3))
        x = rows.scratch(kernel.memory, count)
        rows.copy(right, x, n, count)
        with f.loop(0, n, name="i") as row:
            i = row.index
            with f.loop(0, count, rows.lanes, "c") as column:
                start = rows.load(x, i, column.index)
                with f.loop(0, i, name="j", carried=[(start, "x")]) as before:
                    factor = rows.splat(f.fneg(rows.element(lower, i, before.index)))
                    solved = rows.load(x, before.index, column.index)
                    before.next(rows.less_product(before.carried[0], factor, solved))
                rest = before.results[0]
                if not is_unit:
                    rest = f.fdiv(rest, rows.splat(rows.element(lower, i, i)))
                rows.store(x, i, column.index, rest)
        rows.give(x, result, n, count)

    kernel.emit(body)
