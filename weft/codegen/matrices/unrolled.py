"""Matrices of a fixed small size, all elements in registers: each lane of a vector holds one of the batch. No loops,
and no branches: rows are exchanged by selection. The arithmetic is that of the other kernels, in their order."""

from __future__ import annotations

import functools
from collections.abc import Callable

from weft.codegen.emit import I32, I64, const, iota, like
from weft.codegen.emit import Value as Scalar
from weft.codegen.matrices.elimination import kept_in_range, left_range, with_pivot
from weft.codegen.matrices.kernel import MatrixKernel
from weft.codegen.matrices.rows import Matrix

Elements = list[list[Scalar]]


class Lanes:
    """One matrix in each lane; the last of the sizes is how many matrices there are."""

    def __init__(self, kernel: MatrixKernel, lanes: int) -> None:
        self.kernel, self.f, self.lanes = kernel, kernel.f, lanes
        rows = kernel.rows(lanes)
        self.math, self.type, self.elem = rows.math, rows.type, rows.elem
        self.zero, self.one = const(self.type, 0.0), const(self.type, 1.0)
        self.order = const(like(I32, self.type), 0)

    def emit(self, body: Callable[[], None]) -> None:
        """The whole function; a part is as many matrices as there are lanes."""
        f = self.f

        def group(number: Scalar) -> None:
            self.first = f.mul(number, self.lanes)
            self.mask = f.first_lanes(f.sub(self.kernel.sizes[-1], self.first), self.lanes)
            self.order = const(like(I32, self.type), 0)
            body()

        self.kernel.emit(group)

    # ---- memory
    def matrix(self, operand: int) -> Matrix:
        """An operand's matrices: the base is one address for each lane."""
        a = self.kernel.matrix(operand, self.first)
        if self.lanes == 1:
            return a
        f = self.f
        steps = f.mul(iota(I64, self.lanes), f.splat(self.kernel.batch_stride(operand), self.lanes))
        return a._replace(base=f.gep(self.elem, a.base, steps))

    def read(self, a: Matrix, i: int, j: Scalar | int, other: float = 0.0) -> Scalar:
        """An element of each lane's matrix, another number where there is no matrix."""
        f, place = self.f, self._place(a, i, j)
        if self.lanes == 1:
            return f.load(self.type, place)
        return f.gather(self.type, place, self.mask, const(self.type, other))

    def write(self, a: Matrix, i: int, j: Scalar | int, x: Scalar) -> None:
        """Write an element of each lane's matrix."""
        place = self._place(a, i, j)
        if self.lanes == 1:
            self.f.store(x, place)
        else:
            self.f.scatter(x, place, self.mask)

    def _place(self, a: Matrix, i: int, j: Scalar | int) -> Scalar:
        f = self.f
        column = j if isinstance(j, Scalar) else const(I64, j)
        return f.gep(self.elem, a.base, f.add(f.mul(const(I64, i), a.rows), f.mul(column, a.columns)))

    def elements(self, operand: int, m: int, n: int) -> Elements:
        """All of an operand; where there is no matrix, the identity."""
        a = self.matrix(operand)
        return [[self.read(a, i, j, float(i == j)) for j in range(n)] for i in range(m)]

    def give(self, operand: int, x: Elements) -> None:
        """Write all of a result."""
        a = self.matrix(operand)
        for i, row in enumerate(x):
            for j, element in enumerate(row):
                self.write(a, i, j, element)

    # ---- arithmetic
    def less_product(self, x: Scalar, a: Scalar, y: Scalar) -> Scalar:
        """x - a y."""
        return self.math.mad(self.f.fneg(a), y, x)

    def select(self, condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
        """By lane."""
        return self.f.select(condition, a, b)

    # ---- what cannot be done
    def note(self, is_refused: Scalar, order: int) -> None:
        """Keep the first row, column or minor at which a lane's matrix cannot be done."""
        f = self.f
        is_first = f.and_(is_refused, f.icmp("eq", self.order, 0))
        self.order = f.select(is_first, const(self.order.type, order), self.order)

    def fail_where_noted(self) -> None:
        """End with the first matrix that cannot be done."""
        f, order = self.f, self.order
        if self.lanes == 1:
            with f.if_(f.icmp("ne", order, 0), "fails"):
                self.kernel.fail(self.first, f.sext(order, I64))
            return
        is_refused = f.and_(f.icmp("ne", order, 0), self.mask)
        with f.if_(f.reduce("or", is_refused), "fails"):
            numbers = iota(I32, self.lanes)
            lane = f.reduce("umin", f.select(is_refused, numbers, const(order.type, self.lanes)))
            own = f.select(f.icmp("eq", numbers, f.splat(lane, self.lanes)), order, const(order.type, 0))
            self.kernel.fail(f.add(self.first, f.sext(lane, I64)), f.sext(f.reduce("umax", own), I64))


def emit_cholesky(kernel: MatrixKernel, n: int, lanes: int) -> None:
    """Operands: S, U (the other triangle is cleared)."""
    v = Lanes(kernel, lanes)

    def body() -> None:
        a = v.matrix(0)
        upper = [[v.read(a, i, j, float(i == j)) if j >= i else v.zero for j in range(n)] for i in range(n)]
        for i, row in enumerate(upper):
            for above in upper[:i]:
                row[i:] = [v.less_product(x, above[i], y) for x, y in zip(row[i:], above[i:], strict=True)]
            v.note(v.f.fcmp("ole", row[i], 0.0), i + 1)
            root = v.math.sqrt(row[i])
            row[i:] = [root, *(v.f.fdiv(x, root) for x in row[i + 1 :])]
        v.fail_where_noted()
        v.give(1, upper)

    v.emit(body)


def emit_substitution(kernel: MatrixKernel, n: int, lanes: int, is_unit: bool) -> None:
    """Operands: L, B, X. Sizes: columns."""
    v, count = Lanes(kernel, lanes), kernel.sizes[0]

    def body() -> None:
        a, right, result = (v.matrix(i) for i in range(3))
        lower = [[v.read(a, i, j, float(i == j)) for j in range(i + (not is_unit))] for i in range(n)]
        with v.f.loop(0, count, name="c") as column:
            x = [v.read(right, i, column.index) for i in range(n)]
            for i, row in enumerate(lower):
                for j in range(i):
                    x[i] = v.less_product(x[i], row[j], x[j])
                x[i] = x[i] if is_unit else v.f.fdiv(x[i], row[i])
                v.write(result, i, column.index, x[i])

    v.emit(body)


def _eliminate(v: Lanes, a: Elements, beside: Elements) -> Scalar:
    """Elimination with row exchanges: a becomes its upper triangle, `beside` L^-1 P beside. Notes columns without a
    pivot, and gives the sign of P."""
    f, n, sign = v.f, len(a), v.one
    for k in range(n):
        size, top = v.math.abs(a[k][k]), const(v.order.type, k)
        for i in range(k + 1, n):
            own = v.math.abs(a[i][k])
            is_greater = f.fcmp("ogt", own, size)
            size, top = v.select(is_greater, own, size), v.select(is_greater, const(top.type, i), top)
        for i in range(k + 1, n):
            comes_up = f.icmp("eq", top, i)
            for x in (a, beside):
                for j in range(k if x is a else 0, len(x[k])):
                    x[k][j], x[i][j] = v.select(comes_up, x[i][j], x[k][j]), v.select(comes_up, x[k][j], x[i][j])
        sign = v.select(f.icmp("ne", top, k), f.fneg(sign), sign)
        is_zero = f.fcmp("oeq", a[k][k], 0.0)
        v.note(is_zero, k + 1)
        divisor = v.select(is_zero, v.one, a[k][k])
        for i in range(k + 1, n):
            factor = f.fdiv(a[i][k], divisor)
            for x in (a, beside):
                for j in range(k + 1 if x is a else 0, len(x[k])):
                    x[i][j] = v.less_product(x[i][j], factor, x[k][j])
    return sign


def _substitute_back(v: Lanes, upper: Elements, x: Elements) -> None:
    n = len(upper)
    for i in reversed(range(n)):
        for c in range(len(x[i])):
            for j in range(i + 1, n):
                x[i][c] = v.less_product(x[i][c], upper[i][j], x[j][c])
            x[i][c] = v.f.fdiv(x[i][c], upper[i][i])


def _identity(v: Lanes, n: int) -> Elements:
    return [[v.one if i == j else v.zero for j in range(n)] for i in range(n)]


def emit_solve(kernel: MatrixKernel, n: int, lanes: int, columns: int) -> None:
    """Operands: A, B, X."""
    _emit_solve(kernel, n, lanes, 2, lambda v: v.elements(1, n, columns))


def emit_inverse(kernel: MatrixKernel, n: int, lanes: int) -> None:
    """Operands: A, its inverse."""
    _emit_solve(kernel, n, lanes, 1, lambda v: _identity(v, n))


def _emit_solve(kernel: MatrixKernel, n: int, lanes: int, result: int, begin: Callable[[Lanes], Elements]) -> None:
    v = Lanes(kernel, lanes)

    def body() -> None:
        a, x = v.elements(0, n, n), begin(v)
        _eliminate(v, a, x)
        v.fail_where_noted()
        _substitute_back(v, a, x)
        v.give(result, x)

    v.emit(body)


def emit_determinant(kernel: MatrixKernel, n: int, lanes: int, is_logarithm: bool) -> None:
    """Operands: A, its determinant; or A, the determinant's sign, the logarithm of its magnitude."""
    v, f = Lanes(kernel, lanes), kernel.f

    def body() -> None:
        a = v.elements(0, n, n)
        parity = _eliminate(v, a, [[] for _ in range(n)])
        pivots = [a[i][i] for i in range(n)]

        def logarithm() -> tuple[Scalar, Scalar]:
            sign, size = parity, v.zero
            for pivot in pivots:
                sign, size = with_pivot(v.math, pivot, sign, size)
            return sign, size

        if is_logarithm:
            for number, x in enumerate(logarithm()):
                v.give(1 + number, [[x]])
            return
        product = functools.reduce(f.fmul, pivots, parity)
        v.give(1, [[kept_in_range(v.math, product, left_range(v.math, product), logarithm)]])

    v.emit(body)


def emit_adjugate(kernel: MatrixKernel, n: int, lanes: int) -> None:
    """Operands: A, its adjugate, as elimination.py has it."""
    v, f = Lanes(kernel, lanes), kernel.f

    def body() -> None:
        a, x = v.elements(0, n, n), _identity(v, n)
        det = _eliminate(v, a, x)
        adjugate: Elements = [[v.zero] * n for _ in range(n)]
        for i in reversed(range(n)):
            for c in range(i + 1, n):
                for k in range(i + 1, c + 1):
                    adjugate[i][c] = v.less_product(adjugate[i][c], a[i][k], adjugate[k][c])
            adjugate[i][i] = det
            for k in range(i + 1, n):
                adjugate[k][i + 1 :] = [f.fmul(y, a[i][i]) for y in adjugate[k][i + 1 :]]
            det = f.fmul(det, a[i][i])
        v.give(1, [[_dot(v, adjugate[i], [x[k][j] for k in range(n)], i) for j in range(n)] for i in range(n)])

    v.emit(body)


def _dot(v: Lanes, a: list[Scalar], b: list[Scalar], first: int) -> Scalar:
    total = v.f.fmul(a[first], b[first])
    for x, y in zip(a[first + 1 :], b[first + 1 :], strict=True):
        total = v.math.mad(x, y, total)
    return total
