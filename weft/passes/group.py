"""Group: nodes that run as one kernel, and which nodes fit.

A group has an iteration `space` (dims). Every value computed in it has an axis map: for each of its dims the axis
of the space that it follows, or -1 where it does not vary. `inner` is the set of axes that row reductions sum over;
the other axes are the rows. A value varies over the whole space, or over rows only. A reduction over the rows, or over
everything, is a cross-row reduction: it is complete only after the last row, so nobody in the group reads it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from weft.ir.graph import Node, Operand, Value, values_in
from weft.ops.compute import reduce_arguments
from weft.ops.op import Op
from weft.ops.rules import reduction_axes
from weft.passes.alias import dims_of, dims_of_type, dtype_of
from weft.passes.effects import KEPT
from weft.support import limits
from weft.types import shape_env
from weft.types.dims import Dim, Expr, is_one
from weft.types.tensor_type import Type

AxisMap = tuple[int, ...]
_ARG_REDUCTIONS = ("argmax", "argmin")


@dataclass(eq=False)
class StandaloneKernel:
    """A node that is a kernel (or host call) of its own; also a view that needs a copy, and a leaf
    that someone wants in memory."""

    node: Node
    stage: int
    order: int

    @property
    def nodes(self) -> tuple[Node, ...]:
        return (self.node,)


class TrailingMaps:
    """By type, the axis maps of values whose dims are the last axes of a space, one for one: nearly all values are
    such. Groups of one space share them."""

    def __init__(self, space: tuple[Dim, ...]) -> None:
        self.space = space
        self._maps: dict[Type, AxisMap | None] = {}

    def of(self, kind: Type) -> AxisMap | None:
        """The axis map of such a value; None where a dim is not as long as its axis."""
        try:
            return self._maps[kind]
        except KeyError:
            dims = dims_of_type(kind)
            axis_map = self._maps[kind] = self.align([-1] * len(dims), dims)
            return axis_map

    def align(self, axis_map: list[int], dims: Sequence[Dim]) -> AxisMap | None:
        """Give the dims that have no axis yet the one at the same distance from the end."""
        used = {a for a in axis_map if a >= 0}
        shift = len(self.space) - len(dims)
        for i, axis in enumerate(axis_map):
            if axis >= 0 or is_one(dims[i]):
                continue
            axis = i + shift
            if axis < 0 or axis in used or not _same(dims[i], self.space[axis]):
                return None
            axis_map[i] = axis
            used.add(axis)
        following = [a for a in axis_map if a >= 0]
        return tuple(axis_map) if all(a < b for a, b in itertools.pairwise(following)) else None


@dataclass(eq=False)
class Group:
    """Nodes that run as one kernel over one space."""

    trailing: TrailingMaps
    stage: int
    order: int
    inner: frozenset[int] | None = None
    nodes: list[Node] = field(default_factory=list)
    axis_maps: dict[Value, AxisMap | None] = field(default_factory=dict)
    cross_row: set[Value] = field(default_factory=set)
    axes: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.axes = frozenset(i for i, d in enumerate(self.space) if not is_one(d))

    @property
    def space(self) -> tuple[Dim, ...]:
        """The dims that the kernel goes over."""
        return self.trailing.space

    @property
    def rows(self) -> frozenset[int]:
        """The axes that are not inner."""
        return self.axes - (self.inner or frozenset())

    def axis_map_of(self, value: Value) -> AxisMap | None:
        """The axis map of a value computed in the group, through views that only rename axes;
        None for values from outside."""
        views: list[Node] = []  # from `value` back to what has an axis map (chains of views may be thousands long)
        while value not in self.axis_maps:
            node = value.node
            if node is None or node.op.view is None:
                return None
            views.append(node)
            value = node.args[0]
        axis_map = self.axis_maps[value]
        if not views:
            return axis_map
        for node in reversed(views):
            if axis_map is not None:
                axis_map = _rename(node.op, axis_map, dims_of(node.args[0]), dims_of(node.outputs[0]))
                self.axis_maps[node.outputs[0]] = axis_map
        return axis_map

    def is_cross_row(self, value: Value) -> bool:
        """Whether a value (or the source of a view) is a cross-row reduction of this group."""
        while value.node is not None and value.node.op.is_view:
            value = value.node.args[0]
        return value in self.cross_row

    def accept(self, node: Node) -> bool:
        """Add the node if it fits; its inputs' stages have been checked already."""
        return self._accept_reduce(node) if node.op.reduce is not None else self._accept_pointwise(node)

    def _accept_pointwise(self, node: Node) -> bool:
        axis_map = self._joint_axis_map(node)
        if axis_map is None:
            return False
        varies = _varying(axis_map)
        if varies != self.axes and (self.inner is None or varies != self.rows):
            return False
        self._add(node, axis_map)
        return True

    def _joint_axis_map(self, node: Node) -> AxisMap | None:
        trailing, inner = self.trailing, []
        are_trailing = True  # (so are those of nearly all values)
        for value in node.inputs():
            axes = self.axis_map_of(value)
            if axes is not None:
                inner.append((value, axes))
                are_trailing = are_trailing and axes == trailing.of(value.type)
        if self.cross_row and any([self.is_cross_row(v) for v, _ in inner]):
            return None
        axes_of_result = trailing.of(node.outputs[0].type)
        if are_trailing and axes_of_result is not None:
            return axes_of_result
        dims = dims_of(node.outputs[0])
        axis_map = [-1] * len(dims)
        for value, axes in inner:
            lead = len(dims) - len(axes)
            sizes = dims_of(value)
            for i, axis in enumerate(axes):
                if axis >= 0 and _same(sizes[i], dims[i + lead]):  # else a symbol that is 1 here, which broadcasts
                    if axis_map[i + lead] not in (-1, axis):
                        return None
                    axis_map[i + lead] = axis
        return trailing.align(axis_map, dims)

    def _accept_reduce(self, node: Node) -> bool:
        source, dim, keepdim = reduce_arguments(node.op, node.args)
        axis_map = self.axis_map_of(source)
        if axis_map is None:
            axis_map = self.trailing.of(source.type)
        if axis_map is None or self.is_cross_row(source):
            return False
        over = reduction_axes(node.op, dim, len(axis_map)) if axis_map else ()
        if any(axis < 0 and not is_one(size) for axis, size in zip(axis_map, dims_of(source), strict=True)):
            return False  # repeated along a dim: the group holds one copy of it
        is_row = keepdim or len(over) < len(axis_map)  # one row only: its readers will want the result in the same pass
        crosses = self._role(node, frozenset(axis_map) - {-1}, frozenset(axis_map[i] for i in over) - {-1}, is_row)
        if crosses is None:
            return False
        self._add(node, tuple(-1 if i in over else a for i, a in enumerate(axis_map) if keepdim or i not in over))
        if crosses:
            self.cross_row.add(node.outputs[0])
        return True

    def _role(self, node: Node, varies: frozenset[int], over: frozenset[int], is_row: bool) -> bool | None:
        """Whether a reduction of these axes crosses rows; None when the group cannot hold it. Settles `inner`."""
        assert node.op.reduce is not None
        is_arg = node.op.reduce.combine in _ARG_REDUCTIONS
        if varies != self.axes:
            fits = self.inner is not None and varies == self.rows and over == self.rows and not is_arg
            return True if fits else None
        if is_arg and (not over or self.inner not in (None, over)):
            return None
        if not over:
            return False
        if over == self.axes and not is_arg and not (is_row and self.inner in (None, over)):
            return True
        last = max(self.axes)
        if self.inner is None:
            self.inner = over if last in over or is_arg else self.axes - over
            return over != self.inner
        if over == self.inner:
            return False
        return True if over == self.rows and not is_arg else None

    def _add(self, node: Node, axis_map: AxisMap) -> None:
        self.nodes.append(node)
        self.axis_maps[node.outputs[0]] = axis_map


Item = Group | StandaloneKernel


@lru_cache(limits.RESULTS)
def _varying(axis_map: AxisMap) -> frozenset[int]:
    """The axes that a value varies over."""
    return frozenset(a for a in axis_map if a >= 0)


def _same(a: Dim, b: Dim) -> bool:
    return a == b or shape_env.equal(a, b)


def _rename(op: Op, axis_map: AxisMap, old: Sequence[Dim], new: Sequence[Dim]) -> AxisMap | None:
    """The axis map of a view that only adds, removes or repeats dims of size 1; None for any other view."""
    assert op.view is not None
    if op.view.repeats:
        lead = len(new) - len(old)
        return tuple(
            -1 if i < lead or shape_env.is_repeated(old[i - lead], new[i]) else axis_map[i - lead]
            for i in range(len(new))
        )
    if not op.view.keeps_order:
        return None
    kept = [(d, a) for d, a in zip(old, axis_map, strict=False) if not is_one(d)]
    wanted = [d for d in new if not is_one(d)]
    if [d for d, _ in kept] != wanted:
        return None
    axes = iter(a for _, a in kept)
    return tuple(-1 if is_one(d) else next(axes) for d in new)


def is_fill(node: Node) -> bool:
    """Whether every element of the node's result is one number."""
    return node.op.fill is not None and node.op.fill(*node.args) is not None


def is_zeros(value: Value) -> bool:
    """Whether every element is known to be 0."""
    node = value.node
    fill = None if node is None or node.op.fill is None else node.op.fill(*node.args)
    return isinstance(fill, (bool, int)) and fill == 0


def is_leaf(node: Node) -> bool:
    """Whether readers compute the value themselves instead of loading it."""
    return node.op.counts or is_fill(node)


def is_fusible(node: Node) -> bool:
    """Whether the node is pointwise or a reduction, without effects, over dtypes that kernels compute with (of
    complex numbers, reductions to bool alone: their sums are those of their parts by then)."""
    if (node.op.scalar is None and node.op.reduce is None) or node.op.effect in KEPT:
        return False
    for value in (*node.outputs, *node.inputs()):
        dtype = dtype_of(value)
        if dtype is None or (dtype.is_complex and not node.op.has_complex_code):
            return False
    if node.op.reduce is not None and dtype_of(node.outputs[0]).is_complex:  # type: ignore[union-attr]
        return False
    return all(map(_is_plain, _takes_elements(node.op), node.args))


@lru_cache(limits.RESULTS)
def _takes_elements(op: Op) -> tuple[bool, ...]:
    """For each argument whether the body expects an element of it."""
    return tuple([a.kind in ("Tensor", "Scalar") for a in op.schema.arguments])


def _is_plain(is_element: bool, operand: Operand) -> bool:
    """Whether a kernel can take the operand: values and sizes only where the body expects an element."""
    kind = type(operand)
    if is_element:
        return kind is not tuple
    return kind is not Expr and kind is not Value and not (kind is tuple and values_in(operand))
