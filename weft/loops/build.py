"""From a group of nodes to nests: axes and accesses, instructions with levels and phases, partial results
and what combines them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.ir.graph import Node, Operand, Value
from weft.loops.accumulate import accumulator, combining_nest, held_dtype, is_rounded
from weft.loops.coalesce import coalesce, is_broadcast, joins, walked
from weft.loops.nest import FULL, ONCE, ROW, Access, Instr, Nest, Ref, Store
from weft.loops.operand_types import type_of_operand
from weft.loops.phases import settle_phases
from weft.ops.compute import is_default, reduce_arguments
from weft.ops.cost import body_weight
from weft.ops.geometry import Geometry, contiguous
from weft.ops.rules import Pointwise
from weft.passes.alias import Aliases, dims_of, dtype_of
from weft.passes.group import AxisMap, Group, is_leaf
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dims import Dim, Expr
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType, tensor_type

MAX_CHUNKS, CHUNK_ROWS, CHUNK_ELEMENTS = 32, 16, 8192
SUMMED_ROWS = 32  # rows that are added up column by column, one after the other, before their sums are combined


def build_into(group: Group, aliases: Aliases, value: Value, target: Value, place: Geometry) -> Nest:
    """The kernel of a pointwise group whose only stored value goes to a part of another buffer."""
    return GroupBuilder(group, aliases, {value}, places={value: (target, place)}).build()[0]


def build_nests(group: Group, aliases: Aliases, stored: set[Value]) -> list[Nest]:
    """The kernels of a group, in order: the nest itself, and one more for each result that its chunks leave
    in parts."""
    if group.inner is None and group.cross_row:
        flat = GroupBuilder(group, aliases, stored, flat=True)
        nests = flat.build()
        if nests[0].form == "flat" or flat.is_one_row:
            return nests
    return GroupBuilder(group, aliases, stored).build()


class GroupBuilder:
    """Writes the nest of one group. Accesses are collected with strides over the group's space, and become accesses
    of the nest at the end."""

    def __init__(
        self, group: Group, aliases: Aliases, stored: set[Value], flat: bool = False,
        places: Mapping[Value, tuple[Value, Geometry]] | None = None,
    ) -> None:
        self.group, self.aliases, self.stored, self.flat = group, aliases, stored, flat
        self.places = places or {}  # where values go that get no buffer of their own
        self.raw: dict[tuple[Any, ...], int] = {}  # (root, strides over the space, offset) -> access number
        self.roots: list[Value] = []
        self.instrs: list[Instr] = []
        self.numbers: list[Any] = []
        self.known: dict[Any, int] = {}
        self.stores: list[tuple[int, int]] = []
        self.outer: list[int] = []
        self.inner: list[int] = []
        self.form = "rows"
        self.is_row_total = False
        self.is_one_row = flat and self._flat_chunks() == 1  # so few elements that one row takes them all

    # ---- the whole
    def build(self) -> list[Nest]:
        """Main nest and combining nests."""
        self.choose_axes()
        for node in self.group.nodes:
            self._node(node)
        writes: list[Value] = []
        for node in self.group.nodes:
            value = node.outputs[0]
            if value in self.stored and not self._is_partial(value):
                writes.append(self.store_value(value))
        chunks = self._chunks()
        followers = self._leave_partials(chunks, writes)
        nest = self.finish(writes, chunks)
        return [nest, *followers]

    def choose_axes(self) -> None:
        group = self.group
        axes = sorted(group.axes)
        if group.inner is None:
            self.outer, self.inner = ([], axes) if self.flat else (axes[:-1], axes[-1:])
            return
        self.outer = [a for a in axes if a not in group.inner]
        self.inner = [a for a in axes if a in group.inner]
        reduces = [n for n in group.nodes if n.op.reduce is not None]
        if self._is_column_sum(reduces):
            self.outer, self.inner = self.inner, self.outer
            self.is_row_total = True
        sums_across = not self.is_row_total and any(n.outputs[0] in group.cross_row for n in reduces)
        # (columns lie side by side in a vector: nothing joins them)
        if self.outer and self.inner and axes[-1] in self.outer and not sums_across:
            self.form = "columns"

    def _is_column_sum(self, reduces: Sequence[Node]) -> bool:
        """Only sums over the rows, and nothing else to store: the rows may then run innermost."""
        group = self.group
        if any(n.outputs[0] not in group.cross_row for n in reduces):
            return False
        if any(v in self.stored and v not in group.cross_row for n in group.nodes for v in n.outputs):
            return False
        return all(self._varying(n) == group.axes and self._reduced(n) == group.rows for n in reduces)

    def _varying(self, node: Node) -> frozenset[int]:
        return frozenset(self._source_axis_map(node)) - {-1}

    def _reduced(self, node: Node) -> frozenset[int]:
        return self._varying(node) - frozenset(self.group.axis_maps[node.outputs[0]] or ())

    def _source_axis_map(self, node: Node) -> AxisMap:
        source = node.args[0]
        axis_map = self.group.axis_map_of(source)
        if axis_map is not None:
            return axis_map
        shift = len(self.group.space) - len(dims_of(source))
        return tuple(i + shift if i + shift in self.group.axes else -1 for i in range(len(dims_of(source))))

    # ---- instructions
    def emit(self, instr: Instr, key: Any = None) -> int:
        if key is not None and key in self.known:
            return self.known[key]
        self.instrs.append(instr)
        if key is not None:
            self.known[key] = len(self.instrs) - 1
        return len(self.instrs) - 1

    def _node(self, node: Node) -> None:
        if node.op.reduce is not None:
            self.known[node.outputs[0]] = self._reduce(node)
        else:
            self.known[node.outputs[0]] = self._apply(node)

    def _apply(self, node: Node) -> int:
        op, rule = node.op, node.op.type
        axis_map = self.group.axis_maps.get(node.outputs[0]) or (-1,) * len(dims_of(node.outputs[0]))
        types = tuple([type_of_operand(a) for a in node.args])
        compute = rule.operand_dtype(types) if isinstance(rule, Pointwise) else None
        keep = rule.keep if isinstance(rule, Pointwise) else ()
        args: list[Any] = []
        for argument, value in zip(op.schema.arguments, node.args, strict=False):
            if argument.kind == "Scalar" and is_default(value, argument.default):
                args.append(None)
            elif (
                argument.kind in ("Tensor", "Scalar", "float", "int", "bool")
                and (type(value) is Value or type(value) is Expr)
            ):
                cast = compute is not None and argument.name not in keep
                args.append((self._operand(value, axis_map), cast and argument.kind in ("Tensor", "Scalar")))
            elif argument.kind in ("Tensor", "Scalar") and value is not None and compute is not None:
                args.append(("const", value))
            else:
                args.append(("raw", value))
        refs = [self.instrs[a[0].index] for a in args if type(a) is tuple and type(a[0]) is Ref]
        level, phase = _joint(refs)
        dtype = dtype_of(node.outputs[0])
        assert dtype is not None
        return self.emit(Instr("apply", dtype, level, phase, tuple(args), op, compute, node, body_weight(op, compute)))

    def _operand(self, value: Operand, axis_map: AxisMap) -> Ref:
        if type(value) is Expr:
            return Ref(self.emit(Instr("size", dt.int64, ONCE, what=value), ("size", value)))
        source: Value = value
        while (
            source not in self.known and source.node is not None and source.node.op.is_view
            and self.group.axis_map_of(source) is not None
        ):
            source = source.node.args[0]
        if source in self.known:
            return Ref(self.known[source])
        return Ref(self.outside(value, axis_map))

    def outside(self, value: Value, axis_map: AxisMap) -> int:
        """Read a value from outside the group at the point that `axis_map` says."""
        if value.node is None and not isinstance(value.type, TensorType) and dtype_of(value) is dt.float64:
            return self._number(value)
        root, geometry = self.aliases.of(value)
        dtype = dtype_of(root)
        assert dtype is not None
        if root in self.aliases.splats:
            return self.splat(root, dtype)
        strides = self._strides(geometry, dims_of(value), axis_map)
        if root.node is not None and root.node.op.counts:
            return self._index(strides, geometry.offset)
        access = self.access(root, strides, geometry.offset)
        return self.emit(Instr("load", dtype, self.level(strides), what=access), ("load", access))

    def splat(self, root: Value, dtype: DType) -> int:
        """A constant, or what a pointwise operator makes of constants."""
        if root in self.known:
            return self.known[root]
        assert root.node is not None
        self.known[root] = self._fill(root.node, dtype) if is_leaf(root.node) else self._apply(root.node)
        return self.known[root]

    def _number(self, value: Operand) -> int:
        if value not in self.numbers:
            self.numbers.append(value)
        return self.emit(
            Instr("number", dt.float64, ONCE, what=self.numbers.index(value)), ("number", self.numbers.index(value))
        )

    def _fill(self, node: Node, dtype: DType) -> int:
        assert node.op.fill is not None
        value: Any = node.op.fill(*node.args)
        if type(value) is Expr:
            return self.emit(Instr("size", dt.int64, ONCE, what=value), ("size", value))
        if type(value) is Value:
            is_input = value.node is None and dtype_of(value) is dt.float64
            return self.cast(self._number(value) if is_input else self._operand(value, ()).index, dtype)
        return self.emit(Instr("literal", dtype, ONCE, what=value), ("literal", dtype, repr(value)))

    def cast(self, index: int, dtype: DType) -> int:
        source = self.instrs[index]
        return self.emit(
            Instr("cast", dtype, source.level, source.phase, (Ref(index),), weight=1), ("cast", index, dtype)
        )

    def _index(self, strides: tuple[Dim, ...], offset: Dim) -> int:
        access = self.access(None, strides, offset)
        return self.emit(Instr("index", dt.int64, self.level(strides), what=access, weight=1), ("index", access))

    def _strides(self, geometry: Geometry, dims: Sequence[Dim], axis_map: AxisMap) -> tuple[Dim, ...]:
        strides: list[Dim] = [0] * len(self.group.space)
        lead = len(axis_map) - len(dims)
        for i, (d, stride) in enumerate(zip(dims, geometry.strides, strict=False)):
            axis = axis_map[i + lead]
            if axis >= 0 and not is_broadcast(d, self.group.space[axis]):
                strides[axis] = walked(stride, d)
        return tuple(strides)

    def access(self, root: Value | None, strides: tuple[Dim, ...], offset: Dim) -> int:
        key = (root, strides, offset)
        number = self.raw.get(key)
        if number is None:
            number = self.raw[key] = len(self.raw)
            if root is not None and root not in self.roots:
                self.roots.append(root)
        return number

    def level(self, strides: Sequence[Dim]) -> int:
        if any(strides[a] != 0 for a in self.inner):
            return FULL
        return ROW if any(strides[a] != 0 for a in self.outer) else ONCE

    # ---- reductions
    def _reduce(self, node: Node) -> int:
        assert node.op.reduce is not None
        source, _, _ = reduce_arguments(node.op, node.args)
        axis_map = self._source_axis_map(node)
        ref = self._operand(source, axis_map)
        dtype = dtype_of(node.outputs[0])
        assert dtype is not None
        combine = node.op.reduce.combine
        compute = accumulator(combine, dtype, self.instrs[ref.index].dtype)
        varies, over = self._varying(node), self._reduced(node)
        if not over:
            if combine in ("any", "all"):
                return self.cast(self.cast(ref.index, dt.bool_), dtype)
            return self.cast(ref.index, dtype)
        inner = frozenset(self.inner)
        if over == inner and varies & inner:
            return self._row_reduce(node, combine, ref, dtype, compute)
        held = held_dtype(combine, compute)
        if over == varies and over == frozenset(self.outer) | inner:
            row = self._row_reduce(node, combine, ref, held, compute) if inner else ref.index
            if not self.outer:
                return row if held is dtype or self._is_flat_total() else self.cast(row, dtype)
            return self._cross_row("total", node, Ref(row), combine, held)
        if varies == frozenset(self.outer):
            return self._cross_row("total", node, ref, combine, held)
        return self._cross_row("column", node, ref, combine, compute)

    def _row_reduce(self, node: Node, combine: str, ref: Ref, dtype: DType, compute: DType) -> int:
        source = self.instrs[ref.index]
        return self.emit(Instr("reduce", dtype, ROW, source.phase + 1, (ref,), combine, compute, node))

    def _cross_row(self, kind: str, node: Node, ref: Ref, combine: str, compute: DType) -> int:
        source = self.instrs[ref.index]
        return self.emit(Instr(kind, compute, source.level, source.phase, (ref,), combine, compute, node))

    # ---- results
    def store_value(self, value: Value) -> Value:
        """Store a value; the buffer that it goes to."""
        dims = dims_of(value)
        axis_map = self.group.axis_maps[value]
        assert axis_map is not None
        target, place = self.places.get(value) or (value, contiguous(dims))
        strides = self._strides(place, dims, axis_map)
        self.stores.append((self.known[value], self.access(target, strides, place.offset)))
        return target

    def _rows(self) -> Dim:
        return dm.product(self.group.space[a] for a in self.outer)

    def _chunks(self) -> Dim | None:
        """How many portions the rows (or elements) are dealt out in, if partial results are left."""
        if self._is_flat_total():
            return self._flat_chunks()
        if not any(i.kind in ("total", "column") for i in self.instrs):
            return None
        if any(
            i.kind == "column" and i.compute is not None and is_rounded(str(i.what), i.compute) for i in self.instrs
        ):
            return dm.maximum(1, dm.floordiv(self._rows(), SUMMED_ROWS))
        return dm.minimum(MAX_CHUNKS, dm.maximum(
            1,
            dm.minimum(dm.floordiv(self._rows(), CHUNK_ROWS), dm.floordiv(dm.product(self.group.space), CHUNK_ELEMENTS))
        ))

    def _flat_chunks(self) -> Dim:
        return dm.minimum(64, dm.maximum(1, dm.floordiv(dm.product(self.group.space), CHUNK_ELEMENTS)))

    def _is_flat_total(self) -> bool:
        is_total = self.group.inner is None and self.group.cross_row and not self.outer and self.inner
        return bool(is_total and not self.is_one_row)

    def _leave_partials(self, chunks: Dim | None, writes: list[Value]) -> list[Nest]:
        """Give each cross-row reduction a buffer of partial results and a nest that combines them."""
        if chunks is None:
            return []
        followers = []
        for i, instr in enumerate(self.instrs):
            is_flat_total = instr.kind == "reduce" and self._is_flat_total()
            if instr.kind not in ("total", "column") and not is_flat_total:
                continue
            assert instr.node is not None and instr.compute is not None
            result = instr.node.outputs[0]
            if result not in self.stored:
                continue
            held = instr.compute if instr.kind == "column" else held_dtype(str(instr.what), instr.compute)
            instr.dtype = held
            width = dm.product(dims_of(result)) if instr.kind == "column" else 1
            is_direct = chunks == 1 and held is dtype_of(result)
            target = (
                result if is_direct else Value(tensor_type(held, (chunks, width)), f"{result.name or 'result'}_parts")
            )
            writes.append(target)
            strides: tuple[Dim, ...] = (0,) * len(self.group.space)
            if instr.kind == "column":
                axis_map = self.group.axis_maps[result]
                assert axis_map is not None
                strides = self._strides(contiguous(dims_of(result)), dims_of(result), axis_map)
            self.stores.append((i, self.access(target, strides, 0)))
            if not is_direct:
                followers.append(combining_nest(target, result, str(instr.what), chunks, width, instr.node))
        return followers

    def _is_partial(self, value: Value) -> bool:
        """Whether a result comes from the chunks' partial results."""
        instr = self.instrs[self.known[value]]
        return instr.kind in ("total", "column") or (instr.kind == "reduce" and self._is_flat_total())

    # ---- axes
    def finish(self, writes: list[Value], chunks: Dim | None) -> Nest:
        keys = list(self.raw)
        space = self.group.space
        outer_sizes, outer_strides = coalesce(self.outer, space, [k[1] for k in keys])
        inner_sizes, inner_strides = coalesce(self.inner, space, [k[1] for k in keys])
        form = self.form
        merged = (
            self.group.inner is None and len(outer_sizes) == 1 and chunks is None
            and joins(outer_sizes, inner_sizes, outer_strides, inner_strides)
        )
        if merged:
            inner_sizes = [outer_sizes[0] * inner_sizes[0]]
            outer_sizes, outer_strides = [], [[] for _ in keys]
        is_row = self.group.inner is not None or self.is_one_row
        if form == "rows" and not outer_sizes and len(inner_sizes) == 1 and not is_row:
            form = "flat"
        reads = [r for r in self.roots if r not in writes]
        buffers = {v: i for i, v in enumerate([*reads, *writes])}
        nest = Nest(
            form, tuple(outer_sizes), tuple(inner_sizes), reads, writes, numbers=self.numbers, instrs=self.instrs,
            chunks=chunks, nodes=tuple(self.group.nodes),
        )
        for (root, _, offset), o, i in zip(keys, outer_strides, inner_strides, strict=False):
            dtype = dt.int64 if root is None else dtype_of(root)
            assert dtype is not None
            nest.accesses.append(Access(-1 if root is None else buffers[root], dtype, (*o, *i), offset))
        if merged:
            for instr in self.instrs:
                instr.level = FULL if instr.level == ROW else instr.level
        nest.stores = [Store(i, nest.accesses[a]) for i, a in self.stores]
        settle_phases(nest)
        return nest


def _joint(args: Sequence[Instr]) -> tuple[int, int]:
    return max((a.level for a in args), default=ONCE), max((a.phase for a in args), default=0)
