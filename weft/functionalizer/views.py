"""Views of views: the path, type and geometry of what a view operator gives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from weft.catalogue.shapes.twins import coincide
from weft.functionalizer.operators import AS_STRIDED, PERMUTE, RESHAPE, VIEW
from weft.functionalizer.steps import after, with_known_sizes
from weft.functionalizer.storage import Storage
from weft.functionalizer.view import View
from weft.functionalizer.writes import Path, memory_as
from weft.ops.geometry import Geometry, contiguous, is_contiguous, within
from weft.ops.op import Op
from weft.support.errors import StateError
from weft.types import dims as dm
from weft.types import shape_env
from weft.types.dtype import DType
from weft.types.relation import ShapeGuard
from weft.types.shape_env import ShapeEnv
from weft.types.tensor_type import TensorType, tensor_type

REPEATED = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
    "Please clone() the tensor before performing the operation."
)


@dataclass
class Shown:
    """What a view operator gives: for each result its path from the base, type and geometry; None where only a copy
    can.

    questions: what a view that may be a copy asked about sizes; they matter only if an alias is written later.
    """

    results: tuple[tuple[Path, TensorType, Geometry], ...] | None
    questions: list[ShapeGuard]


def show(op: Op, source: View[Any], rest: tuple[Any, ...], env: ShapeEnv | None = None) -> Shown:
    """The view (or views) of a view. Raises ShapeError where the request is wrong, or strides cannot express a view
    that never copies.
    """
    assert op.view is not None
    questions: list[ShapeGuard] = []
    if op.view.is_free:
        shapes: Any = _from_storage(op, source, rest)
    elif op.view.may_copy:
        shapes = _or_copy(op, source, rest, env, questions)
    else:
        shapes = after(op, source.geometry(), rest, env)
    if shapes is None:
        return Shown(None, questions)
    views = []
    for i, g in enumerate(shapes if isinstance(shapes, tuple) else (shapes,)):
        path = path_in_memory(source.storage, g, source.type.dtype) if op.view.is_free else _longer(op, source, rest, i)
        views.append((path, tensor_type(_dtype(op, source, rest), g.dims), g))
    return Shown(tuple(views), questions)


def _longer(op: Op, source: View[Any], rest: tuple[Any, ...], index: int) -> Path:
    """One step more. Where the base's dims have an order of their own, a view in other dims is a reshape to whoever
    lays the value out anew.
    """
    return *source.path, (RESHAPE if op is VIEW and source.storage.order is not None else op, rest, index)


def _dtype(op: Op, source: View[Any], rest: tuple[Any, ...]) -> Any:
    if op.type is None:
        return source.type.dtype
    result = op.type(source.type, *rest)
    return (result[0] if isinstance(result, tuple) else result).dtype


def _or_copy(
    op: Op, source: View[Any], rest: tuple[Any, ...], env: ShapeEnv | None, questions: list[ShapeGuard]
) -> Any:
    """The geometry of reshape; what it asks about strides is no guard yet."""
    assert op.view is not None
    if env is None:
        return op.view.geometry(source.geometry(), *rest)
    # sizes must fit in any case: these questions are guards
    op.view.geometry(contiguous(source.geometry().dims), *rest)
    guards = len(env.guards)
    shape = op.view.geometry(source.geometry(), *rest)
    if shape is None:
        shape = op.view.geometry(with_known_sizes(source.geometry(), env), *rest)
    questions += env.take_back(guards)
    return shape


# ---- as_strided speaks of the storage
def _from_storage(op: Op, source: View[Any], rest: tuple[Any, ...]) -> Geometry:
    """The geometry in the storage: an offset that is given counts from the source's first element."""
    assert op.view is not None
    at = source.geometry()
    shown: Geometry = op.view.geometry(at, *rest)
    if rest[2] is not None:
        shown = replace(shown, offset=shown.offset + at.offset)
    return shown


def path_in_memory(storage: Storage[Any], shown: Geometry, dtype: DType | None) -> Path:
    """The path to a geometry of the storage, whatever views there were on the way. Raises ShapeError if it reaches
    outside.
    """
    kind, base = storage.type, storage.geometry
    assert base is not None and kind.dtype is not None and dtype is not None
    count = dm.product(kind.shape)
    begin = base.offset
    if dtype is not kind.dtype:
        begin = dm.floordiv(begin * kind.dtype.itemsize, dtype.itemsize)
    within(replace(shown, offset=shown.offset - begin), dm.floordiv(count * kind.dtype.itemsize, dtype.itemsize))
    first: Path = () if storage.order is None else ((PERMUTE, (storage.order,), 0),)
    place = (AS_STRIDED, (shown.dims, shown.strides, shown.offset - begin), 0)
    return (*first, *memory_as(kind.dtype, dtype, count), place)


def is_whole(storage: Storage[Any]) -> bool:
    """Whether the base's value has all elements between its first and its last, so that as_strided may look at it."""
    return storage.order is not None or (storage.geometry is not None and is_contiguous(storage.geometry))


# ---- writes
def refuse_write(op: Op, target: View[Any]) -> None:
    """A tensor that shows elements several times is not written where its value does not say what was written: where
    it shows them by a stride of 0, or by strides of its own and the operator writes a part. Raises StateError.
    """
    if op.is_splat:
        return
    refuse_repeated(target.geometry())
    has_own = op.put is not None and any([step.view is not None and step.view.is_free for step, _, _ in target.path])
    if has_own and coincide(target.geometry()):
        raise StateError(REPEATED)


def refuse_repeated(shown: Geometry, is_given: bool = False) -> None:
    """A tensor that shows elements several times (stride 0) is not written, as in eager mode. Raises StateError.

    is_given: the strides are a caller's, whose symbols may be 0; else what is 0 is so by structure, and no question.
    """
    if any(type(d) is int and d == 0 for d in shown.dims):
        return
    for dim, stride in zip(shown.dims, shown.strides, strict=True):
        is_zero = shape_env.equal(stride, 0) if is_given else type(stride) is int and stride == 0
        if is_zero and not shape_env.equal(dim, 1) and not any(shape_env.is_zero(d) for d in shown.dims):
            raise StateError(REPEATED)
