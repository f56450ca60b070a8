"""Linear algebra on matrices as kernels of their own: one matrix of the batch after another, in private memory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeGuard

from weft.codegen.emit import I64
from weft.codegen.gemm.tiles import plan_gemm
from weft.codegen.lower.loops import PARAMETERS
from weft.codegen.lower.lowering import BlockLowering, lowers
from weft.codegen.matrices import cholesky, elimination, exponential, reflections, triangular, unrolled
from weft.codegen.matrices.blocks import SIZE
from weft.codegen.matrices.kernel import Access, MatrixKernel
from weft.ir.graph import Node, Value
from weft.loops.kernel import KernelCall
from weft.ops.geometry import Geometry, contiguous, contiguous_strides
from weft.ops.packet import aten
from weft.passes.alias import dims_of, dtype_of
from weft.plan.arena import aligned
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim, is_one
from weft.types.dtype import DType

Emit = Callable[[MatrixKernel], None]
SMALL = 6  # rows and columns of matrices of a batch whose elements stay in registers
SMALL_ALONE = 4  # the same of a matrix alone, for which larger code would gain little
PLAIN = 64  # sizes up to which a kernel does without blocks and products
LARGEST = 256  # sizes that are known to be larger are LAPACK's, which uses several threads on one matrix
_FLOATS = (dt.float32, dt.float64)


@dataclass(frozen=True)
class Operand:
    """Where the matrices of a batch lie in a buffer: strides of the batch, of rows and of columns."""

    value: Value
    offset: Dim
    batch: Dim
    rows: Dim
    columns: Dim

    @property
    def transposed(self) -> Operand:
        """The transposed matrices."""
        return replace(self, rows=self.columns, columns=self.rows)

    def backwards(self, rows: Dim) -> Operand:
        """The same with the last of so many rows first."""
        return replace(self, offset=self.offset + (rows - 1) * self.rows, rows=-self.rows)

    @property
    def strides(self) -> tuple[Dim, ...]:
        """What a kernel reads of it."""
        return (self.offset, self.batch, self.rows, self.columns)


class Matrices:
    """The call of a kernel on matrices while it is put together: operands as they lie, copied where their batch dims
    have no common stride."""

    def __init__(
        self, block: BlockLowering, node: Node, batch: tuple[Dim, ...], dtype: DType | None = None
    ) -> None:
        """dtype: what is computed in, unless it is the result's."""
        self.block, self.node, self.batch = block, node, batch
        dtype = dtype or dtype_of(node.outputs[0])
        assert dtype is not None
        self.dtype: DType = dtype
        self.copies: list[KernelCall] = []

    def operand(self, value: Value, inner: int = 2) -> Operand:
        """An operand, repeated over the batch. inner: 2 dims of matrices, 1 of vectors."""
        root, g = self.block.aliases.of(value)
        is_splat = root in self.block.aliases.splats
        g = contiguous(dims_of(value)) if is_splat else g
        outer = len(g.dims) - inner
        strides = repeated_strides(g.dims[:outer], g.strides[:outer], self.batch)
        stride = common_stride(self.batch, strides)
        if inner == 1 and g.strides[-1] != 1:
            stride = None
        if stride is not None and not is_splat:
            return Operand(root, g.offset, stride, *(0,) * (2 - inner), *g.strides[outer:])
        dims = (*self.batch, *g.dims[outer:])
        copied = Value(value.tensor_type.with_dims(dims), value.name)
        shown = Geometry(dims, (*strides, *g.strides[outer:]), g.offset)
        self.copies.append(self.block.copy(copied, dims, root, shown, self.node))
        return self.result(copied, inner)

    def result(self, value: Value, inner: int = 2) -> Operand:
        """Something new, row-major. inner: 2 dims of matrices, 1 of vectors, 0 of numbers."""
        outer = len(dims_of(value)) - inner
        strides = contiguous_strides(dims_of(value))[outer:]
        return Operand(value, 0, dm.product(dims_of(value)[outer:]), *(0,) * (2 - inner), *strides)

    def call(
        self, key: tuple[Any, ...], emit: Emit, sizes: Sequence[Dim], operands: Sequence[Operand], outputs: int,
        work: Dim, scratch: Dim, blocked: Sequence[Dim] = (),
    ) -> list[KernelCall]:
        """The copies and the kernel. key: what the emitted function hangs on beside its operands. blocked: the sizes
        of which a large one takes blocks."""
        is_blocked = not all(isinstance(n, int) and n <= PLAIN for n in blocked)
        if is_blocked:
            space, panel = self._workspace(blocked, sizes)
            sizes, scratch = (*sizes, space), scratch + space + panel
        return self._kernel(key, emit, sizes, operands, outputs, dm.product(self.batch), work, scratch, is_blocked)

    def unrolled(
        self, key: tuple[Any, ...], emit: Callable[..., None], n: int, sizes: Sequence[Dim],
        operands: Sequence[Operand], outputs: int, work: Dim,
    ) -> list[KernelCall]:
        """The copies and the kernel for matrices of one small size, several of the batch at once."""
        count = dm.product(self.batch)
        lanes = 1 if self._is_alone else self.block.lowering.target.lanes(self.dtype.itemsize)
        return self._kernel(
            (*key, n, lanes), partial(emit, n=n, lanes=lanes), (*sizes, count), operands, outputs,
            dm.floordiv(count + lanes - 1, lanes), lanes * work, 0, False, True,
        )

    def is_unrolled(self, n: Dim) -> TypeGuard[int]:
        """Whether matrices of n rows have code of their own."""
        return isinstance(n, int) and 1 <= n <= (SMALL_ALONE if self._is_alone else SMALL)

    @property
    def _is_alone(self) -> bool:
        count = dm.product(self.batch)
        return isinstance(count, int) and count <= 2

    def _kernel(
        self, key: tuple[Any, ...], emit: Emit, sizes: Sequence[Dim], operands: Sequence[Operand], outputs: int,
        extent: Dim, work: Dim, scratch: Dim, is_blocked: bool, any_strides: bool = False,
    ) -> list[KernelCall]:
        """any_strides: one function serves operands however they lie."""
        target, module = self.block.lowering.target, self.block.lowering.module
        buffers = tuple(dict.fromkeys(o.value for o in operands))
        accesses = []
        for o in operands:
            dtype = dtype_of(o.value)
            assert dtype is not None
            is_row_major, is_column_major = (not any_strides and stride == 1 for stride in (o.columns, o.rows))
            accesses.append(Access(buffers.index(o.value), is_row_major, is_column_major, dtype))
        name = self.block.lowering.function(
            (*key, is_blocked, *accesses), f"{key[0]}_{accesses[0].dtype.short}",
            lambda name: emit(
                MatrixKernel(module.function(name, I64, PARAMETERS), target, len(sizes), accesses, is_blocked)
            ),
        )
        ints = (*sizes, *(s for o in operands for s in o.strides))
        raises = (0,) if self.node.op.failure is not None else ()
        return [*self.copies, KernelCall(
            name, buffers, outputs, ints, (), extent, extent * work, scratch, (), (self.node,), raises
        )]

    def _workspace(self, blocked: Sequence[Dim], sizes: Sequence[Dim]) -> tuple[Dim, Dim]:
        """Bytes that products of blocks need, and of room for one of their operands."""
        target = self.block.lowering.target
        most = _greatest(sizes)
        space = plan_gemm(self.dtype.name, target).workspace_bytes(most, most)
        lanes = target.lanes(self.dtype.itemsize)
        return aligned(space), self.padded(_greatest(blocked) + 2 * lanes, SIZE)

    def lanes(self, columns: Dim) -> int:
        """The width that vectors of a row have: 1 for a single column, else 0, a register's."""
        return 1 if is_one(columns) else 0

    def padded(self, rows: Dim, columns: Dim, lanes: int = 0) -> Dim:
        """Bytes of a matrix of whole vectors (of so many lanes, or of a register's width)."""
        lanes = lanes or self.block.lowering.target.lanes(self.dtype.itemsize)
        vectors = dm.floordiv(columns + lanes - 1, lanes)
        return rows * (2 * dm.floordiv(vectors, 2) + 1) * lanes * self.dtype.itemsize


def _greatest(sizes: Sequence[Dim]) -> Dim:
    return functools.reduce(dm.maximum, sizes)


def repeated_strides(own: Sequence[Dim], strides: Sequence[Dim], dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """The strides of what has dims of its own, repeated over others: 0 for those that it lacks, or has the size 1 in,
    be it a symbol that is 1 here."""
    lead = (0,) * (len(dims) - len(own))
    return (*lead, *(0 if is_one(d) or shape_env.equal(d, 1) else s for d, s in zip(own, strides, strict=True)))


def common_stride(dims: Sequence[Dim], strides: Sequence[Dim]) -> Dim | None:
    """The stride of several dims as one; None where there is none."""
    within: tuple[Dim, Dim] | None = None
    first: Dim = 0
    for size, stride in reversed(list(zip(dims, strides, strict=True))):
        if is_one(size):
            continue
        if within is None:
            first = stride
        elif stride != within[0] * within[1]:
            return None
        within = (size, stride)
    return first


def _fits(node: Node, *sizes: Dim) -> bool:
    """Whether a kernel does it: a size that is not known yet is taken for a small one, and costs little if it is not.
    """
    return dtype_of(node.outputs[0]) in _FLOATS and not any(isinstance(n, int) and n > LARGEST for n in sizes)


@lowers(aten.linalg_cholesky)
def lower_cholesky(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """The factor, or its transpose; the other triangle is cleared."""
    return _lower_cholesky(block, node, False)


@lowers(aten.linalg_cholesky_ex)
def lower_attempted_cholesky(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """The same, which reports what has no factor, or raises for it."""
    return _lower_cholesky(block, node, not node.args[2])


def _lower_cholesky(block: BlockLowering, node: Node, reports: bool) -> list[KernelCall] | None:
    a, upper = node.args[:2]
    *batch, n, _ = dims_of(a)
    if not _fits(node, n):
        return None
    m = Matrices(block, node, tuple(batch))
    source, result = m.operand(a), m.result(node.outputs[0])
    info = [m.result(v, 0) for v in node.outputs[1:]]
    operands = (source, result, *info) if upper else (source.transposed, result.transposed, *info)
    if m.is_unrolled(n) and not info:
        return m.unrolled(("small_cholesky",), unrolled.emit_cholesky, n, (), operands, 1, n * n * n)
    emit = partial(cholesky.emit_cholesky, reports=reports)
    return m.call(
        ("cholesky", reports), emit, (n,), operands, len(node.outputs), n * n * n, m.padded(n, n), (n,)
    )


@lowers(aten.linalg_solve_triangular)
def lower_solve_triangular(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Substitution; for X A = B of everything transposed, for an upper triangle from the end."""
    a, b, upper, left, is_unit = node.args
    *batch, rows, columns = dims_of(node.outputs[0])
    n, count = (rows, columns) if left else (columns, rows)
    if not _fits(node, n):
        return None
    m = Matrices(block, node, tuple(batch))
    lower, right, result = m.operand(a), m.operand(b), m.result(node.outputs[0])
    if not left:
        lower, right, result, upper = lower.transposed, right.transposed, result.transposed, not upper
    if upper:
        lower = lower.backwards(n).transposed.backwards(n).transposed
        right, result = right.backwards(n), result.backwards(n)
    if m.is_unrolled(n):
        return m.unrolled(
            ("small_triangular", is_unit), partial(unrolled.emit_substitution, is_unit=is_unit), n, (count,),
            (lower, right, result), 1, n * n * count,
        )
    lanes = m.lanes(count)
    emit = partial(triangular.emit_substitution, is_unit=is_unit, lanes=lanes)
    return m.call(
        ("solve_triangular", is_unit, lanes), emit, (n, count), (lower, right, result), 1, n * n * count,
        m.padded(n, count, lanes), (n,),
    )


@lowers(aten._linalg_solve)
def lower_solve(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Elimination beside B."""
    a, b = node.args
    *batch, n, count = dims_of(node.outputs[0])
    if not _fits(node, n):
        return None
    m = Matrices(block, node, tuple(batch))
    lanes = m.lanes(count)
    operands = (m.operand(a), m.operand(b), m.result(node.outputs[0]))
    if m.is_unrolled(n) and isinstance(count, int) and count <= SMALL:
        return m.unrolled(
            ("small_solve", count), partial(unrolled.emit_solve, columns=count), n, (), operands, 1,
            n * n * (n + count),
        )
    return m.call(
        ("solve", lanes), partial(elimination.emit_solve, lanes=lanes), (n, count), operands, 1,
        n * n * (n + count), m.padded(n, n) + m.padded(n, count, lanes), (n,),
    )


@lowers(aten.linalg_inv)
def lower_inverse(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Elimination beside the identity."""
    return _lower_beside_identity(block, node, "inverse", unrolled.emit_inverse, elimination.emit_inverse, 2, 2)


def _lower_beside_identity(
    block: BlockLowering, node: Node, name: str, emit_small: Callable[..., None], emit: Emit, cost: int, rooms: int
) -> list[KernelCall] | None:
    """A square matrix from another. cost: operations, as multiples of the cube of a side; rooms: how many matrices are
    worked on."""
    (a,) = node.args
    *batch, n, _ = dims_of(a)
    if not _fits(node, n):
        return None
    m = Matrices(block, node, tuple(batch))
    operands = (m.operand(a), m.result(node.outputs[0]))
    work = cost * n * n * n
    if m.is_unrolled(n):
        return m.unrolled((f"small_{name}",), emit_small, n, (), operands, 1, work)
    return m.call((name,), emit, (n,), operands, 1, work, rooms * m.padded(n, n), (n,))


@lowers(aten.linalg_slogdet, aten.slogdet)
def lower_slogdet(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Signs and logarithms of pivots."""
    return _lower_determinant(block, node, True)


@lowers(aten.linalg_det, aten.det)
def lower_determinant(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """The product of pivots."""
    return _lower_determinant(block, node, False)


def _lower_determinant(block: BlockLowering, node: Node, is_logarithm: bool) -> list[KernelCall] | None:
    (a,) = node.args
    *batch, n, _ = dims_of(a)
    if not _fits(node, n):
        return None
    m = Matrices(block, node, tuple(batch))
    operands = (m.operand(a), *(m.result(v, 0) for v in node.outputs))
    if m.is_unrolled(n):
        emit_small = partial(unrolled.emit_determinant, is_logarithm=is_logarithm)
        return m.unrolled(
            ("small_determinant", is_logarithm), emit_small, n, (), operands, len(node.outputs), n * n * n
        )
    emit = partial(elimination.emit_determinant, is_logarithm=is_logarithm)
    return m.call(
        ("determinant", is_logarithm), emit, (n,), operands, len(node.outputs), n * n * n, m.padded(n, n), (n,)
    )


@lowers(aten._adjugate)
def lower_adjugate(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """By elimination beside the identity, without a division by pivots."""
    return _lower_beside_identity(block, node, "adjugate", unrolled.emit_adjugate, elimination.emit_adjugate, 4, 3)


@lowers(aten.linalg_matrix_exp)
def lower_exponential(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Products and a system, in double precision."""
    (a,) = node.args
    *batch, n, _ = dims_of(a)
    if not _fits(node, n):
        return None
    m = Matrices(block, node, tuple(batch), dt.float64)
    operands = (m.operand(a), m.result(node.outputs[0]))
    return m.call(
        ("exponential",), exponential.emit_exponential, (n,), operands, 1, 16 * n * n * n,
        exponential.ROOMS * m.padded(n, n), (n,),
    )


@lowers(aten.linalg_qr)
def lower_qr(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Reflections. They are not done in blocks: sizes that are not known stay a host call."""
    a, mode = node.args
    *batch, rows, columns = dims_of(a)
    q, r = node.outputs
    if not all(isinstance(n, int) and n <= PLAIN for n in (rows, columns)) or dtype_of(a) not in _FLOATS:
        return None
    m = Matrices(block, node, tuple(batch))
    has_q, height = mode != "r", dims_of(r)[-2]
    operands = (m.operand(a), m.result(r), m.result(q, 2 if has_q else 1))
    return m.call(
        ("qr", has_q), partial(reflections.emit_qr, has_q=has_q), (rows, columns, height), operands, 2,
        4 * rows * columns * height, m.padded(rows, columns) + m.padded(rows, height) + m.padded(1, columns),
    )


@lowers(aten._lu_rows)
def lower_pivot_rows(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Exchanges, one after another."""
    pivots, rows = node.args
    *batch, count = dims_of(pivots)
    if dtype_of(pivots) is not dt.int32:
        return None
    m = Matrices(block, node, tuple(batch))
    operands = (m.operand(pivots, 1), m.result(node.outputs[0], 1))
    return m.call(("pivot_rows",), elimination.emit_pivot_rows, (count, rows), operands, 1, rows, 0)


@lowers(aten.linalg_lu_factor_ex)
def lower_factors(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Both triangles, row numbers, and where U has a zero."""
    a, _, fails = node.args
    *batch, rows, columns = dims_of(a)
    if not _fits(node, rows, columns):
        return None
    m = Matrices(block, node, tuple(batch))
    factors, pivots, info = node.outputs
    operands = (m.operand(a), m.result(factors), m.result(pivots, 1), m.result(info, 0))
    emit = partial(elimination.emit_factors, fails=fails)
    return m.call(
        ("factors", fails), emit, (rows, columns), operands, 3, rows * columns * columns, m.padded(rows, columns),
        (rows, columns),
    )
