"""Kernels that add or copy rows into rows by index: embedding's gradient, index_add, index_copy along
dim 0 (passes/scatter_rows.py brings other writes to these). Columns are dealt out, so that every element is written
in the order of the index, whatever the number of threads."""

from __future__ import annotations

from weft.codegen.emit import I64, PTR, Function, LType, Module, const, vec
from weft.codegen.emit import Value as Scalar
from weft.codegen.lower.loops import PARAMETERS
from weft.codegen.lower.lowering import BlockLowering, lowers
from weft.codegen.lower.matrices import repeated_strides
from weft.codegen.lower.values import raw_type
from weft.codegen.scalar.element import memory_type
from weft.ir.graph import Node, Value
from weft.loops.kernel import KernelCall
from weft.ops.geometry import Geometry, contiguous, contiguous_strides
from weft.ops.packet import aten
from weft.passes.alias import dims_of, dtype_of
from weft.passes.scatter_rows import is_in_bounds
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim, is_one
from weft.types.dtype import DType

COLUMNS = 64  # columns of a part
_SUMS = (dt.float32, dt.float64, dt.int64, dt.int32, dt.int16, dt.int8, dt.uint8)  # dtypes that are added in themselves
_INTS = ("count", "rows", "columns", "row_stride", "skipped", "base_size")


@lowers(aten.embedding_dense_backward)
def lower_embedding_backward(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Rows of the cotangent summed by index, over zeros."""
    grad, indices, count, padding, by_frequency = node.args
    if by_frequency:
        return None
    return _accumulate(block, node, None, grad, indices, count, padding if padding >= 0 else -1)


@lowers(aten.index_add)
def lower_index_add(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """index_add along dim 0: rows added to a copy of self."""
    base, dim, index, source, alpha = node.args
    if alpha != 1 or dim not in (0, -len(dims_of(base))) or len(dims_of(index)) != 1:
        return None
    if dtype_of(source) is not dtype_of(base):
        return None
    return _accumulate(block, node, base, source, index, (*dims_of(base), 1)[0], -1)


@lowers(aten.index_copy)
def lower_index_copy(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """index_copy along dim 0: rows put into a copy of self, the last one where an index repeats."""
    base, dim, index, source = node.args
    if dim not in (0, -len(dims_of(base))) or len(dims_of(index)) != 1 or len(dims_of(source)) != len(dims_of(base)):
        return None
    return _accumulate(block, node, base, source, index, (*dims_of(base), 1)[0], -1, adds=False)


def _accumulate(
    block: BlockLowering, node: Node, base: Value | None, source: Value, index: Value, count: Dim, skipped: int,
    adds: bool = True,
) -> list[KernelCall] | None:
    """out [count, ...] = base (or zeros) with the rows of `source` added (or put) at `index`;
    the index `skipped` counts as nothing."""
    out = node.outputs[0]
    dtype, kind = dtype_of(out), dtype_of(index)
    if (
        dtype is None or (adds and dtype not in _SUMS) or dtype.is_complex or dtype_of(source) is not dtype
        or kind not in (dt.int64, dt.int32)
    ):
        return None
    assert kind is not None
    rest = dims_of(out)[1:]
    columns, rows = dm.product(rest), dm.product(dims_of(index))
    sources = [whole_buffer(block, v, node) for v in ((source, index) if base is None else (source, index, base))]
    calls = [c for _, c in sources if c is not None]
    roots = [v for v, _ in sources]
    target = block.lowering.target
    name = block.lowering.function(
        ("accumulate", dtype.short, kind.short, base is None, adds, is_one(columns)),
        f"{'add' if adds else 'put'}_rows_{dtype.short}",
        lambda name: _Emit(
            block.lowering.module, name, dtype, kind, base is not None, adds,
            1 if is_one(columns) else target.lanes(dtype.itemsize),
        ).emit())
    size = columns if base is None else dm.product(dims_of(out))
    ints = (count, rows, columns, columns, skipped, size)
    extent = dm.floordiv(columns + COLUMNS - 1, COLUMNS)
    in_place = () if base is None else ((0, 2),)
    raises = () if is_in_bounds(index, count, block.lowering.env) else (0,)
    return [*calls, KernelCall(
        name, (*roots, out), 1, ints, (), extent, rows * columns + count * columns, 0, in_place, (node,), raises
    )]


def whole_buffer(
    block: BlockLowering, value: Value, node: Node, dtype: DType | None = None
) -> tuple[Value, KernelCall | None]:
    """A buffer that holds the value contiguously (converted to a dtype, if one is given), and the copy that makes
    it if there is none."""
    root, geometry = block.aliases.of(value)
    is_leaf = root in block.aliases.splats
    is_same = dtype is None or dtype_of(value) is dtype
    if is_same and not is_leaf and geometry.offset == 0 and geometry.strides == contiguous_strides(geometry.dims) and (
        dm.product(dims_of(root)) == dm.product(geometry.dims)
    ):
        return root, None
    copied = Value(value.type if dtype is None else value.tensor_type.with_dtype(dtype), value.name)
    return (
        copied, block.copy(copied, dims_of(value), root, geometry if not is_leaf else contiguous(dims_of(value)), node)
    )


def spread(
    block: BlockLowering, value: Value, dims: tuple[Dim, ...], node: Node, dtype: DType | None = None
) -> tuple[Value, KernelCall | None]:
    """The same of a value expanded to dims, or of the first of its elements where they are fewer."""
    root, g = block.aliases.of(value)
    if len(g.dims) == len(dims) and all(a == b or shape_env.equal(a, b) for a, b in zip(g.dims, dims, strict=True)):
        return whole_buffer(block, value, node, dtype)
    strides = repeated_strides(g.dims, g.strides, dims)
    shown = contiguous(dims) if root in block.aliases.splats else Geometry(dims, strides, g.offset)
    kept = value.tensor_type.with_dims(dims)
    copied = Value(kept if dtype is None else kept.with_dtype(dtype), value.name)
    return copied, block.copy(copied, dims, root, shown, node)


class _Emit:
    """Writes the function: clear or copy the part's columns, then add row after row."""

    def __init__(
        self, module: Module, name: str, dtype: DType, kind: DType, has_base: bool, adds: bool, lanes: int
    ) -> None:
        self.f: Function = module.function(name, I64, PARAMETERS)
        self.adds, self.is_float = adds, raw_type(dtype, 1).kind == "float"
        self.elem = raw_type(dtype, 1)
        self.kind, self.has_base = memory_type(kind, 1), has_base
        self.lanes = lanes

    def emit(self) -> None:
        """The whole function."""
        f = self.f
        bufs, table, _, _, begin, end = f.params
        ints = {key: f.load(I64, f.gep(I64, table, i), name=key) for i, key in enumerate(_INTS)}
        pointers = [f.load(PTR, f.gep(PTR, bufs, i)) for i in range(4 if self.has_base else 3)]
        source, index, out = pointers[0], pointers[1], pointers[-1]
        low = f.mul(begin, COLUMNS, "low")
        high = f.smin(f.mul(end, COLUMNS), ints["columns"], "high")
        self._begin(ints, pointers, low, high)
        with f.loop(0, ints["rows"], name="row") as loop:
            raw = f.load(self.kind, f.gep(self.kind, index, loop.index))
            at = f.sext(raw, I64) if self.kind is not I64 else raw
            with f.if_(f.icmp("uge", at, ints["count"]), "out_of_bounds"):
                f.ret(const(I64, 1))
            with f.if_(f.icmp("ne", at, ints["skipped"]), "counts"):
                a = f.gep(self.elem, source, f.mul(loop.index, ints["row_stride"]))
                b = f.gep(self.elem, out, f.mul(at, ints["columns"]))
                self._vectors(low, high, lambda type, i, mask: self._add(type, a, b, i, mask))
        f.ret(const(I64, 0))

    def _begin(self, ints: dict[str, Scalar], pointers: list[Scalar], low: Scalar, high: Scalar) -> None:
        f, out = self.f, pointers[-1]
        is_apart = f.icmp("ne", pointers[2], out) if self.has_base else f.icmp("eq", out, out)
        with f.if_(is_apart, "begin"), f.loop(0, ints["count"], name="clear") as loop:
            start = f.mul(loop.index, ints["columns"])
            target = f.gep(self.elem, out, start)
            origin = f.gep(self.elem, pointers[2], start) if self.has_base else None
            self._vectors(low, high, lambda type, i, mask: self._put(type, origin, target, i, mask))

    def _vectors(self, low: Scalar, high: Scalar, body: object) -> None:
        f, lanes = self.f, self.lanes
        assert callable(body)
        if lanes == 1:
            body(self.elem, low, None)
            return
        with f.loop(low, high, lanes, "column") as loop:
            body(vec(self.elem, lanes), loop.index, f.first_lanes(f.sub(high, loop.index), lanes))

    def _put(self, type: LType, origin: Scalar | None, target: Scalar, i: Scalar, mask: Scalar | None) -> None:
        x = (
            const(type, 0.0 if self.is_float else 0) if origin is None
            else self._load(type, self.f.gep(self.elem, origin, i), mask)
        )
        self._store(x, self.f.gep(self.elem, target, i), mask)

    def _add(self, type: LType, a: Scalar, b: Scalar, i: Scalar, mask: Scalar | None) -> None:
        f = self.f
        cell = f.gep(self.elem, b, i)
        x = self._load(type, f.gep(self.elem, a, i), mask)
        if self.adds:
            before = self._load(type, cell, mask)
            x = f.fadd(before, x) if self.is_float else f.add(before, x)
        self._store(x, cell, mask)

    def _load(self, type: LType, pointer: Scalar, mask: Scalar | None) -> Scalar:
        return self.f.load(type, pointer) if mask is None else self.f.masked_load(type, pointer, mask)

    def _store(self, x: Scalar, pointer: Scalar, mask: Scalar | None) -> None:
        if mask is None:
            self.f.store(x, pointer)
        else:
            self.f.masked_store(x, pointer, mask)
