"""Elimination with row exchanges: LU factors, and what follows from them (systems, inverses, determinants)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from weft.codegen.emit import I32, I64, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.math.core import FloatMath
from weft.codegen.math.exponential import exp
from weft.codegen.math.logarithm import log
from weft.codegen.matrices.blocks import Products, blocks, multiply
from weft.codegen.matrices.kernel import MatrixKernel
from weft.codegen.matrices.rows import Matrix, Rows, identity
from weft.codegen.matrices.triangular import substitute_back


class Beside(NamedTuple):
    """A matrix beside the one that is eliminated, with vectors of a width of its own."""

    rows: Rows
    matrix: Matrix
    columns: Scalar


class Elimination:
    """Brings a [m, n] to P^T L U in place. `beside` gets the same exchanges and subtractions, so that B becomes
    L^-1 P B. With products it works in blocks of columns: what a block does to the columns after it, and to what is
    beside, waits until the block is done."""

    def __init__(
        self, rows: Rows, a: Matrix, m: Scalar, n: Scalar, beside: Beside | None = None,
        products: Products | None = None,
    ) -> None:
        self.f, self.rows, self.a, self.m, self.n, self.beside, self.products = (
            rows.f, rows, a, m, n, beside, products
        )

    def run(self, at_pivot: Callable[[Scalar, Scalar, Scalar], Scalar]) -> None:
        """All columns. `at_pivot(column, row that comes up, pivot)` gives what the rows below are divided by."""
        f, count = self.f, self.f.smin(self.m, self.n)
        if self.products is None:
            self._columns(const(I64, 0), count, self.n, at_pivot)
            return
        with blocks(self.rows, count) as (start, end):
            # the last block takes the columns after the last pivot, which may begin within a vector
            limit = f.select(f.icmp("eq", end, count), self.n, end)
            self._columns(start, end, limit, at_pivot)
            self._catch_up(self.products, Beside(self.rows, self.a, self.n), limit, start, end)
            if self.beside is not None:
                self._catch_up(self.products, self.beside, const(I64, 0), start, end)

    def _columns(
        self, start: Scalar, end: Scalar, limit: Scalar, at_pivot: Callable[[Scalar, Scalar, Scalar], Scalar]
    ) -> None:
        """The columns of a block; others before `limit` follow at once."""
        f, rows, a = self.f, self.rows, self.a
        with f.loop(start, end, name="k") as step:
            k = step.index
            top = self._greatest(k)
            with f.if_(f.icmp("ne", top, k), "exchange"):
                _exchange(rows, a, self.n, k, top)
                if self.beside is not None:
                    _exchange(*self.beside, k, top)
            divisor = at_pivot(k, top, rows.element(a, k, k))
            with f.loop(f.add(k, 1), self.m, name="i") as below:
                i = below.index
                factor = f.fdiv(rows.element(a, i, k), divisor, "factor")
                self._subtract(i, k, limit, f.fneg(factor))
                rows.put(a, i, k, factor)

    def _greatest(self, k: Scalar) -> Scalar:
        """The row, from k on, with the greatest element of column k: the first of equals."""
        f, rows = self.f, self.rows
        size = rows.math.abs(rows.element(self.a, k, k))
        with f.loop(f.add(k, 1), self.m, name="i", carried=[(size, "greatest"), (k, "top")]) as below:
            x = rows.math.abs(rows.element(self.a, below.index, k))
            is_greater = f.fcmp("ogt", x, below.carried[0])
            below.next(
                f.select(is_greater, x, below.carried[0]), f.select(is_greater, below.index, below.carried[1])
            )
        return below.results[1]

    def _subtract(self, i: Scalar, k: Scalar, limit: Scalar, negated: Scalar) -> None:
        """Row k, times a factor, from row i: after column k, and beside."""
        f, rows, a = self.f, self.rows, self.a
        following = f.add(k, 1)
        with f.loop(rows.first(following), limit, rows.lanes, "j") as column:
            x = rows.load(a, i, column.index)
            less = rows.less_product(x, rows.splat(negated), rows.load(a, k, column.index))
            kept = f.select(rows.since(following, column.index), less, x)  # before it stand the factors
            rows.store(a, i, column.index, kept)
        if self.beside is not None and self.products is None:
            own, b, columns = self.beside
            with f.loop(0, columns, own.lanes, "c") as column:
                less = own.less_product(
                    own.load(b, i, column.index), own.splat(negated), own.load(b, k, column.index)
                )
                own.store(b, i, column.index, less)

    def _catch_up(self, products: Products, late: Beside, first: Scalar, start: Scalar, end: Scalar) -> None:
        """What a block does to the columns from `first` on: its own rows one after another, those below by a
        product."""
        f, (rows, b, columns) = self.f, late
        with f.loop(f.add(start, 1), end, name="i") as row, f.loop(first, columns, rows.lanes, "c") as column:
            i = row.index
            with f.loop(start, i, name="k", carried=[(rows.load(b, i, column.index), "x")]) as above:
                factor = rows.splat(f.fneg(rows.element(self.a, i, above.index)))
                above.next(rows.less_product(above.carried[0], factor, rows.load(b, above.index, column.index)))
            rows.store(b, i, column.index, above.results[0])
        height, width, depth = f.sub(self.m, end), f.sub(columns, first), f.sub(end, start)
        below = products.negated(products.rows.part(self.a, end, start), height, depth)
        products.add(rows.part(b, end, first), below, rows.part(b, start, first), height, width, depth)


def _exchange(rows: Rows, a: Matrix, columns: Scalar, i: Scalar, j: Scalar) -> None:
    with rows.f.loop(0, columns, rows.lanes, "c") as column:
        x, y = rows.load(a, i, column.index), rows.load(a, j, column.index)
        rows.store(a, i, column.index, y)
        rows.store(a, j, column.index, x)


def emit_solve(kernel: MatrixKernel, lanes: int) -> None:
    """Operands: A, B, X. Sizes: n, columns. Ends with the first column in which a singular A has no pivot."""
    n, count = kernel.sizes[:2]

    def begin(rows: Rows, x: Matrix, element: Scalar) -> None:
        rows.copy(kernel.matrix(1, element), x, n, count)

    _emit_solve(kernel, n, count, lanes, 2, begin)


def emit_inverse(kernel: MatrixKernel) -> None:
    """Operands: A, its inverse. Sizes: n."""
    n = kernel.sizes[0]
    _emit_solve(kernel, n, n, 0, 1, lambda rows, x, element: identity(rows, x, n, n))


def _emit_solve(
    kernel: MatrixKernel, n: Scalar, count: Scalar, lanes: int, result: int,
    begin: Callable[[Rows, Matrix, Scalar], None],
) -> None:
    f, rows, columns = kernel.f, kernel.rows(), kernel.rows(lanes)
    products = kernel.products(rows, n)
    a, x = kernel.room(rows, n, n), kernel.room(columns, n, count)

    def body(element: Scalar) -> None:
        rows.copy(kernel.matrix(0, element), a, n, n)
        begin(columns, x, element)

        def divisor(k: Scalar, top: Scalar, pivot: Scalar) -> Scalar:
            with f.if_(f.fcmp("oeq", pivot, 0.0), "singular"):
                kernel.fail(element, f.add(k, 1))
            return pivot

        Elimination(rows, a, n, n, Beside(columns, x, count), products).run(divisor)
        substitute_back(products, columns, a, n, x, count)
        columns.give(x, kernel.matrix(result, element), n, count)

    kernel.emit(body)


def emit_determinant(kernel: MatrixKernel, is_logarithm: bool) -> None:
    """Operands: A, its determinant; or A, the determinant's sign, the logarithm of its magnitude. Sizes: n."""
    n = kernel.sizes[0]
    f, rows = kernel.f, kernel.rows()
    products, a = kernel.products(rows, n), kernel.room(rows, n, n)

    def body(element: Scalar) -> None:
        rows.copy(kernel.matrix(0, element), a, n, n)
        sign = f.alloca(rows.elem, name="sign")
        f.store(const(rows.elem, 1.0), sign)

        Elimination(rows, a, n, n, None, products).run(partial(_counted, rows, sign))
        parity = f.load(rows.elem, sign)

        def logarithm() -> tuple[Scalar, Scalar]:
            begin = [(parity, "sign"), (const(rows.elem, 0.0), "size")]
            with f.loop(0, n, name="i", carried=begin) as row:
                pivot = rows.element(a, row.index, row.index)
                row.next(*with_pivot(rows.math, pivot, *row.carried))
            return row.results[0], row.results[1]

        if is_logarithm:
            results: tuple[Scalar, ...] = logarithm()
        else:
            with f.loop(0, n, name="i", carried=[(parity, "product")]) as row:
                row.next(f.fmul(row.carried[0], rows.element(a, row.index, row.index)))
            product = row.results[0]
            results = (kept_in_range(rows.math, product, left_range(rows.math, product), logarithm),)
        for number, x in enumerate(results):
            rows.put(kernel.matrix(1 + number, element), 0, 0, x)

    kernel.emit(body)


def with_pivot(math: FloatMath, pivot: Scalar, sign: Scalar, size: Scalar) -> tuple[Scalar, Scalar]:
    """A determinant's sign and logarithm with one pivot more: the sign is 0 from the first zero on, and the sum of
    logarithms -inf."""
    f = math.f
    turned = f.select(f.fcmp("olt", pivot, 0.0), f.fneg(sign), sign)
    following = f.select(f.fcmp("oeq", pivot, 0.0), const(sign.type, 0.0), turned)
    return following, f.fadd(size, log(math, math.abs(pivot)))


def left_range(math: FloatMath, product: Scalar) -> Scalar:
    """Whether a product may have overflowed, or become 0, on the way only."""
    f = math.f
    return f.or_(f.fcmp("oeq", product, 0.0), f.fcmp("oeq", math.abs(product), float("inf")))


def kept_in_range(
    math: FloatMath, product: Scalar, is_out: Scalar, logarithm: Callable[[], tuple[Scalar, Scalar]]
) -> Scalar:
    """A product of pivots, by its logarithm where some lane left the range of numbers."""
    f = math.f
    any_out = f.reduce("or", is_out) if is_out.type.lanes else is_out
    with f.if_else(any_out, "out_of_range") as branches:
        with branches.then:
            sign, size = logarithm()
            branches.give(f.select(is_out, f.fmul(sign, exp(math, size)), product))
        with branches.otherwise:
            branches.give(product)
    return branches.results[0]


def emit_adjugate(kernel: MatrixKernel) -> None:
    """Operands: A, its adjugate. Sizes: n. With P A = L U it is det(P) adj(U) L^-1 P, of singular matrices too: nothing
    is divided by U's diagonal."""
    n = kernel.sizes[0]
    f, rows = kernel.f, kernel.rows()
    products = kernel.products(rows, n)
    a, x, adjugate = (kernel.room(rows, n, n) for _ in range(3))

    def body(element: Scalar) -> None:
        rows.copy(kernel.matrix(0, element), a, n, n)
        identity(rows, x, n, n)
        sign = f.alloca(rows.elem, name="sign")
        f.store(const(rows.elem, 1.0), sign)
        Elimination(rows, a, n, n, Beside(rows, x, n), products).run(partial(_counted, rows, sign))
        _adjugate_of_triangle(rows, a, adjugate, n, f.load(rows.elem, sign))
        multiply(products, rows, adjugate, x, kernel.matrix(1, element), n)

    kernel.emit(body)


def _counted(rows: Rows, sign: Scalar, k: Scalar, top: Scalar, pivot: Scalar) -> Scalar:
    """Turn the sign with each exchange. Where a pivot is 0 there is nothing below to divide."""
    f = rows.f
    with f.if_(f.icmp("ne", top, k), "exchanged"):
        f.store(f.fneg(f.load(rows.elem, sign)), sign)
    return f.select(f.fcmp("oeq", pivot, 0.0), const(rows.elem, 1.0), pivot)


def _adjugate_of_triangle(rows: Rows, upper: Matrix, target: Matrix, n: Scalar, sign: Scalar) -> None:
    """From the last row on: that of [[u, r], [0, V]] is [[det(V), -r adj(V)], [0, u adj(V)]]. All times a sign."""
    f = rows.f
    zero = const(rows.type, 0.0)
    with f.loop(f.sub(n, 1), const(I64, -1), -1, "i", carried=[(sign, "det")]) as row:
        i, (det,) = row.index, row.carried
        u = rows.element(upper, i, i)
        with f.loop(0, n, rows.lanes, "c") as column:
            with f.loop(f.add(i, 1), n, name="k", carried=[(zero, "x")]) as below:
                k, inner = below.index, rows.load(target, below.index, column.index)
                factor = rows.splat(f.fneg(rows.element(upper, i, k)))
                below.next(rows.less_product(below.carried[0], factor, inner))
                rows.store(target, k, column.index, f.fmul(inner, rows.splat(u)))
            rows.store(target, i, column.index, below.results[0])
        rows.put(target, i, i, det)
        row.next(f.fmul(det, u))


def emit_pivot_rows(kernel: MatrixKernel) -> None:
    """Operands: row exchanges (from 1), the row that each row comes from. Sizes: exchanges, rows. Ends with the first
    exchange that is with no row."""
    count, n = kernel.sizes
    f = kernel.f

    def body(element: Scalar) -> None:
        pivots, order = (kernel.matrix(i, element).base for i in range(2))
        with f.loop(0, n, name="row") as row:
            f.store(row.index, f.gep(I64, order, row.index))
        with f.loop(0, count, name="k") as step:
            other = f.sub(f.sext(f.load(I32, f.gep(I32, pivots, step.index)), I64), 1)
            with f.if_(f.icmp("uge", other, n), "no_row"):
                kernel.fail(element, f.add(step.index, 1))
            places = [f.gep(I64, order, i) for i in (step.index, other)]
            here, there = (f.load(I64, place) for place in places)
            f.store(there, places[0])
            f.store(here, places[1])

    kernel.emit(body)


def emit_factors(kernel: MatrixKernel, fails: bool) -> None:
    """Operands: A, LU, pivots, info. Sizes: m, n. fails: end with the first zero on U's diagonal."""
    m, n = kernel.sizes[:2]
    f, rows = kernel.f, kernel.rows()
    products, a = kernel.products(rows, m), kernel.room(rows, m, n)

    def body(element: Scalar) -> None:
        pivots, info = kernel.matrix(2, element), kernel.matrix(3, element)
        rows.copy(kernel.matrix(0, element), a, m, n)
        f.store(const(I32, 0), info.base)

        def divisor(k: Scalar, top: Scalar, pivot: Scalar) -> Scalar:
            f.store(f.trunc(f.add(top, 1), I32), f.gep(I32, pivots.base, k))
            is_zero = f.fcmp("oeq", pivot, 0.0)
            with f.if_(is_zero, "zero"):
                if fails:
                    kernel.fail(element, f.add(k, 1))
                else:
                    with f.if_(f.icmp("eq", f.load(I32, info.base), 0), "first"):
                        f.store(f.trunc(f.add(k, 1), I32), info.base)
            return f.select(is_zero, const(rows.elem, 1.0), pivot)

        Elimination(rows, a, m, n, None, products).run(divisor)
        rows.give(a, kernel.matrix(1, element), m, n)

    kernel.emit(body)
