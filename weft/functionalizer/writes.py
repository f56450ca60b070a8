"""Writes through views: the base with another value where a path of views looks, by the inverse of every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from weft.catalogue.shapes.twins import coincide
from weft.functionalizer.operators import (
    AS_STRIDED,
    PERMUTE,
    RESHAPE,
    SELECT,
    SLICE,
    VIEW_AS_COMPLEX,
    VIEW_AS_REAL,
    VIEW_BITS,
    scatter_of,
)
from weft.functionalizer.recorder import Recorder
from weft.functionalizer.steps import after
from weft.ops.geometry import Geometry, contiguous, may_repeat
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.support.errors import Unsupported
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.dtype import DType
from weft.types.shape_env import current_env

V = TypeVar("V")
Step = tuple[Op, tuple[Any, ...], int]  # a view operator, its arguments behind the first, and which of its results
Path = tuple[Step, ...]


def replay(recorder: Recorder[V], base: V, path: Sequence[Step]) -> V:
    """What the view at the end of a path shows of a base."""
    for op, args, index in path:
        base = recorder.emit(op, (base, *args))[index]
    return base


def write_path(
    recorder: Recorder[V], base: V, path: Path, new: V, is_splat: bool = False, order: Sequence[int] | None = None
) -> V:
    """The base with `new` in place of what the view at the end of the path shows. is_splat: all elements of `new` are
    equal. order: the dims of a base that does not lie row-major, from the outermost in memory inwards.

    Raises Unsupported where no order of strides tells which elements a write reaches.
    """
    start = _where_elements_repeat(path, is_splat)
    if start is None:
        return _write_steps(recorder, base, path, new)
    if order is not None and not start:  # which views there are hangs on how the base lies
        back = tuple([order.index(i) for i in range(len(order))])
        lying = recorder.emit(PERMUTE, (base, tuple(order)))[0]
        written = _write_elements(recorder, lying, ((PERMUTE, (back,), 0), *path), new, is_splat)
        return recorder.emit(PERMUTE, (written, back))[0]
    written = _write_elements(recorder, replay(recorder, base, path[:start]), path[start:], new, is_splat)
    return write_path(recorder, base, path[:start], written) if start else written


def _write_steps(recorder: Recorder[V], base: V, path: Path, new: V) -> V:
    along = [base]
    for step in path[:-1]:
        along.append(replay(recorder, along[-1], (step,)))
    for (op, args, index), whole in zip(reversed(path), reversed(along), strict=False):
        picked = (index,) if op.schema.gives_several else ()
        if op is AS_STRIDED:
            shown: Geometry = after(op, contiguous(recorder.type_of(whole).shape), args, current_env())
            new = _write_places(recorder, whole, new, shown)
        else:
            new = recorder.emit(scatter_of(op), (whole, new, *picked, *args))[0]
    return new


def _where_elements_repeat(path: Path, is_splat: bool) -> int | None:
    """From which step on the path must be written by elements, for a step shows an element several times; None where
    each step has its inverse.

    A write to a part of what such a step shows reaches all of its copies.
    """
    last = len(path) - 1
    for i, (op, args, _) in enumerate(path):
        if op.view is None or not (may_repeat(args[0], args[1]) if op.view.is_free else op.view.overlaps):
            continue
        if i == last and not (is_splat or op.view.repeats):
            continue
        picked = max((j + 1 for j, (step, _, _) in enumerate(path) if step.view is None), default=0)
        if picked > i:
            raise Unsupported(
                "a write into one of several overlapping windows that a tensor picks; "
                "write into a clone, or pick with a number"
            )
        free = [j for j, (step, _, _) in enumerate(path) if step.view is not None and step.view.is_free]
        return max(picked, *free, 0)
    return None


def _write_elements(recorder: Recorder[V], base: V, path: Path, new: V, is_splat: bool) -> V:
    """The base with `new` where the view's elements lie: the steps joined into one geometry of its memory."""
    kind, target = recorder.type_of(base), recorder.type_of(new)
    geometry: Any = contiguous(kind.shape)
    for op, args, index in path:
        geometry = after(op, geometry, args, current_env())
        geometry = geometry[index] if type(geometry) is tuple else geometry
    kept = [i for i, stride in enumerate(geometry.strides) if type(stride) is not int or stride != 0]
    if any(shape_env.is_zero(d) if i not in kept else d == 0 for i, d in enumerate(geometry.dims)):
        return base
    assert kind.dtype is not None and target.dtype is not None
    steps = memory_as(kind.dtype, target.dtype, dm.product(kind.shape))
    memory = replay(recorder, base, steps)
    for i in reversed(range(geometry.ndim)):
        if i not in kept:  # what may be written to elements shown several times is the same for all of them
            new = recorder.emit(SELECT, (new, i, 0))[0]
    shown = Geometry(tuple(geometry.dims[i] for i in kept), tuple(geometry.strides[i] for i in kept), geometry.offset)
    if is_splat and may_repeat(shown.dims, shown.strides):
        if any(shape_env.is_zero(d) for d in shown.dims):
            return base
        memory = _filled(recorder, memory, shown, new)
    else:
        memory = _write_places(recorder, memory, new, shown)
    return write_path(recorder, base, steps, memory) if steps else memory


def _write_places(recorder: Recorder[Any], memory: Any, new: Any, shown: Geometry) -> Any:
    """The memory with `new` where a geometry looks. Of several elements at one place the last one stays."""
    where = (shown.dims, shown.strides, shown.offset)
    if not may_repeat(shown.dims, shown.strides) or not coincide(shown):
        return recorder.emit(scatter_of(AS_STRIDED), (memory, new, *where))[0]
    count = recorder.type_of(memory).numel
    row = _counted(aten.reshape(memory, (count,)))
    places = aten.reshape(recorder.emit(AS_STRIDED, (row, *where))[0], (-1,))
    latest = aten.scatter_reduce(aten.full_like(row, -1), 0, places, _counted(places), "amax")
    there = aten.index_select(aten.reshape(new, (-1,)), 0, aten.clamp_min(latest, 0))
    dims = recorder.type_of(memory).shape
    return aten.where(aten.reshape(aten.ge(latest, 0), dims), aten.reshape(there, dims), memory)


def _counted(row: Any) -> Any:
    """0, 1, 2, ... for the elements of a row."""
    return aten.sub(aten.cumsum(aten.ones_like(row, dtype=dt.int64), 0), 1)


def _filled(recorder: Recorder[Any], memory: Any, shown: Geometry, new: Any) -> Any:
    """The memory with one value wherever a geometry looks, which may look at an element several times."""
    kind = recorder.type_of(memory)
    reached = aten.as_strided_backward(aten.ones_like(new), kind.shape, shown.dims, shown.strides, shown.offset)
    for i in reversed(range(shown.ndim)):
        new = recorder.emit(SELECT, (new, i, 0))[0]
    return aten.where(aten.ne(reached, 0), new, memory)


def memory_as(dtype: DType, shown: DType, count: Dim) -> Path:
    """The path from a row-major value of `count` elements of a dtype to the same memory as elements of another dtype,
    in a row; what is left at the end and makes no element of it is not shown.
    """
    if dtype is shown:
        return ()
    steps: list[Step] = [(RESHAPE, ((count,),), 0)]
    if dtype.is_complex:
        steps += [(VIEW_AS_REAL, (), 0), (RESHAPE, ((count * 2,),), 0)]
        dtype, count = dtype.to_real(), count * 2
    whole = dm.floordiv(count * dtype.itemsize, shown.itemsize)
    needed = dm.floordiv(whole * shown.itemsize, dtype.itemsize)
    if shown.itemsize > dtype.itemsize and not shape_env.equal(needed, count):
        steps.append((SLICE, (0, 0, needed, 1), 0))
        count = needed
    wanted = shown.to_real() if shown.is_complex else shown
    if wanted is not dtype:
        steps.append((VIEW_BITS, (wanted, dtype.itemsize), 0))
        count = dm.floordiv(count * dtype.itemsize, wanted.itemsize)
    if shown.is_complex:
        steps += [(RESHAPE, ((whole, 2),), 0), (VIEW_AS_COMPLEX, (), 0)]
    return tuple(steps)
