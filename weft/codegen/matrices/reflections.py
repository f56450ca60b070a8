"""QR factors by reflections (Householder), with LAPACK's signs: column after column is reflected onto the diagonal, and
Q is the product of the reflections."""

from __future__ import annotations

from weft.codegen.emit import I64, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.matrices.kernel import MatrixKernel
from weft.codegen.matrices.rows import Matrix, Rows, identity


def emit_qr(kernel: MatrixKernel, has_q: bool) -> None:
    """Operands: A, R, and Q if it is asked for. Sizes: m, n, rows of R (columns of Q)."""
    m, n, k = kernel.sizes
    f, rows = kernel.f, kernel.rows()
    count = f.smin(m, n)
    a, q, factors = kernel.room(rows, m, n), kernel.room(rows, m, k), kernel.room(rows, const(I64, 1), count)

    def body(element: Scalar) -> None:
        rows.copy(kernel.matrix(0, element), a, m, n)
        with f.loop(0, count, name="j") as step:
            j = step.index
            factor = _reflection(rows, a, m, j)
            rows.put(factors, 0, j, factor)
            _reflect(rows, a, m, j, factor, a, f.add(j, 1), n)
        _give_upper(rows, a, kernel.matrix(1, element), k, n)
        if has_q:
            identity(rows, q, m, k)
            with f.loop(f.sub(count, 1), const(I64, -1), -1, "j") as step:
                j = step.index
                _reflect(rows, a, m, j, rows.element(factors, 0, j), q, const(I64, 0), k)
            rows.give(q, kernel.matrix(2, element), m, k)

    kernel.emit(body)


def _reflection(rows: Rows, a: Matrix, m: Scalar, j: Scalar) -> Scalar:
    """Put what column j becomes on the diagonal, and the reflection's vector, whose first element is 1, below; gives
    the factor t of I - t v v^T: 0 where all below the diagonal is 0 already."""
    f, math = rows.f, rows.math
    below, zero = f.add(j, 1), const(rows.elem, 0.0)
    with f.loop(below, m, name="i", carried=[(zero, "greatest")]) as row:
        x = math.abs(rows.element(a, row.index, j))
        row.next(f.select(f.fcmp("ugt", x, row.carried[0]), x, row.carried[0]))
    greatest = row.results[0]
    scale = f.select(f.fcmp("oeq", greatest, 0.0), const(rows.elem, 1.0), greatest)  # so that no square overflows
    with f.loop(below, m, name="i", carried=[(zero, "sum")]) as row:
        x = f.fdiv(rows.element(a, row.index, j), scale)
        row.next(math.mad(x, x, row.carried[0]))
    first = rows.element(a, j, j)
    share = f.fdiv(first, scale)
    length = f.fmul(scale, math.sqrt(math.mad(share, share, row.results[0])))
    is_done = f.fcmp("oeq", greatest, 0.0)
    last = f.select(is_done, first, f.fneg(math.copysign(length, first)))
    rows.put(a, j, j, last)
    divisor = f.fsub(first, last)
    with f.loop(below, m, name="i") as row:
        x = rows.element(a, row.index, j)
        rows.put(a, row.index, j, f.select(is_done, zero, f.fdiv(x, divisor)))
    return f.select(is_done, zero, f.fdiv(f.fsub(last, first), last))


def _reflect(
    rows: Rows, vectors: Matrix, m: Scalar, j: Scalar, factor: Scalar, b: Matrix, first: Scalar, columns: Scalar
) -> None:
    """b becomes (I - t v v^T) b, from column `first` on, where v is vector j."""
    f, below = rows.f, rows.f.add(j, 1)
    with f.loop(rows.first(first), columns, rows.lanes, "c") as column:
        c = column.index
        top = rows.load(b, j, c)
        with f.loop(below, m, name="i", carried=[(top, "sum")]) as row:
            v = rows.splat(rows.element(vectors, row.index, j))
            row.next(rows.math.mad(v, rows.load(b, row.index, c), row.carried[0]))
        share = f.fneg(f.fmul(row.results[0], rows.splat(factor)))
        follows = rows.since(first, c)
        rows.store(b, j, c, f.select(follows, f.fadd(top, share), top))
        with f.loop(below, m, name="i") as row:
            x = rows.load(b, row.index, c)
            v = rows.splat(rows.element(vectors, row.index, j))
            rows.store(b, row.index, c, f.select(follows, rows.math.mad(v, share, x), x))


def _give_upper(rows: Rows, source: Matrix, target: Matrix, k: Scalar, n: Scalar) -> None:
    """The rows of R: what stands on the diagonal and above."""
    f = rows.f
    with f.loop(0, k, name="row") as row, f.loop(0, n, rows.lanes, "column") as column:
        x = rows.load(source, row.index, column.index)
        kept = f.select(rows.since(row.index, column.index), x, const(rows.type, 0.0))
        rows.write(target, row.index, column.index, n, kept)
