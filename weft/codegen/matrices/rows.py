"""A matrix in memory, read and written row by row in vectors; what the algorithms are written with."""

from __future__ import annotations

from typing import NamedTuple

from weft.codegen.emit import I64, Function, LType, const, iota, vec
from weft.codegen.emit import Value as Scalar
from weft.codegen.math.core import FloatMath
from weft.codegen.target import Target

Index = Scalar | int


class Matrix(NamedTuple):
    """Elements at strides from a base. Columns, or rows, that are known to follow each other have the constant 1 as
    stride."""

    base: Scalar
    rows: Scalar
    columns: Scalar

    @property
    def transposed(self) -> Matrix:
        """The transposed matrix."""
        return Matrix(self.base, self.columns, self.rows)

    @property
    def is_column_major(self) -> bool:
        """Whether elements of a column follow each other, and those of a row do not."""
        return self.rows.const == 1 and self.columns.const != 1


class Rows:
    """Vectors of `lanes` columns of a row; one lane is a scalar."""

    def __init__(self, f: Function, elem: LType, target: Target, lanes: int) -> None:
        self.f, self.elem, self.lanes, self.type, self.target = f, elem, lanes, vec(elem, lanes), target
        self.math = FloatMath(f, target.has_fma, target.has_scale)

    def padded(self, count: Scalar) -> Scalar:
        """So many columns, rounded up to an odd number of whole vectors: the elements of a column then lie in many
        sets of the cache."""
        return self.f.or_(self.f.and_(self.f.add(count, self.lanes - 1), -self.lanes), self.lanes, "padded")

    def first(self, column: Scalar) -> Scalar:
        """Where the vector begins that holds a column."""
        return self.f.and_(column, -self.lanes, "first")

    # ---- elements
    def place(self, a: Matrix, i: Index, j: Index) -> Scalar:
        """The address of an element."""
        f = self.f
        row, column = (x if isinstance(x, Scalar) else const(I64, x) for x in (i, j))
        return f.gep(self.elem, a.base, f.add(f.mul(row, a.rows), f.mul(column, a.columns)))

    def element(self, a: Matrix, i: Index, j: Index) -> Scalar:
        """One element."""
        return self.f.load(self.elem, self.place(a, i, j))

    def put(self, a: Matrix, i: Index, j: Index, x: Scalar) -> None:
        """Write one element."""
        self.f.store(x, self.place(a, i, j))

    def splat(self, x: Scalar) -> Scalar:
        """A number in every lane."""
        return self.f.splat(x, self.lanes)

    def less_product(self, x: Scalar, negated: Scalar, y: Scalar) -> Scalar:
        """x - a * y, where -a is given."""
        return self.math.mad(negated, y, x)

    def part(self, a: Matrix, i: Index, j: Index) -> Matrix:
        """What lies below row i and right of column j, both included."""
        return Matrix(self.place(a, i, j), a.rows, a.columns)

    # ---- vectors
    def load(self, a: Matrix, i: Index, j: Scalar) -> Scalar:
        """A vector of a matrix of whole vectors."""
        return self.f.load(self.type, self.place(a, i, j))

    def store(self, a: Matrix, i: Index, j: Scalar, x: Scalar) -> None:
        """Write a vector of a matrix of whole vectors."""
        self.f.store(x, self.place(a, i, j))

    def read(self, a: Matrix, i: Index, j: Scalar, count: Scalar) -> Scalar:
        """A vector of any matrix: zeros behind its last column, which is number `count`."""
        f, address = self.f, self.place(a, i, j)
        if self.lanes == 1:
            return f.load(self.elem, address)
        mask = f.first_lanes(f.sub(count, j), self.lanes)
        if a.columns.const == 1:
            return f.masked_load(self.type, address, mask)
        return f.gather(self.type, self._addresses(a, address), mask, const(self.type, 0))

    def write(self, a: Matrix, i: Index, j: Scalar, count: Scalar, x: Scalar) -> None:
        """Write a vector of any matrix, up to its last column."""
        f, address = self.f, self.place(a, i, j)
        if self.lanes == 1:
            f.store(x, address)
            return
        mask = f.first_lanes(f.sub(count, j), self.lanes)
        if a.columns.const == 1:
            f.masked_store(x, address, mask)
        else:
            f.scatter(x, self._addresses(a, address), mask)

    def _addresses(self, a: Matrix, first: Scalar) -> Scalar:
        steps = self.f.mul(iota(I64, self.lanes), self.splat(a.columns))
        return self.f.gep(self.elem, first, steps)

    def copy(self, source: Matrix, target: Matrix, rows: Scalar, columns: Scalar) -> None:
        """Bring a matrix to one of whole vectors (in which what stands after the last column means nothing)."""
        if source.is_column_major:
            self.give(source.transposed, target.transposed, columns, rows)
            return
        with self.f.loop(0, rows, name="row") as row, self.f.loop(0, columns, self.lanes, "column") as column:
            self.store(target, row.index, column.index, self.read(source, row.index, column.index, columns))

    def give(self, source: Matrix, target: Matrix, rows: Scalar, columns: Scalar) -> None:
        """Bring a matrix to where it is wanted."""
        if target.is_column_major:
            source, target, rows, columns = source.transposed, target.transposed, columns, rows
        with self.f.loop(0, rows, name="row") as row, self.f.loop(0, columns, self.lanes, "column") as column:
            self.write(target, row.index, column.index, columns, self.read(source, row.index, column.index, columns))

    def since(self, i: Scalar, j: Scalar) -> Scalar:
        """The lanes of the vector at column j that hold column i or a later one."""
        f = self.f
        if self.lanes == 1:
            return f.icmp("sge", j, i)
        columns = f.add(iota(I64, self.lanes), self.splat(j))
        return f.icmp("sge", columns, self.splat(i))


def identity(rows: Rows, target: Matrix, m: Scalar, n: Scalar) -> None:
    """Ones on the diagonal of a matrix of whole vectors, zeros beside it."""
    f = rows.f
    with f.loop(0, m, name="row") as row:
        with f.loop(0, n, rows.lanes, "column") as column:
            rows.store(target, row.index, column.index, const(rows.type, 0.0))
        with f.if_(f.icmp("slt", row.index, n), "diagonal"):
            rows.put(target, row.index, row.index, const(rows.elem, 1.0))


