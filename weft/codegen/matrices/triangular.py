"""Substitution: L X = B for a lower triangular L, several columns of X at a time. Others are this one, read by strides
that run backwards or are exchanged."""

from __future__ import annotations

from weft.codegen.emit import I64, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.matrices.blocks import Products, blocks, blocks_from_end
from weft.codegen.matrices.kernel import MatrixKernel
from weft.codegen.matrices.rows import Matrix, Rows


def emit_substitution(kernel: MatrixKernel, is_unit: bool, lanes: int) -> None:
    """Operands: L, B, X. Sizes: n, columns. is_unit: L's diagonal counts as ones. lanes: 1 for one column, 0 for as
    many as a register has."""
    n, count = kernel.sizes[:2]
    wide, rows = kernel.rows(), kernel.rows(lanes)
    products = kernel.products(wide, n)
    x = kernel.room(rows, n, count)

    def body(element: Scalar) -> None:
        lower, right, result = (kernel.matrix(i, element) for i in range(3))
        rows.copy(right, x, n, count)
        if products is None:
            _substitute(rows, lower, x, const(I64, 0), n, count, is_unit)
        else:
            with blocks(rows, n) as (start, end):
                height = rows.f.sub(end, start)
                before = products.negated(wide.part(lower, start, 0), height, start)
                products.add(rows.part(x, start, 0), before, x, height, count, start)
                _substitute(rows, lower, x, start, end, count, is_unit)
        rows.give(x, result, n, count)

    kernel.emit(body)


def _substitute(
    rows: Rows, lower: Matrix, x: Matrix, start: Scalar, end: Scalar, count: Scalar, is_unit: bool
) -> None:
    """The rows of a block, one after another."""
    f = rows.f
    with f.loop(start, end, name="i") as row, f.loop(0, count, rows.lanes, "c") as column:
        i = row.index
        with f.loop(start, i, name="j", carried=[(rows.load(x, i, column.index), "x")]) as before:
            factor = rows.splat(f.fneg(rows.element(lower, i, before.index)))
            solved = rows.load(x, before.index, column.index)
            before.next(rows.less_product(before.carried[0], factor, solved))
        rest = before.results[0]
        if not is_unit:
            rest = f.fdiv(rest, rows.splat(rows.element(lower, i, i)))
        rows.store(x, i, column.index, rest)


def substitute_back(
    products: Products | None, rows: Rows, upper: Matrix, n: Scalar, x: Matrix, count: Scalar
) -> None:
    """x becomes U^-1 x."""
    if products is None:
        _substitute_back(rows, upper, const(I64, 0), n, x, count)
        return
    f = rows.f
    with blocks_from_end(rows, n) as (start, end):
        height, left = f.sub(end, start), f.sub(n, end)
        later = products.negated(products.rows.part(upper, start, end), height, left)
        products.add(rows.part(x, start, 0), later, rows.part(x, end, 0), height, count, left)
        _substitute_back(rows, upper, start, end, x, count)


def _substitute_back(rows: Rows, upper: Matrix, start: Scalar, end: Scalar, x: Matrix, count: Scalar) -> None:
    f = rows.f
    with f.loop(f.sub(end, 1), f.sub(start, 1), -1, "i") as row, f.loop(0, count, rows.lanes, "c") as column:
        i = row.index
        with f.loop(f.add(i, 1), end, name="j", carried=[(rows.load(x, i, column.index), "x")]) as later:
            factor = rows.splat(f.fneg(rows.element(upper, i, later.index)))
            later.next(rows.less_product(later.carried[0], factor, rows.load(x, later.index, column.index)))
        rows.store(x, i, column.index, f.fdiv(later.results[0], rows.splat(rows.element(upper, i, i))))
