"""Alias resolution: which buffer a value lies in, and with which geometry. Questions about strides are proved here,
never recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.ir.graph import Node, Operand, Value
from weft.ops.geometry import Geometry, contiguous
from weft.ops.op import Op
from weft.support.errors import ShapeError
from weft.types import dtype as dt
from weft.types.dims import Dim
from weft.types.dtype import DType
from weft.types.relation import Relation
from weft.types.settled import settled_guards
from weft.types.shape_env import ShapeEnv
from weft.types.tensor_type import BOOL, FLOAT, INT, TensorType, Type

_NUMBERS: dict[Type, DType] = {FLOAT: dt.float64, INT: dt.int64, BOOL: dt.bool_}


def dims_of(value: Value) -> tuple[Dim, ...]:
    """Dims of a tensor value; a number has none."""
    return dims_of_type(value.type)


def dims_of_type(kind: Type) -> tuple[Dim, ...]:
    """Dims of values of a type."""
    return kind.shape if isinstance(kind, TensorType) else ()


def dtype_of(value: Value) -> DType | None:
    """dtype of a tensor value, or the dtype that a number has in memory; None for anything else."""
    return value.type.dtype if isinstance(value.type, TensorType) else _NUMBERS.get(value.type)


class ProvingEnv(ShapeEnv):
    """Answers from what a graph's environment has proved or recorded; what is open counts as unequal. Records nothing.

    Lowering asks whether strides are equal. Such a question must not become a guard: the answer only chooses between
    a view and a copy.
    """

    def __init__(self, env: ShapeEnv) -> None:
        super().__init__(env.examples, env.guards | settled_guards(env), env.counts)

    def refuse(self, relation: Relation, error: Callable[[], Exception]) -> None:
        """The graph has been made: what it must refuse has been asked."""

    def _ask(self, relation: Relation) -> bool:
        proven = self._prove(relation)
        if proven is not None:
            return proven
        guard = self.guards.get(relation)
        if guard is not None:
            return guard.answer
        if relation.op == "==" or any(s not in self.examples for s in relation.expr.symbols()):
            return False
        return relation.holds(self.examples)


def view_geometries(op: Op, source: Geometry, arguments: tuple[object, ...]) -> tuple[Geometry, ...] | None:
    """Geometry of each result of a view of `source`, or None when strides cannot express it, or when what was asked
    of its sizes while the graph was made cannot be proved again."""
    assert op.view is not None
    try:
        geometries = (op.view.compiled or op.view.geometry)(source, *arguments)
    except ShapeError:
        return None
    if geometries is None:
        return None
    return geometries if isinstance(geometries, tuple) else (geometries,)


def view_inverted(scatter: Node) -> tuple[Op, tuple[Operand, ...], int]:
    """The view that a scatter inverts, its arguments behind the first, and which of its results."""
    view = scatter.op.scatters
    assert view is not None
    if view.schema.returns_list:
        return view, scatter.args[3:], scatter.args[2]
    return view, scatter.args[2:], 0


def changes_dtype(view: Node) -> bool:
    """Whether a view reads its source's bytes as another dtype."""
    return dtype_of(view.outputs[0]) is not dtype_of(view.args[0])


class Aliases:
    """Values that are views of materialised buffers. `geometry[value] = (root, Geometry)`;
    a value without entry is a root."""

    def __init__(self) -> None:
        self.geometry: dict[Value, tuple[Value, Geometry]] = {}
        # roots that are one number everywhere, cheap enough for every reader to compute anew
        self.splats: set[Value] = set()
        self._shown: dict[tuple[Op, Geometry, tuple[Operand, ...]], tuple[Geometry, ...] | None] = {}

    def of(self, value: Value) -> tuple[Value, Geometry]:
        """The buffer a value lies in, and how."""
        place = self.geometry.get(value)
        return (value, contiguous(dims_of(value))) if place is None else place

    def add_view(self, node: Node) -> bool:
        """Resolve a view node. False when strides cannot express it, or its bytes are read as another dtype: its
        result then needs a buffer of its own."""
        if changes_dtype(node):
            return False
        root, source = self.of(node.args[0])
        if node.op.view is not None and node.op.view.is_free and source != contiguous(dims_of(node.args[0])):
            return False  # it speaks of the row-major memory of its argument, which lies otherwise in its root
        geometries = self._shown_by(node, source)
        if geometries is None or any(g.ndim != len(dims_of(v)) for g, v in zip(geometries, node.outputs, strict=True)):
            return False
        for value, geometry in zip(node.outputs, geometries, strict=True):
            self.geometry[value] = (root, replace(geometry, dims=dims_of(value)))  # one name for each size
        return True

    def _shown_by(self, node: Node, source: Geometry) -> tuple[Geometry, ...] | None:
        """What the results of a view show of a source that lies so: asked once, for sizes take long to compare."""
        key = (node.op, source, node.args[1:])
        if key not in self._shown:
            self._shown[key] = view_geometries(*key)
        return self._shown[key]
