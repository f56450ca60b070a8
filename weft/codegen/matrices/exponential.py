"""The exponential of a matrix: scaling and squaring with the Pade approximant of order 13, in double precision."""

from __future__ import annotations

from collections.abc import Sequence

from weft.catalogue.linalg.matrix_functions import PADE, PADE_REACH
from weft.codegen.emit import F64, I64, Function, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.matrices.blocks import Products, multiply
from weft.codegen.matrices.elimination import Beside, Elimination
from weft.codegen.matrices.kernel import MatrixKernel
from weft.codegen.matrices.rows import Matrix, Rows
from weft.codegen.matrices.triangular import substitute_back
from weft.codegen.scalar.element import memory_type
from weft.types import dtype as dt

ROOMS = 7  # matrices in private memory


def emit_exponential(kernel: MatrixKernel) -> None:
    """Operands: A, its exponential. Sizes: n."""
    n, f = kernel.sizes[0], kernel.f
    doubles = kernel.rows(dtype=dt.float64)
    own = Rows(f, memory_type(kernel.operands[0].dtype, 1), kernel.target, doubles.lanes)
    products = kernel.products(doubles, n)
    rooms = [kernel.room(doubles, n, n) for _ in range(ROOMS)]

    def body(element: Scalar) -> None:
        source, target = kernel.matrix(0, element), kernel.matrix(1, element)
        x, *others = rooms
        with f.loop(0, n, name="row") as row, f.loop(0, n, doubles.lanes, "column") as column:
            part = own.read(source, row.index, column.index, n)
            doubles.store(x, row.index, column.index, part if part.type is doubles.type else f.fpext(part, F64))
        squarings, scale = _halvings(f, _norm(doubles, x, n))
        power = _approximant(products, doubles, n, x, scale, others)
        with f.loop(0, squarings, name="squaring"):
            multiply(products, doubles, power, power, x, n)
            _combine(doubles, n, power, [(1.0, x)])
        with f.loop(0, n, name="row") as row, f.loop(0, n, doubles.lanes, "column") as column:
            part = doubles.load(power, row.index, column.index)
            part = part if own.elem is F64 else f.fptrunc(part, own.elem)
            own.write(target, row.index, column.index, n, part)

    kernel.emit(body)


def _norm(rows: Rows, x: Matrix, n: Scalar) -> Scalar:
    """The greatest sum of magnitudes in a column."""
    f, zero = rows.f, const(rows.type, 0.0)
    with f.loop(0, n, rows.lanes, "column", carried=[(zero, "greatest")]) as column:
        with f.loop(0, n, name="row", carried=[(zero, "sum")]) as row:
            row.next(f.fadd(row.carried[0], rows.math.abs(rows.load(x, row.index, column.index))))
        total = row.results[0]
        is_greater = f.fcmp("ugt", total, column.carried[0])  # NaN stays
        column.next(f.select(is_greater, total, column.carried[0]))
    return f.reduce("fmaximum", column.results[0])


def _halvings(f: Function, size: Scalar) -> tuple[Scalar, Scalar]:
    """How often a norm is halved until the approximant reaches so far, and by what this scales; 0 times for what is
    not finite."""
    with f.while_loop([(size, "size"), (const(F64, 1.0), "scale"), (const(I64, 0), "count")], "halving") as loop:
        size, scale, count = loop.carried
        is_finite = f.fcmp("olt", size, const(F64, float("inf")))
        loop.test(f.and_(f.fcmp("ogt", size, PADE_REACH), is_finite))
        loop.next(f.fmul(size, 0.5), f.fmul(scale, 0.5), f.add(count, 1))
    _, scale, count = loop.results
    return count, scale


def _approximant(
    products: Products | None, rows: Rows, n: Scalar, x: Matrix, scale: Scalar, rooms: Sequence[Matrix]
) -> Matrix:
    """(even - odd)^-1 (even + odd), even and odd the parts of a polynomial of x times `scale`."""
    b = [float(c) for c in PADE]
    x2, x4, x6, part, odd, even = rooms
    _combine(rows, n, x, [(scale, x)])
    for left, right, power in ((x, x, x2), (x2, x2, x4), (x4, x2, x6)):
        multiply(products, rows, left, right, power, n)
    _combine(rows, n, part, [(b[13], x6), (b[11], x4), (b[9], x2)])
    multiply(products, rows, x6, part, even, n)
    _combine(rows, n, part, [(1.0, even), (b[7], x6), (b[5], x4), (b[3], x2)], b[1])
    multiply(products, rows, x, part, odd, n)
    _combine(rows, n, part, [(b[12], x6), (b[10], x4), (b[8], x2)])
    multiply(products, rows, x6, part, even, n)
    _combine(rows, n, even, [(1.0, even), (b[6], x6), (b[4], x4), (b[2], x2)], b[0])
    _combine(rows, n, x2, [(1.0, even), (-1.0, odd)])
    _combine(rows, n, x4, [(1.0, even), (1.0, odd)])
    Elimination(rows, x2, n, n, Beside(rows, x4, n), products).run(lambda k, top, pivot: pivot)
    substitute_back(products, rows, x2, n, x4, n)
    return x4


def _combine(
    rows: Rows, n: Scalar, target: Matrix, terms: Sequence[tuple[float | Scalar, Matrix]], diagonal: float = 0.0
) -> None:
    """target = the sum of matrices times numbers, and of a number times the identity."""
    f = rows.f
    with f.loop(0, n, name="row") as row:
        i = row.index
        with f.loop(0, n, rows.lanes, "column") as column:
            total = None
            for factor, matrix in terms:
                x = rows.load(matrix, i, column.index)
                if factor != 1.0:
                    number = factor if isinstance(factor, Scalar) else const(rows.elem, factor)
                    x = f.fmul(x, rows.splat(number))
                total = x if total is None else f.fadd(total, x)
            assert total is not None
            rows.store(target, i, column.index, total)
        if diagonal:
            rows.put(target, i, i, f.fadd(rows.element(target, i, i), diagonal))
