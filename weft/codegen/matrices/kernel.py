"""What kernels on matrices have in common: a part is one matrix of the batch, or several; operands lie as they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from weft.codegen.emit import I8, I64, PTR, Function, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.matrices.blocks import SIZE, Products
from weft.codegen.matrices.rows import Matrix, Rows
from weft.codegen.scalar.element import memory_type
from weft.codegen.target import Target
from weft.runtime.segments import CHECK_BITS, ELEMENT_BITS, ORDER_BITS
from weft.types.dtype import DType

STRIDES = ("offset", "batch", "rows", "columns")  # what the table of integers holds of each operand, behind the sizes


class Access(NamedTuple):
    """What a kernel is written for, of one operand: its place among the buffers, whether its columns (its rows) follow
    each other, and the dtype of its elements."""

    buffer: int
    is_row_major: bool
    is_column_major: bool
    dtype: DType


class MatrixKernel:
    """Writes the function of a kernel (loops/kernel.py says what it is given). `sizes` are the first of its integers;
    `body` gets the number of a matrix of the batch, and writes the code for it."""

    def __init__(
        self, function: Function, target: Target, sizes: int, operands: Sequence[Access], is_blocked: bool
    ) -> None:
        self.f = function
        self.target, self.operands, self.is_blocked = target, operands, is_blocked
        f = self.f
        bufs, table, _, self._memory, self._begin, self._end = f.params
        self.sizes = [f.load(I64, f.gep(I64, table, i), name="size") for i in range(sizes)]
        self._bases = [f.load(PTR, f.gep(PTR, bufs, a.buffer)) for a in operands]
        self._strides = [
            [f.load(I64, f.gep(I64, table, sizes + len(STRIDES) * k + i), name=word) for i, word in enumerate(STRIDES)]
            for k in range(len(operands))
        ]

    def room(self, rows: Rows, m: Scalar, n: Scalar) -> Matrix:
        """Private memory for a matrix of whole vectors: the next of what the call has asked for."""
        f, stride = self.f, rows.padded(n)
        room = Matrix(self._memory, stride, const(I64, 1))
        self._memory = f.gep(rows.elem, self._memory, f.mul(m, stride))
        return room

    def products(self, rows: Rows, n: Scalar) -> Products | None:
        """Products for a kernel that works in blocks of a matrix with n rows; their workspace is the first of the
        memory that the call has asked for. The last of the sizes says how large it is."""
        if not self.is_blocked:
            return None
        space = self._memory
        self._memory = self.f.gep(I8, space, self.sizes[-1])
        # SIZE rows of n columns, padded, fit too
        panel = self.room(rows, self.f.add(n, 2 * rows.lanes), const(I64, SIZE))
        return Products(rows, space, panel.base)

    def rows(self, lanes: int = 0, dtype: DType | None = None) -> Rows:
        """Rows in vectors of the first operand's elements, or of others: of a register's width, or of so many lanes."""
        dtype = dtype or self.operands[0].dtype
        return Rows(self.f, memory_type(dtype, 1), self.target, lanes or self.target.lanes(dtype.itemsize))

    def emit(self, body: Callable[[Scalar], None]) -> None:
        """The whole function."""
        f = self.f
        with f.loop(self._begin, self._end, name="matrix") as part:
            body(part.index)
        f.ret(const(I64, 0))

    def matrix(self, operand: int, element: Scalar) -> Matrix:
        """An operand's matrix of the batch."""
        f, access = self.f, self.operands[operand]
        offset, batch, rows, columns = self._strides[operand]
        base = f.gep(memory_type(access.dtype, 1), self._bases[operand], f.add(offset, f.mul(element, batch)))
        one = const(I64, 1)
        return Matrix(base, one if access.is_column_major else rows, one if access.is_row_major else columns)

    def batch_stride(self, operand: int) -> Scalar:
        """How far apart an operand's matrices are."""
        return self._strides[operand][1]

    def fail(self, element: Scalar, order: Scalar) -> None:
        """End here: this matrix cannot be done, for what the row, column or minor `order` (from 1) holds."""
        f = self.f
        parts = (
            (f.smin(element, const(I64, (1 << ELEMENT_BITS) - 1)), CHECK_BITS + ORDER_BITS),
            (f.smin(order, const(I64, (1 << ORDER_BITS) - 1)), CHECK_BITS),
        )
        status: Scalar = const(I64, 1)
        for number, bits in parts:
            status = f.or_(status, f.shl(number, bits))
        f.ret(status)
